"""``spark.read.format("kafkeep")``: an archive as a DataFrame.

PySpark finds it by itself through the module ``pyspark_kafkeep``; ``register`` does it by hand.

Spark shows the message of an error but not its hint, so a message here also states what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import ArchiveView, list_logs, load_view, load_views
from kafkeep.clock import now_ms
from kafkeep.errors import (
    DamagedError,
    EnvironmentFault,
    NoSuchArchiveError,
    PreflightError,
    UsageError,
)
from kafkeep.kafka.batch.decode import iter_decode
from kafkeep.kafka.batch.scan import Batches
from kafkeep.objects.prefetch import HINT, MEMORY_BYTES
from kafkeep.objects.segment.format import read_segment
from kafkeep.objects.segment.reader import committed
from kafkeep.objects.sink.read_windows import SEGMENT
from kafkeep.objects.sink.spec import load_read_options
from kafkeep.options.spark import usable_cores
from kafkeep.options.storage import StorageOptions
from kafkeep.options.units import parse_time
from kafkeep.spark.datasource.selection import (
    PushedFilters,
    check_topics,
    choose_entries,
    without_expired,
)
from kafkeep.spark.datasource.slices import (
    EXACT_TIME,
    SPARK_SCHEMA,
    AnySlice,
    SegmentSlice,
    plan_slices,
    to_spark,
)
from kafkeep.store.open import open_store

try:
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
except ImportError as error:
    raise EnvironmentFault(
        f"Spark {pyspark.__version__} cannot read an archive as a DataFrame:"
        " it has no Python data sources",
        hint="Install Spark 4.0 or newer. Backups and restores run on this one.",
    ) from error
from kafkeep.spark.internals.filters import OptionalFilters

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter  # since Spark 4.1

BUNDLES_PER_CORE = 3
TASK_BYTES = 128 << 20
"""As much as Spark's own file sources give a task, so that a large archive occupies a cluster."""


def register(session: SparkSession) -> None:
    """Make the format known to a session, with the number of tasks that it runs at once now.

    The executors of a cluster are awaited if the session has just started. Spark plans a read in a
    process that knows neither the session nor its executors. A session that found the format by
    itself therefore counts the cores of the driver's machine.
    """
    from kafkeep.spark import slots  # noqa: PLC0415 - tasks read without it

    if slots.runs_on_cluster(session):
        slots.await_executors(session)
    bound = type(KafkeepSource.__name__, (KafkeepSource,), {"slots": slots.task_slots(session)})
    session.dataSource.register(bound)


class KafkeepSource(DataSource):  # type: ignore[misc]
    """An archive, or one log of it, read as Spark's Kafka source would read the topics."""

    slots: int | None = None
    """How many tasks the session runs at once, if it was asked."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "kafkeep"

    def schema(self) -> str:
        """Return Spark's Kafka schema, with the exact time when it was asked for."""
        exact = is_true(self.options.get("includeTimestampMs"))
        return f"{SPARK_SCHEMA}, {EXACT_TIME} long" if exact else SPARK_SCHEMA

    def reader(self, schema: object) -> KafkeepReader:
        """Return the reader for these options."""
        options = {key.lower(): value for key, value in self.options.items()}
        return KafkeepReader(options, slots=self.slots)


