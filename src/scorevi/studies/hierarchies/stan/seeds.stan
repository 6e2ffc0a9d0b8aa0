// Binomial counts of I plates with an effect each, centered, and a vague prior of its precision.
data {
  int<lower=1> I;
  int<lower=1> K;
  matrix[I, K] X;
  array[I] int<lower=0> n;
  array[I] int<lower=0> r;
}
parameters {
  vector[K] beta;
  vector[I] b;
  real<lower=0> precision;
}
model {
  beta ~ normal(0, 1000);
  precision ~ gamma(0.001, 0.001);
  b ~ normal(0, inv_sqrt(precision));
  r ~ binomial_logit(n, X * beta + b);
}
