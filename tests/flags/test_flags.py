"""Flags are read as upstream's users write them, and wrong ones are told in a sentence."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.admission.core.overlap import Disjointness
from app.admission.flags import AdmissionSettings
from app.cli.pages import EXAMPLES, PURPOSES, flags_page, help_text
from app.cli.verbs import VERBS
from app.commands.flags import AdmitSettings, PlanSettings
from app.commands.replay_flags import ReplaySettings
from app.flags.command_line import asks_for_help, parse, schema
from app.flags.flags import (
    SWITCH,
    TEXT,
    Flag,
    ListenAddress,
    RemovedFlag,
    WebhookLabels,
    flag,
)
from app.model.errors import BadSetting
from app.model.gates import FeatureGate, FeatureGates
from app.model.quantity import Quantity
from app.model.times import PrometheusDuration
from app.recommender.flags import RecommenderSettings
from app.updater.flags import UpdaterSettings
from tests.cases import cases

FLAGS_PAGE = Path(__file__).parents[2] / "docs" / "flags.md"

COMMON = """
    kubeconfig= kube-api-qps=50 kube-api-burst=100 profiling=false feature-gates=
    vpa-object-namespace= ignored-vpa-object-namespaces=
    v=4 stderrthreshold=info vmodule= logtostderr=true alsologtostderr=false
    alsologtostderrthreshold= legacy-stderr-threshold-behavior=true log-dir= log-file=
    log-file-max-size=1800 log-backtrace-at= add-dir-header=false skip-headers=false
    skip-log-headers=false one-output=false
"""
ELECTION = """
    leader-elect=false leader-elect-lease-duration=15s leader-elect-renew-deadline=10s
    leader-elect-retry-period=2s leader-elect-resource-lock=leases
    leader-elect-resource-namespace=kube-system
