"""The flags of commands: generated from declared options, or shared by several commands.

An option is declared once, and its flag follows from it. The shared flags are those of Kafka, the
archive, its logs, connector files and Spark. Functions turn their values into the option groups of
``kafkeep.options``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from kafkeep.cli.output import say
from kafkeep.errors import UsageError
from kafkeep.options.kafka import KafkaOptions, Locations
from kafkeep.options.option import Option, iter_options
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.spark import SparkOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.spark.jvm import prelaunch_jvm

if TYPE_CHECKING:
    from kafkeep.archive.object_store import ObjectStore
    from kafkeep.archive.view import ArchiveView
    from kafkeep.options.selection import LogOptions
    from kafkeep.options.unlogged import UnloggedOptions


T = TypeVar("T")


def with_flags(
    parameter: str,
    flags: Sequence[inspect.Parameter],
    make: Callable[[dict[str, Any]], Any],
    *,
    first: bool = False,
) -> Callable[..., Any]:
    """Give a command ``flags`` that it takes as one argument: what ``make`` builds of their values.

    Every other parameter of the command stays a flag of its own. With ``first``, the help lists
    ``flags`` before them.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        def run(**values: Any) -> Any:
            mine = {flag.name: values.pop(flag.name) for flag in flags}
            return command(**values, **{parameter: make(mine)})

        kept = [
            p
            for p in inspect.signature(command, eval_str=True).parameters.values()
            if p.name != parameter
        ]
        signature = inspect.Signature([*flags, *kept] if first else [*kept, *flags])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
        run.__doc__ = command.__doc__
        run.__name__ = command.__name__
        run.__module__ = command.__module__
        return run

    return decorate


