"""Each reader of foreign files takes damaged ones as a value or one clear error, some hundred of
them; ``benchmarks/fuzz.py`` tries as many as you like."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from benchmarks.fuzz_readers import READERS, seeds
from graphviz_dash.errors import InputError
from graphviz_dash.ingest.formats import debug_dot, graph_data

INPUTS = 80
MOST_CPU_SECONDS = 10
_LONGEST = 1 << 16
_NUMBERS = (b"0", b"-1", b"9" * 30, b"1e400", b"NaN", b"null", b"[]", b"{}")


def mutated(random: Random, seed: bytes, other: bytes) -> bytes:
    """``seed`` with a few changes: flipped, cut, doubled, spliced with ``other``."""
    data = bytearray(seed)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(data) + 1)
        length = random.choice((1, 4, 64, 1_024))
        match random.randrange(7):
            case 0 if at < len(data):
                data[at] ^= 1 << random.randrange(8)
            case 1:
                del data[at : at + length]
            case 2:
                data[at:at] = data[at : at + length] * random.choice((1, 2, 50))
            case 3:
                data[at : at + length] = random.randbytes(length)
            case 4:
                begin = random.randrange(len(other) + 1)
                data[at:at] = other[begin : begin + length]
            case 5:
                data[at : at + random.randrange(8)] = random.choice(_NUMBERS)
            case _:
                del data[at:]
    return bytes(data[:_LONGEST])


@pytest.mark.parametrize("name", sorted(READERS))
def test_damaged_inputs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A process for each input would be all that is measured; it has no state to damage.
    for module in (debug_dot, graph_data):
        monkeypatch.setattr(module, "demangled", lambda names: {name: name for name in names})
    random = Random(name)
    corpus = [seed for seed in seeds(name) if len(seed) <= _LONGEST]
    file = tmp_path / "input"
    inputs = corpus + [
        mutated(random, random.choice(corpus), random.choice(corpus)) for _ in range(INPUTS)
    ]
    for data in inputs:
        file.write_bytes(data)
        began = time.process_time()
        with suppress(InputError):
            READERS[name](file, tmp_path)
        assert time.process_time() - began < MOST_CPU_SECONDS, data[:200]
