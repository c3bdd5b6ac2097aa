"""What is asked about: pods, VPAs and workloads, by name or by labels.

Strategy: of a whole server only what has the names or the labels is asked for, which gives the few
namespaces that have to be read. Custom workloads are those that VPAs, pods and workloads name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from app.commands.explain_past import cluster_events, nothing_found
from app.commands.workload_names import (
    VPA_WORDS,
    WorkloadName,
    absent_workload,
    full_name,
    is_kind,
    known_workloads,
    short_name,
)
from app.diagnosis.core.pod_events import PodEvents
from app.diagnosis.gathering import is_absent, list_objects
from app.model.errors import BadObject, BadSetting
from app.model.fields import Json
from app.model.kinds import ObjectKey, owner_key
from app.model.selectors import Selector
from app.model.snapshot import NamespaceView, Snapshot
from app.model.vpa import read_vpa
from app.ports import PODS, VPAS, WORKLOADS, Cluster

_POD_WORDS: Final = ("pod", "pods", "po")
_ASK: Final = "say what to explain: a pod, a VPA, a workload such as deploy/web, or --selector"
_WORDS: Final = (*_POD_WORDS, *VPA_WORDS)


@dataclass(frozen=True, slots=True)
class Subject:
    """Something to be explained."""

    kind: str
    namespace: str
    name: str
    key: ObjectKey | None = None  # of a workload

    @property
    def text(self) -> str:
        """How people call it."""
        if self.key is not None:
            return short_name(self.key)
        return f"{'pod' if self.kind == PODS.kind else 'vpa'}/{self.name}"

    @property
    def title(self) -> str:
        """How other commands call it."""
        if self.key is not None:
            return full_name(self.key)
        word = "pod" if self.kind == PODS.kind else f"verticalpodautoscaler.{VPAS.group}"
        return f"{word}/{self.name}"


def check_asked(texts: Sequence[str], selector: Selector | None) -> None:
    """See whether anything is asked about, before something is read.

    Raises:
        BadSetting: nothing is, or a word before a name is all there is.
    """
    if texts:
        list(_split(texts))
    elif selector is None:
        raise BadSetting(_ASK)


def labelled_subjects(
    snapshot: Snapshot, namespace: str, selector: Selector | None
) -> Iterator[Subject]:
    """Yield the pods that labels choose.

    Raises:
        BadSetting: no pod has them.
    """
    found = [
        Subject(PODS.kind, where, name)
        for where, view in _views(snapshot, namespace)
        for name, pod in sorted(view.pods.items())
        if selector is None or selector.matches(pod.labels)
    ]
    if not found:
        raise BadSetting(f"no pod has the labels {selector}")
    yield from found


def named_subjects(
    snapshot: Snapshot, past: PodEvents, namespace: str, texts: Sequence[str]
) -> Iterator[Subject]:
    """Yield what is called by names: `web-0`, `pod/web-0`, or `pod web-0 web-1`.

    Raises:
        BadSetting: there is nothing of a name, or more than one thing.
    """
    for word, name in _split(texts):
        candidates = list(_matches_in_snapshot(snapshot, namespace, word))
        if word not in ("", *_WORDS) and all(one.name != name for one in candidates):
            views = [view for _, view in _views(snapshot, namespace)]
            known = {key for view in views for key in known_workloads(view)}
            raise absent_workload(WorkloadName(word, name), namespace, known)
        yield _present_or_gone(candidates, past, namespace, word, name)


def _present_or_gone(
    candidates: Sequence[Subject], past: PodEvents, namespace: str, word: str, name: str
) -> Subject:
    """Return what has a name now, else the pod that had it, of which events tell."""
    may_be_gone = word in ("", *_POD_WORDS)
    if not may_be_gone or any(one.name == name for one in candidates):
        return _single(candidates, namespace, word, name)
    places = (where for where in past.namespaces(name) if namespace in ("", where))
    gone = [Subject(PODS.kind, where, name) for where in places]
    try:
        return _single(gone or candidates, namespace, word, name)
    except BadSetting as error:
        if gone:
            raise
        dot = "" if str(error).endswith("?") else "."
        raise BadSetting(f"{error}{dot} {nothing_found(name)}") from None


def subjects_by_namespace(
    cluster: Cluster, texts: Sequence[str], selector: Selector | None
) -> Mapping[str, Sequence[str]]:
    """Return what of a whole server is called by names, or has labels, by namespace.

    Raises:
        BadSetting: there is nothing of a name, or more than one thing.
        ClusterError: the server cannot be asked.
    """
    if texts:
        found = [
            _present_or_gone(
                list(_matches_in_cluster(cluster, word, name)),
                PodEvents(cluster_events(cluster, "", [name], [])),
                "",
                word,
                name,
            )
            for word, name in _split(texts)
        ]
    else:
        labels = "" if selector is None else str(selector)
        found = list(map(_subject, list_objects(cluster, PODS, labels=labels)))
    places: dict[str, list[str]] = {}
    for one in found:
        places.setdefault(one.namespace, []).append(one.text)
    if not places:
        raise BadSetting(f"no pod has the labels {selector}")
    return places


def _matches_in_cluster(cluster: Cluster, word: str, name: str) -> Iterator[Subject]:
    """Yield all of a name that a word before it allows."""
    fields = f"metadata.name={name}"
    if word and word not in _WORDS:
        yield from _workloads_in_cluster(cluster, WorkloadName(word, name), fields)
        return
    if word not in VPA_WORDS:
        yield from map(_subject, list_objects(cluster, PODS, fields=fields))
    if word not in _POD_WORDS:
        yield from map(_subject, list_objects(cluster, VPAS, fields=fields))


def _workloads_in_cluster(cluster: Cluster, called: WorkloadName, fields: str) -> Iterator[Subject]:
    """Yield the workloads of a name; custom ones are found if a VPA targets them."""
    for resource in WORKLOADS:
        key = owner_key(resource.api_version, resource.kind, called.name)
        if called.means(key):
            for item in list_objects(cluster, resource, fields=fields):
                yield replace(_subject(item), key=key)
            return
    for item in list_objects(cluster, VPAS):
        with suppress(BadObject):
            vpa = read_vpa(item)
            if vpa.target is not None and called.means(vpa.target.key):
                yield Subject(vpa.target.kind, vpa.namespace, vpa.target.name, vpa.target.key)


def _subject(item: Json) -> Subject:
    metadata = item["metadata"]
    return Subject(item["kind"], metadata["namespace"], metadata["name"])


def _split(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the word and the name of each text; the word is empty where there is none."""
    word, *others = texts
    if word in _WORDS or (others and is_kind(word)):
        if not others:
            raise BadSetting(f"say what to explain: {word}/NAME")
        texts = [f"{word}/{name}" for name in others]
    for text in texts:
        word, slash, name = text.rpartition("/")
        if slash and not (word and name):
            raise BadSetting(f'"{text}": say pod/NAME, vpa/NAME or deploy/NAME')
        yield word, name


