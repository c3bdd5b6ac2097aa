"""Finds the pods and VPAs that somebody wants explained: by their names, or by labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from app.model.errors import BadSetting
from app.model.selectors import Selector
from app.model.snapshot import NamespaceView, Snapshot
from app.model.words import nearest
from app.ports import PODS, VPAS

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
    def title(self) -> str:
        """How other commands call it."""
        word = "pod" if self.kind == PODS.kind else f"verticalpodautoscaler.{VPAS.group}"
        return f"{word}/{self.name}"


def chosen(snapshot: Snapshot, namespace: str, selector: Selector | None) -> Iterator[Asked]:
    """Yield the pods that labels choose.

    Raises:
        BadSetting: no labels are named, or no pod has them.
    """
    if selector is None:
        raise BadSetting("say what to explain: the name of a pod or of a VPA, or --selector")
    found = [
        Asked(PODS.kind, where, name)
        for where, view in _views(snapshot, namespace)
        for name, pod in sorted(view.pods.items())
        if selector.matches(pod.labels)
    ]
    if not found:
        raise BadSetting(f"no pod has the labels {selector}")
    yield from found


def named(snapshot: Snapshot, namespace: str, texts: Sequence[str]) -> Iterator[Asked]:
    """Yield what is called by names: `web-0`, `pod/web-0`, or `pod web-0 web-1`.

    Raises:
        BadSetting: there is nothing of a name, or more than one thing.
    """
    word, *others = texts
    if word in _WORDS:
        if not others:
            raise BadSetting(f"say what to explain: {word}/NAME")
        texts = [f"{word}/{name}" for name in others]
    for text in texts:
        word, slash, name = text.rpartition("/")
        if slash and word not in _WORDS:
            raise BadSetting(f'"{text}": say pod/{name} or vpa/{name}')
        yield _one(list(_candidates(snapshot, namespace, word)), namespace, word, name)


def _one(candidates: Sequence[Asked], namespace: str, word: str, name: str) -> Asked:
    found = [one for one in candidates if one.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        ways = " or ".join(
            f"{'pod' if one.kind == PODS.kind else 'vpa'}/{name} -n {one.namespace}"
            for one in found
        )
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
