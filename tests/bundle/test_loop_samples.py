from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from graphviz_dash.bundle.read import BundleContents, read_bundle
from graphviz_dash.model.loop import KeyMethod, Phase, ProgramLoop, StepKind
from graphviz_dash.model.recording import StartMethod

SAMPLES = Path(__file__).parents[2] / "sample_traces"
SIZES = (1, 2, 4, *range(8, 257, 8))


def sample(name: str) -> tuple[BundleContents, ProgramLoop]:
    run = read_bundle(SAMPLES / name, traces=False)
    assert run.loop is not None
    return run, run.loop


def test_every_batch_of_the_server_went_to_the_next_size() -> None:
    run, loop = sample("recorded-server/vllm-sizes")
    (family,) = loop.families
    assert sorted(member.key or () for member in family.members) == [(size,) for size in SIZES]
    assert {len(member.graphs) for member in family.members} == {5}
    steps = loop.steps
    served = [row for row, kind in enumerate(steps.kind) if kind is not StepKind.CAPTURE]
    assert len(served) == 700
    for row in served:
        real = steps.real_size[row]
        assert real is not None
        fitting = min((size for size in SIZES if size >= real), default=None)
        kind = StepKind.FALLBACK if fitting is None else StepKind.SEGMENTS
        assert (steps.kind[row], steps.padded_size[row]) == (kind, fitting)
    assert run.recording is not None
    process = run.recording.process
    assert process is not None
    assert (process.role, process.start_method) == ("worker-0", StartMethod.FORK)


def test_the_engine_told_every_batch() -> None:
    _, loop = sample("recorded-batching/interval-32")
    (family,) = loop.families
    assert loop.engine == "transformers 5.17.0"
    assert {member.method for member in family.members} == {KeyMethod.ENGINE}
    steps = loop.steps
    assert len(steps.kind) == 101
    for real, padded in zip(steps.real_size, steps.padded_size, strict=True):
        assert real is not None
        # Padded to multiples of 32, up to the 256 tokens of a batch.
        assert padded == min(256, -(-real // 32) * 32)
    assert set(steps.phase) == {Phase.PREFILL, Phase.MIXED, Phase.DECODE}


@pytest.mark.parametrize(
    ("name", "engine", "families", "kinds"),
    [
        # Counted by patches of the program in the same run.
        (
            "recorded-vllm",
            "vLLM 0.22.0",
            {"piecewise": 11, "full decode": 7},
            {StepKind.REPLAY: 2062, StepKind.SEGMENTS: 25, StepKind.FALLBACK: 405},
        ),
        # The engine logged 2,373 steps of this traffic in another run. The kill lost the last 15:
        # four prefills without a graph and 11 replays.
        (
            "recorded-sglang",
            "SGLang 0.5.12",
            {"decode": 8, "prefill": 22},
            {StepKind.REPLAY: 1513, StepKind.SEGMENTS: 66, StepKind.FALLBACK: 779},
        ),
    ],
)
def test_every_step_of_an_engine_has_mode_and_sizes(
    name: str, engine: str, families: dict[str, int], kinds: dict[StepKind, int]
) -> None:
    _, loop = sample(f"{name}/default-sizes")
    assert loop.engine == engine
    assert {family.name: len(family.members) for family in loop.families} == families
    steps = loop.steps
    served = [row for row, real in enumerate(steps.real_size) if real is not None]
    assert Counter(steps.kind[row] for row in served) == kinds
    assert None not in {steps.requests[row] for row in served}
    for row in served:
        family, real = steps.family[row], steps.real_size[row]
        assert family is not None
        assert real is not None
        sizes = [member.key[0] for member in loop.families[family].members if member.key]
        fitting = min((size for size in sizes if size >= real), default=None)
        assert steps.padded_size[row] == fitting
        assert (steps.kind[row] is StepKind.FALLBACK) == (fitting is None)


def test_a_step_of_megatron_is_its_layers_forward_and_backward_twice() -> None:
    run, loop = sample("recorded-megatron/local")
    (family,) = loop.families
    (member,) = family.members
    names = {graph.id: graph.name for graph in run.graphs}
    layers = [f"layer {layer} forward" for layer in range(1, 9)]
    layers += [f"layer {layer} backward" for layer in range(8, 0, -1)]
    assert [names[graph] for graph in member.graphs] == layers * 2
    assert loop.steps.kind.count(StepKind.SEGMENTS) == 36
    _, whole = sample("recorded-megatron/full-iteration")
    assert whole.steps.kind.count(StepKind.REPLAY) == 36
