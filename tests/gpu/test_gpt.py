from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner


def test_it_learns_the_batch() -> None:
    import torch

    from collectors.workloads.gpt import GptSize, train

    torch.manual_seed(0)
    step = train(GptSize(layers=2, hidden=64, heads=4, sequence=32, vocabulary=128))
    losses = [float(step()) for _ in range(200)]
    assert losses[0] == pytest.approx(torch.tensor(128.0).log().item(), rel=0.2)
    assert losses[-1] < 0.9 * losses[0]


def test_its_flops_are_those_that_torch_counts() -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from collectors.workloads.gpt import GptSize, train

    size = GptSize(layers=3, hidden=128, heads=4, sequence=64, microbatch=2, vocabulary=512)
    step = train(size)
    step()
    with FlopCounterMode(display=False) as counter:
        step()
    counted = counter.get_flop_counts()["Global"]
    products = {torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm}
    linear = sum(flops for op, flops in counted.items() if op in products)
    tokens = size.microbatch * size.sequence
    attention = 3 * tokens * size.layers * 4 * size.sequence * size.hidden
    assert linear == size.work().model_flops - attention
    forward = sum(
        flops
        for op, flops in counted.items()
        if "attention" in str(op) and "backward" not in str(op)
    )
    assert forward == attention / 3


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("layers=no", "a whole number"),
        ("depth=3", "one of layers, hidden"),
        ("heads=3", "hidden as a multiple of heads"),
        ("layers", "name=value"),
    ],
)
def test_a_wrong_parameter_is_one_line(tmp_path: Path, setting: str, said: str) -> None:
    from collectors.collection.cli import collect
    from graphviz_dash.errors import GraphvizDashError

    arguments = ["--workload=gpt-train", f"--set={setting}", f"-o{tmp_path / 'x'}"]
    result = CliRunner().invoke(collect, arguments)
    assert isinstance(result.exception, GraphvizDashError)
    assert said in str(result.exception)
