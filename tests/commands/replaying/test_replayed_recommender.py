"""A process sees what is there, writes what it says, and another one goes on from that."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from app.commands.replaying.replayed_recommender import ReplayedRecommender
from app.model.fields import Json
from app.recommender.configuration import RoundRules
from app.recommender.core import checkpoints, moments
from app.recommender.core.checkpoints import Checkpoint, StoredHistogram, to_json
from app.recommender.core.moments import nanoseconds
from app.recommender.core.rules import RecommenderRules
from app.recommender.core.usage import UsageBatch
from app.recommender.upstream.variant import UPSTREAM
from app.recommender.variants import OURS
from tests import make
from tests.cases import cases
from tests.commands.replaying.story import (
    OWNER,
    START,
    WEB,
    WORKLOADS,
    Story,
    eviction_json,
    objects_of,
    pod_json,
)

both = pytest.mark.parametrize("upstream", [True, False], ids=["upstream", "ours"])
VPA = make.vpa_json("web", target="Deployment/web")
MIDNIGHT = nanoseconds(datetime(2026, 1, 4, tzinfo=UTC))
STORED = to_json(
    Checkpoint(
        "default",
        "web-app",
        "web",
        "app",
        StoredHistogram(MIDNIGHT, {25: 10000}, 100.0),
        StoredHistogram(MIDNIGHT, {37: 10000}, 4.0),
        first_ns=MIDNIGHT - moments.DAY,
        last_ns=MIDNIGHT + moments.DAY - moments.MINUTE,
        count=2880,
    )
)


def steady(minutes: range, pod: str = "web-0", cpu: str = "100m", memory: str = "400Mi") -> Story:
    """Return a story of the same usage every minute."""
    story = Story()
    for minute in minutes:
        story.use(minute, cpu, memory, pod=pod)
    return story


# --- which VPAs, pods and targets


def test_a_vpa_that_is_given_to_another_recommender() -> None:
    """What was said stays, and nothing more is said."""
    story = Story().use(1, "100m", "400Mi")
    story.put(1.5, make.vpa_json("web", target="X/y", spec={"recommenders": [{"name": "perf"}]}))
    shown = story.use(2, "900m", "900Mi").play(1, 2, 3)
    assert shown.at(3) | {"time": ""} == shown.at(1) | {"time": ""}


@cases(
    "only ignored seen",
    {
        "all": ("", (), ["default", "other"]),
        "one": ("other", (), ["other"]),
        "all but one": ("", ["other"], ["default"]),
    },
)
def test_namespaces(only: str, ignored: Sequence[str], seen: Sequence[str]) -> None:
    """A process may be told where to look, and where not."""
    others = [make.with_value(item, "metadata.namespace", "other") for item in WEB]
    story = Story([*WEB, *others])
    for namespace in ("default", "other"):
        story.tell(1, "usage", namespace=namespace, pod="web-0", container="app", cpu="1")
    shown = story.play(1, namespace=only, ignored=ignored)
    assert [one["namespace"] for one in shown.lines if one.get("recommendation")] == seen


SHOP = {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "web"}}
SHOP_KIND = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "shops.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Shop", "plural": "shops"},
        "versions": [
            {
                "name": "v1",
                "subresources": {
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "labelSelectorPath": ".status.selector",
                    }
                },
            }
        ],
    },
}


@cases(
    "target owner objects problem",
    {
        "the topmost": ("Deployment/web", OWNER, WORKLOADS, ""),
        "missing": (
            "Deployment/web",
            OWNER,
            [],
            "Cannot read targetRef. Reason: Deployment default/web does not exist",
        ),
        "a custom kind": (
            "example.com/v1/Shop/web",
            "example.com/v1/Shop/web",
            [SHOP_KIND, SHOP | {"spec": {"replicas": 1}, "status": {"selector": "app=web"}}],
            "",
        ),
    },
)
@both
def test_targets(
    target: str, owner: str, objects: Sequence[Json], problem: str, upstream: bool
) -> None:
    """A target must be there and the topmost; the condition says what is wrong."""
    vpa, pod = make.vpa_json("web", target=target), pod_json(owner=owner)
    story = Story([vpa, pod]).put(0.5, *objects).use(1, "100m", "400Mi")
    conditions = story.play(1, upstream=upstream).conditions(1)
    assert conditions.get("ConfigUnsupported", ("", "", ""))[2] == problem
    assert conditions["RecommendationProvided"][0] == ("False" if problem else "True")


# --- statuses


def test_other_peoples_conditions_stay() -> None:
    """A condition that nobody here sets is kept, with its time."""
    alien = {"type": "Alien", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    vpa = make.vpa_json("web", target="Deployment/web", status={"conditions": [alien]})
    story = Story([*WORKLOADS, vpa, pod_json()]).use(1, "100m", "400Mi")
    story.put(1.5, VPA).use(2, "100m", "400Mi")  # who applies a VPA does not touch its status
    for upstream in (True, False):
        found = story.play(2, upstream=upstream).at(2)["conditions"]
        assert [one["lastTransitionTime"] for one in found] == [
            "2020-01-01T00:00:00Z",
            "2026-01-05T00:01:00Z",
        ]


# --- checkpoints and restarts


@both
def test_history_is_read_at_start(upstream: bool) -> None:
    """What another recommender stored counts from the first tick on."""
    story = Story([*WEB, STORED]).use(1, "100m", "400Mi")
    shown = story.play(1, upstream=upstream)
    assert shown.target(1) == "587m 1238659775"
    assert shown.checkpoints(1)["web-app"]["status"]["totalSamplesCount"] == 2881


@cases(
    "upstream target",
    {
        "upstream overwrites it": (True, "126m 511772986"),
        "ours reads it": (False, "587m 1238659775"),
    },
)
def test_history_of_a_vpa_that_comes_later(upstream: bool, target: str) -> None:
    """History waits for its VPA, but for upstream only at start."""
    story = Story([*WORKLOADS, pod_json(), STORED]).put(1.5, VPA).use(2, "100m", "400Mi")
    assert story.play(2, upstream=upstream).target(2) == target


@both
def test_ticks_after_a_restart(upstream: bool) -> None:
    """A new process counts its ticks from its own start."""
    story = steady(range(1, 6)).restart(2.25)
    shown = story.play(2, 3, 3.25, upstream=upstream)
    counts = [
        shown.checkpoints(look)["web-app"]["status"]["lastUpdateTime"][11:19] for look in (2, 3.25)
    ]
    assert counts[0] == "00:02:00" if upstream else counts[0] <= "00:02:00"
    assert shown.at(3)["recommendation"] == shown.at(2)["recommendation"]
    if upstream:
        assert counts[1] == "00:03:15"


@cases(
    "restarts read first",
    {
        "all was read": ([10.5], 29, 1),
        "a tick of the same moment comes first": ([10], 29, 1),
        "twice in a row, nothing between": ([10.25, 10.5, 10.5], 29, 1),
        "after a sample and before its tick": ([10.5, 20], 28, 1),
        "the only sample was not read": ([0.5, 1], 28, 2),
        "no process lives until its first tick": ([0.5, 1.25, 2, 2.75], 27, 3),
    },
)
def test_usage_beside_restarts(restarts: Sequence[float], read: int, first: int) -> None:
    """Upstream's next process finds only usage that is newer than itself; ours loses none."""
    story = Story()
    for restart in [*restarts, 31]:  # the last one lets ours store everything
        story.restart(restart)
    for minute in range(1, 30):
        story.use(minute, "100m", "400Mi")
    for upstream, expected in ((True, (read, first)), (False, (29, 1))):
        found = story.play(32, upstream=upstream).checkpoints(32)["web-app"]["status"]
        assert found["totalSamplesCount"] == expected[0]
        assert found["firstSampleStart"] == f"2026-01-05T00:0{expected[1]}:00Z"


