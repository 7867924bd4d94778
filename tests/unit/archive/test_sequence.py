"""Stray files beside numbered documents, in every folder that has such documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import zstandard
from tests.unit.restore.test_document import DOCUMENT, load_document, save_document

from kafkeep.archive.document import FIELD
from kafkeep.archive.expiry import load_retention, record_retention
from kafkeep.archive.sequence import iter_numbered, number_of
from kafkeep.connect.jobs.pair_state import FOLDER as PAIRS
from kafkeep.connect.jobs.pair_state import Pair, PairDocument
from kafkeep.errors import DamagedError
from kafkeep.objects.unlogged.scan import Index, index_key, load_index, next_number, save_index
from kafkeep.restore.document import FOLDER as RESTORES
from kafkeep.restore.follow.log import FOLDER as FOLLOWED
from kafkeep.restore.follow.log import Followed, load_followed, save_followed, sweep_followed
from kafkeep.restore.groups.rollback import GroupChange, load_history, save_change
from kafkeep.store.memory import MemoryStore

STRAYS = (".DS_Store", "README.txt", "0.json", "zz/000000000001.json", "~", "9")


def with_strays(*folders: str) -> MemoryStore:
    store = MemoryStore()
    for folder in folders:
        for stray in STRAYS:
            store.put_new(f"{folder}{stray}", b"stray")
    return store


def test_only_documents_named_by_a_padded_number_are_numbered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = with_strays("numbered/")
    for name in ("000000000007.json", "1000000000000.json"):
        store.put_new(f"numbered/{name}", b"{}")
    for _ in range(2):
        rows = iter_numbered(store, "numbered/")
        assert sorted(number_of(row.key) for row in rows) == [7, 10**12]
    assert caplog.text.count("numbered/.DS_Store is no document of kafkeep's") == 1


def test_a_number_that_does_not_fit_into_64_bits_is_a_stray_file() -> None:
    store = MemoryStore()
    fitting = {7, 10**18 - 1, 2**63 - 1}
    for number in (*fitting, 2**63, 10**19 - 1, 10**20 - 1, 10**21 - 1):
        store.put_new(f"up/{number:012d}.json", b"{}")
    assert {number_of(row.key) for row in iter_numbered(store, "up/")} == fitting
    store.put_new(f"down/{10**20 - 1:020d}.json", b"{}")
    assert len(list(iter_numbered(store, "down/", digits=20))) == 1


def test_stray_files_stop_no_restore_no_source_and_no_pair() -> None:
    pair, groups, objects = f"{PAIRS}p/", f"{RESTORES}/abc.groups/", f"{RESTORES}/abc-objects/"
    store = with_strays(
        pair, groups, objects, FOLLOWED, f"{RESTORES}/abc/", "_kafkeep/backup/retention/"
    )
    document = PairDocument(store, "p")
    assert document.load() == Pair()
    assert document.put(Pair().joined("one", 1))
    assert document.load().members.keys() == {"one"}

    save_document(store, DOCUMENT)
    assert load_document(store, "abc") == DOCUMENT

    assert next_number(store, "abc") == 0
    save_index(store, "abc", Index(0, ()))
    assert load_index(store, "abc", next_number(store, "abc") - 1) == Index(0, ())

    save_change(store, "abc", GroupChange(0, 1, {}))
    assert [change.revision for change in load_history(store, "abc").changes] == [0]

    followed = Followed(log="backup", revision=0)
    save_followed(store, followed)
    assert load_followed(store) == followed
    sweep_followed(store, followed, before_ms=2**62)

    record_retention(store, "backup", ["orders"], 7, 1000)
    assert load_retention(store, "backup").days("orders") == 7


def flip(body: bytes, at: int) -> bytes:
    return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]


def damaged(change: Callable[[bytes], bytes]) -> Any:
    store = MemoryStore()
    save_index(store, "abc", Index(0, (), (("topics/x", "why"),), 1, {"orders": 3}))
    key = index_key("abc", 0)
    body = change(store.get(key))
    store.delete(key)
    store.put_new(key, body)
    return load_index(store, "abc", 0)


def test_an_index_of_objects_with_any_byte_changed_is_refused() -> None:
    sizes: list[int] = []
    assert damaged(lambda body: sizes.append(len(zstandard.decompress(body))) or body)
    for at in range(sizes[0]):
        with pytest.raises(DamagedError, match=index_key("abc", 0)):
            damaged(lambda body, at=at: zstandard.compress(flip(zstandard.decompress(body), at)))  # type: ignore[misc]


def test_an_index_of_an_older_kafkeep_is_read_and_one_that_unpacks_to_a_flood_is_not() -> None:
    def unsealed(body: bytes) -> bytes:
        plain = zstandard.decompress(body)
        assert plain.startswith(f'{{"{FIELD}":'.encode())
        return zstandard.compress(b"{" + plain.partition(b'",')[2])

    assert damaged(unsealed).partitions == {"orders": 3}
    with pytest.raises(DamagedError, match="out of bounds"):
        damaged(lambda _body: zstandard.compress(bytes(1 << 26)))
