"""What `plumbline run` shows in a terminal."""
