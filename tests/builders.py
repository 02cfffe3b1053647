"""What tests build their input with: traces, runs and experiments of known truth.

trace = TraceBuilder(); trace.op(...); trace.kernel(...); trace.write(tmp_path / "t.json.gz")
path = make_experiment(tmp_path / "toy"); path = make_run(tmp_path / "toy", "graph", work=chain(9))
"""

from tests.experiments import (
    CLEAN_NS,
    STEP,
    Work,
    capture_trace,
    captured_graph,
    chain,
    fork_join,
    gpu_starts,
    make_experiment,
    make_run,
    replay_trace,
)
from tests.trace_builder import (
    AUTOGRAD_THREAD,
    MAIN_THREAD,
    PID,
    GpuWork,
    TraceBuilder,
    microseconds,
)

__all__ = [
    "AUTOGRAD_THREAD",
    "CLEAN_NS",
    "MAIN_THREAD",
    "PID",
    "STEP",
    "GpuWork",
    "TraceBuilder",
    "Work",
    "capture_trace",
    "captured_graph",
    "chain",
    "fork_join",
    "gpu_starts",
    "make_experiment",
    "make_run",
    "microseconds",
    "replay_trace",
]
