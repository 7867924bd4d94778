"""Paths to fields, in the two syntaxes Connect has for them."""

from __future__ import annotations

from kafkeep.errors import UsageError


def parse_field_path(text: str, version: str) -> tuple[str, ...]:
    """Return the names on the way to a field.

    ``V1`` knows fields of the root alone, dots and all. In ``V2`` a dot leads into a field, and
    backticks hold a name together that has dots itself: ```a.b`.c`` is ``("a.b", "c")``. A
    backtick ends such a name when a dot or the end follows it and no backslash stands before it.
    """
    if version == "V1":
        return (text,)
    steps: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "`":
            step, at = _quoted(text, at)
        else:
            end = text.find(".", at)
            end = len(text) if end < 0 else end
            step, at = text[at:end], end + 1
        steps.append(step)
    if not steps or text.endswith("."):
        steps.append("")
    return tuple(steps)


def _quoted(text: str, start: int) -> tuple[str, int]:
    """Read the name in backticks at ``start``; return it and where the next one begins."""
    name = ""
    begin = at = start + 1
    while (at := text.find("`", at)) >= 0:
        escaped = text[at - 1] == "\\"
        ends = at == len(text) - 1 or text[at + 1] == "."
        if ends and not escaped:
            return name + text[begin:at], at + 2
        if ends and at < len(text) - 1:
            name += text[begin : at - 1] + "`"
            begin = at + 1
        at += 1
    raise UsageError(
        f"the backtick at position {start} of the path {text!r} has no partner; "
        "a backslash before a backtick makes it part of a name"
    )