class KafkeepReader(DataSourceReader):  # type: ignore[misc]
    """Plans in one Python process beside the driver, reads in tasks; it travels by pickle."""

    def __init__(self, options: Mapping[str, str], *, slots: int | None = None) -> None:
        path = options.get("path")
        if not path:
            raise UsageError("no archive given", hint="Say which with .load('s3://bucket/prefix').")
        check_known(options)
        self._path = path
        self._slots = slots
        self._options = dict(options)
        topics = options.get("topics")
        self._topics = frozenset(name.strip() for name in topics.split(",")) if topics else None
        self._wanted = PushedFilters(topics=self._topics)

    def narrow(self, filters: list[Filter]) -> Iterable[Filter]:
        """Remember what narrows the search; each filter is still Spark's to apply."""
        self._wanted = self._wanted.narrowed(filters)
        return filters

    pushFilters = OptionalFilters(narrow)

    def partitions(self) -> Sequence[InputPartition]:
        """Read the log and pack what is wanted into bundles of alike size."""
        store = self._open()
        asked = number(self._options, "numPartitions", least=1)
        incarnation = number(self._options, "incarnation", least=1)
        views = self._load_views(store)
        check_topics(self._topics or (), views)
        now = now_ms()
        chosen = {
            topic: (view, without_expired(store, view, mine, now))
            for topic, (view, mine) in choose_entries(views, self._wanted, incarnation).items()
        }
        entries = [entry for _, mine in chosen.values() for entry in mine]
        reading = {
            topic: load_read_options(store, view).read_only()
            for topic, (view, mine) in chosen.items()
            if any(entry.format != SEGMENT for entry in mine)
        }
        count = asked or task_count((entry.size_bytes for entry in entries), self._slots)
        planned = plan_slices(entries, self._wanted, count, reading)
        # Without any partition Spark would ask for one with the value None.
        return [InputPartition(bundle) for bundle in planned] or [InputPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one bundle; runs in a task."""
        store = self._open()
        exact = is_true(self._options.get("includetimestampms"))
        for piece in partition.value or ():
            for records in iter_piece(store, piece, self._wanted):
                yield to_spark(records, piece.topic, piece.partition, exact_time=exact)

    def _open(self) -> ObjectStore:
        return open_store(self._path, storage_options(self._options))

    def _load_views(self, store: ObjectStore) -> list[ArchiveView]:
        commit, at = number(self._options, "commit", least=0), self._options.get("at")
        name = self._options.get("name")
        names = [name] if name else list_logs(store)
        if not names:
            raise NoSuchArchiveError(f"nothing is archived at {store.describe()}")
        if commit is not None and len(names) > 1:
            raise PreflightError(
                f"the archive has {len(names)} logs, and a commit belongs to one of them",
                hint=f"Set the option name to one of: {', '.join(names)}.",
            )
        at_ms = parse_time(at) if at else None
        if commit is not None:
            return [load_view(store, names[0], commit=commit, at_ms=at_ms)]
        return load_views(store, names, at_ms)


def task_count(sizes: Iterable[int], slots: int | None = None) -> int:
    """Return how many tasks read objects of these sizes.

    Their size decides, and for what is small the tasks that run at once; this machine's cores where
    nobody knows them.
    """
    return max(BUNDLES_PER_CORE * (slots or usable_cores()), -(-sum(sizes) // TASK_BYTES))


def iter_piece(
    store: ObjectStore, piece: AnySlice, wanted: PushedFilters
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a piece, those outside of its range left out."""
    if isinstance(piece, SegmentSlice):
        for batches in iter_batches(store, piece, wanted):
            yield from iter_decode(batches, piece.range)
        return
    # Formats and converters take a while to import; segments need none of them.
    from kafkeep.objects.records import inside  # noqa: PLC0415
    from kafkeep.objects.sink.read_rows import iter_file  # noqa: PLC0415

    for records in iter_file(store, piece.file, piece.reading, memory_bytes=MEMORY_BYTES):
        found = inside(records, piece.range)
        if found.num_rows:
            yield found


def iter_batches(
    store: ObjectStore, piece: SegmentSlice, wanted: PushedFilters
) -> Iterator[Batches]:
    """Yield a piece's batches, checked, without those of aborted transactions."""
    found = read_segment(
        lambda start, end: store.get_range(piece.key, start, end),
        piece.end,
        piece.index,
        piece.range,
        from_ms=wanted.from_ms,
        until_ms=wanted.until_ms,
        name=piece.key,
    )
    try:
        for batches in found:
            yield committed(batches, piece.aborted)
    except DamagedError as error:
        lost = f"offsets {piece.range.start} to {piece.range.end - 1}"
        text = f"{piece.key}: {error.message}; {lost} of {piece.topic}-{piece.partition} are lost"
        raise DamagedError(text, hint=error.hint or HINT) from error


_STORAGE = {
    "endpoint": "endpoint",
    "region": "region",
    "accessKey": "access_key",
    "secretKey": "secret_key",
    "sessionToken": "session_token",
    "profile": "profile",
    "caFile": "ca_file",
}
NAMES = (
    "path",
    "topics",
    "name",
    "commit",
    "at",
    "incarnation",
    "includeTimestampMs",
    "numPartitions",
    *_STORAGE,
    "pathStyle",
)
"""Every option; Spark takes them in any case."""


def check_known(options: Iterable[str]) -> None:
    """UsageError for an option that there is not: it would narrow nothing, and nobody would see."""
    known = {name.lower(): name for name in NAMES}
    for option in options:
        if option not in known:
            near = get_close_matches(option, known, 1)
            there = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(NAMES)}"
            raise UsageError(f"unknown option {option}: {there}")


def number(options: Mapping[str, str], name: str, *, least: int) -> int | None:
    """Return an option's whole number; None where it is not given."""
    text = options.get(name.lower())
    if not text:
        return None
    if not text.isdecimal() or int(text) < least:
        raise UsageError(f"{name} must be a whole number of at least {least}, not {text!r}")
    return int(text)


def is_true(text: str | None) -> bool:
    """Tell whether an option is switched on."""
    return (text or "").strip().lower() in ("true", "yes", "1")


def storage_options(options: Mapping[str, str]) -> StorageOptions:
    """Return how to reach the store: the reader's options (lower case), else the environment's."""
    given: dict[str, Any] = {field: options.get(name.lower()) for name, field in _STORAGE.items()}
    path_style = options.get("pathstyle")
    given["path_style"] = is_true(path_style) if path_style else None
    return StorageOptions.from_env(None, **given)
