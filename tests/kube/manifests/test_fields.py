"""The fields of the schemas are the fields that the model reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from app.model.vpa import read_vpa
from app.recommender.core.checkpoints import read_checkpoint
from tests.cases import cases
from tests.kube.manifests.definitions import CHECKPOINT, VPA
from tests.kube.manifests.structural import fields

SAMPLES = {"operator": "In", "duration": "1s", "version": "v3"}
OF_TYPES: Mapping[str, object] = {"string": "a", "integer": 1, "number": 1}


class Watched(dict[str, object]):
    """An object that notes which of its keys are asked for."""

    def __init__(self, path: str, values: Mapping[str, object], asked: set[str]) -> None:
        super().__init__(values)
        self._prefix, self._asked = f"{path}." if path else "", asked

    def get(self, key: str, default: object = None) -> object:
        """Note the key."""
        self._asked.add(self._prefix + key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> object:
        self._asked.add(self._prefix + key)
        return super().__getitem__(key)


def sample(schema: Mapping[str, Any], name: str, path: str, asked: set[str]) -> object:
    """Return a value with every field that a schema has."""
    if "properties" in schema:
        below = schema["properties"].items()
        values = {key: sample(each, key, f"{path}.{key}".lstrip("."), asked) for key, each in below}
        return Watched(path, values, asked)
    if schema.get("type") == "array":
        return [sample(schema["items"], name, f"{path}[]", asked)]
    if schema.get("type") == "object":
        return {}
    if schema.get("format") == "date-time":
        return "2026-01-05T00:00:00Z"
    return SAMPLES.get(name, schema.get("enum", [OF_TYPES.get(schema.get("type", ""), "1")])[0])


def named(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields below spec and status."""
    for path, _ in fields(schema):
        if path.startswith(("spec", "status")) and not path.endswith(("[]", "{}")):
            yield path


@cases("schema read", {"vpa": (VPA, read_vpa), "checkpoint": (CHECKPOINT, read_checkpoint)})
def test_every_field_is_read(schema: Mapping[str, Any], read: Callable[[Any], object]) -> None:
    """No field is read that an API server would drop, and none is offered that nothing reads."""
    asked: set[str] = set()
    read(sample(schema, "", "", asked))

    found = {path for path in asked if path.startswith(("spec", "status"))}
    assert found == set(named(schema))
