"""Print the table of worker keys in ``docs/serve.md``.

``python -m kafkeep.connect.worker.keys_page`` prints the page from its last heading on. A test
compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from kafkeep.connect.connectors.fixed_keys import FixedKey, KeySupport
from kafkeep.connect.connectors.keys_page import Row, group_rows
from kafkeep.connect.worker.config_providers import CLASSES, PACKAGE, PREFIX
from kafkeep.connect.worker.fixed_keys import KEYS, UNDER
from kafkeep.connect.worker.keys import GROUPS, REST
from kafkeep.connect.worker.options import CLIENTS, PLAIN, STARTS
from kafkeep.connect.worker.rest_security import CLIENT_AUTH
from kafkeep.connect.worker.rest_security import PREFIX as LISTENER

HEADING = "## The worker's keys"
_INTRO = f"""\
{HEADING}

**honoured**: the key works as in Connect. **always so**: kafkeep always does what the key asks for,
and refuses other values. **refused**: kafkeep does not start, and says why. At the start, a warning
names every key that is not in this table and suggests the nearest one. The table is generated from
the declarations in the code.
"""


def iter_sections() -> Iterator[tuple[str, list[Row]]]:
    """Yield the tables with their headings."""
    for heading, groups in GROUPS.items():
        own = [row for group in groups for row in group_rows(group)]
        yield heading, [*own, *(_listener_rows() if heading == REST else ())]
    yield "Defaults of connectors", _default_rows()
    yield "Kafka's clients", _client_rows()
    yield "Config providers", _provider_rows()
    yield "Spark", [_row("spark.…", "A setting of the Spark session, for instance spark.master.")]
    yield "Others", [_fixed_row(key) for key in (*KEYS, *UNDER)]


def iter_rows() -> Iterator[Row]:
    """Yield every key of the table."""
    for _heading, rows in iter_sections():
        yield from rows


def format_part() -> str:
    """Return the part of the page that is made from the code."""
    parts = [_INTRO]
    for heading, rows in iter_sections():
        lines = ["| key | type | default | | |", "|---|---|---|---|---|", *map(_format_row, rows)]
        parts.append(f"### {heading}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _listener_rows() -> list[Row]:
    stores = (
        "ssl.keystore.…, ssl.truststore.…, ssl.key.password, ssl.protocol, ssl.enabled.protocols"
    )
    return [
        _row(
            f"{LISTENER}ssl.…",
            f"Keys of an https listener: {stores} and ssl.client.auth. If one of them is set, "
            "keys without the prefix are for Kafka's clients alone; otherwise for both.",
        ),
        Row(
            CLIENT_AUTH,
            "string",
            "none",
            KeySupport.HONOURED,
            "required: callers need a certificate that the trust store knows. requested: a "
            "certificate is optional, but must be known. Also under the prefix.",
        ),
    ]


def _default_rows() -> list[Row]:
    rows = [
        _row(
            f"{role}.converter",
            "The default for connectors that write files of a format and set no converter, with "
            "the keys under it. A connector that sets one brings its own keys.",
        )
        for role in ("key", "value", "header")
    ]
    return [
        *rows,
        _row("….converter.…", "Sub-keys of these three, as in connectors."),
        _row("consumer.auto.offset.reset", "As consumer.override.auto.offset.reset of connectors."),
        _row("consumer.isolation.level", "As consumer.override.isolation.level of connectors."),
    ]


def _client_rows() -> list[Row]:
    plain = [_row(name, "For all clients.") for name in PLAIN]
    rights = [_row(f"{start}…", "Security of all clients, with Java's names.") for start in STARTS]
    uses = {
        "consumer": "what sinks read with",
        "producer": "what restores write with",
        "admin": "what reads topics and groups",
    }
    own = [
        _row(
            f"{name}.…",
            f"Overrides keys without a prefix for {uses[name]}, also bootstrap.servers.",
        )
        for name in CLIENTS
    ]
    return [*plain, *rights, *own]


def _provider_rows() -> list[Row]:
    names = ", ".join(PACKAGE + name for name in CLASSES)
    return [
        _row(PREFIX, "Names of providers, for references ${name:path:key} in any value.", "list"),
        _row(f"{PREFIX}.<name>.class", f"{names}; others are refused."),
        _row(
            f"{PREFIX}.<name>.param.allowed.paths",
            "Files and folders that may be read; unless set, none.",
            "list",
        ),
        _row(
            f"{PREFIX}.<name>.param.allowlist.pattern",
            "Variables that may be read: a regular expression for whole names; unless set, none.",
        ),
    ]


def _row(key: str, sentence: str, kind: str = "string") -> Row:
    return Row(key, kind, "", KeySupport.HONOURED, sentence)


def _fixed_row(key: FixedKey) -> Row:
    name = key.name + "…" if key.name.endswith(".") else key.name
    return Row(name, key.type, key.default, key.support, key.sentence)


def _format_row(row: Row) -> str:
    shown = row.default if row.default in ("", "required") else f"`{row.default}`"
    sentence = row.sentence.replace("<", "\\<")
    cells = (f"`{row.key}`", row.type, shown, row.support.value, sentence)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    sys.stdout.write(format_part())
