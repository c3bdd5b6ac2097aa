"""What is found about the API server: version, clock, definitions of our kinds, rights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from app.diagnosis.core.api_server import of_clock, of_definitions, of_rights, of_server
from app.diagnosis.core.facts import AccountRight, Facts, Level, Unasked
from app.model.fields import Json
from tests import make
from tests.cases import cases
from tests.diagnosis.core.healthy import FACTS, access, definitions, deployment, flaws

RESOURCES = frozenset({"pods", "pods/eviction", "pods/resize"})


@cases(
    "facts found",
    {
        "as it should be": (FACTS, []),
        "too old": (
            replace(FACTS, version="v1.27.9"),
            [(Level.SERIOUS, "version v1.27.9 is too old: the webhook needs 1.30 or newer")],
        ),
        "old": (
            replace(FACTS, version="v1.32.0-gke.1"),
            [
                (
                    Level.NOTE,
                    "version v1.32.0-gke.1 resizes no running pods; that needs 1.33 or newer",
                )
            ],
        ),
        "a strange version": (
            replace(FACTS, version="main"),
            [(Level.WARNING, 'it is not known what version "main" can do')],
        ),
        "no evictions": (
            replace(FACTS, core_resources=RESOURCES - {"pods/eviction"}),
            [(Level.SERIOUS, "it knows no evictions")],
        ),
    },
)
def test_versions_and_features(facts: Facts, found: list[tuple[Level, str]]) -> None:
    """What a server is too old for is told, and how serious that is."""
    assert flaws(list(of_server(facts))) == found


def test_resizes_that_are_switched_off() -> None:
    """A server without resizes is named with the gate that brings them."""
    (finding,) = list(of_server(replace(FACTS, core_resources=RESOURCES - {"pods/resize"})))[1:]
    assert (finding.level, "InPlacePodVerticalScaling" in finding.fix) == (Level.WARNING, True)


@pytest.mark.parametrize(
    ("seconds", "level", "word"),
    [
        (0, Level.FINE, "agree"),
        (4, Level.FINE, "agree"),
        (8, Level.WARNING, "8s ahead of ours"),
        (-8, Level.WARNING, "8s behind ours"),
        (45, Level.SERIOUS, "45s ahead of ours"),
    ],
)
def test_clocks(seconds: int, level: Level, word: str) -> None:
    """Clocks that differ are told before Leases are judged by them."""
    server_time = make.NOW + timedelta(seconds=seconds)
    (finding,) = of_clock(replace(FACTS, server_time=server_time))
    assert finding.level is level
    assert word in finding.message


def test_the_clock_of_a_simulation() -> None:
    """A cluster that moves its own clock is no fault, and it is said how to go by that clock."""
    server_time = make.NOW + timedelta(hours=3)
    (finding,) = of_clock(replace(FACTS, server_time=server_time, is_simulated=True))
    told = "it is `plumbline run`, whose clock is 3h ahead of ours; --demo goes by it"
    assert (finding.level, finding.message) == (Level.NOTE, told)
    assert finding.fix == "plumbline doctor --demo"


def at(item: Json, *path: str) -> Json:
    """Return a part of the served version of a definition, such as a field of its schema."""
    found: Json = item["spec"]["versions"][0]
    for word in path:
        found = found[word]
    return found


SPEC = ("schema", "openAPIV3Schema", "properties", "spec", "properties")
MODE = (*SPEC, "updatePolicy", "properties", "updateMode")
POLICY = (*SPEC, "resourcePolicy", "properties", "containerPolicies", "items", "properties")


@pytest.mark.parametrize(
    ("plant", "level", "message"),
    [
        (
            lambda item: item["status"].update(conditions=[]),
            Level.SERIOUS,
            "the API server has not taken it over",
        ),
        (lambda item: at(item).update(served=False), Level.SERIOUS, "version v1 is not served"),
        (
            lambda item: at(item).pop("subresources"),
            Level.SERIOUS,
            "it has no status subresource, so nothing can be recommended",
        ),
        (
            lambda item: at(item, *SPEC).pop("selector"),
            Level.WARNING,
            "these would be dropped or refused: spec.selector",
        ),
        (
            lambda item: at(item, *MODE)["enum"].remove("UpscaleOnly"),
            Level.WARNING,
            "these would be dropped or refused: spec.updatePolicy.updateMode: UpscaleOnly",
        ),
        (
            lambda item: at(item, *POLICY).clear(),
            Level.WARNING,
            "these would be dropped or refused: "
            "spec.resourcePolicy.containerPolicies[].containerName, "
            "spec.resourcePolicy.containerPolicies[].mode, "
            "spec.resourcePolicy.containerPolicies[].minAllowed and 8 more",
        ),
    ],
)
def test_faults_of_definitions(plant: Callable[[Json], object], level: Level, message: str) -> None:
    """What differs from what we need is named with its path."""
    live = definitions()
    plant(live[0])
    assert flaws(list(of_definitions(replace(FACTS, definitions=live)))) == [(level, message)]


def test_definitions_in_order() -> None:
    """Definitions as we make them are fine, as is a schema that keeps what it does not list."""
    open_ended = definitions()
    at(open_ended[0])["schema"] = {"openAPIV3Schema": {"type": "object"}}
    for live in (FACTS.definitions, open_ended):
        assert flaws(list(of_definitions(replace(FACTS, definitions=live)))) == []


def test_definitions_that_are_absent() -> None:
    """A missing definition comes with the command that makes it."""
    found = list(of_definitions(replace(FACTS, definitions=[])))
    assert [one.is_absence for one in found] == [True, True]
    assert all(one.fix.startswith("plumbline manifests crd | kubectl apply") for one in found)


@pytest.mark.parametrize(
    ("rights", "level", "word"),
    [
        ([access(), access()], Level.FINE, "all 2 things"),
        (
            [access(), access(allowed=False)],
            Level.SERIOUS,
            "the updater may not list pods; needed to compare them",
        ),
        ([access(allowed=False)] * 6, Level.SERIOUS, "list pods and 2 more"),
        (
            [access(allowed=False, process="")],
            Level.WARNING,
            "the account that asks may not list pods",
        ),
        ([access(allowed=False, process="")] * 5, Level.WARNING, "and 1 more"),
        (Unasked("refused"), Level.UNKNOWN, "refused"),
    ],
)
def test_rights(rights: list[AccountRight] | Unasked, level: Level, word: str) -> None:
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


NO_LIST = replace(access(allowed=False, process=""), what="deployments of apps")
NO_SECRET = replace(NO_LIST, verb="get", what="secrets")
LISTS = (
    "kubectl create clusterrole plumbline-doctor --verb=list --resource=pods,deployments.apps && "
    "kubectl create clusterrolebinding plumbline-doctor --clusterrole=plumbline-doctor --user=NAME"
)
SECRET = (
    "kubectl -n kube-system create role plumbline-doctor --verb=get --resource=secrets "
    "--resource-name=vpa-tls-certs && kubectl -n kube-system create rolebinding plumbline-doctor "
    "--role=plumbline-doctor --user=NAME"
)


@cases(
    "rights fix",
    {
        "lists": ([access(allowed=False, process=""), NO_LIST], LISTS),
        "the certificate": ([access(process=""), NO_SECRET], SECRET),
        "both": ([access(allowed=False, process=""), NO_LIST, NO_SECRET], f"{LISTS} && {SECRET}"),
        "nothing": ([access(process="")], ""),
    },
)
def test_who_asks_is_granted_rights(rights: list[AccountRight], fix: str) -> None:
    """The commands grant what is missing and no more: lists, and one Secret of one namespace."""
    (finding,) = of_rights(replace(FACTS, rights=rights, accounts=()))
    assert finding.fix == fix


HPAS_READ = "horizontalpodautoscalers of autoscaling"
READ_HPAS, READ_KEDA = "horizontalpodautoscalers.v2.autoscaling", "scaledobjects.v1alpha1.keda.sh"


def test_what_scales_cannot_be_read() -> None:
    """Rights to read it that are missing are one finding of all processes, and no failure."""
    missing = [
        access(allowed=False, process=process, what=HPAS_READ) for process in ("updater", "other")
    ]
    fine, found = of_rights(replace(FACTS, rights=(), accounts=[access(), *missing]))
    assert (fine.level, found.level) == (Level.FINE, Level.WARNING)
    assert found.message == (
        "HorizontalUnknown: the updater and the other may not read "
        "horizontalpodautoscalers of autoscaling, so no resource is held for them"
    )
    assert found.fix == (
        "plumbline manifests updater | kubectl auth reconcile -f -; "
        "plumbline manifests other | kubectl auth reconcile -f -"
    )


@cases(
    "words scalers told",
    {
        "as usual": ([], {READ_HPAS: ["v2", "v1"], READ_KEDA: ["v1alpha1"]}, []),
        "without KEDA": ([], {READ_HPAS: ["v2"]}, []),
        "not known": ([], Unasked("refused"), []),
        "old HPAs": (
            [],
            {READ_HPAS: ["v1"]},
            [
                "HorizontalUnknown: horizontalpodautoscalers of autoscaling are served as v1, "
                "and not as v2, so no resource is held for them"
            ],
        ),
        "a KEDA to come": (
            [],
            {READ_HPAS: ["v2"], READ_KEDA: ["v2", "v1"]},
            [
                "HorizontalUnknown: scaledobjects of keda.sh are served as v2 and v1, "
                "and not as v1alpha1, so no resource is held for them"
            ],
        ),
        "that do not count": (["--horizontal=ignore"], {READ_HPAS: ["v1"]}, []),
    },
)
def test_what_scales_is_not_served(
    words: list[str], scalers: Mapping[str, list[str]] | Unasked, told: list[str]
) -> None:
    """Versions that are not read are told of, unless that is how it is wanted."""
    facts = replace(FACTS, scalers=scalers, deployments=[deployment("updater", *words)])
    found = [one for one in of_rights(facts) if one.about == "horizontal"]
    assert [one.message for one in found] == told


def test_every_account_has_its_finding() -> None:
    """Accounts are told apart."""
    found = list(of_rights(FACTS))
    assert [one.about for one in found] == ["you", "system:serviceaccount:kube-system:vpa-updater"]


def test_rights_of_accounts_may_be_unknown() -> None:
    """Without the right to ask about accounts the own rights are judged all the same."""
    found = list(of_rights(replace(FACTS, accounts=Unasked("refused"))))
    assert [one.level for one in found] == [Level.FINE, Level.UNKNOWN]
