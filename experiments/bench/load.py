"""Load test of the command line, Ray with a worker killed every minute, and the service, with many pairs.

Every score must come back, in order, and memory must stay flat.

``python -m experiments bench load FOLDER``. The model is BERT with three layers of random weights and 20 words
(`tests.tiny`), so everything but the encoder is under load.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from threading import Event, Thread

import numpy as np
import psutil  # type: ignore[import-untyped]

from experiments.bench.serve import use
from tests.serve.serving import serving_process
from tests.tiny import WORDS, save_encoder
from twmd_registry.scale.runner import SPARE_CPUS

CLIENTS, PAIRS_OF_REQUEST, SAMPLE, INTERVAL_S, MAX_RUNS = 8, 4, 1000, 2.0, 20
DRIVER_DIES = 2
"""Number of the killed worker after which the driver is killed too."""
TOLERANCE = 1e-6
METRIC = ["-m", "twmd", "--set", "model=tiny", "layer=2", "centering=none"]


def make_pairs(number: int, longest: int) -> Iterator[dict[str, str]]:
    """Yield distinct pairs of 5 words or more, drawn with a fixed seed; a reference begins with its number."""
    draw = random.Random(number)
    for i in range(number):
        words = [WORDS[i // len(WORDS) ** k % len(WORDS)] for k in range(5)] + draw.choices(
            WORDS, k=draw.randint(0, longest - 5)
        )
        other = [word if draw.random() < 0.8 else draw.choice(WORDS) for word in words]
        yield {"prediction": " ".join(other), "reference": " ".join(words)}


@contextmanager
def watch(what: str, process: int, find: Callable[[int], Iterable[psutil.Process]]) -> Iterator[None]:
    """Print the resident memory of the largest process that is found, after 10% to 100% of the time."""
    samples, ended = [0.0], Event()

    def sample() -> None:
        while not ended.wait(INTERVAL_S):
            with suppress(psutil.Error):  # it has ended
                samples.append(max((one.memory_info().rss / 1e6 for one in find(process)), default=0) or samples[-1])

    thread = Thread(target=sample)
    thread.start()
    started = time.perf_counter()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        seconds = time.perf_counter() - started
        parts = {f"{percent}%": samples[len(samples) * percent // 100 - 1] for percent in (10, 25, 50, 75, 100)}
        shown = ", ".join(f"{at} {megabytes:.0f}" for at, megabytes in parts.items())
        print(f"{what}: {seconds:.0f} s; MB at {shown}; most {max(samples):.0f}", flush=True)


def command(*arguments: str) -> list[str]:
    """Return a call of ``twmd score`` with the tiny model."""
    return [sys.executable, "-m", "twmd_registry.cli", "score", *METRIC, *arguments]


def score_lines(name: str) -> np.ndarray:
    """Score a table with the command line; return the score of every row."""
    with (
        Path("scores").open("wb") as out,
        subprocess.Popen(command("-i", name, "-sl", "-w", "16"), stdout=out) as run,
        watch(f"twmd score -i {name}", run.pid, alone),
    ):
        assert run.wait() == 0
    return np.loadtxt("scores")


def score_on_ray(ray: int, seconds: float, workers: int) -> np.ndarray:
    """Score all pairs on Ray while a worker is killed every few seconds, and the driver once; return the scores in row
    order. A run that ends is resumed.
    """
    import pyarrow.parquet

    options = ["--engine", "ray", "-i", "all.jsonl", "--output", "out", "--num-workers", str(workers), "--resume"]
    runs = killed = 0
    while not Path("out/record.json").is_file():
        runs += 1
        assert runs <= MAX_RUNS
        with (
            subprocess.Popen(command(*options)) as run,
            watch("driver of --engine ray", run.pid, alone),
            watch("the largest worker", ray, find_workers),
        ):
            due = time.monotonic() + seconds
            while run.poll() is None:
                time.sleep(INTERVAL_S)
                if (found := find_workers(ray)) and time.monotonic() > due:
                    random.choice(found).kill()
                    killed, due = killed + 1, time.monotonic() + seconds
                    if killed == DRIVER_DIES:
                        run.kill()
                        print("the driver is killed", flush=True)
    table = pyarrow.parquet.read_table(sorted(Path("out").glob("*.parquet")), columns=["input_row", "twmd"])
    table = table.sort_by("input_row")
    assert table["input_row"].to_pylist() == list(range(table.num_rows))  # none is lost or duplicated
    print(f"runs: {runs}; workers: {workers}, killed: {killed}")
    return np.asarray(table["twmd"])


@contextmanager
def ray_process(cpus: int) -> Iterator[int]:
    """Start a Ray that outlives the driver."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    os.environ |= {"RAY_ADDRESS": f"127.0.0.1:{port}", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token_hex()}
    start = [sys.executable, "-u", "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--port={port}"]
    options = [f"--num-cpus={cpus}", "--node-ip-address=127.0.0.1", "--include-dashboard=false"]
    with (
        tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as folder,  # names of sockets are short
        subprocess.Popen([*start, *options, f"--temp-dir={folder}"], stdout=subprocess.PIPE, text=True) as ray,
    ):
        try:
            assert ray.stdout is not None
            assert any("Ray runtime started" in line for line in ray.stdout)
            yield ray.pid
        finally:
            ray.terminate()


