"""Which settings of S3 cannot work on this machine; nothing is asked of the store.

Files are read, and a proxy is connected to. Both are bounded in time.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

import botocore.session
from botocore.exceptions import (
    ConfigNotFound,
    ConfigParseError,
    ProfileNotFound,
    UnknownRegionError,
)

from kafkeep.config.storage import StorageOptions

PROXY_SECONDS = 3.0
"""How long an answer of a proxy is waited for, the resolution of its name included."""
Setting = Literal["profile", "region", "proxy_url"]


def setting_problems(
    options: StorageOptions, *, proxy_seconds: float = PROXY_SECONDS
) -> dict[Setting, str]:
    """Return what is wrong, by setting; empty when requests can be sent."""
    found = {
        "profile": _profile_problem(options),
        "region": _region_problem(options),
        "proxy_url": _proxy_problem(options, proxy_seconds),
    }
    return {name: why for name, why in found.items() if why}  # type: ignore[misc]


def _profile_problem(options: StorageOptions) -> str | None:
    name = options.profile
    if name is None or options.access_key is not None:
        return None
    try:
        session = botocore.session.Session(profile=name)
        profile = session.get_scoped_config()
        source = profile.get("source_profile")
        if source is not None and source not in session.available_profiles:
            return f"profile {name} names source_profile {source}, which {_FILES} do not have"
    except ProfileNotFound:
        return f"there is no profile {name}: {_FILES} do not have it"
    except (ConfigNotFound, ConfigParseError, OSError, UnicodeDecodeError):
        return f"profile {name} cannot be read: {_FILES} are damaged or not readable"
    return None


_FILES = "the AWS files of this worker (~/.aws/config, ~/.aws/credentials)"


def _region_problem(options: StorageOptions) -> str | None:
    """Look for a partition of Amazon's that the region fits; another maker's may be anything."""
    if options.region is None or not options.is_amazon:
        return None
    try:
        botocore.session.get_session().get_partition_for_region(options.region)
    except UnknownRegionError:
        return f"{options.region} is no region of Amazon's; write it as in eu-central-1"
    return None


def _proxy_problem(options: StorageOptions, seconds: float) -> str | None:
    if options.proxy_url is None:
        return None
    parts = urlsplit(options.proxy_url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    place = f"{host}:{port}"
    failed: Mapping[str, Any] = _try_to_connect(host, port, seconds)
    match failed.get("error"):
        case None if failed:
            return None
        case None | TimeoutError():
            return f"the proxy {place} does not answer within {seconds:g} s"
        case socket.gaierror() | UnicodeError():
            return f"the proxy {place} cannot be found: its name is not known here"
        case error:
            return f"the proxy {place} cannot be reached: {error.strerror or error}"


def _try_to_connect(host: str, port: int, seconds: float) -> Mapping[str, Any]:
    """Return ``error``, None when the connection stood; empty when time ran out.

    In a thread of its own, for the system's resolver knows no timeout.
    """
    result: dict[str, Any] = {}

    def connect() -> None:
        try:
            socket.create_connection((host, port), timeout=seconds).close()
        except (OSError, UnicodeError) as error:
            result["error"] = error
        else:
            result["error"] = None

    thread = threading.Thread(target=connect, name="proxy check", daemon=True)
    thread.start()
    thread.join(seconds)
    return dict(result)
