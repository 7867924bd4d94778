from __future__ import annotations

from dataclasses import asdict, replace

import orjson
import pytest

from kafkeep.errors import DamagedError, NewerFormatError, PreflightError
from kafkeep.restore.document import (
    Phase,
    RestoreDocument,
    Target,
    TargetPartition,
    documents_of,
    load_document,
    save_document,
)
from kafkeep.store.memory import MemoryStore

KEY = documents_of(MemoryStore(), "abc").key(0)
TARGET = Target("a", 1, "b", False, {"retention.ms": "5"}, "id", (TargetPartition(0, 7, 0),) * 2)
DOCUMENT = RestoreDocument(
    id="abc",
    revision=0,
    phase=Phase.PREPARING,
    log="backup",
    commit=3,
    cluster_id="c",
    at_ms=9,
    targets=(TARGET,),
)


def test_a_document_comes_back_as_it_was() -> None:
    store = MemoryStore()
    save_document(store, DOCUMENT)
    assert load_document(store, "abc") == DOCUMENT
    assert DOCUMENT.target("b") == TARGET and DOCUMENT.target("a") is None


def test_a_restore_never_begun_has_none() -> None:
    assert load_document(MemoryStore(), "abc") is None


def test_the_newest_revision_counts() -> None:
    store = MemoryStore()
    document = DOCUMENT
    for phase in (Phase.PREPARING, Phase.WRITING, Phase.DONE):
        save_document(store, document)
        document = document.next(phase, at_ms=10, targets=(TARGET,))
    newest = load_document(store, "abc")
    assert newest is not None and (newest.revision, newest.phase) == (2, Phase.WRITING)


def test_two_runs_cannot_write_the_same_revision() -> None:
    store = MemoryStore()
    save_document(store, DOCUMENT)
    with pytest.raises(PreflightError, match="another run of this restore"):
        save_document(store, replace(DOCUMENT, at_ms=10))


def test_a_newer_version_is_refused_by_name() -> None:
    store = MemoryStore()
    store.put_new(KEY, orjson.dumps({"version": 3}))
    with pytest.raises(NewerFormatError, match="has version 3, this kafkeep supports 2"):
        load_document(store, "abc")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"version": 1}', b'{"version": "x"}'])
def test_damage_is_named(body: bytes) -> None:
    store = MemoryStore()
    store.put_new(KEY, body)
    with pytest.raises(DamagedError, match="not a restore's document"):
        load_document(store, "abc")


def test_a_document_with_any_bit_flipped_is_refused() -> None:
    sound = MemoryStore()
    save_document(sound, DOCUMENT)
    key = KEY
    body = sound.get(key)
    for at in range(len(body)):
        for bit in range(8):
            store = MemoryStore()
            store.put_new(key, body[:at] + bytes([body[at] ^ 1 << bit]) + body[at + 1 :])
            with pytest.raises(DamagedError, match=key):
                load_document(store, "abc")


def test_a_document_of_version_1_which_had_no_checksum_is_read() -> None:
    store = MemoryStore()
    document = {"version": 1, **asdict(DOCUMENT)}
    store.put_new(KEY, orjson.dumps(document, option=orjson.OPT_SORT_KEYS))
    assert load_document(store, "abc") == DOCUMENT
