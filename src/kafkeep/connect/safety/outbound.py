"""Which addresses connectors may make the service call. Pure: no name is looked up.

Whoever may define a connector makes the service send requests. Cloud machines answer requests to
link-local addresses with the machine's own credentials, so these are refused however they are
written. A name that leads to such an address is found out by nobody here: name the hosts that may
be called (``kafkeep.outbound.hosts``) where that matters.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import unicodedata
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

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
"""Link-local, and where clouds keep their metadata outside of it."""
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
    """Say why an address may not be called; None when it may. The text itself is not repeated."""
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
    """Say why a host may not be called; None when it may."""
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
            f"names {name}, where machines keep their own credentials; if that is meant, "
            f"kafkeep.outbound.hosts has to name it"
        )
    return None


def parse_address(name: str) -> Address | None:
    """Read an IP address, also in the old forms that the system's own parser takes.

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
    """Tell whether an address is link-local or a cloud's metadata, also inside an IPv6 one."""
    return any(one in network for one in _inside(address) for network in _SPECIAL)


def _inside(address: Address) -> Iterator[Address]:
    """Yield the address, and those an IPv6 address stands for."""
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
