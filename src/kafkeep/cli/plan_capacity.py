"""``kafkeep plan-capacity``: estimate what archiving a load takes."""

from __future__ import annotations

from kafkeep.cli.flags import with_options
from kafkeep.cli.output import Output, OutputOption, print_json, print_pairs
from kafkeep.options.capacity import CapacityOptions
from kafkeep.options.units import count_of, format_duration, format_size


@with_options(CapacityOptions)
def plan_capacity_command(*, output: OutputOption = Output.TABLE, options: CapacityOptions) -> None:
    """Estimate tasks, requests, storage, cost and restore time of a backup with --follow.

    The model reads nothing and contacts nobody. The prices are examples: give yours.

    Exits with 0; 2 when a value is invalid.
    """
    from kafkeep.maintenance.capacity import plan_capacity  # noqa: PLC0415 - keeps --help fast

    plan = plan_capacity(options)
    if output is Output.JSON:
        print_json(plan.to_json())
        return
    print_pairs(
        {
            "task slots": f"{plan.slots:,} in {count_of(plan.executors, 'executor')}",
            "cycles": f"{plan.cycles_per_day:,} a day, {plan.tasks_per_day:,} tasks",
            "objects": f"{plan.objects_per_day:,} a day of {format_size(plan.object_bytes)}, "
            f"{plan.objects:,} kept",
            "records": f"{plan.records:,} kept",
            "requests": f"{plan.writes_per_day:,} writes a day",
            "log": f"{format_size(plan.log_bytes_per_day)} a day",
            "storage": format_size(plan.stored_bytes),
            "cost per month": f"{plan.cost_per_month:,.2f}: storage {plan.storage_per_month:,.2f}, "
            f"requests {plan.requests_per_month:,.2f}, computing {plan.computing_per_month:,.2f}",
            "restore of all": f"{format_duration(round(plan.restore_seconds * 1000))} with these "
            f"slots, {format_size(plan.restore_driver_bytes)} of the driver's memory, "
            f"requests for {plan.restore_cost:,.2f}",
        }
    )
