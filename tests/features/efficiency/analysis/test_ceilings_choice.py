from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from graphviz_dash.features.efficiency.analysis.ceilings_choice import (
    CeilingsChoice,
    CeilingsOrigin,
    choose_ceilings,
    load_shipped_ceilings,
)
from graphviz_dash.features.efficiency.analysis.rates import Rates
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.ceilings import Ceilings, Pipe, Traffic
from graphviz_dash.model.run import Absent, Run
from tests.bundle.examples import MANIFEST
from tests.features.efficiency.steps import make_ceilings


def make_run(name: str, ceilings: Ceilings | None = None, *absent: Absent) -> Run:
    gpu = msgspec.structs.replace(make_ceilings().gpu, name=name)
    environment = msgspec.structs.replace(MANIFEST.environment, gpu=gpu)
    manifest = msgspec.structs.replace(MANIFEST, environment=environment, absent=absent)
    return Run(path=Path("run"), manifest=manifest, ceilings=ceilings)


def test_given_limits_come_first() -> None:
    unit_items, ceilings_override = make_ceilings("own"), make_ceilings("given")
    run = make_run("own", unit_items)
    assert choose_ceilings(run, ceilings_override) == CeilingsChoice(
        ceilings_override, CeilingsOrigin.FILE
    )
    assert choose_ceilings(run) == CeilingsChoice(unit_items, CeilingsOrigin.RUN)


def test_the_same_model_is_named_as_such() -> None:
    entry = load_shipped_ceilings()[0]
    assert choose_ceilings(make_run(entry.gpu.name)) == CeilingsChoice(
        entry, CeilingsOrigin.SAME_MODEL
    )


def test_other_models_have_no_limits() -> None:
    choice = choose_ceilings(make_run("Test GPU"))
    assert isinstance(choice, Missing)
    assert "no measured limits of Test GPU" in choice.reason
    reason = choose_ceilings(make_run("Test GPU", None, Absent(Fact.CEILINGS, "it was busy")))
    assert isinstance(reason, Missing)
    assert reason.reason == "it was busy"


@pytest.mark.parametrize("ceilings", load_shipped_ceilings(), ids=lambda one: one.gpu.name)
def test_shipped_limits_are_plausible(ceilings: Ceilings) -> None:
    rates = Rates(ceilings)
    dram, l2 = (rates.compute_bandwidth(Traffic.COPY, l2_hit=l2_hit) for l2_hit in (False, True))
    # Copies reach 85 to 95% of the data sheet's 3.35 TB/s (H100), L2 more.
    assert 0.85 * 3.35e12 < dram < l2
    order = [rates.get_flop_rate(pipe) or 0.0 for pipe in (Pipe.FP32, Pipe.TF32, Pipe.BF16)]
    assert order == sorted(order)
    assert 500 < rates.launch_ns < 3_000
