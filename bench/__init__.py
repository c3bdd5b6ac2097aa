"""Benchmarks: each prints ratios of things measured in the same run."""
