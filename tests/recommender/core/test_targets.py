"""The target of a VPA is resolved, or a sentence says why it cannot be."""

from __future__ import annotations

from collections.abc import Sequence

from app.model.fields import Json
from app.model.kinds import ObjectKey, owner_key
from app.model.selectors import NOTHING, Selector
from app.model.workloads import Absent, Failed, Lookup, LookupResult, scaled_workload
from app.recommender.core.targets import resolve_target
from app.sizing.matching import LookupNeeded
from tests import make
from tests.cases import cases

WEB = Selector.of_labels(make.LABELS)
PARENT = "a topmost well-known or scalable controller"


def scaled(kind_and_name: str, selector: str = "app=web") -> tuple[ObjectKey, LookupResult]:
    """Return a custom controller as its scale shows it."""
    reference = make.reference_json(kind_and_name)
    version, kind, name = (reference[key] for key in ("apiVersion", "kind", "name"))
    scale = {"metadata": {"name": name}, "spec": {"replicas": 1}, "status": {"selector": selector}}
    return owner_key(version, kind, name), scaled_workload("default", version, kind, scale)


def custom(kind: str, found: LookupResult, name: str = "web") -> tuple[ObjectKey, LookupResult]:
    """Return what was found of a custom object of group example.com."""
    return ObjectKey("example.com", kind, name), found


def resolved(
    target: str | None,
    *objects: Json,
    found: Sequence[tuple[ObjectKey, LookupResult]] = (),
    by_kind: bool = False,
) -> tuple[Selector | None, str] | LookupNeeded:
    """Return selector and problem of a VPA's target among some controllers and look-ups."""
    view = make.snapshot(*objects).of("default")
    seen = resolve_target(make.vpa(target=target), view, dict(found), by_kind=by_kind)
    return seen if isinstance(seen, LookupNeeded) else (seen.selector, seen.problem)


@cases(
    "target objects selector",
    {
        "topmost": ("Deployment/web", [make.workload_json("Deployment/web")], WEB),
        "no group": ("v1/Deployment/web", [make.workload_json("Deployment/web")], WEB),
        "by its template's labels": ("CronJob/web", [make.workload_json("CronJob/web")], WEB),
        "by a plain map": (
            "ReplicationController/web",
            [make.workload_json("ReplicationController/web")],
            WEB,
        ),
        "a built-in kind without a selector has no pods, and that is fine": (
            "Deployment/web",
            [make.workload_json("Deployment/web", spec={"selector": None})],
            NOTHING,
        ),
    },
)
def test_selector_of_target(target: str, objects: list[Json], selector: Selector) -> None:
    """A built-in target without an owner says which pods are meant."""
    assert resolved(target, *objects) == (selector, "")


@cases(
    "target found selector",
    {
        "own": ("example.com/v1/Shop/web", [scaled("example.com/v1/Shop/web")], WEB),
        "owned by what is not scaled": ("Deployment/web", [custom("Shop", Absent())], WEB),
    },
)
def test_custom_controllers(
    target: str, found: list[tuple[ObjectKey, LookupResult]], selector: Selector
) -> None:
    """A custom kind counts by its scale, and not at all without one."""
    deployment = make.workload_json("Deployment/web", owner="example.com/v1/Shop/web")
    assert resolved(target, deployment, found=found) == (selector, "")


