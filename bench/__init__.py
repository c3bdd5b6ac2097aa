"""Benchmarks: ours beside upstream and beside plain work, measured in the same run."""
