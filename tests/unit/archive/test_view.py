from __future__ import annotations

import dataclasses
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
import zstandard
from tests.support.forge import forged

from kafkeep.archive.checkpoint import Checkpoint, decode_root, encode_root, load_newest
from kafkeep.archive.commit import Changes, Gap
from kafkeep.archive.document import MAX_PARSED_BYTES, digest_of, pack
from kafkeep.archive.entry import IndexPoint, OffsetRange, PartitionId
from kafkeep.archive.entry_tables import load_table
from kafkeep.archive.keys import checkpoint_key, log_key
from kafkeep.archive.object_store import ObjectInfo
from kafkeep.archive.view import check_log, list_logs, load_view
from kafkeep.errors import DamagedError, KeyMissingError, NoSuchArchiveError
from kafkeep.store.memory import MemoryStore


def replace_object(store: MemoryStore, key: str, body: bytes) -> None:
    store.delete(key)
    store.put_new(key, body)


def fill(log, make_entry, count: int, *, topics: tuple[str, ...] = ("orders",)) -> None:
    """Commit ``count`` times ten offsets of a topic in turn, and a gap of one before each."""
    for number in range(count):
        topic = topics[number % len(topics)]
        pid = PartitionId(topic, 1, 0)
        start = log.state.positions.get(pid, 0)
        gap = Gap(pid, OffsetRange(start, start + 1), "retention", 1)
        entry = make_entry(start + 1, start + 10, topic=topic)
        log.append(Changes(entries=(entry,), gaps=(gap,), positions={pid: start + 10}))
        log.checkpoint_if_due()


def starts(view, topic=None) -> list[int]:
    return [entry.range.start for entry in view.entries(topic)]


def test_a_view_has_all_entries_and_gaps_in_order(store, open_log, make_entry) -> None:
    fill(open_log(checkpoint_every=3), make_entry, 50, topics=("b", "a"))
    view = load_view(store, "backup")
    expected = [n * 10 + 1 for n in range(25)]
    assert starts(view) == [*expected, *expected]
    assert [e.partition_id.topic for e in view.entries()] == ["a"] * 25 + ["b"] * 25
    assert starts(view, "b") == expected
    assert view.entries("b", 2) == []
    assert len(view.gaps) == 50
    assert (view.commit, view.commits) == (50, 51)
    assert check_log(store, "backup") == []


def test_several_topics_are_read_with_one_pass_over_the_tables(
    store, open_log, make_entry, monkeypatch
) -> None:
    fill(open_log(checkpoint_every=3), make_entry, 50, topics=("c", "b", "a"))
    view = load_view(store, "backup")
    expected = {(name, 1): {0: view.entries(name)} for name in ("a", "c")}
    read: list[str] = []
    get = store.get
    monkeypatch.setattr(store, "get", lambda key: read.append(key) or get(key))
    found = load_view(store, "backup").entries_by_topic([("a", 1), ("c", 1), ("a", 2)])
    assert found == {**expected, ("a", 2): {}}
    tables = [key for key in read if "/table/" in key]
    assert tables and len(tables) == len(set(tables))


def test_tables_are_merged_so_that_the_root_stays_small(store, open_log, make_entry) -> None:
    fill(open_log(checkpoint_every=1), make_entry, 200)
    tables = load_newest(store, "backup").tables
    assert len(tables) <= 3 * 8
    assert max(table.level for table in tables) == 2
    assert (tables[0].first, tables[-1].last) == (0, 200)


