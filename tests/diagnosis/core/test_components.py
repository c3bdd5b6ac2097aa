"""What is found about the processes of an installation, ours and upstream's."""

from __future__ import annotations

from dataclasses import replace

from app.diagnosis.core.components import of_components
from app.diagnosis.core.facts import Facts, Level, Unasked
from app.diagnosis.core.processes import (
    ADMISSION,
    COMPONENTS,
    logs_of,
    place_of,
    with_flag,
    with_rights,
)
from app.model.fields import Json
from app.model.gates import NEEDED_BY
from tests.cases import cases
from tests.diagnosis.core.healthy import FACTS, charted, deployment, flaws, with_one

UPSTREAM = "registry.k8s.io/autoscaling/vpa-{}:1.8.1"
DOUBLED = "upstream's {} still runs, and does the same as ours"
CHARTED = replace(
    FACTS,
    namespace="vpa",
    deployments=[charted(deployment("updater")), charted(deployment(ADMISSION))],
)
ADDED = '[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--a=1"}]'


def theirs(component: str, *args: str, replicas: int = 1) -> Json:
    """Return upstream's process."""
    return deployment(component, *args, image=UPSTREAM.format(component), replicas=replicas)


@cases(
    "facts found",
    {
        "ours": (FACTS, []),
        "down": (
            with_one(deployment("updater", available=0)),
            [(Level.SERIOUS, "no pod of the updater is available")],
        ),
        "down, as an API server says it": (
            with_one({**deployment("updater"), "status": {}}),
            [(Level.SERIOUS, "no pod of the updater is available")],
        ),
        "scaled to zero": (
            with_one(deployment("updater", replicas=0)),
            [(Level.WARNING, "the updater is scaled to zero")],
        ),
        "both": (
            with_one(deployment("updater"), theirs("updater")),
            [(Level.SERIOUS, DOUBLED.format("updater"))],
        ),
        "upstream's alone": (
            with_one(theirs("updater")),
            [(Level.NOTE, "upstream's updater runs, and ours does not")],
        ),
        "the way back": (with_one(deployment("updater"), theirs("updater", replicas=0)), []),
        "dry": (with_one(deployment("updater", "--v=4", "--dry-run"), theirs("updater")), []),
        "two names": (
            with_one(deployment("recommender", "-recommender_name=b"), theirs("recommender")),
            [],
        ),
        "one name for two": (
            with_one(
                deployment("recommender", "--recommender-name", "b"),
                theirs("recommender", "--recommender-name=b"),
            ),
            [(Level.SERIOUS, DOUBLED.format("recommender"))],
        ),
        "two webhooks": (
            with_one(deployment("admission-controller"), theirs("admission-controller")),
            [(Level.SERIOUS, DOUBLED.format("admission-controller"))],
        ),
        "something else of that name": (
            with_one(deployment("updater", image="nginx")),
            [(Level.NOTE, "it was not found; it may run by other means")],
        ),
        "none": (
            replace(FACTS, deployments=[{"metadata": {"name": "web"}}]),
            [(Level.NOTE, "it was not found; it may run by other means")] * 3,
        ),
    },
)
def test_components(facts: Facts, found: list[tuple[Level, str]]) -> None:
    """Processes that are down, doubled or absent are named; those that agreed are not."""
    assert flaws(list(of_components(facts))) == found


def gated(component: str, *gates: str) -> Json:
    """Return our Deployment of a process with some gates."""
    return deployment(component, *(f"--feature-gates={gate}" for gate in gates))


BOOSTS, ALL = "CPUStartupBoost=true", "AllAlpha=true"