def _single(candidates: Sequence[Subject], namespace: str, word: str, name: str) -> Subject:
    found = [one for one in candidates if one.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        ways = " or ".join(f"{one.text} -n {one.namespace}" for one in found)
        raise BadSetting(f'"{name}" is the name of several things; say {ways}')
    what = "VPA" if word in VPA_WORDS else "pod" if word in _POD_WORDS else word or "pod or VPA"
    raise is_absent(what, name, namespace, {one.name for one in candidates})


def _matches_in_snapshot(snapshot: Snapshot, namespace: str, word: str) -> Iterator[Subject]:
    """Yield all that a word before a name allows; none allows both kinds."""
    for where, view in _views(snapshot, namespace):
        if word and word not in _WORDS:
            keys = sorted(known_workloads(view))
            yield from (
                Subject(key.kind, where, key.name, key)
                for key in keys
                if WorkloadName(word, key.name).means(key)
            )
            continue
        if word not in VPA_WORDS:
            yield from (Subject(PODS.kind, where, name) for name in view.pods)
        if word not in _POD_WORDS:
            yield from (Subject(VPAS.kind, where, name) for name in view.vpas)


def _views(snapshot: Snapshot, namespace: str) -> Iterator[tuple[str, NamespaceView]]:
    for where, view in sorted(snapshot.namespaces.items()):
        if namespace in ("", where):
            yield where, view
