"""Upstream's model of a cluster, weaknesses included, for those who ask for exactly that."""
