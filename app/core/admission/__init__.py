"""Decisions about pods and VPAs under admission: pure, from a review to a verdict with reasons."""
