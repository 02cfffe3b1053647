"""Every reader of foreign files under a fuzzer, for as long as you like.

    pip install atheris
    python -m tests.fuzz debug-dot --seconds 300
    python -m tests.fuzz all --seconds 60

With atheris (libFuzzer) it is guided by coverage; without it, inputs are seeds changed at random. A
reader may give a value or raise InputError. Anything else, a crash of native code, more than ten
seconds of processor time (by the clock ten minutes, with atheris) or two gigabytes for one input is
a finding, which is kept in ``--folder``. ``all`` tries the readers one after the other. Readers and
seeds, hostile files among them, are in ``tests/fuzz/readers.py``; ``tests/test_fuzz.py`` tries some
hundred inputs.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from random import Random

try:
    import atheris
except ImportError:
    atheris = None

with atheris.instrument_imports(include=["graphviz_dash"]) if atheris else nullcontext():
    from graphviz_dash.errors import InputError
    from graphviz_dash.ingest.formats import debug_dot, graph_data
    from tests.fuzz.readers import LONGEST, READERS, mutated, seeds

HANG_SECONDS = 10
MOST_MEMORY = 2 << 30


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reader", choices=[*READERS, "all"])
    parser.add_argument("--seconds", type=int, default=300, help="for each reader")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "fuzz")
    parser.add_argument("--input", type=Path, help="try this finding only")
    chosen = parser.parse_args()
    if chosen.reader == "all":
        return max(_in_new_process(name, chosen.seconds, chosen.folder) for name in READERS)
    # A process for each input would be all that is measured; it has no state to damage.
    for module in (debug_dot, graph_data):
        module.demangled = lambda names: {name: name for name in names}
    one_input = _one_input(chosen.reader)
    if chosen.input:
        one_input(chosen.input.read_bytes())
        return 0
    chosen.folder.mkdir(parents=True, exist_ok=True)
    if atheris is None:
        return _blindly(chosen.reader, one_input, chosen.seconds, chosen.folder)
    corpus = chosen.folder / chosen.reader
    corpus.mkdir(exist_ok=True)
    for number, seed in enumerate(seeds(chosen.reader)):
        (corpus / f"seed-{number}").write_bytes(seed)
    arguments = [
        *(sys.argv[0], str(corpus), f"-max_total_time={chosen.seconds}", "-timeout=600"),
        *(f"-rss_limit_mb={MOST_MEMORY >> 20}", f"-max_len={LONGEST}", "-print_final_stats=1"),
        f"-artifact_prefix={chosen.folder}{os.sep}{chosen.reader}-",
    ]
    atheris.Setup(arguments, one_input)
    atheris.Fuzz()
    return 0


def _in_new_process(reader: str, seconds: int, folder: Path) -> int:
    print(f"== {reader}", flush=True)
    command = [sys.executable, "-m", "tests.fuzz", reader, f"--seconds={seconds}"]
    return abs(subprocess.run([*command, f"--folder={folder}"], check=False).returncode)


def _one_input(reader: str) -> Callable[[bytes], None]:
    memory = Path("/dev/shm")
    scratch = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    file = scratch / "input"

    def one_input(data: bytes) -> None:
        file.write_bytes(data)
        began = time.process_time()
        with suppress(InputError):
            READERS[reader](file, scratch)
        if time.process_time() - began > HANG_SECONDS:
            raise TimeoutError(f"more than {HANG_SECONDS} s for {len(data):,} bytes")

    return one_input


def _blindly(reader: str, one_input: Callable[[bytes], None], seconds: int, folder: Path) -> int:
    """Mutate the seeds at random.

    The input is in ``folder`` while it is read, so that a crash keeps it.
    """
    resource.setrlimit(resource.RLIMIT_AS, (4 * MOST_MEMORY, 4 * MOST_MEMORY))
    random = Random()
    corpus = [seed for seed in seeds(reader) if len(seed) <= LONGEST]
    finding = folder / f"{reader}-{os.getpid()}"
    end = time.monotonic() + seconds
    inputs = 0
    while time.monotonic() < end:
        data = mutated(random, random.choice(corpus), random.choice(corpus))
        finding.write_bytes(data)
        one_input(data)
        inputs += 1
    finding.unlink()
    print(f"{inputs:,} inputs, nothing found (without atheris, so not guided by coverage)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
