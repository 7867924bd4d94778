"""The service's state with damaged documents and stray files: nothing changes in silence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from kafkeep.archive.document import dump_document, dump_with_checksum
from kafkeep.connect.model import TargetState
from kafkeep.connect.serve import run_service
from kafkeep.connect.service.forward import shared_token
from kafkeep.connect.service.journal import MAX_BYTES, Journal, open_state
from kafkeep.connect.service.lease import Lease, load_heartbeat
from kafkeep.connect.service.state import StateChange
from kafkeep.connect.worker.options import WorkerOptions
from kafkeep.errors import DamagedError, NewerFormatError
from kafkeep.store.memory import MemoryStore

FIRST = "journal/000000000000.json"
TIMEOUT_S = 10.0


class WrongAnswers(MemoryStore):
    """Its next answers for a key are other bytes than it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: dict[str, list[bytes]] = {}

    def get_range(self, key: str, start: int, end: int) -> bytes:
        wrong = self.wrong.get(key)
        return wrong.pop(0) if wrong else super().get_range(key, start, end)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def lie(store: MemoryStore, key: str, body: bytes) -> None:
    store.delete(key)
    store.put_new(key, body)


def flipped(body: bytes, at: int, bit: int = 0) -> bytes:
    return body[:at] + bytes([body[at] ^ 1 << bit]) + body[at + 1 :]


def with_each_bit_flipped(body: bytes) -> Iterator[bytes]:
    for at in range(len(body)):
        for bit in range(8):
            yield flipped(body, at, bit)


def define(journal: Journal, *names: str) -> None:
    for name in names:
        journal.commit(
            lambda _, n=name: StateChange(kind="define", name=n, config={"topics": "orders"})
        )  # type: ignore[misc]


def filled() -> WrongAnswers:
    store = WrongAnswers()
    define(Journal(store), "one")
    return store


def lease(store: MemoryStore, name: str, clock: Clock) -> Lease:
    return Lease(store, worker_id=name, url=f"http://{name}", timeout_s=TIMEOUT_S, clock=clock)


def beat_key(store: MemoryStore) -> str:
    return max(row.key for row in store.list("lease/"))


def test_flipped_bits_in_the_state_journal_change_no_connector_in_silence() -> None:
    body = filled().get(FIRST)
    for at in range(len(body)):
        store = filled()
        lie(store, FIRST, flipped(body, at))
        journal = Journal(store)
        with pytest.raises(DamagedError, match=FIRST) as caught:
            journal.refresh()
        assert caught.value.hint
        assert not journal.state.connectors


def beating() -> MemoryStore:
    store = MemoryStore()
    lease(store, "a", Clock()).step()
    return store


def snapshotted() -> MemoryStore:
    store = MemoryStore()
    define(Journal(store, snapshot_every=1), "one")
    store.delete(FIRST)
    return store


def refresh(store: MemoryStore) -> object:
    return Journal(store).refresh()


DOCUMENTS: dict[str, tuple[Callable[[], MemoryStore], Callable[[MemoryStore], object]]] = {
    "lease/000000000000.json": (beating, lambda store: load_heartbeat(store, 0)),
    "snapshots/000000000000.json": (snapshotted, refresh),
    FIRST: (filled, refresh),
}


@pytest.mark.parametrize("key", DOCUMENTS)
def test_a_document_with_any_bit_flipped_is_damaged_and_never_of_a_newer_kafkeep(key: str) -> None:
    make, read = DOCUMENTS[key]
    store = make()
    read(store)
    for body in with_each_bit_flipped(store.get(key)):
        lie(store, key, body)
        with pytest.raises(DamagedError, match=key) as caught:
            read(store)
        assert caught.type is DamagedError, body


def test_a_document_of_a_newer_kafkeep_is_distinguished_from_a_damaged_one() -> None:
    store = MemoryStore()
    for body in (dump_with_checksum({"version": 9}), dump_document({"version": 9})):
        lie(store, FIRST, body)
        with pytest.raises(NewerFormatError, match=FIRST):
            Journal(store).refresh()


