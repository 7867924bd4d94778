"""Keys of the worker's file, declared: the same names as in ``connect-distributed.properties``."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from kafkeep.archive.names import check_log_name
from kafkeep.config.choose import one_of, positive
from kafkeep.config.kafka import parse_servers
from kafkeep.config.option import option
from kafkeep.config.storage import ArchiveAddress
from kafkeep.connect.rest.security import DEFAULT_BODY_LIMIT_BYTES
from kafkeep.errors import UsageError

DEFAULT_PORT = 8083
BASIC_AUTH = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
POLICIES = ("All", "None", "Principal")
_POLICY_PACKAGE = "org.apache.kafka.connect.connector.policy."
_POLICY_CLASS = "ConnectorClientConfigOverridePolicy"
_EVERYWHERE = ("", "0.0.0.0", "::")


def _servers(text: str) -> str:
    parse_servers(text)
    return text.strip()


def _group(text: str) -> str:
    try:
        return check_log_name(text.strip())
    except ValueError as error:
        raise UsageError(f"{text!r} cannot be the name of a folder") from error


def _address(text: str) -> str:
    ArchiveAddress.parse(text.strip())
    return text.strip()


def _port(text: str) -> int:
    if not text.strip().isdecimal() or not 0 <= int(text) < 65536:
        raise UsageError(f"{text!r} is not a port")
    return int(text)


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _folders(text: str) -> tuple[str, ...]:
    for folder in _list(text):
        if not folder.startswith("/"):
            raise UsageError(f"{folder!r} is not an absolute path")
    return _list(text)


def _listener(text: str) -> tuple[str, int] | None:
    found = _list(text)
    if not found:
        return None
    if len(found) > 1:
        raise UsageError("there is one listener; a proxy in front may have more")
    parts = urlsplit(found[0].lower())
    if parts.scheme == "https":
        raise UsageError("there is no https here; a proxy in front of the service may speak it")
    try:
        port = DEFAULT_PORT if parts.port is None else parts.port
    except ValueError as error:
        raise UsageError(f"{text!r} has no port from 0 to 65535") from error
    if parts.scheme != "http" or parts.path not in ("", "/"):
        raise UsageError(f"{text!r} is not http://host:port")
    return parts.hostname or "", port


def _policy(text: str) -> str:
    name = text.strip().removeprefix(_POLICY_PACKAGE).removesuffix(_POLICY_CLASS)
    return one_of("the policy", *POLICIES)(name)


def _extensions(text: str) -> tuple[str, ...]:
    for name in _list(text):
        if name not in (BASIC_AUTH, BASIC_AUTH.rpartition(".")[2]):
            raise UsageError(f"{name} is a Java class that cannot run here; there is {BASIC_AUTH}")
    return _list(text)


@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """Which service this worker is part of."""

    bootstrap_servers: str = option(
        "bootstrap.servers",
        "Kafka brokers to begin with: host:port,host:port.",
        parse=_servers,
        metavar="HOST:PORT,…",
    )
    group_id: str = option(
        "group.id",
        "The name of the service: its state lies in a folder of this name under kafkeep.state. "
        "Workers with one group.id and one state share their connectors.",
        default="kafkeep",
        parse=_group,
    )
    kafkeep_state: str = option(
        "kafkeep.state",
        "Where connectors and what they are told to be are kept: s3://bucket/prefix, or a folder. "
        "Workers on several machines need a bucket or a shared folder.",
        default="~/.local/state/kafkeep",
        parse=_address,
        metavar="ADDRESS",
    )
    kafkeep_lease_timeout_ms: int = option(
        "kafkeep.lease.timeout.ms",
        "After so long without a sign of life of the worker that runs the connectors, another one "
        "takes over.",
        default=10_000,
        parse=positive("kafkeep.lease.timeout.ms"),
        metavar="MS",
    )

    @property
    def state_address(self) -> str:
        """Where this service's state lies."""
        return str(ArchiveAddress.parse(f"{self.kafkeep_state.rstrip('/')}/{self.group_id}"))


