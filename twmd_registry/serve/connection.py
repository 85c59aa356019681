"""The connection of an HTTP client that may close its sending side before it has the answer, or be slow to ask."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

CUT = "The connection ended in the middle of the request."
PROBE = 2.0
"""Seconds between looks whether a client that has closed its sending side is still there."""


class Connection(H11Protocol):
    """Answers clients that send a request and close their sending side (``shutdown(SHUT_WR)``), as ``nc -N`` does.

    To the server this looks like a client that has gone. The reply to a probe tells them apart: a client
    that has gone resets the connection. So ``100 Continue``, which every client of HTTP/1.1 skips, is sent while the
    answer is computed. A client that sends no whole head of a request within the seconds of a body is let go.
    """

    ended = False
    head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Wait for the head of the first request."""
        super().connection_made(transport)
        self._limit_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        super().connection_lost(exc)
        if self.head:
            self.head.cancel()

    def data_received(self, data: bytes) -> None:
        """Read what has come; of the next request only a part of the head may be there."""
        super().data_received(data)
        self._limit_head()

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn's closes the connection
        """Return whether the connection stays open, since a request waits for its answer."""
        waits = self.cycle is not None and not self.cycle.response_complete
        if self.cycle.more_body if waits else self.conn.trailing_data[0]:
            self.send_400_response(CUT)
        elif waits:
            self.ended = True
            self.loop.call_later(PROBE, self._probe)
        return waits

    def on_response_complete(self) -> None:
        """Turn to the next request; close the connection after the last one, and refuse one that was cut off."""
        super().on_response_complete()
        if not self.ended:
            self._limit_head()
        elif not self.cycle.response_complete and self.cycle.more_body:
            self.send_400_response(CUT)
        elif self.cycle.response_complete:
            self.transport.close()

    def _limit_head(self) -> None:
        """Start the clock for a head that is awaited, unless it runs; stop it where none is."""
        is_awaited = self.cycle is None or (self.cycle.response_complete and bool(self.conn.trailing_data[0]))
        if is_awaited and self.head is None:
            self._unset_keepalive_if_required()  # the clock of a connection without a request, which has no answer
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
