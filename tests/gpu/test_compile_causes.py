from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphviz_dash.features.torch_compile.analysis.cause import CompileCause
from graphviz_dash.features.torch_compile.analysis.causes import find_compile_causes
from graphviz_dash.model.absence import Fact, Missing

pytest.importorskip("torch", reason="needs a CUDA GPU; torch is not installed")

import torch

from collectors.compiled.account import record_compilation
from tests.gpu.programs.compile_causes import CAUSES, CLEAN, Step, sizes_from_data

PROGRAM = "compile_causes.py"
STEPS = 14


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """A torch that has compiled nothing, whose caches tell nothing."""
    from torch._inductor import config
    from torch._inductor.cudagraph_trees import reset_cudagraph_trees

    torch.manual_seed(0)
    with config.patch(force_disable_caches=True), sizes_from_data():
        yield
    torch._dynamo.reset()
    reset_cudagraph_trees()


def run(step: Step, times: int = STEPS) -> object:
    result = None
    for _ in range(times):
        result = step()
        torch.cuda.synchronize()
    return result


def causes_of(build: object, times: int = STEPS) -> tuple[CompileCause, ...]:
    untimed = Missing(Fact.TRACED_STEPS, "no steps were traced")
    with record_compilation() as account:
        run(build(), times)  # type: ignore[operator]
        account.read_trees(lambda _: None)
    told = account.get_result()
    assert told is not None
    return find_compile_causes(told, untimed, untimed)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [name for name, case in CAUSES.items() if not case.is_ended])
def test_a_cause_is_named_with_its_line(name: str) -> None:
    case = CAUSES[name]
    with torch._dynamo.config.patch(capture_scalar_outputs=case.rule.value == "size-from-data"):
        told = {cause.rule: cause for cause in causes_of(case.build)}
    assert case.rule in told
    line = told[case.rule].lines[0]
    assert (Path(line.file).name, line.line) == (PROGRAM, case.line)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [name for name, case in CAUSES.items() if case.is_ended])
def test_a_cause_that_ends_a_step_is_named_with_its_line(name: str) -> None:
    """Run in a separate process, because a broken capture disables it."""
    case = CAUSES[name]
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.programs.compile_ended", name],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[case.rule.value, PROGRAM, case.line]], done.stderr


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_step_has_no_cause(name: str) -> None:
    assert causes_of(CLEAN[name]) == ()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [*CLEAN, "prints", "copies_to_cpu", "adds_to_input"])
def test_results_are_equal_under_the_recorder(name: str) -> None:
    build = CLEAN.get(name) or CAUSES[name].build
    torch.manual_seed(1)
    plain = torch.utils._pytree.tree_leaves(run(build()))
    kept = [leaf.clone() for leaf in plain if isinstance(leaf, torch.Tensor)]
    torch._dynamo.reset()
    torch.manual_seed(1)
    with record_compilation():
        watched = torch.utils._pytree.tree_leaves(run(build()))
        own = [leaf for leaf in watched if isinstance(leaf, torch.Tensor)]
        assert len(own) == len(kept)
        assert all(torch.equal(a, b) for a, b in zip(kept, own, strict=True))
