"""Connect's predicates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafkeep.config.java_regex import JavaPattern, compile_java_regex
from kafkeep.config.transforms import PredicateSpec
from kafkeep.data.arrow_parts import view_offsets
from kafkeep.data.rows import Rows
from kafkeep.errors import UsageError
from kafkeep.transforms.arrays import valid_flags
from kafkeep.transforms.headers import header_matches
from kafkeep.transforms.transform import Predicate


@dataclass(frozen=True, slots=True)
class TopicNameMatches:
    """Records of a topic whose whole name matches; a router before it may have changed it."""

    pattern: JavaPattern

    def test(self, rows: Rows) -> NDArray[np.bool_]:
        """Tell for each record whether it is chosen."""
        return np.full(len(rows), self.pattern.matches(rows.topic))


@dataclass(frozen=True, slots=True)
class HasHeaderKey:
    """Records with at least one header of that name."""

    name: str

    def test(self, rows: Rows) -> NDArray[np.bool_]:
        """Tell for each record whether it is chosen."""
        before = np.concatenate([[0], np.cumsum(header_matches(rows.headers, self.name))])
        counts = np.diff(before[view_offsets(rows.headers)])
        return np.asarray(counts > 0)


@dataclass(frozen=True, slots=True)
class RecordIsTombstone:
    """Records without a value; the JSON document ``null`` is a value."""

    def test(self, rows: Rows) -> NDArray[np.bool_]:
        """Tell for each record whether it is chosen."""
        return ~valid_flags(rows.value.array)


def open_predicate(spec: PredicateSpec) -> Predicate:
    """Return the predicate a specification stands for."""
    match spec.kind:
        case "TopicNameMatches":
            return TopicNameMatches(compile_java_regex(spec.options.pattern))
        case "HasHeaderKey":
            return HasHeaderKey(spec.options.name)
        case "RecordIsTombstone":
            return RecordIsTombstone()
    raise UsageError(f"there is no predicate {spec.kind}")
