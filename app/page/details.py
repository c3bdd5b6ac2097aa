"""What stands behind a row: a workload or a pod, explained from the latest picture.

Strategy: the explainer of `plumbline explain` is asked about one namespace, with the plan and the
histories of the picture. Only the texts of the few objects that it shows are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Final

from app.diagnosis.core.pod_events import PodEvents
from app.diagnosis.creation_preview import new_pod, pods_of
from app.diagnosis.explainer import Explainer, KnownBefore
from app.diagnosis.gathering import GatheredObjects
from app.model.errors import BadObject
from app.model.fields import Json
from app.model.kinds import ObjectKey, owner_key
from app.model.pods import Pod, read_pod
from app.model.snapshot import Snapshot
from app.model.vpa import Vpa
from app.page.core.charts import Chart, ChartLevel, LevelKind, Mark
from app.page.core.copied_texts import PatchedTemplate, copied_texts
from app.page.core.derivation import derivations
from app.page.core.levels import levels_now
from app.page.core.past import WorkloadPast
from app.page.core.picture import Picture
from app.page.core.rows import WorkloadRow, controlled_pods, pods_by_top
from app.page.core.usage_series import (
    ChartRange,
    SeriesKey,
    UsageQuestion,
    compiled,
    escaped,
    known_since,
    pod_names,
)
from app.page.core.workload import WorkloadView, workload_view
from app.page.core.workload_charts import workload_charts
from app.page.core.workload_log import event_marks, pod_marks
from app.page.pasts import PastSettings
from app.page.pictures import Pictures
from app.ports import CHECKPOINTS, PODS, VPAS, WORKLOADS, Ref
from app.recommender.core.checkpoints import Checkpoint, read_checkpoint
from app.updater.core.decisions import Decision

_MOST_LATER: Final = 8  # moments for which the pods of one VPA are planned, because each costs


class Details:
    """Explains what is asked about, from the latest picture."""

    def __init__(self, pictures: Pictures, past: PastSettings | None) -> None:
        self._pictures = pictures
        self._past = past

    def of_vpa(
        self, picture: Picture, namespace: str, name: str, shown: ChartRange
    ) -> WorkloadView | None:
        """Return the view of a VPA's workload, None if there is no such VPA."""
        view = picture.snapshot.of(namespace)
        vpa = view.vpas.get(name)
        if vpa is None:
            return None
        refs = [Ref(VPAS, namespace, name)]
        first = next((one for one in _decided(picture, namespace) if one.vpa == name), None)
        if first is not None:
            refs.append(Ref(PODS, namespace, first.pod))
        if vpa.target is not None:
            refs += _workload_ref(namespace, vpa.target.key)
        kept = self._written([*refs, *_checkpoint_refs(vpa)])
        told = self._explainer(picture, namespace, kept).of_vpa(namespace, name, _MOST_LATER)
        row = next((row for row in _rows(picture, namespace) if row.vpa == name), None)
        as_written = next((item for item in kept if item["kind"] == VPAS.kind), None)
        decided = [one for one in _decided(picture, namespace) if one.vpa == name]
        pods = controlled_pods(view, decided)
        return replace(
            workload_view(told, row),
            charts=self._charts_of_vpa(picture, vpa, pods, shown),
            derivations=list(derivations(vpa, list(_checkpoints(kept)))),
            copied=copied_texts(vpa, as_written, None, self._patched(picture, vpa, pods, kept)),
            past=self._past_of_vpa(vpa),
            unread=self._pictures.source.unread(),
        )

    def _patched(
        self, picture: Picture, vpa: Vpa, pods: Sequence[Pod], kept: Sequence[Json]
    ) -> PatchedTemplate:
        """Return what a patch would change; without the workload's text by a pod that runs."""
        view = picture.snapshot.of(vpa.namespace)
        if vpa.target is None:
            return PatchedTemplate(None, view.limits)
        key = vpa.target.key
        pod = next(filter(None, (_new_pod(item, key, vpa.namespace) for item in kept)), None)
        workload = view.workloads.get(key)
        if pod is None and pods:
            written = workload.template if workload is not None else ()
            pod = replace(pods[0], containers=written or pods[0].containers)
        if pod is not None and not self._pictures.rules.webhook.native_sidecars:
            pod = pod.without_sidecars()
        rivals = [one.name for one in view.rivals(key) if one.name != vpa.name]
        return PatchedTemplate(pod, view.limits, rivals)

    def of_workload(
        self, picture: Picture, namespace: str, key: ObjectKey, shown: ChartRange
    ) -> WorkloadView | None:
        """Return the view of a workload that no VPA targets, None if there is none."""
        row = next((row for row in _rows(picture, namespace) if row.workload == key), None)
        if row is None:
            return None
        view = picture.snapshot.of(namespace)
        refs = [Ref(PODS, namespace, pod.name) for pod in list(pods_of(view, key))[:1]]
        refs += _workload_ref(namespace, key)
        told = self._explainer(picture, namespace, self._written(refs)).of_workload(namespace, key)
        pods = pods_by_top(view, [key]).get(key, [])
        names = pod_names(key.kind, key.name, [pod.name for pod in pods])
        question = UsageQuestion(namespace, names, shown, picture.now)
        tops = picture.tops.get(namespace, ())
        offered = next((one.vpa for one in tops if one.key == key), None)
        return replace(
            workload_view(told, row),
            charts=self._charts(picture, question, levels_now(None, pods)),
            copied=copied_texts(None, None, offered, PatchedTemplate(None, view.limits)),
            past=None if self._past is None else self._past.of(namespace, key),
            unread=self._pictures.source.unread(),
        )

    def of_pod(
        self, picture: Picture, namespace: str, name: str, shown: ChartRange
    ) -> WorkloadView | None:
        """Return the view of a pod, also of one that is gone but of which events tell."""
        pod = picture.snapshot.of(namespace).pods.get(name)
        events = [one for one in picture.events if (one.namespace, one.pod) == (namespace, name)]
        if pod is None and not events:
            return None
        refs = [Ref(PODS, namespace, name)] if pod is not None else []
        made = _decided(picture, namespace)
        vpa = next((one.vpa for one in made if one.pod == name), "")
        if vpa:
            refs.append(Ref(VPAS, namespace, vpa))
        told = self._explainer(picture, namespace, self._written(refs)).of_pod(namespace, name)
        row = next((row for row in _rows(picture, namespace) if vpa and row.vpa == vpa), None)
        levels = levels_now(
            picture.snapshot.of(namespace).vpas.get(vpa), [pod] if pod is not None else []
        )
        question = UsageQuestion(namespace, escaped([name]), shown, picture.now)
        charts = self._charts(picture, question, levels, pod_marks(pod) if pod is not None else ())
        return replace(
            workload_view(told, row),
            charts=charts,
            past=self._past_of_pod(picture, pod, vpa),
            unread=self._pictures.source.unread(),
        )

    def _past_of_pod(self, picture: Picture, pod: Pod | None, vpa: str) -> WorkloadPast | None:
        """Return the past of a pod's workload."""
        if self._past is None or pod is None:
            return None
        view = picture.snapshot.of(pod.namespace)
        if vpa in view.vpas:
            return self._past_of_vpa(view.vpas[vpa])
        tops = pods_by_top(view, [one.key for one in picture.tops.get(pod.namespace, ())])
        key = next((key for key, pods in tops.items() if pod in pods), None)
        return None if key is None else self._past.of(pod.namespace, key)

    def _past_of_vpa(self, vpa: Vpa) -> WorkloadPast | None:
        """Return the past of a VPA's workload; of a role none, as recordings know no labels."""
        if self._past is None or vpa.target is None or vpa.selector is not None:
            return None
        return self._past.of(vpa.namespace, vpa.target.key)

    def _charts_of_vpa(
        self, picture: Picture, vpa: Vpa, pods: Sequence[Pod], shown: ChartRange
    ) -> list[Chart]:
        """Return the charts of the pods of a VPA; of a role only the pods that have it now."""
        names = [pod.name for pod in pods]
        view, target = picture.snapshot.of(vpa.namespace), vpa.target
        if target is None or vpa.selector is not None or len(view.rivals(target.key)) > 1:
            pattern = escaped(names)
        else:
            pattern = pod_names(target.key.kind, target.key.name, names)
        question = UsageQuestion(vpa.namespace, pattern, shown, picture.now)
        log = self._pictures.log
        is_watched = self._pictures.source.cluster is not None
        levels = log.levels(vpa, pods, picture.now) if is_watched else levels_now(vpa, pods)
        since = log.role_since(vpa, pods) if is_watched else None
        return self._charts(picture, question, levels, log.marks(vpa), since)

    def _charts(
        self,
        picture: Picture,
        question: UsageQuestion,
        levels: Mapping[SeriesKey, Mapping[LevelKind, ChartLevel]],
        marks: Iterable[Mark] = (),
        since: datetime | None = None,
    ) -> list[Chart]:
        """Return charts of some pods; those of a role tell of what was since it moved."""
        fits = compiled(question.pods).fullmatch
        events = (
            one for one in picture.events if one.namespace == question.namespace and fits(one.pod)
        )
        answer = self._pictures.source.history.read(question)
        if since is not None:
            answer = known_since(answer, since)
        return workload_charts(question, answer, levels, [*marks, *event_marks(events)])

    def _written(self, refs: Iterable[Ref]) -> list[Json]:
        return self._pictures.source.written(refs)

    def _explainer(self, picture: Picture, namespace: str, kept: Sequence[Json]) -> Explainer:
        """Return what explains objects of a namespace."""
        source = self._pictures.source
        whole = picture.snapshot
        alone = Snapshot({namespace: whole.of(namespace)}, whole.nodes, whole.paused_namespaces)
        seen = GatheredObjects(alone, source.owners, self._pictures.webhook, kept)
        past = PodEvents.of_events(one for one in picture.events if one.namespace == namespace)
        known = KnownBefore(picture.plan, picture.measured.histories)
        return Explainer(seen, past, self._pictures.rules, source.clock, picture.now, known)


