"""The model of `--parity=upstream`, whole: the numbers of the upstream autoscaler."""
