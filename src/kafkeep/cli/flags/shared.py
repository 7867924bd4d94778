"""The flags that several commands share: Kafka, archive, connector files, Spark, verbosity.

Functions turn their values into the option groups of ``kafkeep.options``.
"""

from __future__ import annotations

import inspect
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkeep.cli.flags.declared import flag, with_flags
from kafkeep.cli.output import Verbosity, say, set_verbosity
from kafkeep.errors import UsageError
from kafkeep.options.kafka import KafkaOptions, Locations
from kafkeep.options.spark import SparkOptions
from kafkeep.options.storage import ArchiveAddress, StorageOptions
from kafkeep.preload import LOAD_S3

if TYPE_CHECKING:
    from kafkeep.archive.object_store import ObjectStore
    from kafkeep.options.unlogged import UnloggedOptions

_BOOTSTRAP = typer.Option(
    "--bootstrap-servers",
    "-b",
    envvar="KAFKEEP_BOOTSTRAP_SERVERS",
    metavar="HOST:PORT,…",
    help="Kafka brokers to connect to first.",
)
BootstrapOption = Annotated[str, _BOOTSTRAP]
OptionalBootstrapOption = Annotated[str | None, _BOOTSTRAP]
CommandConfigOption = Annotated[
    str | None,
    typer.Option(
        "--command-config",
        envvar="KAFKEEP_COMMAND_CONFIG",
        metavar="FILE",
        help="Kafka client properties (TLS, SASL), as Kafka's own tools take them.",
    ),
]
_ARCHIVE = typer.Option(
    "--archive",
    envvar="KAFKEEP_ARCHIVE",
    metavar="ADDRESS",
    help="Address of the archive: s3://bucket/prefix, gs://bucket/prefix, az://container/prefix,"
    " file:///folder or a folder.",
)
ArchiveOption = Annotated[str, _ARCHIVE]
OptionalArchiveOption = Annotated[str | None, _ARCHIVE]
EndpointOption = Annotated[
    str | None,
    typer.Option("--s3-endpoint", metavar="URL", help="S3 endpoint, for stores other than AWS."),
]
RegionOption = Annotated[str | None, typer.Option("--s3-region", metavar="NAME", help="S3 region.")]
ProfileOption = Annotated[
    str | None,
    typer.Option("--s3-profile", metavar="NAME", help="Profile in the AWS configuration files."),
]

ConnectorConfigOption = Annotated[
    str | None,
    typer.Option(
        "--connector-config",
        metavar="FILE",
        help="Configuration of a Connect S3 connector, JSON or .properties. Flags override it.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a connector key. May be repeated."),
]
SparkConfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-conf", metavar="KEY=VALUE", help="Set a Spark property. May be repeated."
    ),
]
_CONNECT_SECONDS = 2.0


def parse_settings(settings: Iterable[str]) -> dict[str, str]:
    """Split the values of ``--set``; the last value of a key wins."""
    pairs = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key.strip():
            raise UsageError(
                f"--set {key!r} is not KEY=VALUE", hint="Write it as --set flush.size=1000."
            )
        pairs[key.strip()] = text
    return pairs


@dataclass(frozen=True)
class ArchiveLocation:
    """The address of an archive, and how to reach its store."""

    address: str
    storage: StorageOptions

    def open(self) -> ObjectStore:
        """Open the store of the archive."""
        from kafkeep.store.open import open_store  # noqa: PLC0415 - keeps --help fast

        return open_store(self.address, self.storage)

    def beside(self, kafka: KafkaOptions) -> Locations:
        """Return the archive and a cluster as one value."""
        return Locations(kafka=kafka, archive=self.address, storage=self.storage)


ARCHIVE_FLAGS = (
    flag("archive", ArchiveOption, inspect.Parameter.empty),
    flag("s3_endpoint", EndpointOption),
    flag("s3_region", RegionOption),
    flag("s3_profile", ProfileOption),
)


def archive_location(given: Mapping[str, Any]) -> ArchiveLocation:
    """Build a location from the values of ``ARCHIVE_FLAGS``."""
    flags = (given["s3_endpoint"], given["s3_region"], given["s3_profile"])
    return ArchiveLocation(given["archive"], storage_options(*flags, given["archive"]))


