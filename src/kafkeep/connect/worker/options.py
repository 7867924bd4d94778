"""Parse the worker's file, environment variables and flags into ``WorkerOptions``.

Like a connector's, every key is honoured, always on, refused with a reason, or unknown. A warning
names unknown keys, as in Connect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kafkeep.connect.connectors.config_reader import ConfigReader
from kafkeep.connect.connectors.sink_keys import ROLES
from kafkeep.connect.worker.config_providers import PREFIX as PROVIDERS
from kafkeep.connect.worker.config_providers import Providers
from kafkeep.connect.worker.fixed_keys import KEYS, worker_fixed_key
from kafkeep.connect.worker.keys import (
    GROUPS,
    RestOptions,
    RestrictionOptions,
    ServiceOptions,
    TrackingOptions,
)
from kafkeep.connect.worker.rest_security import (
    ListenerTls,
    RestSecurity,
    is_listener_key,
    read_tls,
    read_tokens,
    read_users,
    require_safe_bind,
    shares_with_clients,
)
from kafkeep.errors import UsageError
from kafkeep.kafka.security.client_config import check_properties
from kafkeep.options.config_files import load_text, parse_properties
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.option import ConfigErrors, did_you_mean, iter_options, parse_group
from kafkeep.options.sink.converters import parse_role_class

DECLARED = tuple(one.name for groups in GROUPS.values() for g in groups for one in iter_options(g))
CLIENTS = ("consumer", "producer", "admin")
PLAIN = ("client.id", "request.timeout.ms", "socket.connection.setup.timeout.ms")
STARTS = ("security.", "sasl.", "ssl.")
READ_DEFAULTS = ("auto.offset.reset", "isolation.level")
"""Keys under ``consumer.`` that are defaults of connectors, not of the client."""
_PREFIXES = tuple(f"{name}." for name in CLIENTS)
_SIGNS = {"___": "-", "__": "_", "_": "."}


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """The options of a worker; ``notes`` are warnings for the operator."""

    service: ServiceOptions
    rest: RestOptions
    security: RestSecurity
    tracking: TrackingOptions
    restrictions: RestrictionOptions
    kafka: KafkaOptions
    """The cluster, with the rights of ``admin.…`` keys on top of those without a prefix."""
    consumer: KafkaOptions
    producer: KafkaOptions
    providers: Providers = field(repr=False)
    defaults: Mapping[str, str] = field(repr=False)
    """Converters and consumer settings for connectors without their own."""
    spark: Mapping[str, str] = field(repr=False)
    """``spark.…`` keys: settings of the session."""
    given: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Every key as it was given, with secrets; references are not resolved."""
    tls: ListenerTls | None = field(default=None, repr=False)
    """TLS of https listeners; None without any."""
    notes: tuple[str, ...] = ()

    @classmethod
    def load(
        cls,
        file: str | Path | None,
        environ: Mapping[str, str],
        flags: Mapping[str, str] | None = None,
    ) -> WorkerOptions:
        """Combine flags over variables over the file; ConfigErrors lists all that is wrong."""
        texts = _over(_over(_read(file), from_environ(environ)), flags or {})
        return _WorkerReader(texts, environ).read()

    @property
    def state_address(self) -> str:
        """Where the service keeps its state."""
        return self.service.state_address


