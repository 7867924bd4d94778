"""``kafkeep doctor``: check the machine, Kafka and the store."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkeep.cli.flags import (
    CommandConfigOption,
    EndpointOption,
    ProfileOption,
    RegionOption,
    SparkConfOption,
    kafka_options,
    storage_options,
)
from kafkeep.cli.output import Output, OutputOption, print_json, print_line
from kafkeep.errors import UsageError

OptionalArchive = Annotated[
    str | None,
    typer.Option(
        "--archive",
        envvar="KAFKEEP_ARCHIVE",
        metavar="ADDRESS",
        help="Also check this archive: s3://bucket/prefix, gs://bucket/prefix,"
        " az://container/prefix, file:///folder or a folder.",
    ),
]
OptionalBootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        "-b",
        envvar="KAFKEEP_BOOTSTRAP_SERVERS",
        metavar="HOST:PORT,…",
        help="Also check this Kafka cluster.",
    ),
]
ExactOption = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="Also test what restore --exact-offsets needs, with a temporary topic.",
    ),
]
ExecutorsOption = Annotated[
    bool,
    typer.Option(
        "--spark",
        help="Also check versions, Kafka and the store from Spark's executors.",
    ),
]
NoSparkOption = Annotated[bool, typer.Option("--no-spark", help="Do not start Spark.")]


def doctor_command(
    *,
    archive: OptionalArchive = None,
    bootstrap_servers: OptionalBootstrap = None,
    command_config: CommandConfigOption = None,
    exact: ExactOption = False,
    executors: ExecutorsOption = False,
    no_spark: NoSparkOption = False,
    spark_conf: SparkConfOption = None,
    s3_endpoint: EndpointOption = None,
    s3_region: RegionOption = None,
    s3_profile: ProfileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check that this machine, Kafka and the store are ready, and say how to fix what is not.

    Everything it writes to the store, and with --exact to Kafka, is removed again.

    Exits with 0, or with the code of the first failure: 10 no such folder or bucket; 12 access
    denied; 14 the store lets two writers create one object; 1 anything else.
    """
    from kafkeep.maintenance.doctor import DoctorPlaces, examine  # noqa: PLC0415 - keeps --help fast
    from kafkeep.options.spark import SparkOptions  # noqa: PLC0415

    wants_kafka = bootstrap_servers or command_config
    if exact and not wants_kafka:
        raise UsageError("--exact needs a Kafka cluster", hint="Add --bootstrap-servers.")
    if no_spark and (spark_conf or executors):
        given = "--spark" if executors else "--spark-conf"
        raise UsageError(
            f"{given} cannot be combined with --no-spark", hint="Leave out one of them."
        )
    places = DoctorPlaces(
        archive=archive,
        storage=storage_options(s3_endpoint, s3_region, s3_profile, archive),
        kafka=kafka_options(bootstrap_servers, command_config) if wants_kafka else None,
        exact=exact,
        spark=None if no_spark else SparkOptions.load(spark_conf or ()),
        executors=executors,
    )
    checks = []
    for check in examine(places):
        checks.append(check)
        if output is Output.TABLE:
            print_line(f"{check.verdict:<4}  {check.subject}: {check.what}")
            if check.hint:
                print_line(f"      {check.hint}")
    exit_code = next((check.exit_code for check in checks if check.exit_code), 0)
    if output is Output.JSON:
        print_json({"exit_code": exit_code, "checks": [check.to_json() for check in checks]})
    raise typer.Exit(exit_code)
