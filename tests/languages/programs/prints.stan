data { int n; array[n] real y; }
parameters { real mu; }
model { print("at ", mu); y ~ normal(mu, 1); }
generated quantities {
  array[n] real y_rep;
  for (i in 1 : n) y_rep[i] = normal_rng(mu, 1);
}
