"""The Python library: ``kafkeep.backup(...)`` and ``kafkeep.restore(...)``.

Importing it is cheap: the first call loads the clients of Kafka, S3 and Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kafkeep import preload
from kafkeep.errors import EnvironmentFault, UsageError

if TYPE_CHECKING:
    import threading

    from kafkeep.archive.commit import Commit
    from kafkeep.backup.summary import BackupSummary
    from kafkeep.options.backup import BackupOptions
    from kafkeep.options.spark import SparkOptions
    from kafkeep.options.storage import StorageOptions
    from kafkeep.options.unlogged import UnloggedOptions
    from kafkeep.restore.preflight import Preflight
    from kafkeep.restore.summary import RestoreSummary

T = TypeVar("T")
Session = Any
"""A ``SparkSession``. The type is not named here, because only ``spark/`` imports pyspark."""


def backup(
    *,
    archive: str | Path,
    bootstrap_servers: str | Iterable[str],
    command_config: str | Path | None = None,
    storage: StorageOptions | None = None,
    spark: Session | SparkOptions | None = None,
    stop: threading.Event | None = None,
    on_commit: Callable[[Commit, BackupSummary], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> BackupSummary:
    """Copy the records that the archive does not have yet; return a summary.

    ``options`` are the fields of ``kafkeep.options.backup.BackupOptions``, as Python values
    (``topics=["orders"]``, ``follow=True``) or as the command line writes them
    (``segment_bytes="64MiB"``). ``settings`` are the keys of a sink, under Connect's names
    (``format="json", settings={"flush.size": 1000}``). ``storage`` defaults to AWS's standard
    variables. An active Spark session is used and left running; otherwise a session is started and
    stopped. Raises KafkeepError. Gaps are not errors: the summary lists them.
    """
    from kafkeep.backup.run import run_backup  # noqa: PLC0415
    from kafkeep.options.backup import BackupOptions  # noqa: PLC0415
    from kafkeep.options.kafka import Locations  # noqa: PLC0415 - keeps the import light

    chosen = _with_sink(make_options(BackupOptions, options), settings or {})
    locations = Locations(**_locations(archive, bootstrap_servers, command_config, storage))
    return run_backup(
        chosen,
        locations,
        _spark(spark, preload.for_backup(chosen)),
        stop=stop,
        on_commit=on_commit,
        on_progress=on_progress,
    )


def restore(
    *,
    archive: str | Path,
    bootstrap_servers: str | Iterable[str],
    command_config: str | Path | None = None,
    storage: StorageOptions | None = None,
    spark: Session | SparkOptions | None = None,
    on_plan: Callable[[Preflight], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> RestoreSummary:
    """Restore topics from the archive, every record exactly once; return a summary.

    ``options`` are the fields of ``kafkeep.options.restore.RestoreOptions``, as in ``backup``.
    ``topics`` may also be a mapping: ``{"orders": "orders-restored"}``. ``settings`` are
    transforms and converters under Connect's names; for a bucket without a log they also say how
    its objects were written. ``on_plan`` gets the plan and the preflight before anything is
    written. After a failure, the same call resumes the restore.
    """
    from kafkeep.options.kafka import Locations  # noqa: PLC0415
    from kafkeep.options.restore import RestoreOptions  # noqa: PLC0415 - keeps the import light
    from kafkeep.restore.run import run_restore  # noqa: PLC0415

    chosen = make_options(RestoreOptions, options)
    locations = Locations(**_locations(archive, bootstrap_servers, command_config, storage))
    return run_restore(
        chosen,
        locations,
        _spark(spark, preload.RESTORE),
        unlogged=_unlogged_options(settings or {}),
        on_plan=on_plan,
        on_progress=on_progress,
    )


def _with_sink(options: BackupOptions, settings: Mapping[str, Any]) -> BackupOptions:
    """Return ``options`` with the sink options that every format except segment needs."""
    if options.format == "segment" and not settings:
        return options
    from kafkeep.connect.connectors.sink_config import ConnectorConfig  # noqa: PLC0415 - keeps the import light

    given = {
        "format.class": options.format,
        "topics": ",".join(options.topics),
        "topics.regex": options.topics_regex or "",
        **settings,
    }
    if options.format == "segment":
        del given["format.class"]
    config = ConnectorConfig.from_map(
        {key: text for key, text in given.items() if text != ""}, archive="memory:settings"
    )
    given_to_sink = {**config.sink.texts, **config.sink.secrets} if config.sink else {}
    if others := [key for key in settings if key not in given_to_sink]:
        raise UsageError(
            f"{others[0]} is not a setting of a sink",
            hint="Set up Kafka and S3 with bootstrap_servers, command_config and storage.",
        )
    return replace(options, sink=config.sink, format=config.format)


def _unlogged_options(settings: Mapping[str, Any]) -> UnloggedOptions | None:
    """Read the settings of a restore: transforms, converters, the layout of unlogged objects."""
    if not settings:
        return None
    from kafkeep.connect.connectors.config_reader import to_texts  # noqa: PLC0415 - keeps the import light
    from kafkeep.options.unlogged import UnloggedOptions  # noqa: PLC0415

    return UnloggedOptions.parse(to_texts(settings))


def make_options(group: type[T], given: Mapping[str, Any]) -> T:
    """Build an option group from Python values. Strings go through the option's parser."""
    from kafkeep.options.option import did_you_mean, iter_options  # noqa: PLC0415

    declared = {option.field: option for option in iter_options(group)}
    made: dict[str, Any] = {}
    for name, value in given.items():
        if name not in declared:
            raise UsageError(f"{name} is not an option", hint=did_you_mean(name, declared))
        other = declared[name].goes_with
        if other and not given.get(other) and value != "":
            hint = f"Add {other}=True, or leave out {name}."
            raise UsageError(f"{name} requires {other}", hint=hint)
        text = _as_text(value) if declared[name].metavar == "NAMES" else value
        parse = declared[name].parse
        if parse is None or not isinstance(text, str):
            made[name] = text
            continue
        try:
            made[name] = parse(text) if text else declared[name].default
        except UsageError as error:
            raise UsageError(f"{name}: {error.message}", hint=error.hint) from error
        except ValueError as error:
            raise UsageError(f"{name}: {text!r} is not a valid value") from error
    return group(**made)


