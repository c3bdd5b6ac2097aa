"""What a Lease stands for that is seen once."""

from __future__ import annotations

from datetime import timedelta

from app.diagnosis.named_leases import NO_RIGHT, standing_of, with_named_leases
from app.model.fields import Json
from app.model.role_leases import LeaseStanding, LeaseState
from tests import make
from tests.cases import cases


@cases(
    "renewed state",
    {
        "just now": (timedelta(seconds=2), LeaseState.HELD),
        "within its duration": (timedelta(seconds=14), LeaseState.HELD),
        "within two more": (timedelta(seconds=40), LeaseState.KEPT),
        "long ago": (timedelta(days=9), LeaseState.VACANT),
        "by a clock that is ahead": (timedelta(hours=-1), LeaseState.HELD),
        "at a time that is none": ("soon", LeaseState.HELD),
        "at a time that is an object": ({}, LeaseState.HELD),
    },
)
def test_its_last_renewal_counts(renewed: object, state: LeaseState) -> None:
    """It is held for its duration since its holder renewed it, and believed for two more."""
    told = make.time(renewed) if isinstance(renewed, timedelta) else renewed
    found = standing_of(make.lease_json(spec={"renewTime": told}), make.NOW)
    assert found.state is state


@cases(
    "read state",
    {
        "there is none": (None, LeaseState.MISSING),
        "there is no right": (NO_RIGHT, LeaseState.FORBIDDEN),
        "it has no spec": ({"metadata": {"name": "web"}}, LeaseState.VACANT),
        "its spec is a list": ({"spec": [1]}, LeaseState.UNREADABLE),
        "it is held": (make.lease_json(), LeaseState.HELD),
    },
)
def test_leases_that_are_named(read: Json | LeaseStanding | None, state: LeaseState) -> None:
    """Only what VPAs name is read, and what cannot be read is known as well."""
    vpa = make.vpa_json(
        annotations={"plumbline/role-lease": "role=web"},
        selector={"matchLabels": {"role": "leader"}},
    )
    asked: list[tuple[str, str]] = []

    def reads(namespace: str, name: str) -> Json | LeaseStanding | None:
        asked.append((namespace, name))
        return read

    snapshot = make.snapshot(vpa, make.workload_json())
    found = with_named_leases(snapshot, reads, make.NOW).of("default").leases
    assert asked == [("default", "web")]
    assert {name: one.state for name, one in found.items()} == {"web": state}
