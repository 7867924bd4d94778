"""An HTTP client for schema registries with Confluent's API, which Apicurio offers too."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any
from urllib.parse import quote, urlsplit

import orjson
import urllib3

from kafkeep.archive.schemas import RegisteredSchema
from kafkeep.errors import AccessDeniedError, RecordError, TransientError, UsageError
from kafkeep.options.sink.converter_settings import RegistrySettings
from kafkeep.redact import remember
from kafkeep.retry import REGISTRY, RetryPolicy

_CONTENT = "application/vnd.schemaregistry.v1+json"
_IMPORT_TIMEOUT_S = 300.0
CONNECTIONS = 8
"""The number of threads that may send requests at once."""


class Registry:
    """A client of one registry, which may have several addresses. Caches schemas.

    The schema of an id never changes, so the cache does not expire. ``cache_size`` limits it. Use
    one client per process, because connections do not survive a fork.
    """

    def __init__(
        self,
        urls: tuple[str, ...],
        *,
        user: tuple[str, str] | None = None,
        token: str | None = None,
        ca_file: str | None = None,
        timeout_s: float = 10.0,
        cache_size: int = 1000,
        retry: RetryPolicy = REGISTRY,
    ) -> None:
        self._retry = retry
        self._headers = {"Accept": f"{_CONTENT}, application/json"}
        self._urls: list[str] = []
        for url in urls:
            parts = urlsplit(url)
            if parts.username and user is None:
                user = (parts.username, parts.password or "")
            self._urls.append(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl())
        if user is not None:
            remember(user[1])
            self._headers |= urllib3.make_headers(basic_auth=":".join(user))
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout = urllib3.Timeout(total=timeout_s)
        self._pool = urllib3.PoolManager(retries=False, ca_certs=ca_file, maxsize=CONNECTIONS)
        self._cache_size = cache_size
        self._schemas: dict[int, RegisteredSchema] = {}
        self._versions: dict[int, dict[str, int]] = {}
        self._named: dict[tuple[str, int], RegisteredSchema] = {}

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Return the schema of an id. Raise RecordError when the registry has none."""
        if schema_id not in self._schemas:
            answer = self._get(f"/schemas/ids/{schema_id}")
            if answer is None:
                raise RecordError(
                    f"schema id {schema_id} is not in the registry at {self._urls[0]}",
                    hint="Is this the registry that the producer uses?",
                )
            self._remember(self._schemas, schema_id, RegisteredSchema.from_json(answer))
        return self._schemas[schema_id]

    def references(self, schema: RegisteredSchema) -> dict[str, RegisteredSchema]:
        """Return the direct and indirect references of a schema, by the names in its text."""
        found: dict[str, RegisteredSchema] = {}
        waiting = list(schema.references)
        while waiting:
            one = waiting.pop()
            if one.name not in found:
                found[one.name] = self.version(one.subject, one.version)
                waiting.extend(found[one.name].references)
        return found

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """Return one version of a subject. Raise RecordError when it does not exist."""
        if (subject, version) not in self._named:
            answer = self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}")
            if answer is None:
                raise RecordError(f"version {version} of {subject} is not in the registry")
            self._remember(self._named, (subject, version), RegisteredSchema.from_json(answer))
        return self._named[subject, version]

    def versions(self, schema_id: int) -> Mapping[str, int]:
        """Return the subjects that have a schema id, with its version in each."""
        if schema_id not in self._versions:
            answer = self._get(f"/schemas/ids/{schema_id}/versions") or []
            found = {one["subject"]: int(one["version"]) for one in answer}
            self._remember(self._versions, schema_id, found)
        return self._versions[schema_id]

    def subjects(self) -> list[str]:
        """Return all subjects."""
        return list(self._get("/subjects") or [])

    def find(self, subject: str, schema: RegisteredSchema) -> int | None:
        """Return the id of a schema under a subject, or None."""
        answer = self._ask("POST", f"/subjects/{quote(subject, safe='')}", schema.to_json())
        return None if answer is None else int(answer["id"])

    def register(self, subject: str, schema: RegisteredSchema) -> int:
        """Register a schema under a subject and return its id. An equal schema keeps its id."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        answer = self._ask("POST", path, schema.to_json())
        if answer is None:
            raise RecordError(f"the registry does not take schemas for {subject}")
        return int(answer["id"])

    def _remember(self, into: dict[Any, Any], key: Any, value: Any) -> None:
        if len(into) >= max(self._cache_size, 1):
            del into[next(iter(into))]
        into[key] = value

    @property
    def address(self) -> str:
        """The first address, without credentials."""
        return self._urls[0]

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a request without the cache, and return the response. Return None for 404.

        Raise RecordError when the registry refuses it, TransientError when it does not respond.
        """
        return self._ask(method, path, body)

    def send(self, path: str, body: bytes, headers: Mapping[str, str], *, below: str) -> None:
        """Send bytes to another API of the same server, with a timeout of some minutes.

        ``below`` is the start of the path that both APIs share.
        """
        self._send("POST", path, body, headers, below, timeout_s=_IMPORT_TIMEOUT_S)

    def ask_beside(self, path: str, *, below: str) -> Any:
        """Send a GET request to another API of the same server. See ``send``."""
        return self._send("GET", path, None, {}, below)

    def _get(self, path: str) -> Any:
        return self._ask("GET", path, None)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        """Send a request, with retries, and return the response. Return None for 404."""
        data = None if body is None else orjson.dumps(body)
        return self._send(method, path, data, {} if data is None else {"Content-Type": _CONTENT})

    def _send(
        self,
        method: str,
        path: str,
        data: bytes | None,
        more: Mapping[str, str],
        below: str | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Any:
        headers = {**self._headers, **more}
        timeout = self._timeout if timeout_s is None else urllib3.Timeout(total=timeout_s)
        why = "no answer"
        for base in self._attempts():
            url = base if below is None else base.partition(below)[0]
            try:
                answer = self._pool.request(
                    method, url + path, body=data, headers=headers, timeout=timeout
                )
            except urllib3.exceptions.HTTPError as error:
                why = str(error)
                continue
            if answer.status >= 500 or answer.status == 429:
                why = f"status {answer.status}"
                continue
            return _read(answer, url, path)
        raise TransientError(f"the schema registry at {', '.join(self._urls)} fails: {why}")

    def _attempts(self) -> Iterator[str]:
        """Yield each address once, and then again with growing delays."""
        yield from self._urls
        for attempt in range(len(self._urls), self._retry.attempts or 0):
            time.sleep(self._retry.wait_s(1 + attempt - len(self._urls)))
            yield self._urls[attempt % len(self._urls)]


def _read(answer: urllib3.BaseHTTPResponse, url: str, path: str) -> Any:
    if answer.status in (401, 403):
        raise AccessDeniedError(
            f"the schema registry at {url} refuses our credentials (status {answer.status})",
            hint="Set basic.auth.credentials.source=USER_INFO and basic.auth.user.info.",
        )
    if answer.status == 404:
        return None
    if answer.status == 204:
        return {}
    if answer.status >= 300:
        reason = _error_message(answer.data)
        raise RecordError(f"the schema registry refuses {path} with status {answer.status}{reason}")
    try:
        return orjson.loads(answer.data)
    except orjson.JSONDecodeError as error:
        raise UsageError(
            f"{url} does not answer like a schema registry",
            hint="Apicurio has Confluent's API under /apis/ccompat/v7.",
        ) from error


def _error_message(body: bytes) -> str:
    """Return the message of a registry's error, or an empty text if it is not a registry's."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    known = isinstance(document, dict) and isinstance(document.get("error_code"), int)
    return f": {str(document.get('message'))[:300]}" if known else ""


@cache
def open_registry(settings: RegistrySettings) -> Registry:
    """Return the client of this process for these settings."""
    return make_registry(settings)


def make_registry(
    settings: RegistrySettings, *, timeout_s: float = 10.0, retry: RetryPolicy = REGISTRY
) -> Registry:
    """Return a client of its own, for a caller who waits shorter or retries less."""
    user_info = settings.basic_auth_user_info or settings.old_basic_auth_user_info
    name, _, password = (user_info or "").partition(":")
    return Registry(
        settings.urls,
        user=(name, password) if user_info else None,
        token=settings.bearer_token,
        ca_file=settings.truststore,
        cache_size=settings.cache_size,
        timeout_s=timeout_s,
        retry=retry,
    )


os.register_at_fork(after_in_child=open_registry.cache_clear)