"""
UPSTREAM = {
    AdmissionSettings: f"""{COMMON}
        address=:8944 port=8000 client-ca-file=/etc/tls-certs/caCert.pem
        tls-cert-file=/etc/tls-certs/serverCert.pem tls-private-key=/etc/tls-certs/serverKey.pem
        reload-cert=false tls-ciphers= min-tls-version=tls1_2 webhook-service=vpa-webhook
        webhook-address= webhook-port= register-by-url=false webhook-timeout-seconds=5
        webhook-failure-policy-fail=false register-webhook=true webhook-labels=
        status-lease-name=vpa-admission-controller status-lease-namespace=kube-system
        status-lease-update-interval=10s max-allowed-cpu-boost=
    """,
    UpdaterSettings: f"""{COMMON} {ELECTION}
        updater-interval=1m min-replicas=2 eviction-tolerance=0.5 eviction-rate-limit=-1
        eviction-rate-burst=1 in-place-skip-disruption-budget=false pod-update-threshold=0.1
        in-recommendation-bounds-eviction-lifetime-threshold=12h evict-after-oom-threshold=10m
        concurrent-cpu-startup-boost-syncs=1 use-admission-controller-status=true
        admission-controller-status-lease-name=vpa-admission-controller
        admission-controller-status-lease-namespace=kube-system
        admission-controller-status-lease-timeout=1m address=:8943
        leader-elect-resource-name=vpa-updater
    """,
    RecommenderSettings: f"""{COMMON} {ELECTION}
        recommender-name=default recommender-interval=1m storage= memory-saver=false
        update-worker-count=10 checkpoints-timeout=1m checkpoints-gc-interval=10m
        min-checkpoints=10 address=:8942
        recommendation-margin-fraction=0.15 pod-recommendation-min-cpu-millicores=25
        pod-recommendation-min-memory-mb=250 target-cpu-percentile=0.9
        recommendation-lower-bound-cpu-percentile=0.5
        recommendation-upper-bound-cpu-percentile=0.95 confidence-interval-cpu=24h
        target-memory-percentile=0.9 recommendation-lower-bound-memory-percentile=0.5
        recommendation-upper-bound-memory-percentile=0.95 confidence-interval-memory=24h
        humanize-memory=false round-cpu-millicores=1 round-memory-bytes=1
        memory-aggregation-interval=24h memory-aggregation-interval-count=8
        memory-histogram-decay-half-life=24h cpu-histogram-decay-half-life=24h
        oom-bump-up-ratio=1.2 oom-min-bump-up-bytes=104857600
        cpu-integer-post-processor-enabled=false container-recommendation-max-allowed-cpu=
        container-recommendation-max-allowed-memory=
        prometheus-address=http://prometheus.monitoring.svc prometheus-insecure=false
        prometheus-cadvisor-job-name=kubernetes-cadvisor history-length=8d history-resolution=1h
        history-cpu-metric=container_cpu_usage_seconds_total
        history-memory-metric=container_memory_working_set_bytes prometheus-query-timeout=5m
        pod-label-prefix=pod_label_ metric-for-pod-labels=up{{job="kubernetes-pods"}}
        pod-namespace-label=kubernetes_namespace pod-name-label=kubernetes_pod_name
        container-namespace-label=namespace container-pod-name-label=pod_name
        container-name-label=name username= password= prometheus-bearer-token=
        prometheus-bearer-token-file= use-external-metrics=false external-metrics-cpu-metric=
        external-metrics-memory-metric= leader-elect-resource-name=vpa-recommender-lease
    """,
}
OURS = {
    AdmissionSettings: """
        context host workers tls-cert-dir certs-dir selector-disjointness objects
        webhook-config-name native-sidecars horizontal role-leases
    """,
    UpdaterSettings: """
        context dry-run prove useless-eviction-share update-concurrency vpa-summaries
        upscale-only-in-place in-place-deferred-resize-timeout in-place-resize-timeout
        namespace-eviction-rate-limit namespace-eviction-rate-burst
        tls-cert-file tls-private-key tokens-over-http native-sidecars horizontal role-leases
        former-leader-shrinks-after
    """,
    RecommenderSettings: """
        context parity prometheus-ca-file prometheus-client-certificate prometheus-client-key
        prometheus-tenant prometheus-cloud prometheus-aws-region prometheus-azure-scope
        password-file tls-cert-file tls-private-key
        tokens-over-http native-sidecars horizontal role-leases
    """,
}


def admission(*arguments: str, **environment: str) -> AdmissionSettings:
    """Return the settings of the webhook for a command line."""
    return parse(AdmissionSettings, arguments, environment)


def refusal(settings: type, *arguments: str) -> str:
    """Return the sentence that a command line is refused with."""
    with pytest.raises(BadSetting) as caught:
        parse(settings, arguments, {})
    return str(caught.value)


def typed(settings: type) -> Iterator[tuple[object, Flag]]:
    """Yield type and flag of every setting."""
    for group in schema(settings).groups:
        hints = get_type_hints(group.type)
        assert list(group.flags) == [field.name for field in fields(group.type)]
        yield from ((hints[name], flag) for name, flag in group.flags.items())


@pytest.mark.parametrize("settings", UPSTREAM)
def test_flags_and_defaults_are_upstreams(settings: type) -> None:
    """Every flag of upstream exists under its name with its default; ours come on top."""
    upstream = dict(word.split("=", 1) for word in UPSTREAM[settings].split())
    flags = {flag.name: flag.default for flag in schema(settings).flags if flag.name}
    ours = {name: flags.pop(name) for name in set(flags) - set(upstream)}
    assert flags == upstream
    assert set(ours) == set(OURS[settings].split())


@pytest.mark.parametrize("settings", [settings for settings, _ in PURPOSES.values()])
def test_every_setting_has_the_type_it_says(settings: type) -> None:
    """What a flag's text becomes is of the type of its field."""
    for hint, one in typed(settings):
        wanted = get_origin(hint) if get_origin(hint) is tuple else hint
        assert isinstance(one.value(()), wanted), one.name  # type: ignore[arg-type]  # a type or a union


@cases(
    "arguments",
    {
        "value after =": (["--webhook-timeout-seconds=7"],),
        "value as next word": (["--webhook-timeout-seconds", "7"],),
        "one dash": (["-webhook-timeout-seconds", "7"],),
        "underscores": (["--webhook_timeout-seconds=7"],),
        "twice": (["--webhook-timeout-seconds=9", "-webhook_timeout_seconds=7"],),
    },
)
def test_ways_to_write_a_flag(arguments: list[str]) -> None:
    """However a flag is written it is the same flag, and its last value counts."""
    assert admission(*arguments).registration.timeout_seconds == 7


