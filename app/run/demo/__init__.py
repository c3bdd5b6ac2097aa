"""The shop that `plumbline run` plays, and the files that its commands need."""
