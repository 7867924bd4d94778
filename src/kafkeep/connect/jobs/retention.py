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
from kafkeep.errors import UsageError

_KEY = "s3.retention.days"


def retention_of(config: ConnectorConfig, places: Places) -> Callable[[ObjectStore], None]:
    """Return what a start does about retention; UsageError where a rule cannot be by topic.

    Without the key a rule that was set before is removed, and nothing is asked of S3 otherwise.
    """
    folder = FOLDER
    if config.format != "segment":
        options = SinkOptions.parse({**config.shape, **config.secrets})
        folder = options.naming.topics_dir
        if config.retention_days is not None:
            _check(config, options)
    return partial(_apply, config, places, folder)


def _check(config: ConnectorConfig, options: SinkOptions) -> None:
    naming = options.naming
    if config.compact is not None:
        raise UsageError(f"{_KEY} is not for a pair: a snapshot that expires is none")
    if naming.directory_delim != "/":
        raise UsageError(f"{_KEY} needs directory.delim /, not {naming.directory_delim!r}")
    if naming.name_template is not None and not naming.name_template.startswith("{{topic}}/"):
        raise UsageError(
            f"{_KEY} is by topic: names like {naming.name_template} do not begin with its folder"
        )


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
