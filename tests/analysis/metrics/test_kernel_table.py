from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from graphviz_dash.analysis.metrics.kernel_table import KernelRow, KernelTable, build_kernel_table
from graphviz_dash.analysis.trace.gpu_records import find_missing_gpu_work
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.model.trace import STITCHED, TraceProblem
from graphviz_dash.narrative.summary import explain_unlisted_kernels
from tests.analysis.frames import Frames, make_experiment, make_run, steps_trace

EAGER = steps_trace(4, 10_000, [("gemm", 100), ("tanh", 30), ("gemm", 100)], graph=False)
GRAPH = steps_trace(4, 10_000, [("gemm", 110), ("tanh", 20), ("other", 5)], graph=True)


def table() -> KernelTable:
    runs = make_experiment(make_run("eager", trace=EAGER), make_run("graph", trace=GRAPH))
    return build_kernel_table(runs, "eager")


def row(found: KernelTable, name: str) -> KernelRow:
    (only,) = [one for one in found.rows if one.name == name]
    return only


class TestUses:
    def test_count_time_mean_and_share(self) -> None:
        eager, graph = row(table(), "gemm").uses
        assert eager is not None
        assert graph is not None
        assert (eager.count, eager.total_ns, eager.mean_ns) == (2, 200, 100)
        assert (graph.count, graph.total_ns, graph.mean_ns) == (1, 110, 110)
        assert eager.share == 200 / 230
        assert (eager.instances, graph.instances) == (8, 4)

    def test_medians_take_a_step_without_it_as_none(self) -> None:
        frames = Frames()
        for index in range(5):
            frames.step(index, index * 100, index * 100 + 90)
            frames.kernel("always", index * 100 + 1, index * 100 + 10, 10 + index)
            if index < 2:
                frames.kernel("seldom", index * 100 + 2, index * 100 + 30, 7)
        found = build_kernel_table(make_experiment(make_run("eager", trace=frames.trace())))
        (always,), (seldom,) = row(found, "always").uses, row(found, "seldom").uses
        assert always is not None
        assert seldom is not None
        assert (always.count, always.total_ns, always.mean_ns) == (1, 12, 12)
        assert (seldom.count, seldom.total_ns, seldom.mean_ns, seldom.instances) == (0, 0, 7, 2)
        assert found.has_rare_kernels
        assert [each.name for each in found.usual_rows] == ["always"]
        assert explain_unlisted_kernels(found).endswith(
            "the sums are too low. 1 kernel with a median of 0 in every run is not listed."
        )
        assert not explain_unlisted_kernels(table())
        assert not table().has_rare_kernels

    def test_sets_are_one_thing_whatever_the_profiler_knows_of_them(self) -> None:
        runs = []
        for name, text in (("eager", "Memset (Device)"), ("graph", "Memset (Unknown)")):
            frames = Frames()
            frames.step(0, 0, 100)
            frames.work(text, 10, 5, kind="memset", correlation=frames.call("cudaMemsetAsync", 1))
            runs.append(make_run(name, trace=frames.trace()))
        (only,) = build_kernel_table(make_experiment(*runs), "eager").rows
        assert (only.name, only.category, only.changes) == ("Memset", Category.MEMORY, (0, 0))

    def test_a_kernel_and_a_copy_of_one_name_stay_apart(self) -> None:
        frames = Frames()
        frames.step(0, 0, 100)
        frames.kernel("same", 1, 10, 5)
        frames.work("same", 20, 5, kind="memcpy", correlation=frames.call("cudaMemcpyAsync", 2))
        found = build_kernel_table(make_experiment(make_run("eager", trace=frames.trace())))
        assert sorted(one.kind for one in found.rows) == ["kernel", "memcpy"]


class TestChanges:
    def test_a_kernel_of_one_run_counts_as_zero_in_the_other(self) -> None:
        found = table()
        assert row(found, "other").uses[0] is None
        assert {one.name: one.changes for one in found.rows} == {
            "gemm": (0, -90),
            "tanh": (0, -10),
            "other": (0, 5),
        }

    def test_the_largest_change_comes_first(self) -> None:
        assert [one.name for one in table().rows] == ["gemm", "tanh", "other"]
        assert [one.impact for one in table().rows] == [90, 10, 5]

    def test_without_a_baseline_the_longest_comes_first(self) -> None:
        runs = make_experiment(make_run("graph", trace=GRAPH))
        found = build_kernel_table(runs, "eager")
        assert found.baseline is None
        assert [one.name for one in found.rows] == ["gemm", "tanh", "other"]
        assert all(one.changes == (None,) for one in found.rows)

    def test_stitched_replays_are_not_compared_with_eager_work(self) -> None:
        trace = steps_trace(2, 1_000, [("gemm", 100)], graph=True)
        stitched = replace(trace.info, problems=(TraceProblem(STITCHED, "made up"),))
        runs = [
            make_run("eager", trace=steps_trace(2, 1_000, [("gemm", 100)], graph=False)),
            make_run("graph", trace=dataclasses.replace(trace, info=stitched)),
        ]
        table = build_kernel_table(make_experiment(*runs), "eager")
        assert table.reference_columns == (0, None)
        assert not table.has_changes(1)

    def test_a_run_without_a_trace_has_a_reason_and_no_changes(self) -> None:
        runs = make_experiment(make_run("eager", trace=EAGER), make_run("graph"))
        found = build_kernel_table(runs, "eager")
        assert found.missing_reasons == {"graph": "no traced pass"}
        assert {one.changes for one in found.rows} == {(0, None)}

    def test_a_trace_without_steps_is_no_column(self) -> None:
        frames = Frames()
        frames.kernel("a", 1, 10, 5)
        found = build_kernel_table(make_experiment(make_run("eager", trace=frames.trace())))
        assert found.missing_reasons == {"eager": "the trace marks no steps, as prof.step() does"}
        assert found.rows == ()

    def test_a_trace_without_a_gpu_says_so(self) -> None:
        frames = Frames()
        frames.step(0, 0, 100)
        trace = frames.trace()
        missing = find_missing_gpu_work(trace)
        assert missing is not None
        found = build_kernel_table(make_experiment(make_run("eager", trace=trace)))
        assert found.missing_reasons == {"eager": missing.reason}
