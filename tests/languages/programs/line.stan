functions {
#include shared.stan
}
data {
  int<lower=0> N;
  vector[N] x;
  array[N] real y;
}
transformed data {
  print("N is ", N);
  real noise = normal_rng(0, 1);
}
parameters {
  real a;
  real b;
  real<lower=0> sigma;
}
transformed parameters {
  vector[N] location = line(a, b, x);
  if (a > 2) {
    reject("a is too large: ", a);
  }
}
model {
  a ~ normal(0, 1);
  b ~ normal(0, 1);
  sigma ~ exponential(1);
  y ~ normal(location, sigma);
}
generated quantities {
  real drawn = normal_rng(0, 1);
  real noise_of_data = noise;
  complex z = to_complex(a, b);
  tuple(real, vector[2]) pair = (a, [a, b]');
  vector[N] log_lik;
  for (n in 1 : N) {
    log_lik[n] = normal_lpdf(y[n] | location[n], sigma);
  }
}
