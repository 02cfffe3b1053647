"""Bytes and operations against hardware counters, and predicted against measured savings.

    python -m evaluation.efficiency.score

Reads recordings of one H100 in evaluation/data/efficiency; needs no GPU.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import json
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from graphviz_dash.analysis.nodes.whole_graph import expand_graph
from graphviz_dash.analysis.prediction.eager_step import EagerStep, build_eager_step
from graphviz_dash.analysis.trace.kernel_categories import Category
from graphviz_dash.bundle.ceilings import read_ceilings
from graphviz_dash.cli.loading import open_run_trace
from graphviz_dash.features.efficiency.analysis.ceilings_choice import (
    CeilingsChoice,
    CeilingsOrigin,
)
from graphviz_dash.features.efficiency.analysis.items import WorkItem, list_step_items
from graphviz_dash.features.efficiency.analysis.report import (
    EfficiencyReport,
    measure_graph_efficiency,
    measure_step_efficiency,
)
from graphviz_dash.features.efficiency.analysis.rules.search import Remedy
from graphviz_dash.features.efficiency.analysis.units import group_items
from graphviz_dash.features.efficiency.analysis.work import Bound
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.graph import NodeKind

DATA: Final = Path(__file__).parents[1] / "data" / "efficiency"

MIN_BYTES: Final = 1 << 20
"""Smallest work that is compared: below, instructions and parameters matter."""
MAX_BYTES_ERROR: Final = 0.15
MAX_FLOPS_ERROR: Final = 0.05
MAX_SAVING_ERROR: Final = 0.25

CASE_REMEDIES: Final[Mapping[str, Remedy]] = {
    **dict.fromkeys(
        ("adam-loop", "adam-foreach", "sgd-loop", "amsgrad", "nesterov"), Remedy.OPTIMIZER
    ),
    **dict.fromkeys(
        (
            *("tf32-mlp", "bf16-mlp", "tf32-transformer", "tf32-batches"),
            *("tf32-convolutions", "tf32-bottlenecks", "tf32-stages"),
        ),
        Remedy.DTYPE,
    ),
    **dict.fromkeys(("rms-chain", "gate-chain", "tiny-chain", "decoder"), Remedy.FUSE),
    "average-loop": Remedy.FOREACH,
    "casts": Remedy.CASTS,
    **dict.fromkeys(("merge-qkv", "merge-gates"), Remedy.MERGE),
}
"""The advice that each case applies."""

_WRITE_RATIO: Final = 1.5
"""L2 sectors written per sector of a result: the H100 counts those for its far half twice."""

_FFMA: Final = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"

KERNEL_REASONS: Final = (
    ("nchwToNhwc|nhwcToNchw|AddPadding", "other kernels convert layouts or pad channels"),
    ("splitK|reduce_wgrad|ReduceSplit", "partial sums are written and added by another kernel"),
    ("dot_do_o", "the gradient of the queries is added in float32; other kernels convert it"),
    ("radix_sort|RadixSort", "the indices are sorted first, and rows are written once per index"),
    ("bn_fw_tr|bn_bw|batchnorm_bwtr", "the kernel reads its inputs twice"),
    ("RowwiseMoments", "three kernels read the input"),
)
"""Reasons that the names of a call's kernels show."""

REASONS: Final = (
    ("triton_.*embedding", "only the rows that occur move, and partial sums of gradients"),
    ("triton_.*nll_loss_forward_sub", "only one value of each row is read"),
    (
        "_(efficient|cudnn)_attention_forward",
        "query, key and value are one tensor, or float32 results are added in memory",
    ),
    ("_efficient_attention_backward", "partial gradients are added in memory"),
    ("(_foreach_)?addcmul_", "both factors are the same tensor"),
    ("addmm|mm", "tiles of operands are read again after L2 lost them"),
    ("bmm", "both operands are the same tensor"),
    ("baddbmm", "all operands are the same tensor; TMA adds to the result in L2"),
    ("(cudnn_)?convolution(_backward)?", "images are read again, or partial sums are added"),
    ("native_layer_norm|_fused_rms_norm", "the kernel reads its input twice"),
    (
        "gather|index_add_",
        "random places: rows are read again after L2 lost them, and atomic "
        "additions are not counted as writes",
    ),
    ("scatter_add_", "atomic additions are not counted as writes"),
    ("embedding_dense_backward", "the indices are sorted first"),
    ("sort|topk", "several passes"),
    ("sum", "partial sums are written"),
    ("tril", "the kernel writes its result twice"),
)
"""Likely reasons by operator, from the program and the counted reads and writes."""

