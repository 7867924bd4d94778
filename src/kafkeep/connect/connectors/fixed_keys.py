"""Keys that need no code of ours: what they ask for holds anyway, or cannot be had.

Each has a sentence, which is also what a person reads who gives a value that does not hold.
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
    """What becomes of a key."""

    HONOURED = "honoured"
    ALWAYS = "always so"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class FixedKey:
    """A key whose values are checked and then forgotten."""

    name: str
    type: str
    default: str
    sentence: str
    holds: Callable[[str], bool] | None = None
    """Whether a value's meaning holds here; None when none does."""

    @property
    def support(self) -> KeySupport:
        """Tell what becomes of it."""
        return KeySupport.REFUSED if self.holds is None else KeySupport.ALWAYS

    def check(self, text: str) -> None:
        """Raise UsageError when the value's meaning does not hold here."""
        if self.holds is None or not self.holds(text.strip()):
            raise UsageError(f"{text!r} cannot be had: {self.sentence}")


def any_text(_text: str) -> bool:
    """Take anything."""
    return True


def any_number(text: str) -> bool:
    """Take every whole number."""
    return _NUMBER.fullmatch(text) is not None


def any_truth(text: str) -> bool:
    """Take true and false."""
    return text.lower() in ("true", "false")


def what_parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    """Take what a parser understands."""

    def holds(text: str) -> bool:
        try:
            parse(text)
        except UsageError:
            return False
        return True

    return holds


def only(*values: str) -> Callable[[str], bool]:
    """Take these values alone, in any case."""
    return lambda text: text.lower() in {value.lower() for value in values}


_KEYS = (
    FixedKey(
        "storage.class",
        "string",
        _STORAGE,
        f"The store is S3 ({_STORAGE}); other stores are reached through their S3 language.",
        only(_STORAGE, "S3Storage"),
    ),
    FixedKey(
        "enable.conditional.writes",
        "boolean",
        "true",
        "Every object is created under the condition that its name is free: that is what makes "
        "each record archived exactly once, so it cannot be turned off.",
        only("true"),
    ),
    FixedKey(
        "max.files.scan.limit",
        "int",
        "100",
        "No search for a free name is needed: the log says what was written before.",
        any_number,
    ),
    FixedKey(
        "schemas.cache.config",
        "int",
        "1000",
        "A task remembers every schema it has translated.",
        any_number,
    ),
    FixedKey(
        "schema.cache.size",
        "int",
        "1000",
        "The old name of schemas.cache.config; schemas are remembered in any case.",
        any_number,
    ),
    FixedKey(
        "shutdown.timeout.ms",
        "int",
        "3000",
        "Nothing has to be waited for at the end: what is not finished is not visible.",
        any_number,
    ),
    FixedKey(
        "max.write.duration.ms",
        "long",
        "9223372036854775807",
        "Writing holds up no consumer, so there is nothing to interrupt.",
        any_number,
    ),
    FixedKey(
        "s3.elastic.buffer.enable",
        "boolean",
        "false",
        "Buffers always grow with what is in them.",
        any_truth,
    ),
    FixedKey(
        "s3.elastic.buffer.init.capacity",
        "int",
        "131072",
        "Buffers always grow with what is in them.",
        any_number,
    ),
    FixedKey(
        "errors.retry.timeout",
        "long",
        "0",
        "A record that cannot be converted fails the same way every time, so none is tried again; "
        "requests to Kafka, the store and the registry are.",
        any_number,
    ),
    FixedKey(
        "errors.retry.delay.max.ms",
        "long",
        "60000",
        "As errors.retry.timeout: no record is tried again.",
        any_number,
    ),
    FixedKey("tasks.max.enforce", "boolean", "true", "tasks.max always holds.", only("true")),
    FixedKey(
        "config.action.reload",
        "string",
        "restart",
        "Values from outside are read when a run starts.",
        only("none", "restart"),
    ),
    FixedKey(
        "group.id",
        "string",
        "",
        "As in Connect, a connector's consumer group is connect-<name>, whatever stands here.",
        any_text,
    ),
    *(
        FixedKey(
            f"{what}.plugin.version",
            "string",
            _VERSION,
            f"There is one version of every class, kafkeep's: {_VERSION}.",
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
        "They are for Java classes, which cannot run here.",
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
        "Topics are made with the settings of --command-config.",
    ),
    FixedKey(
        "confluent.topic.",
        "string",
        "",
        "kafkeep keeps no license topic.",
        any_text,
    ),
)


def fixed_key(name: str) -> FixedKey | None:
    """Return what is said of a key, by its name or by how it begins; None when nothing is."""
    found = FIXED_KEYS.get(name)
    return found or next((key for key in _UNDER if name.startswith(key.name)), None)


def iter_fixed_keys() -> tuple[FixedKey, ...]:
    """Return all of them; a name that ends with a dot stands for everything under it."""
    return (*_KEYS, *_UNDER)
