"""The schemas of a registry, kept with every commit that may need them. On the driver."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.schemas import SchemaSet, save_schemas, schemas_digest
from kafkeep.errors import TransientError
from kafkeep.failpoint import failpoint
from kafkeep.options.backup import BackupOptions
from kafkeep.registry.client import open_registry
from kafkeep.registry.read import RegistryReader

logger = logging.getLogger(__name__)
QUIET_MS = 10_000
"""Without records to archive, the registry is read no more often than this."""


@dataclass(slots=True)
class SchemaKeeper:
    """Reads one registry, and stores what it holds when that has changed.

    Called after the ends of partitions were seen: producers register a schema before they write
    with it, so the schema of every record up to there is in what is read then.
    """

    reader: RegistryReader
    store: ObjectStore
    log: str
    patient: bool = False
    """A registry that is away must not hold up records: it is read in a later round."""
    _read_at: int | None = field(default=None, init=False)

    def check(self) -> None:
        """Raise what a registry that is away, shut or none at all raises; writes nothing."""
        with self._patience():
            self.reader.check()

    def keep(self, known: str, now_ms: int, *, records: bool) -> str:
        """Return the digest to commit; empty when the log knows it, or nothing is due.

        The registry is read whenever there are ``records`` to archive, else now and then.
        TransientError when it does not answer; nothing was stored then.
        """
        if not records and self._read_at is not None and now_ms - self._read_at < QUIET_MS:
            return ""
        with self._patience():
            found: SchemaSet = self.reader.read()
            self._read_at = now_ms
            if schemas_digest(found) != known:
                digest = save_schemas(self.store, self.log, found)
                failpoint("schemas.stored")
                return digest
        return ""

    @contextmanager
    def _patience(self) -> Iterator[None]:
        try:
            yield
        except TransientError as error:
            if not self.patient:
                raise
            logger.warning("%s; schemas are kept in a later round", error.message)


def schema_keeper(options: BackupOptions, store: ObjectStore) -> SchemaKeeper | None:
    """Return what keeps the schemas, if a registry was given."""
    settings = options.registry()
    if settings is None:
        return None
    reader = RegistryReader(open_registry(settings))
    return SchemaKeeper(reader, store, options.name, patient=options.follow)
