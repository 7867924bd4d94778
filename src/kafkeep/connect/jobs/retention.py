"""``s3.retention.days`` of a connector: the rule is set, changed or removed when it starts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kafkeep.archive.head import load_head
from kafkeep.archive.store import ObjectStore
from kafkeep.care.retention import FOLDER, apply_retention
from kafkeep.clock import now_ms
from kafkeep.config.connector import ConnectorConfig
from kafkeep.config.places import Places
from kafkeep.config.sink import SinkOptions


def retention_of(config: ConnectorConfig, places: Places) -> Callable[[ObjectStore], None]:
    """Return what a start does about retention.

    Without the key a rule that was set before is removed, and nothing is asked of S3 otherwise.
    """
    folder = FOLDER
    if config.format != "segment":
        folder = SinkOptions.parse({**config.shape, **config.secrets}).naming.topics_dir
    return partial(_apply, config, places, folder)


def _apply(config: ConnectorConfig, places: Places, folder: str, store: ObjectStore) -> None:
    topics = config.topics or sorted({t for t, _ in load_head(store, config.name).state.topics})
    apply_retention(
        places.archive,
        places.storage,
        config.name,
        topics,
        config.retention_days,
        folder=folder,
        now_ms=now_ms(),
    )
