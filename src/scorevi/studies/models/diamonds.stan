// A linear regression on centred predictors; the first column of X is the intercept's.
data {
  int<lower=1> N;
  int<lower=1> K;
  vector[N] Y;
  matrix[N, K] X;
  int<lower=0, upper=1> prior_only;
}
transformed data {
  matrix[N, K - 1] Xc;
  for (k in 2 : K) {
    Xc[ : , k - 1] = X[ : , k] - mean(X[ : , k]);
  }
}
parameters {
  vector[K - 1] b;
  real Intercept;
  real<lower=0> sigma;
}
model {
  b ~ std_normal();
  Intercept ~ student_t(3, 8, 10);
  sigma ~ student_t(3, 0, 10);
  if (!prior_only) {
    Y ~ normal_id_glm(Xc, Intercept, b, sigma);
  }
}
