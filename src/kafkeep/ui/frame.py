"""The frame around every page: templates, navigation, headers, vendored assets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from kafkeep.connect.rest.call import to_segment
from kafkeep.ui import display

ROOT = "/ui"
STATIC = Path(__file__).parent / "static"
_TEMPLATES = Path(__file__).parent / "templates"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With no-referrer, browsers send "Origin: null" with forms, which the origin check refuses.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
VERSION = version("kafkeep")


@dataclass(frozen=True, slots=True)
class NavLink:
    """An entry of the navigation; ``shortcut`` is the key after ``g``."""

    title: str
    path: str
    shortcut: str
    icon: str
    """The id of a symbol in ``static/icons.svg``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One vendored file."""

    name: str
    version: str
    licence: str
    licence_file: str
    file: str
    integrity: str

    @property
    def path(self) -> str:
        """Where the console serves it."""
        return f"{ROOT}/static/vendor/{self.file}"


def load_assets() -> tuple[Asset, ...]:
    """Return the vendored files with their licences and integrity hashes."""
    listed = json.loads((STATIC / "vendor" / "vendor.json").read_text())
    return tuple(Asset(**one) for one in listed)


class Frame:
    """Renders templates. Undefined names are errors, and every value is escaped."""

    def __init__(
        self, navigation: Sequence[NavLink], messages: Mapping[str, str] | None = None
    ) -> None:
        self.messages = messages or {}
        self._environment = Environment(
            loader=FileSystemLoader(_TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            count=display.format_count,
            short=display.format_short,
            size=display.format_bytes,
            duration=display.format_duration,
            ago=display.format_ago,
            utc=display.format_utc,
            record_time=display.format_record_time,
            iso=display.iso_utc,
            path=lambda text: quote(text, safe=""),
            breakable=_breakable,
            visible=display.visible,
            segment=lambda name: quote(to_segment(name), safe=""),
            field_id=field_id,
        )
        assets = load_assets()
        self._environment.globals.update(
            root=ROOT,
            version=VERSION,
            navigation=tuple(navigation),
            scripts=tuple(one for one in assets if one.file.endswith(".js")),
            styles=tuple(one for one in assets if one.file.endswith(".css")),
        )

    def render(self, template: str, values: Mapping[str, Any]) -> str:
        """Return a template with its values."""
        return self._environment.get_template(template).render(values)


def _breakable(text: str) -> Markup:
    """Return a long name that may wrap after dots, slashes and hyphens."""
    shown = str(escape(text))
    for sign in (".", "/", "-", "_", "+"):
        shown = shown.replace(sign, f"{sign}<wbr>")
    return Markup(shown)


def field_id(key: str) -> str:
    """Return a configuration key as an id of HTML, unique for different keys."""
    return "".join(char if char.isascii() and char.isalnum() else f"_{ord(char):x}" for char in key)
