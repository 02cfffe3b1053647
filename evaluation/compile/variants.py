"""Compare both variants of each model in :mod:`evaluation.zoo.defects` on a CPU.

    COMPILE_BENCHMARK_DEVICE=cpu python -m evaluation.compile.variants

prints whether their results are equal, the number of graphs that Dynamo makes of each, and the
causes. Splits, skips and copies need a GPU.
"""

from __future__ import annotations

import torch

from collectors.compiled.account import record_compilation
from evaluation.zoo.defects import MODELS
from graphviz_dash.features.torch_compile.analysis.causes import find_compile_causes
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.compilation import Compilation


def _made(name: str, is_fixed: bool) -> tuple[object, Compilation]:
    """The results of two steps, and the account of their compilation."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    with record_compilation() as account:
        step = MODELS[name](is_fixed)
        results = step(), step()
        return results, account.get_result()


def main() -> None:
    print("| model | results | graphs, as written | fixed | first cause | line |")
    print("| --- | --- | --- | --- | --- | --- |")
    untold = Missing(Fact.SAVING, "there is no GPU")
    for name in MODELS:
        (given, made), (wanted, whole) = _made(name, False), _made(name, True)
        try:
            torch.testing.assert_close(given, wanted, rtol=1e-4, atol=1e-5)
            equal = "equal"
        except AssertionError as error:
            equal = " ".join(str(error).split())[:120]
        causes = find_compile_causes(made, untold, untold)
        cause_text = (causes[0].rule.value, causes[0].lines[0].text) if causes else ("", "")
        counts = (str(len(each.frames)) for each in (made, whole))
        print(f"| {' | '.join((name, equal, *counts, *cause_text))} |", flush=True)
        for cause in causes[1:]:
            print(f"  {cause.rule.value} {cause.lines[0].text if cause.lines else ''}")


if __name__ == "__main__":
    main()
