"""HTTP as uvicorn speaks it, with bounds on what comes before the body, and with errors as a line of JSON."""

from __future__ import annotations

import asyncio
import json
from typing import ClassVar

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_CONNECTIONS = 900  # a process may often open 1,024 files
LINGER_SECONDS = 0.5  # that a refused client may still send, unread: one that is cut off does not see the answer
HEAD_BYTES = 65_536  # of the headers and the address of a request


def refusal(status: int, message: str, hint: str, headers: dict[str, str] | None = None) -> Response:
    """An error as one line of JSON: what is wrong, and what to do."""
    return Response(json.dumps({"error": message, "hint": hint}) + "\n", status, headers, "application/json")


class BoundedProtocol(HttpToolsProtocol):
    """A connection whose headers are bounded in size and in time."""

    timeout_seconds: ClassVar[float] = 30.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock of the first request; refuse one connection too many."""
        super().connection_made(transport)
        self.is_refused = False
        self._begin_head()
        if len(self.connections) > MOST_CONNECTIONS:
            self._refuse(503, "There are too many connections.")

    def _begin_head(self) -> None:
        self.head_bytes: int | None = 0
        self.head_timer = self.loop.call_later(self.timeout_seconds, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self.head_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes before the body."""
        if self.is_refused:
            return
        super().data_received(data)
        if self.head_bytes is not None:
            self.head_bytes += len(data)
            if self.head_bytes > HEAD_BYTES:
                self._refuse(431, f"The headers are longer than {HEAD_BYTES:,} bytes.")

    def on_message_begin(self) -> None:
        """Start the clock of a request."""
        super().on_message_begin()
        self.head_timer.cancel()
        self._begin_head()

    def on_headers_complete(self) -> None:
        """Stop the clock: the body has its own."""
        self.head_bytes = None
        self.head_timer.cancel()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP."""
        self._refuse(400, msg)

    def _refuse(self, status: int, message: str) -> None:
        response = refusal(status, message, "See /docs.", {"Connection": "close"})
        head = "".join(f"{name.decode()}: {value.decode()}\r\n" for name, value in response.raw_headers)
        self.is_refused = True
        self.transport.write(f"HTTP/1.1 {status} Refused\r\n{head}\r\n".encode() + bytes(response.body))
        self.transport.write_eof()
        self.head_timer.cancel()
        self.head_timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)
