"""What things are: frozen values, read from and written to the Kubernetes API."""