def from_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the keys that variables set; ``KAFKEEP_…`` overrides ``CONNECT_…``.

    ``CONNECT_REST_PORT`` is rest.port, as in Confluent's images: ``___`` stands for a hyphen and
    ``__`` for an underscore. ``KAFKEEP_STATE`` is kafkeep.state, ``KAFKEEP_GROUP_ID`` group.id.
    """
    found: dict[str, str] = {}
    for name, text in environ.items():
        if name.startswith("CONNECT_") and text:
            rest = name.removeprefix("CONNECT_").lower()
            found[re.sub("_{1,3}", lambda match: _SIGNS[match[0]], rest)] = text
    ours = {key: environ.get(variable(key), "") for key in DECLARED}
    return {**found, **{key: text for key, text in ours.items() if text}}


def variable(key: str) -> str:
    """Return the ``KAFKEEP_…`` variable of a declared key."""
    return "KAFKEEP_" + key.removeprefix("kafkeep.").upper().replace(".", "_")


def _over(lower: Mapping[str, str], upper: Mapping[str, str]) -> dict[str, str]:
    """Combine settings; a port or host in ``upper`` changes that part of the listener in ``lower``.

    ConfigErrors when ``lower`` has several listeners: it is unclear which one is meant.
    """
    texts = {**lower, **upper}
    parts = upper.keys() & {"rest.host.name", "rest.port"}
    if "listeners" in lower and "listeners" not in upper and parts:
        try:
            below, *more = parse_group(RestOptions, {"listeners": lower["listeners"]}).listening
            port = parse_group(RestOptions, {"rest.port": upper.get("rest.port", str(below.port))})
        except ConfigErrors:
            return texts  # reported when everything is parsed
        if more:
            why = "is for one listener, and listeners has several: set listeners instead"
            raise ConfigErrors(dict.fromkeys(sorted(parts), why))
        host = upper.get("rest.host.name", below.host).strip()
        for part in ("rest.host.name", "rest.port"):
            texts.pop(part, None)
        texts["listeners"] = str(replace(below, host=host, port=port.rest_port))
    return texts


def _belongs(key: str, name: str) -> bool:
    return key == name or key.startswith(f"{name}.")


def _read(file: str | Path | None) -> dict[str, str]:
    if file is None:
        return {}
    text = load_text(file)
    try:
        return parse_properties(text)
    except UsageError as error:
        raise UsageError(f"{file}: {error.message}", hint=error.hint) from error


class _WorkerReader(ConfigReader):
    def __init__(self, texts: Mapping[str, str], environ: Mapping[str, str]) -> None:
        super().__init__(texts)
        self._environ = environ
        self._texts: dict[str, str] = {}
        self._notes: list[str] = []

    def read(self) -> WorkerOptions:
        providers = self._try(Providers.from_worker, self._given, self._environ) or Providers()
        plain = {k: v for k, v in self._given.items() if not _belongs(k, PROVIDERS)}
        self._texts = self._try(providers.resolve, plain) or {}
        service = self._try(parse_group, ServiceOptions, self._texts)
        rest = self._try(parse_group, RestOptions, self._texts)
        tracking = self._try(parse_group, TrackingOptions, self._texts)
        restrictions = self._try(parse_group, RestrictionOptions, self._texts)
        defaults = self._defaults()
        self._check_others()
        tls = self._tls(rest) if rest else None
        security = self._security(rest, tls) if rest else None
        shared = bool(rest and rest.is_https and shares_with_clients(self._texts))
        reader = ClientReader(self._texts, self._wrong, self._notes, listener_has_ssl=shared)
        clients = {name: reader.read(name) for name in CLIENTS}
        if self._wrong or not (service and rest and tracking and restrictions and security):
            raise ConfigErrors(self._wrong)
        return WorkerOptions(
            service=service,
            rest=rest,
            security=security,
            tracking=tracking,
            restrictions=restrictions,
            kafka=clients["admin"],
            consumer=clients["consumer"],
            producer=clients["producer"],
            providers=providers,
            defaults=defaults,
            spark={key: text for key, text in self._texts.items() if key.startswith("spark.")},
            given=dict(self._given),
            tls=tls,
            notes=tuple(dict.fromkeys(self._notes)),
        )

    def _defaults(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for role in ROLES:
            name = f"{role}.converter"
            own = {key: text for key, text in self._texts.items() if _belongs(key, name)}
            if name in own:
                self._try(parse_role_class, role, own[name])
                found |= own
            elif own:
                self._wrong |= dict.fromkeys(own, f"there is no {name}")
        for key in READ_DEFAULTS:
            if text := self._texts.get(f"consumer.{key}"):
                found[f"consumer.override.{key}"] = text
        return found

    def _check_others(self) -> None:
        for key, text in self._texts.items():
            if _is_honoured(key):
                continue
            fixed = worker_fixed_key(key)
            if fixed is None:
                known = [*DECLARED, *(one.name for one in KEYS)]
                near = did_you_mean(key, known)
                self._notes.append(f"there is no key {key}" + (f". {near}" if near else ""))
                continue
            try:
                fixed.check(text)
            except UsageError as error:
                self._wrong[key] = error.message

    def _tls(self, rest: RestOptions) -> ListenerTls | None:
        """Open the listener's key stores; errors are reported under one of their keys."""
        key = next((one for one in sorted(self._texts) if is_listener_key(one)), "listeners")
        try:
            rest.check_advertised()
        except UsageError as error:
            self._wrong["rest.advertised.listener"] = error.message
        try:
            return read_tls(self._texts, is_https=rest.is_https)
        except UsageError as error:
            self._wrong[key] = " ".join(filter(None, [error.message, error.hint]))
            return None

    def _security(self, rest: RestOptions, tls: ListenerTls | None) -> RestSecurity | None:
        users_key, tokens_key = "kafkeep.rest.users.file", "kafkeep.rest.tokens.file"
        if rest.rest_extension_classes and not rest.kafkeep_rest_users_file:
            self._wrong["rest.extension.classes"] = f"needs {users_key}"
        if rest.listeners:
            for key in {"rest.host.name", "rest.port"} & self._texts.keys():
                self._notes.append(f"{key} is not used, because listeners is set")
        key = users_key
        try:
            users_file, tokens_file = rest.kafkeep_rest_users_file, rest.kafkeep_rest_tokens_file
            users = read_users(users_file) if users_file else {}
            key = tokens_key
            tokens = read_tokens(tokens_file) if tokens_file else {}
            key = users_key if users_file else tokens_key
            security = RestSecurity(
                basic_users=users,
                bearer_tokens=tokens,
                allowed_hosts=rest.names,
                body_limit_bytes=rest.kafkeep_rest_body_limit_bytes,
                insecure=rest.kafkeep_rest_insecure,
                proves_callers=tls is not None and tls.proves_callers,
            )
            security = replace(security, shows_secrets=self._shows_secrets(rest, security))
            key = "listeners" if rest.listeners else "rest.host.name"
            for one in rest.listening:
                proved = security.proves_callers and one.is_https
                require_safe_bind(one.address, replace(security, proves_callers=proved))
        except UsageError as error:
            self._wrong[key] = " ".join(filter(None, [error.message + ".", error.hint]))
            return None
        return security

    def _shows_secrets(self, rest: RestOptions, security: RestSecurity) -> bool:
        mode = rest.kafkeep_rest_mask_secrets
        proved = security.proves_callers and all(one.is_https for one in rest.listening)
        knows_callers = security.has_auth or proved
        if mode == "never" and not knows_callers:
            self._notes.append(
                "kafkeep.rest.mask.secrets=never shows connectors' secrets to everyone who reaches "
                "the REST API: callers need not authenticate"
            )
        return mode == "never" or (mode == "auto" and knows_callers)


