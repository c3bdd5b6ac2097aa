"""Numbers of how good recommendations are.

Strategy: usage is compared in arrays, for every sample of every container is. Names, labels and
buckets are upstream's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from prometheus_client import CollectorRegistry, Histogram

from app.runtime.buckets import BYTES, CORES, RELATIVE, Buckets
from app.runtime.families import Families
from app.runtime.sizes import size_log2

_TRUTH: Final = {True: "true", False: "false"}

Numbers = NDArray[np.float64]


class QualityMetrics:
    """How usage compares with what was recommended; amounts are cores and bytes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        families = Families(registry, "vpa_quality")
        histogram = families.histogram
        mode, missing = "update_mode", "recommendation_missing"
        over = "How far the recommendation was above usage."
        below = "How far usage was above the recommendation, or just at it."
        self._relative = histogram(
            "usage_recommendation_relative_diffs",
            "How far usage was from the recommendation, as a share of it.",
            RELATIVE,
            *(mode, "resource", "is_oom"),
        )
        self._missing = families.counter(
            "usage_sample_missing_recommendation_count",
            "Usage for which there was no recommendation.",
            *(mode, "resource", "is_oom"),
        )
        self._cpu_over = histogram(
            "cpu_recommendation_over_usage_diffs_cores", over, CORES, mode, missing
        )
        self._cpu_below = histogram(
            "cpu_recommendation_lower_equal_usage_diffs_cores", below, CORES, mode, missing
        )
        self._memory_over = histogram(
            "mem_recommendation_over_usage_diffs_bytes", over, BYTES, mode, missing, "is_oom"
        )
        self._memory_below = histogram(
            "mem_recommendation_lower_equal_usage_diffs_bytes",
            below,
            BYTES,
            *(mode, missing, "is_oom"),
        )
        self._cpu = histogram("cpu_recommendations_cores", "Recommended CPU.", CORES, mode)
        self._memory = histogram(
            "mem_recommendations_bytes", "Recommended memory.", BYTES, mode, "is_oom"
        )
        self._changes = histogram(
            "relative_recommendation_changes",
            "How far a recommendation went from the one before it, as a share of that.",
            RELATIVE,
            *(mode, "resource", "vpa_size_log2"),
        )

    def cpu(self, mode: str, used: ArrayLike, recommended: ArrayLike) -> None:
        """Compare samples of CPU usage with what was recommended, 0 where nothing was."""
        found, asked = _column(used), _column(recommended)
        self._compare((mode, "cpu", _TRUTH[False]), found, asked)
        for missing, lines in _by_truth(asked == 0):
            labels = (mode, missing)
            off = asked[lines] - found[lines]
            _observe(self._cpu_over, CORES, labels, off[off > 0])
            _observe(self._cpu_below, CORES, labels, -off[off <= 0])
        _observe(self._cpu, CORES, (mode,), asked[asked > 0])

    def memory(self, mode: str, used: ArrayLike, recommended: ArrayLike, *, is_oom: bool) -> None:
        """Compare memory peaks, or kills for memory, with what was recommended, 0 where nothing."""
        found, asked, oom = _column(used), _column(recommended), _TRUTH[is_oom]
        self._compare((mode, "memory", oom), found, asked)
        for missing, lines in _by_truth(asked == 0):
            labels = (mode, missing, oom)
            off = asked[lines] - found[lines]
            _observe(self._memory_over, BYTES, labels, off[off > 0])
            _observe(self._memory_below, BYTES, labels, -off[off <= 0])
        _observe(self._memory, BYTES, (mode, oom), asked[asked > 0])

    def changed(
        self, mode: str, resource: str, pods: int, before: ArrayLike, after: ArrayLike
    ) -> None:
        """Tell how far recommendations went; nothing of those that had none before."""
        old, new = _column(before), _column(after)
        known = old > 0
        labels = (mode, resource, str(size_log2(pods)))
        _observe(self._changes, RELATIVE, labels, new[known] / old[known] - 1)

    def _compare(self, labels: tuple[str, ...], used: Numbers, recommended: Numbers) -> None:
        known = recommended > 0
        found, asked = used[known], recommended[known]
        with np.errstate(over="ignore"):  # of next to nothing
            _observe(self._relative, RELATIVE, labels, (found - asked) / asked)
        if missing := int((~known).sum()):
            self._missing.labels(*labels).inc(missing)


def _column(amounts: ArrayLike) -> Numbers:
    return np.atleast_1d(np.asarray(amounts, dtype=np.float64))


def _by_truth(flags: NDArray[np.bool_]) -> Iterable[tuple[str, NDArray[np.bool_]]]:
    return ((_TRUTH[True], flags), (_TRUTH[False], ~flags))


def _observe(
    histogram: Histogram, bounds: Buckets, labels: tuple[str, ...], values: Numbers
) -> None:
    """Observe many values at once; without any, the series does not come to be."""
    if not len(values):
        return
    series = histogram.labels(*labels)
    counts = np.bincount(np.searchsorted(bounds, values), minlength=len(bounds) + 1)
    series._sum.inc(float(values.sum()))
    for bucket, count in zip(series._buckets, counts.tolist(), strict=True):
        if count:
            bucket.inc(count)
