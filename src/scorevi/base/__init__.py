"""What all rooms share: arrays, the protocol of a target, pairs, noise, counting, status, files."""
