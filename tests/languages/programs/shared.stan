vector line(real a, real b, vector x) {
  return a + b * x;
}
