from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectors import passes
from collectors.collection.failures import describe_failure
from graphviz_dash.errors import GraphvizDashError, MissingRequirementError
from graphviz_dash.model.run import COLLECTOR_ERROR, Pass


@pytest.mark.parametrize(
    ("error", "recorded"),
    [
        (RuntimeError("out of order"), "RuntimeError"),
        (GraphvizDashError("the step calls no module"), COLLECTOR_ERROR),
        (MissingRequirementError("torch is not installed"), COLLECTOR_ERROR),
    ],
)
def test_a_refusal_by_the_collector_is_marked(error: Exception, recorded: str) -> None:
    failure = describe_failure(error, Pass.CLEAN)
    assert (failure.error, failure.message) == (recorded, str(error))


INDUCTOR = """\
def call(args):
    # Topologically Sorted Source Nodes: [other], Original ATen: [aten.mm]
    other = 1
    # Topologically Sorted Source Nodes: [x, values], Original ATen: [aten._linalg_svd]
    values = args[0](
        other)
"""
MODEL = "def step(call, operator):\n    return call([operator])\n"


def test_an_error_in_code_of_inductor_is_the_programs_with_the_nodes_that_failed(
    tmp_path: Path,
) -> None:
    """The innermost line of a file is that of the program, not of what Inductor wrote for it."""
    content: dict[str, Any] = {}
    for name, text in ((f"c{'a' * 51}.py", INDUCTOR), ("model.py", MODEL)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        exec(compile(text, str(tmp_path / name), "exec"), content)
    torch = "def operator(_):\n    raise RuntimeError('not permitted when stream is capturing')\n"
    exec(compile(torch, "/lib/site-packages/torch/ops.py", "exec"), content)
    with pytest.raises(RuntimeError) as raised:
        content["step"](content["call"], content["operator"])
    failure = describe_failure(raised.value, Pass.RECORDED)
    assert failure.location == "model.py:2"
    assert failure.traceback.splitlines()[-1] == (
        "# Topologically Sorted Source Nodes: [x, values], Original ATen: [aten._linalg_svd]"
    )


def test_location_is_the_users_line_below_frames_of_a_pass(tmp_path: Path) -> None:
    content: dict[str, Any] = {}
    ours = Path(passes.__file__).with_name("memory.py")
    example = Path(passes.__file__).parents[1] / "workloads" / "mlp.py"
    for file, name, body in (
        (ours, "dispatch", "raise RuntimeError('out of memory')"),
        (example, "example", "dispatch()"),
        (tmp_path / "model.py", "step", "dispatch()"),
    ):
        exec(compile(f"def {name}():\n    {body}\n", str(file), "exec"), content)
    for called, expected in (("step", "model.py:2"), ("example", "collectors/workloads/mlp.py:2")):
        with pytest.raises(RuntimeError) as raised:
            content[called]()
        assert describe_failure(raised.value, Pass.MEMORY).location == expected
