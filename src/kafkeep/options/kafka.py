"""Where Kafka and the archive are: bootstrap servers, client properties, archive address.

The values are plain and picklable, because they are sent to tasks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kafkeep.errors import UsageError
from kafkeep.options.clouds import require_client
from kafkeep.options.config_files import check_path, parse_properties
from kafkeep.options.storage import ArchiveAddress, StorageOptions

_SERVER = re.compile(
    r"(?:[A-Za-z][A-Za-z0-9_+.-]*://)?(\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/]+):(\d{1,5})"
)
_DEFAULT_CLIENT_ID = "kafkeep"


@dataclass(frozen=True, repr=False)
class KafkaOptions:
    """A cluster and the client properties to reach it.

    ``properties`` have Java's names, as in the ``client.properties`` of Kafka's own tools. ``repr``
    hides their values.
    """

    bootstrap_servers: str
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parse_servers(self.bootstrap_servers)

    @classmethod
    def load(
        cls, bootstrap_servers: str | None, command_config: str | Path | None = None
    ) -> KafkaOptions:
        """Read the properties file, if any; its ``bootstrap.servers`` is the default."""
        properties = _read(Path(command_config)) if command_config is not None else {}
        servers = bootstrap_servers or properties.get("bootstrap.servers")
        if not servers:
            raise UsageError(
                "no bootstrap servers given",
                hint="Pass --bootstrap-servers host:port, or set bootstrap.servers in the file.",
            )
        properties.pop("bootstrap.servers", None)
        return cls(servers, properties)

    @property
    def servers(self) -> list[tuple[str, int]]:
        """The bootstrap servers as host and port, in the order given."""
        return parse_servers(self.bootstrap_servers)

    @property
    def client_id(self) -> str:
        """The client id, which brokers use in logs and quotas."""
        return self.properties.get("client.id") or _DEFAULT_CLIENT_ID

    def __repr__(self) -> str:
        names = ", ".join(sorted(self.properties))
        return f"KafkaOptions({self.bootstrap_servers!r}, properties=<{names}>)"

    def __hash__(self) -> int:
        return hash((self.bootstrap_servers, tuple(sorted(self.properties.items()))))


def parse_servers(text: str) -> list[tuple[str, int]]:
    """Return host and port of each server; UsageError when one is not ``host:port``."""
    servers = [_parse_server(part.strip()) for part in text.split(",") if part.strip()]
    if not servers:
        raise UsageError("no bootstrap servers given", hint="Write them as host:port,host:port.")
    return servers


def _parse_server(text: str) -> tuple[str, int]:
    match = _SERVER.fullmatch(text)
    if match is None or not 0 < int(match[2]) < 65536:
        raise UsageError(
            f"bootstrap server {text!r} is not host:port", hint="Kafka listens on 9092 by default."
        )
    return match[1].strip("[]"), int(match[2])


def _read(path: Path) -> dict[str, str]:
    try:
        text = check_path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        text = path.read_text(encoding="latin-1")  # the traditional encoding of .properties files
    try:
        return parse_properties(text)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", hint=error.hint) from error


@dataclass(frozen=True, kw_only=True)
class Locations:
    """The cluster and the archive of a backup or a restore."""

    kafka: KafkaOptions
    archive: str
    storage: StorageOptions

    def __post_init__(self) -> None:
        require_client(ArchiveAddress.parse(self.archive).kind)  # before Kafka is contacted
