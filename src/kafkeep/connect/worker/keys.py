"""The keys of the worker's file, with the names of ``connect-distributed.properties``."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from kafkeep.archive.names import check_log_name
from kafkeep.connect.worker.rest_security import DEFAULT_BODY_LIMIT_BYTES
from kafkeep.errors import UsageError
from kafkeep.options.config_files import check_path
from kafkeep.options.kafka import parse_servers
from kafkeep.options.option import one_of, option, positive
from kafkeep.options.storage import ArchiveAddress

DEFAULT_PORT = 8083
BASIC_AUTH = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
SCHEMES = ("http", "https")
_EVERYWHERE = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Listener:
    """An address where the REST API listens, with or without TLS; port 0 means a free one."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        """Return it as in ``listeners``."""
        return f"{self.scheme}://{in_brackets(self.host)}:{self.port}"

    @property
    def is_https(self) -> bool:
        """True when callers use TLS."""
        return self.scheme == "https"

    @property
    def address(self) -> str:
        """The address to bind."""
        return self.host or "0.0.0.0"


def _port(text: str) -> int:
    if not text.strip().isdecimal() or not 0 <= int(text) < 65536:
        raise UsageError(f"{text!r} is not a port")
    return int(text)


def comma_list(text: str) -> tuple[str, ...]:
    """Split ``a, b``, without empty parts."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _listeners(text: str) -> tuple[Listener, ...]:
    found = tuple(map(_listener, comma_list(text)))
    places = [(one.address, one.port) for one in found if one.port]
    for host, port in places:
        if places.count((host, port)) > 1:
            raise UsageError(f"two listeners cannot have {in_brackets(host)}:{port} both")
    return found


def _listener(text: str) -> Listener:
    parts = urlsplit(text.lower())
    try:
        port = DEFAULT_PORT if parts.port is None else parts.port
    except ValueError as error:
        raise UsageError(f"{text!r} has no port from 0 to 65535") from error
    if parts.scheme not in SCHEMES or parts.path not in ("", "/"):
        raise UsageError(f"{text!r} is not http://host:port or https://host:port")
    return Listener(parts.scheme, parts.hostname or "", port)


def _scheme(text: str) -> str | None:
    return one_of("the listener", *SCHEMES)(text.strip().lower()) if text.strip() else None


def _extensions(text: str) -> tuple[str, ...]:
    for name in comma_list(text):
        if name not in (BASIC_AUTH, BASIC_AUTH.rpartition(".")[2]):
            raise UsageError(f"{name} is a Java class that cannot run here; there is {BASIC_AUTH}")
    return comma_list(text)


