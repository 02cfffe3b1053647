"""What is said first of a compiled step."""

from __future__ import annotations

import pytest

from graphviz_dash.analysis.compiled.report import compile_report
from graphviz_dash.ingest.load import load_run
from graphviz_dash.model.absence import Missing
from graphviz_dash.narrative.compiled import compile_sentence
from tests.samples import SAMPLES


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("compile-mends/mended-0", " Mend first: "),
        (
            "compile-generate/mended-2",
            " Nothing that was recorded costs each step time; paid once: A function is compiled "
            "more than once, transformers/utils/generic.py:933, 2.34 s of compiling.",
        ),
        (
            "compile-generate/mended-1",
            " Mend first: Several calls are one step for torch, generate.py:55.",
        ),
        (
            "mlp-train/compile-default",
            ' No CUDA graph was asked for: torch.compile(mode="reduce-overhead") records them.',
        ),
        ("mlp-train/compile", " Nothing that was recorded keeps the step from its graphs."),
    ],
)
def test_what_is_to_be_mended_first_if_anything(run: str, said: str) -> None:
    report = compile_report(load_run(SAMPLES / run))
    assert not isinstance(report, Missing)
    assert said in compile_sentence(report)
