"""``kafkeep serve``.

``kafkeep user``: a line for the users of the REST API.
"""

from __future__ import annotations

import getpass
import logging
import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kafkeep.cli.archive_flags import (
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
    name: Annotated[str, typer.Argument(help="The user's name.")],
    *,
    role: Annotated[
        str, typer.Option("--role", help="What the user may do: read, operate or admin.")
    ] = "read",
) -> None:
    """Print a user's line for the file of kafkeep.rest.users.file; the password is asked for.

    Without a terminal it is the first line of the input.
    """
    from kafkeep.connect.worker.rest_access import user_line  # noqa: PLC0415 - keeps --help fast

    asked = getpass.getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    typer.echo(user_line(name, role, asked))


class MaskSecrets(StrEnum):
    """When secrets of connectors are masked."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def serve_command(
    *,
    config: Annotated[
        str | None,
        typer.Option("--config", metavar="FILE", help="A worker's file, as Connect has it."),
    ] = None,
    env_file: Annotated[
        str | None,
        typer.Option(
            "--env-file", metavar="FILE", help="SINETStream's .env: broker, port, S3 and its keys."
        ),
    ] = None,
    bootstrap_servers: OptionalBootstrapOption = None,
    state: Annotated[
        str | None,
        typer.Option(
            "--state", metavar="ADDRESS", help="Where connectors are kept: a folder or s3://…"
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
        typer.Option("--group-id", help="Name of the service: workers with one share connectors."),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Listen beyond this machine without any sign-on."),
    ] = False,
    mask_secrets: Annotated[
        MaskSecrets | None,
        typer.Option(
            "--mask-secrets",
            help="Whether ****** is shown in place of connectors' secrets: always, never (admins "
            "see them), or never only where callers have to sign on. [default: auto]",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Any key of a worker's file; may be repeated."
        ),
    ] = None,
    command_config: CommandConfigOption = None,
    s3_endpoint: EndpointOption = None,
    s3_region: RegionOption = None,
    s3_profile: ProfileOption = None,
    spark_conf: SparkConfOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Stand where a Kafka Connect worker stood: its REST API, with connectors that run.

    Runs until SIGTERM or Ctrl-C, and exits 0 once its connectors have finished what they were at.
    --s3-endpoint, --s3-region and --s3-profile are for --state; connectors bring their own.
    """
    from kafkeep.connect.serve import run_service  # noqa: PLC0415
    from kafkeep.connect.worker.options import WorkerOptions  # noqa: PLC0415
    from kafkeep.connect.worker.sinetstream_env import apply_env_file  # noqa: PLC0415
    from kafkeep.options.spark import SparkOptions  # noqa: PLC0415 - keeps --help fast

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
        storage=storage_options(s3_endpoint, s3_region, s3_profile),
        spark=spark,
        on_ready=_say_ready if output is Output.TABLE else _print_ready,
    )
    if not ended:
        say("warning: some connectors did not finish in time; what they were at is done again")


def _client_file(path: str | None) -> dict[str, str]:
    """Read client settings of Kafka's own tools; they are the worker's without a prefix."""
    if path is None:
        return {}
    from kafkeep.options.kafka import KafkaOptions  # noqa: PLC0415

    return dict(KafkaOptions.load("unused:9092", path).properties)


def _log_more() -> None:
    """Tell what a service does and when; the level can be changed over REST."""
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
