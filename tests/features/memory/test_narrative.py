from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from graphviz_dash.analysis.memory.report import MemoryPart
from graphviz_dash.features.memory.comparison import compare_memory
from graphviz_dash.features.memory.narrative import (
    PART_MEANINGS,
    describe_memory_cost,
    get_allocator_hint,
)
from graphviz_dash.model.run import ExecutionMode, Source
from tests.analysis.frames import make_run
from tests.samples import compared_sample


def test_every_part_is_explained() -> None:
    assert set(PART_MEANINGS) == set(MemoryPart)


def test_an_imported_run_is_told_of_snapshots() -> None:
    """No memory pass can be taken of it: the program is not here."""
    run = make_run("eager", ExecutionMode.EAGER)
    assert "snapshot" not in get_allocator_hint([run])
    sources = (Source("trace.json", "Kineto trace", 1, "0" * 64),)
    imported = replace(run, manifest=msgspec.structs.replace(run.manifest, sources=sources))
    assert "A memory snapshot imported next to the trace" in get_allocator_hint([imported])


def test_a_recorded_program_has_its_allocator_instead_of_a_memory_pass() -> None:
    comparison = compare_memory(compared_sample("recorded-vllm"))
    assert not comparison.reports
    assert describe_memory_cost(comparison).startswith(
        "default-sizes reserves 4.53 GiB at exit, 58.0 MiB of it (1.3%) in 1 private pool"
    )


def test_a_killed_program_has_the_pools_of_its_captures() -> None:
    comparison = compare_memory(compared_sample("recorded-sglang"))
    assert not comparison.reports
    text = describe_memory_cost(comparison)
    assert re.fullmatch(
        r"default-sizes grew \d private pools? by [\d.]+ MiB when it captured 206 graphs; its "
        r"memory at exit is unknown\.",
        text,
    )
