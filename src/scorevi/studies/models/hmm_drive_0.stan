// Two hidden states of a basketball drive; speed and distance to the hoop are exponential.
data {
  int<lower=1> K;
  int<lower=1> N;
  array[N] real u;
  array[N] real v;
  matrix<lower=0>[K, K] alpha;
}
parameters {
  simplex[K] theta1;
  simplex[K] theta2;
  positive_ordered[K] phi;
  positive_ordered[K] lambda;
}
model {
  theta1 ~ dirichlet(alpha[1]');
  theta2 ~ dirichlet(alpha[2]');
  phi[1] ~ normal(0, 1);
  phi[2] ~ normal(3, 1);
  lambda[1] ~ normal(0, 1);
  lambda[2] ~ normal(3, 1);
  {
    // The forward recursion; the first step has no initial-state probability.
    matrix[K, K] log_transition = log(append_row(theta1', theta2'));
    vector[K] forward;
    for (t in 1 : N) {
      vector[K] emission;
      for (k in 1 : K) {
        emission[k] = exponential_lpdf(u[t] | phi[k]) + exponential_lpdf(v[t] | lambda[k]);
      }
      if (t == 1) {
        forward = emission;
      } else {
        vector[K] arriving;
        for (k in 1 : K) {
          arriving[k] = log_sum_exp(forward + log_transition[ : , k]);
        }
        forward = arriving + emission;
      }
    }
    target += log_sum_exp(forward);
  }
}
