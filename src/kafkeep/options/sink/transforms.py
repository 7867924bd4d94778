"""A chain of transforms, parsed from Connect's keys.

``transforms=a,b`` names the steps in order. ``transforms.a.type`` is the class of a step,
``transforms.a.<option>`` are its options, and ``transforms.a.predicate`` and ``.negate`` select the
records it applies to. ``predicates=p`` and ``predicates.p.<option>`` declare the predicates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafkeep.errors import UsageError
from kafkeep.options.option import ConfigErrors, did_you_mean, iter_options, parse_group
from kafkeep.options.sink import transform_options as given_as
from kafkeep.options.sink import transform_options as other

PACKAGE = "org.apache.kafka.connect.transforms."
PREDICATE_PACKAGE = PACKAGE + "predicates."
SINETSTREAM_PACKAGE = "jp.ad.sinet.sinetstream.connect.transforms."
OWN_PACKAGE = "kafkeep.transforms."
SIDES = ("Key", "Value")

SIDED: Mapping[str, type] = {
    "InsertField": given_as.InsertFieldOptions,
    "ReplaceField": given_as.ReplaceFieldOptions,
    "MaskField": given_as.MaskFieldOptions,
    "ExtractField": given_as.ExtractFieldOptions,
    "HoistField": given_as.HoistFieldOptions,
    "Flatten": given_as.FlattenOptions,
    "Cast": given_as.CastOptions,
    "TimestampConverter": given_as.TimestampConverterOptions,
    "HeaderFrom": given_as.HeaderFromOptions,
    "SetSchemaMetadata": given_as.SetSchemaMetadataOptions,
    "ByteArrayCast": other.WholeOrFieldOptions,
    "StringCast": other.WholeOrFieldOptions,
    "ParseJson": other.WholeOrFieldOptions,
    "MicrosecondTimestampConverter": given_as.TimestampConverterOptions,
}
"""Transforms of the key or the value: ``InsertField$Key``, ``InsertField$Value``."""
WHOLE: Mapping[str, type] = {
    "ValueToKey": given_as.ValueToKeyOptions,
    "InsertHeader": given_as.InsertHeaderOptions,
    "DropHeaders": given_as.DropHeadersOptions,
    "RegexRouter": given_as.RegexRouterOptions,
    "TimestampRouter": given_as.TimestampRouterOptions,
    "Filter": given_as.NoOptions,
    "CsvLine": other.CsvLineOptions,
}
PREDICATES: Mapping[str, type] = {
    "TopicNameMatches": given_as.TopicNameMatchesOptions,
    "HasHeaderKey": given_as.HasHeaderKeyOptions,
    "RecordIsTombstone": given_as.NoOptions,
}
_SINETSTREAM = ("ByteArrayCast", "StringCast", "ParseJson", "MicrosecondTimestampConverter")
_STEP_KEYS = ("type", "predicate", "negate")


@dataclass(frozen=True, slots=True)
class PredicateSpec:
    """A declared predicate."""

    alias: str
    kind: str
    options: Any


@dataclass(frozen=True, slots=True)
class TransformSpec:
    """A step of the chain; it is sent to tasks."""

    alias: str
    kind: str
    """Connect's class without package and side: ``InsertField``."""
    side: str | None
    """``Key`` or ``Value``; None for a transform of whole records."""
    options: Any
    predicate: PredicateSpec | None = None
    negate: bool = False


class _Wrong(dict[str, str]):
    """The errors found so far, by key; the first error of a key stays."""

    def add(self, key: str, why: str) -> None:
        self.setdefault(key, why)


def parse_transforms(given: Mapping[str, str]) -> tuple[TransformSpec, ...]:
    """Parse the chain; ignore keys that are not about transforms.

    ConfigErrors names all errors at once.
    """
    wrong = _Wrong()
    predicates = {
        alias: _parse_predicate(alias, _under(f"predicates.{alias}.", given), wrong)
        for alias in _aliases("predicates", given, wrong)
    }
    specs = [
        _parse_step(alias, _under(f"transforms.{alias}.", given), predicates, wrong)
        for alias in _aliases("transforms", given, wrong)
    ]
    if wrong:
        raise ConfigErrors(wrong)
    return tuple(spec for spec in specs if spec is not None)


def known_transform_keys(given: Mapping[str, str]) -> frozenset[str]:
    """Return the keys of ``given`` that ``parse_transforms`` reads.

    Settings of a step or predicate that no list names are not included.
    """
    known = {"transforms", "predicates"} & set(given)
    for what in ("transforms", "predicates"):
        for alias in _aliases(what, given, _Wrong()):
            known |= {key for key in given if key.startswith(f"{what}.{alias}.")}
    return frozenset(known)