def _is_honoured(key: str) -> bool:
    if key in DECLARED or key.startswith("spark.") or is_listener_key(key):
        return True
    if key.startswith(tuple(f"{role}.converter" for role in ROLES)):
        return True
    return is_client_key(key)


def is_client_key(key: str) -> bool:
    """Return True for a key of the worker's file about a Kafka client."""
    if is_listener_key(key) or worker_fixed_key(key) is not None:
        return False
    return key in PLAIN or key.startswith((*STARTS, *_PREFIXES))


class ClientReader:
    """Parses a worker's clients; adds errors to ``wrong``, by key, and warnings to ``notes``."""

    def __init__(
        self,
        texts: Mapping[str, str],
        wrong: dict[str, str],
        notes: list[str],
        *,
        listener_has_ssl: bool = False,
    ) -> None:
        """Create it; with ``listener_has_ssl`` plain ``ssl.`` keys may be the listener's alone."""
        self._texts = texts
        self._listener_has_ssl = listener_has_ssl
        self._wrong = wrong
        self._notes = notes

    def read(self, name: str) -> KafkaOptions:
        """Return one client: its own keys override those without a prefix."""
        own = dict(self._properties(f"{name}."))
        servers = own.pop("bootstrap.servers", "") or self._texts.get("bootstrap.servers", "")
        properties = self._shared({**dict(self._properties("")), **own}, own)
        try:
            check_properties(properties)
        except UsageError as error:
            key = f"{name}.security.protocol" if own else "security.protocol"
            self._wrong.setdefault(key, error.message)
        try:
            return KafkaOptions(servers, properties)
        except UsageError as error:
            key = f"{name}.bootstrap.servers"
            self._wrong.setdefault(
                key if key in self._texts else "bootstrap.servers", error.message
            )
            return KafkaOptions("unknown:9092")

    def _shared(self, properties: dict[str, str], own: Mapping[str, str]) -> dict[str, str]:
        """Drop the listener's keys if this client does not use TLS."""
        if not self._listener_has_ssl or "SSL" in properties.get("security.protocol", "").upper():
            return properties
        return {k: v for k, v in properties.items() if k in own or not k.startswith("ssl.")}

    def _properties(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield the properties of the client, without unknown ones."""
        for key, text in self._texts.items():
            if not is_client_key(key) or not key.startswith(prefix):
                continue
            name = key.removeprefix(prefix)
            if not prefix and key.startswith(_PREFIXES):
                continue
            if name not in READ_DEFAULTS and not self._is_skipped(key, name, text):
                yield name, text

    def _is_skipped(self, key: str, name: str, text: str) -> bool:
        try:
            notes = check_properties({"security.protocol": "SASL_SSL", name: text})
        except UsageError as error:
            if error.message.startswith("unknown property"):
                self._notes.append(f"{key}: {error.message}")
                return True
            if name == "security.protocol":  # checked with the keys that belong to it
                return False
            self._wrong.setdefault(key, error.message)
            return True
        self._notes += [f"{key} has no effect here" for _ in notes]
        return False
