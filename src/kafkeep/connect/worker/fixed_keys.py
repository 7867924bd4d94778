"""Keys of a Connect worker with a fixed meaning: always on, or not supported."""

from __future__ import annotations

from kafkeep.connect.connectors.fixed_keys import FixedKey, any_number, any_text, any_truth, only

_STATE = "Connectors and their target states are stored under kafkeep.state, not in a topic."
_OFFSETS = (
    "The archive's log holds a connector's offsets, and the group connect-<name> shows them to "
    "Kafka's tools: there is no topic of offsets."
)
_STATUS = "The worker that runs the connectors knows their states: there is no such topic."
_GROUP = (
    "Workers are not members of a Kafka group. One worker runs the connectors, elected through "
    "kafkeep.state; see kafkeep.lease.timeout.ms."
)
_INTERNAL = (
    "Workers authenticate to each other with a secret in the state store, which needs no setting."
)
_METRICS = "Metrics are at /metrics, in Prometheus's format."
_TUNING = "Tunes Java's clients; it has no effect on what is stored."


def _empty(text: str) -> bool:
    return not text


def _number(name: str, default: str, sentence: str) -> FixedKey:
    return FixedKey(name, "int", default, sentence, any_number)


def _text(name: str, sentence: str, default: str = "") -> FixedKey:
    return FixedKey(name, "string", default, sentence, any_text)


KEYS = (
    _text("config.storage.topic", _STATE),
    _number("config.storage.replication.factor", "3", _STATE),
    _text("offset.storage.topic", _OFFSETS),
    _number("offset.storage.partitions", "25", _OFFSETS),
    _number("offset.storage.replication.factor", "3", _OFFSETS),
    _text("offset.storage.file.filename", _OFFSETS),
    _text("status.storage.topic", _STATUS),
    _number("status.storage.partitions", "5", _STATUS),
    _number("status.storage.replication.factor", "3", _STATUS),
    _number(
        "offset.flush.interval.ms",
        "60000",
        "Offsets are committed with every commit of the log, not at an interval.",
    ),
    _number("offset.flush.timeout.ms", "5000", "As offset.flush.interval.ms."),
    _text(
        "plugin.path",
        "Java classes cannot be loaded; GET /connector-plugins lists the classes there are.",
    ),
    _text("plugin.discovery", "As plugin.path.", "hybrid_warn"),
    _number(
        "task.shutdown.graceful.timeout.ms",
        "5000",
        "Unfinished work is not visible, and is done again at the next start.",
    ),
    _text("internal.key.converter", "The state is JSON."),
    _text("internal.value.converter", "The state is JSON."),
    _number("session.timeout.ms", "10000", _GROUP),
    _number("heartbeat.interval.ms", "3000", _GROUP),
    _number("rebalance.timeout.ms", "60000", _GROUP),
    _number("scheduled.rebalance.max.delay.ms", "300000", _GROUP),
    _number("worker.sync.timeout.ms", "3000", _GROUP),
    _number("worker.unsync.backoff.ms", "300000", _GROUP),
    _text("connect.protocol", _GROUP, "sessioned"),
    FixedKey(
        "exactly.once.source.support",
        "string",
        "disabled",
        "A restore writes each record once, without transactions, for every value.",
        only("disabled", "preparing", "enabled"),
    ),
    FixedKey(
        "topic.creation.enable",
        "boolean",
        "true",
        "A restore creates missing topics with the settings they had.",
        only("true"),
    ),
    _text("metric.reporters", _METRICS),
    FixedKey("auto.include.jmx.reporter", "boolean", "true", _METRICS, any_truth),
    _number("metrics.num.samples", "2", _METRICS),
    _number("metrics.sample.window.ms", "30000", _METRICS),
    _text("metrics.recording.level", _METRICS, "INFO"),
    FixedKey(
        "access.control.allow.origin",
        "string",
        "",
        "Pages of other origins may not call the API.",
        _empty,
    ),
    FixedKey(
        "access.control.allow.methods",
        "string",
        "",
        "Pages of other origins may not call the API.",
        _empty,
    ),
    FixedKey(
        "admin.listeners",
        "string",
        "",
        "/admin is on the same listeners; setting log levels needs the role admin.",
        _empty,
    ),
    FixedKey(
        "response.http.headers.config",
        "string",
        "",
        "Answers have security headers for browsers; a proxy may add others.",
        _empty,
    ),
    *(
        _text(name, _TUNING)
        for name in (
            "client.dns.lookup",
            "connections.max.idle.ms",
            "metadata.max.age.ms",
            "metadata.recovery.rebootstrap.trigger.ms",
            "metadata.recovery.strategy",
            "receive.buffer.bytes",
            "reconnect.backoff.max.ms",
            "reconnect.backoff.ms",
            "retry.backoff.max.ms",
            "retry.backoff.ms",
            "send.buffer.bytes",
            "socket.connection.setup.timeout.max.ms",
        )
    ),
)

UNDER = (
    _text("inter.worker.", _INTERNAL),
    _text("config.storage.", _STATE),
    _text("offset.storage.", _OFFSETS),
    _text("status.storage.", _STATUS),
    _text("metrics.context.", _METRICS),
    _text("confluent.license", "kafkeep needs no license."),
    _text("confluent.topic.", "kafkeep keeps no license topic."),
    _text("log4j.", "Log levels are set at /admin/loggers; kafkeep --debug shows everything."),
)
"""Keys by their prefix."""

_BY_NAME = {key.name: key for key in KEYS}


def worker_fixed_key(name: str) -> FixedKey | None:
    """Return the fixed key of that name, or with that prefix; None when there is none."""
    found = _BY_NAME.get(name)
    return found or next((key for key in UNDER if name.startswith(key.name)), None)
