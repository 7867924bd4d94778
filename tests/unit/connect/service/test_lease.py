"""Who leads, by beats in a store and clocks that are set by hand."""

from __future__ import annotations

import pytest

from kafkeep.connect.model import ConnectorStatus, RunState, TaskStatus
from kafkeep.connect.service.lease import Lease, load_heartbeat
from kafkeep.errors import NewerFormatError, TransientError
from kafkeep.store.memory import MemoryStore

STATUS = ConnectorStatus(
    name="one",
    type="sink",
    version="1",
    state=RunState.RUNNING,
    worker_id="a:1",
    tasks=(TaskStatus(id=0, state=RunState.FAILED, worker_id="a:1", trace="why"),),
)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Deaf(MemoryStore):
    """A store that takes nothing while it is told so."""

    is_deaf = False

    def put_new(self, key: str, body: bytes, *args: object, **more: object) -> None:
        if self.is_deaf:
            raise TransientError("no answer")
        super().put_new(key, body)


def lease(store: MemoryStore, name: str, clock: Clock) -> Lease:
    return Lease(
        store,
        worker_id=f"{name}:1",
        url=f"http://{name}:1",
        timeout_s=10,
        clock=clock,
        statuses=lambda: [STATUS],
    )


def test_the_first_worker_leads_and_the_second_sees_its_statuses() -> None:
    store, clock = MemoryStore(), Clock()
    first, second = lease(store, "a", clock), lease(store, "b", clock)
    first.step()
    second.step()
    assert first.holds()
    assert not second.holds()
    leader = second.leader()
    assert leader is not None
    assert (leader.url, leader.statuses) == ("http://a:1", (STATUS,))


def test_a_leader_with_regular_heartbeats_stays_leader_and_few_heartbeats_are_kept() -> None:
    store, clock = MemoryStore(), Clock()
    first, second = lease(store, "a", clock), lease(store, "b", clock)
    for _ in range(40):
        first.step()
        second.step()
        clock.now += 2.5
    assert first.holds()
    assert not second.holds()
    assert sum(1 for _ in store.list("lease/")) <= 4


def test_another_takes_over_after_the_timeout_and_never_before_the_leader_has_stopped() -> None:
    store = MemoryStore()
    mine, theirs = Clock(), Clock()
    theirs.now = 7_000.0  # clocks of two machines have nothing in common
    first, second = lease(store, "a", mine), lease(store, "b", theirs)
    first.step()
    second.step()
    for _ in range(99):
        mine.now += 0.1
        theirs.now += 0.1
        second.step()
        assert not second.holds()
    mine.now += 0.2
    theirs.now += 0.2
    assert not first.holds()
    second.step()
    assert second.holds()
    leader = second.leader()
    assert leader is not None
    assert leader.epoch == 2


def test_a_replaced_leader_notices_at_its_next_heartbeat() -> None:
    store, stopped, going = MemoryStore(), Clock(), Clock()
    first, second = lease(store, "a", stopped), lease(store, "b", going)
    first.step()
    second.step()
    going.now += 11
    second.step()
    assert second.holds()
    # Its own clock stood still, as that of a suspended machine may: the store tells it.
    assert first.holds()
    first.step()
    assert not first.holds()
    leader = first.leader()
    first.step()
    leader = first.leader()
    assert leader is not None
    assert leader.worker_id == "b:1"


def test_a_leader_whose_store_does_not_answer_stops_by_its_own_clock() -> None:
    store, clock = Deaf(), Clock()
    first = lease(store, "a", clock)
    first.step()
    store.is_deaf = True
    for _ in range(3):
        clock.now += 3
        first.step()
        assert first.holds()
    clock.now += 1.5
    assert not first.holds()
    assert first.leader() is None


def test_a_lease_that_is_given_up_is_taken_at_once() -> None:
    store, clock = MemoryStore(), Clock()
    first, second = lease(store, "a", clock), lease(store, "b", clock)
    first.step()
    second.step()
    first.release()
    assert not first.holds()
    second.step()
    assert second.holds()


def test_of_two_that_take_it_at_once_one_leads() -> None:
    store, clock = MemoryStore(), Clock()
    old = lease(store, "old", clock)
    old.step()
    first, second = lease(store, "a", clock), lease(store, "b", clock)
    first.step()
    second.step()
    clock.now += 11
    first.step()
    second.step()
    assert [first.holds(), second.holds()] == [True, False]


def test_a_heartbeat_of_a_newer_kafkeep_is_refused_by_name() -> None:
    store = MemoryStore()
    store.put_new("lease/000000000000.json", b'{"version": 2}')
    with pytest.raises(NewerFormatError, match=r"lease/0+\.json: .*version 2"):
        load_heartbeat(store, 0)
