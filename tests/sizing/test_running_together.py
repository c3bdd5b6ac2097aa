"""Containers of a pod that run at the same time."""

from __future__ import annotations

import pytest

from app.model.fields import Json
from app.model.pods import read_pod
from app.sizing.running_together import running_together
from tests import make


def starting(*names: str) -> list[Json]:
    """Return init containers; those that begin with `s` run on."""
    return [
        make.container_json(name, cpu=name[1:])
        | ({"restartPolicy": "Always"} if name.startswith("s") else {})
        for name in names
    ]


@pytest.mark.parametrize(
    ("init", "is_left_alone", "expected"),
    [
        ((), False, [("app", "")]),
        (("i1",), False, [("app", "")]),
        (("s1",), False, [("app s1", "")]),
        (("s1",), True, [("app", "1")]),
        (("i1", "s2", "i3", "s4", "i5"), False, [("app s2 s4", ""), ("s2", "3"), ("s2 s4", "5")]),
        (("i1", "s2", "i3"), True, [("app", "2")]),
    ],
)
def test_what_runs_together(
    init: tuple[str, ...], is_left_alone: bool, expected: list[tuple[str, str]]
) -> None:
    """Each init container runs beside the sidecars in front of it, all that lasts runs at last."""
    pod = read_pod(make.pod_json(make.container_json("app", cpu="9"), init=starting(*init)))
    found = running_together(pod.without_sidecars() if is_left_alone else pod)
    assert [
        (" ".join(sorted(names)), " ".join(str(other.request("cpu")) for other in others))
        for names, others in found
    ] == expected
