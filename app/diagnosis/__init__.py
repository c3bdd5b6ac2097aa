"""Facts about a cluster and an installation, for all who explain them."""
