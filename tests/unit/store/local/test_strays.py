"""Folders that hold more than regular files with plain names: nothing else is ever an object."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from kafkeep.archive.object_store import StrayFile
from kafkeep.errors import EnvironmentFault, KeyExistsError, KeyMissingError
from kafkeep.store.local.store import LocalStore

SECRET = b"not of the archive"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(SECRET)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "archive"
    LocalStore(folder).put_new("a/1", b"mine", {"by": "us"})
    return folder


@pytest.fixture
def store(root: Path) -> LocalStore:
    return LocalStore(root)


def keys(store: LocalStore, prefix: str = "") -> list[str]:
    return [info.key for info in store.list(prefix)]


def test_a_file_name_that_is_not_utf8_is_no_object_and_named_escaped(
    store: LocalStore, root: Path
) -> None:
    for name in (b"caf\xe9", b"dir\xff/inside"):
        path = os.path.join(os.fsencode(root), b"a", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(b"x")
    assert keys(store) == ["a/1"]
    assert store.folders("a/") == []
    assert [stray.path for stray in store.strays("")] == ["a/caf\\xe9", "a/dir\\xff"]
    with pytest.raises(KeyMissingError):
        store.get("a/\ud800")


def test_a_link_to_a_file_outside_is_not_read(store: LocalStore, root: Path, outside: Path) -> None:
    (root / "a" / "2").symlink_to(outside / "secret")
    for read in (store.get, store.head, store.tags, lambda key: store.get_range(key, 0, 3)):
        with pytest.raises(KeyMissingError, match="symbolic link"):
            read("a/2")
    assert keys(store) == ["a/1"]
    assert list(store.strays("a/")) == [
        StrayFile("a/2", "is a symbolic link, which kafkeep does not follow")
    ]


def test_a_link_to_a_folder_outside_is_not_entered(
    store: LocalStore, root: Path, outside: Path
) -> None:
    (root / "b").symlink_to(outside)
    assert keys(store) == ["a/1"]
    assert store.folders("") == ["a"]
    for refused in (
        lambda: store.get("b/secret"),
        lambda: store.head("b/deep/secret"),
        lambda: list(store.list("b/")),
        lambda: store.folders("b/"),
        lambda: store.put_new("b/new", b"x"),
        lambda: store.put_new("b/deep/new", b"x"),
    ):
        with pytest.raises(EnvironmentFault, match="b is a symbolic link"):
            refused()
    store.delete("b/secret")
    assert {path.name for path in outside.iterdir()} == {"secret"}


@pytest.mark.parametrize("mounted", [True, False])
def test_a_topic_that_is_a_link_to_another_disk_is_named_and_not_called_missing(
    store: LocalStore, root: Path, outside: Path, mounted: bool
) -> None:
    store.put_new("topics/payments/0/1", b"x")
    (root / "topics" / "orders").symlink_to(outside if mounted else outside / "not-there")
    for refused in (
        lambda: store.get("topics/orders/secret"),
        lambda: store.head("topics/orders/secret"),
        lambda: store.folders("topics/"),
        lambda: list(store.list("topics/")),
        lambda: list(store.list("topics/orders/")),
    ):
        with pytest.raises(EnvironmentFault, match="topics/orders is a symbolic link") as refusal:
            refused()
        assert "mount --bind" in (refusal.value.hint or "")
    assert keys(store, "topics/payments/") == ["topics/payments/0/1"]
    assert [stray.path for stray in store.strays("topics/")] == ["topics/orders"]


def test_an_object_that_is_a_link_and_named_as_its_folder_is_missing(
    store: LocalStore, root: Path, outside: Path
) -> None:
    (root / "a" / "a").symlink_to(outside / "secret")
    with pytest.raises(KeyMissingError, match="symbolic link"):
        store.get("a/a")
    assert store.folders("a/") == []
    assert keys(store, "a/") == ["a/1"]


def test_a_create_follows_no_link_and_says_what_has_the_name(
    store: LocalStore, root: Path, outside: Path
) -> None:
    (root / "a" / "2").symlink_to(outside / "new")
    with pytest.raises(EnvironmentFault, match="a/2 is a symbolic link"):
        store.put_new("a/2", b"x")
    store.delete("a/2")
    assert (root / "a" / "2").is_symlink()
    assert not (outside / "new").exists()


def test_hidden_files_are_written_through_no_link(root: Path, outside: Path) -> None:
    hidden = root / ".kafkeep-local"
    for path in hidden.iterdir():
        path.unlink()
    hidden.rmdir()
    hidden.symlink_to(outside)
    store = LocalStore(root)
    with pytest.raises(EnvironmentFault, match="symbolic link"):
        store.put_new("a/2", b"x")
    assert store.head("a/1").metadata == {}
    assert store.uploads() == []
    assert {path.name for path in outside.iterdir()} == {"secret"}


def test_the_archives_own_folder_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "mounted").symlink_to(root)
    store = LocalStore(tmp_path / "mounted")
    store.put_new("a/2", b"too")
    assert [store.get(key) for key in keys(store)] == [b"mine", b"too"]


@pytest.mark.timeout(20)
def test_a_fifo_does_not_block_and_a_socket_is_no_object(store: LocalStore, root: Path) -> None:
    os.mkfifo(root / "a" / "fifo")
    with socket.socket(socket.AF_UNIX) as bound:
        folder = os.getcwd()
        os.chdir(root / "a")  # a socket's path is short
        try:
            bound.bind("socket")
        finally:
            os.chdir(folder)
    for key in ("a/fifo", "a/socket"):
        for read in (store.get, store.head, lambda key: store.get_range(key, 0, 3)):
            with pytest.raises(KeyMissingError, match="not a regular file"):
                read(key)
        with pytest.raises(EnvironmentFault, match="not a regular file"):
            store.put_new(key, b"x")
    assert keys(store) == ["a/1"]
    assert [stray.path for stray in store.strays("")] == ["a/fifo", "a/socket"]


def test_a_loop_of_directories_ends(store: LocalStore, root: Path) -> None:
    (root / "a" / "again").symlink_to(root)
    (root / "self").symlink_to("self")
    assert keys(store) == ["a/1"]
    assert [stray.path for stray in store.strays("")] == ["a/again", "self"]


def test_no_key_leads_out_of_the_folder(store: LocalStore, outside: Path) -> None:
    for key in ("../outside/secret", "a/../../outside/secret", "a/./1", "a//1", "", "."):
        with pytest.raises(KeyMissingError):
            store.get(key)
        with pytest.raises(KeyMissingError):
            store.head(key)
    assert keys(store, "../outside/") == []
    assert store.folders("../") == []


def test_a_folder_deeper_than_a_key_is_long_ends_the_walk(store: LocalStore, root: Path) -> None:
    inside = os.open(root, os.O_RDONLY)
    for _ in range(600):
        os.mkdir("d", dir_fd=inside)
        below = os.open("d", os.O_RDONLY, dir_fd=inside)
        os.close(inside)
        inside = below
    os.close(inside)
    assert keys(store) == ["a/1"]
    assert len(list(store.strays("d/"))) == 1


def test_a_damaged_metadata_file_counts_as_none(store: LocalStore, root: Path) -> None:
    for path in (root / ".kafkeep-local").glob("metadata-*"):
        for body in (b"{", b"[]", b'{"by": 7}', b"[" * 100_000):
            path.write_bytes(body)
            assert store.head("a/1").metadata == {}
    with pytest.raises(KeyExistsError):
        store.put_new("a/1", b"other")
