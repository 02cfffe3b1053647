from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats import debug_dot, graph_data
from tests.fuzz.readers import LONGEST, READERS, mutated, seeds

INPUTS = 200
INPUTS_OF = {"kineto": 60}
"""Readers whose inputs are large."""
MOST_CPU_SECONDS = 10


@pytest.mark.parametrize("name", sorted(READERS))
def test_damaged_inputs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A process for each input would be all that is measured; it has no state to damage.
    for module in (debug_dot, graph_data):
        monkeypatch.setattr(module, "demangle_names", lambda names: {name: name for name in names})
    random = Random(name)
    corpus = [seed for seed in seeds(name) if len(seed) <= LONGEST]
    file = tmp_path / "input"
    inputs = corpus + [
        mutated(random, random.choice(corpus), random.choice(corpus))
        for _ in range(INPUTS_OF.get(name, INPUTS))
    ]
    for data in inputs:
        file.write_bytes(data)
        began = time.process_time()
        with suppress(InputError):
            READERS[name](file, tmp_path)
        assert time.process_time() - began < MOST_CPU_SECONDS, data[:200]
