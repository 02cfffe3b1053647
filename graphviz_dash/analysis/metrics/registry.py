"""Registry of all metrics in a comparison: title, unit, pass, direction and definition.

``make docs`` writes docs/reference/metrics.md from it.
"""

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
    """Unit of a value; stored values are never scaled."""

    NANOSECONDS = "ns"
    BYTES = "B"
    COUNT = "count"
    RATIO = "ratio"
    FRACTION = "fraction"
    FLOPS = "FLOP/s"
    HERTZ = "Hz"
    TOKENS = "tokens/s"


class Source(StrEnum):
    """The pass that a metric comes from.

    ``BOTH`` divides one by the other; ``PREDICTED`` uses only the eager run.
    """

    CLEAN = "clean"
    TRACED = "traced"
    CAPTURE = "capture"
    MEMORY = "memory"
    MEMORY_PASS = "memory pass"
    RECORDED = "recorded"
    PREDICTED = "predicted"
    BOTH = "traced and clean"


class Better(StrEnum):
    """Direction of improvement; NONE for neutral metrics."""

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
    """Definition of a metric; ``estimate`` marks one that combines two passes.

    ``formula`` holds complete sentences for docs/reference/metrics.md.
    """

    id: str
    title: str
    unit: Unit
    source: Source
    better: Better
    formula: str
    estimate: bool = False

    def format(self, value: float | None) -> str:
        """Format the value with its unit; an en dash for None."""
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
        "Median over the synchronised iterations of the wall time from the call of the step to "
        "the completion of its work. The GPU is idle at the start. This is the latency of one "
        "step: use it if each result is awaited (inference, decoding, a loss read in every step). "
        "It is the headline metric.",
    ),
    Metric(
        "step_interval", "Back-to-back interval", _NS, _CLEAN, _LOW,
        "Median time between the CUDA events around each iteration, in a second series without "
        "waits in between. This is the time per step in a loop that never waits, as in most "
        "training loops. It approaches the longer of launch CPU time and GPU time.",
    ),
    Metric(
        "launch_cpu_time", "Launch CPU time", _NS, _CLEAN, _LOW,
        "Median time from the call of the step to its return, before any wait for the GPU. In "
        "mode eager it covers Python, the framework and all launches; in mode graph it is one "
        "replay() call. Waits inside the step are included.",
    ),
    Metric(
        "speedup", "Speedup", _X, _CLEAN, _HIGH,
        "Step time of the baseline divided by the step time of this run. The spread is a 95% "
        "interval of the ratio of medians, from a circular block bootstrap with 1,000 resamples: "
        "processes are resampled, and within them blocks of iterations, because neighbouring "
        "iterations correlate. The interval covers variation between interleaved processes, or "
        "within the process if there is only one. It never covers another machine or another time "
        "of day; compare the fixed CPU loop and the GPU clock for those.",
    ),
    Metric(
        "speedup_interval", "Back-to-back speedup", _X, _CLEAN, _HIGH,
        "Back-to-back interval of the baseline divided by that of this run. The spread is a 95% "
        "interval, as for the speedup.",
    ),
    Metric(
        "step_saving", "Time saved per step", _NS, _CLEAN, _HIGH,
        "Step time of the baseline minus the step time of this run; negative if this run is "
        "slower. The spread is a 95% interval, as for the speedup.",
    ),
    Metric(
        "compile_saving", "Saved by compilation", _NS, _CLEAN, _HIGH,
        "For torch.compile with graphs (mode compile): step time of the baseline minus that of "
        "the run in mode compile-default, which compiles without graphs. It and \"Saved by "
        "graphs\" add up to the time saved per step.",
    ),
    Metric(
        "graph_saving", "Saved by graphs", _NS, _CLEAN, _HIGH,
        "For torch.compile with graphs: step time of the run in mode compile-default minus that "
        "of this run. This is the gain from graphs on top of compilation.",
    ),
)  # fmt: skip

