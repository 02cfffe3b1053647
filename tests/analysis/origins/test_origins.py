"""What of a trace lies near a step, and rows that are told apart by their columns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from graphviz_dash.analysis.arrays import Ints
from graphviz_dash.analysis.origins.origins import near
from graphviz_dash.analysis.trace import signatures
from graphviz_dash.analysis.trace.signatures import distinct_rows
from tests.analysis.frames import Frames


class TestNear:
    def frames(self) -> Frames:
        frames = Frames()
        frames.op("around all", 0, 10_000)
        frames.op("long ago", 100, 200)
        frames.op("before", 3_500, 3_600)
        frames.op("within", 4_200, 4_300)
        frames.op("after", 5_100, 5_200)
        return frames

    @pytest.mark.parametrize(
        ("margin", "kept"),
        [
            (None, ["around all", "before", "within"]),
            (0, ["around all", "within"]),
            (3_900, ["around all", "long ago", "before", "within"]),
        ],
    )
    def test_what_runs_in_the_step_or_so_long_before_it(
        self, margin: int | None, kept: list[str]
    ) -> None:
        found = near(self.frames().trace(), 4_000, 5_000, margin)
        assert found.ops["name"].to_list() == kept

    def test_work_and_calls_keep_their_rows(self) -> None:
        frames = self.frames()
        frames.kernel("gemm", launched=150, ts=160, dur=5)
        trace = frames.trace()
        found = near(trace, 4_000, 5_000)
        assert found.gpu is trace.gpu
        assert found.runtime is trace.runtime

    def test_nothing_is_near_in_an_empty_trace(self) -> None:
        assert not len(near(Frames().trace(), 4_000, 5_000).ops)


class TestDistinctRows:
    TABLE = np.array(list(product((1, 2), (-1, 7), (0, 3))) * 2, dtype=np.int64)

    def columns(self) -> Iterator[Ints]:
        yield from self.TABLE.T

    @pytest.mark.parametrize("mix", [0x9E3779B97F4A7C15, 0], ids=["hashed", "all hashes alike"])
    def test_equal_rows_alone_are_one(self, mix: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(signatures, "_MIX", np.uint64(mix))
        distinct, inverse = distinct_rows(self.columns)
        assert len(distinct) == 8
        assert (distinct[inverse] == self.TABLE).all()
