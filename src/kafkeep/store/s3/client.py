"""The boto3 client of a store: one per process and options.

``Digests`` computes the checksums of requests, with which the store detects transmission errors.
``setting_problems`` finds settings that cannot work on this machine. It reads files and connects to
the proxy with a timeout, and sends no request to the store.
"""

from __future__ import annotations

import base64
import hashlib
import socket
import threading
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import quote, urlsplit, urlunsplit

import boto3
import botocore.handlers
import botocore.loaders
import botocore.session
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import (
    ConfigNotFound,
    ConfigParseError,
    ProfileNotFound,
    UnknownRegionError,
)
from botocore.utils import determine_content_length
from isal import isal_zlib

from kafkeep.options.storage import StorageOptions
from kafkeep.redact import remember
from kafkeep.retry import STORE
from kafkeep.store.per_process import PerProcess


class Digests:
    """The CRC32 of the added bytes, and their MD5 if the options ask for it."""

    def __init__(self, *, md5: bool) -> None:
        self._crc = 0
        self._md5 = hashlib.md5(usedforsecurity=False) if md5 else None

    def update(self, data: memoryview) -> None:
        """Add bytes."""
        self._crc = isal_zlib.crc32(data, self._crc)
        if self._md5 is not None:
            self._md5.update(data)

    def arguments(self) -> dict[str, str]:
        """Return the arguments of a request that sends these bytes."""
        arguments = {"ChecksumCRC32": _base64(self._crc.to_bytes(4, "big"))}
        if self._md5 is not None:
            arguments["ContentMD5"] = _base64(self._md5.digest())
        return arguments


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


EXPECT_FROM_BYTES = 1 << 20
"""Bodies below this size are sent without Expect: 100-continue, which costs a round trip."""
_models = botocore.loaders.create_loader()
"""The service models of boto3. Loading takes 0.2 s, so all clients share them."""


def load_models() -> None:
    """Load boto3's model of S3, which later clients share, also after a fork."""
    _connect(
        StorageOptions(
            access_key="-", secret_key="-", region="us-east-1", endpoint="http://127.0.0.1"
        )
    ).close()


def _connect(options: StorageOptions) -> Any:
    core = botocore.session.get_session()
    core.register_component("data_loader", _models)
    session = boto3.Session(
        botocore_session=core,
        aws_access_key_id=options.access_key,
        aws_secret_access_key=options.secret_key,
        aws_session_token=options.session_token,
        profile_name=None if options.access_key else options.profile,
        region_name=options.region,
    )
    _remember_secrets(options, core)
    region = session.region_name or ("us-east-1" if options.endpoint else None)
    verify = options.ca_file if options.verify_tls and options.ca_file else options.verify_tls
    client = session.client(
        "s3",
        endpoint_url=options.endpoint,
        region_name=region,
        config=_config(options),
        verify=verify,
    )
    client.meta.events.unregister("before-call.s3", botocore.handlers.add_expect_header)
    if options.expect_continue:
        client.meta.events.register("before-call.s3", _expect_before_large)
    return client


client_of = PerProcess(_connect)
"""Returns the client of this process for its options."""


def _remember_secrets(options: StorageOptions, core: Any) -> None:
    """Register the credentials for redaction in logs and tracebacks of this process."""
    remember(
        options.secret_key, options.session_token, options.customer_key, options.proxy_password
    )
    if options.secret_key is None:
        found = core.get_credentials()
        if type(found) is Credentials:  # reading other kinds would fetch new credentials
            remember(found.secret_key, found.token)


def _expect_before_large(model: Any, params: dict[str, Any], **_rest: Any) -> None:
    size = determine_content_length(params.get("body"))
    if size is None or size >= EXPECT_FROM_BYTES:
        botocore.handlers.add_expect_header(model, params)


def _config(options: StorageOptions) -> Config:
    style = "path" if options.uses_path_style else "auto"
    # With a custom endpoint, boto3's "auto" puts the bucket into the path anyway.
    s3: dict[str, Any] = {"addressing_style": "virtual" if options.path_style is False else style}
    # The signed checksum covers the body. Signing it too would hash it again on both sides.
    s3["payload_signing_enabled"] = False
    if options.accelerate:
        s3["use_accelerate_endpoint"] = True
    proxy = proxy_address(options)
    return Config(
        s3=s3,
        # boto3 must not retry: RetryingStore and the writer need to know each attempt's outcome.
        retries={"mode": "standard", "total_max_attempts": 1},
        connect_timeout=10,
        read_timeout=STORE.answer_s,
        max_pool_connections=32,
        # The accelerated endpoint conflicts with any other, such as one from the environment.
        ignore_configured_endpoint_urls=options.accelerate or None,
        # Without a proxy in the options, boto3 uses the one of the environment.
        proxies={"http": proxy, "https": proxy} if proxy else None,
        # kafkeep sends its own checksum, because not every store supports boto3's trailers.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )


def proxy_address(options: StorageOptions) -> str | None:
    """Return the proxy's address with its credentials, as boto3 expects it."""
    if not options.proxy_url or not options.proxy_user:
        return options.proxy_url or None
    parts = urlsplit(options.proxy_url)
    login = quote(options.proxy_user, safe="")
    if options.proxy_password:
        login += ":" + quote(options.proxy_password, safe="")
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{login}@{host}"))


PROXY_SECONDS = 3.0
"""The timeout for connecting to a proxy, including name resolution."""
Setting = Literal["profile", "region", "proxy_url"]


def setting_problems(
    options: StorageOptions, *, proxy_seconds: float = PROXY_SECONDS
) -> dict[Setting, str]:
    """Return the problem of each setting that cannot work. Empty when all settings can work."""
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
    """Compare the region with Amazon's regions. Other vendors may use any region name."""
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
    address = f"{host}:{port}"
    failed: Mapping[str, Any] = _try_to_connect(host, port, seconds)
    match failed.get("error"):
        case None if failed:
            return None
        case None | TimeoutError():
            return f"the proxy {address} does not answer within {seconds:g} s"
        case socket.gaierror() | UnicodeError():
            return f"the proxy {address} cannot be found: its name is not known here"
        case error:
            return f"the proxy {address} cannot be reached: {error.strerror or error}"


def _try_to_connect(host: str, port: int, seconds: float) -> Mapping[str, Any]:
    """Return a map with ``error``, which is None on success. Return an empty map after a timeout.

    The connection runs in its own thread, because the system's resolver has no timeout.
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
