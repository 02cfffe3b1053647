"""Errors that end a compiled step: the rule and the line, from what torch 2.11 says and prints."""

from __future__ import annotations

import pytest

from graphviz_dash.features.torch_compile.analysis.report import find_fatal_causes
from graphviz_dash.model.compilation import Compilation, CompiledFrame, UserLine
from graphviz_dash.model.compile_rules import CompileRuleId
from graphviz_dash.model.run import Failure, Pass

BEGUN = "CUDA error: operation not permitted when stream is capturing"
FOUND_BROKEN = """CUDA error: operation failed due to a previous error during capture
Search for `cudaErrorStreamCaptureInvalidated' in https://docs.nvidia.com/cuda for more information.
"""
TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 40, in <module>
    compiled(x)
  File "torch/_dynamo/eval_frame.py", line 1024, in compile_wrapper
    return fn(*args, **kwargs)
  File "model.py", line 10, in {function}
    def step(x):
{error}
"""
NODES = "# Topologically Sorted Source Nodes: [x, values], Original ATen: [aten._linalg_svd]\n"
CODE = """class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[4, 4]"):
        l_x_ = L_x_
        # File: model.py:11 in step, code: x = x + 1
        x: "f32[4, 4]" = l_x_ + 1;  l_x_ = None
        # File: model.py:12 in step, code: values = torch.linalg.svdvals(x)
        values: "f32[4]" = torch._C._linalg.linalg_svdvals(x);  x = None
        return (values,)
"""
CALL = UserLine("train.py", 40, "<module>", "compiled(x)")
FRAMES = (
    CompiledFrame("0/0", "other", UserLine("model.py", 2, "other"), False, code=CODE),
    CompiledFrame("1/0", "step", UserLine("model.py", 10, "step"), False, (CALL,), code=CODE),
)


def failed(message: str, traceback: str = "", location: str | None = "model.py:10") -> Failure:
    return Failure(Pass.RECORDED, "AcceleratorError", message, location, traceback)


@pytest.mark.parametrize("function", ["step", "torch_dynamo_resume_in_step_at_9"])
@pytest.mark.parametrize("message", [BEGUN, FOUND_BROKEN, "cusolver error: 7"])
@pytest.mark.parametrize("nodes", [NODES, ""])
def test_a_recording_that_failed_has_the_line_of_its_operator(
    message: str, nodes: str, function: str
) -> None:
    """Whichever of the two errors is the first; and where the operator itself raised none."""
    text = TRACEBACK.format(function=function, error=FOUND_BROKEN) + nodes
    told = Compilation("2.11", (), frames=FRAMES)
    (cause,) = find_fatal_causes([failed(message, text)], told)
    assert (cause.rule, cause.frames) == (CompileRuleId.CAPTURE_FAILED, ("1/0",))
    assert [line.text for line in cause.lines] == ["model.py:12", "train.py:40"]
    assert ("raised" in cause.details[0]) == bool(nodes)


def test_without_an_account_the_line_is_that_of_the_compiled_function() -> None:
    (cause,) = find_fatal_causes([failed(FOUND_BROKEN)], Compilation("2.11", ()))
    assert (cause.rule, cause.lines) == (
        CompileRuleId.CAPTURE_FAILED,
        (UserLine("model.py", 10),),
    )


def test_an_output_that_was_overwritten_is_told_where_it_is_used() -> None:
    message = "Error: accessing tensor output of CUDAGraphs that has been overwritten by a run"
    (cause,) = find_fatal_causes([failed(message, location="train.py:44")], Compilation("2", ()))
    assert cause.rule is CompileRuleId.OVERWRITTEN_OUTPUT
    assert cause.lines == (UserLine("train.py", 44),)


def test_another_error_is_none_of_the_compilers() -> None:
    failure = failed("CUDA out of memory")
    assert list(find_fatal_causes([failure], Compilation("2.11", (), frames=FRAMES))) == []
