"""compile_sums, compile_mends and compile_recorder with all of their models compiled at the same
time, and then measured one after another.

    python -m evaluation.compile.together [--seconds 120] [--mended 3] [--recorded 3] [MODEL...]

Prints their tables. Needs a GPU with torch, torchvision, transformers and torch-geometric.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

from evaluation.compile import mends as compile_mends
from evaluation.compile import recorder as compile_recorder
from evaluation.compile import sums as compile_sums
from evaluation.compile.steps import arguments, wait_until_ready

Build = TypeVar("Build")

_MENDS: Final = {
    name: build for suite in compile_mends.SUITES.values() for name, build in suite.items()
}
_MODELS: Final = (*compile_sums.MODELS, *_MENDS, *compile_recorder.STEPS)


def main() -> None:
    """Prints the tables."""
    chosen = arguments(
        __doc__,
        _MODELS,
        mended=compile_mends.PROCESSES,
        recorded=compile_recorder.PROCESSES,
    )

    def wanted(models: Mapping[str, Build]) -> dict[str, Build]:
        return {name: build for name, build in models.items() if name in (chosen.models or _MODELS)}

    begun = time.monotonic()
    sums = compile_sums.started(tuple(wanted(compile_sums.MODELS)), compile_sums.STEPS)
    recorder = compile_recorder.started(
        tuple(wanted(compile_recorder.STEPS)), chosen.recorded, compile_recorder.COUNT
    )
    with TemporaryDirectory() as caches:
        mends = [
            compile_mends.Model(name, build, compile_mends.STEPS, Path(caches))
            for name, build in wanted(_MENDS).items()
        ]
        for model in mends:
            model.start_others(chosen.mended)
        print(f"compiled first in {time.monotonic() - begun:.0f} s", flush=True)
        of_mends = chain.from_iterable(each.processes for each in mends)
        left = max(0.0, begun + chosen.seconds - time.monotonic())
        wait_until_ready((*sums, *of_mends, *chain.from_iterable(recorder)), left)
        print(f"compiled in {time.monotonic() - begun:.0f} s", flush=True)
        compile_sums.report(sums)
        compile_mends.print_head()
        compile_mends.report(mends)
        compile_recorder.report(recorder)
    print(f"all in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