@cases(
    "deployments found",
    {
        "on in all": ([gated(one, BOOSTS) for one in COMPONENTS], []),
        "off in the updater": (
            [gated(ADMISSION, BOOSTS), gated("recommender", BOOSTS)],
            [
                "feature gate CPUStartupBoost is off here, and on in the admission controller and "
                "the recommender: no boost ends, so pods keep their boosted CPU"
            ],
        ),
        "on in the updater alone": (
            [gated("updater", BOOSTS)],
            [
                "feature gate CPUStartupBoost is off here, and on in the updater: "
                "no pod is boosted",
                "feature gate CPUStartupBoost is off here, and on in the updater: "
                "boosted CPU is learned as if it were needed",
            ],
        ),
        "all of them, but for those that it does not need": (
            [gated(ADMISSION, ALL), gated("updater", ALL), gated("recommender", BOOSTS)],
            [
                "feature gate PerVPAConfig is off here, and on in the admission controller and "
                "the updater: what VPAs say about memory does not count"
            ],
        ),
        "the last word counts": (
            [gated(one, BOOSTS) for one in COMPONENTS[:2]]
            + [gated("updater", "CPUStartupBoost=false", "InPlace=false,CPUStartupBoost=true")],
            [],
        ),
        "beside upstream's": (
            [gated(ADMISSION, BOOSTS), gated("recommender", BOOSTS), theirs("updater")],
            [
                "upstream's updater runs, and ours does not",
                "feature gate CPUStartupBoost is off here, and on in the admission controller and "
                "the recommender: no boost ends, so pods keep their boosted CPU",
            ],
        ),
        "beside upstream's, of which it is not known": (
            [
                gated(ADMISSION, BOOSTS),
                gated("recommender", BOOSTS),
                theirs("updater", "--feature-gates=Odd=true"),
            ],
            [
                "upstream's updater runs, and ours does not; give ours its flags: "
                "--feature-gates=Odd=true"
            ],
        ),
        "scaled to zero": (
            [
                gated(ADMISSION, BOOSTS),
                gated("recommender", BOOSTS),
                deployment("updater", replicas=0),
            ],
            ["the updater is scaled to zero"],
        ),
    },
)
def test_gates_that_differ(deployments: list[Json], found: list[str]) -> None:
    """A gate that is on in one process and off in another is told with what follows from it."""
    assert [told for _, told in flaws(list(of_components(with_one(*deployments))))] == found


@cases(
    "words found",
    {
        "on everywhere, in two ways": ([[], ["--native-sidecars"], ["--native-sidecars=true"]], []),
        "off everywhere": ([["--native-sidecars=false"]] * 3, []),
        "off in the webhook": (
            [["--native-sidecars=false"], [], []],
            [
                "--native-sidecars is off here, and on in the recommender and the updater: "
                "native sidecars are treated in part"
            ],
        ),
    },
)
def test_sidecars_that_only_some_leave_alone(words: list[list[str]], found: list[str]) -> None:
    """The flag about sidecars is one for all processes."""
    ours = [deployment(one, *flags) for one, flags in zip(COMPONENTS, words, strict=True)]
    assert [told for _, told in flaws(list(of_components(with_one(*ours))))] == found


def test_what_is_held_by_some() -> None:
    """The flag about what scales horizontally is one for all processes."""
    ours = [deployment(ADMISSION, "--horizontal=ignore"), *map(deployment, COMPONENTS[1:])]
    assert [told for _, told in flaws(list(of_components(with_one(*ours))))] == [
        "--horizontal=ignore is given here, and not to the recommender and the updater, "
        "so what they hold is changed"
    ]


def test_every_gate_has_an_effect() -> None:
    """For each gate it is known what comes of it if a process that needs it has it not."""
    for gate, processes in NEEDED_BY.items():
        on_in, *off_in = [one for one in COMPONENTS if one.replace("-", " ") in processes]
        facts = with_one(gated(on_in, f"{gate}=true"))
        found = [one.about for one in of_components(facts) if gate in one.message]
        assert found == [f"deployment/vpa-{one}" for one in off_in]


def test_gates_of_several_installations() -> None:
    """Installations in namespaces of their own may have gates of their own."""
    others = [charted(gated(one, BOOSTS)) for one in COMPONENTS]
    assert flaws(list(of_components(with_one(*others)))) == []


@cases(
    "deployments fix",
    {
        "manifests": (
            [gated(ADMISSION, BOOSTS), gated("recommender", BOOSTS)],
            "kubectl -n kube-system patch deployment/vpa-updater --type=json -p "
            '\'[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", '
            '"value": "--feature-gates=CPUStartupBoost=true"}]\'',
        ),
        "chart": (
            [
                *(charted(gated(one, BOOSTS)) for one in COMPONENTS[:2]),
                charted(deployment("updater")),
            ],
            "helm get values blue -n vpa",
        ),
    },
)
def test_what_turns_a_gate_on(deployments: list[Json], fix: str) -> None:
    """The command turns it on where it is off."""
    facts = with_one(*deployments)
    fixes = [one.fix for one in of_components(facts) if "feature gate" in one.message]
    assert fixes == [fix]


