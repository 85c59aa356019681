"""Pairs per second, latency and memory of ``twmd serve`` with 64 concurrent clients, compared with the command line on
the same texts.

Run by ``make bench``, or separately: ``python -m experiments bench serve ROUNDS TRIALS``.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from experiments.bench.command_line import measure_command_line
from experiments.bench.texts import benchmark_pairs, print_table
from tests.serve.serving import count_passes, serving_process

CLIENTS, PAIRS = 64, 10


def look_at(process: int) -> tuple[float, float]:
    """Return a process's peak memory in MB, and its processor time."""
    folder = Path(f"/proc/{process}")
    lines = (folder / "status").read_text(encoding="utf-8").splitlines()
    times = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:13]
    megabytes = next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM"))
    return megabytes, sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


async def use(port: int, bodies: list[bytes]) -> list[tuple[bytes, float, bytes]]:
    """Send requests over one connection, one after the other; return status lines, seconds and contents."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answers = []
    for body in bodies:
        head = (
            f"POST /score HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        started = time.perf_counter()
        writer.write(head.encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        (length,) = (int(line.split()[1]) for line in lines if line.lower().startswith(b"content-length:"))
        content = await reader.readexactly(length)
        answers.append((lines[0], time.perf_counter() - started, content))
    writer.close()
    return answers


async def use_all(port: int, bodies: list[bytes]) -> list[tuple[bytes, float, bytes]]:
    """Send all requests, divided among the clients."""
    answers = await asyncio.gather(*(use(port, bodies[client::CLIENTS]) for client in range(CLIENTS)))
    return [one for own in answers for one in own]


def main() -> None:
    """Measure the command line and the service in turn; print the table.

    Each client sends `rounds` requests, one after the other; everything is measured `trials` times.
    """
    rounds, trials = map(int, sys.argv[1:3] or (6, 2))
    name, predictions, references = benchmark_pairs(CLIENTS * PAIRS * rounds)
    print(f"{name}; {CLIENTS} clients, {rounds} requests of {PAIRS} pairs each; embedded model, twmd", flush=True)
    bodies = [
        json.dumps({"predictions": predictions[i : i + PAIRS], "references": references[i : i + PAIRS]}).encode()
        for i in range(0, len(predictions), PAIRS)
    ]
    rows = []
    for _ in range(trials):
        with tempfile.TemporaryDirectory() as folder:
            seconds, busy, _ = measure_command_line(Path(folder), predictions, references)
            rows.append(["twmd score", f"{len(predictions) / seconds:.0f}", f"{busy:.1f}", *[""] * 5])
            with serving_process(Path(folder), "--timeout", "600") as served:
                loaded, start = look_at(served.process.pid)
                started = time.perf_counter()
                answers = asyncio.run(use_all(served.port, bodies))
                seconds = time.perf_counter() - started
                largest, busy = look_at(served.process.pid)
                passes = count_passes(served.port)
        p50, p99 = np.quantile([late for _, late, _ in answers], [0.5, 0.99])
        lost = sum(not status.startswith(b"HTTP/1.1 200") for status, _, _ in answers)
        numbers = [f"{len(predictions) / seconds:.0f}", f"{busy - start:.1f}", f"{p50:.2f}", f"{p99:.2f}"]
        rows.append(
            ["twmd serve", *numbers, f"{loaded:.0f} -> {largest:.0f}", f"{passes:.0f}/{len(answers)}", str(lost)]
        )
        print(*rows[-2:], sep="\n", flush=True)
    headers = ["", "pairs/s", "CPU s", "p50 s", "p99 s", "MB loaded -> most", "passes/requests", "lost"]
    print_table(rows, headers)


if __name__ == "__main__":
    main()
