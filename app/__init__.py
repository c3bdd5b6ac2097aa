"""Plumbline: a Vertical Pod Autoscaler for Kubernetes that can say why."""
