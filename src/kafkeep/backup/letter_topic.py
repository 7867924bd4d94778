"""The topic of dead letters, made when it is not there. On the driver."""

from __future__ import annotations

from kafkeep.config.sink import ErrorOptions
from kafkeep.errors import PreflightError
from kafkeep.kafka.admin import Admin


def make_letter_topic(admin: Admin, errors: ErrorOptions) -> None:
    """Make it unless it is there. Connectors share one, and may be about to make it at once."""
    name = errors.dead_letter_topic
    if name in admin.topics([name]):
        return
    try:
        admin.create_topic(
            name,
            1,
            replication_factor=errors.dead_letter_replication,
            configs={"retention.ms": "-1"},  # letters have their records' times, old ones too
            may_exist=True,
        )
    except PreflightError as error:
        raise PreflightError(
            f"errors.deadletterqueue.topic.name: {error.message}",
            hint="Make the topic yourself, or set errors.deadletterqueue.topic.replication.factor"
            f" (it is {errors.dead_letter_replication}) to what the cluster can hold.",
        ) from error
