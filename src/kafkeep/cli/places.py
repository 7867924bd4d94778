"""Flags that say where Kafka and the archive are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkeep.cli.flags import flag, with_flags
from kafkeep.cli.output import say
from kafkeep.config.kafka import KafkaOptions
from kafkeep.config.spark import SparkOptions
from kafkeep.config.storage import StorageOptions
from kafkeep.errors import UsageError
from kafkeep.spark.early import launch_early

if TYPE_CHECKING:
    from kafkeep.archive.store import ObjectStore
    from kafkeep.config.places import Places

_BOOTSTRAP = typer.Option(
    "--bootstrap-servers",
    envvar="KAFKEEP_BOOTSTRAP_SERVERS",
    metavar="HOST:PORT,…",
    help="Kafka brokers to begin with.",
)
BootstrapOption = Annotated[str, _BOOTSTRAP]
OptionalBootstrapOption = Annotated[str | None, _BOOTSTRAP]
CommandConfigOption = Annotated[
    str | None,
    typer.Option(
        "--command-config",
        envvar="KAFKEEP_COMMAND_CONFIG",
        metavar="FILE",
        help="Kafka client settings (TLS, SASL): the file Kafka's own tools take.",
    ),
]
_ARCHIVE = typer.Option(
    "--archive",
    envvar="KAFKEEP_ARCHIVE",
    metavar="ADDRESS",
    help="s3://bucket/prefix, file:///folder or a folder.",
)
ArchiveOption = Annotated[str, _ARCHIVE]
OptionalArchiveOption = Annotated[str | None, _ARCHIVE]
EndpointOption = Annotated[
    str | None,
    typer.Option("--s3-endpoint", metavar="URL", help="S3 endpoint, where it is not AWS's."),
]
RegionOption = Annotated[str | None, typer.Option("--s3-region", metavar="NAME", help="S3 region.")]
ProfileOption = Annotated[
    str | None, typer.Option("--s3-profile", metavar="NAME", help="Profile of the AWS files.")
]

ConnectorConfigOption = Annotated[
    str | None,
    typer.Option(
        "--connector-config",
        metavar="FILE",
        help="A connector of Kafka Connect's S3 sink: JSON or .properties. Flags win over it.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Any key of such a connector; may be repeated."
    ),
]
SparkConfOption = Annotated[
    list[str] | None,
    typer.Option("--spark-conf", metavar="KEY=VALUE", help="A Spark setting; may be repeated."),
]


def parse_settings(settings: Iterable[str]) -> dict[str, str]:
    """Split what ``--set`` was given; of a key given twice the last value holds."""
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
class ArchivePlace:
    """Where an archive lies."""

    address: str
    storage: StorageOptions

    def open(self) -> ObjectStore:
        """Open the store."""
        from kafkeep.store.open import open_store  # noqa: PLC0415 - keeps --help fast

        return open_store(self.address, self.storage)

    def beside(self, kafka: KafkaOptions) -> Places:
        """Return it together with a cluster."""
        from kafkeep.config.places import Places  # noqa: PLC0415

        return Places(kafka=kafka, archive=self.address, storage=self.storage)


ARCHIVE_FLAGS = (
    flag("archive", ArchiveOption, inspect.Parameter.empty),
    flag("s3_endpoint", EndpointOption),
    flag("s3_region", RegionOption),
    flag("s3_profile", ProfileOption),
)


def archive_place(given: Mapping[str, Any]) -> ArchivePlace:
    """Make it of the values of ``ARCHIVE_FLAGS``."""
    stored = storage_options(given["s3_endpoint"], given["s3_region"], given["s3_profile"])
    return ArchivePlace(given["archive"], stored)


def with_archive(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the flags that say where its archive lies; it takes an ``ArchivePlace``."""
    decorated: Callable[..., Any] = with_flags("archive", ARCHIVE_FLAGS, archive_place, first=True)(
        command
    )
    return decorated


def storage_options(
    endpoint: str | None, region: str | None, profile: str | None
) -> StorageOptions:
    """Take the standard AWS variables, and flags over them."""
    return StorageOptions.from_env(endpoint=endpoint, region=region, profile=profile)


def kafka_options(
    bootstrap_servers: str | None,
    command_config: str | None,
    overrides: Mapping[str, str] | None = None,
) -> KafkaOptions:
    """Load the client properties, and say which of them have no effect.

    ``overrides`` win over the file's properties, not over the flag.
    """
    from kafkeep.kafka.security import property_notes  # noqa: PLC0415 - keeps --help fast

    others = dict(overrides or {})
    servers = bootstrap_servers or others.pop("bootstrap.servers", None)
    others.pop("bootstrap.servers", None)
    options = KafkaOptions.load(servers, command_config)
    if others:
        options = replace(options, properties={**options.properties, **others})
    for note in property_notes(options):
        say(f"warning: {note}")
    return options


def start_spark(
    conf: list[str] | None, *, now: bool = True, preload: tuple[str, ...] = ()
) -> SparkOptions:
    """Load Spark's settings and, unless it will not be needed, start its JVM at once."""
    options = SparkOptions.load(conf or (), preload=preload)
    if now:
        launch_early(options)
    return options
