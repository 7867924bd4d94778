"""What Spark starts as the daemon of its workers: ``python -m kafkeep.spark.daemon_handover``.

It hands everything that Spark gave it to the daemon that was forked from the command, and waits
until that ends. Without such a daemon it is one itself. It imports little: Spark waits for it.
"""

from __future__ import annotations

import json
import os
import socket
import sys

SOCKET_VARIABLE = "KAFKEEP_DAEMON_SOCKET"
"""Where the forked daemon waits."""
ACCEPTED = b"\1"


def hand_over(path: str) -> bool:
    """Let the daemon at a socket take over; return whether it did, after it has ended."""
    given = {"environment": dict(os.environ), "arguments": sys.argv}
    with socket.socket(socket.AF_UNIX) as channel:
        try:
            channel.connect(path)
            socket.send_fds(channel, [b"\0"], [0, 1, 2])
            channel.sendall(json.dumps(given).encode())
            channel.shutdown(socket.SHUT_WR)
            accepted = channel.recv(1) == ACCEPTED
        except OSError:
            return False
        if accepted:
            channel.recv(1)  # ends when the daemon does
    return accepted


def main() -> None:
    """Hand over, or run a daemon."""
    path = os.environ.get(SOCKET_VARIABLE)
    if path is None or not hand_over(path):
        from kafkeep.spark.worker_daemon import run  # noqa: PLC0415 - it loads a lot

        run()


if __name__ == "__main__":
    main()