def test_bounds_of_upstream_after_a_restart() -> None:
    """Two samples that two processes did not read keep the bounds wide: numbers of upstream's."""
    story = steady(range(1, 30)).restart(10.5).restart(11).restart(15.5).restart(16)
    shown = story.play(15, 16, 17, 29, upstream=True)
    assert [shown.bounds(minute) for minute in (15, 16, 17, 29)] == [
        ("103m 420764253", "126m 511772986", "13086m 53151280117"),
        ("103m 420764253", "126m 511772986", "13086m 53151280117"),
        ("104m 426045761", "126m 511772986", "12222m 49641979642"),
        ("113m 461259901", "126m 511772986", "6846m 27806332239"),
    ]


@pytest.mark.parametrize(
    ("upstream", "memory"), [(True, "511772986"), (False, "1470157273")], ids=["upstream", "ours"]
)
def test_kills_that_nobody_counted_yet(upstream: bool, memory: str) -> None:
    """What waits in upstream's queue ends with the process."""
    story = steady(range(1, 5)).kill(2.5, "1000Mi").restart(2.75)
    assert story.play(3.75, upstream=upstream).memory(3.75) == memory


@both
def test_kills_before_a_tick_and_a_restart_of_one_moment(upstream: bool) -> None:
    """The tick counts them."""
    story = steady(range(1, 5)).kill(2.5, "1000Mi").restart(3)
    assert story.play(3, upstream=upstream).memory(3) == "1470157273"


