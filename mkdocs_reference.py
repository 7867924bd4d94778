"""Pages of the site that are generated from the code: every option, and every call of REST."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum
from html import escape
from pathlib import Path
from typing import Any

import typer.main

from kafkeep import __version__
from kafkeep.cli.main import app
from kafkeep.connect.rest.app import ENDPOINTS
from kafkeep.connect.rest.openapi import openapi_document

_KINDS = {int: "INTEGER", float: "NUMBER", Path: "PATH"}


def format_options() -> str:
    """Return a page with every command, its arguments and options, as the parser knows them."""
    lines = [
        "# All options",
        "",
        "This page is generated from the parser of `kafkeep`. [The command line](../cli.md)"
        " explains the commands, their output and their exit codes.",
    ]
    for name, command in _commands("kafkeep", typer.main.get_command(app)):
        lines += ["", f"## {name}", "", escape(command.help or "", quote=False), ""]
        lines += ["| option | value | default | |", "|---|---|---|---|"]
        lines += [_option(param) for param in command.params]
    return "\n".join(lines) + "\n"


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if not children:
        yield name, command
        return
    for child, inner in children.items():
        yield from _commands(f"{name} {child}", inner)


def _option(param: Any) -> str:
    if param.param_type_name == "argument":
        names = f"`{(param.metavar or param.name).upper()}`"
    else:
        names = ", ".join(f"`{name}`" for name in [*param.opts, *param.secondary_opts])
    value = "" if getattr(param, "is_flag", False) else f"`{param.metavar or _kind(param)}`"
    variable = f" Or the variable `{param.envvar}`." if param.envvar else ""
    repeat = " May be repeated." if param.multiple and "repeated" not in (param.help or "") else ""
    return _row(names, value, _default(param), f"{_cell(param.help)}{repeat}{variable}")


def _kind(param: Any) -> str:
    kind = param.type_descriptor.annotation
    if issubclass(kind, Enum):
        return "|".join(str(one.value) for one in kind)
    return _KINDS.get(kind, "TEXT")


def _default(param: Any) -> str:
    if getattr(param, "is_flag", False) or param.default in (None, ()):
        return "required" if param.required else ""
    value = param.default.value if isinstance(param.default, Enum) else param.default
    return f"`{value}`"


def format_rest() -> str:
    """Return a page with every call of the REST API and every schema it names."""
    document = rest_document()
    lines = [
        "# REST calls and schemas",
        "",
        "This page is generated from the OpenAPI document of `kafkeep serve`, which is also here as"
        " [openapi.json](openapi.json). [The REST API](../rest.md) explains the calls.",
        "",
        "| call | parameters | body | answers | role |",
        "|---|---|---|---|---|",
    ]
    for path, operations in document["paths"].items():
        lines += [_call(method, path, one) for method, one in operations.items()]
    lines += ["", "## Schemas"]
    for name, schema in sorted(document["components"]["schemas"].items()):
        text = json.dumps(schema, indent=2, ensure_ascii=False)
        lines += ["", f"### {name}", "", "```json", text, "```"]
    return "\n".join(lines) + "\n"


def rest_document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    return openapi_document(ENDPOINTS, __version__)


def _call(method: str, path: str, operation: dict[str, Any]) -> str:
    asked = [f"`{one['name']}`" for one in operation["parameters"] if one["in"] == "query"]
    answers = [
        f"{status} {_schema(response)}".strip()
        for status, response in operation["responses"].items()
        if status != "default"
    ]
    call = f"`{method.upper()} {path}`<br>{_cell(operation['summary'])}"
    body = _schema(operation.get("requestBody", {}))
    return _row(call, ", ".join(asked), body, ", ".join(answers), operation.get("x-role", "anyone"))


def _schema(message: dict[str, Any]) -> str:
    for content in message.get("content", {}).values():
        name = content["schema"].get("$ref", "").rpartition("/")[2]
        if name:
            return f"[{name}](#{name.lower()})"
    return ""


def _cell(text: str | None) -> str:
    return escape(text or "", quote=False).replace("|", "\\|").replace("\n", " ")


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
