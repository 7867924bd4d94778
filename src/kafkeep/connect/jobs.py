"""Connectors as jobs of ours: a sink is a backup that follows, a source a restore that follows."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafkeep.config.connector import ConnectorConfig
from kafkeep.config.connector_keys import is_shape_key
from kafkeep.config.families import find_family
from kafkeep.config.places import Places
from kafkeep.config.source import SourceConfig
from kafkeep.connect.job import ConnectorJob, Surroundings
from kafkeep.connect.jobs_sink import OWN_KEYS, SinkJob, kafka_of, sink_options
from kafkeep.connect.jobs_source import SourceJob

logger = logging.getLogger(__name__)


def make_job(name: str, config: Mapping[str, str], surroundings: Surroundings) -> ConnectorJob:
    """Return the job of a connector; see ``MakeJob``. Reads nothing but ``config``."""
    if find_family(config.get("connector.class", "")).kind == "source":
        source = SourceConfig.from_map(config, name=name, strict=False)
        _say(name, source.unknown, source.notes)
        return SourceJob(source, surroundings)
    sink, own = read_sink(name, config, surroundings.defaults)
    _say(name, [key for key in sink.unknown if key not in own], sink.notes)
    return SinkJob(sink_options(sink, own), places_of(sink, surroundings), surroundings)


def read_sink(
    name: str, config: Mapping[str, str], defaults: Mapping[str, str]
) -> tuple[ConnectorConfig, dict[str, str]]:
    """Read a sink's configuration, and the keys of it that only our own class has.

    The worker's ``defaults`` stand in for keys that are not given; those about files are nothing
    to a connector that writes segments.
    """
    bare = ConnectorConfig.from_map(config, name=name, strict=False)
    own = {key: config[key] for key in OWN_KEYS if key in config and bare.family == "kafkeep"}
    added = {key: text for key, text in defaults.items() if key not in config}
    if bare.format == "segment":
        added = {key: text for key, text in added.items() if not is_shape_key(key)}
    if not added:
        return bare, own
    return ConnectorConfig.from_map({**added, **config}, name=name, strict=False), own


def places_of(config: ConnectorConfig, surroundings: Surroundings) -> Places:
    """Return where a sink reads and writes."""
    return Places(
        kafka=kafka_of(surroundings.kafka, config.kafka),
        archive=config.archive,
        storage=config.storage,
    )


def _say(name: str, unknown: list[str] | tuple[str, ...], notes: tuple[str, ...]) -> None:
    if unknown:
        logger.warning("connector %s: keys that mean nothing here: %s", name, ", ".join(unknown))
    for note in notes:
        logger.warning("connector %s: %s", name, note)
