"""What is found about the webhook's registration."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.diagnosis.core.facts import Facts, Level, TrialOutcome, TrialResult, Unasked
from app.diagnosis.core.hooks import trial_namespace
from app.diagnosis.core.processes import ADMISSION
from app.diagnosis.core.registrations import of_webhook
from app.model.fields import Json
from tests.cases import cases
from tests.diagnosis.core.healthy import (
    CA,
    FACTS,
    OTHER_CA,
    SERVICE,
    bundle,
    charted,
    configuration,
    deployment,
    flaws,
    generation,
    hook,
    scope,
)

URL = {"clientConfig": {"url": "https://hooks.example.com/mutate"}}
UPSTREAM = {
    "clientConfig": hook()["clientConfig"]
    | {"service": {"namespace": "kube-system", "name": SERVICE[1]}}
}
NOBODY = {
    "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": [""]}]}
}
BOTH = {"clientConfig": hook()["clientConfig"] | {"caBundle": bundle(CA + OTHER_CA)}}
ROTATING = configuration("vpa-webhook-config", hook(**BOTH))
JUDGING = configuration("vpa-webhook-config", hook(name="validate.vpa.k8s.io", **BOTH))
OTHERS = generation(ca=OTHER_CA)
TEAM_A = {"namespaceSelector": scope("In", "team-a")}
TEAM_B = {"namespaceSelector": scope("In", "team-b")}
ELSEWHERE = {
    "clientConfig": {
        "caBundle": bundle(OTHER_CA),
        "service": {"namespace": "team-b", "name": "blue", "path": "/mutate"},
    }
}
LEFT_OUT = "namespaceSelector leaves some pods out; they are not sized"
INJECTOR = {
    "name": "inject.example.com",
    "rules": [{"operations": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
}


def registered(**changes: object) -> Facts:
    """Return an installation with another webhook."""
    return replace(FACTS, mutating=[configuration("vpa-webhook-config", hook(**changes))])


def client(**changes: object) -> Json:
    """Return another client configuration."""
    return {"clientConfig": hook()["clientConfig"] | changes}


@pytest.mark.parametrize(
    ("facts", "level", "word"),
    [
        (replace(FACTS, mutating=[]), Level.SERIOUS, "no webhook is"),
        (registered(rules=hook()["rules"][1:]), Level.SERIOUS, "about new pods"),
        (registered(rules=hook()["rules"][:1]), Level.WARNING, "not asked about"),
        (registered(timeoutSeconds=30), Level.WARNING, "may wait 30 s"),
        (registered(failurePolicy="Fail"), Level.WARNING, "no pod is created"),
        (registered(reinvocationPolicy="IfNeeded"), Level.WARNING, "asked twice"),
        (
            registered(namespaceSelector={"matchLabels": {"size": "yes"}}),
            Level.NOTE,
            "namespaceSelector leaves some pods out",
        ),
        (
            registered(objectSelector={"matchExpressions": [{"key": "a", "operator": "Exists"}]}),
            Level.NOTE,
            "objectSelector leaves some pods out",
        ),
        (registered(**UPSTREAM), Level.WARNING, "was left behind"),
        (registered(**client(caBundle=bundle(OTHER_CA))), Level.SERIOUS, "not the one that signed"),
        (registered(**client(caBundle=None)), Level.SERIOUS, "carries no CA"),
        (registered(**client(caBundle="%")), Level.SERIOUS, "carries no CA"),
        (replace(FACTS, endpoints={SERVICE: 0}), Level.SERIOUS, "is ready to answer"),
        (replace(FACTS, endpoints={SERVICE: Unasked("refused")}), Level.UNKNOWN, "refused"),
        (
            replace(FACTS, mutating=[configuration(), configuration("release-webhook-config")]),
            Level.SERIOUS,
            "sized more than once",
        ),
        (
            replace(FACTS, mutating=[configuration(), configuration("z-injector", INJECTOR)]),
            Level.NOTE,
            "asked after ours: z-injector",
        ),
        (replace(FACTS, validating=[configuration()]), Level.WARNING, "is missing"),
        (replace(FACTS, validating=Unasked("refused")), Level.UNKNOWN, "refused"),
        (replace(FACTS, tried=TrialResult(TrialOutcome.PASSED)), Level.SERIOUS, "mistake passes"),
        (
            replace(FACTS, tried=TrialResult(TrialOutcome.NOT_CALLED, "x509: unknown authority")),
            Level.SERIOUS,
            "cannot ask the webhook: x509",
        ),
        (replace(FACTS, tried=Unasked("absent")), Level.UNKNOWN, "absent"),
    ],
)
def test_planted_faults(facts: Facts, level: Level, word: str) -> None:
    """Each fault is the only finding, with its level and in its words."""
    (found,) = flaws(list(of_webhook(facts)))
    assert found[0] is level
    assert word in found[1]


def test_a_slow_validation() -> None:
    """It is judged like the other; a release of the chart has a configuration of its own name."""
    slow = configuration("blue-webhook-config", hook(name="validate.vpa.k8s.io", timeoutSeconds=30))
    found = list(of_webhook(replace(FACTS, validating=[slow])))
    (told,) = [one for one in found if one.level is not Level.FINE]
    assert (told.level, "may wait 30 s" in told.message) == (Level.WARNING, True)
    assert told.about == "validatingwebhookconfiguration/blue-webhook-config"


@cases(
    "facts",
    {
        "a service": (FACTS,),
        "a URL that public CAs vouch for": (registered(**URL),),
        "upstream's webhook": (
            replace(registered(**UPSTREAM, **NOBODY), validating=Unasked("refused")),
        ),
        "two CAs while one is rotated": (
            replace(FACTS, certificate=OTHERS, mutating=[ROTATING], validating=[JUDGING]),
        ),
        "a certificate that is not known": (replace(FACTS, certificate=None),),
        "another webhook that comes first": (
            replace(FACTS, mutating=[configuration("a-injector", INJECTOR), configuration()]),
        ),
    },
)
def test_in_order(facts: Facts) -> None:
    """What works is fine."""
    assert flaws(list(of_webhook(facts))) == []


def test_releases_that_share_a_cluster() -> None:
    """Two of ours for namespaces of their own are no fault; each is trusted by its own CA."""
    facts = replace(
        FACTS,
        mutating=[
            configuration("vpa-webhook-config", hook(**TEAM_A)),
            configuration("blue-webhook-config", hook(**TEAM_B, **ELSEWHERE)),
        ],
        endpoints={SERVICE: 2, ("team-b", "blue"): 1},
        tried=TrialResult(TrialOutcome.REFUSED, namespace="team-a"),
    )
    assert flaws(list(of_webhook(facts))) == [(Level.NOTE, f"its {LEFT_OUT}")] * 2
    assert trial_namespace(facts) == "team-a"
    assert trial_namespace(replace(facts, namespace="team-b")) == "team-b"


@pytest.mark.parametrize(
    ("facts", "namespace"),
    [
        (registered(namespaceSelector={}), "default"),
        (registered(namespaceSelector=scope("NotIn", "default")), "kube-system"),
        (registered(namespaceSelector=scope("NotIn", "default", "kube-system")), None),
        (registered(namespaceSelector=scope("In", "web", "shop")), "shop"),
        (registered(namespaceSelector={"matchLabels": {"team": "blue"}}), "default"),
        (replace(FACTS, mutating=[]), "default"),  # before there is one any place will do
    ],
)
def test_where_it_is_tried(facts: Facts, namespace: str | None) -> None:
    """A VPA with a mistake is tried where the webhook is asked, if that is known."""
    assert trial_namespace(facts) == namespace


@pytest.mark.parametrize(
    "change",
    [
        {"namespaceSelector": {"matchLabels": {"team": "blue"}}},
        {"objectSelector": {"matchLabels": {"team": "blue"}}},
    ],
)
def test_a_trial_that_proves_nothing(change: Json) -> None:
    """Where labels decide whether the webhook is asked, a VPA that passes is no proof."""
    facts = replace(registered(**change), tried=TrialResult(TrialOutcome.PASSED))
    assert [level for level, told in flaws(list(of_webhook(facts))) if "passes" in told] == [
        Level.UNKNOWN
    ]


BLUE = configuration("blue-webhook-config", hook(**ELSEWHERE))
BLUE_PROCESS = charted(deployment(ADMISSION), "team-b")


@cases(
    "facts word fix",
    {
        "ours is told by its flags, for it puts back what others change": (
            registered(timeoutSeconds=30),
            "may wait",
            "kubectl -n kube-system patch deployment/vpa-admission-controller --type=json "
            '-p \'[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", '
            '"value": "--webhook-timeout-seconds=5"}]\'',
        ),
        "upstream's is changed itself": (
            registered(**UPSTREAM, failurePolicy="Fail"),
            "no pod is created",
            "kubectl patch mutatingwebhookconfiguration/vpa-webhook-config --type=json "
            '-p \'[{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]\'',
        ),
        "ours is put in order by its process": (
            registered(**client(caBundle=None)),
            "carries no CA",
            "kubectl -n kube-system logs deployment/vpa-admission-controller --tail=50",
        ),
        "upstream's is to be looked at": (
            registered(clientConfig=UPSTREAM["clientConfig"] | {"caBundle": None}),
            "carries no CA",
            "kubectl get mutatingwebhookconfiguration/vpa-webhook-config -o yaml",
        ),
        "of two of ours the process of one is stopped first, or it would put it back": (
            replace(
                FACTS,
                deployments=[BLUE_PROCESS, deployment(ADMISSION)],
                mutating=[configuration(), BLUE],
            ),
            "more than once",
            "kubectl -n team-b scale deployment/blue-vpa-admission-controller --replicas=0 && "
            "kubectl delete mutatingwebhookconfiguration blue-webhook-config",
        ),
        "of two that are not ours by name the second one goes": (
            replace(FACTS, mutating=[configuration("a"), configuration("b")]),
            "more than once",
            "kubectl delete mutatingwebhookconfiguration b",
        ),
    },
)
def test_what_is_to_be_done(facts: Facts, word: str, fix: str) -> None:
    """The command is for whoever keeps the configuration in order."""
    found = next(one for one in of_webhook(facts) if word in one.message)
    assert found.fix == fix