def test_a_table_of_a_large_backup_is_split_before_a_reader_calls_it_damaged(
    store, open_log, make_entry, monkeypatch
) -> None:
    # As with 35,000 entries of 64 points each in 64 commits, at one 4096th of the size.
    limit = MAX_PARSED_BYTES // 4096
    monkeypatch.setattr("kafkeep.archive.document.MAX_PARSED_BYTES", limit)
    monkeypatch.setattr("kafkeep.archive.checkpoint.MAX_TABLE_MEMORY", limit // 2)
    log = open_log(checkpoint_every=16)
    for start in range(0, 1500, 100):
        entry = make_entry(start, start + 100)
        points = tuple(IndexPoint(start + at, at, at, -1, 5) for at in range(64))
        entry = dataclasses.replace(entry, index=points)
        log.append(Changes(entries=(entry,), positions={entry.partition_id: start + 100}))
    log.append(Changes())
    assert log.checkpoint_if_due()
    tables = load_newest(store, "backup").tables
    assert len(tables) > 1
    assert [table.first for table in tables] == [0, *(table.last + 1 for table in tables[:-1])]
    assert tables[-1].last == log.state.commit
    rows = [row for table in tables for row in load_table(store, "backup", table).entries]
    assert [row["start"] for row in rows] == list(range(0, 1500, 100))
    assert check_log(store, "backup") == []


def test_a_reader_of_one_topic_skips_tables_without_it(store, open_log, make_entry) -> None:
    log = open_log(checkpoint_every=2)
    fill(log, make_entry, 4, topics=("a",))
    fill(log, make_entry, 4, topics=("b",))
    view = load_view(store, "backup")
    for table in load_newest(store, "backup").tables:
        if table.folders == ("a",):
            store.delete(table.key)
            for number in range(table.first, table.last + 1):
                if store.get(log_key("backup", number)).find(b'"entries"') > 0:
                    store.delete(log_key("backup", number))
    assert len(starts(view, "b")) == 4
    with pytest.raises(DamagedError, match="missing"):
        view.entries("a")


def test_a_reader_of_one_topic_skips_tables_of_many_others(store, open_log, make_entry) -> None:
    log = open_log(checkpoint_every=100)
    fill(log, make_entry, 99, topics=tuple(f"other-{n}" for n in range(99)))
    fill(log, make_entry, 100, topics=("a",))
    others, mine = load_newest(store, "backup").tables
    assert (others.folders, mine.folders) == ((), ("a",))
    view = load_view(store, "backup")
    store.delete(others.key)
    for number in range(others.first, others.last + 1):
        store.delete(log_key("backup", number))
    assert len(starts(view, "a")) == 100
    with pytest.raises(DamagedError, match="missing"):
        view.entries("other-1")


def test_a_root_of_an_older_kafkeep_has_no_filter_and_is_read(store, open_log, make_entry) -> None:
    log = open_log(checkpoint_every=100)
    fill(log, make_entry, 100, topics=tuple(f"topic-{n}" for n in range(100)))
    newest = load_newest(store, "backup")
    assert newest.tables[0].topic_filter is not None
    older = tuple(dataclasses.replace(table, topic_filter=None) for table in newest.tables)
    body = encode_root(dataclasses.replace(newest, tables=older))
    assert b"topic_filter" not in zstandard.decompress(body)
    replace_object(store, checkpoint_key("backup", newest.state.commit), body)
    assert starts(load_view(store, "backup"), "topic-7") == [1]


def test_a_view_at_a_commit_or_a_time_is_what_was_there_then(store, open_log, make_entry) -> None:
    fill(open_log(checkpoint_every=4), make_entry, 20)
    times = [load_view(store, "backup", commit=n).at_ms for n in range(21)]
    assert times == sorted(times)
    for number in (0, 1, 4, 5, 13, 20):
        assert starts(load_view(store, "backup", commit=number)) == [
            n * 10 + 1 for n in range(number)
        ]
        assert load_view(store, "backup", at_ms=times[number] + 999).commit == number
    with pytest.raises(NoSuchArchiveError, match="begins later, at 2023-11-14T22:13:20"):
        load_view(store, "backup", at_ms=times[0] - 1)
    with pytest.raises(NoSuchArchiveError, match="no commit 21: the last is 20"):
        load_view(store, "backup", commit=21)


def test_there_is_no_view_of_a_log_that_is_not_there(store) -> None:
    with pytest.raises(NoSuchArchiveError, match="no log named 'backup'"):
        load_view(store, "backup")


def test_list_logs_names_those_with_commits_and_costs_no_full_listing(store) -> None:
    for name in ("backup", "backup-2", "backup.x", "backup0", "b"):
        for number in range(50):
            store.put_new(log_key(name, number), b"{}")
    store.put_new("_kafkeep/restores/abc.json", b"{}")
    store.put_new("_kafkeep/empty/checkpoint/x", b"{}")
    store.put_new("topics/orders/x", b"")
    assert list_logs(store) == ["b", "backup", "backup-2", "backup.x", "backup0"]


@pytest.mark.parametrize("damage", ["lost", "cut", "other", "future"])
def test_a_damaged_checkpoint_is_passed_over_and_found(
    store, open_log, make_entry, damage: str
) -> None:
    fill(open_log(checkpoint_every=4), make_entry, 10)
    before = load_view(store, "backup")
    key = checkpoint_key("backup", 7)
    body = store.get(key)
    bodies = {"cut": body[:50], "other": store.get(checkpoint_key("backup", 3)), "future": b"\0"}
    store.delete(key)
    if damage != "lost":
        store.put_new(key, bodies[damage])
    after = load_view(store, "backup")
    assert (after.state, after.entries()) == (before.state, before.entries())
    assert [f.key for f in check_log(store, "backup")] == ([] if damage == "lost" else [key])


def test_a_damaged_table_is_rebuilt_from_the_commits(store, open_log, make_entry) -> None:
    fill(open_log(checkpoint_every=4), make_entry, 10)
    before = load_view(store, "backup").entries()
    table = load_newest(store, "backup").tables[0]
    replace_object(store, table.key, b"damaged")
    assert load_view(store, "backup").entries() == before
    findings = check_log(store, "backup")
    assert [(f.key, f.fatal) for f in findings] == [(table.key, False)]


def test_a_checkpoint_of_another_chain_is_not_believed(store, open_log, make_entry) -> None:
    fill(open_log(checkpoint_every=4), make_entry, 10)
    checkpoint = store.get(checkpoint_key("backup", 7))
    cut(store, 6, 10)
    store.delete(checkpoint_key("backup", 7))
    assert load_view(store, "backup").commit == 6
    open_log("w2").append(Changes(note="another commit 8"))
    store.put_new(checkpoint_key("backup", 7), checkpoint)
    assert load_view(store, "backup").commit == 8
    assert len(load_view(store, "backup").entries()) == 6
    (found,) = check_log(store, "backup")
    assert (found.key, found.shows_loss) == (checkpoint_key("backup", 7), True)
    assert found.problem == "does not match commit 7 of the log: commits were replaced"


def cut(store: MemoryStore, end: int, last: int) -> None:
    """Remove the commits after ``end`` up to ``last``."""
    for number in range(end + 1, last + 1):
        store.delete(log_key("backup", number))


def test_no_reader_or_writer_opens_a_log_cut_below_its_own_checkpoint(
    store, open_log, make_entry
) -> None:
    fill(open_log(checkpoint_every=64), make_entry, 101)
    cut(store, 40, 101)
    with pytest.raises(DamagedError) as caught:
        load_view(store, "backup")
    assert caught.value.message == (
        "backup: commits from 41 on were removed from the log: an intact checkpoint shows that it "
        "went up to commit 63 at least; 230 offsets are lost with them: 400 to 629 of orders-0"
    )
    assert "kafkeep restore --name backup --commit 40" in str(caught.value.hint)
    left = load_view(store, "backup", commit=40)
    assert (left.commit, len(left.entries())) == (40, 40)
    assert load_view(store, "backup", at_ms=left.at_ms - 1).commit == 39
    for asked in ({"at_ms": left.at_ms + 1}, {"commit": 41}, {"commit": 63}, {"commit": 100}):
        with pytest.raises(DamagedError, match="commits from 41 on were removed"):
            load_view(store, "backup", **asked)
    with pytest.raises(DamagedError, match="commits from 41 on were removed"):
        open_log("w2")
    assert load_view(store, "backup", commit=40).commit == 40


def test_a_log_of_which_every_commit_was_removed_is_damaged_and_not_absent(
    store, open_log, make_entry
) -> None:
    fill(open_log(checkpoint_every=4), make_entry, 10)
    cut(store, -1, 10)
    assert list_logs(store) == ["backup"]
    with pytest.raises(DamagedError, match="commits from 0 on were removed") as caught:
        load_view(store, "backup")
    assert "--commit" not in str(caught.value.hint)
    with pytest.raises(DamagedError, match="commits from 0 on were removed"):
        open_log("w2")


def test_a_log_continues_once_its_commits_came_back_or_its_checkpoint_is_damaged(
    store, open_log, make_entry
) -> None:
    fill(open_log(checkpoint_every=4), make_entry, 10)
    bodies = {number: store.get(log_key("backup", number)) for number in range(5, 11)}
    cut(store, 4, 10)
    checkpoint = store.get(checkpoint_key("backup", 7))
    replace_object(store, checkpoint_key("backup", 7), checkpoint[:-4] + b"flip")
    assert load_view(store, "backup").commit == 4
    replace_object(store, checkpoint_key("backup", 7), checkpoint)
    for number, body in bodies.items():
        store.put_new(log_key("backup", number), body)
    assert load_view(store, "backup").commit == 10


class GrowingStore(MemoryStore):
    """A live writer commits, and writes checkpoints, whenever a listing has been answered."""

    grow: Callable[[], None] | None = None

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        found = list(super().list(prefix, after=after))
        if self.grow is not None:
            self.grow()
        return iter(found)


def test_a_checkpoint_that_a_live_writer_makes_meanwhile_is_no_loss(open_log, make_entry) -> None:
    store = GrowingStore()
    log = open_log(store=store, checkpoint_every=1)
    fill(log, make_entry, 3)
    store.grow = lambda: fill(log, make_entry, 1)
    assert load_view(store, "backup").commit >= 3
    with pytest.raises(NoSuchArchiveError, match="no commit 99"):
        load_view(store, "backup", commit=99)


class LaggingStore(MemoryStore):
    """The newest commit is not found at first, as in a store that is consistent only in the end."""

    hidden: set[str] = set()  # noqa: RUF012

    def get(self, key: str) -> bytes:
        if key in self.hidden:
            self.hidden.remove(key)
            raise KeyMissingError(key)
        return super().get(key)


def test_a_commit_that_is_found_when_asked_for_again_is_no_loss(open_log, make_entry) -> None:
    store = LaggingStore()
    fill(open_log(store=store, checkpoint_every=4), make_entry, 7)
    store.hidden = {log_key("backup", 7)}
    assert load_view(store, "backup").commit == 7


def test_a_log_cut_off_before_its_last_checkpoint_is_damage(store, open_log, make_entry) -> None:
    fill(open_log(checkpoint_every=4), make_entry, 10)
    cut(store, 6, 10)
    (found,) = check_log(store, "backup")
    assert (found.key, found.fatal) == (checkpoint_key("backup", 7), True)
    assert found.problem == (
        "belongs to commit 7, which was removed from the log; 10 offsets are lost with them: "
        "60 to 69 of orders-0"
    )


def test_a_missing_commit_in_the_middle_is_damage_not_the_end(store, open_log, make_entry) -> None:
    fill(open_log(), make_entry, 6)
    store.delete(log_key("backup", 3))
    with pytest.raises(DamagedError, match=r"0003\.json is missing") as caught:
        load_view(store, "backup")
    assert "--commit 2" in str(caught.value.hint)
    assert load_view(store, "backup", commit=2).commit == 2
    findings = check_log(store, "backup")
    assert [(f.key, f.fatal) for f in findings] == [(log_key("backup", 3), True)]
    with pytest.raises(DamagedError):
        open_log("w2")


def test_without_its_first_commit_no_hint_says_restore_commit_minus_one(
    store, open_log, make_entry
) -> None:
    fill(open_log(), make_entry, 3)
    store.delete(log_key("backup", 0))
    with pytest.raises(DamagedError, match=r"0000\.json is missing") as caught:
        load_view(store, "backup")
    assert "--commit" not in str(caught.value.hint)
    assert "no earlier state can be restored" in str(caught.value.hint)


def test_a_changed_commit_breaks_the_chain_at_the_next(store, open_log, make_entry) -> None:
    fill(open_log(), make_entry, 4)
    key = log_key("backup", 2)
    replace_object(store, key, forged(store.get(key), b'"records":9', b'"records":8'))
    with pytest.raises(DamagedError, match=r"0003\.json is damaged: .*does not continue commit 2"):
        load_view(store, "backup")
    assert [f.key for f in check_log(store, "backup")] == [log_key("backup", 3)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"key":"topics/', b'"key":"../topics/'),
        (b'"key":"topics/', b'"key":"_kafkeep/'),
        (b'"topic":"orders"', b'"topic":"../../x"'),
        (b'"start":1', b'"start":"1"'),
        (b'"partition":0', b'"partition":-1'),
        (b'"sha256":', b'"sha":'),
        (b'"version":1', b'"version":"1"'),
        (b'"version":1', b'"version":0'),
        (b'"number":1', b'"number":2'),
        (b'"log":"backup"', b'"log":"other"'),
        (b'"epoch":', b"epoch:"),
        (b'"orders":{"0":10}', b'"orders":{"0":18446744073709551615}'),
        (b'"orders":{"0":10}', b'"orders":{"0":9223372036854775808}'),
        (b'"orders":{"0":10}', b'"orders":{"0":-1}'),
        (b'"records":9', b'"records":10'),
        (b'"records":9', b'"records":-1'),
        (b'"size_bytes":100', b'"size_bytes":-100'),
        (b'"raw_bytes":300', b'"raw_bytes":9223372036854775808'),
        (b'"max_timestamp":17', b'"max_timestamp":9917'),
        (b"[[1,0,0,-1,5]]", b"[[1,0,9223372036854775808,-1,5]]"),
        (b'"at_ms":17000000', b'"at_ms":9917000000'),
    ],
)
def test_a_commit_is_read_with_suspicion(store, open_log, make_entry, old, new) -> None:
    log = open_log()
    fill(log, make_entry, 1)
    key = log_key("backup", 1)
    assert old in store.get(key)
    replace_object(store, key, forged(store.get(key), old, new))
    with pytest.raises(DamagedError, match=r"00001\.json"):
        load_view(store, "backup")
    assert [f.fatal for f in check_log(store, "backup")] == [True]


