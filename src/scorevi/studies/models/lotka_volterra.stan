// Lynx and hare as predator and prey, observed with log-normal errors.
functions {
  vector change(real t, vector z, array[] real theta) {
    real prey = z[1];
    real predator = z[2];
    return [(theta[1] - theta[2] * predator) * prey,
            (theta[4] * prey - theta[3]) * predator]';
  }
}
data {
  int<lower=0> N;
  array[N] real ts;
  array[2] real y_init;
  array[N, 2] real<lower=0> y;
}
parameters {
  array[4] real<lower=0> theta;
  array[2] real<lower=0> z_init;
  array[2] real<lower=0> sigma;
}
transformed parameters {
  array[N] vector[2] z = ode_rk45_tol(change, to_vector(z_init), 0, ts, 1e-5, 1e-3, 500, theta);
}
model {
  theta[{1, 3}] ~ normal(1, 0.5);
  theta[{2, 4}] ~ normal(0.05, 0.05);
  sigma ~ lognormal(-1, 1);
  z_init ~ lognormal(log(10), 1);
  y_init ~ lognormal(log(z_init), sigma);
  for (k in 1 : 2) {
    y[ : , k] ~ lognormal(log(z[ : , k]), sigma[k]);
  }
}
