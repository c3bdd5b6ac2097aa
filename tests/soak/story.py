"""What befalls a soaked cluster: hours of trouble chosen by a seed, each ending in calm.

Strategy: a step does one thing, and time passes after it. At the end of an hour all is repaired,
and after some calm minutes the judge looks at how it stands.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Final

from app.model.errors import ClusterError, Conflict, NotFound, Refused, TooMany, Unavailable
from app.ports import DEPLOYMENTS, EVENTS, POD_METRICS, PODS, VPAS, Json, PatchKind, Ref
from tests.faults import Fault
from tests.soak.cluster import NAMESPACE, WORKLOADS, SoakedCluster, vpa, workload
from tests.soak.judge import Judge
from tests.soak.memory import Memory, growth, measured
from tests.soak.replicas import Replica

HOUR: Final = 3600.0
_CALM_SECONDS: Final = 900.0
_PAUSE_SECONDS: Final = 120.0  # at most, from one step to the next
_TEND_SECONDS: Final = 5.0
_CHURNED: Final = 300  # pods, ten a second
_CHURN_SECONDS: Final = 0.1
_CHANGING: Final = ("web", "slow", "once", "restarting")
_ERRORS: Final[tuple[ClusterError, ...]] = (
    Unavailable("no answer in time"),
    Unavailable("internal error", status=500),
    Unavailable("gateway timeout", status=504),
    TooMany("slow down", status=429, retry_after_seconds=3),
    Conflict("changed", status=409),
    NotFound("gone", status=404),
    Refused("exceeded quota", status=403),
)
_ALL_DAY: Final = 10**9
_LATE_SHARE: Final = 0.5  # of the failed calls are carried out, only their answers are lost
_ALL_SHARE: Final = 0.4  # of kills hit all replicas of a process
_GROWTH_HOURS: Final = 72  # in less not all that is bounded has come to its bound
_COMPARED_HOURS: Final = 3  # of which the least counts
_WARM_HOURS: Final = 3  # until a new process holds what it usually does


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a soak showed."""

    problems: list[str]
    counts: dict[str, int]
    held: list[int]  # pieces of memory at the end of each hour


class Errors(logging.Handler):
    """Hears of what our own code failed at; that calls fail is no error."""

    def __init__(self, blame: Callable[[str], object]) -> None:
        super().__init__(logging.ERROR)
        self._blame = blame

    def emit(self, record: logging.LogRecord) -> None:
        """Pass on what was logged."""
        error = record.exc_info[1] if record.exc_info else None
        self._blame(f"error: {record.name}: {record.getMessage()}: {error!r}")


