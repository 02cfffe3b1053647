from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.metrics.run_metrics import (
    PEAKS,
    THROUGHPUT,
    compute_throughput,
    get_peak,
    make_value,
)
from graphviz_dash.analysis.sample_statistics import Spread, SpreadKind
from graphviz_dash.ingest.load import load_experiment
from graphviz_dash.model.run import Run, StepWork
from tests.experiments import make_experiment as write_experiment

WORK = StepWork(989 * 10**9, 8192, "bf16", "a formula")
INTERVAL = make_value("step_interval", 2e6, Spread(1e6, 4e6, SpreadKind.QUARTILES, 50))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("rate") / "mlp"
    write_experiment(path)
    return load_experiment(path).runs[0]


def stating(run: Run, work: StepWork | None, gpu: str = "NVIDIA H200") -> Run:
    manifest = run.manifest
    workload = msgspec.structs.replace(manifest.workload, work=work)
    machine = manifest.environment
    renamed = msgspec.structs.replace(machine, gpu=msgspec.structs.replace(machine.gpu, name=gpu))
    return replace(
        run, manifest=msgspec.structs.replace(manifest, workload=workload, environment=renamed)
    )


def test_the_utilisation_is_the_share_of_the_peak(run: Run) -> None:
    found = {one.metric.id: one for one in compute_throughput(stating(run, WORK), INTERVAL)}
    assert tuple(found) == THROUGHPUT
    assert found["model_flops_rate"].value == pytest.approx(989e9 / 2e-3)
    assert found["model_flops_rate"].text == "494 TFLOP/s"
    assert found["mfu"].value == pytest.approx(0.5)
    assert found["tokens_rate"].value == pytest.approx(8192 / 2e-3)
    spread = found["mfu"].spread
    assert spread is not None
    assert (spread.low, spread.high) == (pytest.approx(0.25), pytest.approx(1.0))


def test_a_workload_without_stated_flops_has_no_throughput(run: Run) -> None:
    found = list(compute_throughput(stating(run, None), INTERVAL))
    reasons = {figure.missing.reason for figure in found}
    assert reasons == {"the workload does not state the FLOPs of a step"}


def test_a_gpu_without_a_known_peak_has_a_rate_and_no_utilisation(run: Run) -> None:
    other = stating(run, WORK, "NVIDIA H200 NVL")
    found = {one.metric.id: one for one in compute_throughput(other, INTERVAL)}
    assert found["model_flops_rate"].value is not None
    assert found["mfu"].missing.reason == "the bf16 peak of NVIDIA H200 NVL is unknown"


def test_the_peak_of_an_h200() -> None:
    peak = get_peak("NVIDIA H200", "bf16")
    assert peak is not None
    assert peak.flops == 989e12
    assert all("data sheet" in one.source for one in PEAKS)


def test_an_interval_of_zero_has_no_throughput(run: Run, tmp_path: Path) -> None:
    interval = make_value("step_interval", 0.0)
    found = list(compute_throughput(stating(run, WORK), interval))
    assert {one.missing.reason for one in found} == {"its back-to-back interval is 0"}
