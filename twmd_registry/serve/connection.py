"""The connection of an HTTP client that may close its sending side before it has the answer."""

from __future__ import annotations

from uvicorn.protocols.http.h11_impl import H11Protocol

PROBE = 2.0
"""Seconds between looks whether a client that has closed its sending side is still there."""


class Connection(H11Protocol):
    """Answers clients that send a request and close their sending side (``shutdown(SHUT_WR)``), as ``nc -N`` does.

    To the server this looks like a client that has gone. What tells them apart is the reply to what is sent: a client
    that has gone resets the connection. So ``100 Continue``, which every client of HTTP/1.1 skips, is sent while the
    answer is computed.
    """

    ended = False

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn's closes the connection
        """Return whether the connection stays open, since a request waits for its answer."""
        waits = self.cycle is not None and not self.cycle.response_complete
        if self.cycle.more_body if waits else self.conn.trailing_data[0]:
            self.send_400_response("The connection ended in the middle of the request.")
        elif waits:
            self.ended = True
            self.loop.call_later(PROBE, self._probe)
        return waits

    def on_response_complete(self) -> None:
        """Close the connection after the last answer: no further request can come."""
        super().on_response_complete()
        if self.ended and self.cycle.response_complete:
            self.transport.close()

    def _probe(self) -> None:
        if self.transport.is_closing() or self.cycle.response_started:
            return
        if self.scope["http_version"] == "1.1":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")  # the second one to a closed connection fails
        self.loop.call_later(PROBE, self._probe)