def test_a_position_of_2_to_the_64_minus_1_is_refused_by_every_reader_and_by_verify(
    store, open_log, make_entry
) -> None:
    fill(open_log(), make_entry, 3)
    key = log_key("backup", 3)
    old, new = b'"orders":{"0":30}', b'"orders":{"0":18446744073709551615}'
    replace_object(store, key, forged(store.get(key), old, new))
    with pytest.raises(DamagedError, match="18446744073709551615 is not an offset"):
        load_view(store, "backup")
    assert [(f.key, f.fatal) for f in check_log(store, "backup")] == [(key, True)]


def test_a_forged_table_with_impossible_counts_is_refused(store, open_log, make_entry) -> None:
    fill(open_log(checkpoint_every=4), make_entry, 7)
    base = load_newest(store, "backup")
    rows = load_table(store, "backup", base.tables[0])
    entries = [{**row, "records": 2**61} for row in rows.entries]
    body = pack({"version": 1, "log": "backup", "first": 0, "last": base.tables[0].last,
                 "entries": entries, "gaps": []})  # fmt: skip
    replace_object(store, base.tables[0].key, body)
    table = dataclasses.replace(base.tables[0], sha256=digest_of(body))
    root = Checkpoint(base.state, (table, *base.tables[1:]))
    replace_object(store, checkpoint_key("backup", 7), encode_root(root))
    with pytest.raises(DamagedError, match="2305843009213693952 records in 9 offsets"):
        load_view(store, "backup").entries()


@pytest.mark.parametrize("fill_with", [b"[]", b"{}", b'{"a":[]}', b"0", b'"x"'])
def test_a_checkpoint_of_a_few_kilobytes_does_not_fill_the_memory(fill_with: bytes) -> None:
    plain = b'{"version":1,"tables":[' + b",".join([fill_with] * 3_000_000) + b"]}"
    body = zstandard.ZstdCompressor(level=3).compress(plain)
    assert len(body) < 4000
    del plain
    tracemalloc.start()
    try:
        with pytest.raises(DamagedError, match="decompress and parse to more than 67108864 bytes"):
            decode_root(body, "checkpoint", log="backup", commit=7)
        assert tracemalloc.get_traced_memory()[1] < 70 << 20
    finally:
        tracemalloc.stop()


def test_a_checkpoint_as_large_as_they_come_is_still_read(store, open_log) -> None:
    log = open_log()
    positions = {PartitionId("orders", 1, n): 5 for n in range(20_000)}
    log.append(Changes(positions=positions, groups={f"g{n}": positions for n in range(20)}))
    assert log.checkpoint()
    assert load_newest(store, "backup").state == log.state
