"""The page: every workload, its usage, its numbers and every reason, in a browser."""
