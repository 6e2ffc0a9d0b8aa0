// An autoregression of order K.
data {
  int<lower=0> K;
  int<lower=K> T;
  array[T] real y;
}
parameters {
  real alpha;
  array[K] real beta;
  real<lower=0> sigma;
}
model {
  vector[T] series = to_vector(y);
  vector[T - K] location = rep_vector(alpha, T - K);
  for (k in 1 : K) {
    location += beta[k] * series[(K + 1 - k) : (T - k)];
  }
  alpha ~ normal(0, 10);
  beta ~ normal(0, 10);
  sigma ~ cauchy(0, 2.5);
  series[(K + 1) : T] ~ normal(location, sigma);
}
