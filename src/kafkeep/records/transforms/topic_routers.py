"""The transforms RegexRouter and TimestampRouter, which change the topic; pure."""

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
from kafkeep.options.sink.transform_options import (
    RegexRouterOptions,
    TimestampRouterOptions,
)
from kafkeep.records.arrow import (
    run_bounds,
)
from kafkeep.records.rows import NO_TIMESTAMP, Rows
from kafkeep.records.transforms.date_format import DateFormat


@dataclass(frozen=True, slots=True)
class RegexRouter:
    """If the whole topic name matches, the first match in it is replaced."""

    regex: JavaPattern
    replacement: Replacement

    @classmethod
    def of(cls, options: RegexRouterOptions) -> RegexRouter:
        """Return a router; the expression is compiled once."""
        regex = compile_java_regex(options.regex)
        return cls(regex, parse_replacement(options.replacement, regex))

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with their new topic."""
        if not self.regex.matches(rows.topic):
            yield rows
            return
        yield _route(rows, self.replacement.replace_first(self.regex, rows.topic))


@dataclass(frozen=True, slots=True)
class TimestampRouter:
    """Adds the record's timestamp to the topic, so one batch can become several."""

    topic: str
    format: DateFormat

    @classmethod
    def of(cls, options: TimestampRouterOptions) -> TimestampRouter:
        """Return a router; the pattern is parsed once."""
        return cls(options.topic_format, DateFormat.of(options.timestamp_format))

    def apply(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with their new topics."""
        if (rows.timestamps == NO_TIMESTAMP).any():
            raise RecordError("timestamp missing on record")
        step = self.format.step_ms
        for start, stop in run_bounds(np.floor_divide(rows.timestamps, step)):
            time = self.format.format(int(rows.timestamps[start]))
            topic = self.topic.replace("${topic}", rows.topic).replace("${timestamp}", time)
            yield _route(rows.slice(start, stop), topic)


def _route(rows: Rows, topic: str) -> Rows:
    try:
        return rows if topic == rows.topic else replace(rows, topic=check_topic_name(topic))
    except ValueError as error:
        raise RecordError(f"cannot route {rows.topic} to {topic!r}: {error}") from error
