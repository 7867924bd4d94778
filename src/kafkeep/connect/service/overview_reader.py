"""Reads what the overview shows: from the jobs of this worker, and from the archives' logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kafkeep.connect.catalog.archives.archives import ArchiveLog, Archives
from kafkeep.connect.jobs.job import JobContext, Progress, gaps_of
from kafkeep.connect.metrics.totals import ConnectorTotals, Totals
from kafkeep.connect.model import Connector, ConnectorStatus, Json
from kafkeep.connect.plugins.validate import Definitions
from kafkeep.connect.service.archive_growth import log_of
from kafkeep.connect.service.background_facts import BackgroundFacts
from kafkeep.connect.service.overview import LogFacts, ServiceOverview, overview_of

VERIFIED_EVERY_MS = 300_000
LOGS_EVERY_MS = 60_000


class OverviewReader:
    """Puts the overview together; no call waits for a store. Safe to use from any thread."""

    def __init__(
        self,
        *,
        definitions: Definitions,
        context_for: Callable[[Mapping[str, str]], JobContext],
        archives: Archives,
        totals: Totals,
        now_ms: Callable[[], int],
    ) -> None:
        self._definitions = definitions
        self._context_for = context_for
        self._archives = archives
        self._totals = totals
        self._now_ms = now_ms
        self._verified = BackgroundFacts(self._read_verified, now_ms, VERIFIED_EVERY_MS)
        self._logs = BackgroundFacts(self._read_log, now_ms, LOGS_EVERY_MS)

    def verified_ms(self, connectors: Mapping[str, Connector]) -> Mapping[str, int]:
        """Return when the archive of each connector was last verified, as far as that is known."""
        return self._verified.of(connectors)

    def expire_verified(self) -> None:
        """Read when archives were last verified again: one was verified just now."""
        self._verified.expire()

    def read(
        self,
        connectors: Mapping[str, Connector],
        statuses: Sequence[ConnectorStatus],
        progress: Mapping[str, Progress] | None,
        health: Json,
    ) -> ServiceOverview:
        """Return the overview; a worker that runs no connectors has no ``progress``.

        Gaps and the last commit come from the log where no job of this worker has read them.
        """
        readings: dict[str, ConnectorTotals] = {}
        if progress is not None:
            readings = self._totals.read(statuses, progress, self._now_ms())
        unread = {one.name: connectors[one.name] for one in statuses if not _has_read_log(one)}
        logs = self._logs.of(unread)
        return overview_of(statuses, readings, self.verified_ms(connectors), logs, health)

    def _read_verified(self, connector: Connector) -> int | None:
        from kafkeep.connect.jobs.offsets import read_verified  # noqa: PLC0415 - rarely needed

        config = self._definitions.resolve(connector.config)
        return read_verified(connector.name, config, self._context_for(config))

    def _read_log(self, connector: Connector) -> LogFacts | None:
        if self._definitions.describe(connector.config).type == "source":
            return None
        config = self._definitions.resolve(connector.config)
        log = log_of(self._archives, connector.name, config, self._context_for(config))
        return LogFacts() if log is None else LogFacts(_last_commit_ms(log), gaps_of(log.gaps))


def _has_read_log(status: ConnectorStatus) -> bool:
    """Return whether the connector's job has measured gaps, and committed since it started."""
    backlog = status.backlog
    return (
        backlog is not None
        and backlog.measured_ms is not None
        and backlog.last_progress_ms is not None
    )


def _last_commit_ms(log: ArchiveLog) -> int:
    """Return when the log last moved on; a writer that only took it over does not count."""
    for commit in reversed(log.loaded.tail):
        if commit.changes.entries or commit.changes.positions:
            return commit.at_ms
    return log.loaded.state.at_ms
