"""Confluent's S3 sink, whose keys are kafkeep's, and its S3 source: translate its keys. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafkeep.connect.connectors.family import Family, TranslatedConfig, interval_ms
from kafkeep.connect.connectors.fixed_keys import FixedKey, any_number, any_text, any_truth, only
from kafkeep.options.option import ConfigErrors, one_of, option, parse_group
from kafkeep.options.unlogged import GENERIC, TOPIC_REGEXES, parse_topic_regexes

CONFLUENT = "io.confluent.connect.s3.S3SinkConnector"
CONFLUENT_SOURCE = "io.confluent.connect.s3.source.S3SourceConnector"


def _mode(text: str) -> str:
    return one_of("mode", "RESTORE_BACKUP", GENERIC)(text.strip().upper())


def _topic_regexes(text: str) -> str:
    if text.strip():
        parse_topic_regexes(text)
    return text.strip()


def _choice(what: str, *choices: str) -> Callable[[str], str]:
    parse = one_of(what, *choices)
    return lambda text: parse(text.strip().lower())


@dataclass(frozen=True, kw_only=True)
class ConfluentSourceOptions:
    """Confluent's S3 source."""

    mode: str = option(
        "mode",
        "Confluent's source: RESTORE_BACKUP, or GENERIC, which reads objects of any name under "
        "topics.dir that have the extension of format.class.",
        default="RESTORE_BACKUP",
        parse=_mode,
    )
    topic_regex_list: str = option(
        TOPIC_REGEXES,
        "Confluent's source in mode GENERIC: topic:regex,topic:regex. An object belongs to the "
        "topic of the first expression that matches its whole key. Objects are read in the order "
        "of folders and names.",
        default="",
        parse=_topic_regexes,
        metavar="TOPIC:REGEX,…",
    )
    s3_poll_interval_ms: int = option(
        "s3.poll.interval.ms",
        "Confluent's source: check the log for new commits this often.",
        default=60_000,
        parse=interval_ms,
        metavar="MS",
    )
    behavior_on_error: str = option(
        "behavior.on.error",
        "Confluent's source: fail stops at a missing or damaged object; ignore and log skip it, "
        "and both report what is lost.",
        default="fail",
        parse=_choice("behavior.on.error", "fail", "ignore", "log"),
    )


_EITHER = (
    "The log names the objects and says how they were written. In a bucket without a log this key "
    "says it, as for the sink."
)
_NUMBERS = ("partition.duration.ms", "schema.cache.size")
_TRUTHS = ("store.kafka.keys", "store.kafka.headers")
_MIRRORED = tuple(
    FixedKey(
        name,
        "long" if name in _NUMBERS else "boolean" if name in _TRUTHS else "string",
        "",
        _EITHER,
        any_number if name in _NUMBERS else any_truth if name in _TRUTHS else any_text,
    )
    for name in (
        "topics.dir",
        "directory.delim",
        "file.delim",
        "format.class",
        "partitioner.class",
        "partition.field.name",
        "partition.duration.ms",
        "path.format",
        "locale",
        "timezone",
        "timestamp.extractor",
        "timestamp.field",
        "format.bytearray.extension",
        "format.bytearray.separator",
        "schema.compatibility",
        "store.kafka.keys",
        "store.kafka.headers",
        "keys.format.class",
        "headers.format.class",
        "s3.compression.type",
        "schema.cache.size",
    )
)
_SOURCE_KEYS = (
    *_MIRRORED,
    FixedKey(
        "task.batch.size", "int", "10", "Tasks are packed by the size of the objects.", any_number
    ),
    FixedKey(
        "record.batch.max.size", "int", "200", "Batches are as large as Kafka allows.", any_number
    ),
    FixedKey(
        "parse.error.topic.prefix",
        "string",
        "",
        "Objects that cannot be read are named in the status, not in a topic.",
    ),
    FixedKey(
        "file.discovery.starting.timestamp",
        "long",
        "0",
        "A restore reads whole commits: use restore.at or restore.commit.",
        only("0"),
    ),
)


def _generic_mistakes(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the keys that contradict the mode, with reasons."""
    has_list = bool(texts.get(TOPIC_REGEXES, "").strip())
    if texts.get("mode", "").strip().upper() != GENERIC:
        why = "needs mode GENERIC; use topics to select archived topics"
        return {TOPIC_REGEXES: why} if has_list else {}
    if not has_list:
        return {TOPIC_REGEXES: "missing: mode GENERIC needs it"}
    if texts.get("topics", "").strip():
        return {"topics": f"in mode GENERIC {TOPIC_REGEXES} names the topics"}
    return {}


def _source(texts: Mapping[str, str], _name: str) -> TranslatedConfig:
    wrong = _generic_mistakes(texts)
    try:
        options = parse_group(ConfluentSourceOptions, texts)
    except ConfigErrors as error:
        raise ConfigErrors({**wrong, **error.by_key}) from error
    if wrong:
        raise ConfigErrors(wrong)
    found = {"poll.interval.ms": str(options.s3_poll_interval_ms), "restore.into.non.empty": "true"}
    if options.behavior_on_error != "fail":
        found["restore.allow.missing"] = "true"
    return TranslatedConfig(texts=found, called={"poll.interval.ms": "s3.poll.interval.ms"})


SINK = Family(name="confluent", kind="sink", classes=(CONFLUENT,), region="us-west-2")
SOURCE = Family(
    name="confluent",
    kind="source",
    classes=(CONFLUENT_SOURCE,),
    groups=(ConfluentSourceOptions,),
    fixed_keys=_SOURCE_KEYS,
    translate=_source,
    region="us-west-2",
)
