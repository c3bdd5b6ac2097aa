"""Requests and limits in force under each setting, and the updater's rules that change them.

Strategy: arrays over all pods of a setting. The rules are those of `app.updater.core.need` on the
same numbers; what depends on the rest of a cluster is left out, and docs/backtest.md says so: no
disruption budget, no proof, no node that lacks room, every resize succeeds at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from app.backtest.core.known_caps import KnownCaps
from app.backtest.core.learning import Recommended
from app.backtest.core.recorded_fleet import Fleet
from app.backtest.core.settings import Given, Setting
from app.backtest.core.sizes import NO_UPPER, Amounts, Bounded, PodShape, Sizer
from app.model.update_modes import mode_rules
from app.recommender.core.histograms import Counts, Flags, Floats, Indexes, Thousandths, Times
from app.recommender.core.moments import UNSET, span
from app.recommender.core.tables import LOWER, TARGET, UPPER
from app.updater.core.rules import UpdateRules

# What becomes whole thousandths: cores and bytes.
THOUSANDTHS: Final = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Distance:
    """How far pods are from what is recommended; an entry for each pod."""

    difference: Floats
    is_outside: Flags


class Killed(NamedTuple):
    """Pods that are looked at because a container of theirs was killed."""

    pods: Indexes
    quickly: Indexes  # early in the container's life


class Updating:
    """What holds under all settings, and who changes it."""

    def __init__(
        self, fleet: Fleet, settings: Sequence[Setting], given: Given, rules: UpdateRules
    ) -> None:
        rows, lines, pods = len(fleet.rows), len(fleet.containers), len(fleet.pod_workloads)
        self._fleet = fleet
        self._settings = settings
        self._rules = rules
        self._sizer = Sizer(fleet, given)
        self._is_held = self._sizer.is_held(fleet)
        self._shapes: dict[int, PodShape] = {}
        self._targets: dict[tuple[int, int], tuple[Amounts, ...]] = {}  # by setting and pod
        workloads = range(len(fleet.workloads))
        self._is_capped = np.array([self._sizer.is_capped(one) for one in workloads], np.bool_)
        by_itself = [self._sizer.is_by_itself(one) for one in workloads]
        self._is_by_itself = np.array(by_itself, np.bool_)
        self._known_caps = KnownCaps(rows)
        least = [self._sizer.min_replicas(one, rules.min_replicas) for one in workloads]
        self._min_replicas = np.array(least, dtype=np.int64)
        self.requests: Thousandths = np.zeros((len(settings), rows, 2), dtype=np.int64)
        self.limits: Thousandths = np.zeros((len(settings), rows, 2), dtype=np.int64)
        self.since: Times = np.full((len(settings), pods), UNSET, dtype=np.int64)
        self.began: Times = np.full((len(settings), rows), UNSET, dtype=np.int64)  # containers
        self.amounts: Thousandths = np.zeros((len(settings), lines, 2, 4), dtype=np.int64)
        self.shows: Flags = np.zeros((len(settings), lines, 2), dtype=np.bool_)
        self.resizes: Counts = np.zeros((len(settings), pods), dtype=np.int64)
        self.evictions: Counts = np.zeros((len(settings), pods), dtype=np.int64)

    def publish(self, setting: int, found: Recommended) -> None:
        """Take what is recommended now."""
        self.amounts[setting, found.lines] = found.amounts
        self.shows[setting, found.lines] = found.shows & ~self._is_held[found.lines]

    def publish_memory(self, setting: int, found: Recommended) -> None:
        """Take what is recommended of memory now; cpu waits for its round."""
        self.amounts[setting, found.lines, 1] = found.amounts[:, 1]
        self.shows[setting, found.lines, 1] = found.shows[:, 1] & ~self._is_held[found.lines, 1]

    def take(self, pods: Indexes, requests: Floats, limits: Floats, time_ns: int) -> None:
        """Let pods begin as they were recorded, and with what was recommended by then.

        One that is there already was changed in the recording: it keeps what it was given, and its
        limits follow.
        """
        for pod in pods.tolist():
            rows = self._fleet.rows_of_pod(pod)
            is_new = pod not in self._shapes
            shape = self._shape(pod, rows, requests, limits)
            if shape == self._shapes.get(pod):
                continue
            self._shapes[pod] = shape
            self._known_caps.forget(rows)
            for setting in range(len(self._settings)):
                if not is_new:
                    self._apply(setting, pod)
                    continue
                self._size(setting, pod)
                self.since[setting, pod] = time_ns
                self.began[setting, rows] = time_ns

    # --- rules

    def update(
        self, setting: int, is_there: Flags, time_ns: int, killed: Killed | None = None
    ) -> None:
        """Update the pods that need it, of all or of those that were killed."""
        allows, fleet = mode_rules(self._settings[setting].mode), self._fleet
        if not (allows.may_resize or allows.may_evict):
            return
        looked_at = is_there
        if killed is not None:
            looked_at = is_there & np.isin(fleet.pods, killed.pods)
        far = self._distance(setting, looked_at, only_upwards=allows.only_upwards)
        rules = self._rules
        is_oom, counts = np.zeros((2, len(far.difference)), dtype=np.bool_)
        counts[... if killed is None else killed.pods] = True
        is_oom[[] if killed is None else killed.quickly] = True
        is_old = time_ns - self.since[setting] >= span(rules.lifetime_threshold)
        at_once = (far.is_outside | is_oom) & (far.difference >= rules.least_difference)
        in_time = is_old & (far.difference >= rules.update_threshold)
        needs = counts & (far.difference > 0) & (at_once | in_time)
        if not allows.may_resize:
            alive = np.logical_or.reduceat(is_there, fleet.pod_bounds[:-1])
            living = np.bincount(fleet.pod_workloads, weights=alive, minlength=len(fleet.workloads))
            needs &= (living >= self._min_replicas)[fleet.pod_workloads]
        for pod in np.flatnonzero(needs).tolist():
            self._size(setting, pod)
            self.since[setting, pod] = time_ns
            if allows.may_resize:
                self.resizes[setting, pod] += 1
            else:
                self.evictions[setting, pod] += 1
                self.began[setting, fleet.rows_of_pod(pod)] = time_ns

    def _distance(self, setting: int, is_there: Flags, *, only_upwards: bool) -> Distance:
        fleet, has = self._fleet, self.requests[setting]
        amounts, counts = self.amounts[setting][fleet.lines], self.shows[setting][fleet.lines]
        amounts, counts = self._capped(is_there, amounts, counts)
        counts = counts & is_there[:, None]
        target = amounts[..., TARGET]
        change = target - has
        is_outside = (has < amounts[..., LOWER]) | (has == 0)
        if only_upwards:
            change = np.maximum(change, 0)
        else:
            is_outside |= has > amounts[..., UPPER]
        change = np.where(counts, np.abs(change), 0)
        starts = fleet.pod_bounds[:-1]
        changes = np.add.reduceat(change, starts, axis=0).astype(np.float64)
        bases = np.maximum(np.add.reduceat(np.where(counts, has, 0), starts, axis=0), 1)
        outside = np.logical_or.reduceat((is_outside & counts).any(axis=1), starts)
        return Distance((changes / bases).sum(axis=1), outside)

    def _capped(
        self, is_there: Flags, amounts: Thousandths, counts: Flags
    ) -> tuple[Thousandths, Flags]:
        """Return what is recommended after caps that are not the recommender's own."""
        fleet, before = self._fleet, amounts[..., : UPPER + 1].copy()
        found, is_known = self._known_caps.apply(before, counts)
        is_known = np.logical_and.reduceat(is_known, fleet.pod_bounds[:-1])
        is_capped = self._is_capped[fleet.pod_workloads]
        alone = is_capped & self._is_by_itself[fleet.pod_workloads] & is_known
        amounts[..., : UPPER + 1] = np.where(alone[fleet.pods][:, None, None], found, before)
        for pod in np.flatnonzero(is_capped & ~alone).tolist():
            rows = fleet.rows_of_pod(pod)
            if not is_there[rows].any() or not counts[rows].any():
                continue
            told, shows = self._bounded(self._shapes[pod], before[rows], counts[rows])
            amounts[rows, :, : UPPER + 1] = told
            is_whole = told[shows].size and 0 < told[shows].min() <= told[shows].max() < NO_UPPER
            if is_whole and (shows == counts[rows]).all():
                self._known_caps.learn(rows, before[rows], told, shows)
            counts[rows] = shows
        return amounts, counts

    def _bounded(
        self, shape: PodShape, amounts: Thousandths, counts: Flags
    ) -> tuple[Thousandths, Flags]:
        recommended = tuple(
            Bounded(*(_some(one[:, of], shows) for of in (TARGET, LOWER, UPPER)))
            for one, shows in zip(amounts, counts, strict=True)
        )
        found = self._sizer.bounded(shape, recommended)
        capped = [
            [
                [missing if each is None else each for each in listed]
                for listed, missing in zip(one, (0, 0, NO_UPPER), strict=True)
            ]
            for one in found
        ]
        shows = [[each is not None for each in one.target] for one in found]
        return np.array(capped, dtype=np.int64).swapaxes(1, 2), np.array(shows, dtype=np.bool_)

    # --- sizes

    def _shape(self, pod: int, rows: Indexes, requests: Floats, limits: Floats) -> PodShape:
        fleet = self._fleet
        names = tuple(fleet.containers[line] for line in fleet.lines[rows].tolist())
        return PodShape(
            int(fleet.pod_workloads[pod]), names, _given(requests[rows]), _given(limits[rows])
        )

    def _size(self, setting: int, pod: int) -> None:
        """Give a pod what is recommended now."""
        fleet = self._fleet
        rows = fleet.rows_of_pod(pod)
        lines = fleet.lines[rows]
        is_sized = mode_rules(self._settings[setting].mode).on_creation
        targets = tuple(
            _some(self.amounts[setting, line, :, TARGET], self.shows[setting, line] & is_sized)
            for line in lines.tolist()
        )
        self._targets[setting, pod] = targets
        self._apply(setting, pod)

    def _apply(self, setting: int, pod: int) -> None:
        """Let what a pod was given hold for it as it is."""
        rows = self._fleet.rows_of_pod(pod)
        found = self._sizer.sized(self._shapes[pod], self._targets[setting, pod])
        self.requests[setting, rows] = found[:, 0]
        self.limits[setting, rows] = found[:, 1]


def _some(amounts: Thousandths, shows: Flags) -> Amounts:
    return tuple(
        amount if is_shown else None
        for amount, is_shown in zip(amounts.tolist(), shows.tolist(), strict=True)
    )


def _given(amounts: Floats) -> tuple[Amounts, ...]:
    """Return recorded amounts as thousandths; 0 is none."""
    return tuple(
        tuple(round(amount * THOUSANDTHS) or None for amount in line) for line in amounts.tolist()
    )
