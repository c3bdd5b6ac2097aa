"""What to do with running pods, and why."""
