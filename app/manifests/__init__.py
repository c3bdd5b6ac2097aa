"""What is applied to a cluster, as files, and the rights that our processes need there."""
