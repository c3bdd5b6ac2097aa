"""What the whole autoscaler runs on: a cluster in memory, or a real one that is only looked at."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from app.admission.certification import Certification, local
from app.admission.flags import AdmissionSettings
from app.diagnosis.pod_preview import pod_previewer
from app.flags.command_line import parse
from app.model.errors import BadSetting
from app.ports import CHECKPOINTS, VPAS, Cluster, Json
from app.recommender import process as recommender
from app.recommender.flags import RecommenderSettings
from app.run.activity import ActivityFeed, recommendation_line
from app.run.demo.story import NAMESPACE, ShopStory
from app.run.dry_run import Drafts, DryRunRuntime, UnsentWrite
from app.run.embedded_webhook import EmbeddedWebhook, Listeners
from app.run.flags import RunSettings, address
from app.run.simulated import SimulatedRuntime
from app.run.view import REAL_TIME, ActivityKind, ClusterSpeed, View
from app.run.world import ProcessSettings, World, nodes_for
from app.runtime.clock import SystemClock
from app.runtime.live import Runtime
from app.updater import process as updater
from app.updater.flags import UpdaterSettings

# What stands before the sentence in a refusal, and says nothing that its line does not say.
_DENIED: Final = re.compile(
    r'^(admission webhook "[^"]*" denied the request: )?([\w.]+ "[^"]*" is invalid: )?'
)
_NO_SUCH_KIND: Final = "a cluster in memory has no such kind"
_NO_VPA: Final = (
    "none is among the objects, so no pod is sized; print some: plumbline init --objects PATH"
)
_DRY_INTERVAL: Final = timedelta(seconds=5)  # of the updater, which touches nothing


class InMemoryMode:
    """On a cluster in memory, with the built-in shop or with the manifests of a user."""

    is_simulated = True  # its time can be paused

    def __init__(
        self, settings: RunSettings, objects: Sequence[Json], listeners: Listeners
    ) -> None:
        processes = process_settings(settings)
        acting = replace(processes.updater.acting, concurrency=1, boost_workers=1)
        # Everything is done in the thread that moves the time, else it could not move.
        processes = replace(processes, updater=replace(processes.updater, acting=acting))
        self._is_shop = not settings.offline.objects
        self.title = "Plumbline demo" if self._is_shop else "Plumbline in memory"
        self._objects = objects
        nodes = nodes_for(objects)
        self._world = World(processes, listeners, seed=settings.pace.seed, nodes=nodes)
        self.cluster: Cluster = self._world.sandbox.cluster
        self.clock = self._world.sandbox.clock
        self.runtime: Runtime = SimulatedRuntime(self._world.sandbox)
        self.webhook = self._world.webhook
        self.feed = ActivityFeed(
            self.runtime, self.cluster, self._world.updater.decisions, self.webhook.reviewed
        )

        def tell(who: str, why: str) -> None:
            self.feed.add(ActivityKind.STORY, who, why, NAMESPACE)

        self._story = ShopStory(self.cluster, self.runtime, tell)

    def start(self) -> None:
        """Start the three, and bring the objects in.

        Raises:
            BadSetting: the webhook cannot be registered, or no object can be applied.
        """
        self._world.start()
        self.feed.start()
        self._bring_in()
        if self._is_shop:
            self._story.start()

    def _bring_in(self) -> None:
        """Apply the objects; tell which are refused, and which kinds no cluster in memory has.

        Raises:
            BadSetting: none of them could be applied.
        """
        skipped: Counter[str] = Counter()
        refused: list[str] = []
        for item in self._objects:
            if not self._world.sandbox.knows(item):
                skipped[str(item.get("kind"))] += 1
                continue
            for one in self._world.sandbox.apply(item):
                who, why = f"{one.kind} {one.name}", _DENIED.sub("", one.why)
                self.feed.add(ActivityKind.REFUSE, who, why)
                refused.append(f"{who}: {why}")
        if not any(item.get("kind") == VPAS.kind for item in self._objects):
            self.feed.add(ActivityKind.SKIP, VPAS.kind, _NO_VPA)
        if skipped:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(skipped.items()))
            self.feed.add(ActivityKind.SKIP, kinds, _NO_SUCH_KIND)
            refused.append(f"{kinds}: {_NO_SUCH_KIND}")
        if len(refused) - bool(skipped) + skipped.total() >= len(self._objects):
            raise BadSetting(f"nothing could be applied: {'; '.join(refused)}")

    def view(self, pace: ClusterSpeed = REAL_TIME) -> View:
        """Return everything as it is now."""
        planned = self._story.planned() if self._is_shop else ()
        return self.feed.view(self.title, pace, planned)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._world.sandbox.advance(seconds)

    def stop(self) -> None:
        """End everything."""
        self._story.stop()
        self.feed.stop()
        self._world.stop()


class DryRunMode:
    """On a real cluster, which is only read."""

    is_simulated = False

    def __init__(self, settings: RunSettings, listeners: Listeners, folder: Path) -> None:
        real = settings.real
        self.title = f"Plumbline looks at {real.context or real.kubeconfig or 'your cluster'}"
        processes = process_settings(settings)
        # Pods that would be created now would come to our webhook, which answers.
        webhook = replace(processes.updater.admission, is_on=False)
        loop = replace(processes.updater.loop, interval=_DRY_INTERVAL)
        processes = replace(
            processes, updater=replace(processes.updater, admission=webhook, loop=loop)
        )
        self._drafts = Drafts()
        self._checkpoints: set[tuple[str, str]] = set()
        self.runtime: Runtime = DryRunRuntime(self._report_write, self._drafts)
        runtime = self.runtime
        self._connection = runtime.connect(processes.updater.cluster)
        self.cluster: Cluster = self._connection
        self._recommender = recommender.Process(
            processes.recommender, runtime, pod_previewer(processes.recommender)
        )
        self._updater = updater.Process(processes.updater, runtime)
        certificates = replace(processes.admission.certificates, own_dir=folder / "certs")
        admission = replace(processes.admission, certificates=certificates)

        def certify(_problem: Callable[[], str]) -> Certification:
            return local(admission, SystemClock())

        self.webhook = EmbeddedWebhook(admission, runtime, certify, listeners, beats=False)
        self.feed = ActivityFeed(
            runtime,
            self.cluster,
            self._updater.decisions,
            self.webhook.reviewed,
            real.namespace,
            is_dry=True,
        )

    def start(self) -> None:
        """Begin to look."""
        self.webhook.start()
        self._recommender.start()
        self._updater.start()
        self.feed.start()

    def view(self, pace: ClusterSpeed = REAL_TIME) -> View:
        """Return everything as it is now."""
        return self.feed.view(self.title, pace)

    def advance(self, seconds: float) -> None:
        """Do nothing: here time passes by itself."""

    def stop(self) -> None:
        """End everything."""
        self.feed.stop()
        self._updater.stop()
        self._recommender.stop()
        self.webhook.stop()
        self._connection.close()

    def _report_write(self, unsent: UnsentWrite) -> None:
        what = unsent.verb
        if unsent.ref.resource == VPAS and unsent.item is not None:
            draft = self._drafts.add(unsent.item)
            what = recommendation_line(draft) if draft is not None else what
        elif unsent.ref.resource == CHECKPOINTS:
            key = (unsent.ref.namespace, unsent.ref.name)
            if key in self._checkpoints:  # written all the time, so told once
                return
            self._checkpoints.add(key)
        who = f"{unsent.ref.resource.kind} {unsent.ref.name}"
        self.feed.add(ActivityKind.WRITE, who, f"not sent: {what}", unsent.ref.namespace)


RunMode = InMemoryMode | DryRunMode


def process_settings(settings: RunSettings) -> ProcessSettings:
    """Return how the three are told to work."""
    serving, real, gates = settings.serving, settings.real, settings.features.gates
    words = [
        f"--kubeconfig={real.kubeconfig}",
        f"--context={real.context}",
        f"--vpa-object-namespace={real.namespace}",
        "--role-leases",  # Leases are watched only if VPAs name them
    ]
    recommender_port = f"--address={address(serving.host, serving.recommender)}"
    updater_port = f"--address={address(serving.host, serving.updater)}"
    admission = parse(AdmissionSettings, [*words, f"--host={serving.host}"], {})
    recommending = parse(RecommenderSettings, [*words, recommender_port], {})
    updating = parse(UpdaterSettings, [*words, updater_port], {})
    return ProcessSettings(
        replace(admission, decisions=replace(admission.decisions, gates=gates)),
        replace(recommending, loop=replace(recommending.loop, gates=gates, update_workers=1)),
        replace(
            updating,
            deciding=replace(updating.deciding, gates=gates),
            loop=replace(updating.loop, dry_run=real.dry_run),
        ),
    )
