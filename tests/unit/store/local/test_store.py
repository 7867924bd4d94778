from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from kafkeep.errors import EnvironmentFault, KeyExistsError, KeyMissingError, NoSuchArchiveError
from kafkeep.store.local.store import LocalStore
from kafkeep.store.retry import RetryingStore


def test_a_folder_that_is_not_there_is_no_archive(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "nothing")
    with pytest.raises(NoSuchArchiveError, match="nothing"):
        list(store.list("a/"))
    with pytest.raises(KeyMissingError):
        store.get("a")


def test_reading_makes_no_folder(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "nothing")
    with pytest.raises(KeyMissingError):
        store.head("a")
    assert list(tmp_path.iterdir()) == []


def test_an_object_is_a_plain_file_under_its_key(tmp_path: Path) -> None:
    LocalStore(tmp_path).put_new("a/b.json", b"x")
    assert (tmp_path / "a" / "b.json").read_bytes() == b"x"


def test_a_writer_that_died_leaves_nothing_that_a_listing_shows(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    writer = store.create("a/1", {"m": "1"})
    writer.write(b"half")
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(left) == 1
    assert list(LocalStore(tmp_path).list("")) == []
    writer.abort()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_lost_race_leaves_no_file_behind(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    writer = store.create("a", {"by": "late"})
    store.put_new("a", b"", {"by": "first"})
    before = {path.name for path in tmp_path.rglob("*")}
    with pytest.raises(KeyExistsError, match="taken"):
        writer.finish()
    assert len({path.name for path in tmp_path.rglob("*")}) == len(before) - 1


def test_metadata_survives_a_copy_that_keeps_times(tmp_path: Path) -> None:
    LocalStore(tmp_path / "one").put_new("a/1", b"x", {"m": "1"})
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert LocalStore(tmp_path / "two").head("a/1").metadata == {"m": "1"}


def test_a_name_too_long_for_the_disk_is_a_clean_error(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault) as caught:
        LocalStore(tmp_path).put_new("a/" + "n" * 300, b"x")
    assert caught.value.hint
    assert list(LocalStore(tmp_path).list("")) == []


def test_keys_of_folders_come_in_key_order(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    keys = ["a-b/1", "a.b", "a/1", "a/2/3", "ab", "a~2/1"]
    for key in keys:
        store.put_new(key, b"")
    assert [row.key for row in store.list("")] == sorted(keys)
    assert [row.key for row in store.list("", after="a/1")] == ["a/2/3", "ab", "a~2/1"]


def test_a_key_below_an_object_is_a_clean_error(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put_new("a", b"x")
    with pytest.raises(EnvironmentFault, match="a/b"):
        store.put_new("a/b", b"y", {"m": "1"})
    assert [row.key for row in store.list("")] == ["a"]


def test_a_failing_disk_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    store = RetryingStore(LocalStore(tmp_path))
    store.put_new("z", b"")
    with monkeypatch.context() as patch:
        patch.setattr("kafkeep.store.local.store.os.fsync", fail)
        with pytest.raises(EnvironmentFault, match="Input/output"):
            store.put_new("a", b"x")
    assert [row.key for row in store.list("")] == ["z"]