@pytest.mark.parametrize(
    ("argument", "is_on"),
    [
        ("--register-webhook", True),
        ("--register-webhook=T", True),
        ("--register-webhook=1", True),
        ("--register-webhook=FALSE", False),
        ("--register-webhook=0", False),
    ],
)
def test_switches(argument: str, is_on: bool) -> None:
    """A switch may stand alone, or take what Go takes for a boolean."""
    assert admission(argument, "--port=1").registration.is_on is is_on


@pytest.mark.parametrize("arguments", [["-v", "6"], ["-v=6"], ["--v=6"], ["-v6"], ["--v", "6"]])
def test_verbosity(arguments: list[str]) -> None:
    """Verbosity is written in all the ways that people write it."""
    assert admission(*arguments).logging.verbosity == 6


def test_values_are_typed() -> None:
    """Texts become values of the right kind, once."""
    found = admission(
        "--address=127.0.0.1:9000",
        "--workers=2",
        "--status-lease-update-interval=1m30s",
        "--max-allowed-cpu-boost=1500m",
        "--selector-disjointness=warn",
        "--feature-gates=AllAlpha=true",
        "--feature-gates=InPlace=false,PerVPAConfig=1",
        "--objects=a.yaml",
        "--objects",
        "b",
        "--tls-ciphers=A,B:C",
        "--ignored-vpa-object-namespaces=a, b,",
        "--kube-api-qps=7.5",
    )
    assert found.serving.address == ListenAddress("127.0.0.1", 9000)
    assert found.serving.workers == 2
    assert found.heartbeat.interval == timedelta(seconds=90)
    assert found.decisions.max_cpu_boost == Quantity.parse("1.5")
    assert found.decisions.disjointness is Disjointness.WARN
    assert found.decisions.gates == FeatureGates(
        frozenset({FeatureGate.CPU_STARTUP_BOOST, FeatureGate.PER_VPA_CONFIG})
    )
    assert found.offline.objects == (Path("a.yaml"), Path("b"))
    assert found.certificates.ciphers == ("A", "B", "C")
    assert found.scope.ignored_namespaces == ("a", "b")
    assert found.cluster.queries_per_second == 7.5


def test_prometheus_durations_keep_their_text() -> None:
    """A span of Prometheus is known as a length and as the text for queries."""
    found = parse(RecommenderSettings, ["--history-length=1w2d"], {})
    assert found.past.length == PrometheusDuration("1w2d", timedelta(days=9))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8944", ListenAddress("", 8944)),
        ("0.0.0.0:0", ListenAddress("0.0.0.0", 0)),
        ("[::1]:80", ListenAddress("::1", 80)),
        ("localhost:65535", ListenAddress("localhost", 65535)),
    ],
)
def test_addresses(text: str, address: ListenAddress) -> None:
    """An address is a port with or without a host."""
    assert admission(f"--address={text}").serving.address == address


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("", ()),
        ("a:b", (("a", "b"),)),
        ('"a:b, c : d:e "', (("a", "b"), ("c", "d:e"))),
        ("a:", (("a", ""),)),
        ("a:b,c", None),
        ("a:b,:c", None),
        ("a:b,", None),
    ],
)
def test_webhook_labels(text: str, labels: tuple[tuple[str, str], ...] | None) -> None:
    """One wrong label leaves none of them, and a sentence about it."""
    found = admission(f"--webhook-labels={text}").registration.labels
    if labels is None:
        assert found.labels == ()
        assert found.problem.endswith("is not key:value")
    else:
        assert found == WebhookLabels(labels, "")


@cases(
    "arguments environment namespace",
    {
        "nothing said": ([], {}, "kube-system"),
        "environment": ([], {"NAMESPACE": "vpa"}, "vpa"),
        "empty flag": (["--status-lease-namespace="], {"NAMESPACE": "vpa"}, "vpa"),
        "flag wins": (["--status-lease-namespace=x"], {"NAMESPACE": "vpa"}, "x"),
    },
)
def test_lease_namespace(arguments: list[str], environment: dict[str, str], namespace: str) -> None:
    """The Lease lives where the flag says, else where the process lives, else in kube-system."""
    assert admission(*arguments, **environment).heartbeat.lease_namespace == namespace


