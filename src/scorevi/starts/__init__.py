"""Where q begins; every way returns a q and the pairs that it paid for."""
