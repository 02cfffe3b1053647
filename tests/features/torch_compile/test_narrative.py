from __future__ import annotations

import pytest
from msgspec.structs import replace

from graphviz_dash.features.torch_compile.analysis.report import build_compile_report
from graphviz_dash.features.torch_compile.analysis.saving_range import GainRange
from graphviz_dash.features.torch_compile.narrative import (
    format_saving,
    format_saving_badge,
    summarize_compilation,
)
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Missing
from tests.samples import SAMPLES


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("compile-fixes/fixed-0", " Fix first: "),
        (
            "compile-generate/fixed-2",
            " No recorded cause slows every step. One-time cost: A function is compiled more "
            "than once, transformers/utils/generic.py:933, 2.34 s of compile time.",
        ),
        (
            "compile-generate/fixed-1",
            " Fix first: Torch counts several calls as one step, generate.py:55.",
        ),
        (
            "mlp-train/compile-default",
            ' CUDA graphs were not enabled: torch.compile(mode="reduce-overhead") enables them.',
        ),
        (
            "recorded-sglang/default-sizes",
            " The program captures 206 CUDA graphs itself; the traced steps launch none of them.",
        ),
        (
            "recorded-vllm/default-sizes",
            " The program captures 106 CUDA graphs itself; the Graph page and ladder explain steps "
            "without one.",
        ),
        ("mlp-train/compile", " No recorded cause prevents CUDA graphs."),
    ],
)
def test_the_summary_names_the_first_fix_or_its_absence(run: str, said: str) -> None:
    report = build_compile_report(load_run(SAMPLES / run))
    assert not isinstance(report, Missing)
    assert said in summarize_compilation(report)


def test_a_saving_is_told_with_its_range_or_as_too_small() -> None:
    report = build_compile_report(load_run(SAMPLES / "compile-fixes/fixed-2"))
    assert not isinstance(report, Missing)
    (cause,) = report.causes
    assert format_saving(cause) == "223 µs per step (134 µs to 234 µs)"
    assert format_saving_badge(cause) == "saves 223 µs per step"
    assert summarize_compilation(report).endswith("save 223 µs (134 µs to 234 µs) of 350 µs.")
    small = replace(cause, gain_ns=9e3, gain_range=GainRange(0.0, 24e3, 15e3, is_significant=False))
    assert format_saving(small).endswith("within noise: processes differ by 15.0 µs")
    assert format_saving_badge(small) == "within noise"


def test_steps_without_a_graph_do_not_divide_the_median_of_a_server() -> None:
    """SGLang's traced steps are eager and four times as long as its median step."""
    report = build_compile_report(load_run(SAMPLES / "recorded-sglang/default-sizes"))
    assert not isinstance(report, Missing)
    assert isinstance(report.step_ns, Missing)
    assert "only steps without a graph" in report.step_ns.reason