_MACHINE = (
    Metric(
        "cpu_loop", "Fixed CPU loop", _NS, _CLEAN, _NONE,
        "Median time of a Python loop of 10,000 additions, measured before and after the clean "
        "timings. It measures the speed of the host's processor, with which the launch overhead "
        "of eager mode scales.",
    ),
    Metric(
        "cpu_slowdown", "CPU loop slowdown", _X, _CLEAN, _LOW,
        "Mean time of the fixed CPU loop divided by its fastest time, over all processes of the "
        "run. Close to 1 on an otherwise idle host; above 1.10 the host counts as busy.",
    ),
    Metric(
        "sm_clock", "GPU clock", Unit.HERTZ, _CLEAN, _NONE,
        "Multiprocessor clock reported by NVML while the GPU still runs iterations after the "
        "timed ones; median over the processes of the run.",
    ),
)  # fmt: skip

_THROUGHPUT = (
    Metric(
        "tokens_rate", "Tokens per second", Unit.TOKENS, _CLEAN, _HIGH,
        "Tokens per step, as stated by the workload, divided by the back-to-back interval.",
    ),
    Metric(
        "model_flops_rate", "Model FLOP/s", Unit.FLOPS, _CLEAN, _HIGH,
        "Model FLOPs per step divided by the back-to-back interval. The workload states the model "
        "FLOPs by the formula in its manifest: the operations of the model's mathematics, "
        "regardless of the kernels. gpt-train uses 72 B s l h² (1 + s/6h + V/12lh) for B "
        "sequences of s tokens, l layers of width h and a vocabulary of V (Narayanan et al. 2021, "
        "arXiv:2104.04473, section 5.1, without recomputation).",
    ),
    Metric(
        "mfu", "Model FLOPs utilisation", _F, _CLEAN, _HIGH,
        "Model FLOP/s divided by the GPU's dense peak for the stated precision (Chowdhery et al. "
        "2022, arXiv:2204.02311, appendix B). Peaks come from data sheets: an H200 has 989 "
        "TFLOP/s in bf16. Not available for a GPU with an unknown peak.",
    ),
)  # fmt: skip

_PROGRAM = (
    Metric(
        "recorded_step", "Median step in program loop", _NS, _RECORDED, _LOW,
        "For a recorded program: median wall time of the steps between its last capture and the "
        "traced window, without pauses, with their quartiles (p25 to p75). If the program ended "
        "before a synchronisation, it is the median interval between steps of its graph families, "
        "from at least 32 steps. If waits take most of an engine's time, it covers all its steps. "
        "Not available if the CPU runs ahead of the GPU, because single steps then show launches "
        "only: the final wait exceeds a step, replays last longer than steps, or a long step at "
        "equal distances may wait for the others. Not available if a profiler ran earlier. Never "
        "compared with a clean pass.",
    ),
    Metric(
        "recorded_mean", "Mean step in program loop", _NS, _RECORDED, _LOW,
        "For a recorded program: total time of the same steps without pauses, with the final wait "
        "for the GPU, divided by their number. The 95% interval comes from blocks of steps; there "
        "is none if the final wait exceeds a step, or for all steps of an engine. It compares "
        "recorded runs if one of them has no median.",
    ),
    Metric(
        "recorded_pauses", "Pauses in program loop", _NS, _RECORDED, _LOW,
        "For a recorded program: total time of single steps beyond the mean of the others, if at "
        "most 5% of the steps (or one) last more than two medians, such as a garbage collection.",
    ),
    Metric(
        "recorded_speedup", "Speedup in program loop", _X, _RECORDED, _HIGH,
        "For a recorded program: median step in the program loop of the baseline divided by that "
        "of this run; mean steps if a compared run has no median. The default baseline is the "
        "first recorded run without graphs and compilation, "
        "else the recording with the lowest number in its name, or the earliest. The interval "
        "comes from those of both steps. Each comes from resampled blocks of steps.",
    ),
    Metric(
        "recorded_saving", "Saved per step in loop", _NS, _RECORDED, _HIGH,
        "For a recorded program: step in the program loop of the baseline minus that of this run, "
        "by the statistic of the speedup.",
    ),
    Metric(
        "recorded_replays", "Recorded replays", _N, _RECORDED, _NONE,
        "For a recorded program: launches of all its graphs through torch from program start to "
        "exit, including graphs captured before the recording started.",
    ),
    Metric(
        "loop_replay", "Replay time per step", _NS, _RECORDED, _LOW,
        "For a recorded program with graph families: mean GPU time of the replays in a step of the "
        "recording. Each graph counts with the median of its sampled replays, timed between CUDA "
        "events. Steps with unsampled graphs are excluded.",
    ),
    Metric(
        "loop_padding", "Padding cost per step", _NS, _RECORDED, _LOW,
        "For a recorded program with graphs of several sizes: additional GPU time per step "
        "compared with a graph of exactly the requested size, as a mean over all steps of known "
        "size (docs/explanation/padding-and-ladders.md).",
    ),
    Metric(
        "loop_fallbacks", "Fallbacks", _F, _RECORDED, _LOW,
        "For a recorded program with graph families: share of their steps that ran eagerly "
        "because no graph fitted.",
    ),
    Metric(
        "loop_startup", "Graph startup time", _NS, _RECORDED, _LOW,
        "For a recorded program with graph families: wall time of capture, instantiation and "
        "first launch, summed over their graphs. Measured once.",
    ),
)  # fmt: skip

