"""What a schema can ask for beyond what our own definitions do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from app.model.errors import Conflict, Invalid, TooMany
from app.ports import CUSTOM_RESOURCE_DEFINITIONS, Cluster, Json, Ref, Resource
from tests.cases import cases
from tests.contract.building import definition
from tests.contract.space import Space

GROUP = "schemas.plumbline.example"
GADGETS = Resource(GROUP, "v1", "gadgets", "Gadget")
SPEC: Json = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "default": 3, "maximum": 9, "format": "int32"},
        "ratio": {"type": "number", "minimum": 0},
        "word": {"type": "string", "minLength": 2, "maxLength": 4},
        "since": {"type": "string", "format": "date-time"},
        "names": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
        "on": {"type": "boolean"},
        "maybe": {"type": "string", "nullable": True},
        "parts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"kind": {"type": "string", "default": "plain"}},
            },
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "either": {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
        },
        "fixed": {
            "type": "string",
            "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "fixed stays as it is"}
            ],
        },
    },
    "x-kubernetes-validations": [
        {"rule": "!has(self.names) || self.names.all(n, n != 'no')", "message": "no no"},
        {"rule": "!has(self.ratio) || self.size > 0", "message": "a ratio needs a size"},
    ],
}
DEFINITION = definition("Gadget", GROUP, {"properties": {"spec": SPEC}})


def gadget(**spec: object) -> Json:
    """An object of the kind."""
    return {
        "apiVersion": GADGETS.api_version,
        "kind": "Gadget",
        "metadata": {"name": "g"},
        "spec": spec,
    }


@pytest.fixture
def gadgets(space: Space) -> Iterator[Space]:
    """A namespace in which gadgets can be made."""
    definitions, name = CUSTOM_RESOURCE_DEFINITIONS, DEFINITION["metadata"]["name"]
    space.cluster.create(Ref(definitions), DEFINITION)
    space.eventually(lambda: space.create(GADGETS, gadget(), dry_run=True))
    yield space
    space.cluster.delete(Ref(definitions, "", name))

    left = f"metadata.name={name}"
    space.eventually(lambda: not space.cluster.list(definitions, field_selector=left).items)


def test_what_goes_in(gadgets: Space) -> None:
    """Defaults are filled in, also below lists; what is free stays free."""
    body = gadget(
        parts=[{"other": 1}, {"kind": "odd"}],
        free={"any": {"thing": [1]}},
        labels={"a": "b"},
        maybe=None,
        either="5%",
        ratio=2,
        since="2026-01-01T00:00:00Z",
    )
    created = gadgets.create(GADGETS, body)

    assert created["spec"] == {
        "size": 3,
        "parts": [{"kind": "plain"}, {"kind": "odd"}],
        "free": {"any": {"thing": [1]}},
        "labels": {"a": "b"},
        "maybe": None,
        "either": "5%",
        "ratio": 2,
        "since": "2026-01-01T00:00:00Z",
    }
    assert created["metadata"]["generation"] == 1


@cases(
    "spec message",
    {
        "maximum": ({"size": 10}, "should be less than or equal to 9"),
        "no integer": ({"size": 1.5}, "spec.size: Invalid value: "),
        "minimum": ({"ratio": -1}, "should be greater than or equal to 0"),
        "too short": ({"word": "x"}, "should be at least 2 chars long"),
        "too long": ({"word": "xxxxx"}, "may not be (more|longer) than 4"),
        "no time": ({"since": "now"}, "must be of type date-time"),
        "too few": ({"names": []}, "should have at least 1 items"),
        "too many": ({"names": ["a", "b", "c"]}, "must have at most 2 items"),
        "no boolean": ({"on": "yes"}, "must be of type boolean"),
        "no string below": ({"labels": {"a": 1}}, "must be of type string"),
        "neither": ({"either": True}, "spec.either: Invalid value: "),
        "a rule about a list": ({"names": ["no"]}, "no no"),
        "a rule about both": ({"ratio": 1, "size": 0}, "a ratio needs a size"),
    },
)
def test_what_does_not(gadgets: Space, spec: Json, message: str) -> None:
    """What the schema does not allow is refused."""
    with pytest.raises(Invalid, match=message) as refused:
        gadgets.create(GADGETS, gadget(**spec))

    assert refused.value.status == 422


def test_rules_about_changes(gadgets: Space) -> None:
    """A rule may compare with what was before; for a new object it says nothing."""
    gadgets.create(GADGETS, gadget(fixed="a"))
    same = {"spec": {"fixed": "a", "size": 4}}
    changed = gadgets.merge(GADGETS, "g", same)

    assert changed["metadata"]["generation"] == 2
    with pytest.raises(Invalid, match="fixed stays as it is"):
        gadgets.merge(GADGETS, "g", {"spec": {"fixed": "b"}})


def test_objects_go_with_their_definition(gadgets: Space) -> None:
    """A definition that is deleted and made again begins without objects."""
    gadgets.create(GADGETS, gadget())
    cluster = gadgets.cluster
    ref = Ref(CUSTOM_RESOURCE_DEFINITIONS, "", DEFINITION["metadata"]["name"])
    uid = cluster.get(ref)["metadata"]["uid"]
    cluster.delete(ref, uid=uid)

    def made_again() -> bool:
        with suppress(Conflict):  # the old one is still on its way out
            cluster.create(Ref(CUSTOM_RESOURCE_DEFINITIONS), DEFINITION)
        return bool(cluster.get(ref)["metadata"]["uid"] != uid)

    def is_empty() -> bool:
        with suppress(TooMany):  # while the API server makes the new storage
            return not gadgets.items(GADGETS)
        return False

    gadgets.eventually(made_again)

    assert gadgets.eventually(is_empty)


def test_rules_that_are_none(cluster: Cluster) -> None:
    """A definition with a broken rule is refused."""
    broken = {**SPEC, "x-kubernetes-validations": [{"rule": "self.size >"}]}
    widgets = definition("Widget", GROUP, {"properties": {"spec": broken}})

    with pytest.raises(Invalid):
        cluster.create(Ref(CUSTOM_RESOURCE_DEFINITIONS), widgets)
