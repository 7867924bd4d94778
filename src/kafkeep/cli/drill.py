"""``kafkeep drill``: a restore into scratch topics that proves the archive can be restored."""

from __future__ import annotations

import signal

import typer

from kafkeep import preload
from kafkeep.cli.flags import (
    ArchiveLocation,
    BootstrapOption,
    CommandConfigOption,
    SparkConfOption,
    kafka_options,
    start_spark,
    with_archive,
    with_options,
    with_quiet,
)
from kafkeep.cli.output import (
    Output,
    OutputOption,
    complain,
    failure_reported,
    print_json,
    print_pairs,
    say,
)
from kafkeep.cli.verify import ReportOption
from kafkeep.options.maintenance import DrillOptions


@with_quiet
@with_archive
@with_options(DrillOptions)
def drill_command(
    *,
    archive: ArchiveLocation,
    bootstrap_servers: BootstrapOption,
    report: ReportOption = None,
    command_config: CommandConfigOption = None,
    spark_conf: SparkConfOption = None,
    output: OutputOption = Output.TABLE,
    options: DrillOptions,
) -> None:
    """Test a restore: restore into scratch topics, compare every record, delete the topics.

    Run it on a schedule. The names of scratch topics begin with kafkeep-drill-. They are deleted at
    the end, also after an error or Ctrl-C. Nothing else is written; the archive does not change. A
    report is written in any case.

    Exits with 0 when every record matches; 3 with warnings; 10 when there is no archive; 13 when
    records differ or objects are damaged; 14 when the cluster does not allow it; 130 when
    interrupted.
    """
    from kafkeep.maintenance.report import check_report_path, write_report  # noqa: PLC0415

    file = check_report_path(report) if report is not None else None
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up as on Ctrl-C
    with failure_reported("drill", file, archive=archive.address, bootstrap=bootstrap_servers):
        locations = archive.beside(kafka_options(bootstrap_servers, command_config))
        spark = start_spark(
            spark_conf, locations, preload=preload.DRILL, runs="kafkeep.maintenance.drill"
        )
        from kafkeep.maintenance.drill import run_drill  # noqa: PLC0415 - imports while the JVM starts
        from kafkeep.maintenance.report_pages import drill_page  # noqa: PLC0415
        from kafkeep.restore.run import run_restore  # noqa: PLC0415

        result = run_drill(options, locations, spark, run_restore)
    for name in result.leftovers:
        say(f"warning: {name} belongs to a drill that was killed or is still running")
    for warning in result.warnings:
        say(f"warning: {warning}")
    for line in result.against.lines():
        complain(line)
    if output is Output.JSON:
        print_json(result.to_json())
    else:
        print_pairs(
            {
                "archive": result.against.archive,
                "commit": result.against.commit,
                "topics": len(result.scratch),
                "archived": result.archived,
                "sample": result.sample,
                "restored": result.restored.records,
                "proven": result.proven,
                "seconds": f"{result.seconds:.1f}",
                "verdict": result.verdict,
            }
        )
    if file is not None:
        write_report(drill_page(result), file)
    raise typer.Exit(result.exit_code)
