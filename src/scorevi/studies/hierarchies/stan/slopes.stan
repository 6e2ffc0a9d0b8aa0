// Varying intercepts and slopes of J groups, correlated, non-centered.
data {
  int<lower=1> N;
  int<lower=1> J;
  array[N] int<lower=1, upper=J> group;
  vector[N] x;
  vector[N] y;
}
parameters {
  vector[2] beta;
  vector<lower=0>[2] tau;
  cholesky_factor_corr[2] factor;
  matrix[2, J] z;
  real<lower=0> sigma;
}
transformed parameters {
  matrix[2, J] b = rep_matrix(beta, J) + diag_pre_multiply(tau, factor) * z;
}
model {
  beta ~ normal(0, 5);
  tau ~ cauchy(0, 1);
  factor ~ lkj_corr_cholesky(2);
  sigma ~ normal(0, 2);
  to_vector(z) ~ std_normal();
  y ~ normal(to_vector(b[1, group]) + to_vector(b[2, group]) .* x, sigma);
}
