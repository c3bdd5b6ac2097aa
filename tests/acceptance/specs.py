"""Short words for parts of a VPA's spec."""

from __future__ import annotations

from tests.cluster.api import Json


def mode(word: str) -> Json:
    """Return the spec of a VPA in a mode."""
    return {"updatePolicy": {"updateMode": word}}


def policy(**fields: object) -> Json:
    """Return the spec of a VPA with a policy for all containers."""
    return {"resourcePolicy": {"containerPolicies": [{"containerName": "*", **fields}]}}


def boost(**cpu: object) -> Json:
    """Return the spec of a VPA with a startup boost."""
    return {"startupBoost": {"cpu": cpu}}


def selecting(**labels: str) -> Json:
    """Return the spec of a VPA for pods with some labels."""
    return {"selector": {"matchLabels": labels}}


def extremes(kind: str, **bounds: str) -> Json:
    """Return a LimitRange item, its bounds written `cpu/memory`."""
    split = {word: text.partition("/") for word, text in bounds.items()}
    return {
        "type": kind,
        **{
            word: {name: part for name, part in (("cpu", cpu), ("memory", memory)) if part}
            for word, (cpu, _, memory) in split.items()
        },
    }
