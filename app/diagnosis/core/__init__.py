"""What is wrong and what would happen next, from values alone."""