def test_flags_to_be_taken_along() -> None:
    """What upstream's process is told is named, for who moves over would lose it otherwise."""
    bare = theirs("updater", "--v=4", "--stderrthreshold=info", "--leader-elect=true")
    mine = theirs("updater", "--v=4", "--min-replicas=1", "--eviction-tolerance", "0.2")
    mine["spec"]["template"]["spec"]["containers"][0]["command"] = ["/updater"]
    told = "upstream's updater runs, and ours does not"
    flags = "; give ours its flags: --min-replicas=1 --eviction-tolerance 0.2"

    assert flaws(list(of_components(with_one(bare)))) == [(Level.NOTE, told)]
    assert flaws(list(of_components(with_one(mine)))) == [(Level.NOTE, told + flags)]


def test_another_namespace_is_looked_at() -> None:
    """Who looks where none of our processes lives is told where they do."""
    facts = replace(FACTS, namespace="vpa")
    (found,) = [one for one in of_components(facts) if one.level is not Level.FINE]
    assert (found.level, found.about) == (Level.WARNING, "namespace/vpa")
    assert found.fix == "plumbline doctor -n kube-system"


def named(name: str, item: Json) -> Json:
    """Return a Deployment under another name, in another namespace."""
    return item | {"metadata": item["metadata"] | {"namespace": "vpa", "name": name}}


@cases(
    "deployments place command",
    {
        "ours": (
            [theirs(ADMISSION), named("ours", deployment(ADMISSION))],
            ("vpa", "deployment/ours"),
            "kubectl -n vpa logs deployment/ours --tail=50",
        ),
        "upstream's": (
            [named("theirs", theirs(ADMISSION))],
            ("vpa", "deployment/theirs"),
            "kubectl -n vpa logs deployment/theirs --tail=50",
        ),
        "not known": (
            Unasked("refused"),
            ("kube-system", "deployment/vpa-admission-controller"),
            "kubectl -n kube-system logs deployment/vpa-admission-controller --tail=50",
        ),
        "none": (
            [],
            ("kube-system", "deployment/vpa-admission-controller"),
            "plumbline manifests admission | kubectl apply --server-side --force-conflicts -f -",
        ),
        "two of ours": (
            [named("a", deployment(ADMISSION)), deployment(ADMISSION)],
            ("kube-system", "deployment/vpa-admission-controller"),
            "kubectl -n kube-system logs deployment/vpa-admission-controller --tail=50",
        ),
    },
)
def test_names(deployments: list[Json] | Unasked, place: tuple[str, str], command: str) -> None:
    """Commands name the Deployment that is there, or bring the one that is not."""
    facts = replace(FACTS, deployments=deployments)
    assert place_of(ADMISSION, facts) == place
    assert logs_of(ADMISSION, facts) == command


@cases(
    "facts namespace command",
    {
        "manifests": (
            FACTS,
            "kube-system",
            "(plumbline manifests updater; plumbline manifests trials) "
            "| kubectl auth reconcile -f -",
        ),
        "manifests elsewhere": (
            FACTS,
            "vpa",
            "(plumbline manifests updater; plumbline manifests trials) "
            "| sed 's/namespace: kube-system/namespace: vpa/' | kubectl auth reconcile -f -",
        ),
        "chart": (
            CHARTED,
            "vpa",
            "helm upgrade blue deploy/chart -n vpa --reset-then-reuse-values",
        ),
    },
)
def test_what_grants_rights(facts: Facts, namespace: str, command: str) -> None:
    """Only rights are granted, by the means that granted the others."""
    assert with_rights("updater", namespace, ["updater", "trials"], facts) == command


@cases(
    "facts command",
    {
        "manifests": (
            FACTS,
            "kubectl -n kube-system patch deployment/vpa-admission-controller --type=json "
            f"-p '{ADDED}'",
        ),
        "chart": (
            CHARTED,
            "helm upgrade blue deploy/chart -n vpa --reset-then-reuse-values "
            "--set admissionController.a=1",
        ),
        "by hand": (replace(FACTS, deployments=[]), "plumbline admission --a=1"),
    },
)
def test_what_tells_a_flag(facts: Facts, command: str) -> None:
    """A flag is told where the others are: of several the last one counts."""
    assert with_flag("--a=1", "a=1", facts) == command
