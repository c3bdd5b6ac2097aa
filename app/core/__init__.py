"""What should happen: decisions as values with reasons, from values alone."""
