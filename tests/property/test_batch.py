from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkeep.archive.entry import OffsetRange
from kafkeep.errors import DamagedError, KafkeepError
from kafkeep.kafka.batch.compression import Codec
from kafkeep.kafka.batch.decode import decode, iter_decode
from kafkeep.kafka.batch.layout import DELETE_HORIZON, Record, TimestampType, build_batch
from kafkeep.kafka.batch.rewrite import regroup, stamp
from kafkeep.kafka.batch.scan import Batches, check_crcs, min_timestamps, scan_batches
from kafkeep.kafka.batch.transactions import drop_aborted

INT64 = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, -1, -5, 2**63 - 1, -(2**63)])
BYTES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.binary(max_size=20), BYTES), max_size=3)


@st.composite
def stored_batches(draw: st.DrawFn) -> tuple[list[list[Record]], list[bytes]]:
    """Batches as compaction and brokers leave them, with the records a consumer sees."""
    seen, stored = [], []
    offset = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(0, 6))):
        base = offset
        records = []
        for _ in range(draw(st.integers(0, 8))):
            offset += draw(st.sampled_from([0, 0, 0, 1, 5, 1000]))
            records.append(Record(offset, draw(INT64), draw(BYTES), draw(BYTES), draw(HEADERS)))
            offset += 1
        last = max(offset - 1, base) + draw(st.sampled_from([0, 0, 7]))
        offset = last + 1
        horizon = draw(st.booleans())
        kind = draw(st.sampled_from(TimestampType))
        appended_ms = draw(INT64)
        stored.append(
            build_batch(
                records,
                base_offset=base,
                last_offset=last,
                codec=draw(st.sampled_from(Codec)),
                timestamp_type=kind,
                base_timestamp=draw(INT64) if horizon else None,
                max_timestamp=appended_ms if kind else None,
                attributes=DELETE_HORIZON if horizon else 0,
            )
        )
        seen.append([r._replace(timestamp=appended_ms) if kind else r for r in records])
    return seen, stored


def consumed(batches: Batches) -> list[Record]:
    return [
        Record(
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            [(header["key"], header["value"]) for header in row["headers"]],
        )
        for row in decode(batches).to_pylist()
    ]


@given(stored_batches())
def test_what_is_built_is_decoded(made: tuple[list[list[Record]], list[bytes]]) -> None:
    seen, stored = made
    batches = scan_batches(b"".join(stored), partial_tail=False)
    check_crcs(batches)
    assert consumed(batches) == [record for records in seen for record in records]
    smallest = [min((r.timestamp for r in records), default=2**63 - 1) for records in seen]
    assert min_timestamps(batches).tolist() == smallest


@given(stored_batches(), st.data())
def test_regroup_keeps_every_record_once_and_in_order(
    made: tuple[list[list[Record]], list[bytes]], data: st.DataObject
) -> None:
    seen, stored = made
    records = [record for part in seen for record in part]
    low = records[0].offset if records else 0
    high = records[-1].offset + 2 if records else 1
    start = data.draw(st.integers(max(low - 1, 0), high))
    wanted = OffsetRange(start, data.draw(st.integers(start, high)))
    skip = data.draw(st.integers(0, len(records)))
    largest = data.draw(st.integers(100, 3000))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stored)), max_size=3)))
    chunks = [scan_batches(b"".join(stored[i:j])) for i, j in pairwise([0, *cuts, len(stored)])]
    ready = list(
        regroup(
            chunks,
            range=wanted,
            skip_records=skip,
            target_bytes=data.draw(st.integers(50, 4000)),
            max_batch_bytes=largest,
        )
    )
    got = []
    for batch in ready:
        stamp(batch.body, 1, 0, len(got))
        batches = scan_batches(batch.body, partial_tail=False)
        check_crcs(batches)
        assert len(batches) == 1 and bool(batches.is_dense[0]) and batches.base_offsets[0] == 0
        assert len(batch.body) <= largest or batch.records == 1
        offsets = (
            list(range(batch.first_offset, batch.last_offset + 1))
            if batch.offsets is None
            else batch.offsets.tolist()
        )
        parts = consumed(batches)
        assert batches.max_timestamps[0] == max(r.timestamp for r in parts)
        got += [r._replace(offset=o) for r, o in zip(parts, offsets, strict=True)]
    kept = [r for r in records if wanted.start <= r.offset < wanted.end]
    assert got == kept[skip:]


@settings(max_examples=300)
@given(stored_batches(), st.integers(0, 2**32), st.integers(1, 4))
def test_flipped_bytes_are_damage_or_read_but_never_crash(
    made: tuple[list[list[Record]], list[bytes]], seed: int, flips: int
) -> None:
    data = bytearray(b"".join(made[1]))
    dice = random.Random(seed)
    for _ in range(flips if data else 0):
        data[dice.randrange(len(data))] = dice.randrange(256)
    try:
        batches = scan_batches(data)
    except KafkeepError:
        return
    for use in (
        lambda: check_crcs(batches),
        lambda: min_timestamps(batches, limit_bytes=1 << 20),
        lambda: drop_aborted(batches, [(-1, 0)]),
        lambda: list(iter_decode(batches, limit_bytes=1 << 20)),
        lambda: list(
            regroup(
                [batches],
                range=OffsetRange(0, 2**62),
                max_batch_bytes=1000,
                limit_bytes=1 << 20,
            )
        ),
    ):
        try:
            use()
        except DamagedError:
            continue


@given(st.binary(max_size=400))
def test_any_bytes_are_scanned_or_refused(data: bytes) -> None:
    try:
        assert scan_batches(data).consumed <= len(data)
    except KafkeepError:
        return