def test_environment() -> None:
    """Own namespace and kubeconfig come from the environment that is handed in."""
    found = admission(NAMESPACE="vpa", KUBECONFIG="/k", PORT="1").cluster
    assert (found.namespace, found.kubeconfig) == ("vpa", "/k")
    assert admission("--kubeconfig=/other", KUBECONFIG="/k").cluster.kubeconfig == "/other"


def test_reviews_stand_beside_flags() -> None:
    """Answering reviews takes files, `-`, and after `--` whatever comes."""
    found = parse(AdmitSettings, ["a.json", "--explain", "-", "--", "--odd.json"], {})
    assert found.answering.explain
    assert found.reviews == ("a.json", "-", "--odd.json")


@pytest.mark.parametrize(
    ("argument", "given"),
    [
        ("--port=443", False),
        ("--tls-cert-file=/etc/tls-certs/serverCert.pem", False),
        ("--tls-cert-file=/x/tls.crt", True),
        ("--tls-private-key=/x/tls.key", True),
        ("--tls-cert-dir=/x", True),
    ],
)
def test_given_certificates(argument: str, given: bool) -> None:
    """Files that a flag names must be there; those at the usual place need not be."""
    assert admission(argument).certificates.are_given is given


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--webhok-port=1"], 'unknown flag --webhok-port; did you mean --webhook-port?'),
        (["--port-x"], 'unknown flag --port-x; did you mean --port?'),
        (["--qqqqqqq"], "unknown flag --qqqqqqq"),
        (["---port=1"], 'unknown flag ---port; did you mean --port?'),
        (["--=1"], "unknown flag --"),
        (["-1"], "unknown flag -1"),
        (["--port"], "--port needs a value: a whole number from 0 to 65535"),
        (["-v"], "-v needs a value: a whole number"),
        (["-v=high"], '-v takes a whole number, not "high"'),
        (["--port=65536"], '--port takes a whole number from 0 to 65535, not "65536"'),
        (["--port=1", "--port=x"], '--port takes a whole number from 0 to 65535, not "x"'),
        (["--port=1_0"], '--port takes a whole number from 0 to 65535, not "1_0"'),
        (["--port=٣"], '--port takes a whole number from 0 to 65535, not "٣"'),
        (["--port="], '--port takes a whole number from 0 to 65535, not ""'),
        (["--port=" + "9" * 90], "--port takes a whole number from 0 to 65535, not "
            f'"{"9" * 80}..."'),
        (["--kube-api-qps=nan"], '--kube-api-qps takes a number, not "nan"'),
        (["--kube-api-qps=1e999"], '--kube-api-qps takes a number, not "1e999"'),
        (["--kube-api-qps=1.2.3"], '--kube-api-qps takes a number, not "1.2.3"'),
        (["--workers=65"], '--workers takes a whole number from 0 to 64, not "65"'),
        (["--webhook-timeout-seconds=31"],
            '--webhook-timeout-seconds takes a whole number from 1 to 30, not "31"'),
        (["--reload-cert=yes"], '--reload-cert takes true or false, not "yes"'),
        (["--reload-cert="], '--reload-cert takes true or false, not ""'),
        (["--reload-cert", "false"],
            'unexpected word "false"; flags begin with --, take one value and may be '
            "repeated where they say so, and a switch is turned off "
            "with --switch=false"),
        (["--status-lease-update-interval=0"],
            "--status-lease-update-interval takes a duration above zero, such as 90s or 1h30m, "
            'not "0"'),
        (["--status-lease-update-interval=10"],
            "--status-lease-update-interval takes a duration above zero, such as 90s or 1h30m, "
            'not "10"'),
        (["--max-allowed-cpu-boost=much"],
            "--max-allowed-cpu-boost takes a quantity such as 500m or 2Gi, or nothing, "
            'not "much"'),
        (["--max-allowed-cpu-boost=-1"],
            '--max-allowed-cpu-boost takes a quantity such as 500m or 2Gi, or nothing, not "-1"'),
        (["--min-tls-version=tls1_1"], '--min-tls-version takes tls1_2 or tls1_3, not "tls1_1"'),
        (["--selector-disjointness=on"],
            '--selector-disjointness takes enforce, warn or off, not "on"'),
        (["--address=8944"], '--address takes [host]:port, such as :8944, not "8944"'),
        (["--address=::1:8944"], '--address takes [host]:port, such as :8944, not "::1:8944"'),
        (["--address=a:b"], '--address takes [host]:port, such as :8944, not "a:b"'),
        (["--feature-gates=InPlaceOrRecreate=true"],
            '--feature-gates: unknown feature gate "InPlaceOrRecreate"'
            '; did you mean "InPlace"?'),
        (["--feature-gates=InPlace"],
            '--feature-gates: feature gate "InPlace" needs a value: write InPlace=true'),
        (["--vpa-object-namespace=a", "--ignored-vpa-object-namespaces=b"],
            "--vpa-object-namespace and --ignored-vpa-object-namespaces exclude each other"),
    ],
)  # fmt: skip
def test_refusals(arguments: list[str], sentence: str) -> None:
    """What cannot be used is named with its flag, its value and what is expected."""
    assert refusal(AdmissionSettings, *arguments) == sentence


