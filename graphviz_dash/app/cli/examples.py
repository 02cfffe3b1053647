"""Examples of commands, for ``--help`` and the reference. Tests run those of RUNNABLE."""

from __future__ import annotations

import textwrap
from typing import Final

EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "bench launch": ("graphviz-dash bench launch -o experiments/launch",),
    "bench limits": ("graphviz-dash bench limits -o limits.json",),
    "bench predict": ("graphviz-dash bench predict -o runs/calibration",),
    "cache": ("graphviz-dash cache",),
    "calibrate": ("graphviz-dash calibrate runs/calibration -o calibration.json",),
    "collect": (
        "graphviz-dash collect --workload mlp-train --modes eager,graph -o runs/mlp",
        "graphviz-dash collect -o runs/resnet -- python train.py",
        "graphviz-dash collect -o runs/llm -- torchrun --nproc-per-node 2 -m my.training",
    ),
    "compare": (
        "graphviz-dash compare sample_traces/mlp-train",
        "graphviz-dash compare sample_traces/mlp-train --baseline graph --kernels 0",
        "graphviz-dash compare sample_traces/mlp-train --json > comparison.json",
    ),
    "compile": (
        "graphviz-dash compile sample_traces/compile-fixes/fixed-0",
        "graphviz-dash compile sample_traces/compile-fixes/fixed-0 --causes 3 --json",
    ),
    "completion": ("graphviz-dash completion zsh > graphviz-dash.zsh",),
    "demo": ("graphviz-dash demo --port 8600",),
    "diff": (
        "graphviz-dash diff sample_traces/mlp-train/graph:graph-0 sample_traces/mlp-train/graph",
    ),
    "docs": ("graphviz-dash docs break-even", "graphviz-dash docs sync-value --open"),
    "doctor": (
        "graphviz-dash doctor --workload sync-in-step",
        "graphviz-dash doctor -o runs/mine -- python train.py --epochs 1",
        "graphviz-dash doctor --bundle runs/mine/doctor --json",
        "graphviz-dash doctor --report --bundle sample_traces/mlp-train --redact",
    ),
    "efficiency": (
        "graphviz-dash efficiency sample_traces/transformer-train/graph",
        "graphviz-dash efficiency sample_traces/gpt-train/graph --by line --json > limits.json",
    ),
    "export dot": ("graphviz-dash export dot sample_traces/mlp-train/graph -o mlp-train.dot",),
    "export equation": ("graphviz-dash export equation sample_traces/mlp-train -o equation.csv",),
    "export html": ("graphviz-dash export html sample_traces/mlp-train -o report.html",),
    "export kernels": ("graphviz-dash export kernels sample_traces/mlp-train -o kernels.csv",),
    "export nodes": ("graphviz-dash export nodes sample_traces/mlp-train/graph -o nodes.parquet",),
    "export pairs": ("graphviz-dash export pairs sample_traces/mlp-train -o pairs.csv",),
    "export perfetto": (
        "graphviz-dash export perfetto sample_traces/mlp-train -o mlp-train.pftrace",
        "graphviz-dash export perfetto sample_traces/mlp-train -o mlp-train.json.gz",
    ),
    "fleet": ("graphviz-dash fleet sample_traces/mlp-train",),
    "gate": (
        "graphviz-dash gate sample_traces/mlp-train --write-baseline baseline.json",
        "graphviz-dash gate sample_traces/mlp-train --baseline sample_traces/mlp-train",
    ),
    "import": (
        "graphviz-dash import sample_traces/mlp-train/graph/traces/replay.json.gz -o imported",
    ),
    "ladder": (
        "graphviz-dash ladder runs/server",
        "graphviz-dash ladder runs/server --graphs 8 --memory 2147483648 --startup 10",
    ),
    "launch": ("graphviz-dash launch sample_traces/launch-h200",),
    "ls": ("graphviz-dash ls sample_traces",),
    "memory": (
        "graphviz-dash memory sample_traces/mlp-train",
        "graphviz-dash memory sample_traces/mlp-train --graphs 3 --json > memory.json",
        "graphviz-dash memory --ledger runs/server --fit layers=16:24 --fit device=40GiB",
    ),
    "predict": ("graphviz-dash predict sample_traces/mlp-train",),
    "serve": ("graphviz-dash serve sample_traces --port 8600",),
    "show": ("graphviz-dash show sample_traces/mlp-train/graph",),
    "validate": ("graphviz-dash validate sample_traces",),
}
"""Command lines by the full name of the command."""


_COLUMNS: Final = 74
"""Width of an example in the help; a longer one is continued after a backslash."""


def format_examples(name: str) -> str | None:
    """Format the examples of a command for click's epilog; None without examples."""
    if name not in EXAMPLES:
        return None
    return "\n".join(["\b", "Examples:", *map(_fold_example, EXAMPLES[name])])


def _fold_example(example: str) -> str:
    lines = textwrap.wrap(
        example, _COLUMNS, break_long_words=False, break_on_hyphens=False, subsequent_indent="    "
    )
    return "  " + " \\\n  ".join(lines)
