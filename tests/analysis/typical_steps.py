"""Two runs of known truth: the same kernels launched one by one, and as one graph."""

from __future__ import annotations

from graphviz_dash.analysis.step_comparison.typical_step import TypicalStep, build_typical_step
from graphviz_dash.model.run import Run
from tests.analysis.frames import Frames, clean_timings, make_run, steps_trace


def typical_of(run: Run) -> TypicalStep:
    found = build_typical_step(run)
    assert isinstance(found, TypicalStep), found
    return found


def eager_run(*, sync: bool = False, extra: bool = False) -> Run:
    """Two kernels a step, launched late: 10,000 ns on the CPU, half of that without the profiler.

    ``sync``: after the first kernel the CPU waits for it until 6,000; ``extra``: a copy at the end.
    """
    frames = Frames()
    for index in range(6):
        begin = index * 20_000
        frames.step(index, begin, begin + 11_000)
        frames.kernel("gemm", begin + 2_000, begin + 2_010, 500)
        if sync:
            call = frames.call("cudaStreamSynchronize", begin + 2_100)
            row = next(one for one in frames.runtime if one["correlation"] == call)
            row["dur"] = 3_900
        frames.kernel("relu", begin + 8_000, begin + 8_010, 300)
        if extra:
            copy = frames.call("cudaMemcpyAsync", begin + 9_000)
            frames.work("Memcpy DtoD", begin + 9_010, 100, kind="memcpy", correlation=copy)
        frames.call("cudaDeviceSynchronize", begin + 10_000)
    clean = clean_timings([5_200] * 40, launch=5_000)
    return make_run("eager", clean=clean, trace=frames.trace())


def graphed_run() -> Run:
    """The same kernels of one launch that takes 40 ns on the CPU, 20 without the profiler."""
    work = [("gemm", 500), ("relu", 310)]
    clean = clean_timings([950] * 40, launch=20)
    return make_run("graph", clean=clean, trace=steps_trace(6, 1_000, work, graph=True))
