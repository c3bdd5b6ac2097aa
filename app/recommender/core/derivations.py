"""On what the numbers that stand published rest, kept until others are published.

Strategy: of each container only those numbers are kept from which all others follow by the very
functions that made the publication: where the percentiles fell, confidence, floors, the policy.
One small array a VPA, never changed once it is made, so whoever holds some of them holds one
moment, and what is told of a number still adds up when newer samples have come.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.recommender.core.appraisal import Appraisal, Flags
from app.recommender.core.bank import Bank, Rows
from app.recommender.core.estimators import Estimates, Factors
from app.recommender.core.policy import CPU, MEMORY, ContainerRules
from app.recommender.core.rows import RowTable

Basis = NDArray[np.void]

_OF_RESOURCE: Final = np.dtype([
    ("buckets", np.int16, 3),  # target, lower, upper
    ("bases", np.int64, 3),
    ("floor", np.int64),
    ("confidence", np.float64),
    ("weight", np.float64),
    ("reference", np.int64),
])  # fmt: skip
BASIS: Final = np.dtype([
    (CPU, _OF_RESOURCE),
    (MEMORY, _OF_RESOURCE),
    ("first", np.int64),
    ("last", np.int64),
    ("samples", np.int64),
    ("living", np.int32),
    ("shows", np.int8),
])  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Derivation:
    """How the recommendation of one VPA came about; all columns have one line per container."""

    at: datetime
    containers: tuple[str, ...]
    rules: tuple[ContainerRules, ...]
    basis: Basis


class Derivations:
    """Takes the derivations of VPAs out of an appraisal."""

    def __init__(self, table: RowTable, appraisal: Appraisal, wanted: Flags, at: datetime) -> None:
        lines = np.flatnonzero(wanted)
        vpas = table.vpa[appraisal.rows[lines]]
        order = np.argsort(vpas, kind="stable")
        lines, vpas = lines[order], vpas[order]
        self.at = at
        self._table = table
        self._rows = appraisal.rows[lines]
        self._basis = _basis(table, appraisal, lines)
        found, starts = np.unique(vpas, return_index=True)
        bounds = pairwise([*starts.tolist(), len(vpas)])
        self._places = dict(zip(found.tolist(), bounds, strict=True))

    def of(self, vpa: int) -> Derivation:
        """Return the derivation of the VPA on a line; one without rows has no containers."""
        start, end = self._places.get(vpa, (0, 0))
        rows = self._rows[start:end].tolist()
        basis = self._basis[start:end].copy()  # a view would keep those of all others alive
        basis.setflags(write=False)
        names, rules = self._table.names, self._table.rules
        return Derivation(
            self.at, tuple(names[row] for row in rows), tuple(rules[row] for row in rows), basis
        )


def _basis(table: RowTable, appraisal: Appraisal, lines: Rows) -> Basis:
    rows = appraisal.rows[lines]
    basis = np.empty(len(lines), dtype=BASIS)

    def take(resource: str, bank: Bank, found: Estimates, confidence: Factors) -> None:
        of = basis[resource]
        of["buckets"], of["bases"] = found.buckets[lines], found.bases[lines]
        of["floor"], of["confidence"] = found.floors[lines], confidence[lines]
        of["weight"], of["reference"] = bank.totals[rows], bank.references[rows]

    take(CPU, table.cpu, appraisal.cpu, appraisal.cpu_confidence)
    take(MEMORY, table.memory, appraisal.memory, appraisal.memory_confidence)
    basis["first"], basis["last"] = table.first[rows], table.last[rows]
    basis["samples"], basis["living"] = table.counts[rows], table.live[rows]
    basis["shows"] = appraisal.shows[lines]
    return basis
