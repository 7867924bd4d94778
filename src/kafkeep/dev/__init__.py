"""Real Kafka, an S3 server and a schema registry on this machine.

For the demo, the tests and the benchmarks: each environment lives in a folder of its own, listens
on the loopback address alone, and outlives the process that started it.
"""

from kafkeep.dev.describe import status
from kafkeep.dev.environment import (
    kill_broker,
    pause_broker,
    resume_broker,
    start,
    start_broker,
    stop,
    stop_broker,
)
from kafkeep.dev.kafka_version import DEFAULT_KAFKA
from kafkeep.dev.state import DevOptions, DevStatus
from kafkeep.dev.tools import kafka_tool, tool_for_server

__all__ = [
    "DEFAULT_KAFKA",
    "DevOptions",
    "DevStatus",
    "kafka_tool",
    "kill_broker",
    "pause_broker",
    "resume_broker",
    "start",
    "start_broker",
    "status",
    "stop",
    "stop_broker",
    "tool_for_server",
]
