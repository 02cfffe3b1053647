from __future__ import annotations

from pathlib import Path

from graphviz_dash.guidance.narrative import list_remedies
from graphviz_dash.ingest.load import load_run

RECORDED = Path(__file__).parents[2] / "sample_traces" / "recorded-resnet"


def test_the_command_is_whole() -> None:
    alone = [load_run(RECORDED / "graphed", traces=False, check_hashes=False)]
    baseline, line = list_remedies(alone)
    assert baseline == (
        "graphed: To see the gain from its graphs, switch graphs off in the program and record "
        "it again, into the same experiment: graphviz-dash collect -o "
        "sample_traces/recorded-resnet --skip 200 --steps 5 --name eager -- python3 "
        "tests/gpu/programs/torchvision_train.py --steps 300 --graph"
    )
    assert line == (
        "graphed: For source lines and shapes of its nodes, record it again: graphviz-dash collect "
        "-o sample_traces/recorded-resnet --skip 200 --steps 5 --name graphed-attributed "
        "--attribute -- python3 tests/gpu/programs/torchvision_train.py --steps 300 --graph"
    )