class Story:
    """Plays hours.

    One replica of each process lives from the first third on, so that what it holds can be seen
    to grow.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = SoakedCluster(seed)
        self.judge = Judge(self.cluster)
        self.kills_all = True  # whether all replicas of a process may be away at a time
        self._temporary = 0

    def play(self, hours: int, tell: Callable[[str], object] = lambda _line: None) -> Outcome:
        """Play so many hours; tell a line after each."""
        held: list[int] = []
        recent: deque[Memory] = deque(maxlen=_COMPARED_HOURS)  # what is measured is held as well
        early = None
        errors = Errors(self.judge.blame)
        logging.getLogger().addHandler(errors)
        try:
            self.start()
            for hour in range(1, hours + 1):
                self.kills_all = hours < _GROWTH_HOURS or hour < hours // 3 - _WARM_HOURS
                self._trouble()
                self._calm()
                recent.append(measured())
                held.append(recent[-1].blocks)
                tell(f"hour {hour}: {held[-1]} pieces, {dict(self.judge.counts)}")
                if hour == hours // 3:
                    early = _least(recent)
                if self.judge.problems:
                    break
        finally:
            self.cluster.stop()
            logging.getLogger().removeHandler(errors)
        problems = list(self.judge.problems)
        if not problems and early is not None and hours >= _GROWTH_HOURS:
            problems += filter(None, [growth(early, _least(recent))])
        return Outcome(problems, dict(self.judge.counts), held)

    def start(self) -> None:
        """Start everything, and let it settle."""
        self.cluster.start()
        self.watch()
        self.run(HOUR / 2)

    def watch(self) -> None:
        """Look at the calls of all processes."""
        for replica in self.cluster.replicas:
            self.judge.watch(replica)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        while seconds > 0:
            self.cluster.sandbox.advance(min(seconds, _TEND_SECONDS))
            self.judge.tend()
            seconds -= _TEND_SECONDS

    def replica(self) -> Replica:
        """Return any replica that works."""
        return self.random.choice([one for one in self.cluster.replicas if one.process is not None])

    def mortal(self, *roles: str) -> list[Replica]:
        """Return the replicas of one of some processes that may end now."""
        found = self.cluster.of(self.random.choice(roles))
        return found if self.kills_all and self.random.random() < _ALL_SHARE else found[:1]

    def begin(self, replica: Replica) -> None:
        """Start a process again."""
        if replica.process is None:
            replica.start()
            self.judge.watch(replica)

    def temporary(self) -> str:
        """Return a name that was never used."""
        self._temporary += 1
        return f"temporary-{self._temporary}"

    def _trouble(self) -> None:
        ends = self.cluster.clock.monotonic() + HOUR - _CALM_SECONDS
        while self.cluster.clock.monotonic() < ends:
            name = self.random.choice(sorted(STEPS))
            self.judge.counts[name] += 1
            with suppress(NotFound):  # what the step is about may just be going
                STEPS[name](self)
            self.run(self.random.uniform(1, _PAUSE_SECONDS))

    def _calm(self) -> None:
        self.cluster.recover()
        self.watch()
        for event in self.cluster.sandbox.cluster.list(EVENTS).items:  # kept for an hour else
            named = event["metadata"]
            self.cluster.sandbox.cluster.delete(Ref(EVENTS, named["namespace"], named["name"]))
        self.run(_CALM_SECONDS)
        self.judge.see_boosts(_CALM_SECONDS)


def _least(recent: Iterable[Memory]) -> Memory:
    """Return the least of some hours: pods differ from hour to hour."""
    return min(recent, key=lambda found: found.blocks)


Step = Callable[[Story], object]
STEPS: Final[dict[str, Step]] = {}


def step(function: Step) -> Step:
    """Note something that may happen."""
    STEPS[function.__name__] = function
    return function


@step
def api_errors(story: Story) -> None:
    """Some of the next calls of a process fail."""
    error = story.random.choice(_ERRORS)
    resource = story.random.choice((None, PODS, VPAS, POD_METRICS))
    verb = story.random.choice(("", "get", "list", "patch", "evict"))
    late = isinstance(error, Unavailable) and story.random.random() < _LATE_SHARE
    times = story.random.randint(1, 20)
    faults = story.replica().runtime.faults
    faults.order(Fault(copy(error), verb, resource, times=times, too_late=late))


@step
def api_outage(story: Story) -> None:
    """No call of a process is answered for a while, so a leader loses its Lease."""
    faults = story.replica().runtime.faults
    faults.order(Fault(copy(_ERRORS[0]), times=_ALL_DAY))
    story.run(story.random.uniform(5, 90))
    faults.clear()


@step
def watch_loss(story: Story) -> None:
    """A process hears nothing from its watches for a while."""
    runtime = story.replica().runtime
    for cache in runtime.caches:
        cache.lose()
    story.run(story.random.uniform(1, 200))
    for cache in runtime.caches:
        cache.find()


@step
def clock_jump(story: Story) -> None:
    """The time of day of a process is wrong for a while."""
    seconds = story.random.choice((-86400, -3600, -60, 60, 3600, 86400))
    clock = story.replica().runtime.set_clock
    clock.ahead = timedelta(seconds=seconds)
    story.run(story.random.uniform(5, 120))
    clock.ahead = timedelta()


@step
def leader_kill(story: Story) -> None:
    """A recommender or an updater is killed, or both of a kind; they come back."""
    killed = story.mortal("recommender", "updater")
    for replica in killed:
        replica.kill()
    story.run(story.random.uniform(1, 60))
    for replica in killed:
        story.begin(replica)


@step
def hand_over(story: Story) -> None:
    """A recommender or an updater ends in good order, or both of a kind; they come back."""
    ended = story.mortal("recommender", "updater")
    for replica in ended:
        replica.stop()
    story.run(story.random.uniform(1, 30))
    for replica in ended:
        story.begin(replica)


@step
def webhook_kill(story: Story) -> None:
    """One replica of the webhook is killed, or all of them."""
    killed = story.mortal("webhook")
    for replica in killed:
        replica.kill()
    story.run(story.random.uniform(1, 60))
    for replica in killed:
        story.begin(replica)


@step
def churn(story: Story) -> None:
    """Somebody deletes ten pods a second, which come back under other names."""
    for _ in range(_CHURNED):
        pods = story.cluster.pods("crowd")
        if pods:
            _delete(story, story.random.choice(pods))
        story.cluster.sandbox.advance(_CHURN_SECONDS)


@step
def pod_kill(story: Story) -> None:
    """Somebody deletes a pod."""
    pods = story.cluster.pods(story.random.choice(sorted(WORKLOADS)))
    if pods:
        _delete(story, story.random.choice(pods))


@step
def oom_kill(story: Story) -> None:
    """A pod uses more memory than it may, and less again later."""
    _play_role(story, "greedy", ("web", "once"))


@step
def busy(story: Story) -> None:
    """A pod uses more cpu for a while."""
    _play_role(story, "busy", ("web", "slow", "restarting"))


@step
def rollout(story: Story) -> None:
    """A template changes, so all pods are replaced, boosted ones among them."""
    name = story.random.choice(_CHANGING)
    mark = {"version": str(story.cluster.clock.monotonic())}
    body = {"spec": {"template": {"metadata": {"annotations": mark}}}}
    ref = Ref(DEPLOYMENTS, NAMESPACE, name)
    story.cluster.sandbox.cluster.patch(ref, body, kind=PatchKind.MERGE)


@step
def cap(story: Story) -> None:
    """A VPA caps what it recommends, so its pods are to be moved."""
    most = {"cpu": story.random.choice(("40m", "80m", "120m", "1"))}
    policies = [{"containerName": "*", "maxAllowed": most}]
    spec = {"resourcePolicy": {"containerPolicies": policies}}
    _change_vpa(story, story.random.choice(_CHANGING), spec)


@step
def change_mode(story: Story) -> None:
    """A VPA acts in another way, or not at all for a while."""
    name = story.random.choice(_CHANGING)
    for modes in (("InPlace", "Off", "Initial"), ("Recreate", "InPlaceOrRecreate")):
        mode = {"updateMode": story.random.choice(modes)}
        _change_vpa(story, name, {"updatePolicy": mode})
        story.run(story.random.uniform(60, 400))


@step
def vpa_away(story: Story) -> None:
    """A VPA is deleted, and written again a little later."""
    name = story.random.choice(("web", "restarting"))
    story.cluster.sandbox.cluster.delete(Ref(VPAS, NAMESPACE, name))
    story.run(story.random.uniform(1, 300))
    story.cluster.apply(vpa(name))


@step
def come_and_go(story: Story) -> None:
    """A workload with a VPA is there for some minutes only."""
    name = story.temporary()
    found: tuple[Json, ...] = (
        workload(name, "cpu: constant 20m", 2, box=f"box-{name}"),
        vpa(name),
    )
    story.cluster.apply(*found)
    story.run(story.random.uniform(60, 300))
    story.cluster.sandbox.cluster.delete(Ref(DEPLOYMENTS, NAMESPACE, name))
    story.cluster.sandbox.cluster.delete(Ref(VPAS, NAMESPACE, name))


def _change_vpa(story: Story, name: str, spec: Json) -> None:
    ref = Ref(VPAS, NAMESPACE, name)
    story.cluster.sandbox.cluster.patch(ref, {"spec": spec}, kind=PatchKind.MERGE)


def _play_role(story: Story, role: str, workloads: tuple[str, ...]) -> None:
    """Let a pod play a role for some minutes, if it lives so long."""
    pods = story.cluster.pods(story.random.choice(workloads))
    if pods:
        name = story.random.choice(pods)["metadata"]["name"]
        story.cluster.label(name, role=role)
        story.run(story.random.uniform(30, 600))
        story.cluster.label(name, role="usual")


def _delete(story: Story, pod: Json) -> None:
    story.cluster.sandbox.cluster.delete(Ref(PODS, NAMESPACE, pod["metadata"]["name"]))


def lines(outcome: Outcome) -> Iterator[str]:
    """Say how it ended."""
    yield f"done: {outcome.counts}"
    yield from (outcome.problems or ["nothing went wrong"])
