"""Where runs are stored: revisions that are created once each, and reports beside them.

::

    runs/20261118-195501-3fa2/000000000004.json      revision 4 of a run; the newest counts
    reports/20261118-195501-3fa2/5d1e….json          a report that a revision names

A worker that lost the lease fails to create its next revision, because the worker that took over
has created it. Earlier revisions are deleted, except one in case the newest is damaged.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kafkeep.archive.document import dump_with_checksum, parse_with_checksum, read_intact, reading
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.sequence import CreateOutcome, DocumentSequence
from kafkeep.connect.model import Json
from kafkeep.connect.runs.run import Run
from kafkeep.errors import (
    DamagedError,
    FencedError,
    KeyExistsError,
    KeyMissingError,
    NewerFormatError,
    UnknownOutcomeError,
)
from kafkeep.retry import JOURNAL

VERSION = 1
MAX_BYTES = 64 << 20
_FOLDER, _REPORTS = "runs/", "reports/"
_KEPT_REVISIONS = 2
_ID = re.compile(r"[0-9a-z-]{1,40}")
logger = logging.getLogger(__name__)


class RunDocuments:
    """The stored runs of a service, for one worker; calls make requests."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @property
    def store(self) -> ObjectStore:
        """The service's state."""
        return self._store

    def load_all(self, known: Mapping[str, Run]) -> dict[str, Run]:
        """Return all runs by id; reads only those that have a newer revision than ``known``.

        A damaged run is left out, with a warning: it must not hide the others.
        """
        newest: dict[str, list[int]] = {}
        for info in self._store.list(_FOLDER):
            id, _, _ = info.key.removeprefix(_FOLDER).partition("/")
            number = self._revisions(id).number(info.key) if _ID.fullmatch(id) else None
            if number is not None:
                newest.setdefault(id, []).append(number)
        found = {}
        for id, numbers in newest.items():
            if id in known and known[id].revision >= max(numbers):
                found[id] = known[id]
                continue
            run = self._load_newest(id, numbers)
            if run is not None:
                found[id] = run
        return found

    def load(self, id: str) -> Run | None:
        """Return the newest revision of a run, None when there is none."""
        if not _ID.fullmatch(id):
            return None
        return self._load_newest(id, list(self._revisions(id).iter_numbers()))

    def save(self, run: Run) -> None:
        """Create a revision; FencedError when another worker has created it."""
        revisions = self._revisions(run.id)
        body = dump_with_checksum({"version": VERSION, **run.to_json()})
        creation = revisions.create(run.revision, body, JOURNAL)
        if creation.outcome is CreateOutcome.UNKNOWN:
            raise UnknownOutcomeError(
                f"{revisions.key(run.revision)} was sent to {self._store.describe()}, and no "
                "answer says whether it was stored",
                hint="Look at the run, and send the request again if it has not changed.",
            ) from creation.failure
        if not creation.is_ours:
            raise FencedError(f"another worker has changed the {run.kind} {run.id}")
        if run.revision >= _KEPT_REVISIONS:
            revisions.delete(run.revision - _KEPT_REVISIONS)

    def delete(self, id: str) -> None:
        """Delete a run and its reports; a crash in between leaves a run that can be deleted."""
        for info in list(self._store.list(f"{_REPORTS}{id}/")):
            self._store.delete(info.key)
        for info in sorted(self._store.list(f"{_FOLDER}{id}/"), key=lambda one: one.key):
            self._store.delete(info.key)  # the oldest first, so that none becomes the newest again

    def save_report(self, id: str, report: Json) -> str:
        """Store a report of a run and return its name."""
        name = uuid.uuid4().hex
        with suppress(KeyExistsError):  # an earlier attempt succeeded, and its answer was lost
            self._store.put_new(
                _report_key(id, name), dump_with_checksum({"version": VERSION, "report": report})
            )
        return name

    def load_report(self, run: Run) -> Json | None:
        """Return a run's report; None when it has none."""
        if not run.report:
            return None
        key = _report_key(run.id, run.report)
        try:
            document = _parse(read_intact(self._store, key, max_bytes=MAX_BYTES), key)
        except KeyMissingError:
            return None
        with reading(key):
            return dict(document["report"])

    def _load_newest(self, id: str, numbers: list[int]) -> Run | None:
        revisions = self._revisions(id)

        def load(number: int) -> Run:
            document = _parse(revisions.read(number), revisions.key(number))
            with reading(revisions.key(number)):
                return Run.from_json(document)

        try:
            return revisions.load_newest_intact(numbers, load)
        except KeyMissingError:
            return None  # it was deleted meanwhile, or has a newer revision that is read next time
        except DamagedError as error:
            logger.warning("a run cannot be read: %s", error.message)
            return None

    def _revisions(self, id: str) -> DocumentSequence:
        return DocumentSequence(
            store=self._store, folder=f"{_FOLDER}{id}/", max_bytes=MAX_BYTES, is_pruned=True
        )


def _report_key(id: str, name: str) -> str:
    return f"{_REPORTS}{id}/{name}.json"


def _parse(body: bytes, key: str) -> dict[str, Any]:
    document = parse_with_checksum(body, key, ())
    if document["version"] > VERSION:
        raise NewerFormatError(
            f"{key}: version {document['version']} needs a newer kafkeep",
            hint="Install the newest kafkeep on every worker of this state.",
        )
    return document
