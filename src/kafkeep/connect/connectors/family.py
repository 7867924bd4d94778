"""What a family of connectors is: classes of one maker, their keys, and what these mean here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from kafkeep.connect.connectors.fixed_keys import FixedKey
from kafkeep.options.option import Option, iter_options

ConnectorKind = Literal["sink", "source"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """A configuration in kafkeep's own keys.

    ``texts`` stand in for keys that are not given; ``called`` says which key of the maker's an
    own key comes from, so that errors name what people wrote. ``notes`` are for people.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    instead: Mapping[str, str | None] = field(default_factory=dict)
    """Stand in also for keys that are given; None takes a key away. What is told to a converter
    goes with it."""
    called: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""
    """Where in the bucket the archive begins."""
    notes: tuple[str, ...] = ()

    def over(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return a configuration in kafkeep's keys."""
        gone = tuple(f"{key}." for key in self.instead if key.endswith(".converter"))
        kept = {k: v for k, v in given.items() if not k.startswith(gone)}
        found = {**self.texts, **kept, **self.instead}
        return {key: text for key, text in found.items() if text is not None}

    def in_their_words(self, wrong: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
        """Return errors by the keys people wrote."""
        return {
            key if key in given else self.called.get(key, key): why for key, why in wrong.items()
        }


def _as_it_is(_texts: Mapping[str, str], _name: str) -> Meaning:
    return Meaning()


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Classes that are configured alike; the first name is the one to show.

    ``groups`` declare keys beside those of every connector; ``translate`` turns a configuration
    and the connector's name into its meaning, and raises ConfigErrors by the maker's keys.
    """

    name: str
    kind: ConnectorKind
    classes: tuple[str, ...]
    groups: tuple[type, ...] = ()
    fixed_keys: tuple[FixedKey, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Keys that mean the same as others, under names of the maker's."""
    extra: tuple[Option, ...] = ()
    """Options of a backup that the class has too, under the same names."""
    below: tuple[str, ...] = ()
    """Keys that begin like this belong to the family too."""
    translate: Callable[[Mapping[str, str], str], Meaning] = _as_it_is
    region: str | None = None

    def knows(self, key: str) -> bool:
        """Tell whether a key is one of the family's own."""
        return key in self.keys or key.startswith(self.below) or self.fixed_key(key) is not None

    @property
    def keys(self) -> frozenset[str]:
        """The names of its options."""
        declared = [one.name for group in self.groups for one in iter_options(group)]
        return frozenset([*declared, *self.renamed, *(one.name for one in self.extra)])

    def fixed_key(self, key: str) -> FixedKey | None:
        """Return what is said of a key that needs no code."""
        return next((one for one in self.fixed_keys if one.name == key), None)
