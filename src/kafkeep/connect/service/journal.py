"""The journal: the state of the service as a dense sequence of changes, each created once.

::

    journal/000000000000.json     change 0, decided by the worker that created it
    journal/000000000001.json
    snapshots/000000000099.json   the state after change 99, so that opening is cheap

No document is ever replaced. A worker deletes the changes that the last snapshot but one covers,
and the snapshots before that one. A create may come so late that its number is free again: it was
taken, covered by a snapshot and deleted. Such a document has no effect. Its writer looks for a
snapshot that covers the number after each create, and readers begin from the newest snapshot.

Every document has a checksum. A damaged document stops its reader with DamagedError, unless others
hold its content: a snapshot covers a change, and an older snapshot with the changes after it
replaces the newest one. Documents of an older kafkeep have no checksum and are read as they are.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from kafkeep.archive.document import dump_with_checksum, parse_with_checksum, read_intact, reading
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.sequence import CreateOutcome, DocumentSequence
from kafkeep.connect.model import RestError
from kafkeep.connect.service.state import (
    STATE_VERSION,
    ServiceState,
    StateChange,
    apply,
    parse_state_document,
)
from kafkeep.errors import (
    DamagedError,
    KafkeepError,
    KeyMissingError,
    NewerFormatError,
    PreflightError,
    UnknownOutcomeError,
)
from kafkeep.options.storage import ArchiveAddress, StorageOptions
from kafkeep.retry import JOURNAL
from kafkeep.store.local.store import LocalStore
from kafkeep.store.open import open_store, probe_conditional_create
from kafkeep.store.retry import RetryingStore, store_policy

MAX_BYTES = 64 << 20
"""The largest document of the state. A reader reads no more than this."""
HINT = (
    "Bring the document back from a copy of the service's state, or from an older version of it "
    "in the store, and start the workers again."
)


def dump_state_document(fields: Mapping[str, Any]) -> bytes:
    """Return the bytes of a document: its fields, the version of the state and the checksum."""
    return dump_with_checksum({"version": STATE_VERSION, **fields})


def load_state_document(
    store: ObjectStore, key: str, older_fields: Collection[str], *, hint: str = HINT
) -> dict[str, Any]:
    """Read a document of the state, again when it comes damaged.

    ``older_fields`` are the fields that it had, beside its version, before documents had checksums.
    DamagedError when it is damaged in the store; NewerFormatError; KeyMissingError.
    """
    with _hinted(hint):
        body = read_intact(store, key, max_bytes=MAX_BYTES)
        return parse_with_checksum(body, key, ("version", *older_fields), parse_state_document)


def state_sequence(store: ObjectStore, folder: str) -> DocumentSequence:
    """Return numbered documents of the state; old ones are deleted."""
    return DocumentSequence(store=store, folder=folder, max_bytes=MAX_BYTES, is_pruned=True)


def load_numbered(
    documents: DocumentSequence, number: int, older_fields: Collection[str]
) -> dict[str, Any]:
    """Read a numbered document of the state as ``load_state_document`` does."""
    key = documents.key(number)
    with _hinted(HINT):
        body = documents.read(number)
        document = parse_with_checksum(body, key, ("version", *older_fields), parse_state_document)
        found = document.get("number")
        if found != number:
            raise DamagedError(f"{key} is damaged: it is the document of number {found!r:.20}")
        return document


@contextmanager
def _hinted(hint: str) -> Iterator[None]:
    try:
        yield
    except NewerFormatError:
        raise
    except DamagedError as error:
        raise DamagedError(error.message, hint=hint) from error


SNAPSHOT_EVERY = 100
APPLY_ATTEMPTS = 16
_OLDER_CHANGE = ("number", "id", "kind", "name", "config", "target", "topics")
_OLDER_SNAPSHOT = ("number", "recent", "connectors")
logger = logging.getLogger(__name__)

Decide = Callable[[ServiceState], StateChange | None]
"""Takes the newest state and returns the change to make, None for none, or raises RestError."""


def open_state(address: str, storage: StorageOptions | None = None) -> ObjectStore:
    """Return the store of a service's state; a folder is created, readable by its owner alone."""
    options = storage if storage is not None else StorageOptions.from_env()
    where = ArchiveAddress.parse(address)
    store = open_store(address, options, create=True)
    if where.kind == "file":
        Path(where.path).chmod(0o700)
        store = RetryingStore(PrivateFolder(where.path), store_policy(options))
    return store


class PrivateFolder(LocalStore):
    """A folder whose files only their owner can read."""

    file_mode = 0o600


