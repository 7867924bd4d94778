"""What every store promises: a new one is done when this file is green for it."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from tests.support.waiting import PATIENCE_S

from kafkeep.archive.object_store import ObjectStore, ObjectWriter
from kafkeep.errors import EnvironmentFault, KeyExistsError, KeyMissingError, TransientError
from kafkeep.store.azure.store import AzureStore
from kafkeep.store.bucket_writer import UploadsInParts
from kafkeep.store.google.store import GoogleStore
from kafkeep.store.local.store import LocalStore
from kafkeep.store.memory import MemoryStore
from kafkeep.store.open import probe_conditional_create
from kafkeep.store.retry import RetryingStore
from kafkeep.store.s3.store import S3Store

ODD_KEYS = [
    "a=1/b+0+0000000000.log.zst",
    "a=1/orders~2/x",
    "a=1/two words",
    "a=1/grüße-日本-😀",
    "a=1/100%41",
    "a=1/q?x&y#z;w",
    "a=1/" + "n" * 200 + ".json",
]


def bare(store: ObjectStore) -> ObjectStore:
    return store.inner if isinstance(store, RetryingStore) else store


def keys(store: ObjectStore, prefix: str, after: str = "") -> list[str]:
    return [row.key for row in store.list(prefix, after=after)]


def test_put_new_keeps_the_bytes(store: ObjectStore) -> None:
    for name, body in {"empty": b"", "small": b"abc", "large": os.urandom(3_000_000)}.items():
        store.put_new(f"a/{name}", body)
        assert store.get(f"a/{name}") == body
        assert store.head(f"a/{name}").size_bytes == len(body)


def test_put_new_refuses_a_taken_key(store: ObjectStore) -> None:
    store.put_new("a/1", b"first")
    for body in (b"second", b"first"):
        with pytest.raises(KeyExistsError):
            store.put_new("a/1", body)
    assert store.get("a/1") == b"first"


def test_racing_creates_have_exactly_one_winner(store: ObjectStore) -> None:
    start = threading.Barrier(8)

    def race(number: int) -> bool:
        start.wait()
        try:
            store.put_new("a/raced", f"{number}".encode(), {"racer": f"{number}"})
        except KeyExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(race, range(8)))
    assert won.count(True) == 1
    winner = str(won.index(True))
    assert store.get("a/raced") == winner.encode()
    assert store.head("a/raced").metadata == {"racer": winner}


def test_probe_finds_that_creates_are_conditional(bare_store: ObjectStore) -> None:
    assert probe_conditional_create(bare_store, rounds=1)
    assert keys(bare_store, "") == []


@pytest.mark.parametrize("megabytes", [0, 1, 70])
def test_finish_makes_the_object_visible_whole(store: ObjectStore, megabytes: int) -> None:
    piece = os.urandom(1_000_000)
    writer = store.create("a/streamed", {"from": "create"})
    for _ in range(megabytes):
        writer.write(memoryview(piece))
    with pytest.raises(KeyMissingError):
        store.head("a/streamed")
    assert keys(store, "") == []
    writer.finish({"at": "finish"})
    writer.abort()
    info = store.head("a/streamed")
    assert info.size_bytes == megabytes * len(piece)
    # What is sent in parts has the metadata that it began with.
    in_parts = megabytes > 32 and isinstance(bare(store), GoogleStore | AzureStore)
    assert info.metadata == {"from": "create"} | ({} if in_parts else {"at": "finish"})
    assert store.get("a/streamed") == piece * megabytes
    assert keys(store, "") == ["a/streamed"]


def test_finish_refuses_a_taken_key_and_leaves_nothing(store: ObjectStore) -> None:
    writer = store.create("a/1")
    writer.write(b"late")
    store.put_new("a/1", b"first", {"by": "first"})
    with pytest.raises(KeyExistsError):
        writer.finish()
    writer.abort()
    assert store.get("a/1") == b"first"
    assert store.head("a/1").metadata == {"by": "first"}
    assert keys(store, "") == ["a/1"]


def test_abort_leaves_nothing_and_may_come_at_any_time(store: ObjectStore) -> None:
    store.put_new("z", b"")
    writer = store.create("a/1")
    writer.abort()
    writer = store.create("a/1")
    writer.write(b"x" * 100)
    writer.abort()
    writer.abort()
    assert keys(store, "") == ["z"]
    store.put_new("a/1", b"free")


def test_metadata_comes_back_as_it_was_given(store: ObjectStore) -> None:
    metadata = {"writer": "backup", "name": "grüße 100% +1", "spaces": "  a  b ", "empty": ""}
    store.put_new("a/1", b"x", metadata)
    assert store.head("a/1").metadata == metadata


def test_metadata_names_that_headers_would_change_are_refused(store: ObjectStore) -> None:
    with pytest.raises(ValueError, match="not a metadata name"):
        store.put_new("a/1", b"x", {"Upper_Case": "x"})


def test_reads_of_a_missing_key_say_so(store: ObjectStore) -> None:
    store.put_new("a/1", b"x")
    for key in ("a/2", "a", "a/1/2", "b/c"):
        with pytest.raises(KeyMissingError):
            store.get(key)
        with pytest.raises(KeyMissingError):
            store.get_range(key, 0, 1)
        with pytest.raises(KeyMissingError):
            store.head(key)


def test_get_range_is_half_open_and_ends_with_the_object(store: ObjectStore) -> None:
    store.put_new("a/1", b"0123456789")
    assert store.get_range("a/1", 0, 10) == b"0123456789"
    assert store.get_range("a/1", 3, 5) == b"34"
    assert store.get_range("a/1", 8, 20) == b"89"
    assert store.get_range("a/1", 10, 20) == b""
    assert store.get_range("a/1", 4, 4) == b""


def test_head_reports_the_time_of_creation(store: ObjectStore) -> None:
    began = time.time() * 1000
    store.put_new("a/1", b"x")
    (row,) = store.list("a/")
    for told in (store.head("a/1"), row):
        assert began - 60_000 < told.modified_ms < time.time() * 1000 + 60_000


def test_list_is_in_key_order_within_a_folder(store: ObjectStore) -> None:
    names = ["b", "a", "é", "Z", "a.b", "a-b", "a~", "0", "😀"]
    for name in names:
        store.put_new(f"f/{name}", name.encode())
    assert keys(store, "f/") == sorted((f"f/{name}" for name in names), key=str.encode)
    assert [row.size_bytes for row in store.list("f/a")] == [1, 3, 3, 2]


def test_list_takes_a_prefix_that_ends_anywhere(store: ObjectStore) -> None:
    for key in ("a/1", "a/12", "a/2", "ab/1", "b/1", "a/1x/y"):
        store.put_new(key, b"")
    assert set(keys(store, "a/1")) == {"a/1", "a/12", "a/1x/y"}
    assert set(keys(store, "a")) == {"a/1", "a/12", "a/1x/y", "a/2", "ab/1"}
    assert set(keys(store, "")) == {"a/1", "a/12", "a/1x/y", "a/2", "ab/1", "b/1"}
    assert keys(store, "nothing/here") == []


def test_list_continues_after_a_key(store: ObjectStore) -> None:
    for number in range(5):
        store.put_new(f"log/{number:04}", b"")
    assert keys(store, "log/", after="log/0002") == ["log/0003", "log/0004"]
    assert keys(store, "log/", after="log/0002x") == ["log/0003", "log/0004"]
    assert keys(store, "log/", after="log/0009") == []
    assert keys(store, "log/", after="a") == keys(store, "log/")


def test_list_pages_through_more_than_a_thousand_keys(bare_store: ObjectStore) -> None:
    wanted = [f"many/{number:05}" for number in range(1100)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: bare_store.put_new(key, b""), wanted))
    assert keys(bare_store, "many/") == wanted
    assert keys(bare_store, "many/", after=wanted[1050]) == wanted[1051:]
    assert next(iter(bare_store.list("many/"))).key == wanted[0]


def test_odd_keys_stay_as_they_are(store: ObjectStore) -> None:
    for key in ODD_KEYS:
        store.put_new(key, key.encode())
    for key in ODD_KEYS:
        assert store.get(key) == key.encode()
        assert store.head(key).key == key
    assert sorted(keys(store, "a=1/")) == sorted(ODD_KEYS)


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "a/./b", "../a", "a/..", "k" * 1025])
def test_keys_that_some_stores_would_change_are_refused(store: ObjectStore, key: str) -> None:
    with pytest.raises(ValueError, match="object key"):
        store.put_new(key, b"x")
    with pytest.raises(ValueError, match="object key"):
        store.create(key)


def test_delete_removes_and_may_be_repeated(store: ObjectStore) -> None:
    store.put_new("a/1", b"x", {"m": "1"})
    store.delete("a/1")
    store.delete("a/1")
    store.delete("b/nothing")
    with pytest.raises(KeyMissingError):
        store.get("a/1")
    store.put_new("a/1", b"again")
    assert store.head("a/1").metadata == {}


def test_a_pickled_store_reaches_the_same_objects(store: ObjectStore) -> None:
    store.put_new("a/1", b"before")
    again: ObjectStore = pickle.loads(pickle.dumps(store))
    assert again.get("a/1") == b"before"
    again.put_new("a/2", b"after")
    assert store.get("a/2") == b"after"


def _child(store: ObjectStore) -> None:
    ok = store.get("a/1") == b"parent"
    store.put_new("a/2", b"child")
    os._exit(0 if ok else 1)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_used_store_works_after_a_fork(store: ObjectStore) -> None:
    inner = bare(store)
    store.put_new("a/1", b"parent")
    child = multiprocessing.get_context("fork").Process(target=_child, args=(store,))
    child.start()
    child.join(PATIENCE_S)
    assert child.exitcode == 0
    if not isinstance(inner, MemoryStore):
        assert store.get("a/2") == b"child"


def test_describe_is_an_address(store: ObjectStore) -> None:
    assert store.describe().startswith(("memory:", "/", "s3://", "gs://", "az://"))
    assert "secret" not in store.describe()


def test_folders_names_what_lies_one_level_down(store: ObjectStore) -> None:
    for key in ("logs/a/1", "logs/a-b/1", "logs/a.b/2/3", "logs/file", "other/x/1"):
        store.put_new(key, b"x")
    assert store.folders("logs/") == ["a", "a-b", "a.b"]
    assert store.folders("nothing/") == []


def test_tags_come_with_the_object(store: ObjectStore) -> None:
    tags = {"startOffset": "0", "endOffset": "9", "recordCount": "10", "team": "shop + co"}
    store.put_new("a/1", b"x", {"by": "test"}, tags=tags)
    writer = store.create("a/2", {"by": "test"})
    writer.write(b"y")
    writer.finish({"at": "finish"}, tags=tags)
    for key in ("a/1", "a/2"):
        assert store.tags(key) == tags
        assert store.head(key).metadata["by"] == "test"
    store.put_new("a/3", b"x")
    assert store.tags("a/3") == {}


def test_tags_are_replaced_and_leave_the_object_alone(store: ObjectStore) -> None:
    store.put_new("a/1", b"x", {"by": "test"}, tags={"old": "1", "both": "1"})
    before = store.head("a/1")
    store.set_tags("a/1", {"both": "2"})
    assert store.tags("a/1") == {"both": "2"}
    assert store.head("a/1").metadata == before.metadata
    assert store.get("a/1") == b"x"
    assert keys(store, "") == ["a/1"]


def test_tags_of_a_refused_object_do_not_reach_the_one_that_is_there(store: ObjectStore) -> None:
    store.put_new("a/1", b"first", tags={"by": "first"})
    with pytest.raises(KeyExistsError):
        store.put_new("a/1", b"second", tags={"by": "second"})
    writer = store.create("a/1")
    writer.write(b"third")
    with pytest.raises(KeyExistsError):
        writer.finish(tags={"by": "third"})
    assert store.tags("a/1") == {"by": "first"}
    store.delete("a/1")
    store.put_new("a/1", b"again")
    assert store.tags("a/1") == {}


def test_tags_of_a_missing_key_say_so(store: ObjectStore) -> None:
    store.put_new("a/1", b"x")
    with pytest.raises(KeyMissingError):
        store.tags("a/2")
    with pytest.raises(KeyMissingError):
        store.set_tags("a/2", {"a": "b"})


@pytest.mark.parametrize(
    "tags",
    [{str(n): "x" for n in range(11)}, {"": "x"}, {"n" * 129: "x"}, {"n": "v" * 257}, {"n": "#"}],
)
def test_tags_that_s3_would_refuse_are_refused(store: ObjectStore, tags: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="tag"):
        store.put_new("a/1", b"x", tags=tags)


def begin_upload(store: ObjectStore, key: str) -> ObjectWriter:
    """Begin an object that is there in part: of S3 one that goes up in parts."""
    inner = bare(store)
    in_parts = isinstance(inner, UploadsInParts)
    writer = inner.create_in_parts(key) if in_parts else store.create(key)
    writer.write(b"x" * 1000)
    return writer


LISTS_NO_UPLOADS = {
    "minio": "MinIO lists the uploads of one exact key alone, and ends old ones after a day",
    "gcs": "Google lists no uploads, and discards them after a week",
    "azure": "Azure discards blocks after a week, and nobody can before",
}


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    """What the store runs on."""
    return str(request.node.callspec.params["bare_store"])


def test_unfinished_uploads_are_listed_until_they_are_aborted(
    store: ObjectStore, kind: str
) -> None:
    assert store.uploads() == []
    store.put_new("a/1", b"done")
    before = store.now_ms()
    writer = begin_upload(store, "a/2")
    if kind in LISTS_NO_UPLOADS:
        assert store.uploads() == []
        assert keys(store, "") == ["a/1"]
        writer.abort()
        return
    [upload] = store.uploads()
    inner = bare(store)
    assert upload.key == ("" if isinstance(inner, LocalStore) else "a/2")  # files have no name yet
    assert before - 1000 <= upload.touched_ms <= store.now_ms() + 1000  # S3 tells seconds
    assert keys(store, "") == ["a/1"]
    store.end_upload(upload)
    store.end_upload(upload)
    assert store.uploads() == []
    writer.abort()
    assert keys(store, "") == ["a/1"]


def test_what_was_finished_or_aborted_is_no_upload(store: ObjectStore) -> None:
    begin_upload(store, "a/1").finish()
    begin_upload(store, "a/2").abort()
    assert store.uploads() == []
    assert keys(store, "") == ["a/1"]


def test_writers_of_one_key_in_parts_do_not_mix_their_bytes(bare_store: ObjectStore) -> None:
    """Azure keeps the blocks of all writers of a key together."""
    if not isinstance(bare_store, UploadsInParts):
        pytest.skip("no parts")
    first, second = (bare_store.create_in_parts("a/1") for _ in range(2))
    for writer, letter in ((first, b"1"), (second, b"2")):
        writer.write(letter * 5_000_000)
    if not isinstance(bare_store, S3Store):
        second.write(b"2" * 20_000_000)
    first.finish()
    with pytest.raises((KeyExistsError, TransientError)):
        second.finish()
    second.abort()
    assert bare_store.get("a/1") == b"1" * 5_000_000


def test_an_upload_that_was_ended_makes_no_object(bare_store: ObjectStore, kind: str) -> None:
    if isinstance(bare_store, S3Store):
        bare_store._options = replace(bare_store._options, retry_deadline_ms=200)
    writer = begin_upload(bare_store, "a/1")
    if kind in LISTS_NO_UPLOADS:
        pytest.skip(LISTS_NO_UPLOADS[kind])
    [upload] = bare_store.uploads()
    bare_store.end_upload(upload)
    with pytest.raises((EnvironmentFault, TransientError)):
        writer.finish()
    writer.abort()
    assert keys(bare_store, "") == []


def test_the_clock_is_the_one_that_stamps_objects(store: ObjectStore) -> None:
    before = store.now_ms()
    store.put_new("a/1", b"x")
    after = store.now_ms()
    assert before - 1000 <= store.head("a/1").modified_ms <= after + 1000  # S3 tells seconds
