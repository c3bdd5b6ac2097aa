"""Doors to the outside, each behind a port."""
