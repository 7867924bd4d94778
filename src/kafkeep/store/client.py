"""boto3's client, as our options want it: one per process and options."""

from __future__ import annotations

import os
import threading
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import boto3
import botocore.handlers
import botocore.loaders
import botocore.session
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.utils import determine_content_length

from kafkeep.config.storage import ANSWER_S, StorageOptions
from kafkeep.redact import remember

ASK_FROM_BYTES = 1 << 20
"""Smaller bodies are sent unasked: a question costs more than what it may save."""
_models = botocore.loaders.create_loader()
"""boto3's descriptions of services: 0.2 s to read, shared by all clients."""
_clients: dict[tuple[int, StorageOptions], Any] = {}
_clients_lock = threading.Lock()


def client_of(options: StorageOptions) -> Any:
    """Return this process's client: connections must not be shared with a forked child."""
    key = (os.getpid(), options)
    with _clients_lock:
        if key not in _clients:
            for old in [one for one in _clients if one[0] != key[0]]:
                del _clients[old]
            _clients[key] = _connect(options)
        return _clients[key]


def _after_fork() -> None:
    # A fork while another thread held the lock would leave it locked for ever in the child.
    global _clients_lock  # noqa: PLW0603
    _clients_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def load_models() -> None:
    """Read what boto3 knows of S3, so that clients made later, also after a fork, need not."""
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
        client.meta.events.register("before-call.s3", _ask_before_large)
    return client


def _remember_secrets(options: StorageOptions, core: Any) -> None:
    """Let logs and tracebacks of this process show none of the credentials in use."""
    remember(
        options.secret_key, options.session_token, options.customer_key, options.proxy_password
    )
    if options.secret_key is None:
        found = core.get_credentials()
        if type(found) is Credentials:  # others fetch new ones when they are looked at
            remember(found.secret_key, found.token)


def _ask_before_large(model: Any, params: dict[str, Any], **_rest: Any) -> None:
    size = determine_content_length(params.get("body"))
    if size is None or size >= ASK_FROM_BYTES:
        botocore.handlers.add_expect_header(model, params)


def _config(options: StorageOptions) -> Config:
    style = "path" if options.uses_path_style else "auto"
    # With an endpoint of its own, boto3's "auto" puts the bucket in the path all the same.
    s3: dict[str, Any] = {"addressing_style": "virtual" if options.path_style is False else style}
    # The checksum we send is signed; a digest of the body would be made twice more, here and there.
    s3["payload_signing_enabled"] = False
    if options.accelerate:
        s3["use_accelerate_endpoint"] = True
    proxy = proxy_address(options)
    return Config(
        s3=s3,
        # One attempt: what was repeated and why is for RetryingStore and the writer to know.
        retries={"mode": "standard", "total_max_attempts": 1},
        connect_timeout=10,
        read_timeout=ANSWER_S,
        max_pool_connections=32,
        # Amazon's accelerated endpoint bears no other beside it, as one that a variable names.
        ignore_configured_endpoint_urls=options.accelerate or None,
        # Without one of ours, boto3 takes the proxy that the environment names.
        proxies={"http": proxy, "https": proxy} if proxy else None,
        # We send a checksum of our own; trailers and other extras not every store understands.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )


def proxy_address(options: StorageOptions) -> str | None:
    """Return the proxy's address with the credentials in it, as boto3 takes them."""
    if not options.proxy_url or not options.proxy_user:
        return options.proxy_url or None
    parts = urlsplit(options.proxy_url)
    login = quote(options.proxy_user, safe="")
    if options.proxy_password:
        login += ":" + quote(options.proxy_password, safe="")
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{login}@{host}"))