def test_a_restart_at_the_start() -> None:
    """What was recorded before the start needs no process, what comes with it another one."""
    story = steady(range(5)).restart(0).restart(1)
    found = story.play(3, upstream=True, start=1).checkpoints(3)["web-app"]["status"]
    assert (found["totalSamplesCount"], found["firstSampleStart"]) == (2, "2026-01-05T00:02:00Z")


@cases("restart memory", {"within the hour": (30, "1470157273"), "later": (90, "250Mi")})
def test_evictions_are_told_again(restart: float, memory: str) -> None:
    """A process that begins is told the events that still exist."""
    event = eviction_json("app", "1000Mi", "memory")
    story = Story().put(1.5, event).restart(restart)
    shown = story.play(2, restart + 1, upstream=True)
    assert [shown.memory(2), shown.memory(restart + 1)] == ["1470157273", memory]


def test_names_that_collide() -> None:
    """Upstream lets two containers write one object, ours keeps them apart."""
    objects = [
        *WORKLOADS,
        VPA,
        make.vpa_json("web-a", target="Deployment/web"),
        pod_json("web-0", "b", "a-b"),
    ]
    story = Story(objects).use(1, "1", "300Mi", container="b")
    story.use(1, "100m", "300Mi", container="a-b").use(1, "1", "300Mi", container="b")
    theirs = story.play(1, upstream=True).checkpoints(1)
    assert sorted(theirs) == ["web-a-a-b", "web-a-b", "web-b"]
    assert theirs["web-a-b"]["spec"] == {"vpaObjectName": "web", "containerName": "a-b"}
    assert theirs["web-a-b"]["status"]["cpuHistogram"]["bucketWeights"] == {"36": 10000}
    assert len(story.play(1).checkpoints(1)) == 4


def test_a_checkpoint_that_somebody_else_owns() -> None:
    """What cannot be written is tried again, and the owner loses nothing."""
    alien = to_json(Checkpoint("default", "web-app", "alien", "app"))
    story = steady(range(1, 10)).put(0.5, alien).drop(5.5, checkpoints.KIND, "web-app")
    shown = story.play(5, 8)
    assert (list(shown.checkpoints(5)), list(shown.checkpoints(8))) == ([], ["web-app"])


