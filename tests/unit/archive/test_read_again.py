"""Objects whose bytes come wrong: once or twice costs another read, always is named as damage."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.archive_builder import build_archive, partition
from tests.support.stored_sinks import write_sink

from kafkeep.archive.entry import Entry
from kafkeep.archive.view import ArchiveView, load_view
from kafkeep.errors import DamagedError, TransientError
from kafkeep.kafka.batch.layout import Record
from kafkeep.maintenance.unlogged import verify_unlogged
from kafkeep.maintenance.verify.objects import check_object
from kafkeep.maintenance.verify.verify import verify
from kafkeep.objects.prefetch import read_in_order
from kafkeep.objects.records import iter_records
from kafkeep.objects.sink.spec import NO_OPTIONS, ReadOptions
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.unlogged import UnloggedOptions
from kafkeep.restore.plan import RestorePlan, plan_restore
from kafkeep.restore.read import iter_ready
from kafkeep.restore.source import leave_out_damage, load_contents
from kafkeep.store.memory import MemoryStore

ALWAYS = 10**9


def plan_all(view: ArchiveView) -> RestorePlan:
    return plan_restore(load_contents(view, RestoreOptions()), RestoreOptions(), id="r")


def flip(body: bytes) -> bytes:
    middle = len(body) // 2
    return body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]


def cut(body: bytes) -> bytes:
    return body[:-1]


class Shaky(MemoryStore):
    """Changes the next ``times`` answers for parts of objects."""

    def __init__(self, sound: MemoryStore) -> None:
        super().__init__()
        self._objects = sound._objects
        self.change: Callable[[bytes], bytes] = flip
        self.times = 0

    def get_range(self, key: str, start: int, end: int) -> bytes:
        body = super().get_range(key, start, end)
        self.times -= 1
        return self.change(body) if self.times >= 0 else body


@dataclass
class Case:
    store: Shaky
    entries: tuple[Entry, ...]
    options: ReadOptions

    def rows(self) -> list[dict[str, Any]]:
        found = iter_records(self.store, self.entries, options=self.options)
        return [row for batch in found for row in batch.to_pylist()]


@pytest.fixture(params=["segment", "json"])
def case(request: pytest.FixtureRequest) -> Case:
    if request.param == "segment":
        sound = MemoryStore()
        built = build_archive(sound, {"t": [partition(0, 40)]})
        return Case(Shaky(sound), tuple(built.entries), NO_OPTIONS)
    made = [Record(n, 1000 + n, b"k", b'{"n":%d}' % n) for n in range(40)]
    stored = write_sink(made, {"format.class": "json"})
    return Case(Shaky(stored.store), stored.entries, stored.options)


@pytest.mark.parametrize("change", [flip, cut])
@pytest.mark.parametrize("times", [1, 2])
def test_an_object_that_comes_damaged_is_read_again(
    case: Case, change: Callable[[bytes], bytes], times: int, caplog: pytest.LogCaptureFixture
) -> None:
    case.store.change, case.store.times = change, times
    assert [row["offset"] for row in case.rows()] == list(range(40))
    assert sum(case.entries[0].key in said for said in caplog.messages) == times


@pytest.mark.parametrize("change", [flip, cut])
def test_an_object_that_always_comes_damaged_is_named_with_its_offsets(
    case: Case, change: Callable[[bytes], bytes]
) -> None:
    case.store.change, case.store.times = change, ALWAYS
    with pytest.raises(DamagedError, match="it held 40 records of t-0, offsets 0 to 39") as caught:
        case.rows()
    assert caught.value.message.startswith(case.entries[0].key)
    assert caught.value.hint


def test_what_was_fetched_before_its_turn_is_read_again_too(case: Case) -> None:
    case.store.times = 1
    with read_in_order(case.store, case.entries) as ahead:
        (entry,) = case.entries[:1]
        first = ahead.get_range(entry.key, 0, entry.size_bytes)
        assert first != ahead.get_range(entry.key, 0, entry.size_bytes) == case.store.get(entry.key)


def test_a_restore_stops_at_a_flipped_segment_or_leaves_it_out_alone_when_allowed_to() -> None:
    store = MemoryStore()
    built = build_archive(store, {"t": [partition(0, 40, 80)]})
    bad = built.entries[1].key
    body = store.get(bad)
    store.delete(bad)
    store.put_new(bad, flip(body))
    plan = plan_restore(
        load_contents(load_view(store, "backup"), RestoreOptions()), RestoreOptions(), id="r"
    )
    with pytest.raises(DamagedError, match="offsets 40 to 79") as caught:
        list(iter_ready(store, built.entries))
    assert caught.value.exit_code == 13
    assert leave_out_damage(store, plan).lost == {bad}


def test_a_restore_leaves_out_nothing_that_came_damaged_on_the_way() -> None:
    sound = MemoryStore()
    build_archive(sound, {"t": [partition(0, 40, 80)]})
    store = Shaky(sound)
    plan = plan_restore(
        load_contents(load_view(store, "backup"), RestoreOptions()), RestoreOptions(), id="r"
    )
    store.times = 2
    assert leave_out_damage(store, plan).lost == frozenset()


class HalfFlipped(MemoryStore):
    """Changes every second answer on average: at any place, or always at the same."""

    def __init__(self, sound: MemoryStore, *, share: float = 0.5, same_place: bool = False) -> None:
        super().__init__()
        self._objects = sound._objects
        self._chance = random.Random(18)
        self._share = share
        self._same_place = same_place

    def get(self, key: str) -> bytes:
        return self._changed(super().get(key))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._changed(super().get_range(key, start, end))

    def _changed(self, body: bytes) -> bytes:
        if not body or self._chance.random() >= self._share:
            return body
        at = len(body) // 2 if self._same_place else self._chance.randrange(len(body))
        return body[:at] + bytes([body[at] ^ self._chance.randrange(1, 256)]) + body[at + 1 :]


def archived() -> tuple[MemoryStore, list[Entry]]:
    sound = MemoryStore()
    built = build_archive(sound, {"t": [partition(0, *range(40, 1200, 40))]})
    return sound, list(built.entries)


@pytest.mark.parametrize("same_place", [False, True])
def test_when_half_of_all_gets_are_flipped_nothing_is_called_damaged(same_place: bool) -> None:
    sound, entries = archived()
    store = HalfFlipped(sound, same_place=same_place)
    assert [found.kind for found in verify(store, ["backup"]).findings] == []
    view = load_view(store, "backup")
    assert view.entries() == load_view(sound, "backup").entries()
    ready = list(iter_ready(store, entries))
    assert [one.body for one in ready] == [one.body for one in iter_ready(sound, entries)]
    plan = plan_all(view)
    assert leave_out_damage(store, plan).lost == frozenset()


@pytest.mark.parametrize("form", ["segment", "json"])
def test_bytes_that_come_otherwise_each_time_are_not_called_damaged(form: str) -> None:
    if form == "segment":
        sound, entries = archived()
        options = NO_OPTIONS
    else:
        made = [Record(n, 1000 + n, b"k", b'{"n":%d}' % n) for n in range(40)]
        stored = write_sink(made, {"format.class": "json"})
        sound, entries, options = stored.store, list(stored.entries), stored.options
    store = HalfFlipped(sound, share=1)
    for read in (
        lambda: list(iter_records(store, entries, options=options)),
        lambda: check_object(store, "backup", entries[0], None, deep=False),
    ):
        with pytest.raises(TransientError, match="its bytes change in transit") as caught:
            read()
        assert "There is no evidence that the archive itself is damaged" in (
            caught.value.hint or ""
        )


def test_objects_without_a_log_that_come_damaged_are_read_again() -> None:
    sound = MemoryStore()
    lines = b"".join(b'{"n":%d}\n' % n for n in range(40))
    for start in range(0, 400, 40):
        sound.put_new(f"topics/t/partition=0/t+0+{start:010}.json.gz", gzip.compress(lines))
    report = verify_unlogged(HalfFlipped(sound), UnloggedOptions())
    assert report.intact
    assert report.records == 400
