"""Recorded usage, played through the recommender."""