def test_a_heartbeat_whose_version_has_a_flipped_bit_stops_no_takeover() -> None:
    store, clock = MemoryStore(), Clock()
    lease(store, "a", clock).step()
    second = lease(store, "b", clock)
    key = beat_key(store)
    lie(store, key, store.get(key).replace(b'"version":1', b'"version":9'))
    second.step()
    clock.now += TIMEOUT_S + 0.1
    second.step()
    assert second.holds()


def test_a_newest_snapshot_whose_version_has_a_flipped_bit_is_made_up_for() -> None:
    store = MemoryStore()
    define(Journal(store, snapshot_every=2), "c0", "c1", "c2", "c3")
    key = "snapshots/000000000003.json"
    wanted = Journal.open(store).state
    lie(store, key, store.get(key).replace(b'"version":1', b'"version":9'))
    assert Journal.open(store).state == wanted


def test_a_stray_heartbeat_with_a_number_past_64_bits_stops_no_worker() -> None:
    store, clock = MemoryStore(), Clock()
    for digits in (19, 20):
        store.put_new(f"lease/{'9' * digits}.json", b"stray")
    worker = lease(store, "a", clock)
    for _ in range(3):
        worker.step()
        assert worker.holds()
    clock.now += TIMEOUT_S + 0.1
    store.put_new(f"lease/{'9' * 18}.json", b"stray")  # it fits: it is a damaged heartbeat
    second = lease(store, "b", clock)
    second.step()
    clock.now += TIMEOUT_S + 0.1
    second.step()
    assert second.holds()


def test_a_change_that_came_damaged_once_is_read_again() -> None:
    body = filled().get(FIRST)
    for at in range(len(body)):
        store = filled()
        store.wrong[FIRST] = [flipped(body, at)]
        assert Journal(store).refresh().connectors["one"].config == {"topics": "orders"}


def test_a_state_of_an_older_kafkeep_without_checksums_still_opens() -> None:
    store = MemoryStore()
    change = {
        "version": 1,
        "number": 1,
        "id": "b",
        "kind": "target",
        "name": "one",
        "target": "PAUSED",
    }
    one = {"config": {"topics": "a"}, "target": "RUNNING", "generation": 0, "topics": []}
    snapshot = {"version": 1, "number": 0, "recent": ["a"], "connectors": {"one": one}}
    store.put_new("snapshots/000000000000.json", orjson.dumps(snapshot))
    store.put_new("journal/000000000001.json", orjson.dumps(change))
    store.put_new("secret/workers.json", orjson.dumps({"version": 1, "token": "t"}))
    journal = Journal.open(store)
    assert journal.state.connectors["one"].target is TargetState.PAUSED
    define(journal, "two")
    assert set(Journal(store).refresh().connectors) == {"one", "two"}
    assert shared_token(store) == "t"


def test_serve_exits_with_13_and_names_the_damaged_document(tmp_path: Path) -> None:
    keys = {
        "bootstrap.servers": "localhost:1",
        "kafkeep.state": str(tmp_path),
        "rest.port": "0",
        "group.id": "g",
    }
    worker = WorkerOptions.load(None, {}, keys)
    define(Journal(open_state(worker.state_address)), "one")
    path = next(tmp_path.rglob(FIRST))
    path.write_bytes(path.read_bytes().replace(b"orders", b"0rders"))
    with pytest.raises(DamagedError, match=FIRST) as caught:
        run_service(worker)
    assert caught.value.exit_code == 13
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("Bring the document back")


def test_a_damaged_snapshot_is_made_up_for_by_the_one_before_it_and_the_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for count, damaged in ((3, [1]), (5, [3]), (6, [3, 5])):
        store = MemoryStore()
        define(Journal(store, snapshot_every=2), *(f"c{number}" for number in range(count)))
        wanted = Journal(store).refresh()
        for number in damaged:
            key = f"snapshots/{number:012d}.json"
            lie(store, key, flipped(store.get(key), 200))
            caplog.clear()
        if damaged == [3, 5]:
            with pytest.raises(DamagedError, match=r"snapshots/0+5\.json"):
                Journal(store).refresh()
            continue
        assert Journal(store).refresh() == wanted
        assert f"snapshots/{damaged[-1]:012d}.json" in caplog.text


