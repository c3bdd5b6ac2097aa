"""What the updater decides, from values alone."""
