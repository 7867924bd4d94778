"""Commits, roots and keys come back as they went in, whatever they hold."""

from __future__ import annotations

import pickle
import string
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kafkeep.archive.checkpoint import Checkpoint, decode_root, encode_root
from kafkeep.archive.codec import decode_commit, encode_commit
from kafkeep.archive.commit import (
    Changes,
    Commit,
    Gap,
    Intent,
    LogSpan,
    PlannedRange,
    Retirement,
    TopicInfo,
)
from kafkeep.archive.entry import Entry, IndexPoint, OffsetRange, PartitionId
from kafkeep.archive.keys import data_key, padded_again
from kafkeep.archive.names import check_key, parse_folder
from kafkeep.archive.offset_runs import NO_RUNS, OffsetRuns
from kafkeep.archive.packed_entries import PackedEntries
from kafkeep.archive.schemas import (
    RegisteredSchema,
    RegistrySubject,
    SchemaReference,
    SchemaSet,
    SchemaVersion,
    load_schemas,
    save_schemas,
    schemas_digest,
)
from kafkeep.archive.state import LogState
from kafkeep.store.memory import MemoryStore

TOPIC_LETTERS = string.ascii_letters + string.digits + "._-"
topics = st.text(TOPIC_LETTERS, min_size=1, max_size=249).filter(lambda t: t not in {".", ".."})
offsets = st.integers(0, 2**63 - 1)
times = st.integers(-(2**63), 2**63 - 1)
dates = st.integers(0, 253_402_300_799_999)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
partition_ids = st.builds(PartitionId, topics, st.integers(1, 12), st.integers(0, 10**6))
ranges = st.tuples(offsets, offsets).map(lambda pair: OffsetRange(*sorted(pair)))
small_json = st.dictionaries(texts, st.one_of(st.none(), st.booleans(), offsets, texts), max_size=3)


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    pid, offsets_ = draw(partition_ids), draw(ranges)
    size = offsets_.end - offsets_.start
    records = draw(st.integers(0, size))
    whole = draw(st.none() | st.tuples(st.integers(offsets_.end, 2**63 - 1), st.just(size)))
    return Entry(
        key=data_key(pid, offsets_.start, ".log.zst"), partition_id=pid, topic_id=draw(texts),
        range=offsets_, records=records, min_timestamp=draw(times), max_timestamp=draw(times),
        size_bytes=draw(offsets), raw_bytes=draw(offsets), format="segment", codec="zstd",
        sha256=draw(texts),
        index=tuple(draw(st.lists(st.builds(IndexPoint, offsets, offsets, offsets, times, times),
                                  max_size=2))),
        aborted=tuple(draw(st.lists(ranges, max_size=2))), generation=draw(offsets),
        whole_end=whole[0] if whole else 0, whole_records=whole[1] if whole else 0,
    )  # fmt: skip


