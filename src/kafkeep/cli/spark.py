"""``kafkeep spark``: keep a Spark session running for the commands to come."""

from __future__ import annotations

from typing import Any

import typer

from kafkeep import preload
from kafkeep.cli.flags import SparkConfOption, with_options
from kafkeep.cli.output import Output, OutputOption, print_json, print_pairs, say
from kafkeep.options.spark import ResidentOptions, SparkOptions
from kafkeep.options.units import format_duration, format_time

app = typer.Typer(
    help="Keep a Spark session running, so that commands begin at once.", no_args_is_help=True
)


@app.command("start")
@with_options(ResidentOptions)
def start_command(
    *,
    spark_conf: SparkConfOption = None,
    output: OutputOption = Output.TABLE,
    options: ResidentOptions,
) -> None:
    """Start the resident session: a local Spark Connect server that later commands share.

    backup (without --follow), restore, verify --against and drill use it when it is free and fits:
    same versions, same Spark properties. Otherwise they start a session of their own. It listens
    on this machine only, and serves this user only. One that is running already is kept, or
    replaced if it does not fit any more.

    Set KAFKEEP_SPARK_RESIDENT=off to ignore it.
    """
    from kafkeep.spark.resident.control import start_resident  # noqa: PLC0415 - keeps --help fast

    wanted = SparkOptions.load(spark_conf or (), preload=preload.RESIDENT)
    status, is_new = start_resident(wanted, options.idle_timeout_ms)
    say("the resident session is ready" if is_new else "the resident session runs already")
    _show(status, output)


@app.command("stop")
def stop_command() -> None:
    """Stop the resident session. Commands that run in it fail; run them again to resume."""
    from kafkeep.spark.resident.control import stop_resident  # noqa: PLC0415 - keeps --help fast

    say("stopped" if stop_resident() else "there is no resident session")


@app.command("status")
def status_command(spark_conf: SparkConfOption = None, output: OutputOption = Output.TABLE) -> None:
    """Show the resident session, and whether a command would use it.

    Exits with 0 when it runs and fits; 1 when there is none, or it does not fit.
    """
    from kafkeep.spark.resident.control import describe_session  # noqa: PLC0415 - keeps --help fast

    status = describe_session(SparkOptions.load(spark_conf or ()))
    _show(status, output)
    raise typer.Exit(0 if status.state in ("ready", "busy") else 1)


def _show(status: Any, output: Output) -> None:
    document = status.to_json()
    if output is Output.JSON:
        print_json(document)
        return
    shown = {name: value for name, value in document.items() if value is not None}
    if "started_ms" in shown:
        shown["started"] = format_time(shown.pop("started_ms"))
        shown["idle timeout"] = format_duration(shown.pop("idle_timeout_ms"))
        shown["pid"] = str(shown["pid"])  # a number would get thousands separators
    print_pairs(shown)