def alone(process: int) -> list[psutil.Process]:
    """Return a process."""
    return [psutil.Process(process)]


def find_workers(ray: int) -> list[psutil.Process]:
    """Return Ray's processes that score."""
    found = []
    for process in psutil.Process(ray).children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            if "MapWorker" in " ".join(process.cmdline()):
                found.append(process)
    return found


def score_by_service(lines: list[str], requests: int) -> np.ndarray:
    """Send pairs to ``twmd serve`` from several clients at once; return their scores."""
    bodies = []
    for i in range(requests):
        rows = [json.loads(lines[(i * PAIRS_OF_REQUEST + k) % len(lines)]) for k in range(PAIRS_OF_REQUEST)]
        texts = {f"{side}s": [row[side] for row in rows] for side in ("prediction", "reference")}
        bodies.append(json.dumps(texts).encode())
    scores = np.full((requests, PAIRS_OF_REQUEST), np.nan)

    async def send(port: int) -> None:
        async def send_share(client: int) -> None:
            for i, (status, _, content) in enumerate(await use(port, bodies[client::CLIENTS])):
                assert status.startswith(b"HTTP/1.1 200"), status
                scores[client + i * CLIENTS] = json.loads(content)["scores"]

        await asyncio.gather(*map(send_share, range(CLIENTS)))

    with (
        serving_process(Path(), *METRIC) as served,
        watch(f"twmd serve, {requests:,} requests", served.process.pid, alone),
    ):
        asyncio.run(send(served.port))
    return scores.ravel()


def compare(what: str, found: np.ndarray, expected: np.ndarray) -> None:
    """Print the largest deviation from the expected scores; raise an error if it is too large."""
    assert found.shape == expected.shape, (found.shape, expected.shape)
    far = float(np.abs(found - expected).max())  # NaN for a missing score
    print(f"{what}: {len(found):,} scores, at most {far:.1e} from the command line's", flush=True)
    assert far < TOLERANCE


def score_alone(lines: list[str]) -> np.ndarray:
    """Score all pairs with the command line, and some separately; return the scores of all."""
    scores = score_lines("all.jsonl")
    chosen = sorted(random.Random(0).sample(range(len(lines)), min(SAMPLE, len(lines))))
    Path("some.jsonl").write_text("".join(f"{lines[i]}\n" for i in chosen), encoding="utf-8")
    compare("some rows alone", score_lines("some.jsonl"), scores[chosen])
    np.save("scores.npy", scores)
    return scores


def main() -> None:
    """Run the named stages, or all. Later ones compare with the output of the first."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("stages", nargs="*", default=["score", "ray", "serve"])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--words", type=int, default=17, help="of the longest texts")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--kill-after", type=float, default=60, help="seconds between two kills")
    parser.add_argument("--workers", type=int, default=2, help="of Ray")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    os.chdir(options.folder)
    save_encoder("bert", Path("tiny"))
    lines = list(map(json.dumps, make_pairs(options.pairs, options.words)))
    if not Path("all.jsonl").exists():  # --resume would reject a rewritten file
        Path("all.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"pairs: {len(lines):,}, different: {len(set(lines)):,}", flush=True)
    scores = score_alone(lines) if "score" in options.stages else np.load("scores.npy")
    if "ray" in options.stages:
        with ray_process(options.workers + SPARE_CPUS) as ray:
            compare("Ray", score_on_ray(ray, options.kill_after, options.workers), scores)
    if "serve" in options.stages:
        rows = np.arange(options.requests * PAIRS_OF_REQUEST) % len(lines)
        compare("service", score_by_service(lines, options.requests), scores[rows])


if __name__ == "__main__":
    main()
