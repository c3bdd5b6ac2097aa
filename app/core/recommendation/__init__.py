"""What usage teaches: histograms, estimates, checkpoints."""
