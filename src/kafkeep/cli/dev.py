"""``kafkeep dev``: run real Kafka, S3 and a schema registry on this machine."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from kafkeep.cli.output import print_json

if TYPE_CHECKING:
    from kafkeep.dev import DevStatus

app = typer.Typer(
    help="Run real Kafka, S3 and a schema registry on this machine.", no_args_is_help=True
)


class _Output(StrEnum):
    TABLE = "table"
    JSON = "json"


class _S3(StrEnum):
    SEAWEEDFS = "seaweedfs"
    MINIO = "minio"


FolderOption = Annotated[Path, typer.Option(help="Folder for data, settings and logs.")]
OutputOption = Annotated[
    _Output, typer.Option(help="Output format: table for people, json for scripts.")
]
_FOLDER = Path(".kafkeep-dev")


@app.command("up")
def up_command(
    *,
    folder: FolderOption = _FOLDER,
    kafka: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help="Version of Kafka, 2.8.0 or newer; with ZooKeeper where it needs one."
            " [default: that of the folder, else 4.1.0]",
        ),
    ] = None,
    brokers: Annotated[int, typer.Option(min=1, max=9, help="Number of Kafka brokers.")] = 1,
    registry: Annotated[
        bool, typer.Option("--registry", help="Also start a schema registry.")
    ] = False,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure", help="Add SASL and TLS listeners, and write client properties files."
        ),
    ] = False,
    s3: Annotated[
        _S3,
        typer.Option(
            help="S3 server to start. MinIO is built once, with Go, if it is not on PATH."
        ),
    ] = _S3.SEAWEEDFS,
    kafka_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port of the first broker. [default: a free one]"),
    ] = None,
    s3_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port of the S3 server. [default: a free one]"),
    ] = None,
    registry_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port of the registry. [default: a free one]"),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Stop waiting after this time (5m); the servers continue to start. [default: wait"
            " until they are ready]",
        ),
    ] = None,
    output: OutputOption = _Output.TABLE,
) -> None:
    """Start the services, and wait until they are ready.

    Ports and data of earlier runs are reused. If a server fails to start, everything that this
    command started is stopped again. The first run downloads Kafka (55 MB), and with --registry
    Apicurio Registry (140 MB).
    """
    from kafkeep.dev import DevOptions, start  # noqa: PLC0415
    from kafkeep.options.units import parse_duration  # noqa: PLC0415 (keeps --help quick)

    options = DevOptions(
        folder=folder,
        kafka=kafka,
        brokers=brokers,
        registry=registry,
        s3=s3.value,
        secure=secure,
        kafka_port=kafka_port,
        s3_port=s3_port,
        registry_port=registry_port,
    )
    timeout_s = None if timeout is None else parse_duration(timeout) / 1000
    talk = Console(stderr=True)
    if talk.is_terminal:
        with talk.status("starting") as shown:
            up = start(options, progress=shown.update, timeout_s=timeout_s)
    else:
        up = start(options, progress=_tell, timeout_s=timeout_s)
    _show(up, output)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@app.command("down")
def down_command(
    folder: FolderOption = _FOLDER,
    purge: Annotated[bool, typer.Option("--purge", help="Also delete all data.")] = False,
) -> None:
    """Stop the services. Data is kept for the next `dev up` unless --purge is given."""
    from kafkeep.dev import stop  # noqa: PLC0415 (keeps --help quick)

    stopped = stop(folder, purge=purge)
    what = "nothing to stop" if stopped is None else "removed" if purge else "stopped, data kept"
    print(f"{what}: {folder}", file=sys.stderr)


@app.command("status")
def status_command(folder: FolderOption = _FOLDER, output: OutputOption = _Output.TABLE) -> None:
    """Show the addresses and states of the services.

    Exits with 0 when all services run; 1 when one is starting or down; 2 when there is no
    environment.
    """
    from kafkeep.dev import status  # noqa: PLC0415 (keeps --help quick)

    now = status(folder)
    _show(now, output)
    raise typer.Exit(0 if now.is_up else 1)


@app.command(
    "tool", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
def tool_command(
    name: Annotated[str, typer.Argument(help="Kafka's name of the tool, such as kafka-topics.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Arguments of the tool.")] = None,
    folder: FolderOption = _FOLDER,
) -> None:
    """Run one of Kafka's own command line tools on these services.

    --bootstrap-server is added. Exits with the code of the tool, or with 2 if there is no such
    tool or no environment.
    """
    from kafkeep.dev import status, tool_for_server  # noqa: PLC0415 (keeps --help quick)

    now = status(folder)
    argv = tool_for_server(name, now.bootstrap_servers, arguments or [], kafka=now.kafka)
    os.execv(argv[0], argv)  # the tool has the terminal, its signals and its exit code


def _show(status: DevStatus, output: _Output) -> None:
    if output is _Output.JSON:
        print_json(status.to_json())
        return
    table = Table("what", "where", "pid", "state", box=None, pad_edge=False)
    for broker in status.brokers:
        name = f"kafka {broker.node_id} ({status.kafka})"
        table.add_row(name, broker.address, str(broker.pid or "-"), broker.state)
    if status.zookeeper:
        keeper = status.zookeeper
        table.add_row("zookeeper", keeper.address, str(keeper.pid or "-"), keeper.state)
    s3 = status.s3
    table.add_row(f"s3 ({s3.kind})", s3.endpoint, str(s3.pid or "-"), s3.state)
    if status.registry:
        registry = status.registry
        table.add_row("registry", registry.url, str(registry.pid or "-"), registry.state)
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(table)
    console.print(f"\nbucket     s3://{s3.bucket}", highlight=False)
    variables = {**s3.environment, "KAFKEEP_BOOTSTRAP_SERVERS": status.bootstrap_servers}
    for name, value in variables.items():
        console.print(f"export {name}={value}", highlight=False, soft_wrap=True)
    for way in status.secure:
        console.print(
            f"{way.name:<10} {way.bootstrap_servers}  --command-config {way.properties_file}",
            highlight=False,
            soft_wrap=True,
        )
    console.print(f"logs       {status.folder}/*.log", highlight=False, soft_wrap=True)