@dataclass(frozen=True, kw_only=True)
class RestOptions:
    """Where the REST API listens, and who may call it."""

    listeners: tuple[Listener, ...] = option(
        "listeners",
        "Where the REST API listens: a list of http://host:port and https://host:port. Without a "
        "host it listens on all addresses, and needs users, tokens or certificates of callers.",
        default=(),
        parse=_listeners,
        metavar="URL,…",
    )
    rest_host_name: str = option(
        "rest.host.name",
        "The address to listen on when listeners is not set.",
        default="127.0.0.1",
        parse=str.strip,
    )
    rest_port: int = option(
        "rest.port",
        "The port to listen on when listeners is not set; 0 takes a free one.",
        default=DEFAULT_PORT,
        parse=_port,
    )
    rest_advertised_host_name: str | None = option(
        "rest.advertised.host.name",
        "The host name that other workers and clients use; it is part of worker_id.",
        default=None,
        parse=lambda text: text.strip() or None,
    )
    rest_advertised_port: int | None = option(
        "rest.advertised.port",
        "The port that other workers and clients use.",
        default=None,
        parse=lambda text: _port(text) if text.strip() else None,
    )
    rest_advertised_listener: str | None = option(
        "rest.advertised.listener",
        "http or https: others use the first listener of that kind. Unless set, the first http "
        "listener, if there is one. For a kind that only a proxy in front speaks, advertise the "
        "proxy's host and port, too.",
        default=None,
        parse=_scheme,
    )
    rest_extension_classes: tuple[str, ...] = option(
        "rest.extension.classes",
        f"{BASIC_AUTH} needs kafkeep.rest.users.file; other classes are refused.",
        default=(),
        parse=_extensions,
    )
    kafkeep_rest_users_file: str | None = option(
        "kafkeep.rest.users.file",
        "Users with passwords (Basic), one per line: name:role:argon2 hash. Roles are read, "
        "operate and admin. kafkeep user prints a line.",
        default=None,
        parse=lambda text: text.strip() or None,
        metavar="FILE",
    )
    kafkeep_rest_tokens_file: str | None = option(
        "kafkeep.rest.tokens.file",
        "Bearer tokens, one per line: role:token, or role:sha256:digest in hex.",
        default=None,
        parse=lambda text: text.strip() or None,
        metavar="FILE",
    )
    kafkeep_rest_hosts: tuple[str, ...] = option(
        "kafkeep.rest.hosts",
        "More host names of this service, whose pages may call it. The advertised name, those of "
        "listeners, loopback names and IP addresses are always allowed as Host. A request for "
        "another Host is refused (DNS rebinding); * allows every Host, but no further pages.",
        default=(),
        parse=comma_list,
    )
    kafkeep_rest_body_limit_bytes: int = option(
        "kafkeep.rest.body.limit.bytes",
        "The largest body of a request; larger ones are refused.",
        default=DEFAULT_BODY_LIMIT_BYTES,
        parse=positive("kafkeep.rest.body.limit.bytes"),
        metavar="BYTES",
    )
    kafkeep_rest_mask_secrets: str = option(
        "kafkeep.rest.mask.secrets",
        "Whether answers show ****** instead of secrets. never: callers who may change connectors "
        "(admin) see configurations as they were sent, as in Connect; others do not. always: no "
        "caller sees secrets. auto: like never when every caller must authenticate (users, tokens "
        "or certificates), otherwise like always.",
        default="auto",
        parse=lambda text: one_of("masking", "auto", "always", "never")(text.strip().lower()),
    )
    kafkeep_rest_insecure: bool = option(
        "kafkeep.rest.insecure",
        "Listen beyond this machine without authentication.",
        default=False,
    )

    @property
    def listening(self) -> tuple[Listener, ...]:
        """The listeners, from ``listeners`` or ``rest.host.name`` and ``rest.port``."""
        return self.listeners or (Listener("http", self.rest_host_name, self.rest_port),)

    @property
    def is_https(self) -> bool:
        """True when a listener needs a key store."""
        return any(one.is_https for one in self.listening)

    @property
    def advertised(self) -> Listener:
        """The listener that other workers and clients use, as Connect chooses it: http first."""
        wanted = self.rest_advertised_listener or SCHEMES[0]
        found = (one for one in self.listening if one.scheme == wanted)
        return next(found, self.listening[0])

    @property
    def advertised_host(self) -> str:
        """The host name that others call."""
        if self.rest_advertised_host_name:
            return self.rest_advertised_host_name
        bound = self.advertised.address
        return socket.gethostname() if bound in _EVERYWHERE else bound

    @property
    def names(self) -> frozenset[str]:
        """All host names of this service, without a port."""
        own = (one.host for one in self.listening if one.host not in _EVERYWHERE)
        return frozenset({self.advertised_host, *own, *self.kafkeep_rest_hosts})

    def worker_id(self, bound_port: int | None = None) -> str:
        """Return ``host:port`` as in statuses; ``bound_port`` replaces port 0."""
        port = self.rest_advertised_port or bound_port or self.advertised.port
        return f"{in_brackets(self.advertised_host)}:{port}"

    def url(self, bound_port: int | None = None) -> str:
        """Return the URL for other workers."""
        scheme = self.rest_advertised_listener or self.advertised.scheme
        return f"{scheme}://{self.worker_id(bound_port)}"

    def check_advertised(self) -> None:
        """Raise UsageError when the advertised scheme has no listener and no proxy."""
        wanted, spoken = self.rest_advertised_listener, self.advertised.scheme
        if wanted in (None, spoken):
            return
        if not (self.rest_advertised_host_name and self.rest_advertised_port):
            raise UsageError(
                f"is {wanted}, but the listener is {spoken}; where a proxy in front "
                "speaks it, set rest.advertised.host.name and rest.advertised.port as well"
            )


