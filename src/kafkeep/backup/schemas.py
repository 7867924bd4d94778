"""Archive the schemas of a registry with every commit that may need them. On the driver."""

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
from kafkeep.registry.schemas import RegistryReader

logger = logging.getLogger(__name__)
QUIET_MS = 10_000
"""Minimum time between two reads of the registry while there are no records to archive."""


@dataclass(slots=True)
class SchemaKeeper:
    """Reads one registry and stores its schemas when they have changed.

    Call it after reading the end offsets. Producers register a schema before they use it, so the
    registry holds the schema of every record up to these offsets.
    """

    reader: RegistryReader
    store: ObjectStore
    log: str
    tolerates_outage: bool = False
    """True to archive records while the registry does not answer, and read it in a later cycle."""
    _read_at: int | None = field(default=None, init=False)

    def check(self) -> None:
        """Raise an error if the registry does not answer or is not a registry; write nothing."""
        with self._tolerating_outage():
            self.reader.check()

    def keep(self, known: str, now_ms: int, *, records: bool) -> str:
        """Return the digest to commit; empty if the log already has it, or if no read is due.

        Reads the registry whenever there are ``records`` to archive, else every ``QUIET_MS``.
        Raises TransientError if it does not answer; nothing is stored then.
        """
        if not records and self._read_at is not None and now_ms - self._read_at < QUIET_MS:
            return ""
        with self._tolerating_outage():
            found: SchemaSet = self.reader.read()
            self._read_at = now_ms
            if schemas_digest(found) != known:
                digest = save_schemas(self.store, self.log, found)
                failpoint("schemas.stored")
                return digest
        return ""

    @contextmanager
    def _tolerating_outage(self) -> Iterator[None]:
        try:
            yield
        except TransientError as error:
            if not self.tolerates_outage:
                raise
            logger.warning("%s; schemas are archived in a later cycle", error.message)


def schema_keeper(options: BackupOptions, store: ObjectStore) -> SchemaKeeper | None:
    """Return the schema keeper, or None if the options name no registry."""
    settings = options.registry()
    if settings is None:
        return None
    reader = RegistryReader(open_registry(settings))
    return SchemaKeeper(reader, store, options.name, tolerates_outage=options.follow)