def _decided(picture: Picture, namespace: str) -> Iterable[Decision]:
    part = picture.plan.namespaces.get(namespace)
    return part.decisions if part is not None else ()


def _rows(picture: Picture, namespace: str) -> Iterable[WorkloadRow]:
    part = picture.fleet.get(namespace)
    return part.rows if part is not None else ()


def _workload_ref(namespace: str, key: ObjectKey) -> Iterator[Ref]:
    """Yield where a built-in workload is."""
    for resource in WORKLOADS:
        if key == owner_key(resource.api_version, resource.kind, key.name):
            yield Ref(resource, namespace, key.name)


def _new_pod(item: Json, key: ObjectKey, namespace: str) -> Pod | None:
    """Return the pod that a workload would create; None if it is another, or has no template."""
    metadata = item.get("metadata") or {}
    if owner_key(str(item.get("apiVersion")), item["kind"], str(metadata.get("name"))) != key:
        return None
    try:
        pod = read_pod(new_pod(item, namespace))
    except BadObject:
        return None
    return pod if pod.containers else None


def _checkpoint_refs(vpa: Vpa) -> Iterator[Ref]:
    """Yield where the checkpoints of a VPA are, unless their names are taken or too long."""
    for one in vpa.recommendation or ():
        yield Ref(CHECKPOINTS, vpa.namespace, f"{vpa.name}-{one.container}")


def _checkpoints(kept: Iterable[Json]) -> Iterator[Checkpoint]:
    for item in kept:
        if item["kind"] == CHECKPOINTS.kind:
            with suppress(BadObject):  # which tells no history
                yield read_checkpoint(item)
