"""The form of a connector's configuration: its fields from the answer of a validation. Pure.

A field left empty is a key that is not set. Keys without a field of their own, such as those of a
converter or a transform, are lines ``key=value`` of one text area.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkeep.connect.model import Json, RestError
from kafkeep.connect.rest.call import as_config, parse_json, without_nulls

PREFIX = "key:"
"""Before a configuration key in the name of its form field."""
OTHER, RAW, MODE, NAME = "other", "json", "mode", "connector"
_HIDDEN_FIELDS = ("name", "connector.class")
_FIRST = ("topics", "s3.bucket.name", "s3.region", "restore.log", "archive")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigField:
    """One key: its definition, its value and what is wrong with it."""

    key: str
    label: str
    help: str
    value: str
    default: str
    required: bool
    important: bool
    kind: str
    group: str
    choices: tuple[str, ...]
    errors: tuple[str, ...]

    @property
    def input_type(self) -> str:
        """The type of its input element; numbers stay text, as they may be references."""
        return "password" if self.kind == "PASSWORD" else "text"


@dataclass(frozen=True, slots=True)
class FieldGroup:
    """Fields under one heading; ``is_open`` when one has a value or an error."""

    title: str
    fields: tuple[ConfigField, ...]

    @property
    def is_open(self) -> bool:
        """Whether the group shows its fields at once."""
        return any(field.value or field.errors for field in self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigForm:
    """A configuration laid out as a form."""

    class_name: str
    essential: tuple[ConfigField, ...]
    groups: tuple[FieldGroup, ...]
    other: str
    error_count: int
    other_errors: tuple[str, ...] = ()
    """About keys that have no field, such as the class itself."""

    @property
    def fields(self) -> tuple[ConfigField, ...]:
        """All fields."""
        return (*self.essential, *(field for group in self.groups for field in group.fields))


def build_form(answer: Json, config: Mapping[str, str], *, with_errors: bool) -> ConfigForm:
    """Lay out ``config`` by the validation's ``answer``; without errors for a fresh form."""
    fields = [
        _field(one, config, with_errors)
        for one in answer["configs"]
        if one["definition"]["name"] not in _HIDDEN_FIELDS
    ]
    known = {field.key for field in fields} | set(_HIDDEN_FIELDS)
    essential = [field for field in fields if _is_essential(field)]
    rest = [field for field in fields if not _is_essential(field)]
    titles = dict.fromkeys(field.group for field in rest)
    hidden = [one["value"] for one in answer["configs"] if one["value"]["name"] in _HIDDEN_FIELDS]
    return ConfigForm(
        class_name=answer["name"],
        essential=tuple(sorted(essential, key=_order)),
        groups=tuple(
            FieldGroup(title, tuple(field for field in rest if field.group == title))
            for title in titles
        ),
        other="\n".join(f"{key}={text}" for key, text in config.items() if key not in known),
        error_count=answer["error_count"] if with_errors else 0,
        other_errors=tuple(text for one in hidden for text in one["errors"] if with_errors),
    )


def _is_essential(field: ConfigField) -> bool:
    return field.required or field.key in _FIRST or (field.important and bool(field.value))


def _order(field: ConfigField) -> tuple[int, bool]:
    place = _FIRST.index(field.key) if field.key in _FIRST else len(_FIRST)
    return place, not field.required


def _field(one: Json, config: Mapping[str, str], with_errors: bool) -> ConfigField:
    definition, value = one["definition"], one["value"]
    key = definition["name"]
    offered = [str(choice) for choice in value["recommended_values"] if choice is not None]
    if definition["type"] == "BOOLEAN":
        offered = ["true", "false"]
    return ConfigField(
        key=key,
        label=definition["display_name"] or key,
        help=definition["documentation"] or "",
        value=config.get(key, ""),
        default=definition["default_value"] or "",
        required=definition["required"],
        important=definition["importance"] == "HIGH",
        kind=definition["type"],
        group=definition["group"] or "Other",
        choices=tuple(offered),
        errors=tuple(value["errors"]) if with_errors else (),
    )


def parse_form(form: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration that a form holds; RestError 400 when its text is wrong."""
    if form.get(MODE) == RAW:
        return without_nulls(
            as_config(parse_json(form.get(RAW, "").encode(), numbers_as_text=True))
        )
    config = {
        name.removeprefix(PREFIX): text.strip()
        for name, text in form.items()
        if name.startswith(PREFIX) and text.strip()
    }
    return {**config, **parse_lines(form.get(OTHER, "").splitlines())}


def parse_lines(lines: Sequence[str]) -> dict[str, str]:
    """Return the keys of lines ``key=value``; RestError 400 for a line that is none."""
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        key, equals, text = line.partition("=")
        if not equals or not key.strip():
            raise RestError(400, f"Line {number} is not key=value: {line!r}")
        found[key.strip()] = text.strip()
    return found


def format_raw(config: Mapping[str, str]) -> str:
    """Return a configuration as the raw tab shows it."""
    return json.dumps(dict(config), indent=2, ensure_ascii=False)
