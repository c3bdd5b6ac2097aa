"""Credentials of clouds for Prometheus, without their SDKs."""
