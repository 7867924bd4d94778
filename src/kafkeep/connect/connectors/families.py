"""All connector classes, and the search for a class by its name."""

from __future__ import annotations

from collections.abc import Mapping

from kafkeep.connect.connectors import aiven, chtbd, confluent, lenses, spredfast
from kafkeep.connect.connectors.family import ConnectorKind, Family
from kafkeep.errors import UsageError
from kafkeep.options.backup import BackupOptions
from kafkeep.options.option import did_you_mean, iter_options

OURS = "kafkeep.Backup"
OUR_SOURCE = "kafkeep.Restore"
_OWN_KEYS = (
    *("interval", "on.gap", "segment.bytes", "segment.age", "cycle.bytes", "cycle.time"),
    *("schema.registry", "schema.registry.config"),
)
_EXTRA = tuple(one for one in iter_options(BackupOptions) if one.name in _OWN_KEYS)
FAMILIES: tuple[Family, ...] = (
    confluent.SINK,
    Family(name="kafkeep", kind="sink", classes=(OURS,), extra=_EXTRA),
    spredfast.SINK,
    chtbd.SINK,
    chtbd.PAIR,
    aiven.SINK,
    lenses.SINK,
    confluent.SOURCE,
    Family(name="kafkeep", kind="source", classes=(OUR_SOURCE,)),
    spredfast.SOURCE,
    chtbd.SOURCE,
)
CLASSES: Mapping[str, Family] = {name: one for one in FAMILIES for name in one.classes}
"""All families, by the full name of each class."""


def short_names(full: str) -> tuple[str, str]:
    """Return the short names of a class: the last part, with and without ``Connector``."""
    last = full.rpartition(".")[2]
    return last, last.removesuffix("Connector")


def matches(name: str) -> tuple[str, ...]:
    """Return the full class names that a name may mean.

    If several classes share a short name, Confluent's is meant: configurations that use it were
    written for that class.
    """
    bare = name.strip()
    if bare in CLASSES:
        return (bare,)
    found = tuple(full for full in CLASSES if bare in short_names(full))
    of_confluent = tuple(full for full in found if CLASSES[full].name == confluent.SINK.name)
    return of_confluent[:1] or found


def find_family(name: str, kind: ConnectorKind | None = None) -> Family:
    """Return the family of a class; UsageError if there is none, or if it is of the other kind."""
    found = matches(name)
    if len(found) != 1:
        known = [full for full in CLASSES if kind in (None, CLASSES[full].kind)]
        near = did_you_mean(name, known)
        what = f"there are {', '.join(known)}" + (f". {near}" if near else "")
        raise UsageError(f"there is no connector class {name}; {what}")
    family = CLASSES[found[0]]
    if kind is not None and family.kind != kind:
        raise UsageError(f"{found[0]} is a {family.kind} connector, not a {kind}")
    return family
