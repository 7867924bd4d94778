"""Numbered documents: a folder whose documents are created once each, under the next number.

Commits, retention rules, journals, leases and the documents of restores are stored this way. A
conditional create decides which writer gets a number, and no document is ever replaced. A writer
that finds a number taken reads the document: its own bytes mean that an answer was lost, other
bytes that another writer was first.

A stray file beside the documents (an editor's backup, a desktop's index file) is ignored with one
warning, so that it cannot stop a reader.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TypeVar

from kafkeep.archive.document import has_valid_checksum, read_intact
from kafkeep.archive.keys import LAST_NUMBER
from kafkeep.archive.object_store import ObjectInfo, ObjectStore
from kafkeep.errors import (
    DamagedError,
    KafkeepError,
    KeyExistsError,
    KeyMissingError,
    NewerFormatError,
    TransientError,
)
from kafkeep.failpoint import failpoint
from kafkeep.retry import RetryPolicy

_NAME = re.compile(r"([0-9]{1,20})(?:-([0-9]{1,20}))?")
_WIDE_DIGITS = 20
_NARROW_END = 2**63
"""Numbers have fewer digits than this, so that the number of the next document fits too."""
_REMEMBERED_WARNINGS = 1000
_ONCE = RetryPolicy(first_wait_s=0.0, attempts=1)
logger = logging.getLogger(__name__)
T = TypeVar("T")


class SequenceNaming(Enum):
    """How names contain numbers. A listing is in the order of names."""

    OLDEST_FIRST = "7.json"
    NEWEST_FIRST = "99999999999999999992.json"
    """10^20-1-number, so that the first row of a listing is the newest document."""
    NEWEST_FIRST_WITH_NUMBER = "99999999999999999992-7.json"


class CreateOutcome(Enum):
    """The outcome of a conditional create."""

    CREATED = "created"
    SAME = "taken by the same bytes"
    """An earlier attempt of this writer succeeded, and its answer was lost."""
    OTHER = "taken by other bytes"
    UNKNOWN = "unknown"
    """The store gave no answer: the document may be there, now or later."""


@dataclass(frozen=True, slots=True)
class CreateResult:
    """The outcome of ``DocumentSequence.create``."""

    outcome: CreateOutcome
    holder: bytes = b""
    """The bytes stored under the number; empty when another writer's document was deleted."""
    failure: KafkeepError | None = None
    """Why the outcome is unknown."""

    @property
    def is_ours(self) -> bool:
        """True if the number holds the bytes that were sent."""
        return self.outcome in (CreateOutcome.CREATED, CreateOutcome.SAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSequence:
    """The numbered documents of one folder."""

    store: ObjectStore
    folder: str
    """Ends with a slash."""
    naming: SequenceNaming = SequenceNaming.OLDEST_FIRST
    digits: int = 12
    """Numbers are padded to this many digits; 20 unless the oldest comes first."""
    suffix: str = ".json"
    max_bytes: int | None = None
    """The maximum size of a document; no more than this is read."""
    is_intact: Callable[[bytes], bool] = has_valid_checksum
    is_pruned: bool = False
    """True if old documents are deleted, so that a taken number may become free again."""

    def key(self, number: int) -> str:
        return f"{self.folder}{self._stem(number)}{self.suffix}"

    def number(self, key: str) -> int | None:
        """Return the number of a document; None for the key of something else."""
        name = key.removeprefix(self.folder)
        match = _NAME.fullmatch(name.removesuffix(self.suffix))
        if not name.endswith(self.suffix) or match is None:
            return None
        number = int(match[1])
        if self.naming is not SequenceNaming.OLDEST_FIRST:
            number = LAST_NUMBER - number
        elif self.digits < _WIDE_DIGITS and number >= _NARROW_END:
            return None
        return number if name == f"{self._stem(number)}{self.suffix}" else None

    def iter_documents(self, *, after: int = -1) -> Iterator[tuple[int, ObjectInfo]]:
        """Yield the numbers and listing rows of the documents, in the order of their names.

        Lazy, like ``list``. ``after`` skips documents up to that number; only for folders with the
        oldest document first.
        """
        begin = self.key(after) if after >= 0 else ""
        for info in self.store.list(self.folder, after=begin):
            number = self.number(info.key)
            if number is None:
                _warn_once(self.store.describe(), info.key)
            else:
                yield number, info

    def iter_numbers(self, *, after: int = -1) -> Iterator[int]:
        """Yield the numbers of the documents, as ``iter_documents`` does."""
        return (number for number, _ in self.iter_documents(after=after))

    def newest(self) -> int:
        """Return the highest number; -1 when there is no document."""
        if self.naming is SequenceNaming.OLDEST_FIRST:
            return max(self.iter_numbers(), default=-1)
        return next(self.iter_numbers(), -1)

    def read(self, number: int) -> bytes:
        """Return the bytes of a document; read it again if they are damaged.

        Bytes that are damaged in the store are returned unchanged; the caller must refuse them.
        KeyMissingError when there is none; DamagedError when it is too large.
        """
        return read_intact(self.store, self.key(number), self.is_intact, max_bytes=self.max_bytes)

    def load_newest_intact(self, numbers: Iterable[int], load: Callable[[int], T]) -> T | None:
        """Return the newest of these documents that ``load`` can read; None when there is none.

        DamagedError of the newest one when all are damaged. Errors of other kinds pass through.
        """
        damage: DamagedError | None = None
        for number in sorted(numbers, reverse=True):
            try:
                return load(number)
            except NewerFormatError:
                raise
            except DamagedError as error:
                logger.warning("%s: %s", self.store.describe(), error.message)
                damage = damage or error
        if damage is not None:
            raise damage
        return None

    def try_create(self, number: int, body: bytes) -> bool:
        """Create a document; return False when the number is taken, by this writer or another."""
        try:
            self.store.put_new(self.key(number), body)
        except KeyExistsError:
            return False
        return True

    def create(
        self,
        number: int,
        body: bytes,
        retry: RetryPolicy | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        place: str = "",
    ) -> CreateResult:
        """Create a document and return which writer holds its number.

        With a ``retry`` policy, the same bytes are sent until the store answers or the policy
        ends. Without one, a TransientError of the store is raised. ``place`` names the failpoints
        around the create.
        """
        retries = (retry or _ONCE).begin()
        while True:
            failure = self._attempt(number, body, place)
            if isinstance(failure, CreateResult):
                return failure
            wait_s = retries.next_wait_s()
            if wait_s is None and retry is None:
                raise failure
            if wait_s is None:
                return CreateResult(CreateOutcome.UNKNOWN, failure=failure)
            sleep(wait_s)

    def _attempt(self, number: int, body: bytes, place: str) -> CreateResult | KafkeepError:
        try:
            if place:
                failpoint(f"{place}.before")
            self.store.put_new(self.key(number), body)
            if place:
                failpoint(f"{place}.after")
        except TransientError as error:
            return error
        except KeyExistsError:
            try:
                holder = self.read(number)
            except TransientError as error:
                return error
            except KeyMissingError as error:
                # Taken and then missing: another document was pruned, or its create failed.
                return CreateResult(CreateOutcome.OTHER) if self.is_pruned else error
            return CreateResult(
                CreateOutcome.SAME if holder == body else CreateOutcome.OTHER, holder
            )
        return CreateResult(CreateOutcome.CREATED, body)

    def delete(self, number: int) -> None:
        """Delete a document; no error when there is none."""
        self.store.delete(self.key(number))

    def prune(self, below: int, *, modified_before_ms: int | None = None) -> None:
        """Delete the documents below a number; with a time, only those stored before it."""
        for number, info in list(self.iter_documents()):
            is_old = modified_before_ms is None or info.modified_ms < modified_before_ms
            if number < below and is_old:
                self.store.delete(info.key)

    def _stem(self, number: int) -> str:
        if self.naming is SequenceNaming.OLDEST_FIRST:
            return f"{number:0{self.digits}d}"
        stem = f"{LAST_NUMBER - number:0{_WIDE_DIGITS}d}"
        return stem if self.naming is SequenceNaming.NEWEST_FIRST else f"{stem}-{number}"


@lru_cache(maxsize=_REMEMBERED_WARNINGS)
def _warn_once(where: str, key: str) -> None:
    logger.warning("%s: %s is not a document of kafkeep and is ignored", where, key)
