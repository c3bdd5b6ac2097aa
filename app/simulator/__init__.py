"""The same decisions over recorded usage, without a cluster."""
