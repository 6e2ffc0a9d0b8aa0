// Varying intercepts of J groups, centered.
data {
  int<lower=1> N;
  int<lower=1> J;
  array[N] int<lower=1, upper=J> group;
  vector[N] x;
  vector[N] y;
}
parameters {
  real mu;
  real beta;
  vector[J] alpha;
  real<lower=0> tau;
  real<lower=0> sigma;
}
model {
  mu ~ normal(0, 10);
  beta ~ normal(0, 5);
  tau ~ normal(0, 2);
  sigma ~ normal(0, 2);
  alpha ~ normal(mu, tau);
  y ~ normal(alpha[group] + beta * x, sigma);
}