def test_a_checkpoint_from_the_future() -> None:
    """What cannot be is not used, and said."""
    future = make.with_value(STORED, "status.lastSampleStart", "2036-01-01T00:00:00Z")
    cluster = objects_of([*WEB, future])
    process = ReplayedRecommender(cluster, RoundRules(RecommenderRules()), START)
    assert process.problems == ["checkpoint default/web-app: it is from the future"]


def test_a_kill_in_the_instant_when_its_vpa_begins_to_work() -> None:
    """All that happens in one moment is seen together, in whichever order it is told."""
    killed = {"reason": "OOMKilled", "finishedAt": "2026-01-05T00:00:30Z"}
    status = {"containerStatuses": [{"name": "app", "state": {"terminated": killed}}]}
    story = Story([VPA]).put(1, *WORKLOADS, pod_json(memory="1000Mi", status=status))
    assert story.play(1).memory(1) == "1470157273"


def test_fetched_history_is_not_stored() -> None:
    """While somebody fetches history for a VPA, upstream stores none."""
    fetches = [{"type": "FetchingHistory", "status": "True"}]
    vpa = make.vpa_json("web", target="Deployment/web", status={"conditions": fetches})
    story = Story([*WORKLOADS, vpa, pod_json()]).use(1, "100m", "400Mi")
    assert story.play(1, upstream=True).checkpoints(1) == {}


def test_storage_in_prometheus() -> None:
    """Whoever remembers by Prometheus neither reads nor writes checkpoints."""
    story = Story([*WEB, STORED]).use(1, "100m", "400Mi").restart(1.5)
    for upstream in (True, False):
        shown = story.play(1, 2.5, upstream=upstream, keeps_checkpoints=False)
        assert (shown.target(1), shown.checkpoints(2.5)) == ("126m 511772986", {})


@cases(
    "minutes namespace ignored kept",
    {
        "not yet": (10, "", (), "orphan web-app alien away"),
        "orphans go, others' VPAs exist": (11, "", (), "web-app alien"),
        "not where it is ignored": (11, "", ["other"], "web-app alien away"),
        "not where nobody looks": (11, "default", (), "web-app alien away"),
    },
)
@both
def test_orphans(
    minutes: int, namespace: str, ignored: Sequence[str], kept: str, upstream: bool
) -> None:
    """Checkpoints without a VPA are deleted every ten minutes."""
    stored = [
        Checkpoint("default", "orphan", "gone", "app"),
        Checkpoint("default", "web-app", "web", "app"),
        Checkpoint("default", "alien", "alien", "app"),
        Checkpoint("other", "away", "web", "app"),
    ]
    alien = make.vpa_json("alien", spec={"recommenders": [{"name": "perf"}]})
    cluster = objects_of([*WEB, alien, *map(to_json, stored)])
    variant = UPSTREAM if upstream else OURS
    rules = RoundRules(
        variant.adjust_rules(RecommenderRules()),
        variant,
        namespace=namespace,
        ignored_namespaces=frozenset(ignored),
    )
    process = ReplayedRecommender(cluster, rules, START)
    for minute in range(1, minutes + 1):
        process.play_round(UsageBatch.of([]), START + timedelta(minutes=minute))
    assert [name for _, name in cluster.checkpoints] == kept.split()


# --- several VPAs of one workload


def test_owners_that_come_later_than_their_pods() -> None:
    """Whose a pod is becomes clear when its owners are seen."""
    selector = {"matchLabels": {"app": "web"}}
    vpa = make.vpa_json("web", target="Deployment/web", selector=selector)
    story = Story([vpa, pod_json()]).put(0.5, *WORKLOADS).use(1, "100m", "400Mi")
    story.put(1.5, pod_json("stray", owner=None)).use(2, "900m", "900Mi", pod="stray")
    shown = story.play(1, 2)
    assert [shown.target(1), shown.target(2)] == ["126m 511772986"] * 2
