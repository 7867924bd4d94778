"""Read, alter and reset a connector's offsets, in Connect's JSON.

A sink's offsets are the positions of its log; its consumer group follows them. A source's offsets
are the last objects it has restored, by folder (``source_offsets.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from kafkeep.archive.checkpoint import load_log
from kafkeep.archive.state import LogState
from kafkeep.clock import now_ms, writer_id
from kafkeep.connect.connectors.families import find_family
from kafkeep.connect.connectors.sink_config import ConnectorConfig
from kafkeep.connect.connectors.source_config import SourceConfig
from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.jobs.sink import (
    group_of,
    locations_of,
    newest_partitions,
    positions_now,
    read_sink,
    replace_offsets,
)
from kafkeep.connect.jobs.source_offsets import alter_source, read_source, reset_source
from kafkeep.connect.model import Json, RestError
from kafkeep.errors import NoSuchArchiveError, UsageError
from kafkeep.kafka.admin.admin import Admin, OffsetSpec
from kafkeep.kafka.client.wire import Wire
from kafkeep.maintenance.move_positions import move_positions
from kafkeep.maintenance.verified import last_verified_ms
from kafkeep.store.open import open_store

TopicPartition = tuple[str, int]
_NOTHING = "Partitions / offsets need to be provided for an alter offsets request"
_DONE = (
    "The Connect framework-managed offsets for this connector have been {done} successfully. "
    "However, if this connector manages offsets externally, they will need to be manually {done} "
    "in the system that the connector uses."
)
TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
GROUP_TIMEOUT_MS = 10_000


def read_offsets(name: str, config: Mapping[str, str], context: JobContext) -> list[dict[str, Any]]:
    """Return ``{"partition": …, "offset": …}`` for each partition that has an offset."""
    if _is_source(config):
        return read_source(_source(name, config), context)
    return sink_offsets(_state(read_sink(name, config, context)))


def read_verified(name: str, config: Mapping[str, str], context: JobContext) -> int | None:
    """Return when a sink's log was last verified; None for a source, or when it never was."""
    if _is_source(config):
        return None
    sink = read_sink(name, config, context)
    return last_verified_ms(open_store(sink.archive, sink.storage), sink.name)


def alter_offsets(
    name: str, config: Mapping[str, str], context: JobContext, offsets: Sequence[Json]
) -> str:
    """Move the named partitions; RestError 400 for what is impossible."""
    if not offsets:
        raise RestError(400, _NOTHING)
    with _as_answers():
        if _is_source(config):
            alter_source(_source(name, config), context, offsets)
        else:
            moves = parse_moves(offsets)
            _move(read_sink(name, config, context), context, lambda _state: moves)
    return _DONE.format(done="altered")


def reset_offsets(name: str, config: Mapping[str, str], context: JobContext) -> str:
    """Move everything back to the beginning."""
    with _as_answers():
        if _is_source(config):
            reset_source(_source(name, config), context)
        else:
            _move(
                read_sink(name, config, context),
                context,
                lambda state: dict.fromkeys(newest_partitions(state)),
            )
    return _DONE.format(done="reset")


def sink_offsets(state: LogState) -> list[dict[str, Any]]:
    """Return a log's positions in Connect's JSON. Pure.

    A partition at its beginning has no offset, as in Connect, unless it was moved there.
    """
    newest = newest_partitions(state)
    return [
        {"partition": {TOPIC: topic, PARTITION: number}, "offset": {OFFSET: at}}
        for (topic, number), at in sorted(positions_now(state).items())
        if at or state.generation(newest[topic, number])
    ]


def parse_moves(offsets: Sequence[Json]) -> dict[TopicPartition, int | None]:
    """Parse the new offsets of a sink; RestError 400 names what is wrong. Pure."""
    moves: dict[TopicPartition, int | None] = {}
    for one in offsets:
        partition, offset = one.get("partition"), one.get("offset")
        if not isinstance(partition, dict) or not {TOPIC, PARTITION} <= partition.keys():
            raise RestError(
                400, f"The partition of a sink's offset must have the keys {TOPIC} and {PARTITION}"
            )
        topic = partition[TOPIC]
        if not isinstance(topic, str) or not topic:
            raise RestError(400, f"{TOPIC} must be the name of a topic, not {topic!r}")
        number = _whole(partition[PARTITION], PARTITION)
        if offset is not None and (not isinstance(offset, dict) or OFFSET not in offset):
            raise RestError(400, f"A sink's offset must be null or have the key {OFFSET}")
        if (topic, number) in moves:
            raise RestError(400, f"{topic}-{number} is named twice")
        moves[topic, number] = None if offset is None else _whole(offset[OFFSET], OFFSET)
    return moves


def _whole(value: object, key: str) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not text.isascii() or not text.isdigit():
        raise RestError(400, f"{key} must be a whole number from 0 on, not {value!r}")
    return int(text)


def _move(
    config: ConnectorConfig,
    context: JobContext,
    moves_of: Callable[[LogState], Mapping[TopicPartition, int | None]],
) -> None:
    locations = locations_of(config, context)
    store = open_store(locations.archive, locations.storage, create=True)
    state = load_log(store, config.name).state
    moves = moves_of(state)
    with Wire(locations.kafka) as wire:
        admin = Admin(wire, timeout_ms=GROUP_TIMEOUT_MS)
        _check_ends(admin, moves, newest_partitions(state))
        if moves:
            move_positions(store, config.name, moves, writer=writer_id(), now_ms=now_ms)
        now = positions_now(load_log(store, config.name).state)
        replace_offsets(admin, group_of(config.called), now)


def _check_ends(
    admin: Admin, moves: Mapping[TopicPartition, int | None], archived: Collection[TopicPartition]
) -> None:
    """Refuse an offset past the end of a partition: records up to it would be skipped.

    An archived topic that no longer exists in Kafka has no end.
    """
    wanted = {key: at for key, at in moves.items() if at is not None}
    there = admin.topics({topic for topic, _ in wanted}) if wanted else {}
    known = [
        (topic, number)
        for topic, number in wanted
        if topic in there and number in there[topic].partitions
    ]
    for topic, number in wanted.keys() - {*known, *archived}:
        raise RestError(400, f"There is no {topic}-{number}, neither in Kafka nor in the archive")
    for (topic, number), end in admin.offsets(known, OffsetSpec.LATEST).items():
        if wanted[topic, number] > end:
            raise RestError(
                400, f"{topic}-{number} ends at offset {end}; {wanted[topic, number]} is past it"
            )


def _state(config: ConnectorConfig) -> LogState:
    """Return the state of the log; a missing folder has an empty log."""
    with suppress(NoSuchArchiveError):
        return load_log(open_store(config.archive, config.storage), config.name).state
    return LogState(name=config.name)


def _is_source(config: Mapping[str, str]) -> bool:
    return find_family(config.get("connector.class", "")).kind == "source"


def _source(name: str, config: Mapping[str, str]) -> SourceConfig:
    return SourceConfig.from_map(config, name=name, strict=False)


@contextmanager
def _as_answers() -> Iterator[None]:
    """Turn a UsageError into a RestError 400."""
    try:
        yield
    except UsageError as error:
        hint = f". {error.hint}" if error.hint else ""
        raise RestError(400, error.message + hint) from error
