"""A family: connector classes of one maker, their keys, and the translation into kafkeep's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from kafkeep.connect.connectors.fixed_keys import FixedKey
from kafkeep.errors import UsageError
from kafkeep.options.option import Option, iter_options

ConnectorKind = Literal["sink", "source"]
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedConfig:
    """A configuration translated into kafkeep's keys.

    ``texts`` are values for keys that are not given. ``called`` maps kafkeep's keys to the maker's,
    so that errors name the key in the configuration. ``notes`` are warnings for the user.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    instead: Mapping[str, str | None] = field(default_factory=dict)
    """Values that replace given keys; None removes a key. The keys under a converter go with it."""
    called: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    """The prefix of the archive in the bucket."""
    notes: tuple[str, ...] = ()

    def over(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return a configuration in kafkeep's keys."""
        gone = tuple(f"{key}." for key in self.instead if key.endswith(".converter"))
        kept = {k: v for k, v in given.items() if not k.startswith(gone)}
        found = {**self.texts, **kept, **self.instead}
        return {key: text for key, text in found.items() if text is not None}

    def by_given_key(self, wrong: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
        """Return the errors by the keys of the user's configuration."""
        return {
            key if key in given else self.called.get(key, key): why for key, why in wrong.items()
        }


def _as_it_is(_texts: Mapping[str, str], _name: str) -> TranslatedConfig:
    return TranslatedConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Classes with the same keys; the first name is the one to show.

    ``groups`` declare keys in addition to those of every connector. ``translate`` turns a
    configuration and the connector's name into its meaning; its ConfigErrors name the maker's keys.
    """

    name: str
    kind: ConnectorKind
    classes: tuple[str, ...]
    groups: tuple[type, ...] = ()
    fixed_keys: tuple[FixedKey, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    """The maker's names of keys that kafkeep has under other names."""
    extra: tuple[Option, ...] = ()
    """Options of a backup that the class takes under the same names."""
    below: tuple[str, ...] = ()
    """Prefixes of further keys of the family."""
    translate: Callable[[Mapping[str, str], str], TranslatedConfig] = _as_it_is
    region: str | None = None

    def has_key(self, key: str) -> bool:
        """Return whether a key is one of the family's own."""
        return key in self.keys or key.startswith(self.below) or self.fixed_key(key) is not None

    @property
    def keys(self) -> frozenset[str]:
        """The names of the family's own options."""
        declared = [one.name for group in self.groups for one in iter_options(group)]
        return frozenset([*declared, *self.renamed, *(one.name for one in self.extra)])

    def fixed_key(self, key: str) -> FixedKey | None:
        """Return the family's fixed key of this name; None if there is none."""
        return next((one for one in self.fixed_keys if one.name == key), None)


def interval_ms(text: str) -> int:
    """Parse the interval at which a source checks for new commits."""
    bare = text.strip()
    if not bare.isdecimal() or not 1 <= int(bare) <= _DAY_MS:
        raise UsageError(f"{text!r} is not a number of milliseconds from 1 to a day")
    return int(bare)
