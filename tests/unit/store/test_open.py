"""Addresses that cannot be archives: one sentence says why. Stores that cannot be trusted."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from kafkeep.errors import EnvironmentFault, NoSuchArchiveError, UsageError
from kafkeep.store.local.store import LocalStore
from kafkeep.store.memory import MemoryStore
from kafkeep.store.open import open_store, probe_conditional_create


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("/dev/full/x", "/dev/full is not a folder"),
        ("/dev/full/x/y", "/dev/full is not a folder"),
        ("/dev/full", "/dev/full is not a folder"),
        ("/proc/x", "/proc takes no new folders"),
        ("/proc/x/y", "/proc takes no new folders"),
    ],
)
def test_dev_full_and_proc_as_archives_are_refused_in_one_clear_sentence(
    address: str, why: str
) -> None:
    with pytest.raises(UsageError) as caught:
        open_store(address, create=True)
    assert caught.value.message == f"cannot make folder {address}: {why}"
    assert "Name a folder" in (caught.value.hint or "")
    with pytest.raises(EnvironmentFault) as failed:
        LocalStore(address).put_new("a/b", b"x")
    assert failed.value.message == f"cannot make folder {address}: {why}"
    with pytest.raises(NoSuchArchiveError, match=f"there is no folder {address}"):
        list(LocalStore(address).list(""))


def test_an_archive_that_is_a_link_to_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    with pytest.raises(UsageError, match="gone is not a folder"):
        open_store(str(tmp_path / "gone"), create=True)


@pytest.mark.parametrize(
    ("address", "module", "extra"),
    [
        ("gs://bucket/p", "google.cloud.storage", "kafkeep[gcs]"),
        ("az://container/p", "azure.storage.blob", "kafkeep[azure]"),
    ],
)
def test_a_client_that_is_not_installed_is_named_with_its_extra(
    address: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(("kafkeep.store.", module))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(EnvironmentFault, match="is not installed") as caught:
        open_store(address)
    assert f"pip install '{extra}'" in (caught.value.hint or "")


class CheckingStore(MemoryStore):
    """Looks whether a name is taken, and creates the object a moment later."""

    def put_new(
        self,
        key: str,
        body: bytes,
        metadata: Mapping[str, str] | None = None,
        *,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        if key in self._objects:
            super().put_new(key, body, metadata, tags=tags)  # refuses it
        time.sleep(0.002)
        self._objects.pop(key, None)
        super().put_new(key, body, metadata, tags=tags)


class CountingStore(MemoryStore):
    """Counts who asks for each name at the same time."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.asked: dict[str, int] = {}

    def put_new(
        self,
        key: str,
        body: bytes,
        metadata: Mapping[str, str] | None = None,
        *,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        self.asked[key] = self.asked.get(key, 0) + 1
        super().put_new(key, body, metadata, tags=tags)


def test_a_store_that_looks_first_and_creates_later_is_found_out() -> None:
    assert not probe_conditional_create(CheckingStore("checking"))


def test_conditional_creates_are_raced_by_two_at_a_time_on_many_names() -> None:
    store = CountingStore("counting")
    assert probe_conditional_create(store)
    assert list(store.asked.values()) == [2] * 12, "a third one would wait a second in SeaweedFS"
    assert not list(store.list(""))
