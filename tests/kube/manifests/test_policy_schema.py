"""Durations, quantities and the rules of a boost are those of the webhook."""

from datetime import timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.admission.core.check_policies import Allowance, boost_findings
from app.model.errors import BadObject
from app.model.times import parse_duration
from app.model.vpa import BoostType, read_vpa
from app.ports import Json
from app.sandbox.cel import compile_cel
from tests.cases import cases
from tests.kube.manifests.definitions import CPU_BOOST
from tests.kube.manifests.structural import problems

DURATION = CPU_BOOST["properties"]["duration"]
QUANTITY = CPU_BOOST["properties"]["quantity"]
PARTS = ["0", "1", "25", *".+- ", "ns", "us", "\u00b5s", "\u03bcs", "ms", *"smhd"]
DURATIONS = [
    "0", "+0", "0s", "10s", "+10s", "1m30s", "30s1m30s", "1h1m1s1ms1us1\u00b5s1\u03bcs1ns",
    "1.5h", ".5s", "1.s", "007s",
]  # fmt: skip
NO_DURATIONS = [
    "", "10", "00", "0.0", "s", ".s", "1.5.5s", "-1s", "-0s", "1m-1s", "++1s", "1d", "10S", "1e3s",
    "10 s", " 10s", "10s ", "1m 30s", "abc",
]  # fmt: skip


@pytest.mark.parametrize("text", DURATIONS)
def test_durations(text: str) -> None:
    """Durations have the form that Go reads."""
    assert not problems(DURATION, text)


@pytest.mark.parametrize("text", NO_DURATIONS)
def test_texts_that_are_no_duration(text: str) -> None:
    """Signs, units, points and blanks stand where Go has them; none is negative."""
    assert problems(DURATION, text)


@given(st.lists(st.sampled_from(PARTS), max_size=6).map("".join))
def test_duration_as_the_webhook_reads_it(text: str) -> None:
    """The schema and the webhook agree on every duration that is not absurdly long."""
    try:
        readable = parse_duration(text) >= timedelta(0) and not text.startswith("-")
    except BadObject:
        readable = False

    assert (not problems(DURATION, text)) == readable


@cases(
    "text accepted",
    {
        "millis": ("100m", True),
        "micros": ("187500u", True),
        "a fraction": ("1.5", True),
        "a bare fraction": (".5Gi", True),
        "an exponent": ("1e3", True),
        "a negative number, which is left to the webhook": ("-1", True),
        "nothing": ("", False),
        "a blank": ("1 Gi", False),
        "a suffix that is none": ("1mi", False),
        "words": ("not-a-number", False),
    },
)
def test_quantity(text: str, accepted: bool) -> None:
    """The quantity pattern takes what Kubernetes takes."""
    assert (not problems(QUANTITY, text)) == accepted


def boosts() -> list[Json]:
    """Return a boost for each choice of the fields that the rules tell apart."""
    fields = ({"factor": 2}, {"quantity": "1"}, {"duration": "1s"}, {"durationSeconds": 1})
    return [
        {"type": kind.value} | {key: value for part in parts for key, value in part.items()}
        for kind in BoostType
        for parts in product(*(({}, field) for field in fields))
    ]


@pytest.mark.parametrize("cpu", boosts(), ids=lambda cpu: " ".join(map(str, cpu.values())))
def test_rules_as_the_webhook_has_them(cpu: Json) -> None:
    """The rules in CEL refuse exactly those boosts that the webhook refuses."""
    rules = [compile_cel(each["rule"]) for each in CPU_BOOST["x-kubernetes-validations"]]
    vpa = read_vpa({"spec": {"startupBoost": {"cpu": cpu}}})
    refused = list(boost_findings(vpa.startup_boost, "spec", Allowance(startup_boost=True)))

    assert all(rule({"self": cpu}) for rule in rules) == (not refused)
