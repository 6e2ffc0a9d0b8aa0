"""Stan programs that several tests share, so that each is compiled once."""

from pathlib import Path

TRANSFORMS = """
data {
  int<lower=0> n;
}
parameters {
  real<lower=0> positive;
  real<upper=3> below;
  real<lower=2, upper=5> interval;
  real<offset=10, multiplier=0.5> shifted;
  array[2] simplex[3] shares;
  ordered[3] rising;
  positive_ordered[3] rising_positive;
  cholesky_factor_corr[3] corr_factor;
  corr_matrix[2] corr;
  cov_matrix[2] cov;
  cholesky_factor_cov[2] cov_factor;
  array[2] unit_vector[3] direction;
  matrix<lower=0>[2, 3] table;
  array[2] vector<lower=0>[3] vectors;
  array[2, 2] matrix[2, 3] deep;
}
transformed parameters {
  array[2] matrix[2, 3] scaled;
  for (i in 1 : 2) {
    scaled[i] = 10 * deep[i, 1];
  }
}
model {
  // Each is chosen so that its posterior is known, and Gaussian or nearly so once unconstrained.
  positive ~ lognormal(log(7), 0.1);
  log(3 - below) ~ normal(1, 0.2);
  target += -log(3 - below);
  logit((interval - 2) / 3) ~ normal(0.5, 0.3);
  target += -log(interval - 2) - log(5 - interval);
  shifted ~ normal(12, 0.25);
  shares[1] ~ dirichlet([200, 300, 500]');
  shares[2] ~ dirichlet([500, 400, 100]');
  rising ~ normal([-1, 0, 2]', 0.1);
  rising_positive ~ normal([1, 2, 4]', 0.1);
  corr_factor ~ lkj_corr_cholesky(100);
  corr ~ lkj_corr(200);
  cov ~ wishart(400, [[2, 0.6], [0.6, 1]] / 400);
  cov_factor[1, 1] ~ lognormal(0, 0.1);
  cov_factor[2, 1] ~ normal(0.5, 0.1);
  cov_factor[2, 2] ~ lognormal(log(2), 0.1);
  target += 10 * (direction[1, 1] + direction[2, 3]);
  for (i in 1 : 2) {
    for (j in 1 : 3) {
      table[i, j] ~ lognormal(log(i + 0.1 * j), 0.1);
      vectors[i, j] ~ lognormal(log(i + 0.1 * j), 0.1);
      for (a in 1 : 2) {
        for (b in 1 : 2) {
          deep[a, b, i, j] ~ normal(2 * a + b + 0.5 * i + 0.1 * j, 0.1);
        }
      }
    }
  }
}
"""

PROGRAMS = Path(__file__).parent / "languages" / "programs"
"""Programs in files. A program is compiled anew for each folder that it looks into for what it
includes, so they stay where they are."""

REGRESSION = (PROGRAMS / "line.stan").read_text()
