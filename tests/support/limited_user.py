"""Users with exactly the rights that a test grants, and what Kafka's authorizer says of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka.protocol.admin import IncrementalAlterConfigsRequest
from tests.support.permissions_page import KafkaRight
from tests.support.waiting import PATIENCE_S

from kafkeep.dev import DevStatus
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.client.wire import Wire
from kafkeep.options.kafka import KafkaOptions

PASSWORD = "only-for-tests"
_RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.BROKER,
    "transactional id": ResourceType.TRANSACTIONAL_ID,
}
_BROKER_LOGGER = 8
_AUDIT = re.compile(
    r"Principal = User:(?P<user>\S+) is (?P<verdict>Allowed|Denied) operation = (?P<operation>\w+)"
    r" from host = \S+ on resource = (?P<kind>\w+):LITERAL:(?P<name>\S+) for request = (\w+)"
)
_KINDS = {
    "Topic": "topic",
    "Group": "group",
    "Cluster": "cluster",
    "TransactionalId": "transactional id",
}


@dataclass(frozen=True, order=True)
class Asked:
    """One operation on one resource that Kafka's authorizer was asked about."""

    allowed: bool
    resource: str
    name: str
    operation: str


def log_every_decision(services: DevStatus) -> None:
    """Let the only broker log allowed operations too, not only denied ones."""
    kind = IncrementalAlterConfigsRequest.AlterConfigsResource

    def make() -> Any:
        level = kind.AlterableConfig(
            name="kafka.authorizer.logger", config_operation=0, value="DEBUG"
        )
        resource = kind(resource_type=_BROKER_LOGGER, resource_name="1", configs=[level])
        return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)

    with Wire(KafkaOptions(services.bootstrap_servers)) as wire:
        admin = Admin(wire)
        answer = admin.wire.call(admin.routes.any_broker, make, lambda _: ())
        assert [response.error_code for response in answer.responses] == [0]


class LimitedUser:
    """A SCRAM user of a secured development cluster, who may do what is granted and no more."""

    def __init__(self, services: DevStatus, name: str, folder: Path) -> None:
        self.name = name
        self._log = Path(services.brokers[0].log)
        self._admin = AdminClient({"bootstrap.servers": services.bootstrap_servers})
        mechanism = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        made = UserScramCredentialUpsertion(name, mechanism, PASSWORD.encode())
        self._admin.alter_user_scram_credentials([made])[name].result(PATIENCE_S)
        way = services.secured("limited")
        self.bootstrap_servers = way.bootstrap_servers
        self.properties_file = folder / f"{name}.properties"
        text = Path(way.properties_file).read_text()
        for old, new in (("limited-secret", PASSWORD), ('"limited"', f'"{name}"')):
            assert old in text
            text = text.replace(old, new)
        self.properties_file.write_text(text)

    def grant(self, rights: Iterable[KafkaRight], names: Mapping[str, str]) -> None:
        """Grant rights; ``names`` gives the topic or group that a name of the page stands for."""
        bindings = [self._binding(one, names) for one in rights]
        if bindings:
            for done in self._admin.create_acls(bindings).values():
                done.result(PATIENCE_S)

    def _binding(self, one: KafkaRight, names: Mapping[str, str]) -> AclBinding:
        name, pattern = names.get(one.name, one.name), ResourcePatternType.LITERAL
        if name.endswith("*") and name != "*":
            name, pattern = name[:-1], ResourcePatternType.PREFIXED
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", one.operation).upper()
        return AclBinding(
            _RESOURCES[one.resource],
            name,
            pattern,
            f"User:{self.name}",
            "*",
            getattr(AclOperation, words),
            AclPermissionType.ALLOW,
        )

    def asked(self) -> set[Asked]:
        """Return everything that Kafka allowed or denied this user so far."""
        return set(self._decisions())

    def _decisions(self) -> Iterator[Asked]:
        for found in _AUDIT.finditer(self._log.read_text(errors="replace")):
            if found["user"] == self.name:
                operation = found["operation"].title().replace("_", "")
                allowed = found["verdict"] == "Allowed"
                yield Asked(allowed, _KINDS[found["kind"]], found["name"], operation)
