"""``consumer.override.*``: the consumer properties of a connector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkeep.connect.connectors.fixed_keys import FixedKey, any_text, only
from kafkeep.errors import UsageError
from kafkeep.options.kafka import parse_servers
from kafkeep.options.option import (
    ConfigErrors,
    did_you_mean,
    iter_options,
    one_of,
    option,
    parse_group,
)

PREFIX = "consumer.override."
TUNING = (
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "connections.max.idle.ms",
    "default.api.timeout.ms",
    "exclude.internal.topics",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "group.instance.id",
    "group.protocol",
    "heartbeat.interval.ms",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "max.poll.records",
    "metadata.max.age.ms",
    "partition.assignment.strategy",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "send.buffer.bytes",
    "session.timeout.ms",
)
_NO_EFFECT = (
    "A setting of the Java consumer. kafkeep fetches whole record batches with its own client: no "
    "effect on what is stored."
)
_SECURITY = ("sasl.", "ssl.")
_CLIENT = ("security.protocol", "bootstrap.servers", "client.id")

_FIXED_KEYS = (
    *(FixedKey(PREFIX + name, "string", "", _NO_EFFECT, any_text) for name in TUNING),
    FixedKey(
        PREFIX + "check.crcs",
        "boolean",
        "true",
        "Checksums of record batches are always checked.",
        only("true"),
    ),
    FixedKey(
        PREFIX + "enable.auto.commit",
        "boolean",
        "false",
        "Offsets are committed only after records are stored.",
        only("false"),
    ),
    FixedKey(
        PREFIX + "group.id",
        "string",
        "",
        "The consumer group is always connect-<name>.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class ConsumerReadOptions:
    """The overrides that decide which records are read, under their full names."""

    isolation_level: str = option(
        PREFIX + "isolation.level",
        "read_committed skips records of aborted transactions; read_uncommitted reads them. "
        "Connect's default is read_uncommitted.",
        default="read_committed",
        parse=lambda text: one_of("isolation level", "read_committed", "read_uncommitted")(
            text.strip().lower()
        ),
    )
    auto_offset_reset: str = option(
        PREFIX + "auto.offset.reset",
        "Where to start if the group connect-<name> has no offset: earliest or latest.",
        default="earliest",
        parse=lambda text: one_of("auto.offset.reset", "earliest", "latest")(text.strip().lower()),
    )


@dataclass(frozen=True, kw_only=True)
class ConsumerOptions:
    """All overrides of a connector; ``kafka`` are client properties under Java's names."""

    isolation_level: str = "read_committed"
    auto_offset_reset: str = "earliest"
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> ConsumerOptions:
        """Parse the keys under the prefix; ConfigErrors names all invalid ones."""
        wrong: dict[str, str] = {}
        kafka: dict[str, str] = {}
        for key in (key for key in given if key.startswith(PREFIX)):
            try:
                if _is_client(key):
                    kafka[key.removeprefix(PREFIX)] = _client_value(key, given[key])
                elif found := fixed_override(key):
                    found.check(given[key])
            except UsageError as error:
                wrong[key] = error.message
        try:
            read = parse_group(ConsumerReadOptions, given)
        except ConfigErrors as error:
            raise ConfigErrors({**wrong, **error.by_key}) from error
        if wrong:
            raise ConfigErrors(wrong)
        return cls(**vars(read), kafka=kafka)


def knows_override(key: str) -> bool:
    """Return whether a key under the prefix is known."""
    declared = {one.name for one in iter_options(ConsumerReadOptions)}
    return key in declared or _is_client(key) or fixed_override(key) is not None


def is_secret_override(key: str) -> bool:
    """Return whether the value of a key under the prefix may be a secret."""
    return key.startswith((PREFIX + "sasl.", PREFIX + "ssl."))


def fixed_override(key: str) -> FixedKey | None:
    """Return the fixed key of this name; None if there is none."""
    return next((one for one in _FIXED_KEYS if one.name == key), None)


def iter_fixed_overrides() -> tuple[FixedKey, ...]:
    """Return all fixed keys, for the documentation."""
    return _FIXED_KEYS


def near_override(key: str) -> str | None:
    """Return a hint for an unknown key."""
    known = [one.name for one in iter_options(ConsumerReadOptions)] + [
        one.name for one in _FIXED_KEYS
    ]
    return did_you_mean(key, [*known, *(PREFIX + name for name in _CLIENT)])


def _is_client(key: str) -> bool:
    name = key.removeprefix(PREFIX)
    return key.startswith(PREFIX) and (name in _CLIENT or name.startswith(_SECURITY))


def _client_value(key: str, text: str) -> str:
    if key == PREFIX + "bootstrap.servers":
        parse_servers(text)
    return text
