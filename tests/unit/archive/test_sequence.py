"""Numbered documents that are created once, and stray files beside them in every folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import zstandard
from tests.unit.restore.test_document import DOCUMENT, load_document, save_document

from kafkeep.archive.document import FIELD, dump_with_checksum
from kafkeep.archive.expiry import load_retention, record_retention
from kafkeep.archive.sequence import CreateOutcome, DocumentSequence, SequenceNaming
from kafkeep.connect.jobs.pair_state import FOLDER as PAIRS
from kafkeep.connect.jobs.pair_state import Pair, PairDocument
from kafkeep.errors import DamagedError, TransientError, UnknownOutcomeError
from kafkeep.objects.unlogged.scan import ScanIndex, indexes_of, load_index, next_number, save_index
from kafkeep.restore.document import FOLDER as RESTORES
from kafkeep.restore.follow.log import LOG_STATES, LogFollowState
from kafkeep.restore.groups.history import GroupChange, load_history, save_change
from kafkeep.retry import RetryPolicy
from kafkeep.store.memory import MemoryStore

INDEX_KEY = indexes_of(MemoryStore(), "abc").key(0)
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
        documents = DocumentSequence(store=store, folder="numbered/")
        assert sorted(documents.iter_numbers()) == [7, 10**12]
    assert caplog.text.count("numbered/.DS_Store is not a document of kafkeep") == 1


def test_a_number_that_does_not_fit_into_64_bits_is_a_stray_file() -> None:
    store = MemoryStore()
    fitting = {7, 10**18 - 1, 2**63 - 1}
    for number in (*fitting, 2**63, 10**19 - 1, 10**20 - 1, 10**21 - 1):
        store.put_new(f"up/{number:012d}.json", b"{}")
    assert set(DocumentSequence(store=store, folder="up/").iter_numbers()) == fitting
    store.put_new(f"down/{10**20 - 1:020d}.json", b"{}")
    down = DocumentSequence(store=store, folder="down/", naming=SequenceNaming.NEWEST_FIRST)
    assert list(down.iter_numbers()) == [0]


def test_stray_files_stop_no_restore_no_source_and_no_pair() -> None:
    pair, groups, objects = f"{PAIRS}p/", f"{RESTORES}/abc.groups/", f"{RESTORES}/abc-objects/"
    store = with_strays(
        pair, groups, objects, LOG_STATES.folder, f"{RESTORES}/abc/", "_kafkeep/backup/retention/"
    )
    document = PairDocument(store, "p")
    assert document.load() == Pair()
    assert document.put(Pair().joined("one", 1))
    assert document.load().members.keys() == {"one"}

    save_document(store, DOCUMENT)
    assert load_document(store, "abc") == DOCUMENT

    assert next_number(store, "abc") == 0
    save_index(store, "abc", ScanIndex(0, ()))
    assert load_index(store, "abc", next_number(store, "abc") - 1) == ScanIndex(0, ())

    save_change(store, "abc", GroupChange(0, 1, {}))
    assert [change.revision for change in load_history(store, "abc").changes] == [0]

    followed = LogFollowState(log="backup", revision=0)
    LOG_STATES.save(store, followed)
    assert LOG_STATES.load(store) == followed
    LOG_STATES.sweep(store, followed, before_ms=2**62)

    record_retention(store, "backup", ["orders"], 7, 1000)
    assert load_retention(store, "backup").days("orders") == 7


def flip(body: bytes, at: int) -> bytes:
    return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]


def damaged(change: Callable[[bytes], bytes]) -> Any:
    store = MemoryStore()
    save_index(store, "abc", ScanIndex(0, (), (("topics/x", "why"),), 1, {"orders": 3}))
    key = INDEX_KEY
    body = change(store.get(key))
    store.delete(key)
    store.put_new(key, body)
    return load_index(store, "abc", 0)


def test_an_index_of_objects_with_any_byte_changed_is_refused() -> None:
    sizes: list[int] = []
    assert damaged(lambda body: sizes.append(len(zstandard.decompress(body))) or body)
    for at in range(sizes[0]):
        with pytest.raises(DamagedError, match=INDEX_KEY):
            damaged(lambda body, at=at: zstandard.compress(flip(zstandard.decompress(body), at)))  # type: ignore[misc]


def test_an_index_of_an_older_kafkeep_is_read_and_one_that_unpacks_to_a_flood_is_not() -> None:
    def without_checksum(body: bytes) -> bytes:
        plain = zstandard.decompress(body)
        assert plain.startswith(f'{{"{FIELD}":'.encode())
        return zstandard.compress(b"{" + plain.partition(b'",')[2])

    assert damaged(without_checksum).partitions == {"orders": 3}
    with pytest.raises(DamagedError, match="out of bounds"):
        damaged(lambda _body: zstandard.compress(bytes(1 << 26)))


@pytest.mark.parametrize(
    ("naming", "name"),
    [
        (SequenceNaming.OLDEST_FIRST, "000000000007.json"),
        (SequenceNaming.NEWEST_FIRST, "99999999999999999992.json"),
        (SequenceNaming.NEWEST_FIRST_WITH_NUMBER, "99999999999999999992-7.json"),
    ],
)
def test_a_document_is_found_by_its_number_whatever_its_name(
    naming: SequenceNaming, name: str
) -> None:
    documents = DocumentSequence(store=MemoryStore(), folder="n/", naming=naming)
    assert documents.newest() == -1
    for number in (3, 7, 5):
        assert documents.try_create(number, dump_with_checksum({"number": number}))
    assert not documents.try_create(7, b"other")
    assert documents.key(7) == f"n/{name}" and documents.number(f"n/{name}") == 7
    assert documents.newest() == 7 and set(documents.iter_numbers()) == {3, 5, 7}
    documents.prune(7)
    assert list(documents.iter_numbers()) == [7]


class Failing(MemoryStore):
    """Raises the errors it is given, one for each create, with or without having created."""

    def __init__(self, *errors: TransientError, does_create: bool = True) -> None:
        super().__init__()
        self.errors, self.does_create = list(errors), does_create

    def put_new(self, key: str, body: bytes, *args: Any, **named: Any) -> None:
        if self.does_create or not self.errors:
            super().put_new(key, body, *args, **named)
        if self.errors:
            raise self.errors.pop()


QUICK = RetryPolicy(first_wait_s=0.0, attempts=2)


def test_a_create_says_who_holds_the_number() -> None:
    documents = DocumentSequence(store=Failing(UnknownOutcomeError("lost")), folder="n/")
    ours, others = dump_with_checksum({"by": "us"}), dump_with_checksum({"by": "another"})
    assert documents.create(0, ours, QUICK).outcome is CreateOutcome.SAME
    assert documents.create(1, ours, QUICK).outcome is CreateOutcome.CREATED
    taken = documents.create(1, others, QUICK)
    assert (taken.outcome, taken.holder, taken.is_ours) == (CreateOutcome.OTHER, ours, False)


def test_a_create_without_an_answer_is_unknown_or_raised() -> None:
    errors = [TransientError("away") for _ in range(3)]
    documents = DocumentSequence(store=Failing(*errors, does_create=False), folder="n/")
    creation = documents.create(0, b"{}", QUICK)
    assert creation.outcome is CreateOutcome.UNKNOWN and creation.failure is errors[1]
    with pytest.raises(TransientError, match="away"):
        documents.create(0, b"{}")
    assert documents.create(0, b"{}").outcome is CreateOutcome.CREATED


def test_the_newest_intact_document_is_loaded_and_damage_is_named_when_there_is_none() -> None:
    documents = DocumentSequence(store=MemoryStore(), folder="n/")

    def load(number: int) -> int:
        if number > 5:
            raise DamagedError(f"{number} is damaged")
        return number

    assert documents.load_newest_intact([3, 5, 7], load) == 5
    assert documents.load_newest_intact([], load) is None
    with pytest.raises(DamagedError, match="8 is damaged"):
        documents.load_newest_intact([7, 8], load)
