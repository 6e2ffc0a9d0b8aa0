"""One run: the only loop, its compiled twin, batches, bad scores, the stop rule, checkpoints."""