@dataclass(frozen=True, kw_only=True)
class RestOptions:
    """Where the REST API is, and who may call it."""

    listeners: tuple[str, int] | None = option(
        "listeners",
        "Where the REST API listens: http://host:port, one address. Without a host, everywhere; "
        "then users or tokens are needed.",
        default=None,
        parse=_listener,
        metavar="URL",
    )
    rest_host_name: str = option(
        "rest.host.name",
        "The address to listen on, where listeners is not set.",
        default="127.0.0.1",
        parse=str.strip,
    )
    rest_port: int = option(
        "rest.port",
        "The port to listen on, where listeners is not set; 0 takes a free one.",
        default=DEFAULT_PORT,
        parse=_port,
    )
    rest_advertised_host_name: str | None = option(
        "rest.advertised.host.name",
        "The name others call this worker by; it stands in worker_id.",
        default=None,
        parse=lambda text: text.strip() or None,
    )
    rest_advertised_port: int | None = option(
        "rest.advertised.port",
        "The port others call this worker at.",
        default=None,
        parse=lambda text: _port(text) if text.strip() else None,
    )
    rest_advertised_listener: str = option(
        "rest.advertised.listener",
        "http: there is no other.",
        default="http",
        parse=lambda text: one_of("the listener", "http")(text.strip().lower()),
    )
    rest_extension_classes: tuple[str, ...] = option(
        "rest.extension.classes",
        f"{BASIC_AUTH} demands kafkeep.rest.users.file; other classes are refused.",
        default=(),
        parse=_extensions,
    )
    kafkeep_rest_users_file: str | None = option(
        "kafkeep.rest.users.file",
        "Users with passwords (Basic), a line each: name:role:argon2 hash. Roles are read, operate "
        "and admin. kafkeep user prints a line.",
        default=None,
        parse=lambda text: text.strip() or None,
        metavar="FILE",
    )
    kafkeep_rest_tokens_file: str | None = option(
        "kafkeep.rest.tokens.file",
        "Bearer tokens, a line each: role:token, or role:sha256:digest in hex.",
        default=None,
        parse=lambda text: text.strip() or None,
        metavar="FILE",
    )
    kafkeep_rest_hosts: tuple[str, ...] = option(
        "kafkeep.rest.hosts",
        "More names this service is called by; the advertised one and addresses always are. A "
        "request for another Host is refused (DNS rebinding); * takes all.",
        default=(),
        parse=_list,
    )
    kafkeep_rest_body_limit_bytes: int = option(
        "kafkeep.rest.body.limit.bytes",
        "Larger requests are refused.",
        default=DEFAULT_BODY_LIMIT_BYTES,
        parse=positive("kafkeep.rest.body.limit.bytes"),
        metavar="BYTES",
    )
    kafkeep_rest_insecure: bool = option(
        "kafkeep.rest.insecure",
        "Listen beyond this machine although nobody has to say who they are.",
        default=False,
    )

    @property
    def host(self) -> str:
        """The address to bind."""
        host = self.rest_host_name if self.listeners is None else self.listeners[0]
        return host or "0.0.0.0"

    @property
    def port(self) -> int:
        """The port to bind; 0 means a free one."""
        return self.rest_port if self.listeners is None else self.listeners[1]

    @property
    def advertised_host(self) -> str:
        """The name others call this worker by."""
        if self.rest_advertised_host_name:
            return self.rest_advertised_host_name
        return socket.gethostname() if self.host in _EVERYWHERE else self.host

    def worker_id(self, bound_port: int | None = None) -> str:
        """Return ``host:port`` as statuses tell it; a port of 0 is known once it is bound."""
        port = self.rest_advertised_port or bound_port or self.port
        return f"{_in_brackets(self.advertised_host)}:{port}"

    def url(self, bound_port: int | None = None) -> str:
        """Return the address other workers reach this one at."""
        return f"{self.rest_advertised_listener}://{self.worker_id(bound_port)}"


@dataclass(frozen=True, kw_only=True)
class TrackingOptions:
    """Whether the topics of connectors are told."""

    topic_tracking_enable: bool = option(
        "topic.tracking.enable",
        "Whether GET /connectors/…/topics tells the topics a connector has used.",
        default=True,
    )
    topic_tracking_allow_reset: bool = option(
        "topic.tracking.allow.reset", "Whether that list may be emptied.", default=True
    )


@dataclass(frozen=True, kw_only=True)
class GuardOptions:
    """What connectors may ask for that were defined over the REST API."""

    connector_client_config_override_policy: str = option(
        "connector.client.config.override.policy",
        "Which consumer.override.…, producer.override.… and admin.override.… keys connectors may "
        "have: All, None, or Principal: sasl.jaas.config, sasl.mechanism and security.protocol.",
        default="All",
        parse=_policy,
    )
    kafkeep_outbound_hosts: tuple[str, ...] = option(
        "kafkeep.outbound.hosts",
        "Hosts that addresses in connectors may name: names, *.domain, addresses, networks "
        "(10.0.0.0/8). Unless set, all but link-local and metadata addresses; those only if named.",
        default=(),
        parse=_list,
    )
    kafkeep_allowed_folders: tuple[str, ...] = option(
        "kafkeep.allowed.folders",
        "Folders of this machine in which connectors may have archives (file:///…) and key and "
        "trust stores. Unless set, none.",
        default=(),
        parse=_folders,
    )

    @property
    def policy(self) -> str:
        """All, None or Principal."""
        return self.connector_client_config_override_policy


GROUPS: dict[str, tuple[type, ...]] = {
    "The service": (ServiceOptions,),
    "The REST API": (RestOptions, TrackingOptions),
    "What connectors may do": (GuardOptions,),
}


def _in_brackets(host: str) -> str:
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host
