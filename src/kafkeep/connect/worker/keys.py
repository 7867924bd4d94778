"""Keys of the worker's file, declared: the same names as in ``connect-distributed.properties``."""

from __future__ import annotations

from dataclasses import dataclass

from kafkeep.archive.names import check_log_name
from kafkeep.config.choose import one_of, positive
from kafkeep.config.kafka import parse_servers
from kafkeep.config.option import option
from kafkeep.config.path import check_path
from kafkeep.config.storage import ArchiveAddress
from kafkeep.connect.worker.rest_keys import RestOptions, comma_list
from kafkeep.errors import UsageError

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
        parse=comma_list,
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


REST = "The REST API"
GROUPS: dict[str, tuple[type, ...]] = {
    "The service": (ServiceOptions,),
    REST: (RestOptions, TrackingOptions),
    "What connectors may do": (GuardOptions,),
}