class Journal:
    """The state as one worker sees it. Safe to use from several threads."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
        sleep: Callable[[float], None] = time.sleep,
        snapshot_every: int = SNAPSHOT_EVERY,
    ) -> None:
        self._store = store
        self._changes = state_sequence(store, "journal/")
        self._snapshots = state_sequence(store, "snapshots/")
        self._new_id = new_id
        self._sleep = sleep
        self._every = snapshot_every
        self._lock = threading.RLock()
        self._state = ServiceState()

    @classmethod
    def open(cls, store: ObjectStore) -> Journal:
        """Read the state; a new store must first prove that it honours conditional creates."""
        journal = cls(store)
        if journal.refresh().number < 0 and not probe_conditional_create(store):
            raise PreflightError(
                f"{store.describe()} lets two writers create the same object",
                hint="The state of the service needs a store that honours If-None-Match on PUT.",
            )
        return journal

    @property
    def state(self) -> ServiceState:
        """The state as last read or written here; makes no request."""
        return self._state

    def refresh(self) -> ServiceState:
        """Read what other workers have changed and return the newest state.

        DamagedError, and the state stays as it was, when a document that is needed is damaged.
        """
        with self._lock:
            while True:
                state, damage = self._read_on(self._state)
                newer = self._snapshots_after(self._state.number)
                if newer:
                    # What was read may be a late create under a number that was free again.
                    loaded, error = self._load_newest(newer)
                    if loaded is not None or error is None:
                        self._state = loaded or self._state
                        continue
                    # Changes are deleted once two snapshots cover them: here all still exist.
                    is_made_up_for = len(newer) == 1 and state.number >= newer[0]
                    damage = damage if is_made_up_for else error
                if damage:
                    raise damage
                self._state = state
                return state

    def _load_newest(
        self, numbers: Sequence[int]
    ) -> tuple[ServiceState | None, DamagedError | None]:
        """Return the newest of these snapshots that is intact, or else the damage.

        Neither when one is gone: then another worker has written a newer one.
        """
        try:
            return self._snapshots.load_newest_intact(numbers, self._load_snapshot), None
        except KeyMissingError:
            return None, None
        except NewerFormatError:
            raise
        except DamagedError as error:
            return None, error

    def commit(self, decide: Decide) -> ServiceState:
        """Commit the change that ``decide`` returns, and return once the store holds it.

        When another change comes first, it is read and ``decide`` is called again. RestError 409
        when others keep coming first; UnknownOutcomeError when the store gives no answer.
        """
        sent: set[str] = set()
        with self._lock:
            for _ in range(APPLY_ATTEMPTS):
                state = self.refresh()
                if not sent.isdisjoint(state.recent):
                    return state  # it was stored after all, and a snapshot covers it already
                wanted = decide(state)
                if wanted is None:
                    return state
                change = replace(wanted, id=self._new_id())
                sent.add(change.id)
                if self._append(state.number + 1, change):
                    self._snapshot_if_due()
                    return self._state
        raise RestError(409, "Cannot complete request: other workers keep changing connectors")

    def _append(self, number: int, change: StateChange) -> bool:
        """Create change ``number``; False when another holds it."""
        body = dump_state_document({"number": number, **change.to_json()})
        if len(body) > MAX_BYTES:
            raise RestError(413, f"The configuration has more than {MAX_BYTES} bytes")
        creation = self._changes.create(number, body, JOURNAL, sleep=self._sleep, place="journal")
        if creation.outcome is CreateOutcome.UNKNOWN:
            raise self._unknown(self._changes.key(number)) from creation.failure
        if not creation.is_ours:
            return False
        if not self._snapshots_after(number - 1):
            self._state = apply(self._state, change)
            return True
        return change.id in self.refresh().recent

    def _unknown(self, key: str) -> UnknownOutcomeError:
        return UnknownOutcomeError(
            f"{key} was sent to {self._store.describe()}, and no answer says whether it was stored",
            hint="Check the connector, and send the request again if the change is missing.",
        )

    def _read_on(self, state: ServiceState) -> tuple[ServiceState, DamagedError | None]:
        """Apply the changes after ``state``, up to the last one or to one that is damaged."""
        while True:
            try:
                state = apply(state, self._load_change(state.number + 1))
            except KeyMissingError:
                return state, None
            except NewerFormatError:
                raise
            except DamagedError as error:
                return state, error

    def _load_change(self, number: int) -> StateChange:
        document = load_numbered(self._changes, number, _OLDER_CHANGE)
        with reading(self._changes.key(number)):
            return StateChange.from_json(document)

    def _snapshots_after(self, number: int = -1) -> list[int]:
        """Return the numbers of the snapshots past a change, in order."""
        return sorted(self._snapshots.iter_numbers(after=number))

    def _load_snapshot(self, number: int) -> ServiceState:
        document = load_numbered(self._snapshots, number, _OLDER_SNAPSHOT)
        with reading(self._snapshots.key(number)):
            return ServiceState.from_json(document)

    def _snapshot_if_due(self) -> None:
        """Write a snapshot when one is due; if that fails, a later change writes it.

        The change itself is made by then, so nothing here is an error of it.
        """
        state = self._state
        if (state.number + 1) % self._every:
            return
        try:
            body = dump_state_document(state.to_json())
            if len(body) > MAX_BYTES:
                raise KafkeepError(f"its snapshot would have more than {MAX_BYTES} bytes")
            # When the number is taken, another worker has stored the same state.
            self._snapshots.try_create(state.number, body)
            self._delete_covered()
        except KafkeepError as error:
            logger.warning("cannot shorten the journal of the service: %s", error.message)

    def _delete_covered(self) -> None:
        """Delete what the last snapshot but one covers: no reader goes back that far."""
        for covered in self._snapshots_after()[:-1][-1:]:
            self._changes.prune(covered + 1)
            self._snapshots.prune(covered)