def in_brackets(host: str) -> str:
    """Return a host as in a URL: IPv6 in brackets."""
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host


POLICIES = ("All", "None", "Principal")
_POLICY_PACKAGE = "org.apache.kafka.connect.connector.policy."
_POLICY_CLASS = "ConnectorClientConfigOverridePolicy"


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


def _folders(text: str) -> tuple[str, ...]:
    for folder in comma_list(text):
        if not check_path(folder).is_absolute():
            raise UsageError(f"{folder!r} is not an absolute path")
    return comma_list(text)


def _policy(text: str) -> str:
    name = text.strip().removeprefix(_POLICY_PACKAGE).removesuffix(_POLICY_CLASS)
    return one_of("the policy", *POLICIES)(name)


@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """The service that this worker belongs to."""

    bootstrap_servers: str = option(
        "bootstrap.servers",
        "Kafka brokers to connect to first: host:port,host:port.",
        parse=_servers,
        metavar="HOST:PORT,…",
    )
    group_id: str = option(
        "group.id",
        "The name of the service: its state is in a folder of this name under kafkeep.state. "
        "Workers with the same group.id and state share their connectors.",
        default="kafkeep",
        parse=_group,
    )
    kafkeep_state: str = option(
        "kafkeep.state",
        "Where the service stores its connectors and their target states: s3://bucket/prefix, or a "
        "folder. Workers on several machines need a bucket or a shared folder.",
        default="~/.local/state/kafkeep",
        parse=_address,
        metavar="ADDRESS",
    )
    kafkeep_lease_timeout_ms: int = option(
        "kafkeep.lease.timeout.ms",
        "How long the worker that runs the connectors may send no heartbeat before another one "
        "takes over.",
        default=10_000,
        parse=positive("kafkeep.lease.timeout.ms"),
        metavar="MS",
    )

    @property
    def state_address(self) -> str:
        """The address of this service's state."""
        return str(ArchiveAddress.parse(f"{self.kafkeep_state.rstrip('/')}/{self.group_id}"))


@dataclass(frozen=True, kw_only=True)
class TrackingOptions:
    """Whether the service tracks the topics of connectors."""

    topic_tracking_enable: bool = option(
        "topic.tracking.enable",
        "Whether GET /connectors/…/topics lists the topics that a connector has used.",
        default=True,
    )
    topic_tracking_allow_reset: bool = option(
        "topic.tracking.allow.reset", "Whether callers may reset that list.", default=True
    )


@dataclass(frozen=True, kw_only=True)
class RestrictionOptions:
    """What connectors from the REST API may ask for."""

    connector_client_config_override_policy: str = option(
        "connector.client.config.override.policy",
        "Which consumer.override.…, producer.override.… and admin.override.… keys connectors may "
        "have: All, None, or Principal: sasl.jaas.config, sasl.mechanism and security.protocol.",
        default="All",
        parse=_policy,
    )
    kafkeep_outbound_hosts: tuple[str, ...] = option(
        "kafkeep.outbound.hosts",
        "Hosts that URLs in connectors may name: host names, *.domain, addresses, networks "
        "(10.0.0.0/8). Unless set, all but link-local and metadata addresses; those only if named.",
        default=(),
        parse=comma_list,
    )
    kafkeep_allowed_folders: tuple[str, ...] = option(
        "kafkeep.allowed.folders",
        "Folders of this machine where connectors may have archives (file:///…), key stores and "
        "trust stores. Unless set, none.",
        default=(),
        parse=_folders,
    )

    @property
    def policy(self) -> str:
        """All, None or Principal."""
        return self.connector_client_config_override_policy


REST = "The REST API"
GROUPS: dict[str, tuple[type, ...]] = {
    "The service": (ServiceOptions,),
    REST: (RestOptions, TrackingOptions),
    "What connectors may do": (RestrictionOptions,),
}
