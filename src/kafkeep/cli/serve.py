"""``kafkeep serve`` runs the Connect service; ``kafkeep user`` makes users of its REST API."""

from __future__ import annotations

import getpass
import logging
import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kafkeep.cli.flags import (
    CommandConfigOption,
    EndpointOption,
    OptionalBootstrapOption,
    ProfileOption,
    RegionOption,
    SparkConfOption,
    parse_settings,
    storage_options,
)
from kafkeep.cli.output import Output, OutputOption, print_json, say

if TYPE_CHECKING:
    from kafkeep.connect.serve import ServiceInfo


def user_command(
    name: Annotated[str, typer.Argument(help="Name of the user.")],
    *,
    role: Annotated[
        str, typer.Option("--role", help="Role of the user: read, operate or admin.")
    ] = "read",
) -> None:
    """Print the line of a user for the file that kafkeep.rest.users.file names.

    Prompts for the password; without a terminal, reads it from the first line of stdin.
    """
    from kafkeep.connect.worker.rest_security import user_line  # noqa: PLC0415 - keeps --help fast

    asked = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    typer.echo(user_line(name, role, asked))


class MaskSecrets(StrEnum):
    """When the REST API masks the secrets of connectors."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def serve_command(
    *,
    config: Annotated[
        str | None,
        typer.Option(
            "--config", metavar="FILE", help="Worker properties file, as for Kafka Connect."
        ),
    ] = None,
    env_file: Annotated[
        str | None,
        typer.Option(
            "--env-file",
            metavar="FILE",
            help="SINETStream's .env file, with broker, port and S3 credentials.",
        ),
    ] = None,
    bootstrap_servers: OptionalBootstrapOption = None,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="ADDRESS",
            help="Where to keep the service's state: a folder or s3://bucket/prefix.",
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option("--host", help="Address to listen on. [default: 127.0.0.1]"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Port to listen on. [default: 8083]"),
    ] = None,
    group_id: Annotated[
        str | None,
        typer.Option("--group-id", help="Name of the group of workers that share the connectors."),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", help="Listen on other than local addresses without authentication."
        ),
    ] = False,
    mask_secrets: Annotated[
        MaskSecrets | None,
        typer.Option(
            "--mask-secrets",
            help="When to show ****** instead of the secrets of connectors: always, never (admins "
            "see them), or auto: never, if callers must authenticate. [default: auto]",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Set a worker property. May be repeated."),
    ] = None,
    command_config: CommandConfigOption = None,
    s3_endpoint: EndpointOption = None,
    s3_region: RegionOption = None,
    s3_profile: ProfileOption = None,
    spark_conf: SparkConfOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run a Kafka-Connect-compatible service: REST API, connectors, metrics, web console.

    Runs until SIGTERM or Ctrl-C, then lets the connectors finish their current cycle and exits with
    0. --s3-endpoint, --s3-region and --s3-profile apply to --state; each connector has its own.
    """
    from kafkeep.connect.serve import run_service  # noqa: PLC0415
    from kafkeep.connect.worker.options import WorkerOptions  # noqa: PLC0415
    from kafkeep.connect.worker.sinetstream_env import apply_env_file  # noqa: PLC0415
    from kafkeep.options.spark import SparkOptions  # noqa: PLC0415 - keeps --help fast
    from kafkeep.ui.app import make_console  # noqa: PLC0415

    if env_file is not None:
        apply_env_file(env_file, os.environ)
    flags = {
        "bootstrap.servers": bootstrap_servers,
        "kafkeep.state": state,
        "rest.host.name": host,
        "rest.port": None if port is None else str(port),
        "group.id": group_id,
        "kafkeep.rest.insecure": "true" if insecure else None,
        "kafkeep.rest.mask.secrets": mask_secrets,
    }
    given = {key: text for key, text in flags.items() if text is not None}
    worker = WorkerOptions.load(
        config,
        os.environ,
        {**_client_file(command_config), **parse_settings(settings or ()), **given},
    )
    for note in worker.notes:
        say(f"warning: {note}")
    spark = SparkOptions.load([f"{k}={v}" for k, v in worker.spark.items()] + (spark_conf or []))
    _log_more()
    ended = run_service(
        worker,
        storage=storage_options(s3_endpoint, s3_region, s3_profile, state),
        spark=spark,
        make_pages=make_console,
        on_ready=_say_ready if output is Output.TABLE else _print_ready,
    )
    if not ended:
        say("warning: some connectors did not finish in time; their last cycle will be repeated")


def _client_file(path: str | None) -> dict[str, str]:
    """Read a client properties file; its keys are worker keys without a prefix."""
    if path is None:
        return {}
    from kafkeep.options.kafka import KafkaOptions  # noqa: PLC0415

    return dict(KafkaOptions.load("unused:9092", path).properties)


def _log_more() -> None:
    """Log at INFO with times; the level can be changed over REST."""
    ours = logging.getLogger("kafkeep")
    if ours.level == logging.NOTSET:
        ours.setLevel(logging.INFO)
    for handler in ours.handlers:
        handler.setLevel(logging.NOTSET)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))


def _say_ready(ready: ServiceInfo) -> None:
    say(f"kafkeep listens on {ready.url} and keeps its state in {ready.state}")


def _print_ready(ready: ServiceInfo) -> None:
    print_json(
        {
            "message_type": "ready",
            "url": ready.url,
            "worker_id": ready.worker_id,
            "state": ready.state,
        }
    )