FLOPS_REASONS: Final = (
    ("_vllm_fa3_C::fwd", "the query of a sequence fills two rows of a tile of 64"),
    ("_efficient_attention.*", "float32 products are three TF32 products; the diagonal is a tile"),
    (
        "_cudnn_attention_forward",
        "the diagonal is computed in whole tiles; one query fills one row of a tile of 16",
    ),
    ("_(cudnn|flash)_attention.*", "the diagonal is computed in whole tiles"),
    ("(cudnn_)?convolution(_backward)?", "channels, or pixels, are padded to whole tiles"),
    ("mm", "rows and columns are padded to whole tiles"),
)
"""Likely reasons for other numbers of operations, by operator."""


class CallCounters(NamedTuple):
    """Work of an operator call, from its shapes and from hardware counters."""

    program: str
    operator: str
    names: tuple[str, ...]
    bound: Bound
    bytes: int
    counted_bytes: float
    flops: int
    counted_flops: float | None

    @property
    def kernels(self) -> int:
        return len(self.names)

    @property
    def reason(self) -> str:
        """Reason for other bytes."""
        return _find_reason(KERNEL_REASONS, " ".join(self.names), REASONS, self.operator)

    @property
    def bytes_ratio(self) -> float:
        return self.counted_bytes / self.bytes

    @property
    def flops_ratio(self) -> float | None:
        """Counted operations divided by those of the shapes. None without either."""
        if not self.flops or self.counted_flops is None:
            return None
        return self.counted_flops / self.flops

    @property
    def has_good_bytes(self) -> bool:
        return abs(self.bytes_ratio - 1) <= MAX_BYTES_ERROR

    @property
    def has_good_flops(self) -> bool:
        """True if there are no operations, or their counted number agrees."""
        if not self.flops:
            return True
        return self.flops_ratio is not None and abs(self.flops_ratio - 1) <= MAX_FLOPS_ERROR


