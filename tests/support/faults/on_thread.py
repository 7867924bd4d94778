"""A server of asyncio that runs on a thread of its own while a ``with`` block lasts."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Self

from tests.support.waiting import PATIENCE_S

LINE_BYTES = 2**20
"""How long what a reader looks for at once may be."""


class OnThread:
    """Serves each connection with ``serve``, on ``host`` and a free ``port``."""

    host = "127.0.0.1"
    port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        if not started.wait(PATIENCE_S):
            raise RuntimeError("the proxy did not start")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(
            asyncio.start_server(self.serve, self.host, 0, limit=LINE_BYTES)
        )
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        self.loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.close()
