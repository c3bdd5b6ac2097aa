"""Recommendations that were not sent are seen as if they stood in the cluster."""

from __future__ import annotations

import pytest

from app.model.snapshot import Snapshot
from app.wiring.drafts import Drafts
from tests import make
from tests.make import Json

UID = {"uid": "one"}
STORED = make.vpa_json(cpu="100m", metadata=UID)


def target(snapshot: Snapshot) -> list[str]:
    """Return what the VPA recommends."""
    found = snapshot.of("default").vpas["web"].recommendation or ()
    return [str(one.target["cpu"]) for one in found]


@pytest.mark.parametrize(
    ("draft", "shown"),
    [
        pytest.param(make.vpa_json(cpu="300m", metadata=UID), "300m", id="its own"),
        pytest.param(make.vpa_json(cpu="300m", metadata={"uid": "two"}), "100m", id="a former one"),
        pytest.param(make.vpa_json("other", cpu="300m", metadata=UID), "100m", id="another one"),
    ],
)
def test_a_draft_is_shown_over_its_vpa(draft: Json, shown: str) -> None:
    """The status that was not sent counts, as long as the object is the one it was for."""
    drafts = Drafts()
    drafts.take(draft)

    assert target(drafts.over(make.snapshot(STORED))) == [shown]


def test_the_spec_is_the_one_of_the_cluster() -> None:
    """A VPA that was changed since is shown as it is now, but for its status."""
    drafts = Drafts()
    drafts.take(make.vpa_json(cpu="300m", mode="Off", metadata=UID))
    changed = make.vpa_json(cpu="100m", mode="Recreate", metadata=UID)
    shown = drafts.over(make.snapshot(changed)).of("default").vpas["web"]

    assert shown.update_policy is not None
    assert shown.update_policy.mode == "Recreate"


def test_what_cannot_be_read_is_no_draft() -> None:
    """An object that nobody can read changes nothing."""
    drafts = Drafts()

    assert drafts.take({"metadata": {"name": "web"}, "spec": "nonsense"}) is None
    assert target(drafts.over(make.snapshot(STORED))) == ["100m"]
