"""Make the job of a connector: a following backup for a sink, a following restore for a source."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafkeep.connect.connectors.families import find_family
from kafkeep.connect.connectors.source_config import SourceConfig
from kafkeep.connect.jobs.compacted_pair import make_compact_job
from kafkeep.connect.jobs.job import ConnectorJob, JobContext
from kafkeep.connect.jobs.retention import ConnectorRetention
from kafkeep.connect.jobs.sink import SinkJob, locations_of, read_sink, sink_options
from kafkeep.connect.jobs.source import SourceJob

logger = logging.getLogger(__name__)


def make_job(name: str, config: Mapping[str, str], context: JobContext) -> ConnectorJob:
    """Return the job of a connector; see ``MakeJob``. Reads only ``config``."""
    if find_family(config.get("connector.class", "")).kind == "source":
        source = SourceConfig.from_map(config, name=name, strict=False)
        _log_notes(name, source.unknown, source.notes)
        return SourceJob(source, context)
    sink = read_sink(name, config, context)
    _log_notes(name, sink.unknown, sink.notes)
    if sink.compact is not None:
        return make_compact_job(name, config, context)
    locations = locations_of(sink, context)
    retention = ConnectorRetention(sink, locations)
    return SinkJob(sink_options(sink), locations, context, retention=retention)


def _log_notes(name: str, unknown: tuple[str, ...], notes: tuple[str, ...]) -> None:
    if unknown:
        logger.warning("connector %s: unknown keys are ignored: %s", name, ", ".join(unknown))
    for note in notes:
        logger.warning("connector %s: %s", name, note)
