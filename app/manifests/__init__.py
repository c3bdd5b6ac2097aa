"""Documents that are applied to a cluster, built from the code."""
