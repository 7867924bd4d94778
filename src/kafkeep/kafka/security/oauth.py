"""Tokens for SASL/OAUTHBEARER: by client credentials from an identity provider, or from a file."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping

from kafka.net.sasl.oauth import AbstractTokenProvider

from kafkeep.errors import AccessDeniedError, UsageError
from kafkeep.options.files import load_text

_TIMEOUT_SECONDS = 10
_SPARE_SECONDS = 30
_MAX_ANSWER_BYTES = 1 << 20


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Gets a token when the last one is about to expire; used on the client's loop."""

    def __init__(self, endpoint: str, options: Mapping[str, str]) -> None:
        super().__init__()
        scheme = urllib.parse.urlsplit(endpoint).scheme
        if scheme not in ("http", "https", "file"):
            raise UsageError("sasl.oauthbearer.token.endpoint.url must be http, https or file")
        if scheme != "file" and not (options.get("clientId") and options.get("clientSecret")):
            raise UsageError("sasl.jaas.config needs clientId and clientSecret for OAUTHBEARER")
        self._endpoint = endpoint
        self._options = dict(options)
        self._token = ""
        self._until = 0.0

    def token(self) -> str:
        """Return a token that is still good for a while."""
        if urllib.parse.urlsplit(self._endpoint).scheme == "file":
            return self._from_file()
        if time.monotonic() >= self._until:
            self._token, seconds = self._ask()
            self._until = time.monotonic() + max(0, seconds - _SPARE_SECONDS)
        return self._token

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions, given as ``extension_<name>`` options."""
        prefix = "extension_"
        return {k[len(prefix) :]: v for k, v in self._options.items() if k.startswith(prefix)}

    def _from_file(self) -> str:
        path = urllib.request.url2pathname(urllib.parse.urlsplit(self._endpoint).path)
        try:
            return load_text(path).strip()
        except UsageError as error:
            raise AccessDeniedError(f"the token: {error.message}") from error

    def _ask(self) -> tuple[str, int]:
        form = {"grant_type": "client_credentials"}
        if self._options.get("scope"):
            form["scope"] = self._options["scope"]
        login = f"{self._options['clientId']}:{self._options['clientSecret']}".encode()
        request = urllib.request.Request(
            self._endpoint,
            data=urllib.parse.urlencode(form).encode(),
            headers={
                "Accept": "application/json",
                "Authorization": "Basic " + base64.b64encode(login).decode(),
                "Content-Type": "application/x-www-form-urlencoded",
            },
        )
        opener = urllib.request.build_opener(_NoRedirects)
        try:
            with opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                document = json.loads(answer.read(_MAX_ANSWER_BYTES))
            return str(document["access_token"]), int(document.get("expires_in", 300))
        except urllib.error.HTTPError as error:
            with error:
                raise AccessDeniedError(
                    f"the token endpoint {self._endpoint} answered {error.code}"
                ) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise AccessDeniedError(
                f"no token from {self._endpoint}: {type(error).__name__}"
            ) from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Client secrets go to the endpoint that was named and nowhere else."""

    def redirect_request(self, *args: object, **kwargs: object) -> None:
        """Follow nothing."""
