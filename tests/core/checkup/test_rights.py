"""What is found about rights."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.core.checkup.facts import Access
from app.core.checkup.findings import Level, Unasked
from app.core.checkup.rights import of_rights
from tests.core.checkup.healthy import FACTS, access


@pytest.mark.parametrize(
    ("rights", "level", "word"),
    [
        pytest.param([access(), access()], Level.FINE, "all 2 things", id="all"),
        pytest.param(
            [access(), access(allowed=False)],
            Level.SERIOUS,
            "the updater may not list pods; needed to compare them",
            id="one is missing",
        ),
        pytest.param(
            [access(allowed=False)] * 6, Level.SERIOUS, "list pods and 2 more", id="many"
        ),
        pytest.param(
            [access(allowed=False, process="")],
            Level.WARNING,
            "whoever asks may not list pods",
            id="our own",
        ),
        pytest.param(
            [access(allowed=False, process="")] * 5, Level.WARNING, "and 1 more", id="many of ours"
        ),
        pytest.param(Unasked("refused"), Level.UNKNOWN, "refused", id="unasked"),
    ],
)  # fmt: skip
def test_rights(rights: list[Access] | Unasked, level: Level, word: str) -> None:
    """What an account may not do is named, with what it is needed for."""
    (finding,) = of_rights(replace(FACTS, rights=(), accounts=rights))
    assert finding.level is level
    assert word in finding.message


def test_what_is_missing_is_granted() -> None:
    """The command brings what is missing, be it a right that only a flag needs, and no more."""
    missing = access(allowed=False)
    trial = replace(missing, verb="create", document="trials")
    found = list(of_rights(replace(FACTS, rights=(), accounts=[trial, access(), missing, trial])))
    assert [one.fix for one in found] == [
        "(plumbline manifests trials; plumbline manifests updater) | kubectl auth reconcile -f -"
    ]


def test_every_account_has_its_finding() -> None:
    """Accounts are told apart."""
    found = list(of_rights(FACTS))
    assert [one.about for one in found] == ["you", "system:serviceaccount:kube-system:vpa-updater"]


def test_whoever_may_not_ask_about_others_is_told_of_itself() -> None:
    """Without the right to ask about accounts the own rights are judged all the same."""
    found = list(of_rights(replace(FACTS, accounts=Unasked("refused"))))
    assert [one.level for one in found] == [Level.FINE, Level.UNKNOWN]
