"""Cost and quality of ``align=sentences`` on talks: ``python -m experiments bench documents ted-mqm/zh-en.tsv``.

The file contains Google's MQM ratings of TED talks. The sentences of three systems are grouped into documents. Cost is
the processor time of these documents, divided by the time of the same sentences scored as segments, interleaved. For
quality, one sentence in ten is removed, added from elsewhere, or joined to the next one, and links are compared with
the known ones.
"""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import twmd_registry
from twmd_registry.engine import sentences
from twmd_registry.files.tables import read_tsv

SYSTEMS = ("Online-W", "SMU", "Facebook-AI")
ROUNDS = 7
Pair = tuple[list[str], list[str]]


def read_talks(path: Path) -> list[Pair]:
    """Return predictions and references of every talk by every system."""
    head, *rows = read_tsv(path)
    texts = dict[tuple[str, str, int], str]()
    for row in rows:
        cells = dict(zip(head, row, strict=True))
        texts[cells["system"], cells["doc"], int(cells["seg_id"])] = re.sub("</?v>", "", cells["target"])
    talks = sorted({doc for _, doc, _ in texts})
    numbers = {talk: sorted(k for system, doc, k in texts if (system, doc) == ("ref", talk)) for talk in talks}
    return [
        ([texts[system, talk, k] for k in numbers[talk]], [texts["ref", talk, k] for k in numbers[talk]])
        for system in SYSTEMS
        for talk in talks
    ]


def disturb(talk: Pair, other: list[str], draw: random.Random) -> tuple[Pair, set[tuple[int, int]]]:
    """Return a talk with sentences missing, added and joined, and which sentences belong together."""
    hyp, ref, gold, k = list[str](), list[str](), set[tuple[int, int]](), 0
    while k < len(talk[0]):
        kind, step = draw.choice(["cut", "add", "join", "split"]) if draw.random() < 0.1 else "", 1
        own: Pair = [talk[0][k]], [talk[1][k]]
        if kind in {"join", "split"} and k + 1 < len(talk[0]):
            step, both = 2, [side[k : k + 2] for side in talk]
            own = ([" ".join(both[0])], both[1]) if kind == "join" else (both[0], [" ".join(both[1])])
        if kind != "cut":
            gold |= {(len(hyp) + i, len(ref) + j) for i in range(len(own[0])) for j in range(len(own[1]))}
            hyp += own[0]
        ref += own[1]
        hyp += [draw.choice(other)] if kind == "add" else []
        k += step
    return (hyp, ref), gold


def score_documents(talks: list[Pair]) -> tuple[list[list[sentences.SentenceLink]], dict[str, int]]:
    """Return the links and counts of every document."""
    links, match = list[list[sentences.SentenceLink]](), sentences.match_sentences

    def keep(hyp: np.ndarray, ref: np.ndarray) -> list[sentences.SentenceLink]:
        links.append(match(hyp, ref))
        return links[-1]

    sentences.match_sentences = keep
    hyp, ref = (["\n".join(talk[k]) for talk in talks] for k in range(2))
    found = twmd_registry.score(hyp, ref, "twmd", align="sentences").counts.sentences
    sentences.match_sentences = match
    return links, dict(found)


def seconds(call: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def main() -> None:
    """Print the ratio of costs, and the links' precision and recall."""
    talks = read_talks(Path(sys.argv[1]))
    hyp, ref = ([text for talk in talks for text in talk[k]] for k in range(2))
    calls = (lambda: twmd_registry.score(hyp, ref, "twmd"), lambda: score_documents(talks))
    for call in calls:
        call()
    times = np.array([[seconds(call) for call in calls] for _ in range(ROUNDS)])
    ratio = float(np.median(times[:, 1] / times[:, 0]))
    print(f"{len(hyp)} sentences: as segments {np.median(times[:, 0]):.2f} s, as documents {ratio:.2f} of it")
    draw, correct, found_links, known = random.Random(1), 0, 0, 0
    disturbed = [disturb(talk, hyp, draw) for talk in talks]
    links, counts = score_documents([talk for talk, _ in disturbed])
    for own, (_, gold) in zip(links, disturbed, strict=True):
        pairs = {(i, j) for x, y in own for i in range(x.start, x.stop) for j in range(y.start, y.stop)}
        correct, found_links, known = correct + len(pairs & gold), found_links + len(pairs), known + len(gold)
    print(f"disturbed: precision {correct / found_links:.3f}, recall {correct / known:.3f} of {known} pairs; {counts}")


if __name__ == "__main__":
    main()
