"""What a request carries: its body within the limit, JSON read strictly, configurations as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from starlette.requests import Request

from kafkeep.connect.model import RestError
from kafkeep.connect.rest.answers import plain_error

_MAX_KEYS = 1000
_MAX_KEY_LENGTH = 1000
"""Every key is compared with patterns, in every answer and log line."""
_DRAIN_BYTES = 64 << 20
"""How much of a body that is too long is read and thrown away, so that the client hears why."""


async def read_body(request: Request, limit_bytes: int) -> bytes:
    """Return the body; 413 beyond the limit, 415 when something else than JSON is sent."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit_bytes and "expect" in request.headers:
        raise _too_large(limit_bytes)
    chunks: list[bytes] = []
    seen = 0
    async for chunk in request.stream():
        seen += len(chunk)
        if seen > limit_bytes:
            chunks.clear()
            if seen > _DRAIN_BYTES:
                break
        else:
            chunks.append(chunk)
    if seen > limit_bytes:
        raise _too_large(limit_bytes)
    body = b"".join(chunks)
    if body and not _is_json(request.headers.get("content-type", "")):
        raise plain_error(415)
    return body


def _too_large(limit_bytes: int) -> RestError:
    return RestError(413, f"The body is longer than {limit_bytes} bytes, which is the limit here")


def _is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "application/json"


def parse_json(body: bytes, *, numbers_as_text: bool = False) -> Any:
    """Return the JSON value of a body; 400 says what is wrong with it.

    ``numbers_as_text`` keeps numbers as they were written: a configuration's values are texts.
    """
    if not body.strip():
        raise RestError(400, "The body is empty where JSON is needed")
    as_number: dict[str, Any] = {"parse_int": str, "parse_float": str} if numbers_as_text else {}
    try:
        value = json.loads(body.decode("utf-8-sig"), parse_constant=_refuse_constant, **as_number)
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise RestError(400, "The body is nested too deeply") from None
    except UnicodeError:
        raise RestError(400, "The body is not UTF-8") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise RestError(400, f"The body is not JSON: {error.msg} at {where}") from None
    except ValueError:
        raise RestError(400, "The body is not JSON: it has a number that cannot be read") from None
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def parse_object(body: bytes, known: tuple[str, ...]) -> dict[str, Any]:
    """Return a body that is an object with no other fields than ``known``; numbers stay numbers."""
    return _known_fields(parse_json(body), known)


def parse_creation(body: bytes) -> dict[str, Any]:
    """Return the object of POST /connectors; numbers in it are texts."""
    value = parse_json(body, numbers_as_text=True)
    return _known_fields(value, ("name", "config", "initial_state"))


def _known_fields(value: Any, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RestError(400, "The body must be a JSON object")
    for key in value:
        if key not in known:
            raise RestError(400, f'Unrecognized field "{key}" (known are: {", ".join(known)})')
    return value


def parse_config(body: bytes) -> dict[str, str | None]:
    """Return a body that is a flat configuration."""
    return as_config(parse_json(body, numbers_as_text=True))


def as_config(value: Any) -> dict[str, str | None]:
    """Return a configuration as Connect reads one: numbers and truth values become texts."""
    if not isinstance(value, dict):
        raise RestError(400, "A connector's configuration must be a JSON object of texts")
    if len(value) > _MAX_KEYS:
        raise RestError(400, f"A connector's configuration has at most {_MAX_KEYS} keys")
    config: dict[str, str | None] = {}
    for key, item in value.items():
        if len(key) > _MAX_KEY_LENGTH:
            raise RestError(400, f"A key has at most {_MAX_KEY_LENGTH} characters")
        if isinstance(item, bool):
            config[key] = "true" if item else "false"
        elif item is None or isinstance(item, str):
            config[key] = item
        else:
            raise RestError(400, f'The value of "{key}" must be a text, not an object or a list')
    return config


def without_nulls(config: Mapping[str, str | None]) -> dict[str, str]:
    """Return a configuration that is to be kept; a null in it is an error, as in Connect."""
    nulls = [key for key, value in config.items() if value is None]
    if nulls:
        raise invalid_config(
            [f"Null value can not be supplied as the configuration value: {key}" for key in nulls]
        )
    return {key: value for key, value in config.items() if value is not None}


def invalid_config(errors: list[str]) -> RestError:
    """Return the error that lists everything wrong with a configuration, worded as Connect does."""
    lines = "\n".join(errors)
    return RestError(
        400,
        f"Connector configuration is invalid and contains the following {len(errors)} error(s):\n"
        f"{lines}\nYou can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`",
    )
