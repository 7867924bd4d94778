"""Real Kafka, an S3 server and a schema registry on this machine.

For the demo, the tests and the benchmarks: each environment lives in a folder of its own, listens
on the loopback address alone, and outlives the process that started it.
"""

from kafkeep.dev.broker import kafka_tool, tool_for_server
from kafkeep.dev.environment import (
    kill_broker,
    pause_broker,
    resume_broker,
    start,
    start_broker,
    status,
    stop,
    stop_broker,
)
from kafkeep.dev.state import DevOptions, DevStatus

__all__ = [
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
