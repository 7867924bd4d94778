"""Kafka client properties in the worker's file, with and without a client's prefix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafkeep.connect.worker.fixed_keys import worker_fixed_key
from kafkeep.connect.worker.listener_tls import is_listener_key
from kafkeep.errors import UsageError
from kafkeep.kafka.security.client_config import check_properties
from kafkeep.options.kafka import KafkaOptions

CLIENTS = ("consumer", "producer", "admin")
PLAIN = ("client.id", "request.timeout.ms", "socket.connection.setup.timeout.ms")
STARTS = ("security.", "sasl.", "ssl.")
READ_DEFAULTS = ("auto.offset.reset", "isolation.level")
"""Keys under ``consumer.`` that are defaults of connectors, not of the client."""
_PREFIXES = tuple(f"{name}." for name in CLIENTS)


def is_client_key(key: str) -> bool:
    """Return True for a key of the worker's file about a Kafka client."""
    if is_listener_key(key) or worker_fixed_key(key) is not None:
        return False
    return key in PLAIN or key.startswith((*STARTS, *_PREFIXES))


class ClientReader:
    """Parses a worker's clients; adds errors to ``wrong``, by key, and warnings to ``notes``."""

    def __init__(
        self,
        texts: Mapping[str, str],
        wrong: dict[str, str],
        notes: list[str],
        *,
        listener_has_ssl: bool = False,
    ) -> None:
        """Create it; with ``listener_has_ssl`` plain ``ssl.`` keys may be the listener's alone."""
        self._texts = texts
        self._listener_has_ssl = listener_has_ssl
        self._wrong = wrong
        self._notes = notes

    def read(self, name: str) -> KafkaOptions:
        """Return one client: its own keys override those without a prefix."""
        own = dict(self._properties(f"{name}."))
        servers = own.pop("bootstrap.servers", "") or self._texts.get("bootstrap.servers", "")
        properties = self._shared({**dict(self._properties("")), **own}, own)
        try:
            check_properties(properties)
        except UsageError as error:
            key = f"{name}.security.protocol" if own else "security.protocol"
            self._wrong.setdefault(key, error.message)
        try:
            return KafkaOptions(servers, properties)
        except UsageError as error:
            key = f"{name}.bootstrap.servers"
            self._wrong.setdefault(
                key if key in self._texts else "bootstrap.servers", error.message
            )
            return KafkaOptions("unknown:9092")

    def _shared(self, properties: dict[str, str], own: Mapping[str, str]) -> dict[str, str]:
        """Drop the listener's keys if this client does not use TLS."""
        if not self._listener_has_ssl or "SSL" in properties.get("security.protocol", "").upper():
            return properties
        return {k: v for k, v in properties.items() if k in own or not k.startswith("ssl.")}

    def _properties(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield the properties of the client, without unknown ones."""
        for key, text in self._texts.items():
            if not is_client_key(key) or not key.startswith(prefix):
                continue
            name = key.removeprefix(prefix)
            if not prefix and key.startswith(_PREFIXES):
                continue
            if name not in READ_DEFAULTS and not self._is_skipped(key, name, text):
                yield name, text

    def _is_skipped(self, key: str, name: str, text: str) -> bool:
        try:
            notes = check_properties({"security.protocol": "SASL_SSL", name: text})
        except UsageError as error:
            if error.message.startswith("unknown property"):
                self._notes.append(f"{key}: {error.message}")
                return True
            if name == "security.protocol":  # checked with the keys that belong to it
                return False
            self._wrong.setdefault(key, error.message)
            return True
        self._notes += [f"{key} has no effect here" for _ in notes]
        return False
