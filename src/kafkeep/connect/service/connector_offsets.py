"""Reads the offsets of connectors: a sink's from its log, a source's from its own documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkeep.connect.catalog.archives.archives import Archives
from kafkeep.connect.catalog.readings import LARGE, Readings
from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.model import Connector, Json
from kafkeep.connect.plugins.validate import Definitions
from kafkeep.connect.service.archive_growth import log_of


class ConnectorOffsets:
    """Answers on any worker. Safe to use from any thread."""

    def __init__(
        self,
        definitions: Definitions,
        context_for: Callable[[Mapping[str, str]], JobContext],
        archives: Archives,
    ) -> None:
        self._definitions = definitions
        self._context_for = context_for
        self._archives = archives
        self._readings = Readings()

    def all(self, connector: Connector) -> list[Json]:
        """Return ``{"partition": …, "offset": …}`` for each partition that has an offset, now."""
        from kafkeep.connect.jobs import offsets  # noqa: PLC0415 - rarely needed

        config = self._definitions.resolve(connector.config)
        context = self._context_for(config)
        if self._is_source(connector):
            return list(offsets.read_offsets(connector.name, config, context))
        log = log_of(self._archives, connector.name, config, context, max_age_s=0)
        return [] if log is None else offsets.sink_offsets(log.loaded.state)

    def page(
        self, connector: Connector, start: int, count: int, max_age_s: float | None
    ) -> tuple[list[Json], int]:
        """Return some of the offsets, and how many there are."""
        from kafkeep.connect.jobs import offsets  # noqa: PLC0415 - rarely needed

        if self._is_source(connector):
            rows = self._recent(connector, max_age_s)
            return rows[start : start + count], len(rows)
        config = self._definitions.resolve(connector.config)
        context = self._context_for(config)
        log = log_of(self._archives, connector.name, config, context, max_age_s=max_age_s)
        if log is None:
            return [], 0
        shown, known = offsets.sink_offset_page(log.loaded.state, start, count)
        return list(shown), known

    def _recent(self, connector: Connector, max_age_s: float | None) -> list[Json]:
        """Return a source's offsets, those of a moment ago unless ``max_age_s`` is 0.

        To read them takes a connection to its cluster, and the entries of its log.
        """
        if max_age_s == 0:
            self._readings.forget()
        key = connector.name, connector.generation
        return self._readings.get(key, lambda: (self.all(connector), LARGE)).value

    def _is_source(self, connector: Connector) -> bool:
        return self._definitions.describe(connector.config).type == "source"
