from __future__ import annotations

import pytest

from graphviz_dash.features.efficiency.analysis.rates import Rates
from graphviz_dash.model.ceilings import Pipe, Traffic

pytestmark = pytest.mark.gpu


def test_limits_of_this_gpu() -> None:
    torch = pytest.importorskip("torch")
    from collectors.ceilings.store import measure_in_process

    ceilings = measure_in_process()
    assert ceilings.gpu.name == torch.cuda.get_device_properties(0).name
    assert ceilings.l2_bytes > 0
    assert all(entry.duration_ns for entry in (*ceilings.memory, *ceilings.arithmetic))
    rates = Rates(ceilings)
    assert 300 < rates.launch_ns < 10_000
    for traffic in Traffic:
        assert rates.compute_bandwidth(traffic, l2_hit=False) > 0
    # Twice the bytes take longer, in L2 and beyond.
    times = [rates.compute_memory_ns(size, size, l2_hit=False) for size in (1 << 24, 1 << 26)]
    assert times[0] < times[1]
    fp32, bf16 = (rates.get_flop_rate(pipe) for pipe in (Pipe.FP32, Pipe.BF16))
    assert fp32 is not None
    assert bf16 is None or bf16 > fp32