def with_archive(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the flags of an archive; it takes an ``ArchiveLocation``."""
    decorated: Callable[..., Any] = with_flags(
        "archive", ARCHIVE_FLAGS, archive_location, first=True
    )(command)
    return decorated


def storage_options(
    endpoint: str | None, region: str | None, profile: str | None, address: str | None = None
) -> StorageOptions:
    """Read the clouds' standard variables; flags override those of AWS.

    Raise UsageError if there are flags and ``address`` is not on S3.
    """
    if any((endpoint, region, profile)) and (address or "").startswith(("gs://", "az://")):
        raise UsageError(
            f"--s3-endpoint, --s3-region and --s3-profile do not apply to {address}",
            hint="Leave them out; the variables of that cloud say how to reach it.",
        )
    return StorageOptions.from_env(endpoint=endpoint, region=region, profile=profile)


def kafka_options(
    bootstrap_servers: str | None,
    command_config: str | None,
    overrides: Mapping[str, str] | None = None,
) -> KafkaOptions:
    """Load the client properties, and warn of those that have no effect.

    ``overrides`` take precedence over the file, but not over the flag.
    """
    others = dict(overrides or {})
    servers = bootstrap_servers or others.pop("bootstrap.servers", None)
    others.pop("bootstrap.servers", None)
    options = KafkaOptions.load(servers, command_config)
    if others:
        options = replace(options, properties={**options.properties, **others})
    if options.properties:
        from kafkeep.kafka.security.client_config import property_notes  # noqa: PLC0415 - slow to load

        for note in property_notes(options):
            say(f"warning: {note}")
    return options


def start_spark(
    conf: list[str] | None,
    locations: Locations,
    *,
    now: bool = True,
    preload: tuple[str, ...] = (),
    resident: bool = True,
    runs: str = "",
) -> SparkOptions:
    """Load Spark's properties; with ``now``, claim the resident session, or start a JVM.

    The JVM starts in the background, and only if something answers at the addresses. A command that
    runs for long sets ``resident`` to False. ``runs`` names the module that the command is about to
    import: then it starts the Python workers too, which share what it has loaded.
    """
    from kafkeep.spark.jvm import fork_workers, prelaunch_jvm  # noqa: PLC0415 - keeps --help fast
    from kafkeep.spark.resident.claim import claim_early  # noqa: PLC0415

    options = SparkOptions.load(conf or (), preload=preload, resident=resident, sql=False)
    if now and not claim_early(options) and _answer(locations):
        prelaunch_jvm(options)
        if runs:
            on_s3 = ArchiveAddress.parse(locations.archive).kind == "s3"
            fork_workers((runs, LOAD_S3) if on_s3 else (runs,))
    return options


def unlogged_options(file: str | None, settings: Sequence[str]) -> UnloggedOptions | None:
    """Return the keys of the file, overridden by ``--set``; None when neither is given.

    A sink's file describes its objects; a source's file also describes how records change.
    """
    return parse_unlogged(load_connector_config(file), settings)


def load_connector_config(file: str | None) -> Mapping[str, str] | None:
    """Read the keys of ``--connector-config``; it may be a pipe, so this is done once."""
    from kafkeep.connect.connectors.config_reader import read_connector_file  # noqa: PLC0415 - keeps --help fast

    return None if file is None else read_connector_file(file).config


def parse_unlogged(
    config: Mapping[str, str] | None, settings: Sequence[str]
) -> UnloggedOptions | None:
    """Return the keys of a connector, overridden by ``--set``; None when neither is given."""
    if config is None and not settings:
        return None
    from kafkeep.options.unlogged import UnloggedOptions  # noqa: PLC0415 - keeps --help fast

    return UnloggedOptions.parse(_from_file(config or {}) | parse_settings(settings))


def _from_file(config: Mapping[str, str]) -> dict[str, str]:
    from kafkeep.connect.connectors.families import find_family  # noqa: PLC0415 - keeps --help fast
    from kafkeep.options.unlogged import is_read_key, layout_of_sink  # noqa: PLC0415

    name = config.get("connector.class", "")
    if name and find_family(name).kind == "sink":
        return layout_of_sink(config)
    return {key: text for key, text in config.items() if is_read_key(key)}


_QUIET = flag(
    "quiet",
    Annotated[
        bool,
        typer.Option(
            "--quiet", "-q", help="Print only errors on stderr: no warnings, no progress."
        ),
    ],
    False,
)
_VERBOSE = flag(
    "verbose",
    Annotated[
        bool, typer.Option("--verbose", "-v", help="Also print on stderr what is done, in detail.")
    ],
    False,
)


def with_quiet(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--quiet``."""
    decorated: Callable[..., Any] = with_flags(None, [_QUIET], _apply_verbosity)(command)
    return decorated


def with_verbosity(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--quiet`` and ``--verbose``; it prints details with ``detail``."""
    decorated: Callable[..., Any] = with_flags(None, [_QUIET, _VERBOSE], _apply_verbosity)(command)
    return decorated


def _apply_verbosity(given: dict[str, Any]) -> None:
    quiet, verbose = given["quiet"], given.get("verbose", False)
    if quiet and verbose:
        raise UsageError("--quiet and --verbose cannot both be given")
    set_verbosity(Verbosity.QUIET if quiet else Verbosity.VERBOSE if verbose else Verbosity.NORMAL)


def _answer(locations: Locations) -> bool:
    """Return whether Kafka listens, and the endpoint of S3 if one is given.

    Otherwise a command reports what keeps it from running, and has started no JVM. The clients of
    both take a while to load, so this only opens connections.
    """
    if not any(_listens(*server) for server in locations.kafka.servers):
        return False
    if ArchiveAddress.parse(locations.archive).kind != "s3":
        return True
    return _endpoint_listens(locations.storage)


def _endpoint_listens(storage: StorageOptions) -> bool:
    """Return False if a given endpoint, which no proxy stands before, does not listen."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - keeps --help fast
    from urllib.request import getproxies  # noqa: PLC0415

    try:
        endpoint = urlsplit(storage.endpoint or "")
        host, port = endpoint.hostname, endpoint.port or _PORTS.get(endpoint.scheme)
    except ValueError:
        return True  # the client reports it
    if host is None or port is None or storage.proxy_url or getproxies():
        return True
    return _listens(host, port)


_PORTS = {"http": 80, "https": 443}


def _listens(host: str, port: int) -> bool:
    with suppress(OSError):
        socket.create_connection((host, port), _CONNECT_SECONDS).close()
        return True
    return False