_ONE_OFF = (
    Metric(
        "capture_time", "Capture", _NS, _CLEAN, _LOW,
        "Wall time of the captures from begin to end, including the step's Python code but not "
        "the preparation by torch.cuda.graph. Measured once.",
    ),
    Metric(
        "instantiate_time", "Instantiation", _NS, _CLEAN, _LOW,
        "Wall time of cudaGraphInstantiate, summed over the graphs. Measured once.",
    ),
    Metric(
        "upload_time", "Upload", _NS, _CLEAN, _LOW,
        "Wall time of cudaGraphUpload until its completion, summed over the graphs, on a separate "
        "executable graph. The first launch also uploads its graph, so do not add this time to "
        "it. Measured once.",
    ),
    Metric(
        "first_launch_cpu_time", "First launch CPU time", _NS, _CLEAN, _LOW,
        "Wall time of the first replay call until it returns, summed over the graphs. Measured "
        "once.",
    ),
    Metric(
        "first_launch_time", "First launch", _NS, _CLEAN, _LOW,
        "Wall time of the first replay from the call to the completion of its work, summed over "
        "the graphs. Measured once.",
    ),
    Metric(
        "one_off_cost", "One-off cost", _NS, _CLEAN, _LOW,
        "Cost of graphs before they can save time. In mode graph: capture + instantiation + "
        "(first launch - step time). In modes callables and partial: capture + instantiation + "
        "upload. Not available in mode compile, because compilation is not timed separately from "
        "the warm-up. Warm-up is excluded because it does the work of steps.",
    ),
    Metric(
        "break_even", "Break-even replays", _N, _CLEAN, _LOW,
        "Smallest number of replays for which graphs are no slower than the baseline: one-off "
        "cost divided by the time saved per step, rounded up, at least 1. Not available if a "
        "replay saves no time. The spread uses the 95% interval of the time saved and treats the "
        "one-off cost as exact.",
    ),
)  # fmt: skip

