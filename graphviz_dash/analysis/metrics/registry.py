"""Every figure that the comparison shows, registered once: what it is, in which unit, from which
pass, and which direction is better. `make docs` writes docs/reference/metrics.md from here."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from graphviz_dash.units import (
    format_bytes,
    format_count,
    format_flops,
    format_hertz,
    format_ns,
    format_percent,
    format_ratio,
    format_tokens,
)


class Unit(StrEnum):
    """What a value counts; values are never scaled inside."""

    NANOSECONDS = "ns"
    BYTES = "B"
    COUNT = "count"
    RATIO = "ratio"
    FRACTION = "fraction"
    FLOPS = "FLOP/s"
    HERTZ = "Hz"
    TOKENS = "tokens/s"


class Source(StrEnum):
    """The pass that a figure comes from. ``BOTH`` divides one pass by the other, and says so;
    ``PREDICTED`` comes from the eager run alone."""

    CLEAN = "clean"
    TRACED = "traced"
    CAPTURE = "capture"
    MEMORY = "memory"
    MEMORY_PASS = "memory pass"
    RECORDED = "recorded"
    PREDICTED = "predicted"
    BOTH = "traced and clean"


class Better(StrEnum):
    """Which direction is an improvement; NONE for facts that are neither good nor bad."""

    LOWER = "lower"
    HIGHER = "higher"
    NONE = "none"


_FORMATS: Final[dict[Unit, Callable[[float | None], str]]] = {
    Unit.NANOSECONDS: format_ns,
    Unit.BYTES: format_bytes,
    Unit.COUNT: format_count,
    Unit.RATIO: format_ratio,
    Unit.FRACTION: format_percent,
    Unit.FLOPS: format_flops,
    Unit.HERTZ: format_hertz,
    Unit.TOKENS: format_tokens,
}


class Metric(Struct, frozen=True):
    """One figure's definition. ``formula`` is complete sentences for docs/reference/metrics.md;
    ``estimate`` marks what joins two passes and is therefore no measurement."""

    id: str
    title: str
    unit: Unit
    source: Source
    better: Better
    formula: str
    estimate: bool = False

    def format(self, value: float | None) -> str:
        """The value as text with its unit; an en dash for None."""
        return _FORMATS[self.unit](value)


_NS, _B, _N, _X, _F = (
    Unit.NANOSECONDS,
    Unit.BYTES,
    Unit.COUNT,
    Unit.RATIO,
    Unit.FRACTION,
)
_CLEAN, _TRACED, _CAPTURE, _MEMORY = Source.CLEAN, Source.TRACED, Source.CAPTURE, Source.MEMORY
_MEMORY_PASS = Source.MEMORY_PASS
_RECORDED = Source.RECORDED
_LOW, _HIGH, _NONE = Better.LOWER, Better.HIGHER, Better.NONE

_STEP = (
    Metric(
        "step_time", "Step time", _NS, _CLEAN, _LOW,
        "Median over the synchronised iterations of the wall time from the call of the step to its "
        "completed work: the GPU is idle when the iteration begins and is waited for at its end. "
        "This is the latency of one step, the figure to use when each step's result is awaited "
        "(inference, decoding, a loss read in every step). It is the headline.",
    ),
    Metric(
        "step_interval", "Back-to-back interval", _NS, _CLEAN, _LOW,
        "Median over a second series of iterations, run without waiting in between, of the time "
        "between the CUDA events before and after each. This is the time a step takes in a loop "
        "that never waits (most training loops): the CPU may run ahead of the GPU, so it tends to "
        "the longer of launch CPU time and GPU time. The step time has besides that the way to the "
        "first kernel and the wait after the last one.",
    ),
    Metric(
        "launch_cpu_time", "Launch CPU time", _NS, _CLEAN, _LOW,
        "Median over the synchronised iterations of the time from the call of the step to its "
        "return, before anything is waited for. In mode eager that is Python, the framework and "
        "all launches of the step; in mode graph it is one replay() call. A step that itself waits "
        "for the GPU includes that wait.",
    ),
    Metric(
        "speedup", "Speedup", _X, _CLEAN, _HIGH,
        "Step time of the baseline divided by the step time of this run. The spread is a 95% "
        "interval of the ratio of medians: of both runs processes are resampled a thousand times, "
        "and in them iterations in blocks of neighbours (circular block bootstrap, block length "
        "the square root of the number of iterations, fixed seed), because neighbours are alike "
        "and independent draws would promise too much. It covers what varies from one process to "
        "the next while the modes were timed in turns; of a run that one process timed, as in "
        "bundles before version 3, what varied within that process alone, which is said beside it. "
        "What another machine or another hour changes is in neither: the fixed CPU loop and the "
        "GPU's clock tell two of them apart.",
    ),
    Metric(
        "speedup_interval", "Back-to-back speedup", _X, _CLEAN, _HIGH,
        "Back-to-back interval of the baseline divided by that of this run, with its interval as "
        "for the speedup.",
    ),
    Metric(
        "step_saving", "Saved per step", _NS, _CLEAN, _HIGH,
        "Step time of the baseline less the step time of this run; negative when this run is "
        "slower. The spread is a 95% interval, as for the speedup.",
    ),
    Metric(
        "compile_saving", "Saved by compiling", _NS, _CLEAN, _HIGH,
        "Of a run of torch.compile with graphs (mode compile): step time of the baseline less that "
        "of the run of mode compile-default, which compiles the same modules and captures no "
        "graph. Mostly fusion: fewer kernels, and fewer operators to dispatch. With the next "
        "figure it adds up to what is saved per step.",
    ),
    Metric(
        "graph_saving", "Saved by graphs", _NS, _CLEAN, _HIGH,
        "Of a run of torch.compile with graphs: step time of the run of mode compile-default less "
        "that of this run: what graphs gave on top of the compilation.",
    ),
)  # fmt: skip

_MACHINE = (
    Metric(
        "cpu_loop", "Fixed CPU loop", _NS, _CLEAN, _NONE,
        "Median time of a loop of 10,000 additions in Python, timed forty times beside the clean "
        "timings in each process, half before and half after them. It does the same work "
        "whatever the workload is, so it tells how fast the host's processor was for this "
        "version of Python: what launches take eagerly goes with it.",
    ),
    Metric(
        "cpu_slowdown", "Slowdown of the CPU loop", _X, _CLEAN, _LOW,
        "Mean time of that loop over its fastest, of all processes of the run. Close to 1 on a "
        "host that does nothing else; above 1.10 the host is called busy.",
    ),
    Metric(
        "sm_clock", "GPU clock", Unit.HERTZ, _CLEAN, _NONE,
        "Clock of the multiprocessors as NVML tells it while the GPU still works on iterations "
        "after the timed ones: the median over the processes of the run.",
    ),
)  # fmt: skip

_THROUGHPUT = (
    Metric(
        "tokens_rate", "Tokens per second", Unit.TOKENS, _CLEAN, _HIGH,
        "Tokens of one step, as the workload states them, divided by the back-to-back interval.",
    ),
    Metric(
        "model_flops_rate", "Model FLOP/s", Unit.FLOPS, _CLEAN, _HIGH,
        "Model FLOPs of one step divided by the back-to-back interval. Model FLOPs are what the "
        "workload states, by the formula in its manifest: the operations that the model's "
        "mathematics asks for, whatever ran. gpt-train takes 72 B s l h² (1 + s/6h + V/12lh) for "
        "B sequences of s tokens, l layers of width h and a vocabulary of V (Narayanan et al. "
        "2021, arXiv:2104.04473, section 5.1, less the recomputation that they count): matrix "
        "multiplications only, an addition and a multiplication as two, backward as twice the "
        "forward, and attention in full though causal attention needs half of it.",
    ),
    Metric(
        "mfu", "Model FLOPs utilisation", _F, _CLEAN, _HIGH,
        "Model FLOP/s divided by the GPU's dense peak for the stated precision (MFU after "
        "Chowdhery et al. 2022, arXiv:2204.02311, appendix B). Peaks are those of the vendor's "
        "data sheets: an H200 has 989 TFLOP/s in bf16. Absent for a GPU whose peak is not known.",
    ),
)  # fmt: skip

_PROGRAM = (
    Metric(
        "recorded_step", "Step in the program's loop", _NS, _RECORDED, _LOW,
        "Of a recorded program: wall time of its steps since its last capture and before the "
        "traced window, divided by their number. The GPU is waited for before the first and after "
        "the last of them and not between, so this is what a step takes in the program's own "
        "loop, with its data loading and logging. What a step is the recording says (an explicit "
        "call, an optimizer's step, a cycle of graph replays, a forward). Where the program ended "
        "before that wait it is the mean time from one step of its families of graphs to the next, "
        "of 32 steps or more, unless that is less than their replays take on the GPU. Absent where "
        "a profiler had run before. It is one total divided by a count, without a spread, and is "
        "never compared with a clean pass.",
    ),
    Metric(
        "recorded_speedup", "Speedup in the program's loop", _X, _RECORDED, _HIGH,
        "Of a recorded program: that time of the baseline divided by that of this run. Unless "
        "another is named, the baseline is the first recorded run that replayed no graph and was "
        "not compiled; without one the recording with the lowest number, where names differ in a "
        "number alone, or that was made first.",
    ),
    Metric(
        "recorded_saving", "Saved per step in the loop", _NS, _RECORDED, _HIGH,
        "Of a recorded program: that time of the baseline less that of this run.",
    ),
    Metric(
        "recorded_replays", "Replays seen", _N, _RECORDED, _NONE,
        "Of a recorded program: launches of all its graphs through torch, from the first line to "
        "the last, those of graphs captured before the recording included.",
    ),
    Metric(
        "loop_replay", "Replays of a step in the loop", _NS, _RECORDED, _LOW,
        "Of a recorded program with families of graphs: GPU time of the replays of a step, the "
        "mean over the steps that replayed any, each with the median of its graphs' sampled "
        "replays (sampled, between CUDA events). Steps whose graphs were not sampled are left "
        "out.",
    ),
    Metric(
        "loop_padding", "Lost to padding per step", _NS, _RECORDED, _LOW,
        "Of a recorded program whose graphs differ by size: GPU time that a step took longer than "
        "a graph of the size that was asked for would have, the mean over all steps of known size. "
        "Between sampled sizes times lie on straight lines (docs/servers.md).",
    ),
    Metric(
        "loop_fallbacks", "Steps without a graph", _F, _RECORDED, _LOW,
        "Of a recorded program with families of graphs: the share of their steps that ran eagerly, "
        "for no graph fitted.",
    ),
    Metric(
        "loop_startup", "Start-up of the families", _NS, _RECORDED, _LOW,
        "Of a recorded program with families of graphs: capture with instantiation and the call of "
        "the first launch, by the wall clock, summed over their graphs. Each measured once.",
    ),
)  # fmt: skip

_ONE_OFF = (
    Metric(
        "capture_time", "Capture", _NS, _CLEAN, _LOW,
        "Wall time of the capture, summed over the graphs of the run: from the call that begins it "
        "to the return of the call that ends it, the step's Python included. What torch.cuda.graph "
        "does before (garbage collection, emptying the allocator's cache) is not. Measured once.",
    ),
    Metric(
        "instantiate_time", "Instantiation", _NS, _CLEAN, _LOW,
        "Wall time of cudaGraphInstantiate, summed over the graphs. Measured once.",
    ),
    Metric(
        "upload_time", "Upload", _NS, _CLEAN, _LOW,
        "Wall time of cudaGraphUpload to its completion, summed over the graphs, on an executable "
        "graph of its own: the first launch of the graph that is replayed uploads it too, so this "
        "is a part of the first launch's time seen alone and must not be added to it. Measured "
        "once.",
    ),
    Metric(
        "first_launch_cpu_time", "First launch CPU time", _NS, _CLEAN, _LOW,
        "Wall time of the first replay's call until it returns, summed over the graphs. Measured "
        "once.",
    ),
    Metric(
        "first_launch_time", "First launch", _NS, _CLEAN, _LOW,
        "Wall time of the first replay from its call to its completed work, summed over the "
        "graphs. Measured once.",
    ),
    Metric(
        "one_off_cost", "One-off cost", _NS, _CLEAN, _LOW,
        "What graphs cost before they can save anything. In mode graph: capture + instantiation + "
        "(first launch - step time); the upload is within the first launch and not added again. In "
        "modes callables and partial, whose graphs are parts of a step: capture + instantiation + "
        "upload. Absent in mode compile: the compilation is not timed apart from the warm-up. "
        "Warm-up is left out: its iterations do the step's work in any mode.",
    ),
    Metric(
        "break_even", "Break-even replays", _N, _CLEAN, _LOW,
        "The smallest number N of replays for which capture, instantiation and N replays (the "
        "slower first one included) take no longer than N steps of the baseline: one-off cost "
        "divided by the time saved per step, rounded up, at least 1. Absent when a replay saves "
        "nothing. The spread takes the 95% interval of the time saved; the one-off cost is a "
        "single measurement and its own variation is not in it.",
    ),
)  # fmt: skip

_MEM = (
    Metric(
        "private_pool", "Private pools", _B, _MEMORY, _LOW,
        "Bytes reserved by the private memory pools of the captured graphs, after the clean pass. "
        "They hold what the step allocates while it is captured and are not shared with eager "
        "code; the same tensors lie in the default pool when the step runs eager, so this is not "
        "what graphs cost on top: see the change of peak reserved memory for that.",
    ),
    Metric(
        "peak_reserved", "Peak reserved memory", _B, _MEMORY, _LOW,
        "Most bytes that the caching allocator held from the device at any time of the clean pass, "
        "warm-up included.",
    ),
    Metric(
        "peak_reserved_change", "Change of peak reserved", _B, _MEMORY, _LOW,
        "Peak reserved memory less that of the baseline. Can be negative: a capture empties the "
        "allocator's cache first. What the driver holds for the executable graph is not in it.",
    ),
    Metric(
        "peak_allocated", "Peak allocated memory", _B, _MEMORY, _LOW,
        "Most bytes in live tensors at any time of the clean pass, warm-up included.",
    ),
    Metric(
        "device_memory", "Device memory", _B, _MEMORY_PASS, _LOW,
        "Device memory of the process while it iterates, at the end of the memory pass: what the "
        "allocator reserved, and what lies outside it. As nvidia-smi says of the process, in MiB; "
        "absent where it does not list the process.",
    ),
    Metric(
        "device_memory_change", "Change of device memory", _B, _MEMORY_PASS, _LOW,
        "Device memory less that of the baseline: what the mode costs in memory. It is the sum of "
        "the changes of its parts, which the Memory page and graphviz-dash memory show: weights, "
        "gradients, optimizer state, other tensors, library workspaces, activations, private "
        "pools, the allocator's cache, and what lies outside the allocator.",
    ),
    Metric(
        "iterate_reserved", "Reserved while iterating", _B, _MEMORY_PASS, _LOW,
        "Bytes that the caching allocator holds from the device at the end of the memory pass, "
        "private pools included. Its cache was given back after warm-up and after the mode was "
        "made ready, so this is what iterations need.",
    ),
    Metric(
        "iterate_reserved_change", "Change of reserved", _B, _MEMORY_PASS, _LOW,
        "Reserved while iterating less that of the baseline: the change of device memory without "
        "what lies outside the allocator.",
    ),
    Metric(
        "activation_memory", "Activations", _B, _MEMORY_PASS, _LOW,
        "Bytes of the default pool that one iteration allocated and freed again and that were "
        "alive at its peak, the moment at which most was allocated: activations, temporaries and "
        "gradients of activations. What runs from a graph has them in its private pool instead.",
    ),
    Metric(
        "pool_exclusive", "Pools, one graph", _B, _MEMORY_PASS, _LOW,
        "Places in private pools that the capture of exactly one graph allocated at some time, "
        "less the model's own tensors (weights, gradients, optimizer state, buffers) and library "
        "workspaces that lie there.",
    ),
    Metric(
        "pool_shared", "Pools, shared", _B, _MEMORY_PASS, _NONE,
        "Places in private pools that the captures of two or more graphs allocated, one after the "
        "other; counted once.",
    ),
    Metric(
        "pool_unused", "Pools, unused", _B, _MEMORY_PASS, _LOW,
        "Bytes that private pools reserved and no capture allocated: segments are rounded up to 2 "
        "MiB and more.",
    ),
    Metric(
        "workspace_memory", "Library workspaces", _B, _MEMORY_PASS, _LOW,
        "Live allocations that no Python tensor holds, in all pools: mostly workspaces of cuBLAS, "
        "which it has for each stream, and so again for the stream of a capture.",
    ),
    Metric(
        "outside_allocator", "Outside the allocator", _B, _MEMORY_PASS, _LOW,
        "Device memory less what the allocator reserved: CUDA context, loaded kernels, executable "
        "graphs, libraries' own memory.",
    ),
    Metric(
        "prepare_peak", "Peak during setup", _B, _MEMORY_PASS, _LOW,
        "Most bytes that the allocator held while the mode was made ready: for a graphed mode "
        "while its graphs were captured and first launched. Mode eager has nothing to make ready.",
    ),
    Metric(
        "activation_overhead", "Activation overhead", _F, _MEMORY_PASS, _LOW,
        "What activations, private pools (less the model's own tensors and library workspaces) and "
        "other tensors together take more than in the baseline, divided by the baseline's "
        "activations. 0.2 means 20% more memory for activations. NeMo's documentation says ~20% "
        "for a graph for each layer; docs/gpt-training.md has both setups. Absent where the "
        "baseline's activations are less than 2 MiB, which the allocator takes at a time, and in "
        "mode compile: cudagraph trees give the blocks of their pool back after each capture, so "
        "library workspaces in it cannot be distinguished from activations.",
    ),
)  # fmt: skip

_GPU = (
    Metric(
        "traced_step_time", "Step time under the profiler", _NS, _TRACED, _NONE,
        "Median over the traced steps of the duration of the step's range, its final "
        "synchronisation included. Where ranges do not end synchronised and the CPU runs ahead, a "
        "step lasts from the end of all GPU work launched before it (of work that the trace does "
        "not show, from the begin of its own) to the end of its own. It is "
        "distorted by the profiler, for graphs the most; it is "
        "here only to be divided by or compared with what the same trace shows.",
    ),
    Metric(
        "observer_effect", "Observer effect", _X, Source.BOTH, _NONE,
        "Step time under the profiler divided by the (clean) step time. 1 means that the trace "
        "shows what happens without it; from 1.5 on read gaps and launches in the timeline with "
        "care. Slightly below 1 is the variation between two processes.",
    ),
    Metric(
        "gpu_busy", "GPU busy time", _NS, _TRACED, _LOW,
        "Median over the traced steps of the time in which at least one kernel, copy or set that "
        "the step launched was running: the union of their intervals over all streams (and all "
        "devices that the process used), within the step's time under the profiler. Work "
        "belongs to the step in which it was launched (correlation of its launching call), or "
        "began where the trace does not show its launch; what was launched before the trace began "
        "belongs to none.",
    ),
    Metric(
        "self_cpu_time", "Self CPU time total", _NS, _TRACED, _LOW,
        "Median over the traced steps of what torch.profiler's own table calls \"Self CPU time "
        "total\": for each thread the union of its operators, ranges and runtime calls, the "
        "synchronisation at the step's end included, Python between them not; summed over the "
        "threads. The profiler's cost is in it. It is here because other measurements of capture "
        "schemes are given in it; the clean launch CPU time is the figure to trust.",
    ),
    Metric(
        "busy_fraction", "GPU busy of traced step", _F, _TRACED, _HIGH,
        "GPU busy time divided by the traced step time, both medians over the traced steps; the "
        "rest of the step is idle. The range is that of the steps' own shares. Too low where the "
        "observer effect is large.",
    ),
    Metric(
        "busy_of_clean", "GPU busy of clean step", _F, Source.BOTH, _HIGH,
        "GPU busy time of the traced pass divided by the step time of the clean pass. An estimate: "
        "it takes kernels to run as long with as without the profiler. Above 100% they did not, "
        "and it is shown as it is. Absent for a rank of several whose busy time is communication "
        "for more than a quarter, which waits for other ranks.",
        estimate=True,
    ),
    Metric(
        "concurrency", "GPU concurrency", _X, _TRACED, _HIGH,
        "Sum of the durations of all GPU work of the traced steps divided by their GPU busy time: "
        "1 when nothing overlaps, near 2 when two streams are busy all along.",
    ),
    Metric(
        "kernels", "Kernels per step", _N, _TRACED, _NONE,
        "Median over the traced steps of the number of kernels that ran for the step.",
    ),
    Metric(
        "copies", "Memcpys per step", _N, _TRACED, _NONE,
        "Median over the traced steps of the number of memory copies on the GPU.",
    ),
    Metric(
        "sets", "Memsets per step", _N, _TRACED, _NONE,
        "Median over the traced steps of the number of memory sets on the GPU.",
    ),
    Metric(
        "launches", "Launches per step", _N, _TRACED, _LOW,
        "Median over the traced steps of the number of runtime or driver calls that submit work: "
        "launches of kernels, launches of graphs, memcpys and memsets.",
    ),
    Metric(
        "graph_launches", "Graph launches per step", _N, _TRACED, _NONE,
        "Those of the launches that launch a graph.",
    ),
    Metric(
        "graph_work", "Work from graphs per step", _N, _TRACED, _NONE,
        "Mean over the traced steps of the kernels, memcpys and memsets that a graph launch "
        "started (they share its correlation).",
    ),
    Metric(
        "graph_work_share", "Share of work from graphs", _F, _TRACED, _HIGH,
        "Kernels, memcpys and memsets of the traced steps that a graph launch started, divided by "
        "all of theirs: the part of the launches that graphs took over.",
    ),
    Metric(
        "graph_time_share", "Share of GPU time from graphs", _F, _TRACED, _HIGH,
        "The durations of that work, summed, divided by those of all work of the traced steps.",
    ),
)  # fmt: skip

_EQUATION = (
    Metric(
        "gaps_removed", "Launch gaps removed", _NS, Source.BOTH, _HIGH,
        "Idle time of the GPU in which the launch of the next work was missing, in a step of the "
        "baseline less in a step of this run: before the first work, between pieces of work, "
        "between the nodes of a graph, and after the last work while the CPU was not done. The "
        "traced steps divide the clean step time: instants of the CPU are scaled by clean launch "
        "CPU time over the traced one, the durations of GPU work are taken as traced, and what "
        "must wait for what is kept. These seven differences add up to the time saved per step "
        "exactly.",
        estimate=True,
    ),
    Metric(
        "kernel_change", "Kernel time saved", _NS, Source.BOTH, _HIGH,
        "Durations of the kernels of a step, summed, in the baseline less in this run; a "
        "collective's wait for other ranks does not count. Negative where kernels take longer.",
        estimate=True,
    ),
    Metric(
        "copy_change", "Memcpy and memset saved", _NS, Source.BOTH, _HIGH,
        "The same for memcpys and memsets; negative where some were added.",
        estimate=True,
    ),
    Metric(
        "overlap_change", "Saved by more overlap", _NS, Source.BOTH, _HIGH,
        "Time that the durations of kernels, memcpys and memsets count more than once, because "
        "work ran at the same time as work that had begun before it: in a step of this run less "
        "in a step of the baseline. The work is no less, it is done at once. Negative where less "
        "of it overlaps.",
        estimate=True,
    ),
    Metric(
        "synchronisation_removed", "Synchronisation removed", _NS, Source.BOTH, _HIGH,
        "The same for idle time of the GPU while the CPU waited in a synchronising call within "
        "the step. The return from the final synchronisation counts the same in all runs: the "
        "least time that any traced step of the experiment took for it.",
        estimate=True,
    ),
    Metric(
        "rank_wait_removed", "Waiting for ranks removed", _NS, Source.BOTH, _HIGH,
        "The same for time in which the GPU did nothing but wait in a collective for other ranks. "
        "What a collective's kernel takes longer than the shortest among the ranks for the same "
        "one, which all leave together, is waiting in the traced step. That is longer than in a "
        "clean one, so the clean steps of all ranks are modelled side by side, as begun together, "
        "and each waits in its model for the last to arrive.",
        estimate=True,
    ),
    Metric(
        "remainder", "Remainder", _NS, Source.BOTH, _NONE,
        "What the other six differences leave of the time saved per step: the part of it that "
        "the traced passes do not explain. It is never spread over them. Above 5% of the "
        "baseline's step the equation is called weak.",
        estimate=True,
    ),
)  # fmt: skip

_GRAPH = (
    Metric(
        "graphs", "Graphs", _N, _CAPTURE, _NONE,
        "Number of graphs that are launched by themselves (bodies of conditionals and child graphs "
        "belong to theirs).",
    ),
    Metric(
        "graph_nodes", "Graph nodes", _N, _CAPTURE, _NONE,
        "Nodes of all graphs of the run as the driver lists them, bodies included.",
    ),
    Metric(
        "graph_edges", "Graph edges", _N, _CAPTURE, _NONE,
        "Dependencies between nodes, over all graphs of the run.",
    ),
)  # fmt: skip

_PREDICTION = (
    Metric(
        "predicted_step_time", "Predicted step time", _NS, Source.PREDICTED, _NONE,
        "What the step of a whole-step graph was to take by the eager run of the experiment alone: "
        "the kernels of its trace along the longest way through their streams, with the gaps that "
        "remain between the nodes of a replay by their kinds, and its launch, as the calibration "
        "of a machine shows them. The spread is the interval that is to hold nine of ten measured "
        "times. docs/predict.md has the model and its errors.",
    ),
    Metric(
        "prediction_error", "Prediction off by", _F, Source.PREDICTED, _NONE,
        "The predicted step time less the measured step time of the clean pass, over the measured "
        "one: negative where the graph is slower than was predicted.",
    ),
)  # fmt: skip

SECTIONS: Final = {
    "Step": _STEP,
    "Throughput": _THROUGHPUT,
    "Where the time went": _EQUATION,
    "Predicted from the eager trace": _PREDICTION,
    "Recorded program": _PROGRAM,
    "One-off costs": _ONE_OFF,
    "Memory": _MEM,
    "GPU": _GPU,
    "Graph": _GRAPH,
    "Machine": _MACHINE,
}
"""Metrics by the heading they stand under, in the order they are shown."""

METRICS: Final = {metric.id: metric for group in SECTIONS.values() for metric in group}
"""Every metric by id."""