def flag(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    """Return a flag for ``with_flags``; a flag without a default is required."""
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def with_options(
    group: type[T], parameter: str = "options", *, built: bool = True, needs: str = ""
) -> Callable[..., Any]:
    """Give a command one flag for each option of ``group``.

    The command takes the built group as the keyword argument ``parameter``. Without ``built`` it
    takes the values as they were given, by field, or None: for commands that also read them from
    a file. The help of each flag names the flag that it ``needs``, if any.
    """
    flags = [_parameter(option, needs) for option in iter_options(group)]
    return with_flags(parameter, flags, lambda mine: build(group, mine) if built else mine)


def build(group: type[T], values: dict[str, Any]) -> T:
    """Build ``group`` from flag values: parse text, and keep the default of absent flags."""
    made: dict[str, Any] = {}
    for option in iter_options(group):
        value = values.get(option.field)
        if value is None:
            if option.default is MISSING:
                raise UsageError(f"{option.flag} is missing")
            continue
        if option.goes_with and not values.get(option.goes_with):
            other = f"--{option.goes_with}"
            raise UsageError(
                f"{option.flag} requires {other}", hint=f"Add {other}, or leave out {option.flag}."
            )
        parsed = value
        if option.parse is not None and isinstance(value, str):
            parsed = _parse(option, value)
        made[option.field] = parsed
    return group(**made)


def _parse(option: Option, text: str) -> Any:
    try:
        return option.parse(text) if option.parse else text
    except UsageError as error:
        raise UsageError(f"{option.flag}: {error.message}", hint=error.hint) from error
    except ValueError as error:
        raise UsageError(f"{option.flag}: {text!r} is not a valid value") from error


_SHORT = {"--topics": ("-t",)}
"""Short flags, as kcat has them."""


def _parameter(option: Option, needs: str) -> inspect.Parameter:
    text = _help(option, needs)
    if option.is_flag:
        annotation: Any = Annotated[bool, typer.Option(option.flag, help=text)]
        default: Any = option.default
    else:
        info = typer.Option(
            *(option.flag, *_SHORT.get(option.flag, ())),
            help=text,
            metavar=option.metavar or "TEXT",
            show_default=False,
        )
        annotation, default = Annotated[str | None, info], None
    return flag(option.field, annotation, default)


def _help(option: Option, needs: str) -> str:
    text = f"With {needs}: {option.help[0].lower()}{option.help[1:]}" if needs else option.help
    shown = "" if option.is_flag else option.default_text
    return f"{text} Default: {shown}." if shown else text


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
    help="Address of the archive: s3://bucket/prefix, file:///folder or a folder.",
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
    stored = storage_options(given["s3_endpoint"], given["s3_region"], given["s3_profile"])
    return ArchiveLocation(given["archive"], stored)


def with_archive(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the flags of an archive; it takes an ``ArchiveLocation``."""
    decorated: Callable[..., Any] = with_flags(
        "archive", ARCHIVE_FLAGS, archive_location, first=True
    )(command)
    return decorated


def storage_options(
    endpoint: str | None, region: str | None, profile: str | None
) -> StorageOptions:
    """Read the standard AWS variables; flags override them."""
    return StorageOptions.from_env(endpoint=endpoint, region=region, profile=profile)


def kafka_options(
    bootstrap_servers: str | None,
    command_config: str | None,
    overrides: Mapping[str, str] | None = None,
) -> KafkaOptions:
    """Load the client properties, and warn of those that have no effect.

    ``overrides`` take precedence over the file, but not over the flag.
    """
    from kafkeep.kafka.security.client_config import property_notes  # noqa: PLC0415 - keeps --help fast

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
    """Load Spark's properties and, with ``now``, start its JVM in the background."""
    options = SparkOptions.load(conf or (), preload=preload)
    if now:
        prelaunch_jvm(options)
    return options


def unlogged_options(file: str | None, settings: Sequence[str]) -> UnloggedOptions | None:
    """Return the keys of the file, overridden by ``--set``; None when neither is given.

    A sink's file says how its objects were written; a source's file also says how records change.
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


NameOption = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="LOG",
        help="Read this log of the archive. Default: all logs; cat needs the name if there are "
        "several.",
    ),
]
TopicsOption = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", metavar="TOPIC", help="Only this topic. May be repeated."),
]

PartitionsOption = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", min=0, help="Only this partition. May be repeated."),
]


@dataclass(frozen=True, kw_only=True)
class ArchiveSource:
    """What a command reads: the logs of an archive, or a bucket without a log."""

    location: ArchiveLocation
    name: str | None
    connector_config: str | None
    settings: tuple[str, ...]

    def open(self) -> tuple[ObjectStore, UnloggedOptions | None]:
        """Open the store; for a bucket without a log also return how to read its objects."""
        from kafkeep.objects.choose_log import without_log  # noqa: PLC0415 - keeps --help fast

        told = unlogged_options(self.connector_config, self.settings)
        store = self.location.open()
        return store, without_log(store, self.name, told)


def reads_archive(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the flags of an archive source; it takes them as ``source``."""
    flags = [
        *ARCHIVE_FLAGS,
        flag("name", NameOption),
        flag("connector_config", ConnectorConfigOption),
        flag("settings", SetOption),
    ]

    def make(given: dict[str, Any]) -> ArchiveSource:
        return ArchiveSource(
            location=archive_location(given),
            name=given["name"],
            connector_config=given["connector_config"],
            settings=tuple(given["settings"] or ()),
        )

    decorated: Callable[..., Any] = with_flags("source", flags, make, first=True)(command)
    return decorated


def load_log_view(store: ObjectStore, options: LogOptions) -> ArchiveView:
    """Load the state of one log: the one named, or the only one, as of the commit asked for."""
    from kafkeep.archive.view import load_view  # noqa: PLC0415 - keeps --help fast
    from kafkeep.restore.source import choose_log  # noqa: PLC0415

    commit, at_ms = options.commit, options.at_ms
    log = choose_log(store, RestoreOptions(name=options.name, commit=commit, at_ms=at_ms))
    return load_view(store, log, commit=commit, at_ms=at_ms)