def _as_text(names: Any) -> Any:
    """Return a list or a mapping of names as the command line writes it."""
    if isinstance(names, Mapping):
        return ",".join(f"{old}:{new}" for old, new in names.items())
    if isinstance(names, str) or not isinstance(names, Iterable):
        return names
    return ",".join(name if isinstance(name, str) else ":".join(name) for name in names)


def _locations(
    archive: str | Path,
    bootstrap_servers: str | Iterable[str],
    command_config: str | Path | None,
    storage: StorageOptions | None,
) -> dict[str, Any]:
    from kafkeep.options.kafka import KafkaOptions  # noqa: PLC0415 - keeps the import light
    from kafkeep.options.storage import StorageOptions  # noqa: PLC0415

    servers = bootstrap_servers
    if not isinstance(servers, str):
        servers = ",".join(servers)
    return {
        "kafka": KafkaOptions.load(servers, command_config),
        "archive": str(archive),
        "storage": storage or StorageOptions.from_env(),
    }


def _spark(spark: Any, names: Iterable[str]) -> SparkOptions:
    """Return the options for the Spark session; EnvironmentFault when ``spark`` is stopped."""
    from kafkeep.options.spark import SparkOptions  # noqa: PLC0415 - keeps the import light

    if isinstance(spark, SparkOptions):
        return spark.with_preload(names)
    if spark is not None:
        from kafkeep.spark.session import active_session  # noqa: PLC0415

        if active_session() is None:
            raise EnvironmentFault("the given Spark session is stopped")
    return SparkOptions.load().with_preload(names)
