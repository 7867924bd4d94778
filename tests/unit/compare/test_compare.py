"""Streams compared in every way get the right verdicts."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkeep.compare import stream
from kafkeep.compare.differences import STRICT, Leniency, Tally, Verdict, classify
from kafkeep.compare.digest import FIELDS, align, digest_rows, longest_rising
from kafkeep.compare.repartitioned import KeyShare, compare_keys
from kafkeep.compare.stream import RecordStream, compare_streams
from kafkeep.compare.task import FillerFilter, classify_fillers
from kafkeep.kafka.batch.decode import RECORD_SCHEMA

Record = tuple[int, bytes | None, bytes | None, tuple[tuple[bytes, bytes | None], ...]]
"""Time, key, value, headers."""


def record(number: int, value: bytes | None = None) -> Record:
    return 1000 + number, b"k%d" % (number % 7), value or b"v%d" % number, ()


def batches(records: Sequence[Record], size: int = 7, first: int = 0) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(records), size):
        rows = [
            {
                "offset": first + start + i,
                "timestamp": time,
                "timestamp_type": 0,
                "key": key,
                "value": value,
                "headers": [{"key": k, "value": v} for k, v in headers],
            }
            for i, (time, key, value, headers) in enumerate(records[start : start + size])
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def verdicts(
    ours: Sequence[Record],
    theirs: Sequence[Record],
    leniency: Leniency = STRICT,
    fields: Sequence[str] = FIELDS,
) -> tuple[int, Tally]:
    a = RecordStream(batches(ours), fields, len(ours))
    b = RecordStream(batches(theirs, 5), fields, len(theirs))
    compared = compare_streams(a, b, fields)
    assert a.taken == len(ours) and b.taken == len(theirs)
    assert compared.matched + compared.lacking.count == len(ours)
    assert compared.matched + compared.added.count == len(theirs)
    tally = classify(compared, lambda: (digest_rows(x, fields) for x in batches(ours)), leniency)
    return compared.matched, tally


def counted(tally: Tally) -> dict[str, int]:
    return {verdict.value: count for verdict, count in tally.counts.items()}


@pytest.fixture(params=[(4, 16), (1 << 10, 1 << 18)], ids=["small windows", "as they are"])
def windows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "FIRST_WINDOW", request.param[0])
    monkeypatch.setattr(stream, "LARGEST_WINDOW", request.param[1])


EDITS = ("keep", "lose", "alter", "double", "insert", "double far")


@given(st.lists(st.sampled_from(EDITS), max_size=60), st.integers(1, 4))
def test_separate_edits_are_reported_one_by_one(edits: list[str], apart: int) -> None:
    ours: list[Record] = [record(0), record(1)]
    theirs, expected = list(ours), dict.fromkeys(("lost", "altered", "duplicate", "extra"), 0)
    for edit in edits:
        one = record(len(ours))
        ours.append(one)
        if edit == "lose":
            expected["lost"] += 1
        elif edit == "alter":
            expected["altered"] += 1
            theirs.append((*one[:2], b"other %d" % len(ours), ()))
        else:
            theirs.append(one)
        if edit == "double":
            expected["duplicate"] += 1
            theirs.append(one)
        elif edit == "double far":
            expected["duplicate"] += 1
            theirs.append(ours[0])
        elif edit == "insert":
            expected["extra"] += 1
            theirs.append((5, b"new", b"new %d" % len(ours), ()))
        for _ in range(apart):
            ours.append(record(len(ours)))
            theirs.append(ours[-1])
    _, tally = verdicts(ours, theirs)
    assert counted(tally) == {name: count for name, count in expected.items() if count}


@given(st.permutations(range(9)))
def test_reordered_are_as_few_as_can_be(order: list[int]) -> None:
    rising = max(
        size
        for size in range(1, 10)
        if any(list(pick) == sorted(pick) for pick in combinations(order, size))
    )
    _, tally = verdicts([record(i) for i in range(9)], [record(i) for i in order])
    assert counted(tally) == ({"reordered": 9 - rising} if rising < 9 else {})


@given(st.lists(st.integers(0, 5), max_size=40), st.lists(st.integers(0, 5), max_size=40))
def test_only_equal_lists_have_no_difference(a: list[int], b: list[int]) -> None:
    ours, theirs = [record(i) for i in a], [record(i) for i in b]
    matched, tally = verdicts(ours, theirs)
    assert (not tally.counts) == (a == b)
    told = counted(tally)
    gone = told.get("lost", 0) + told.get("altered", 0) + told.get("reordered", 0)
    assert matched + gone == len(a)
    new = ("altered", "reordered", "duplicate", "extra", "newer")
    come = sum(told.get(name, 0) for name in new)
    assert matched + come == len(b)


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("start", [0, 400, 900])
@pytest.mark.parametrize("lost", [1, 60, 333])
def test_a_long_stretch_is_lost_and_nothing_else(start: int, lost: int) -> None:
    ours = [record(i) for i in range(1300)]
    matched, tally = verdicts(ours, ours[:start] + ours[start + lost :])
    assert counted(tally) == {"lost": lost} and matched == 1300 - lost
    assert [place.archive for place in tally.places[Verdict.LOST]] == list(
        range(start, start + min(5, lost))
    )


@pytest.mark.usefixtures("windows")
def test_a_stretch_written_twice_is_a_duplicate_also_at_the_end() -> None:
    ours = [record(i) for i in range(200)]
    _, tally = verdicts(ours, ours[:120] + ours[100:])
    assert counted(tally) == {"duplicate": 20}
    _, tally = verdicts(ours, ours + ours[150:])
    assert counted(tally) == {"duplicate": 50}


def test_what_comes_after_the_archive_is_newer_and_no_fault() -> None:
    ours = [record(i) for i in range(50)]
    _, tally = verdicts(ours[:40], ours)
    assert counted(tally) == {"newer": 10} and not tally.faults and tally.warnings == 10


def test_the_last_record_lost_and_a_new_one_written_is_not_altered() -> None:
    ours = [record(i) for i in range(50)]
    _, tally = verdicts(ours, [*ours[:-1], (9, b"other", b"another", ())])
    assert counted(tally) == {"lost": 1, "newer": 1}
    _, tally = verdicts(ours, [*ours[:-1], (*ours[-1][:2], b"another", ())])
    assert counted(tally) == {"altered": 1}


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ((1001, b"k3", b"v3", ()), "timestamp"),
        ((1003, None, b"v3", ()), "key"),
        ((1003, b"k3", b"", ()), "value"),
        ((1003, b"k3", None, ()), "value"),
        ((1003, b"k3", b"v3", ((b"a", None),)), "headers"),
    ],
)
def test_an_altered_record_is_named_with_what_differs(other: Record, what: str) -> None:
    ours = [record(i) for i in range(20)]
    _, tally = verdicts(ours, [*ours[:3], other, *ours[4:]])
    assert counted(tally) == {"altered": 1}
    assert tally.places[Verdict.ALTERED][0] == (3, 3, what)


def test_headers_in_another_order_or_cut_elsewhere_differ() -> None:
    one = ((b"a", b"1"), (b"b", b"2"))
    for other in (one[::-1], ((b"a", b"1b"), (b"", b"2")), ((b"a", b"1"), (b"b", None))):
        _, tally = verdicts([(1, None, b"x", one)], [(1, None, b"x", other)])
        assert counted(tally) == {"altered": 1}


def test_what_is_left_out_of_the_comparison_may_differ() -> None:
    ours = [record(i) for i in range(20)]
    theirs = [(-1, None, value, ()) for _, _, value, _ in ours]
    assert not verdicts(ours, theirs, fields=("value", "headers"))[1].counts


def test_exact_offsets_report_shifted_records() -> None:
    ours = [record(i) for i in range(30)]
    _, tally = verdicts(ours, ours[:10] + ours[11:], Leniency(exact=True))
    assert counted(tally) == {"lost": 1, "displaced": 19}
    assert tally.places[Verdict.DISPLACED][0][:2] == (11, 10)


def test_a_compacted_target_may_lack_what_came_again() -> None:
    ours = [record(i) for i in range(21)]  # seven keys, three times each
    _, tally = verdicts(ours, ours[14:], Leniency(compacts=True))
    assert counted(tally) == {"compacted": 14}
    _, tally = verdicts(ours, ours[14:20], Leniency(compacts=True))
    assert counted(tally) == {"compacted": 14, "lost": 1}


def test_a_log_that_begins_later_has_expired_records() -> None:
    ours = [record(i) for i in range(30)]
    _, tally = verdicts(ours, ours[10:], Leniency(starts_at=8))
    assert counted(tally) == {"expired": 8, "lost": 2}


@pytest.mark.usefixtures("windows")
def test_where_the_archives_objects_have_expired_a_target_may_have_more() -> None:
    everything = [record(i) for i in range(60)]
    ours = everything[10:30] + everything[40:]
    may = Leniency(unheld=((0, 10), (20, 10)))
    assert counted(verdicts(ours, everything, may)[1]) == {"unheld": 20}
    assert counted(verdicts(ours, everything[10:], may)[1]) == {"unheld": 10}
    assert not verdicts(ours, ours, may)[1].counts
    stranger = (1, b"x", b"x", ())
    elsewhere = [*everything[:35], stranger, *everything[35:]]
    assert counted(verdicts(ours, elsewhere, may)[1]) == {"unheld": 20, "extra": 1}
    inside = [*everything[:15], stranger, *everything[15:]]
    assert counted(verdicts(ours, inside, may)[1]) == {"unheld": 20, "extra": 1}
    assert counted(verdicts(ours, everything, STRICT)[1]) == {"extra": 20}


def test_many_that_have_expired_are_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MOST_KEPT", 10)
    everything = [record(i) for i in range(100)]
    found = counted(verdicts(everything[80:], everything, Leniency(unheld=((0, 80),)))[1])
    assert found == {"unheld": 80}


def test_fillers_are_counted_and_not_compared() -> None:
    filler: Record = (9, b"__kafkeep_hole", None, ())
    ours = [record(i) for i in range(20)]
    theirs = [*ours[:5], *[filler] * 30, *ours[5:], (9, b"__kafkeep_hole", b"a value", ())]
    archive, target = FillerFilter(), FillerFilter()
    rows = [row for batch in target.left_out(batches(theirs)) for row in batch.to_pylist()]
    assert [row["value"] for row in rows] == [*(value for _, _, value, _ in ours), b"a value"]
    assert (target.count, target.offsets) == (30, [5, 6, 7, 8, 9])
    assert len(list(archive.left_out(batches(ours)))) == 3 and archive.count == 0
    tally = Tally()
    classify_fillers(archive, target, tally)
    assert counted(tally) == {"filler": 30}
    classify_fillers(target, archive, tally)
    assert counted(tally) == {"filler": 30, "lost": 30}


def test_more_than_is_kept_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MOST_KEPT", 10)
    ours = [record(i) for i in range(100)]
    assert counted(verdicts(ours, ours[:20])[1]) == {"lost": 80}
    assert counted(verdicts(ours[:20], ours)[1]) == {"newer": 80}


@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_records_spread_anew_are_the_same_by_key(source: random.Random, shares: int) -> None:
    ours = [[record(7 * i + p) for i in range(source.randint(0, 8))] for p in range(3)]
    ours[0] += [(1, None, b"no key %d" % i, ()) for i in range(4)]
    theirs: list[list[Record]] = [[], []]
    for partition in ours:  # a key is in one of the three, and goes to one of the two
        for one in partition:
            theirs[source.randint(0, 1) if one[1] is None else one[1][1] % 2].append(one)
    assert _by_key(ours, theirs, shares) == {}
    flat = [one for partition in ours for one in partition]
    lost = source.choice(flat)
    without = [[one for one in partition if one != lost] for partition in theirs]
    assert _by_key(ours, without, shares) == {"lost": 1}


def test_a_key_whose_records_changed_places_is_reordered() -> None:
    ours = [[record(0), record(7), record(14)], [record(1)]]
    assert _by_key(ours, [[record(1), record(7), record(0), record(14)]], 1) == {"reordered": 1}


def _by_key(ours: list[list[Record]], theirs: list[list[Record]], shares: int) -> dict[str, int]:
    tally = Tally()
    seen = 0
    for number in range(shares):
        _, archived, _, part = compare_keys(
            enumerate(map(batches, ours)),
            enumerate(map(batches, theirs)),
            FIELDS,
            KeyShare(number, shares),
            STRICT,
        )
        seen += archived
        tally.join(part)
    assert seen == sum(map(len, ours))
    return counted(tally)


@given(st.lists(st.integers(0, 30), unique=True, min_size=1))
def test_the_longest_rising_run_rises(values: list[int]) -> None:
    picked = [values[i] for i in longest_rising(np.array(values, dtype=np.int64))]
    assert picked == sorted(picked)


@given(st.lists(st.integers(0, 3), max_size=30), st.lists(st.integers(0, 3), max_size=30))
def test_aligned_blocks_are_alike_and_in_order(a: list[int], b: list[int]) -> None:
    at_a = at_b = 0
    for block in align(np.array(a, dtype=np.uint64), np.array(b, dtype=np.uint64)):
        assert block.a >= at_a and block.b >= at_b
        at_a, at_b = block.a + block.size, block.b + block.size
        assert a[block.a : at_a] == b[block.b : at_b]
