"""Source lines in call stacks, with torch on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("torch", reason="compiles with torch")

from collectors.compiled.account import record_compilation
from graphviz_dash.features.torch_compile.analysis.causes import find_compile_causes
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.compilation import (
    Compilation,
    CompileWarning,
    GraphSkip,
    Rerecording,
    TreeFunction,
    UserLine,
)
from graphviz_dash.model.compile_rules import CompileRuleId as Rule

PROGRAM = """\
import torch
from torch import nn

class Layer(nn.Module):
    def forward(self, x, word=""):
        x = x + len(word)  # body
        print(end="")  # break
        return x * 2

def plain(x, word=""):
    x = x + len(word)  # body
    print(end="")  # break
    return x * 2

def by_name():
    return torch.compile(plain, backend="eager", dynamic=False)

def by_lambda():
    return torch.compile(lambda x, word: plain(x, word), backend="eager", dynamic=False)

def by_module():
    return torch.compile(Layer(), backend="eager", dynamic=False)

def by_own_method():
    layer = Layer()
    layer.compile(backend="eager", dynamic=False)
    return layer

def by_decorator():
    @torch.compile(backend="eager", dynamic=False)
    def decorated(x, word):
        return plain(x, word)
    return decorated

class Trainer:
    def __init__(self, compiled):
        self.compiled = compiled

    def step(self, word):
        return [self.compiled(torch.ones(4), word) for _ in range(2)]  # call

    def fit(self):
        return [self.step(word) for word in ("a", "bc")]

def train(build):
    return Trainer(build()).fit()
"""
BUILDS = ["by_name", "by_lambda", "by_module", "by_own_method", "by_decorator"]
UNTIMED = Missing(Fact.TRACED_STEPS, "no steps were traced")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("program") / "train.py"
    path.write_text(PROGRAM, encoding="utf-8")
    content: dict[str, Any] = {"__name__": "train"}
    exec(compile(PROGRAM, str(path), "exec"), content)
    return content


def told_of(program: dict[str, Any], build: str) -> Compilation:
    import torch

    torch._dynamo.reset()
    with record_compilation() as account:
        program["train"](program[build])
    told = account.get_result()
    assert told is not None
    return told


def marked(line: UserLine) -> str:
    """The comment at a line of the program."""
    assert Path(line.file).name == "train.py"
    return PROGRAM.splitlines()[line.line - 1].partition("  # ")[2]


@pytest.mark.parametrize("build", BUILDS)
def test_the_innermost_caller_is_the_call(program: dict[str, Any], build: str) -> None:
    told = told_of(program, build)
    outermost = next(frame for frame in told.frames if not frame.is_continuation)
    callers = [line.function for line in outermost.callers if line.function != "<listcomp>"]
    assert marked(outermost.callers[0]) == "call"
    assert callers[:3] == ["step", "fit", "train"]


@pytest.mark.parametrize("build", BUILDS)
def test_breaks_and_recompiles_are_told_where_they_are_mended(
    program: dict[str, Any], build: str
) -> None:
    told = told_of(program, build)
    lines: dict[Rule, set[str]] = {}
    for cause in find_compile_causes(told, UNTIMED, UNTIMED):
        lines.setdefault(cause.rule, set()).add(marked(cause.lines[0]))
    assert lines[Rule.PYTHON_SIDE_EFFECT] == {"break"}
    assert "body" in lines[Rule.RECOMPILING]


@pytest.mark.parametrize("build", BUILDS)
def test_a_cause_fixed_at_the_call_names_the_line_of_the_call(
    program: dict[str, Any], build: str
) -> None:
    """Combine facts that need a GPU with facts from torch about the program."""
    told = told_of(program, build)
    frame = next(each.id for each in told.frames if not each.is_continuation)
    recorded = TreeFunction(0, frame, "inference", ())
    for warning, rule in (
        (CompileWarning("CUDAGraph supports dynamic shapes", ()), Rule.CHANGING_SIZES),
        (Rerecording(frame, "f", "live outputs should be dead", ()), Rule.PENDING_BACKWARD),
    ):
        name = "warnings" if isinstance(warning, CompileWarning) else "rerecordings"
        facts = {"functions": (recorded,), "breaks": (), "recompiles": (), name: (warning,)}
        (cause,) = find_compile_causes(msgspec.structs.replace(told, **facts), UNTIMED, UNTIMED)
        assert (cause.rule, marked(cause.lines[0])) == (rule, "call")


def test_a_skip_without_a_line_has_that_of_its_function(program: dict[str, Any]) -> None:
    told = told_of(program, "by_name")
    frame = next(each for each in told.frames if not each.is_continuation)
    skip = GraphSkip(frame.id, "incompatible operators", ())
    facts = {"skips": (skip,), "breaks": (), "recompiles": ()}
    (cause,) = find_compile_causes(msgspec.structs.replace(told, **facts), UNTIMED, UNTIMED)
    functions = [line.function for line in cause.lines if line.function != "<listcomp>"]
    assert functions[:4] == [
        "plain",
        "step",
        "fit",
        "train",
    ]
