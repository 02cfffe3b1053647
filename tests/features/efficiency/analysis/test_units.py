from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphviz_dash.features.efficiency.analysis.operator_call import parse_call
from graphviz_dash.features.efficiency.analysis.units import compute_call_work
from graphviz_dash.features.efficiency.analysis.work import Work, add_work

torch = pytest.importorskip("torch")
if not hasattr(torch, "nn"):
    pytest.skip("needs a real torch", allow_module_level=True)


def record_calls(run: Callable[[], Any], file: Path) -> list[dict[str, Any]]:
    """Return the operators of ``run`` as the profiler writes them."""
    with torch.profiler.profile(record_shapes=True) as profiler:
        run()
    profiler.export_chrome_trace(str(file))
    events = json.loads(file.read_text())["traceEvents"]
    return [event for event in events if event.get("cat") == "cpu_op"]


def compute_work(event: dict[str, Any]) -> Work | None:
    args = event["args"]
    texts = (
        json.dumps(args[name]) if name in args else None
        for name in ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
    )
    call = parse_call(event["name"], *texts)
    work = None if call is None else compute_call_work(call, ())
    return add_work(part.work for part in work) if isinstance(work, tuple) else work


def randn(*shape: int, dtype: Any = None) -> Any:
    return torch.randn(*shape, dtype=dtype or torch.float32, requires_grad=True)


def convolve(**options: Any) -> Any:
    return torch.nn.functional.conv2d(randn(2, 6, 17, 13), randn(8, 3, 3, 5), **options)


CASES: dict[str, tuple[Callable[[], Any], set[str]]] = {
    "mm": (lambda: torch.mm(randn(7, 11), randn(11, 13)), {"aten::mm"}),
    "addmm": (lambda: torch.addmm(randn(13), randn(7, 11), randn(11, 13)), {"aten::addmm"}),
    "bmm": (lambda: torch.bmm(randn(3, 7, 11), randn(3, 11, 13)), {"aten::bmm"}),
    "baddbmm": (
        lambda: torch.baddbmm(randn(3, 7, 13), randn(3, 7, 11), randn(3, 11, 13)),
        {"aten::baddbmm"},
    ),
    "backward": (
        lambda: torch.mm(randn(7, 11), randn(11, 13)).sum().backward(),
        {"aten::mm"},
    ),
    "convolution": (
        lambda: convolve(groups=2, stride=2, padding=(1, 2), dilation=(2, 1)),
        {"aten::convolution"},
    ),
    "convolution, backward": (
        # With groups, torch counts the gradient of the weights several times.
        lambda: (
            torch.nn.functional.conv2d(randn(2, 3, 17, 13), randn(8, 3, 3, 5), padding=1)
            .sum()
            .backward()
        ),
        {"aten::convolution", "aten::convolution_backward"},
    ),
    "transposed": (
        lambda: torch.nn.functional.conv_transpose2d(
            randn(2, 8, 9, 7), randn(8, 3, 3, 3), stride=2, padding=1, output_padding=1, groups=2
        ),
        {"aten::convolution"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_flops_equal_those_of_torch(name: str, tmp_path: Path) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    run, operators = CASES[name]
    with FlopCounterMode(display=False) as counter:
        run()
    works = [
        compute_work(event)
        for event in record_calls(run, tmp_path / "trace.json")
        if event["name"] in operators
    ]
    assert works
    assert sum(work.flops for work in works if work is not None) == counter.get_total_flops()


def test_written_bytes_are_those_of_the_result(tmp_path: Path) -> None:
    image = randn(2, 6, 17, 13)
    runs = {
        "aten::convolution": lambda: convolve(groups=2, stride=2, padding=(1, 2), dilation=(2, 1)),
        "aten::addmm": lambda: torch.addmm(randn(13), randn(7, 11), randn(11, 13)),
        "aten::max_pool2d_with_indices": lambda: torch.max_pool2d(
            image, 3, stride=2, padding=1, ceil_mode=True
        ),
        "aten::avg_pool2d": lambda: torch.nn.functional.avg_pool2d(image, 3, 2, 1),
        "aten::upsample_nearest2d": lambda: torch.nn.functional.interpolate(
            image, scale_factor=2.0
        ),
        "aten::cat": lambda: torch.cat((image, image), 1),
    }
    for operator, run in runs.items():
        events = record_calls(run, tmp_path / f"{operator[6:]}.json")
        work = next(
            (
                work
                for event in events
                if event["name"] == operator and (work := compute_work(event))
            ),
            None,
        )
        if operator == "aten::cat":
            # Lists have no data types without the name of a kernel.
            assert work is None
            continue
        result = run()
        size = 12 if "indices" in operator else 4
        assert work is not None, operator
        assert work.written_bytes == result.numel() * size, operator
