"""``kafkeep register``: create SINETStream's two connectors from its ``.env``."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from kafkeep.cli.output import Output, OutputOption, print_json
from kafkeep.errors import AccessDeniedError, KafkeepError, TransientError, UsageError

if TYPE_CHECKING:
    import urllib3

_TIMEOUT_SECONDS = 30.0
_BUSY = (409, 503)
_PAUSES_SECONDS = (0.2, 0.5, 1.0, 2.0, 4.0)

EnvFileOption = Annotated[
    str,
    typer.Option(
        "--env-file",
        metavar="FILE",
        help="SINETStream's .env file, with topic, bucket and endpoint.",
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="KAFKEEP_URL",
        metavar="URL",
        help="Address of the service. Default: http://localhost:PORT, with the file's REST_PORT.",
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print the connectors; do not contact the service.")
]


def register_command(
    *,
    env_file: EnvFileOption = ".env",
    url: UrlOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create or update SINETStream's connectors s3-sink-data and s3-sink-timestamp.

    The settings come from SINETStream's .env file. For a service with authentication, set
    KAFKEEP_REST_TOKEN, or KAFKEEP_REST_USER and KAFKEEP_REST_PASSWORD.

    Exits with 0; 2 when a variable is missing or invalid; 12 when the service denies access; 1 when
    it does not answer.
    """
    from kafkeep.connect.worker.sinetstream_env import (  # noqa: PLC0415 - keeps --help fast
        DEFAULTS,
        read_env_file,
        sinetstream_connectors,
    )

    values = read_env_file(env_file)
    connectors = sinetstream_connectors(values)
    if dry_run:
        print_json([{"name": name, "config": config} for name, config in connectors.items()])
        return
    port = values.get("REST_PORT") or DEFAULTS["REST_PORT"]
    service = _Service(url or f"http://localhost:{port}", os.environ)
    done = {name: service.define(name, config) for name, config in connectors.items()}
    if output is Output.JSON:
        print_json({"url": service.url, "connectors": done})
        return
    for name, what in done.items():
        typer.echo(f"{name}: {what}")


class _Service:
    """A client of the Connect REST API; works with Kafka Connect itself too."""

    def __init__(self, url: str, environ: Mapping[str, str]) -> None:
        import urllib3  # noqa: PLC0415 - keeps --help fast

        if not url.startswith(("http://", "https://")):
            raise UsageError(f"{url!r} is not the address of a service, such as http://host:8083")
        self.url = url.rstrip("/")
        user, password = environ.get("KAFKEEP_REST_USER"), environ.get("KAFKEEP_REST_PASSWORD", "")
        token = environ.get("KAFKEEP_REST_TOKEN")
        basic = urllib3.make_headers(basic_auth=f"{user}:{password}") if user else {}
        bearer = {"authorization": f"Bearer {token}"} if token else {}
        self._headers = {"Content-Type": "application/json", **basic, **bearer}
        self._http: urllib3.PoolManager = urllib3.PoolManager(
            retries=False, timeout=urllib3.Timeout(total=_TIMEOUT_SECONDS)
        )

    def define(self, name: str, config: Mapping[str, str]) -> str:
        """Create or update the connector; return created, changed or unchanged."""
        path = f"/connectors/{name}/config"
        status, stored = self._call("GET", path)
        if status == 404:
            self._must("POST", "/connectors", {"name": name, "config": dict(config)})
            return "created"
        if status != 200:
            raise self._refusal("GET", path, status, stored)
        if isinstance(stored, dict) and {**stored, "name": name} == {**config, "name": name}:
            return "unchanged"
        self._must("PUT", path, dict(config))
        return "changed"

    def _must(self, method: str, path: str, body: Mapping[str, Any]) -> None:
        status, answer = self._call(method, path, body)
        for pause in _PAUSES_SECONDS:
            if status not in _BUSY:
                break
            time.sleep(pause)
            status, answer = self._call(method, path, body)
        if status not in (200, 201):
            raise self._refusal(method, path, status, answer)

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> tuple[int, Any]:
        import urllib3  # noqa: PLC0415

        sent = None if body is None else orjson.dumps(body)
        try:
            answer = self._http.request(
                method, self.url + path, body=sent, headers=self._headers, redirect=False
            )
        except urllib3.exceptions.HTTPError as error:
            raise TransientError(
                f"no service answers at {self.url}: {type(error).__name__}",
                hint="Start it with kafkeep serve --env-file .env, or give its address with --url.",
            ) from error
        try:
            return answer.status, orjson.loads(answer.data)
        except orjson.JSONDecodeError:
            return answer.status, None

    def _refusal(self, method: str, path: str, status: int, answer: Any) -> KafkeepError:
        message = answer.get("message") if isinstance(answer, dict) else None
        what = f"{method} {self.url}{path} was answered with {status}"
        if status in (401, 403):
            return AccessDeniedError(
                what + (f": {message}" if message else ""),
                hint="Set KAFKEEP_REST_TOKEN, or KAFKEEP_REST_USER and KAFKEEP_REST_PASSWORD.",
            )
        if message is None:
            return KafkeepError(
                what, hint="Is that a Kafka Connect service? Give its address with --url."
            )
        return KafkeepError(f"{what}: {message}")
