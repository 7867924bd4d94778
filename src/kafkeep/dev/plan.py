"""Plan a development environment: the given options, joined with the state of its folder."""

from __future__ import annotations

from dataclasses import replace

from kafkeep.dev.broker import new_cluster_id
from kafkeep.dev.kafka_version import DEFAULT_KAFKA, KafkaVersion
from kafkeep.dev.process import Ports
from kafkeep.dev.secure import LISTENERS, port_name
from kafkeep.dev.services import SEAWEEDFS_PORTS, ZOOKEEPER
from kafkeep.dev.state import DevOptions, DevState
from kafkeep.errors import UsageError


def plan_state(options: DevOptions, stored: DevState | None, ports: Ports) -> DevState:
    """Join the given options with the state of the folder, whose size cannot be changed.

    Servers that run keep their ports; dead ones are dropped, so that they are started anew. A
    registry belongs to it when it is asked for, or runs.
    """
    if stored is None:
        kafka = options.kafka or DEFAULT_KAFKA
        stored = DevState(
            options.brokers, options.s3, False, options.secure, new_cluster_id(), {}, kafka
        )
    options = replace(options, kafka=options.kafka or stored.kafka)
    _check_shape(options, stored)
    running = {name: server for name, server in stored.servers.items() if server.alive}
    registry = options.registry or "registry" in running
    if options.registry_port is not None and not registry:
        raise UsageError(
            f"a port is set for the registry ({options.registry_port}), but no registry starts",
            hint="Ask for one with --registry, or leave --registry-port out.",
        )
    return DevState(
        brokers=options.brokers,
        s3=options.s3,
        registry=registry,
        secure=options.secure,
        cluster_id=stored.cluster_id,
        kafka=stored.kafka,
        ports=_plan_ports(options, stored, ports, registry=registry, running=set(running)),
        broker_properties={**stored.broker_properties, **options.broker_properties},
        servers=running,
        ready=[name for name in stored.ready if name in running],
    )


def _check_shape(options: DevOptions, stored: DevState) -> None:
    for name in ("kafka", "brokers", "s3", "secure"):
        asked, held = getattr(options, name), getattr(stored, name)
        if asked != held:
            raise UsageError(
                f"{options.folder} holds an environment with {name}={held}, not {asked}",
                hint="Remove it with kafkeep dev down --purge, or use another --folder.",
            )


def port_names(options: DevOptions, *, registry: bool) -> dict[str, list[str]]:
    """Return the ports every server needs, by the server's name; its main one first."""
    listeners = LISTENERS if options.secure else ()
    version = KafkaVersion.parse(options.kafka or DEFAULT_KAFKA)
    with_zookeeper = version.needs_zookeeper(secure=options.secure)
    names = {
        f"broker-{node}": [
            f"broker-{node}",
            *([] if with_zookeeper else [f"controller-{node}"]),
            *(port_name(listener, node) for listener in listeners),
        ]
        for node in range(1, options.brokers + 1)
    }
    parts = [part for part in SEAWEEDFS_PORTS if part != "s3"] if options.s3 != "minio" else []
    grpc = [f"{part}-grpc" for part in ("s3", *parts)]
    names["s3"] = ["s3", *parts, *grpc]
    if with_zookeeper:
        names[ZOOKEEPER] = [ZOOKEEPER]
    if registry:
        names["registry"] = ["registry"]
    return names


def _plan_ports(
    options: DevOptions, stored: DevState, ports: Ports, *, registry: bool, running: set[str]
) -> dict[str, int]:
    asked = {"s3": options.s3_port, "registry": options.registry_port}
    if options.kafka_port is not None:
        asked |= {f"broker-{n + 1}": options.kafka_port + n for n in range(options.brokers)}
    servers = port_names(options, registry=registry)
    if not registry and "registry" in stored.ports:
        servers["registry"] = ["registry"]  # kept for a registry that comes back
    planned = {name: stored.ports[name] for server in running for name in servers[server]}
    for server in running:
        wanted = asked.get(server)
        if wanted is not None and wanted != planned[server]:
            raise UsageError(
                f"{server} already runs on port {planned[server]}, not {wanted}",
                hint="Stop it first with kafkeep dev down.",
            )
    ports.leave_out(planned.values())
    missing = [server for server in servers if server not in running]
    # What was asked for is taken first, so that no free choice gets in its way.
    planned |= {one: ports.take(asked[one]) for one in missing if asked.get(one) is not None}
    for name in (name for server in missing for name in servers[server] if name not in planned):
        planned[name] = ports.take(previous=stored.ports.get(name))
    return planned
