// Linear regression with a regularised horseshoe prior (Piironen and Vehtari 2017), non-centered.
data {
  int<lower=1> N;
  int<lower=1> p;
  matrix[N, p] X;
  vector[N] y;
  real<lower=0> tau_scale;
  real<lower=0> freedom;
  real<lower=0> slab;
}
parameters {
  real alpha;
  vector[p] z;
  vector<lower=0>[p] lambda;
  real<lower=0> tau;
  real<lower=0> slab_variance;
  real<lower=0> sigma;
}
transformed parameters {
  vector[p] beta;
  {
    vector[p] local = square(tau * lambda);
    beta = z .* sqrt(slab_variance * local ./ (slab_variance + local));
  }
}
model {
  alpha ~ normal(0, 5);
  z ~ std_normal();
  lambda ~ cauchy(0, 1);
  tau ~ cauchy(0, tau_scale);
  slab_variance ~ inv_gamma(freedom / 2, freedom * square(slab) / 2);
  sigma ~ normal(0, 2);
  y ~ normal(alpha + X * beta, sigma);
}