@dataclass(frozen=True, slots=True)
class Weighing:
    """How a thing is weighed."""

    removed: ClassVar = (
        RemovedFlag("in-pounds", "the scales", "0.7", "they weigh in grams"),
        RemovedFlag("label", "the scales", "0.8", "the printer has it"),
    )
    tared: bool = flag("tared", SWITCH, "true", "less the bowl")


@dataclass(frozen=True, slots=True)
class Printing:
    """How a weight is printed."""

    label: str = flag("label", TEXT, "", "what stands above it")


@dataclass(frozen=True, slots=True)
class ScalesSettings:
    """All that scales can be told."""

    weighing: Weighing
    printing: Printing


@cases(
    "arguments",
    {
        "alone": (["--in-pounds"],),
        "with a value": (["--in-pounds=false"],),
        "as Go takes it": (["-in_pounds", "true"],),
        "the first mistake counts": (["--tared", "--in-pounds", "--tarred"],),
    },
)
def test_removed_flags(arguments: list[str]) -> None:
    """A flag that a former version had is refused with since when it is gone, and what to do."""
    expected = "--in-pounds was removed from the scales in 0.7: they weigh in grams"
    assert refusal(ScalesSettings, *arguments) == expected
    assert "--in-pounds" not in help_text(ScalesSettings, "weigh", "Weigh things.")


def test_a_removed_flag_may_live_on_elsewhere() -> None:
    """What one part of the settings lost, another may have."""
    found = parse(ScalesSettings, ["--label=flour"], {})
    assert (found.weighing.tared, found.printing.label) == (True, "flour")


@pytest.mark.parametrize(
    ("settings", "arguments", "sentence"),
    [
        *((settings, ["--parity=upstream"],
            "--parity was removed from the updater in 0.2: it has one behaviour; "
            "see docs/differences.md") for settings in (UpdaterSettings, PlanSettings)),
        *((settings, ["--extras=native_sidecars"],
            "--extras was removed from the recommender in 0.2: native_sidecars and "
            "repeat_oom_bump are always on, the others do not exist any more; "
            "see docs/differences.md") for settings in (RecommenderSettings, ReplaySettings)),
        (UpdaterSettings, ["--concurrent-cpu-startup-boost-syncs=0"],
            "--concurrent-cpu-startup-boost-syncs takes a whole number of at least 1, not \"0\""),
        (UpdaterSettings, ["--leader-elect", "--leader-elect-renew-deadline=15s"],
            "--leader-elect-lease-duration must be above --leader-elect-renew-deadline, "
            "and that above 1.2 times --leader-elect-retry-period"),
        (RecommenderSettings, ["--leader-elect", "--leader-elect-retry-period=9s"],
            "--leader-elect-lease-duration must be above --leader-elect-renew-deadline, "
            "and that above 1.2 times --leader-elect-retry-period"),
        (UpdaterSettings, ["--leader-elect", "--leader-elect-lease-duration=2s",
                           "--leader-elect-renew-deadline=1s", "--leader-elect-retry-period=500ms"],
            "--leader-elect-lease-duration must be at least 3s: a leader begins no call in the "
            "last ones"),
        (UpdaterSettings, ["--leader-elect-resource-lock=endpoints"],
            '--leader-elect-resource-lock takes leases, not "endpoints"'),
        (RecommenderSettings, ["--target-cpu-percentile=90"],
            '--target-cpu-percentile takes a number from 0 to 1, not "90"'),
        (RecommenderSettings, ["--oom-bump-up-ratio=0.5"],
            '--oom-bump-up-ratio takes a number of at least 1, not "0.5"'),
        (RecommenderSettings, ["--history-length=0"],
            '--history-length takes a duration above zero, such as 5m, 8d or 1w, not "0"'),
        (RecommenderSettings, ["--history-length=5"],
            '--history-length takes a duration above zero, such as 5m, 8d or 1w, not "5"'),
        (RecommenderSettings,
            ["--username=a", "--prometheus-bearer-token=b", "--prometheus-bearer-token-file=c"],
            "--username, --prometheus-bearer-token and --prometheus-bearer-token-file "
            "exclude one another"),
    ],
)  # fmt: skip
def test_refusals_of_workers(settings: type, arguments: list[str], sentence: str) -> None:
    """Updater and recommender refuse what they could not run with."""
    assert refusal(settings, *arguments) == sentence


