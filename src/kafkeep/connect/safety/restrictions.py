"""Restrictions on connectors from the REST API: client rights, addresses and files.

A caller who may define a connector must not be able to read the machine's files, to run code on it
or to send requests in its name. Configurations are checked with their references resolved, when
they are sent and again when a job starts, because a reference may have changed since.

A cloud's metadata service answers requests to link-local addresses with the machine's credentials,
so these addresses are refused in every notation. Host names are not looked up. Where a name could
lead to such an address, list the allowed hosts in ``kafkeep.outbound.hosts``.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from kafkeep.connect.worker.config_providers import FromProvider
from kafkeep.connect.worker.keys import RestrictionOptions
from kafkeep.connect.worker.options import WorkerOptions
from kafkeep.errors import UsageError
from kafkeep.kafka.security.client_config import LOGIN_MODULES, check_properties, parse_jaas
from kafkeep.options.config_files import check_path
from kafkeep.options.kafka import parse_servers
from kafkeep.options.storage import ArchiveAddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_SPECIAL = tuple(
    map(
        ipaddress.ip_network,
        (
            "169.254.0.0/16",
            "fe80::/10",
            "fd00:ec2::/32",
            "100.100.100.200/32",
            "168.63.129.16/32",
            "192.0.0.192/32",
        ),
    )
)
"""Link-local addresses, and the metadata addresses of clouds outside of them."""
_SPECIAL_NAMES = (
    "metadata",
    "metadata.google.internal",
    "instance-data",
    "instance-data.ec2.internal",
)
_OLD_FORM = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+)){0,3}", re.IGNORECASE)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_STRANGE = re.compile(r"[\s\x00-\x1f\x7f\\]")
_ZONE = re.compile(r"%.*$")


def url_problem(url: str, allowed: Iterable[str] = ()) -> str | None:
    """Return why a URL may not be called, None when it may. The reason does not repeat it."""
    whole = url.strip() if "://" in url else f"http://{url.strip()}"
    if _STRANGE.search(whole):
        return "has a blank, a backslash or a control character in it"
    try:
        parts = urlsplit(whole)
        host = parts.hostname
        _port = parts.port
    except ValueError:
        return "is not an address"
    if parts.scheme.lower() not in ("http", "https"):
        return f"begins with {parts.scheme}:, but must be an http:// or https:// address"
    return host_problem(host or "", allowed)


def host_problem(host: str, allowed: Iterable[str] = ()) -> str | None:
    """Return why a host may not be called, None when it may."""
    name = unicodedata.normalize("NFKC", host).strip("[]").rstrip(".").lower()
    if not name:
        return "has no host"
    if "%" in name and ":" not in name:
        return "has a % in its host"
    address = parse_address(name)
    listed = tuple(allowed)
    if _is_listed(name, address, listed):
        return None
    if listed:
        return f"names the host {name}, which is not in kafkeep.outbound.hosts"
    if name in _SPECIAL_NAMES or (address is not None and is_special(address)):
        return (
            f"names {name}, a metadata address that serves the machine's credentials; to allow "
            f"it, add it to kafkeep.outbound.hosts"
        )
    return None


def parse_address(name: str) -> Address | None:
    """Parse an IP address, also in the old notations that the system's parser accepts.

    ``2852039166``, ``0xa9fea9fe``, ``0251.0376.169.254`` and ``169.254.43518`` are one address.
    """
    try:
        return ipaddress.ip_address(_ZONE.sub("", name))
    except ValueError:
        pass
    if _OLD_FORM.fullmatch(name) is None:
        return None
    try:
        return ipaddress.IPv4Address(socket.inet_aton(name))
    except OSError:
        return None


def is_special(address: Address) -> bool:
    """Return True for a link-local or metadata address, also inside an IPv6 address."""
    return any(one in network for one in _inside(address) for network in _SPECIAL)


def _inside(address: Address) -> Iterator[Address]:
    """Yield an address, and the IPv4 addresses that an IPv6 address contains."""
    yield address
    if isinstance(address, ipaddress.IPv6Address):
        for inner in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())):
            if inner is not None:
                yield inner
        if address in _NAT64 or int(address) >> 32 == 0:  # also the old ::169.254.169.254
            yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def _is_listed(name: str, address: Address | None, allowed: tuple[str, ...]) -> bool:
    for one in (entry.lower().rstrip(".") for entry in allowed):
        if one == name or (one.startswith("*.") and name.endswith(one[1:])):
            return True
        try:
            if address is not None and address in ipaddress.ip_network(one, strict=False):
                return True
        except ValueError:
            continue
    return False


OVERRIDE = re.compile(r"(consumer|producer|admin)\.override\.(.+)")
PRINCIPAL_KEYS = ("sasl.jaas.config", "sasl.mechanism", "security.protocol")
_CODE = ("plugin.library.paths", "interceptor.classes", "metric.reporters")
"""Properties that name code to run, beside unsupported ones of _RIGHTS."""
_RIGHTS = ("security.", "sasl.", "ssl.")
_URL_KEY = re.compile(r"(.*[._])?(urls?|uri|endpoint|schema\.registry)", re.IGNORECASE)
_ARCHIVE_KEY = re.compile(r"(.*\.)?archive")
_REFUSED_REFERENCE = (
    "the value of its reference is refused; kafkeep.outbound.hosts and kafkeep.allowed.folders "
    "list what is allowed"
)


def check_connector(config: Mapping[str, str], worker: WorkerOptions) -> dict[str, str]:
    """Return the problems by key; empty when the connector is allowed.

    No problem repeats any part of a value from a config provider.
    """
    wrong: dict[str, str] = {}
    for key, text in config.items():
        override = OVERRIDE.fullmatch(key)
        refused = _policy_problem(override[2], worker.restrictions) if override else None
        if refused is None and (problem := _problem(key, text.strip(), worker)):
            refused = (
                _REFUSED_REFERENCE if isinstance(text, FromProvider) and text.words else problem
            )
        if refused is not None:
            wrong[key] = refused
    return wrong


def _problem(key: str, text: str, worker: WorkerOptions) -> str | None:
    restrictions = worker.restrictions
    override = OVERRIDE.fullmatch(key)
    if override and (refused := _code_problem(override[2], text)):
        return refused
    if not text:
        return None
    if override and key.endswith("jaas.config"):
        return _jaas_problem(text)
    checks: tuple[tuple[bool, Callable[[], str | None]], ...] = (
        (bool(override) and key.endswith("bootstrap.servers"), lambda: _servers(text, worker)),
        (_names_a_file(key), lambda: _file_problem(text, worker)),
        (_URL_KEY.fullmatch(key) is not None, lambda: _url_problems(text, restrictions)),
        (_is_archive(key, text), lambda: _archive_problem(text, restrictions)),
    )
    return next((check() for applies, check in checks if applies), None)


def _names_a_file(key: str) -> bool:
    name = key.lower()
    if name.endswith(".location") and "ssl." in name.removesuffix(".location"):
        return True
    return f".{name}".endswith(".schema.registry.config")


def _policy_problem(name: str, restrictions: RestrictionOptions) -> str | None:
    if restrictions.policy == "All" or (
        restrictions.policy == "Principal" and name in PRINCIPAL_KEYS
    ):
        return None
    return (
        f"The '{restrictions.policy}' policy does not allow '{name}' to be overridden in the "
        f"connector configuration."
    )


def _code_problem(name: str, text: str) -> str | None:
    if name.startswith(_RIGHTS):
        try:
            check_properties({"security.protocol": "SASL_SSL", name: text})
        except UsageError as error:
            return f"refused: {error.message}"
    return "refused: it names code to run" if text and name in _CODE else None


def _jaas_problem(text: str) -> str | None:
    try:
        module = parse_jaas(text)
    except UsageError as error:
        return error.message
    if module.name in LOGIN_MODULES.values():
        return None
    known = ", ".join(dict.fromkeys(LOGIN_MODULES.values()))
    return f"login module {module.name} is refused; there are {known}"


def _servers(text: str, worker: WorkerOptions) -> str | None:
    own = worker.kafka.servers + worker.consumer.servers + worker.producer.servers
    try:
        others = [host for host, port in parse_servers(text) if (host, port) not in own]
    except UsageError as error:
        return error.message
    problems = (host_problem(host, worker.restrictions.kafkeep_outbound_hosts) for host in others)
    return next((problem for problem in problems if problem), None)


def _url_problems(text: str, restrictions: RestrictionOptions) -> str | None:
    urls = [one.strip() for one in text.split(",") if one.strip()]
    problems = (url_problem(one, restrictions.kafkeep_outbound_hosts) for one in urls)
    return next((problem for problem in problems if problem), None)


def _file_problem(text: str, worker: WorkerOptions) -> str | None:
    """Allow the worker's own key stores, and files in an allowed folder."""
    clients = (worker.kafka, worker.consumer, worker.producer)
    if text in {value for client in clients for value in client.properties.values()}:
        return None
    return _folder_problem(text, worker.restrictions)


def _is_archive(key: str, text: str) -> bool:
    return _ARCHIVE_KEY.fullmatch(key) is not None or text.lower().startswith("file:")


def _archive_problem(text: str, restrictions: RestrictionOptions) -> str | None:
    try:
        address = ArchiveAddress.parse(text)
    except UsageError as error:
        return error.message
    return _folder_problem(address.path, restrictions) if address.kind == "file" else None


def _folder_problem(path: str, restrictions: RestrictionOptions) -> str | None:
    key = "kafkeep.allowed.folders"
    folders = restrictions.kafkeep_allowed_folders
    if not folders:
        return f"names a folder of this machine; to allow it, set {key} in the worker's file"
    try:
        check_path(path)
    except UsageError:
        return "is not a path"
    plain, real = Path(os.path.normpath(path)), Path(path).resolve()
    if not any(plain.is_relative_to(os.path.normpath(folder)) for folder in folders):
        return f"is not under {key}"
    if not any(real.is_relative_to(Path(folder).resolve()) for folder in folders):
        return f"leads out of {key}"
    return None