_MEM = (
    Metric(
        "private_pool", "Private pools", _B, _MEMORY, _LOW,
        "Bytes reserved by the private memory pools of the captured graphs after the clean pass. "
        "In eager mode the same tensors are in the default pool, so this is not the additional "
        "memory cost of graphs; for that, see the change in peak reserved memory.",
    ),
    Metric(
        "allocated", "Allocated memory", _B, _MEMORY, _LOW,
        "Number of bytes in live tensors at the end of the clean pass, or at the time of an "
        "imported snapshot.",
    ),
    Metric(
        "reserved", "Reserved memory", _B, _MEMORY, _LOW,
        "Number of bytes that the caching allocator reserves on the device at the end of the clean "
        "pass, or at the time of an imported snapshot.",
    ),
    Metric(
        "peak_reserved", "Peak reserved memory", _B, _MEMORY, _LOW,
        "Maximum number of bytes that the caching allocator reserved on the device during the "
        "clean pass, including warm-up, or in the history of an imported snapshot.",
    ),
    Metric(
        "peak_reserved_change", "Change in peak memory", _B, _MEMORY, _LOW,
        "Peak reserved memory minus that of the baseline. It can be negative because a capture "
        "first empties the allocator's cache. Driver memory for the executable graph is "
        "excluded.",
    ),
    Metric(
        "peak_allocated", "Peak allocated memory", _B, _MEMORY, _LOW,
        "Maximum number of bytes in live tensors during the clean pass, including warm-up, or in "
        "the history of an imported snapshot, which may start later than the program.",
    ),
    Metric(
        "device_memory", "Device memory", _B, _MEMORY_PASS, _LOW,
        "Device memory of the process at the end of the memory pass: memory reserved by the "
        "allocator and memory outside it, from NVML, as nvidia-smi shows it. Not available if NVML "
        "does not list the process.",
    ),
    Metric(
        "device_memory_change", "Change in steady-state memory", _B, _MEMORY_PASS, _LOW,
        "Device memory minus that of the baseline: the memory cost of the mode. It is the sum of "
        "the changes of its parts, shown on the Memory page and by graphviz-dash memory.",
    ),
    Metric(
        "iterate_reserved", "Reserved while iterating", _B, _MEMORY_PASS, _LOW,
        "Bytes that the caching allocator holds at the end of the memory pass, including private "
        "pools. The cache was emptied after warm-up and setup, so this is the memory that "
        "iterations need.",
    ),
    Metric(
        "iterate_reserved_change", "Change in steady-state reserved", _B, _MEMORY_PASS, _LOW,
        "Reserved while iterating minus that of the baseline: the change in device memory, "
        "excluding memory outside the allocator.",
    ),
    Metric(
        "activation_memory", "Activations", _B, _MEMORY_PASS, _LOW,
        "Bytes of the default pool that one iteration allocated and freed and that were live at "
        "its peak: activations, temporaries and their gradients. Graphs keep them in their "
        "private pool instead.",
    ),
    Metric(
        "pool_exclusive", "Private to one graph", _B, _MEMORY_PASS, _LOW,
        "Memory in private pools that the capture of exactly one graph allocated at some time, "
        "excluding the model's tensors and library workspaces.",
    ),
    Metric(
        "pool_shared", "Pools, shared", _B, _MEMORY_PASS, _NONE,
        "Memory in private pools that the captures of two or more graphs allocated at different "
        "times; counted once.",
    ),
    Metric(
        "pool_unused", "Pools, unused", _B, _MEMORY_PASS, _LOW,
        "Bytes that private pools reserved and no capture allocated. Segments are rounded up to "
        "at least 2 MiB.",
    ),
    Metric(
        "workspace_memory", "Library workspaces", _B, _MEMORY_PASS, _LOW,
        "Live allocations without a Python tensor, in all pools. Most are cuBLAS workspaces: "
        "one per stream, and therefore another one for the capture stream.",
    ),
    Metric(
        "outside_allocator", "Outside the allocator", _B, _MEMORY_PASS, _LOW,
        "Device memory minus the memory reserved by the allocator: CUDA context, loaded "
        "kernels, executable graphs and memory of libraries.",
    ),
    Metric(
        "prepare_peak", "Peak during setup", _B, _MEMORY_PASS, _LOW,
        "Maximum number of bytes that the allocator held during the setup of the mode: capture "
        "and first launch of its graphs. Mode eager has no setup.",
    ),
    Metric(
        "activation_overhead", "Activation overhead", _F, _MEMORY_PASS, _LOW,
        "Increase over the baseline in the sum of activations, private pools (without the model's "
        "tensors and library workspaces) and other tensors, divided by the baseline's "
        "activations. 0.2 means 20% more memory. Not available below 2 MiB of activations, or in "
        "mode compile: cudagraph trees release the blocks of their pool, so library workspaces "
        "cannot be distinguished from activations.",
    ),
)  # fmt: skip

