from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("cuda.bindings")

import torch

from collectors.parallel import streams, workspace
from collectors.parallel.workspace import fit_workspace

MIB = 1 << 20
WHOLE = 4 * MIB
"""Workspace of the capture on one stream."""


def capture(memory: torch.Tensor, *spans: tuple[int, int]) -> Any:
    """A graph whose replay writes bytes of ``memory``, some as the patterns that are looked for."""

    def replay() -> None:
        for begin, end in spans:
            memory[begin:end] = torch.arange(begin, end) % 256

    return SimpleNamespace(graph=SimpleNamespace(replay=replay))


Fit = Callable[..., int | None]


@pytest.fixture
def fit(monkeypatch: pytest.MonkeyPatch) -> Fit:
    """``fit_workspace`` of a step that writes bytes on the line and on a fitted stream, where other
    operators run other kernels."""

    def fitted(
        on_line: tuple[int, int], on_fitted: tuple[int, int] | None = None, **other: Any
    ) -> int | None:
        blocks = {"line": torch.zeros(WHOLE, dtype=torch.uint8)}

        def new_stream(wide: list[bool], size: int) -> list[str]:
            assert wide == [True]
            blocks["fitted"] = torch.zeros(other.get("size", size), dtype=torch.uint8)
            return ["fitted"]

        def captured_again(*given: Any) -> tuple[set[int], Any]:
            assert given[-1] == "fitted"
            span = on_line if on_fitted is None else on_fitted
            return other.get("differing", set()), capture(blocks["fitted"], span)

        monkeypatch.setattr(workspace, "workspace", blocks.get)
        monkeypatch.setattr(workspace, "get_streams", new_stream)
        monkeypatch.setattr(workspace, "allocate_workspaces", lambda _: 0)
        monkeypatch.setattr(workspace, "find_workspace_users", captured_again)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        line: Any = capture(blocks["line"], on_line)
        stream: Any = "line"
        return fit_workspace(lambda: None, (), (), (), line, stream)

    return fitted


def test_a_stream_has_what_its_kernels_write(fit: Fit) -> None:
    assert fit((0, 300_000)) == MIB
    assert fit((0, MIB)) == MIB


def test_bytes_before_the_last_used_byte_count(fit: Fit) -> None:
    assert fit((MIB - 5, MIB)) == MIB


@pytest.mark.parametrize(
    ("on_line", "other"),
    [
        pytest.param((0, 0), {}, id="nothing is written where it was looked for"),
        pytest.param((0, WHOLE), {}, id="all is written"),
        pytest.param((0, MIB + 1), {}, id="a block would be as large"),
        pytest.param((0, 9), {"differing": {3}}, id="other kernels run"),
        pytest.param((0, 9), {"on_fitted": (0, 600)}, id="more is written"),
        pytest.param((0, 9), {"on_fitted": (0, 0)}, id="torch takes another block"),
        pytest.param((0, 9), {"size": WHOLE}, id="torch takes a larger block"),
    ],
)
def test_else_it_has_all(fit: Fit, on_line: tuple[int, int], other: dict[str, Any]) -> None:
    assert fit(on_line, **other) is None


def test_sizes_are_those_that_the_allocator_does_not_enlarge() -> None:
    whole = 32 * MIB
    sizes = [
        streams.compute_fitted_bytes(used, whole) for used in (1, MIB, MIB + 1, 11 * MIB, 31 * MIB)
    ]
    assert sizes == [MIB, MIB, 10 * MIB, 12 * MIB, None]
    assert streams.compute_fitted_bytes(1, MIB) is None


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Record CUBLAS_WORKSPACE_CONFIG at the first use of each stream's workspace."""
    seen: list[str | None] = []
    numbers = iter(range(1, 100))
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    for name in ("_streams", "_kinds", "_workspace_bytes"):
        monkeypatch.setattr(streams, name, {})
    monkeypatch.setattr(streams, "call", lambda *_: next(numbers))
    monkeypatch.setattr(
        streams,
        "_run_products",
        lambda *_: seen.append(os.environ.get("CUBLAS_WORKSPACE_CONFIG")),
    )
    monkeypatch.setattr(torch, "ones", lambda *_, **options: torch.zeros(1))
    stand_in = SimpleNamespace(
        ExternalStream=lambda handle: SimpleNamespace(cuda_stream=handle, synchronize=lambda: None),
        stream=lambda _: pytest.MonkeyPatch.context(),
        empty_cache=lambda: None,
        memory_reserved=lambda: 0,
        synchronize=lambda: None,
        memory_snapshot=lambda: [],
    )
    monkeypatch.setattr(torch, "cuda", stand_in)
    return seen


def test_a_fitted_stream_has_less_than_cublas_is_reported(settings: list[str | None]) -> None:
    chosen = streams.get_streams([True, True, False], 2 * MIB)
    assert len({stream.cuda_stream for stream in chosen}) == 3
    assert streams.get_streams([False, True], 2 * MIB) == [chosen[2], chosen[0]]
    assert streams.get_streams([True])[0] not in chosen
    streams.allocate_workspaces(chosen)
    assert settings == [":2048:1", ":2048:1", ":1024:1"]
    with streams.use_stream(chosen[0]):
        assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
        with streams.use_stream(chosen[2]):
            assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":1024:1"
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ


def test_a_workspace_is_the_first_of_the_largest_blocks_of_its_stream(
    settings: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    (stream,) = streams.get_streams([True])
    assert streams.find_workspace(stream) is None

    def segment(owner: int, pool: tuple[int, int], *blocks: tuple[int, int, str]) -> dict[str, Any]:
        listed = [
            {"address": address, "size": size, "state": state} for address, size, state in blocks
        ]
        return {"stream": owner, "segment_pool_id": pool, "blocks": listed}

    own, used = stream.cuda_stream, "active_allocated"
    segments = [
        segment(own, (0, 0), (100, 1024, used), (1124, 4096, "inactive")),
        segment(own, (0, 0), (9000, 2048, used)),
        segment(own, (0, 0), (11_048, 2048, used)),
        segment(own, (0, 7), (20_000, 8192, used)),
        segment(own + 1, (0, 0), (30_000, 8192, used)),
    ]
    monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: segments)
    monkeypatch.setattr(streams, "wrap_memory", lambda begin, end: (begin, end))
    monkeypatch.setattr(streams, "view_as_tensor", lambda storage, _: storage)
    assert streams.find_workspace(stream) == (9000, 11_048)
