"""Every reader of foreign files under a coverage-guided fuzzer (atheris, libFuzzer).

    pip install atheris
    python -m benchmarks.fuzz debug-dot --seconds 300

A reader may give a value or raise InputError. Anything else, a crash of native code, more than ten
seconds of processor time (ten minutes by the clock) or two gigabytes for one input is a finding,
which libFuzzer keeps in ``FOLDER``. Readers and seeds are those of ``fuzz_readers.py``, with which
``tests/test_fuzz.py`` tries some hundred inputs each time.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["graphviz_dash"]):
    from benchmarks.fuzz_readers import READERS, seeds
    from graphviz_dash.errors import InputError
    from graphviz_dash.ingest.formats import debug_dot, graph_data

HANG_SECONDS = 10


def main() -> None:
    """Fuzzes one reader until the time is over or something is found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "fuzz")
    parser.add_argument("--input", type=Path, help="try this finding only")
    chosen = parser.parse_args()
    read = READERS[chosen.reader]
    # A process for each input would be all that is measured; it has no state to damage.
    for module in (debug_dot, graph_data):
        module.demangled = lambda names: {name: name for name in names}
    memory = Path("/dev/shm")
    scratch = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    file = scratch / "input"

    def one_input(data: bytes) -> None:
        file.write_bytes(data)
        began = time.process_time()
        with suppress(InputError):
            read(file, scratch)
        if time.process_time() - began > HANG_SECONDS:
            raise TimeoutError(f"more than {HANG_SECONDS} s for {len(data):,} bytes")

    if chosen.input:
        one_input(chosen.input.read_bytes())
        return
    corpus = chosen.folder / chosen.reader
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(chosen.reader)):
        (corpus / f"seed-{number}").write_bytes(seed)
    arguments = [
        *(sys.argv[0], str(corpus), f"-max_total_time={chosen.seconds}", "-timeout=600"),
        *("-rss_limit_mb=2048", "-max_len=65536", "-print_final_stats=1"),
        f"-artifact_prefix={chosen.folder}{os.sep}{chosen.reader}-",
    ]
    atheris.Setup(arguments, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
