"""Makes the families of series that a process publishes under one prefix."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from app.runtime.buckets import Buckets


class Families:
    """Each is one call: what it is called, what it means, by what it is told apart."""

    def __init__(self, registry: CollectorRegistry, prefix: str) -> None:
        self._registry = registry
        self._prefix = prefix

    def counter(self, name: str, meaning: str, *labels: str) -> Counter:
        """Return something that only grows."""
        return Counter(f"{self._prefix}_{name}", meaning, labels, registry=self._registry)

    def gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        """Return something that is set."""
        return Gauge(f"{self._prefix}_{name}", meaning, labels, registry=self._registry)

    def histogram(self, name: str, meaning: str, buckets: Buckets, *labels: str) -> Histogram:
        """Return how something is spread."""
        called = f"{self._prefix}_{name}"
        return Histogram(called, meaning, labels, buckets=buckets, registry=self._registry)