def test_a_damaged_change_is_not_needed_once_a_snapshot_covers_it() -> None:
    store = MemoryStore()
    define(Journal(store, snapshot_every=2), "c0", "c1", "c2")
    lie(store, FIRST, b"damaged")
    assert set(Journal(store).refresh().connectors) == {"c0", "c1", "c2"}
    lie(store, "journal/000000000002.json", b"damaged")
    with pytest.raises(DamagedError, match=r"journal/0+2\.json"):
        Journal(store).refresh()


def test_a_change_under_the_number_of_another_is_refused() -> None:
    store = MemoryStore()
    define(Journal(store), "one", "two")
    lie(store, FIRST, store.get("journal/000000000001.json"))
    with pytest.raises(DamagedError, match=FIRST):
        Journal(store).refresh()


def test_stray_files_in_the_state_are_ignored_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore("strays")
    strays = ["README.txt", "000000000000.json~", "7.json", "sub/000000000099.json", "x.json"]
    for folder in ("journal", "snapshots", "lease"):
        for stray in strays:
            store.put_new(f"{folder}/{stray}", b"stray")
    journal = Journal(store, snapshot_every=2)
    define(journal, *(f"c{number}" for number in range(7)))
    assert Journal(store).refresh() == journal.state
    worker, clock = lease(store, "a", Clock()), Clock()
    worker.step()
    assert worker.holds()
    lease(store, "b", clock).step()
    for folder in ("snapshots", "lease"):
        for stray in strays:
            assert caplog.text.count(f"{folder}/{stray} is not a document of kafkeep") == 1
            assert store.get(f"{folder}/{stray}") == b"stray"


def test_a_damaged_heartbeat_is_waited_out_and_then_the_next_worker_takes_over() -> None:
    for damage in (lambda body: flipped(body, 100), lambda body: b"", lambda body: body[:-9]):
        store, clock = MemoryStore(), Clock()
        first, second = lease(store, "a", clock), lease(store, "b", clock)
        first.step()
        lie(store, beat_key(store), damage(store.get(beat_key(store))))
        second.step()
        clock.now += TIMEOUT_S - 0.1
        second.step()
        assert not second.holds()  # the holder may be alive
        clock.now += 0.2
        second.step()
        assert second.holds()
        taken = second.leader()
        assert taken is not None
        assert (taken.number, taken.epoch) == (1, 2)
        first.step()
        assert not first.holds()


def test_a_leader_whose_heartbeat_was_damaged_continues_and_is_not_overtaken() -> None:
    store, clock = MemoryStore(), Clock()
    first, second = lease(store, "a", clock), lease(store, "b", clock)
    for round_number in range(12):
        first.step()
        second.step()
        if round_number % 3 == 0:
            lie(store, beat_key(store), b"damaged")
            second.step()
        clock.now += first.interval_s
    assert (first.holds(), second.holds()) == (True, False)
    leader = second.leader()
    assert leader is not None
    assert leader.worker_id == "a"


def test_a_heartbeat_read_damaged_once_still_names_the_leader() -> None:
    store, clock = WrongAnswers(), Clock()
    first, second = lease(store, "a", clock), lease(store, "b", clock)
    first.step()
    store.wrong[beat_key(store)] = [b"damaged"]
    second.step()
    leader = second.leader()
    assert leader is not None
    assert leader.worker_id == "a"


def test_a_damaged_secret_of_the_workers_is_refused_with_what_to_do() -> None:
    store = MemoryStore()
    store.put_new("secret/workers.json.bak", b"stray")
    token = shared_token(store)
    assert shared_token(store) == token
    body = store.get("secret/workers.json")
    lie(store, "secret/workers.json", flipped(body, body.index(token.encode())))
    with pytest.raises(DamagedError, match=r"secret/workers\.json") as caught:
        shared_token(store)
    assert caught.value.hint is not None
    assert "delete this document" in caught.value.hint


def test_no_more_is_read_of_a_document_than_one_may_have() -> None:
    class Endless(MemoryStore):
        most = 0

        def get(self, key: str) -> bytes:
            raise AssertionError(f"all of {key} is read")

        def get_range(self, key: str, start: int, end: int) -> bytes:
            self.most = max(self.most, end - start)
            return bytes(end - start)

    store = Endless()
    store.put_new(FIRST, b"")
    with pytest.raises(DamagedError, match=FIRST):
        Journal(store).refresh()
    assert store.most == MAX_BYTES + 1
