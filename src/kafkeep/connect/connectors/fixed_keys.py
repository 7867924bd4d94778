"""Fixed keys: known keys whose value is checked and then has no effect, or is refused.

Each has a sentence that says why. The sentence is in the documentation and in the error message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version

from kafkeep.errors import UsageError

_NUMBER = re.compile(r"-?[0-9]+")
_VERSION = version("kafkeep")
_STORAGE = "io.confluent.connect.s3.storage.S3Storage"


class KeySupport(StrEnum):
    """How kafkeep treats a key."""

    HONOURED = "honoured"
    ALWAYS = "always so"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class FixedKey:
    """A key with one fixed meaning: its value is checked, and is not used otherwise."""

    name: str
    type: str
    default: str
    sentence: str
    holds: Callable[[str], bool] | None = None
    """Return whether kafkeep does what a value asks for; None if no value is supported."""

    @property
    def support(self) -> KeySupport:
        """How kafkeep treats the key."""
        return KeySupport.REFUSED if self.holds is None else KeySupport.ALWAYS

    def check(self, text: str) -> None:
        """Raise UsageError for a value that kafkeep does not support."""
        if self.holds is None or not self.holds(text.strip()):
            raise UsageError(f"{text!r} is not supported: {self.sentence}")


def any_text(_text: str) -> bool:
    """Accept every text."""
    return True


def any_number(text: str) -> bool:
    """Accept every whole number."""
    return _NUMBER.fullmatch(text) is not None


def any_truth(text: str) -> bool:
    """Accept true and false."""
    return text.lower() in ("true", "false")


def parsed_by(parse: Callable[[str], object]) -> Callable[[str], bool]:
    """Accept every text that ``parse`` accepts."""

    def holds(text: str) -> bool:
        try:
            parse(text)
        except UsageError:
            return False
        return True

    return holds


def only(*values: str) -> Callable[[str], bool]:
    """Accept only these values, in upper or lower case."""
    return lambda text: text.lower() in {value.lower() for value in values}


_KEYS = (
    FixedKey(
        "storage.class",
        "string",
        _STORAGE,
        f"The store is S3 ({_STORAGE}); use the S3 API of other stores.",
        only(_STORAGE, "S3Storage"),
    ),
    FixedKey(
        "enable.conditional.writes",
        "boolean",
        "true",
        "kafkeep creates every object on the condition that its name is free. Archiving each "
        "record exactly once depends on it, so it cannot be turned off.",
        only("true"),
    ),
    FixedKey(
        "max.files.scan.limit",
        "int",
        "100",
        "kafkeep does not search for a free name: the log says what was written before.",
        any_number,
    ),
    FixedKey(
        "schemas.cache.config",
        "int",
        "1000",
        "A task caches every schema it has converted.",
        any_number,
    ),
    FixedKey(
        "schema.cache.size",
        "int",
        "1000",
        "The old name of schemas.cache.config. Schemas are always cached.",
        any_number,
    ),
    FixedKey(
        "shutdown.timeout.ms",
        "int",
        "3000",
        "There is nothing to wait for: unfinished objects are not visible.",
        any_number,
    ),
    FixedKey(
        "max.write.duration.ms",
        "long",
        "9223372036854775807",
        "Writing does not block a consumer, so there is nothing to interrupt.",
        any_number,
    ),
    FixedKey(
        "s3.elastic.buffer.enable",
        "boolean",
        "false",
        "Buffers always grow with their content.",
        any_truth,
    ),
    FixedKey(
        "s3.elastic.buffer.init.capacity",
        "int",
        "131072",
        "Buffers always grow with their content.",
        any_number,
    ),
    FixedKey(
        "errors.retry.timeout",
        "long",
        "0",
        "A record that cannot be converted fails every time, so records are not retried. Requests "
        "to Kafka, the store and the registry are.",
        any_number,
    ),
    FixedKey(
        "errors.retry.delay.max.ms",
        "long",
        "60000",
        "Records are not retried: see errors.retry.timeout.",
        any_number,
    ),
    FixedKey("tasks.max.enforce", "boolean", "true", "tasks.max is always enforced.", only("true")),
    FixedKey(
        "config.action.reload",
        "string",
        "restart",
        "Values of config providers are read when the connector starts.",
        only("none", "restart"),
    ),
    FixedKey(
        "group.id",
        "string",
        "",
        "As in Connect, the consumer group of a connector is connect-<name>, whatever the value.",
        any_text,
    ),
    *(
        FixedKey(
            f"{what}.plugin.version",
            "string",
            _VERSION,
            f"Every class has one version, kafkeep's: {_VERSION}.",
            only(_VERSION),
        )
        for what in ("connector", "key.converter", "value.converter", "header.converter")
    ),
    FixedKey("confluent.license", "string", "", "kafkeep needs no license.", any_text),
)
FIXED_KEYS: Mapping[str, FixedKey] = {key.name: key for key in _KEYS}

_UNDER = (
    FixedKey(
        "s3.credentials.provider.",
        "string",
        "",
        "kafkeep cannot run Java classes.",
    ),
    FixedKey(
        "producer.override.",
        "string",
        "",
        "Dead letters are produced with the settings of --command-config.",
    ),
    FixedKey(
        "admin.override.",
        "string",
        "",
        "Topics are created with the settings of --command-config.",
    ),
    FixedKey(
        "confluent.topic.",
        "string",
        "",
        "kafkeep needs no license topic.",
        any_text,
    ),
)


def fixed_key(name: str) -> FixedKey | None:
    """Return the fixed key of this name or prefix; None if there is none."""
    found = FIXED_KEYS.get(name)
    return found or next((key for key in _UNDER if name.startswith(key.name)), None)


def iter_fixed_keys() -> tuple[FixedKey, ...]:
    """Return all fixed keys; a name that ends with a dot is a prefix."""
    return (*_KEYS, *_UNDER)
