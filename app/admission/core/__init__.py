"""What the webhook decides, from values alone."""
