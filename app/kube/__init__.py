"""Doors to a cluster: client, watch cache, look-ups of owners, files that stand for a cluster."""
