"""How people call workloads: deploy/web, sts/db, rollouts.argoproj.io/api."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from app.diagnosis.gathering import is_absent, place
from app.model.errors import BadSetting
from app.model.kinds import BUILT_IN_KINDS, ObjectKey
from app.model.snapshot import NamespaceView

# As `kubectl api-resources` has them; of custom kinds those that are often sized.
SHORT_NAMES: Final = {
    "DaemonSet": "ds",
    "Deployment": "deploy",
    "ReplicaSet": "rs",
    "ReplicationController": "rc",
    "StatefulSet": "sts",
    "CronJob": "cj",
    "CloneSet": "clone",
    "Rollout": "ro",
}
VPA_WORDS: Final = ("vpa", "vpas", "verticalpodautoscaler", "verticalpodautoscalers")
_VOWELS: Final = "aeiou"
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class WorkloadName:
    """A workload as it is written on a command line."""

    word: str  # its kind, in any way that kubectl knows
    name: str

    def means(self, key: ObjectKey) -> bool:
        """Whether it is this one."""
        word, _, group = self.word.lower().partition(".")
        return (
            self.name == key.name
            and word in _words(key.kind)
            and (not group or f"{key.group}.".startswith(f"{group}.") or key.is_built_in)
        )

    def __str__(self) -> str:
        return f"{self.word}/{self.name}"


def workload_name(text: str) -> WorkloadName | None:
    """Return the workload that a word of a command line names, None for a name alone."""
    word, slash, name = text.rpartition("/")
    return WorkloadName(word, name) if slash and word and name else None


def short_name(key: ObjectKey) -> str:
    """Return the shortest way to write a workload."""
    return f"{SHORT_NAMES.get(key.kind, key.kind.lower())}/{key.name}"


def full_name(key: ObjectKey) -> str:
    """Return how commands of kubectl print a workload."""
    return f"{'.'.join(filter(None, (key.kind.lower(), key.group)))}/{key.name}"


def some_of(keys: Sequence[ObjectKey]) -> str:
    """Name the first few workloads, and say how many more there are."""
    told = ", ".join(map(short_name, keys[:_MOST_NAMED]))
    return told + (f" and {len(keys) - _MOST_NAMED} more" if len(keys) > _MOST_NAMED else "")


def absent_workload(
    wanted: WorkloadName, namespace: str, known: Collection[ObjectKey]
) -> BadSetting:
    """Return the error about a workload that is not there; it may be one of another kind."""
    for key in sorted(known):
        if key.name == wanted.name:
            told = f'there is no {wanted.word} "{wanted.name}" {place(namespace)}'
            return BadSetting(f'{told}; did you mean "{short_name(key)}"?')
    alike = {key.name for key in known if replace(wanted, name=key.name).means(key)}
    return is_absent(wanted.word, wanted.name, namespace, alike)


def is_kind(word: str) -> bool:
    """Whether a word is how a built-in kind of workload is called."""
    return any(word.lower() in _words(kind) for kind in BUILT_IN_KINDS)


def known_workloads(view: NamespaceView) -> set[ObjectKey]:
    """Return the workloads of a namespace, and what its VPAs target and its pods belong to."""
    owners = (pod.controller for pod in view.pods.values())
    above = (workload.owner for workload in view.workloads.values())
    named = {owner.key for owner in (*owners, *above) if owner is not None}
    return {*view.workloads, *view.targets, *named}


def _words(kind: str) -> tuple[str, ...]:
    """Return what kubectl takes for a kind: its name, the plural, and what is shorter."""
    low = kind.lower()
    if low.endswith("y") and low[-2:-1] not in _VOWELS:
        plural = f"{low[:-1]}ies"
    else:
        plural = f"{low}es" if low.endswith(("s", "x", "ch", "sh")) else f"{low}s"
    return low, plural, SHORT_NAMES.get(kind, low)