def tuples_of(strategy: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(strategy, max_size=2).map(tuple)


planned = st.builds(
    PlannedRange, partition_id=partition_ids, topic_id=texts, range=ranges, generation=offsets
)
intents = st.builds(Intent, ranges=tuples_of(planned), options=small_json, at_ms=times)
positions = st.dictionaries(partition_ids, offsets, max_size=3)
spans = st.dictionaries(partition_ids, st.builds(LogSpan, offsets, offsets), max_size=2)
groups = st.dictionaries(texts, positions, max_size=2)
topic_infos = st.builds(
    TopicInfo, topic=topics, incarnation=st.integers(1, 9), topic_id=texts, partitions=offsets,
    replication_factor=offsets, configs=st.dictionaries(texts, texts, max_size=2),
    deleted=st.booleans(),
)  # fmt: skip
digests = st.just("") | st.text("0123456789abcdef", min_size=64, max_size=64)
changes = st.builds(
    Changes, entries=tuples_of(entries()), positions=positions,
    gaps=tuples_of(st.builds(Gap, partition_ids, ranges, texts, times, offsets)),
    retired=positions, topics=tuples_of(topic_infos), spans=spans, groups=groups, schemas=digests,
    intent=st.none() | intents, closes_intent=st.booleans(), note=texts,
)  # fmt: skip
commits = st.builds(
    Commit, log=st.just("backup"), number=offsets, previous=texts, epoch=offsets, writer=texts,
    at_ms=dates, changes=changes,
)  # fmt: skip
steps = st.lists(st.builds(Retirement, offsets, offsets), min_size=1, max_size=2).map(tuple)
retirements = st.dictionaries(partition_ids, steps, min_size=1, max_size=2)
generations = st.dictionaries(st.tuples(topics, st.integers(1, 9)), offsets, max_size=2)
states = st.builds(
    LogState, name=st.just("backup"), commit=offsets, digest=texts, epoch=offsets, writer=texts,
    at_ms=dates, positions=positions, spans=spans, groups=groups, intent=st.none() | intents,
    topics=st.lists(topic_infos, max_size=2).map(
        lambda infos: {(t.topic, t.incarnation): t for t in infos}
    ),
    retired=retirements, generations=generations, schemas=digests,
)  # fmt: skip
subject_versions = st.builds(SchemaVersion, st.integers(1, 99), st.integers(0, 4), st.booleans())
registered = st.builds(
    RegisteredSchema, st.sampled_from(["AVRO", "JSON", "PROTOBUF", "XML"]), texts,
    tuples_of(st.builds(SchemaReference, texts, texts, st.integers(1, 9))),
    st.sampled_from(["", '{"metadata":{"tags":{}},"ruleSet":{"domainRules":[]}}']),
)  # fmt: skip
schema_sets = st.builds(
    SchemaSet,
    st.dictionaries(
        texts,
        st.builds(RegistrySubject, tuples_of(subject_versions), st.none() | texts),
        max_size=3,
    ),
    st.fixed_dictionaries(dict.fromkeys(range(5), registered)),
    st.none() | texts,
)


@given(commit=commits)
def test_a_commit_comes_back_as_it_went_in_and_its_bytes_are_the_same(commit: Commit) -> None:
    body = encode_commit(commit)
    back = decode_commit(body, "key", log="backup", number=commit.number)
    assert back == commit
    assert encode_commit(back) == body


@given(state=states)
def test_a_checkpoint_comes_back_as_it_went_in(state: LogState) -> None:
    body = encode_root(Checkpoint(state))
    assert decode_root(body, "key", log="backup", commit=state.commit) == Checkpoint(state)


@given(found=schema_sets, other=schema_sets)
def test_schemas_come_back_as_they_went_in_under_a_name_of_their_own(
    found: SchemaSet, other: SchemaSet
) -> None:
    store = MemoryStore()
    digests = [save_schemas(store, "backup", one) for one in (found, other, found)]
    assert [load_schemas(store, "backup", digest) for digest in digests] == [found, other, found]
    assert digests[0] == digests[2] == schemas_digest(found)
    assert (digests[0] == digests[1]) == (found == other)
    assert len(list(store.list("_kafkeep/backup/schemas/"))) == len(set(digests))


def read_data_key(key: str) -> tuple[PartitionId, int]:
    _, folder, partition, name = key.split("/")
    topic, incarnation = parse_folder(folder)
    start = name.rpartition("+")[2].partition(".")[0]
    return PartitionId(topic, incarnation, int(partition.removeprefix("partition="))), int(start)


@given(one=st.tuples(partition_ids, offsets), other=st.tuples(partition_ids, offsets))
def test_data_keys_are_safe_and_never_shared(
    one: tuple[PartitionId, int], other: tuple[PartitionId, int]
) -> None:
    keys = [data_key(pid, start, ".log.zst") for pid, start in (one, other)]
    for key, named in zip(keys, (one, other), strict=True):
        assert check_key(key) == key
        assert key.startswith("topics/")
        assert max(map(len, key.split("/"))) <= 255
        assert read_data_key(key) == read_data_key(padded_again(key)) == named
    assert (keys[0] == keys[1]) == (one == other)


PID = PartitionId("orders", 1, 3)
small = st.integers(0, 2**32)
keys = st.sampled_from(
    [
        "topics/orders/partition=3/orders+3+0000000100.log.zst",
        "topics/orders/partition=3/orders+3+00000000100.log.zst",
        "topics/orders/hour=05/orders+3+0000000130.lz4.json",
        "topics/orders/hour=06/orders+3+0000000130.lz4.json",
        "topics/orders/hour=06/orders+3+12345678901234567890.json.gz",
        "x",
        "x/+0.",
        "x/+\u0661\u0662.json",  # digits, but not those of ASCII
    ]
)


@st.composite
def ordinary_entries(draw: st.DrawFn) -> Entry:
    start, size, low, length = draw(small), draw(small), draw(times), draw(st.integers(1, 300))
    high = draw(st.integers(low, 2**63 - 1))
    point = IndexPoint(start, 0, 0, low, high)
    return Entry(
        key=draw(keys), partition_id=PID, topic_id="id", range=OffsetRange(start, start + length),
        records=length, min_timestamp=low, max_timestamp=high, size_bytes=size, raw_bytes=size,
        format=draw(st.sampled_from(["segment", "json"])), codec="", sha256=draw(digests),
        index=draw(st.sampled_from([(), (point,), (point, point)])),
        view=draw(st.sampled_from(["value", "keys"])), parts=draw(st.integers(1, 2)),
        runs=draw(st.sampled_from([NO_RUNS, OffsetRuns.of([(start, start + 1)])])),
    )  # fmt: skip


@given(given=st.lists(ordinary_entries() | entries(), max_size=6))
def test_packed_entries_are_like_a_tuple_of_those_that_were_packed(given: list[Entry]) -> None:
    mine = [replace(entry, partition_id=PID) for entry in given]
    expected = tuple(sorted(mine, key=lambda entry: entry.range))
    for packed in (PackedEntries.of(mine), pickle.loads(pickle.dumps(PackedEntries.of(mine)))):
        assert packed == expected and tuple(packed) == expected
        assert (packed[:2], packed[-1:], packed[::-1]) == (
            expected[:2],
            expected[-1:],
            expected[::-1],
        )
        assert [packed[n] for n in range(len(packed))] == list(expected)
        assert packed.sums == (
            sum(entry.own_records for entry in mine),
            sum(entry.raw_bytes for entry in mine),
            sum(entry.size_bytes for entry in mine),
        )
        assert sorted(packed.iter_sizes()) == sorted((e.key, e.size_bytes) for e in mine)
        assert packed.formats == {entry.format for entry in mine}
        assert packed.oldest_ms == min((entry.min_timestamp for entry in mine), default=None)