_GPU = (
    Metric(
        "traced_step_time", "Step time under profiler", _NS, _TRACED, _NONE,
        "Median duration of the traced steps' ranges, including the final synchronisation. If "
        "ranges end unsynchronised and the CPU runs ahead, a step lasts from the end of all "
        "earlier GPU work to the end of its own. The profiler distorts this time, most of all for "
        "graphs. Use it only as a reference for other values of the same trace.",
    ),
    Metric(
        "observer_effect", "Observer effect", _X, Source.BOTH, _NONE,
        "Step time under the profiler divided by the clean step time. 1 means that the profiler "
        "did not slow the step. From 1.5, gaps and launches in the timeline are unreliable. "
        "Values slightly below 1 are variation between two processes.",
    ),
    Metric(
        "gpu_busy", "GPU busy time", _NS, _TRACED, _LOW,
        "Median over the traced steps of the time in which at least one kernel, copy or set of "
        "the step was running, over all streams and devices of the process. Work belongs to the "
        "step that launched it, or without a launch in the trace, to the step in which it began. "
        "Work launched before the trace belongs to no step.",
    ),
    Metric(
        "self_cpu_time", "Self CPU time total", _NS, _TRACED, _LOW,
        "Median over the traced steps of the \"Self CPU time total\" in torch.profiler's table, "
        "with the final synchronisation and profiler overhead. It exists for comparison with "
        "published measurements; rely on the clean launch CPU time instead.",
    ),
    Metric(
        "busy_fraction", "GPU busy share (traced)", _F, _TRACED, _HIGH,
        "GPU busy time divided by the traced step time, both medians; the remaining time is idle. "
        "Too low if the observer effect is large.",
    ),
    Metric(
        "busy_of_clean", "GPU busy share (clean)", _F, Source.BOTH, _HIGH,
        "GPU busy time of the traced pass divided by the clean step time. It assumes that the "
        "profiler does not change kernel durations. A value above 100% shows that it did, and is "
        "reported unchanged. Not available for one rank of several if communication exceeds a "
        "quarter of its busy time.",
        estimate=True,
    ),
    Metric(
        "concurrency", "GPU concurrency", _X, _TRACED, _HIGH,
        "Sum of the durations of all GPU work in the traced steps divided by their GPU busy "
        "time: 1 without overlap, near 2 if two streams are always busy.",
    ),
    Metric(
        "kernels", "Kernels per step", _N, _TRACED, _NONE,
        "Median number of kernels per traced step.",
    ),
    Metric(
        "copies", "Memcpys per step", _N, _TRACED, _NONE,
        "Median number of memory copies on the GPU per traced step.",
    ),
    Metric(
        "sets", "Memsets per step", _N, _TRACED, _NONE,
        "Median number of memory sets on the GPU per traced step.",
    ),
    Metric(
        "launches", "Launches per step", _N, _TRACED, _LOW,
        "Median over the traced steps of the number of runtime or driver calls that submit "
        "work: launches of kernels, launches of graphs, memcpys and memsets.",
    ),
    Metric(
        "graph_launches", "Graph launches per step", _N, _TRACED, _NONE,
        "Number of launches per step that launch a graph; median over the traced steps.",
    ),
    Metric(
        "graph_work", "Graph work per step", _N, _TRACED, _NONE,
        "Mean number of kernels, memcpys and memsets per traced step that a graph launch "
        "started. They share the correlation ID of the launch.",
    ),
    Metric(
        "graph_work_share", "Graph share of work", _F, _TRACED, _HIGH,
        "Kernels, memcpys and memsets that a graph launch started, divided by all of them in "
        "the traced steps: the share of launches that graphs replaced.",
    ),
    Metric(
        "graph_time_share", "Graph share of GPU time", _F, _TRACED, _HIGH,
        "Total duration of the work that graph launches started, divided by that of all work in "
        "the traced steps.",
    ),
)  # fmt: skip

