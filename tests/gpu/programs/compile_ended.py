"""Runs a step of ``compile_causes.py`` that an error ends, and prints as JSON what the recorder and
the analysis make of that error: the rules with the file and the line of each.

    python -m tests.gpu.programs.compile_ended NAME
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
from torch._inductor import config as inductor_config

from collectors.collection.failures import describe_failure
from collectors.compiled.account import record_compilation
from graphviz_dash.features.torch_compile.analysis.report import find_fatal_causes
from graphviz_dash.model.run import Pass
from tests.gpu.programs.compile_causes import CAUSES

STEPS = 14


def ended(name: str) -> list[tuple[str, str, int]]:
    """Return rule, file and line of the error, or nothing without one."""
    inductor_config.force_disable_caches = True
    failures = []
    with record_compilation() as account:
        try:
            step = CAUSES[name].build()
            for _ in range(STEPS):
                step()
                torch.cuda.synchronize()
        except RuntimeError as error:
            failures.append(describe_failure(error, Pass.RECORDED))
    compilation = account.get_result()
    assert compilation is not None
    print(failures, file=sys.stderr)
    return [
        (cause.rule.value, Path(cause.lines[0].file).name, cause.lines[0].line)
        for cause in find_fatal_causes(failures, compilation)
    ]


if __name__ == "__main__":
    print(json.dumps(ended(sys.argv[1])), flush=True)
    # A broken capture cannot be torn down.
    os._exit(0)