def test_a_lone_election_flag_is_harmless() -> None:
    """Spans of an election that is off need not fit together."""
    assert not parse(UpdaterSettings, ["--leader-elect-renew-deadline=1h"], {}).election.is_on


def test_secrets_are_not_shown() -> None:
    """Settings can be logged without giving away passwords."""
    found = parse(RecommenderSettings, ["--password=p4ss", "--prometheus-bearer-token=t0ken"], {})
    assert found.prometheus_access.password == "p4ss"
    assert "p4ss" not in repr(found)
    assert "t0ken" not in repr(found)


WORDS = st.one_of(
    st.sampled_from([f"--{flag.name}" for flag in schema(AdmissionSettings).flags]),
    st.sampled_from(["=", "1", "true", "10s", "--", "-", "-v", ":1", "InPlace=true", '"', "500m"]),
    st.text(max_size=8),
)


@given(st.lists(st.builds("".join, st.lists(WORDS, max_size=3)), max_size=6))
def test_any_command_line_is_read_or_refused(arguments: Sequence[str]) -> None:
    """Whatever words come, they are settings or a sentence."""
    with contextlib.suppress(BadSetting):
        assert parse(AdmissionSettings, arguments, {})


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [(["-h"], True), (["--port=1", "--help"], True), (["-help"], True), (["--port=1"], False)],
)
def test_asking_for_help(arguments: list[str], asked: bool) -> None:
    """Help is asked for with any of its spellings, anywhere."""
    assert asks_for_help(arguments) is asked


@pytest.mark.parametrize("command", PURPOSES)
def test_help_names_every_flag(command: str) -> None:
    """The help fits a terminal and leaves no flag out."""
    settings, purpose = PURPOSES[command]
    text = help_text(settings, command, purpose)
    assert max(map(len, text.splitlines())) <= 80
    shown = set(text.split())
    assert {flag.shown for flag in schema(settings).flags} <= shown


TYPED = [
    (verb, shlex.split(command))
    for verb, examples in EXAMPLES.items()
    for text, _ in examples
    for command in text.split(" | ")
    if command.startswith("plumbline ")
]


@pytest.mark.parametrize(("verb", "words"), TYPED)
def test_examples_can_be_typed(verb: str, words: list[str]) -> None:
    """What the help shows as an example is of that verb, and is read."""
    assert words[1] == verb
    if verb in PURPOSES:
        assert parse(PURPOSES[verb][0], words[2:], {})


def test_every_verb_has_an_example() -> None:
    """Every verb shows how it is used."""
    assert set(EXAMPLES) == set(VERBS)


@pytest.mark.parametrize(
    ("words", "namespace"),
    [
        (["-n", "shop"], "shop"),
        (["-nshop"], "shop"),
        (["-n=shop"], "shop"),
        (["--namespace", "shop"], "shop"),
        (["-nshop", "--namespace=bank"], "bank"),
        (["--namespace=bank", "-nshop"], "shop"),
    ],
)
def test_one_letter_stands_for_a_name(words: list[str], namespace: str) -> None:
    """The letter and the name are one flag, of which the last value counts."""
    assert parse(PlanSettings, words, {}).selection.namespace == namespace


def test_flags_page_is_current() -> None:
    """The documentation lists the flags that the program has."""
    assert FLAGS_PAGE.read_text("utf-8") == flags_page(), "run 'make generate'"