_EQUATION = (
    Metric(
        "gaps_removed", "Launch gaps removed", _NS, Source.BOTH, _HIGH,
        "GPU idle time caused by late launches, in a baseline step minus that in a step of this "
        "run: before the first work, between pieces of work and graph nodes, and after the last "
        "work until the CPU is done. The clean step time is divided according to the traced "
        "steps: CPU times are scaled by clean over traced launch CPU time, GPU durations are used "
        "as traced. The seven differences of this section add up exactly to the time saved per "
        "step.",
        estimate=True,
    ),
    Metric(
        "kernel_change", "Kernel time saved", _NS, Source.BOTH, _HIGH,
        "Sum of kernel durations in a baseline step minus that in a step of this run. Time that "
        "a collective waits for other ranks is excluded. Negative if kernels are slower.",
        estimate=True,
    ),
    Metric(
        "copy_change", "Memcpy and memset saved", _NS, Source.BOTH, _HIGH,
        "Sum of memcpy and memset durations in a baseline step minus that in a step of this "
        "run; negative if this run adds some.",
        estimate=True,
    ),
    Metric(
        "overlap_change", "Saved by overlap", _NS, Source.BOTH, _HIGH,
        "Time that the sum of durations counts more than once because work ran concurrently, in a "
        "step of this run minus that in a baseline step. Negative if less work overlaps.",
        estimate=True,
    ),
    Metric(
        "synchronisation_removed", "Synchronisation removed", _NS, Source.BOTH, _HIGH,
        "GPU idle time while the CPU waited in a synchronising call within the step, in a "
        "baseline step minus that in a step of this run. The return from the final "
        "synchronisation counts the same in all runs: the shortest one of any traced step in "
        "the experiment.",
        estimate=True,
    ),
    Metric(
        "rank_wait_removed", "Rank wait removed", _NS, Source.BOTH, _HIGH,
        "Time in which the GPU only waited in a collective for other ranks, in a baseline step "
        "minus that in a step of this run. The wait of a rank is its excess over the shortest "
        "kernel for that collective. The clean steps of all ranks are modelled with a common "
        "start, and each rank waits for the last one to arrive.",
        estimate=True,
    ),
    Metric(
        "remainder", "Remainder", _NS, Source.BOTH, _NONE,
        "Part of the time saved per step that the other six differences do not explain. It is "
        "never distributed among them. Above 5% of the baseline's step time, the breakdown has "
        "low confidence.",
        estimate=True,
    ),
)  # fmt: skip

_GRAPH = (
    Metric(
        "graphs", "Graphs", _N, _CAPTURE, _NONE,
        "Number of graphs that are launched directly; conditional bodies and child graphs count "
        "with their parents.",
    ),
    Metric(
        "graph_nodes", "Graph nodes", _N, _CAPTURE, _NONE,
        "Nodes of all graphs of the run as reported by the driver, including conditional "
        "bodies.",
    ),
    Metric(
        "graph_edges", "Graph edges", _N, _CAPTURE, _NONE,
        "Dependencies between nodes, over all graphs of the run.",
    ),
)  # fmt: skip

_PREDICTION = (
    Metric(
        "predicted_step_time", "Predicted step time", _NS, Source.PREDICTED, _NONE,
        "Step time of a whole-step graph, predicted from the eager run only: its kernels, the "
        "gaps that remain between the nodes of a replay, and one launch, as calibrated for a "
        "machine. The spread is intended to contain nine of ten measured times. "
        "docs/explanation/prediction.md describes the model and its errors.",
    ),
    Metric(
        "prediction_error", "Prediction error", _F, Source.PREDICTED, _NONE,
        "Predicted step time minus the measured step time of the clean pass, divided by the "
        "measured one; negative if the graph is slower than predicted.",
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
"""Metrics by heading, in display order."""

METRICS: Final = {metric.id: metric for group in SECTIONS.values() for metric in group}
