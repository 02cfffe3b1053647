from __future__ import annotations

import pytest

from graphviz_dash.guidance.engines import build_size_option, find_eager_option


@pytest.mark.parametrize("engine", ["SGLang 0.5.12", "SGLang 0.5.13.post1", "SGLang"])
def test_sglang_to_0_5_13_names_piecewise_graphs(engine: str) -> None:
    decode = build_size_option(engine, "decode", (8, 1, 16), ())
    prefill = build_size_option(engine, "prefill", (64, 128), ())
    eager = find_eager_option(engine)
    assert decode is not None
    assert prefill is not None
    assert eager is not None
    assert decode.command == "--cuda-graph-bs 1 8 16 --cuda-graph-max-bs 16"
    assert prefill.command == (
        "--piecewise-cuda-graph-tokens 64 128 --piecewise-cuda-graph-max-tokens 128"
    )
    assert eager.command == "--disable-cuda-graph --disable-piecewise-cuda-graph"


@pytest.mark.parametrize("engine", ["SGLang 0.5.14", "SGLang 0.5.23", "SGLang 0.6.0"])
def test_later_sglang_has_options_by_phase(engine: str) -> None:
    decode = build_size_option(engine, "decode", (8, 1, 16), ())
    prefill = build_size_option(engine, "prefill", (64, 128), ())
    eager = find_eager_option(engine)
    assert decode is not None
    assert prefill is not None
    assert eager is not None
    assert decode.command == "--cuda-graph-bs-decode 1 8 16 --cuda-graph-max-bs-decode 16"
    assert decode.python == "cuda_graph_bs_decode=[1, 8, 16], cuda_graph_max_bs_decode=16"
    assert prefill.command == "--cuda-graph-bs-prefill 64 128 --cuda-graph-max-bs-prefill 128"
    assert eager.command == "--disable-cuda-graph"


def test_other_families_and_engines_have_no_option() -> None:
    assert build_size_option("SGLang 0.5.14", "draft", (1,), ()) is None
    assert build_size_option("SGLang 0.5.12", "draft", (1,), ()) is None
    assert build_size_option("transformers 5.17.0", "decode", (1,), ()) is None
    assert build_size_option("vLLM 0.22.0", "piecewise", (), (1,)) is None
