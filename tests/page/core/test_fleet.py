"""The fleet is what a viewer may see, in the order and with the filters that are asked for."""

from __future__ import annotations

from datetime import timedelta

from app.diagnosis.core.attention import Attention, Status
from app.model.kinds import ObjectKey
from app.page.core.fleet import FleetQuery, FleetView, Only, Sort, fleet_view, namespace_rows
from app.page.core.rows import ResourceTotals, WorkloadRow
from app.page.core.written import page_json, view_json
from tests import make
from tests.cases import cases

BLOCKED = Status(Attention.BLOCKED, "blocked: PDB")


def one(name: str, namespace: str = "shop", **more: object) -> WorkloadRow:
    """Return the row of a Deployment under a VPA."""
    fields: dict[str, object] = {
        "vpa": name,
        "mode": "Recreate",
        "pods": 1,
        "cpu": ResourceTotals(),
        "memory": ResourceTotals(),
        "reason": "NoChange",
        "status": Status(Attention.FINE, "ok"),
        "reasons": (("NoChange", 1),),
    }
    return WorkloadRow(
        namespace=namespace,
        workload=ObjectKey("", "Deployment", name),
        **(fields | more),  # type: ignore[arg-type]  # a table of words
    )


ROWS = [
    one("a", held=("HPA",), pods=3, cpu=ResourceTotals(2000, 1000, saving=1000), confidence=0.5),
    one(
        "b",
        memory=ResourceTotals(1, 2, shortage=8 * 2**30),
        reason="PDBBlocked",
        reasons=(),
        status=BLOCKED,
    ),
    one("c", as_of=make.NOW - timedelta(hours=1), killed_at=make.NOW - timedelta(hours=2)),
    one("d", vpa="", mode="", reason="NotSized", reasons=()),
    one("z", namespace="secret", pods=9),
]


def view(query: FleetQuery) -> FleetView:
    """Return what is seen of these rows by all but the secret namespace."""
    fleet = {
        namespace: namespace_rows(
            namespace, [row for row in ROWS if row.namespace == namespace], make.NOW
        )
        for namespace in ("shop", "secret")
    }
    return fleet_view(fleet, query, lambda namespace: namespace != "secret", make.NOW)


@cases(
    "query names",
    {
        "the usual order": (FleetQuery(), "bacd"),
        "by CPU": (FleetQuery(sort=Sort.CPU), "abcd"),
        "by memory": (FleetQuery(sort=Sort.MEMORY), "bacd"),
        "by name": (FleetQuery(sort=Sort.NAME), "abcd"),
        "by pods": (FleetQuery(sort=Sort.PODS), "abcd"),
        "by status": (FleetQuery(sort=Sort.STATUS), "bacd"),
        "only blocked": (FleetQuery(only=Only.BLOCKED), "b"),
        "only held": (FleetQuery(only=Only.HELD), "a"),
        "only killed": (FleetQuery(only=Only.KILLED), "c"),
        "only without a VPA": (FleetQuery(only=Only.UNSIZED), "d"),
        "by confidence": (FleetQuery(sort=Sort.CONFIDENCE), "bcad"),
        "by age": (FleetQuery(sort=Sort.AGE), "abcd"),
        "of a namespace": (FleetQuery(namespace="shop"), "bacd"),
        "of one that may not be seen": (FleetQuery(namespace="secret"), ""),
        "with a reason": (FleetQuery(reason="PDBBlocked"), "b"),
        "with the reason of a pod": (FleetQuery(reason="NoChange"), "ac"),
        "with words": (FleetQuery(words="DEPLOYMENT/a recreate"), "a"),
        "with a word that none has": (FleetQuery(words="a nothing"), ""),
    },
)
def test_rows_are_chosen_and_sorted(query: FleetQuery, names: str) -> None:
    """Filters narrow the rows, and an order has those without a VPA last."""
    assert "".join(row.name for row in view(query).rows) == names


def test_sums_are_of_what_may_be_seen() -> None:
    """Neither sums nor counts tell of other namespaces, and filters do not change them."""
    found = view(FleetQuery(words="nothing"))
    assert (found.sums.sized, found.sums.unsized, found.sums.pods) == (3, 1, 5)
    assert found.sums.cpu == ResourceTotals(2000, 1000, saving=1000)
    assert (found.sums.blocked, found.sums.held, found.sums.killed) == (1, 1, 1)
    assert found.sums.reasons == {"NoChange": 2}
    assert (found.namespaces, found.found, found.is_empty) == (["shop"], 0, False)


def test_who_may_see_nothing_is_told_so() -> None:
    """An empty fleet is marked, so that the page says why."""
    assert fleet_view({}, FleetQuery(), lambda _: True, make.NOW).is_empty


def test_a_view_is_written_as_it_is() -> None:
    """JSON has the same names and values, and leaves out what is not there."""
    told = page_json(one("a", as_of=make.NOW, killed_at=None))
    assert told["asOf"] == "2026-01-05T10:00:00Z"
    assert told["workload"] == "Deployment/a"
    assert "killedAt" not in told
    assert told["reasons"] == [["NoChange", 1]]
    assert view_json({"kept": timedelta(seconds=5), "amount": make.quantity("1")}) == {
        "kept": 5.0,
        "amount": "1",
    }
    assert view_json(ValueError("told")) == "told"
