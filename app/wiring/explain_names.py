"""Finds the pods and VPAs that somebody wants explained: by their names, or by labels.

Strategy: what is known is looked through. Of a whole server only what has the names or the labels
is asked for, which tells the few namespaces that have to be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.model.errors import BadSetting
from app.model.selectors import Selector
from app.model.snapshot import NamespaceView, Snapshot
from app.model.text import nearest
from app.ports import PODS, VPAS, Cluster, Json
from app.wiring.gathering import listed

_POD_WORDS: Final = ("pod", "pods", "po")
_VPA_WORDS: Final = ("vpa", "vpas", "verticalpodautoscaler", "verticalpodautoscalers")
_WORDS: Final = (*_POD_WORDS, *_VPA_WORDS)


@dataclass(frozen=True, slots=True)
class Asked:
    """Something to be explained."""

    kind: str  # Pod or VerticalPodAutoscaler
    namespace: str
    name: str

    @property
    def text(self) -> str:
        """How people call it."""
        return f"{'pod' if self.kind == PODS.kind else 'vpa'}/{self.name}"

    @property
    def title(self) -> str:
        """How other commands call it."""
        word = "pod" if self.kind == PODS.kind else f"verticalpodautoscaler.{VPAS.group}"
        return f"{word}/{self.name}"


def chosen(snapshot: Snapshot, namespace: str, selector: Selector | None) -> Iterator[Asked]:
    """Yield the pods that labels choose.

    Raises:
        BadSetting: no labels are named, or no pod has them.
    """
    selector = _needed(selector)
    found = [
        Asked(PODS.kind, where, name)
        for where, view in _views(snapshot, namespace)
        for name, pod in sorted(view.pods.items())
        if selector.matches(pod.labels)
    ]
    if not found:
        raise BadSetting(f"no pod has the labels {selector}")
    yield from found


def _needed(selector: Selector | None) -> Selector:
    if selector is None:
        raise BadSetting("say what to explain: the name of a pod or of a VPA, or --selector")
    return selector


def named(snapshot: Snapshot, namespace: str, texts: Sequence[str]) -> Iterator[Asked]:
    """Yield what is called by names: `web-0`, `pod/web-0`, or `pod web-0 web-1`.

    Raises:
        BadSetting: there is nothing of a name, or more than one thing.
    """
    for word, name in _split(texts):
        yield _one(list(_candidates(snapshot, namespace, word)), namespace, word, name)


def sought(
    cluster: Cluster, texts: Sequence[str], selector: Selector | None
) -> Mapping[str, Sequence[str]]:
    """Return what of a whole server is called by names, or has labels, by namespace.

    Raises:
        BadSetting: nothing is named, or there is nothing of a name, or more than one thing.
        ClusterError: the server cannot be asked.
    """
    if texts:
        found = [
            _one(list(_seen(cluster, word, name)), "", word, name) for word, name in _split(texts)
        ]
    else:
        labels = str(_needed(selector))
        found = list(map(_asked, listed(cluster, PODS, labels=labels)))
    places: dict[str, list[str]] = {}
    for one in found:
        places.setdefault(one.namespace, []).append(one.text)
    if not places:
        raise BadSetting(f"no pod has the labels {selector}")
    return places


def _seen(cluster: Cluster, word: str, name: str) -> Iterator[Asked]:
    """Yield all of a name that a word before it allows."""
    fields = f"metadata.name={name}"
    if word not in _VPA_WORDS:
        yield from map(_asked, listed(cluster, PODS, fields=fields))
    if word not in _POD_WORDS:
        yield from map(_asked, listed(cluster, VPAS, fields=fields))


def _asked(item: Json) -> Asked:
    metadata = item["metadata"]
    return Asked(item["kind"], metadata["namespace"], metadata["name"])


def _split(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the word and the name of each text; the word is empty where there is none."""
    word, *others = texts
    if word in _WORDS:
        if not others:
            raise BadSetting(f"say what to explain: {word}/NAME")
        texts = [f"{word}/{name}" for name in others]
    for text in texts:
        word, slash, name = text.rpartition("/")
        if slash and word not in _WORDS:
            raise BadSetting(f'"{text}": say pod/{name} or vpa/{name}')
        yield word, name


def _one(candidates: Sequence[Asked], namespace: str, word: str, name: str) -> Asked:
    found = [one for one in candidates if one.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        ways = " or ".join(f"{one.text} -n {one.namespace}" for one in found)
        raise BadSetting(f'"{name}" is the name of several things; say {ways}')
    what = "VPA" if word in _VPA_WORDS else "pod" if word else "pod or VPA"
    where = f"in namespace {namespace}" if namespace else "in any namespace"
    meant = nearest(name, {one.name for one in candidates})
    raise BadSetting(f'there is no {what} "{name}" {where}{meant}')


def _candidates(snapshot: Snapshot, namespace: str, word: str) -> Iterator[Asked]:
    """Yield all that a word before a name allows; none allows both kinds."""
    for where, view in _views(snapshot, namespace):
        if word not in _VPA_WORDS:
            yield from (Asked(PODS.kind, where, name) for name in view.pods)
        if word not in _POD_WORDS:
            yield from (Asked(VPAS.kind, where, name) for name in view.vpas)


def _views(snapshot: Snapshot, namespace: str) -> Iterator[tuple[str, NamespaceView]]:
    for where, view in sorted(snapshot.namespaces.items()):
        if namespace in ("", where):
            yield where, view