def read_counters(program: str) -> tuple[int, list[CallCounters]]:
    """Read a program's kernels; return the number of matched kernels and its operator calls."""
    trace = open_run_trace(DATA / f"{program}.json.gz")
    step = build_eager_step(trace)
    assert isinstance(step, EagerStep)
    items = list_step_items(trace, step)
    with gzip.open(DATA / f"{program}-counters.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    counters = match_kernels(items, rows)
    calls = []
    for unit in group_items(items):
        entries = [counters[place] for place in unit.items if place in counters]
        kernels = [place for place in unit.items if items[place].kind is NodeKind.KERNEL]
        if unit.work is None or not entries or len(entries) < len(kernels):
            continue
        calls.append(
            CallCounters(
                program,
                unit.call.name if unit.call is not None else items[unit.items[0]].name,
                tuple(items[place].name for place in unit.items if place in counters),
                unit.work.bound,
                unit.work.total_bytes,
                sum(map(_count_bytes, entries)),
                unit.work.flops,
                _add_flops([(items[place], counters[place]) for place in kernels]),
            )
        )
    return len(counters), calls


def match_kernels(
    items: Sequence[WorkItem], rows: Sequence[Mapping[str, str]]
) -> dict[int, Mapping[str, str]]:
    """Match kernels of a trace with rows of counters by name, in order."""
    places = [position for position, item in enumerate(items) if item.kind is NodeKind.KERNEL]
    names = [_shorten(items[position].name) for position in places]
    matcher = difflib.SequenceMatcher(
        None, names, [_shorten(row["Kernel Name"]) for row in rows], autojunk=False
    )
    return {
        places[first + offset]: rows[second + offset]
        for first, second, size in matcher.get_matching_blocks()
        for offset in range(size)
    }


def _shorten(name: str) -> str:
    """Return the last part of a kernel's name: tools spell namespaces and arguments differently."""
    return re.split(r"[<(]", name.removeprefix("void "))[0].split("::")[-1]


def _read(row: Mapping[str, str], name: str) -> float:
    text = (row.get(name) or "").replace(",", "")
    return float(text) if text else 0.0


def _count_bytes(row: Mapping[str, str]) -> float:
    from_tex = _read(row, "lts__t_sectors_srcunit_tex_op_write.sum") * 32
    sectors = _read(row, "lts__t_sectors_op_write.sum") * 32 / _WRITE_RATIO
    write_bytes = max(from_tex or sectors, _read(row, "dram__bytes_write.sum"))
    return _read(row, "dram__bytes_read.sum") + write_bytes


def _find_reason(
    kernel_reasons: Sequence[tuple[str, str]],
    kernels: str,
    reasons: Sequence[tuple[str, str]],
    operator: str,
) -> str:
    for pattern, reason in kernel_reasons:
        if re.search(pattern, kernels):
            return reason
    for pattern, reason in reasons:
        if re.fullmatch(f"{pattern}.*" if operator.startswith("triton_") else pattern, operator):
            return reason
    return "not explained"


def _add_flops(kernels: Sequence[tuple[WorkItem, Mapping[str, str]]]) -> float | None:
    """Add the operations of kernels; None if those of a matrix product were not counted."""
    if any(
        item.category in (Category.GEMM, Category.ATTENTION) and not row.get(_FFMA)
        for item, row in kernels
    ):
        return None
    rows = [row for _, row in kernels if row.get(_FFMA)]
    return sum(map(_count_flops, rows)) if rows else None


def _count_flops(row: Mapping[str, str]) -> float:
    tensor = sum(
        _read(row, f"sm__ops_path_tensor_src_{kind}.sum")
        for kind in ("bf16_dst_fp32", "fp16", "tf32_dst_fp32")
    )
    return tensor or 2 * _read(row, _FFMA)


def list_programs() -> list[str]:
    return sorted(file.name.split("-counters")[0] for file in DATA.glob("*-counters.csv.gz"))


def generate_counter_lines() -> Iterator[str]:
    outliers: list[CallCounters] = []
    mismatches: list[CallCounters] = []
    yield (
        "| program | kernels | of calls from 1 MiB | bytes: median ratio | within 15% | FLOPs: "
        "calls | within 5% | kernels within both |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    totals = [0] * 6
    ratios: list[float] = []
    for program in list_programs():
        kernels, calls = read_counters(program)
        large = [call for call in calls if call.bytes >= MIN_BYTES]
        products = [call for call in calls if call.flops_ratio is not None]
        good_products = [call for call in products if call.has_good_flops]
        outliers += [call for call in large if not call.has_good_bytes]
        mismatches += [call for call in products if not call.has_good_flops]
        entries = [call.bytes_ratio for call in large]
        ratios += entries
        counts = (
            kernels,
            _count_kernels(large),
            _count_kernels(call for call in large if call.has_good_bytes),
            len(products),
            len(good_products),
            _count_kernels(call for call in large if call.has_good_bytes and call.has_good_flops),
        )
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        yield _format_counts(program, counts, entries)
    yield _format_counts("all", totals, ratios)
    yield ""
    yield "| operator outside 15% | calls | kernels | counted / shapes | bound | likely reason |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for (operator, reason), calls in _group(outliers, lambda call: call.reason):
        span = _format_span([call.bytes_ratio for call in calls])
        bounds = ", ".join(dict.fromkeys(call.bound.value for call in calls))
        kernels = _count_kernels(calls)
        yield f"| {operator} | {len(calls)} | {kernels} | {span} | {bounds} | {reason} |"
    yield ""
    yield "| operator with other FLOPs | calls | counted / shapes | likely reason |"
    yield "| --- | --- | --- | --- |"
    for (operator, reason), calls in _group(mismatches, _find_flops_reason):
        span = _format_span([call.flops_ratio or 0.0 for call in calls])
        yield f"| {operator} | {len(calls)} | {span} | {reason} |"


def _count_kernels(calls: Iterable[CallCounters]) -> int:
    return sum(call.kernels for call in calls)


def _format_counts(name: str, counts: Sequence[int], ratios: Sequence[float]) -> str:
    kernels, large, good_bytes, products, good_flops, good = counts
    return (
        f"| {name} | {kernels} | {large} | {_format_median(ratios)} | {good_bytes} | {products} | "
        f"{good_flops} | {good} |"
    )


def _find_flops_reason(call: CallCounters) -> str:
    return _find_reason((), "", FLOPS_REASONS, call.operator)


def _group(
    calls: Sequence[CallCounters], explain: Callable[[CallCounters], str]
) -> list[tuple[tuple[str, str], list[CallCounters]]]:
    by_operator: dict[tuple[str, str], list[CallCounters]] = {}
    for call in calls:
        by_operator.setdefault((call.operator, explain(call)), []).append(call)
    return sorted(by_operator.items())


def _format_span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def _format_median(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.3f}" if values else ""


def generate_saving_lines() -> Iterator[str]:
    choice = CeilingsChoice(read_ceilings(DATA / "ceilings.json"), CeilingsOrigin.FILE)
    yield "| case | change | kernels | measured | predicted | interval | predicted / measured |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    hits = 0
    rows = [json.loads(line) for line in (DATA / "cases.jsonl").read_text().splitlines()]
    for row in rows:
        report = measure_case(row["case"], choice)
        measured_us = row["plain_us"] - row["changed_us"]
        entries = [
            advice for advice in report.advice if advice.remedy is CASE_REMEDIES[row["case"]]
        ]
        predicted_us, low, high = (
            sum(getattr(advice, end) for advice in entries) / 1e3
            for end in ("saving_ns", "low_ns", "high_ns")
        )
        ratio = predicted_us / measured_us
        hits += abs(ratio - 1) <= MAX_SAVING_ERROR
        yield (
            f"| {row['case']} | {CASE_REMEDIES[row['case']].value} | {row['plain_kernels']} to "
            f"{row['changed_kernels']} | {measured_us:.0f} µs | {predicted_us:.0f} µs | "
            f"{low:.0f} to {high:.0f} µs | {ratio:.2f} |"
        )
    yield ""
    yield f"{hits} of {len(rows)} predictions are within 25%."


def measure_case(name: str, choice: CeilingsChoice) -> EfficiencyReport:
    """Measure a step before its change: a recorded graph if there is one, or an eager step."""
    folder = DATA / f"case-{name}"
    if folder.is_dir():
        run = load_run(folder)
        report = measure_graph_efficiency(expand_graph(run, run.graphs[0].id), choice)
    else:
        report = measure_step_efficiency(open_run_trace(DATA / f"case-{name}.json.gz"), choice)
    assert isinstance(report, EfficiencyReport)
    return report


def measure_products() -> EfficiencyReport:
    choice = CeilingsChoice(read_ceilings(DATA / "ceilings.json"), CeilingsOrigin.FILE)
    report = measure_step_efficiency(open_run_trace(DATA / "products.json.gz"), choice)
    assert isinstance(report, EfficiencyReport)
    return report


def main() -> None:
    print("\n".join((*generate_counter_lines(), "", *generate_saving_lines())))


if __name__ == "__main__":
    main()
