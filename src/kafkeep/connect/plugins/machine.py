"""What a configuration needs of this machine and does not find: profiles, proxies, key stores.

A connector would be created, and fail when its job starts. Nothing is asked of S3 or Kafka; files
are read, and a proxy is connected to, for a few seconds at most.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from kafkeep.config.connector import ConnectorConfig
from kafkeep.config.families import CLASSES, matches
from kafkeep.config.kafka import KafkaOptions
from kafkeep.config.source import SourceConfig
from kafkeep.connect.worker.options import WorkerOptions
from kafkeep.errors import EnvironmentFault, UsageError
from kafkeep.kafka.security import client_config
from kafkeep.store.settings import Setting, setting_problems

_KEYS: Mapping[Setting, tuple[str, ...]] = {
    "profile": ("s3.profile.name",),
    "region": ("s3.region", "aws.s3.region", "aws_s3_region", "connect.s3.aws.region"),
    "proxy_url": ("s3.proxy.url",),
}
"""By which keys a setting may be given; the first is blamed when it comes from elsewhere."""
_FILE = re.compile(r".*\.converter\.(.*\.)?ssl\.[a-z]+\.location")


def machine_problems(config: Mapping[str, str], worker: WorkerOptions) -> dict[str, str]:
    """Return what is missing here, by key, for a configuration that is right in itself.

    Of one that is not, nothing is said: its errors come first.
    """
    found = matches(config.get("connector.class", ""))
    is_source = bool(found) and CLASSES[found[0]].kind == "source"
    try:
        read: ConnectorConfig | SourceConfig
        if is_source:
            read = SourceConfig.from_map(config, strict=False)
        else:
            read = ConnectorConfig.from_map(config, strict=False, defaults=worker.defaults)
    except UsageError:
        return {}
    wrong = _file_problems(config)
    if read.archive.startswith("s3://"):
        for setting, why in setting_problems(read.storage).items():
            names = _KEYS[setting]
            wrong[next((name for name in names if name in config), names[0])] = why
    client = worker.producer if is_source else worker.consumer
    prefix = "producer.override." if is_source else "consumer.override."
    wrong |= _client_problem(client, read.kafka, prefix)
    return wrong


def _file_problems(config: Mapping[str, str]) -> dict[str, str]:
    """Look at the files that converters name."""
    named = {key: text.strip() for key, text in config.items() if _FILE.fullmatch(key)}
    return {
        key: f"cannot read {path}"
        for key, path in named.items()
        if path and not (os.path.isfile(path) and os.access(path, os.R_OK))
    }


def _client_problem(
    worker: KafkaOptions, overrides: Mapping[str, str], prefix: str
) -> dict[str, str]:
    """Make the client's settings as a job does: key stores are opened, JAAS texts are read."""
    own = {key: text for key, text in overrides.items() if key != "bootstrap.servers"}
    if not own:
        return {}
    options = KafkaOptions(worker.bootstrap_servers, {**worker.properties, **own})
    try:
        client_config(options)
    except (UsageError, EnvironmentFault) as error:
        named = [key for key in own if key in error.message]
        blamed = max(named, key=len, default=next(iter(own)))
        return {prefix + blamed: error.message.removeprefix(f"{blamed}: ")}
    return {}
