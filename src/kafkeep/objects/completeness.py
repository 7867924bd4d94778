"""List the parts of records that the objects of an archive do not hold. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kafkeep.archive.entry import Entry
from kafkeep.objects.sink.read_windows import (
    ENVELOPE,
    SEGMENT,
    Window,
    entries_by_partition,
    first_offset,
    iter_windows,
)
from kafkeep.objects.sink.spec import REGISTERED, ReadOptions
from kafkeep.options.record_changes import ChangeOptions
from kafkeep.options.sink.converters import ConverterClass
from kafkeep.options.sink.formats import FormatKind

_NAMES = {"json": "JSON", "avro": "Avro", "parquet": "Parquet", "bytes": "bytes"}
_REGISTERED = {kind.rpartition(".")[2] for kind in REGISTERED}
_JSON = ConverterClass.JSON.rpartition(".")[2]
_SIMPLE = ConverterClass.SIMPLE_HEADER.rpartition(".")[2]


def what_is_missing(
    entries: Iterable[Entry], options: ReadOptions | None = None
) -> tuple[str, ...]:
    """Return one sentence for each part of the records that a restore cannot rebuild.

    The result is empty when the records are complete, as in segments. ``entries`` may belong to
    several partitions. ``options`` are the options in the log, if the caller loaded them. Some
    losses can only be detected with them.
    """
    parts = entries_by_partition(entry for entry in entries if entry.format != SEGMENT)
    windows = [window for mine in parts.values() for window in iter_windows(mine)]
    mains = [e for w in windows for e in w.entries if e.own_records and e.converter != ENVELOPE]
    if not mains:
        return ()
    options = options or ReadOptions()
    found = [
        *_about_times(mains, options.changes),
        *_about_views(windows, mains, options.changes),
        *_about_offsets(windows),
        *_about_values(mains, options),
        *_about_keys_and_headers([e for w in windows for e in w.entries]),
    ]
    return tuple(found)


def _names(entries: Iterable[Entry]) -> str:
    names = sorted({_NAMES.get(entry.format, entry.format) for entry in entries})
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[:-1] else names)


def _about_times(mains: Sequence[Entry], changes: ChangeOptions | None) -> Iterator[str]:
    vague = [entry for entry in mains if entry.min_timestamp != entry.max_timestamp]
    if vague and changes is not None and changes.time_field is not None:
        yield f"timestamps are those of the field {changes.time_field}; without it there is none"
    elif vague:
        yield f"timestamps are not in {_names(vague)} objects: restored records have none"


def _about_views(
    windows: Sequence[Window], mains: Sequence[Entry], changes: ChangeOptions | None
) -> Iterator[str]:
    made = changes is not None and any(spec.kind == "ValueToKey" for spec in changes.transforms)
    values = sum(entry.records for entry in mains if entry.view == "value")
    whole = sum(e.records for w in windows for e in w.entries if e.converter == ENVELOPE)
    everything = sum(entry.records for entry in mains)
    for view, wanted in (("keys", values), ("headers", everything)):
        stored = sum(e.records for w in windows for e in w.entries if e.view == view)
        if stored < wanted and not (view == "keys" and made):
            some = "" if not stored and not whole else f" for {wanted - stored:,} records"
            yield f"{view} were not stored{some}: restored records have none"


def _about_offsets(windows: Sequence[Window]) -> Iterator[str]:
    records = mixed = 0
    for window in windows:
        mains = [entry for entry in window.entries if entry.own_records]
        lost = [e for e in mains if e.converter != ENVELOPE and first_offset(e) is None]
        records += sum(entry.records for entry in lost)
        mixed += sum(entry.records for entry in lost) if len(mains) > 1 else 0
    if records:
        yield f"offsets of {records:,} records are not known: only between which two they lie"
    if mixed:
        yield f"the order of {mixed:,} records is known inside of each directory alone"


def _about_values(mains: Sequence[Entry], options: ReadOptions) -> Iterator[str]:
    values = [entry for entry in mains if entry.view == "value"]
    sink = options.sink
    if options.changes is not None and "value" in options.changes.converters:
        return  # the restore encodes values with the converter that the user chose
    registered = {e.converter: e for e in values if e.converter in _REGISTERED}
    for name, entry in sorted(registered.items()):
        if entry.format == FormatKind.JSON or sink is None:
            why = "schemas are not in JSON objects"
            why = why if entry.format == FormatKind.JSON else "its registry is not known"
            yield f"values of {name} are restored as JSON texts: {why}"
    if sink is not None and sink.transforms:
        yield "values went through transforms: they are restored as they were stored"
    texts = [e for e in values if e.converter == _JSON]
    columns = [e for e in texts if e.format != FormatKind.JSON]
    if columns:
        yield (
            f"JSON values in {_names(columns)} objects keep what they say, not how it was written "
            "(spaces, forms of numbers)"
        )
    if sink is not None and texts:
        if len(columns) < len(texts) and sink.has_schemas:
            yield "schemas of JSON values are not in JSON objects: the payloads are restored alone"
        if sink.nulls.behavior_on_null_values == "write":
            yield "a JSON null and no value at all are alike: both are restored as no value"


def _about_keys_and_headers(entries: Sequence[Entry]) -> Iterator[str]:
    if any(e.view in ("keys", "tombstones") and e.format == FormatKind.BYTES for e in entries):
        yield "no key and an empty one are alike in bytes objects: both are restored as empty"
    if any(e.view == "headers" and e.converter == _SIMPLE for e in entries):
        yield "SimpleHeaderConverter changed header values: they are restored as it wrote them"