@cases(
    "target objects found problem",
    {
        "none": (
            None,
            [],
            [],
            "Cannot read targetRef. Reason: targetRef not defined. "
            "If this is a v1beta1 object, switch to v1",
        ),
        "missing": (
            "Deployment/web",
            [],
            [(ObjectKey("", "Deployment", "web"), Absent())],
            "Cannot read targetRef. Reason: Deployment default/web does not exist",
        ),
        "not answered": (
            "Deployment/web",
            [],
            [(ObjectKey("", "Deployment", "web"), Failed("no answer"))],
            "Cannot read targetRef. Reason: no answer",
        ),
        "custom without a scale": (
            "example.com/v1/Shop/web",
            [],
            [custom("Shop", Absent())],
            "Cannot read targetRef. Reason: "
            "unhandled targetRef example.com/v1 / Shop / web, last error it cannot be scaled",
        ),
        "custom that cannot be read": (
            "example.com/v1/Shop/web",
            [],
            [custom("Shop", Failed("forbidden"))],
            "Cannot read targetRef. Reason: "
            "unhandled targetRef example.com/v1 / Shop / web, last error forbidden",
        ),
        "custom whose scale says nothing about pods": (
            "example.com/v1/Shop/web",
            [],
            [scaled("example.com/v1/Shop/web", "")],
            "Cannot read targetRef. Reason: "
            "unhandled targetRef example.com/v1 / Shop / web, last error "
            "resource default/web has an empty selector for scale sub-resource",
        ),
        "owned": (
            "ReplicaSet/web-1",
            [
                make.workload_json("ReplicaSet/web-1", owner="Deployment/web"),
                make.workload_json("Deployment/web"),
            ],
            [],
            "The target apps/v1.ReplicaSet/web-1 has a parent controller but it should "
            f"point to {PARENT}",
        ),
        "owned by what is scaled": (
            "Deployment/web",
            [make.workload_json("Deployment/web", owner="example.com/v1/Shop/web")],
            [scaled("example.com/v1/Shop/web")],
            "The target apps/v1.Deployment/web has a parent controller but it should "
            f"point to {PARENT}",
        ),
        "owned by what is missing": (
            "ReplicaSet/web-1",
            [make.workload_json("ReplicaSet/web-1", owner="Deployment/web")],
            [(ObjectKey("", "Deployment", "web"), Absent())],
            f"Error checking if target apps/v1.ReplicaSet/web-1 is {PARENT}: "
            "Deployment default/web does not exist",
        ),
        "owned by what cannot be read": (
            "Deployment/web",
            [make.workload_json("Deployment/web", owner="example.com/v1/Shop/web")],
            [custom("Shop", Failed("forbidden"))],
            f"Error checking if target apps/v1.Deployment/web is {PARENT}: "
            "unhandled targetRef example.com/v1 / Shop / web, last error forbidden",
        ),
        "owned by a node": (
            "Deployment/web",
            [make.workload_json("Deployment/web", owner="v1/Node/node-1")],
            [],
            f"Error checking if target apps/v1.Deployment/web is {PARENT}: "
            "unhandled targetRef v1 / Node / node-1, last error node is not a valid owner",
        ),
        "a circle": (
            "ReplicaSet/a",
            [
                make.workload_json("ReplicaSet/a", owner="ReplicaSet/b"),
                make.workload_json("ReplicaSet/b", owner="ReplicaSet/a"),
            ],
            [],
            f"Error checking if target apps/v1.ReplicaSet/a is {PARENT}: "
            "cycle detected in ownership chain",
        ),
    },
)
def test_problems(
    target: str | None,
    objects: list[Json],
    found: list[tuple[ObjectKey, LookupResult]],
    problem: str,
) -> None:
    """A target that cannot be used selects nothing, and a sentence names what is wrong."""
    assert resolved(target, *objects, found=found) == (None, problem)


@cases(
    "target objects lookup",
    {
        "the target": (
            "Deployment/web",
            [],
            Lookup("default", "apps/v1", "Deployment", "web", ObjectKey("", "Deployment", "web")),
        ),
        "its owner": (
            "Deployment/web",
            [make.workload_json("Deployment/web", owner="example.com/v1/Shop/web")],
            Lookup(
                "default", "example.com/v1", "Shop", "web", ObjectKey("example.com", "Shop", "web")
            ),
        ),
    },
)
def test_what_is_not_known_is_looked_up(target: str, objects: list[Json], lookup: Lookup) -> None:
    """Nothing is guessed: the answer names what to look for."""
    assert resolved(target, *objects) == LookupNeeded(lookup)


def test_kinds_of_foreign_groups() -> None:
    """A foreign kind with a built-in name is its own kind, but not for upstream."""
    target, deployment = "example.com/v1/Deployment/web", make.workload_json("Deployment/web")
    assert isinstance(resolved(target, deployment), LookupNeeded)
    assert resolved(target, deployment, by_kind=True) == (WEB, "")