def _aliases(what: str, given: Mapping[str, str], wrong: _Wrong) -> tuple[str, ...]:
    names = [name.strip() for name in given.get(what, "").split(",")]
    if names == [""]:
        return ()
    if not all(names):
        wrong.add(what, "a name is empty; write names as a,b,c")
    if len(set(names)) != len(names):
        wrong.add(what, "a name is repeated")
    return tuple(dict.fromkeys(name for name in names if name))


def _under(prefix: str, given: Mapping[str, str]) -> dict[str, str]:
    return {
        key.removeprefix(prefix): value for key, value in given.items() if key.startswith(prefix)
    }


def _parse_step(
    alias: str,
    given: Mapping[str, str],
    predicates: Mapping[str, PredicateSpec | None],
    wrong: _Wrong,
) -> TransformSpec | None:
    prefix = f"transforms.{alias}."
    predicate, negate = _parse_choice(prefix, given, predicates, wrong)
    try:
        kind, side = _parse_type(given.get("type", ""))
    except UsageError as error:
        wrong.add(prefix + "type", _sentence(error))
        return None
    group = SIDED[kind] if side else WHOLE[kind]
    options = _parse_options(kind, group, prefix, given, _STEP_KEYS, wrong)
    return TransformSpec(alias, kind, side, options, predicate, negate)


def _parse_choice(
    prefix: str,
    given: Mapping[str, str],
    predicates: Mapping[str, PredicateSpec | None],
    wrong: _Wrong,
) -> tuple[PredicateSpec | None, bool]:
    name = given.get("predicate", "").strip()
    if name and name not in predicates:
        near = did_you_mean(name, predicates)
        wrong.add(
            prefix + "predicate",
            f"there is no predicate {name} in predicates" + (f". {near}" if near else ""),
        )
    negate = given.get("negate", "false").strip().lower()
    if negate not in {"true", "false"}:
        wrong.add(prefix + "negate", f"{given['negate']!r} is neither true nor false")
    if "negate" in given and not name:
        wrong.add(prefix + "negate", "there is no predicate to negate")
    return predicates.get(name), negate == "true"


def _parse_predicate(alias: str, given: Mapping[str, str], wrong: _Wrong) -> PredicateSpec | None:
    prefix = f"predicates.{alias}."
    kind = given.get("type", "").strip().removeprefix(PREDICATE_PACKAGE)
    if kind not in PREDICATES:
        wrong.add(prefix + "type", _sentence(_unknown("predicate", kind, PREDICATES)))
        return None
    options = _parse_options(kind, PREDICATES[kind], prefix, given, ("type",), wrong)
    return PredicateSpec(alias, kind, options)


def _parse_type(text: str) -> tuple[str, str | None]:
    """Return kind and side of a class name, with its package or without."""
    name = text.strip()
    kind, dollar, side = name.rpartition(".")[2].partition("$")
    if name not in (short := f"{kind}{dollar}{side}", transform_package(kind) + short):
        kind = name
    if kind in SIDED and side not in SIDES:
        raise UsageError(f"{kind} is for keys or values: write {kind}$Key or {kind}$Value")
    if kind in SIDED:
        return kind, side
    if kind in WHOLE and not dollar:
        return kind, None
    known = [f"{name}$Key" for name in SIDED] + [f"{name}$Value" for name in SIDED] + list(WHOLE)
    raise _unknown("transform", name.removeprefix(PACKAGE), known)


def transform_package(kind: str) -> str:
    """Return the package of a transform's class, with its dot."""
    if kind == "CsvLine":
        return OWN_PACKAGE
    return SINETSTREAM_PACKAGE if kind in _SINETSTREAM else PACKAGE


def _unknown(what: str, name: str, known: Iterable[str]) -> UsageError:
    names = sorted(known)
    if not name:
        return UsageError(f"missing: the {what}s are {', '.join(names)}")
    return UsageError(
        f"unknown {what} {name}; use one of {', '.join(names)}",
        hint=did_you_mean(name, names),
    )


def _parse_options(  # noqa: PLR0917
    kind: str,
    group: type,
    prefix: str,
    given: Mapping[str, str],
    apart: tuple[str, ...],
    wrong: _Wrong,
) -> Any:
    known = [option.name for option in iter_options(group)]
    for key in given:
        if key not in known and key not in apart:
            near = did_you_mean(key, known)
            wrong.add(prefix + key, f"{kind} has no such option" + (f". {near}" if near else ""))
    try:
        return parse_group(group, given)
    except ConfigErrors as error:
        for key, why in error.by_key.items():
            wrong.add(prefix + key, why)
    return None


def _sentence(error: UsageError) -> str:
    return f"{error.message}. {error.hint}" if error.hint else error.message
