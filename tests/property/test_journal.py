"""Two workers that write one journal, crash and lose answers: both see the same, nothing is lost.

The store may drop a request, lose its answer, or let it land much later, when its number was long
taken, covered by a snapshot and deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kafkeep.archive.object_store import ObjectInfo
from kafkeep.connect.model import RestError, TargetState
from kafkeep.connect.service.journal import Journal
from kafkeep.connect.service.state import ServiceState, StateChange
from kafkeep.errors import KeyExistsError, TransientError, UnknownOutcomeError
from kafkeep.store.memory import MemoryStore

FAULTS = ("ok", "refused", "lost", "late", "crash", "crash-after", "crash-late", "overtaken")
fault_lists = st.one_of(
    st.just([]), st.just([]), st.lists(st.sampled_from(FAULTS), min_size=1, max_size=3)
)
names = st.sampled_from(["a", "b", "c"])
EVERY = 4


class Crash(BaseException):
    """The process is gone, here."""


class FaultyStore:
    """A memory store whose creates fail as told; what is in flight lands when told."""

    def __init__(self) -> None:
        self.inner = MemoryStore()
        self.in_flight: list[tuple[str, bytes]] = []
        self.faults: list[str] = []
        self.overtake: list[Journal] = []

    def put_new(self, key: str, body: bytes, metadata: Mapping[str, str] | None = None) -> None:
        fault = self.faults.pop(0) if self.faults else "ok"
        if fault == "overtaken" and self.overtake:
            # Another worker makes so many changes that this key is covered and deleted again.
            other, self.overtake = self.overtake[0], []
            for number in range(3 * EVERY):
                other.commit(lambda _, n=number: StateChange(kind="target", name=f"x{n}"))
        if fault == "crash":
            raise Crash
        if fault == "refused":
            raise TransientError(key)
        if fault in {"late", "crash-late"}:
            self.in_flight.append((key, body))
            raise Crash if fault == "crash-late" else UnknownOutcomeError(key)
        self.inner.put_new(key, body)
        if fault == "crash-after":
            raise Crash
        if fault == "lost":
            raise UnknownOutcomeError(key)

    def land(self) -> None:
        for key, body in self.in_flight:
            try:
                self.inner.put_new(key, body)
            except KeyExistsError:
                continue
        self.in_flight.clear()

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self.inner.get_range(key, start, end)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        return self.inner.list(prefix, after=after)

    def delete(self, key: str) -> None:
        self.inner.delete(key)

    def describe(self) -> str:
        return "memory"


class Writers(RuleBasedStateMachine):
    """Changes are told apart by a text that no other has."""

    def __init__(self) -> None:
        super().__init__()
        self.store = FaultyStore()
        self.journals = [self._open(), self._open()]
        self.count = 0
        self.told: dict[str, str | None] = {}
        """What each connector says after the last change that was answered for."""
        self.unknown: dict[str, set[str | None]] = {}
        """What it may say instead, since changes whose outcome nobody knows."""

    def _open(self) -> Journal:
        return Journal(self.store, sleep=lambda _: None, snapshot_every=EVERY)  # type: ignore[arg-type]

    def _commit(self, who: int, faults: list[str], name: str, wanted: str | None) -> None:
        def decide(state: ServiceState) -> StateChange:
            if wanted is None:
                return StateChange(kind="delete", name=name)
            return StateChange(kind="define", name=name, config={"text": wanted})

        self.store.faults = list(faults)
        self.store.overtake = [self.journals[1 - who]]
        try:
            self.journals[who].commit(decide)
        except Crash:
            self.journals[who] = self._open()
            self.unknown.setdefault(name, set()).add(wanted)
        except UnknownOutcomeError:
            self.unknown.setdefault(name, set()).add(wanted)
        except RestError:
            pass
        else:
            self.told[name] = wanted
        finally:
            self.store.faults = []

    @rule(who=st.sampled_from([0, 1]), faults=fault_lists, name=names)
    def define(self, who: int, faults: list[str], name: str) -> None:
        self.count += 1
        self._commit(who, faults, name, f"t{self.count}")

    @rule(who=st.sampled_from([0, 1]), faults=fault_lists, name=names)
    def delete(self, who: int, faults: list[str], name: str) -> None:
        self._commit(who, faults, name, None)

    @rule(who=st.sampled_from([0, 1]))
    def reopen(self, who: int) -> None:
        self.journals[who] = self._open()

    @rule()
    def land(self) -> None:
        self.store.land()

    @rule(name=names, who=st.sampled_from([0, 1]))
    def pause(self, name: str, who: int) -> None:
        state = self.journals[who].commit(
            lambda _: StateChange(kind="target", name=name, target=TargetState.PAUSED)
        )
        if name in state.connectors:
            assert state.connectors[name].target is TargetState.PAUSED

    @invariant()
    def both_and_a_newcomer_hold_the_same(self) -> None:
        states = [journal.refresh() for journal in (*self.journals, self._open())]
        assert states[0] == states[1] == states[2]

    @invariant()
    def what_was_answered_for_is_there(self) -> None:
        state = self.journals[0].refresh()
        for name in ("a", "b", "c"):
            found = state.connectors.get(name)
            text = found.config["text"] if found else None
            allowed = {self.told.get(name)} | self.unknown.get(name, set())
            assert text in allowed, f"{name} is {text}, not {allowed}"

    @invariant()
    def few_documents_are_kept(self) -> None:
        assert sum(1 for _ in self.store.inner.list("journal/")) <= 6 * EVERY
        assert sum(1 for _ in self.store.inner.list("snapshots/")) <= 3


Writers.TestCase.settings = settings(max_examples=150, stateful_step_count=30)
test_two_writers_lose_no_change_and_hold_the_same_state = Writers.TestCase
