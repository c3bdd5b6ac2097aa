"""What is applied to a cluster, as files, and how they are read."""
