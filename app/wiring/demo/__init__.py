"""A small cluster to try the webhook on, and reviews to ask it."""
