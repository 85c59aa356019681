"""Any order of runs into a folder ends with every row's score or an error of this package; parts run in this process."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests import tiny
from tests.scale.segments import draw_segments, read_parts, read_rows, scorers, write_rows
from twmd_registry.engine.scorer import score_all
from twmd_registry.errors import FileError, SpecError
from twmd_registry.scale import ScaleOptions, ScoredDataset
from twmd_registry.scale.partitions import PartitionScorer
from twmd_registry.scale.plan import LOCK
from twmd_registry.scale.runner import PLAN, RECORD, REJECTS, score_parts

ROWS, BAD = 11, 4
METRICS = (("none",), ("none", "corpus"))
"""One pass, and two."""


class KilledError(Exception):
    """The process is gone."""


class Runs(RuleBasedStateMachine):
    """Begin, kill and resume runs, with other arguments, too, and damage what they leave."""

    @initialize()
    def make_data(self) -> None:
        """Write a model, a table with a bad row, and the scores that are right."""
        self.folder = Path(tempfile.mkdtemp())
        self.out, self.begun, self.damaged = self.folder / "out", "", False
        model, segments = tiny.save_encoder("bert", self.folder / "model"), draw_segments(ROWS)
        rows: list[object] = [{"prediction": one, "references": many} for one, many in segments]
        rows[BAD] = "no json"
        write_rows(self.folder / "rows.jsonl", rows)
        good = [segment for row, segment in enumerate(segments) if row != BAD]
        self.own = [scorers(model, *names) for names in METRICS]
        self.held = [[own.__enter__() for own in several] for several in self.own]
        self.expected = [[found.scores for found in score_all(own, *zip(*good, strict=True))] for own in self.own]

    @rule(
        metrics=st.integers(0, 1),
        part_rows=st.sampled_from([3, 4]),
        parts=st.sampled_from([0, 1, 3, 6, 100]),
        within=st.booleans(),
        resume=st.booleans(),
    )
    def run(self, metrics: int, part_rows: int, parts: int, within: bool, resume: bool) -> None:
        """Run until so many parts are done, and be killed then, or within the next."""

        def each(scorer: PartitionScorer, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
            nonlocal parts
            for number in numbers:
                if not parts:
                    if within:
                        (self.out / f"part-{number:05d}.tries").write_bytes(b"1")
                        (self.out / f"part-{number:05d}.parquet.7.part").write_bytes(b"PAR1 half")
                    raise KilledError
                parts -= 1
                yield number, scorer.run(number)

        asked, others = f"{metrics} {part_rows}", self.names() - {LOCK, PLAN}
        options = ScaleOptions(part_rows=part_rows, resume=resume)
        try:
            record = score_parts(
                self.own[metrics],
                [str(self.folder / "rows.jsonl")],
                str(self.out),
                options,
                lambda: nullcontext((each, 1)),
            )
        except KilledError:
            self.begun = asked
        except SpecError:  # other metrics, or parts of another size
            assert resume
            assert asked != self.begun
        except FileError:
            assert self.damaged if resume else others  # a new run can use an empty folder, or one with a plan alone
        else:
            self.begun = asked
            self.check(metrics, record)

    def names(self) -> set[str]:
        """Return the names of the files in the folder."""
        return {path.name for path in self.out.glob("*")}

    def check(self, metrics: int, record: ScoredDataset) -> None:
        """Look for every row once, with the score that it has on a single machine, and for the rejected row."""
        table = read_parts(self.out)
        assert table["row"].to_pylist() == [row for row in range(ROWS) if row != BAD]
        for metric, expected in zip(record.metrics, self.expected[metrics], strict=True):
            np.testing.assert_allclose(table[metric.column].to_numpy(), expected, rtol=0, atol=1e-5)
        assert [reject["row"] for reject in read_rows(self.out / REJECTS)] == [BAD]
        assert (record.rows, record.rejected) == (ROWS - 1, 1)
        left = self.names() - {LOCK, PLAN, RECORD, REJECTS} - {f"part-{n:05d}.parquet" for n in range(record.parts)}
        assert not left

    @rule(choice=st.integers(0, 99), size=st.integers(-1, 400))
    def damage(self, choice: int, size: int) -> None:
        """Cut a file of a run that is not finished, or the record of one that is; or remove it."""
        found = self.names() - {LOCK}
        names = sorted(found & {RECORD} or found)
        if names:
            path = self.out / names[choice % len(names)]
            self.damaged = self.damaged or path.name in {PLAN, RECORD}
            path.unlink() if size < 0 or "rejects" in path.name else os.truncate(path, min(size, path.stat().st_size))

    @rule()
    def begin_again(self) -> None:
        """Remove the folder, as an error says."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.out)
        self.begun, self.damaged = "", False

    def teardown(self) -> None:
        """Remove everything."""
        for own in (own for several in self.held for own in several):
            own.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.mark.filterwarnings("ignore::twmd_registry.errors.TwmdWarning")
def test_any_order_of_runs_and_damage_ends_with_every_row_or_an_error() -> None:
    run_state_machine_as_test(Runs, settings=settings(max_examples=10, stateful_step_count=12, deadline=None))
