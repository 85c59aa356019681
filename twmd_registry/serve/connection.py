"""A connection whose HTTP client may close its sending side before the answer."""

from __future__ import annotations

from uvicorn.protocols.http.h11_impl import H11Protocol

CUT = "The connection ended in the middle of a request."
PROBE = 2.0
"""Seconds between checks that a client which closed its sending side is still there."""


class Connection(H11Protocol):
    """Answers clients that close their sending side (``shutdown(SHUT_WR)``) after the request, as ``nc -N`` does.

    A client that is gone looks the same, but resets the connection when it is probed. The probe is ``100 Continue``,
    which every HTTP/1.1 client skips; it is sent while the answer is computed.
    """

    ended = False

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
        if self.ended and self.cycle.response_complete:
            self.transport.close()
        elif self.ended and self.cycle.more_body:
            self.send_400_response(CUT)

    def _probe(self) -> None:
        if self.transport.is_closing() or self.cycle.response_started:
            return
        if self.scope["http_version"] == "1.1":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")  # the second one to a closed connection fails
        self.loop.call_later(PROBE, self._probe)
