"""Whether to believe a fit: the verdict, and the evidence that it joins."""
