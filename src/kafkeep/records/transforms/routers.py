"""RegexRouter and TimestampRouter: where records go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kafkeep.archive.names import check_topic_name
from kafkeep.errors import RecordError
from kafkeep.options.java_regex import (
    JavaPattern,
    Replacement,
    compile_java_regex,
    parse_replacement,
)
from kafkeep.options.sink.transform_options import RegexRouterOptions, TimestampRouterOptions
from kafkeep.records.arrow import run_bounds
from kafkeep.records.rows import Rows
from kafkeep.records.transforms.date_format import DateFormat
from kafkeep.records.transforms.insert_field import NO_TIMESTAMP


def _route(rows: Rows, topic: str) -> Rows:
    try:
        return rows if topic == rows.topic else replace(rows, topic=check_topic_name(topic))
    except ValueError as error:
        raise RecordError(f"cannot route {rows.topic} to {topic!r}: {error}") from error


@dataclass(frozen=True, slots=True)
class RegexRouter:
    """A topic whose whole name matches gets the replacement for the first match in it."""

    regex: JavaPattern
    replacement: Replacement

    @classmethod
    def of(cls, options: RegexRouterOptions) -> RegexRouter:
        """Make one; the expression is compiled once."""
        regex = compile_java_regex(options.regex)
        return cls(regex, parse_replacement(options.replacement, regex))

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows under their new topic."""
        if not self.regex.matches(rows.topic):
            yield rows
            return
        yield _route(rows, self.replacement.replace_first(self.regex, rows.topic))


@dataclass(frozen=True, slots=True)
class TimestampRouter:
    """The record's time becomes part of its topic, so rows may fall into pieces."""

    topic: str
    format: DateFormat

    @classmethod
    def of(cls, options: TimestampRouterOptions) -> TimestampRouter:
        """Make one; the pattern is read once."""
        return cls(options.topic_format, DateFormat.of(options.timestamp_format))

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows under their new topics."""
        if (rows.timestamps == NO_TIMESTAMP).any():
            raise RecordError("timestamp missing on record")
        step = self.format.step_ms
        for start, stop in run_bounds(np.floor_divide(rows.timestamps, step)):
            time = self.format.format(int(rows.timestamps[start]))
            topic = self.topic.replace("${topic}", rows.topic).replace("${timestamp}", time)
            yield _route(rows.slice(start, stop), topic)
