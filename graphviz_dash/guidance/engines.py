"""Options of inference engines that set capture sizes or disable graphs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

_LAST_PIECEWISE: Final = (0, 5, 13)
"""Last version of SGLang whose options name piecewise graphs instead of the phase."""


class EngineOption(Struct, frozen=True):
    """An option in its two forms."""

    python: str
    """Keyword arguments of its Python interface."""
    command: str
    """Command-line options of its server."""


def find_eager_option(engine: str | None) -> EngineOption | None:
    """Find the option of ``engine``, a name with a version, that disables graphs. None if
    unknown."""
    match _get_name(engine):
        case "vLLM":
            return EngineOption("enforce_eager=True", "--enforce-eager")
        case "SGLang" if _has_options_by_phase(engine):
            return EngineOption("disable_cuda_graph=True", "--disable-cuda-graph")
        case "SGLang":
            return EngineOption(
                "disable_cuda_graph=True, disable_piecewise_cuda_graph=True",
                "--disable-cuda-graph --disable-piecewise-cuda-graph",
            )
        case "transformers":
            return EngineOption("use_cuda_graph=False", "")
    return None


def build_size_option(
    engine: str | None, family: str, sizes: Sequence[int], other_sizes: Sequence[int]
) -> EngineOption | None:
    """Build the option of ``engine`` that captures ``sizes`` for the graph family ``family``. None
    if unknown.

    ``other_sizes``: sizes that other families use. vLLM has one list for all families.
    """
    name = _get_name(engine)
    if not sizes:
        return None
    if name == "vLLM":
        union = sorted({*sizes, *other_sizes})
        size_list = ", ".join(map(str, union))
        return EngineOption(
            f'compilation_config={{"cudagraph_capture_sizes": [{size_list}]}}',
            f"--cudagraph-capture-sizes {' '.join(map(str, union))}",
        )
    if name == "SGLang" and family in ("decode", "prefill") and _has_options_by_phase(engine):
        texts = [*map(str, sorted(sizes))]
        return EngineOption(
            f"cuda_graph_bs_{family}=[{', '.join(texts)}], cuda_graph_max_bs_{family}={texts[-1]}",
            f"--cuda-graph-bs-{family} {' '.join(texts)} --cuda-graph-max-bs-{family} {texts[-1]}",
        )
    if name == "SGLang":
        prefix = {"decode": "cuda_graph", "prefill": "piecewise_cuda_graph"}.get(family)
        if prefix is None:
            return None
        noun = "bs" if family == "decode" else "tokens"
        ascending_sizes, largest = sorted(sizes), max(sizes)
        option = f"--{prefix.replace('_', '-')}"
        texts = [*map(str, ascending_sizes)]
        return EngineOption(
            f"{prefix}_{noun}=[{', '.join(texts)}], {prefix}_max_{noun}={largest}",
            f"{option}-{noun} {' '.join(texts)} {option}-max-{noun} {largest}",
        )
    return None


def _has_options_by_phase(engine: str | None) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", (engine or "").partition(" ")[2])
    return numbers is not None and tuple(map(int, numbers.groups())) > _LAST_PIECEWISE


def _get_name(engine: str | None) -> str | None:
    return None if engine is None else engine.partition(" ")[0]
