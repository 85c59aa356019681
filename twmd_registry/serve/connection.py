"""A connection whose HTTP client may close its sending side before the answer, or send a request slowly."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

CUT = "The connection ended in the middle of a request."
PROBE = 2.0
"""Seconds between checks that a client which closed its sending side is still there."""


class Connection(H11Protocol):
    """Answers clients that close their sending side (``shutdown(SHUT_WR)``) after the request, as ``nc -N`` does.

    A client that is gone looks the same, but resets the connection when it is probed. The probe is ``100 Continue``,
    which every HTTP/1.1 client skips; it is sent while the answer is computed. A client that does not send the whole
    head of a request within the time limit of a body is disconnected.
    """

    ended = False
    head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Wait for the head of the first request."""
        super().connection_made(transport)
        self._limit_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the wait for a head."""
        super().connection_lost(exc)
        if self.head:
            self.head.cancel()

    def data_received(self, data: bytes) -> None:
        """Read the data, which may end in the head of the next request."""
        super().data_received(data)
        self._limit_head()

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn's closes the connection
        """Return whether the connection stays open because a request waits for its answer."""
        waits = self.cycle is not None and not self.cycle.response_complete
        if self.cycle.more_body if waits else self.conn.trailing_data[0]:
            self.send_400_response(CUT)
        elif waits:
            self.ended = True
            self.loop.call_later(PROBE, self._probe)
        return waits

    def on_response_complete(self) -> None:
        """Go to the next request; refuse one that was cut off, and close the connection after the last."""
        super().on_response_complete()
        if not self.ended:
            self._limit_head()
        elif not self.cycle.response_complete and self.cycle.more_body:
            self.send_400_response(CUT)
        elif self.cycle.response_complete:
            self.transport.close()

    def _limit_head(self) -> None:
        """Start a timer if a head is awaited, and cancel it otherwise."""
        is_awaited = self.cycle is None or (self.cycle.response_complete and bool(self.conn.trailing_data[0]))
        if is_awaited and self.head is None:
            self._unset_keepalive_if_required()  # its timer would close the connection without an answer
            self.head = self.loop.call_later(self.timeout_keep_alive, self._let_go)
        elif self.head and not is_awaited:
            self.head.cancel()
            self.head = None

    def _let_go(self) -> None:
        if self.conn.trailing_data[0] and not self.transport.is_closing():
            self.send_400_response(f"The head of the request did not arrive within {self.timeout_keep_alive} seconds.")
        self.transport.close()

    def _probe(self) -> None:
        if self.transport.is_closing() or self.cycle.response_started:
            return
        if self.scope["http_version"] == "1.1":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")  # the second one to a closed connection fails
        self.loop.call_later(PROBE, self._probe)
