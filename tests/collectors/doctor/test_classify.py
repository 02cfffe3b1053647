"""Rules by error, with the stand-in for torch."""

from __future__ import annotations

import pytest

from tests.collectors.allocator.test_owners import run_text

LEGACY = "CUDA error: operation would make the legacy stream depend on a capturing blocking stream"
MERGE = "CUDA error: operation would result in a merge of separate capture sequences"

PROGRAM = """
import sys
from collectors.doctor.classify import classify_error

def define(file, code):
    names = {"RuntimeError": RuntimeError}
    exec(compile(code, file, "exec"), names)
    return names["run"]

file, message, is_function = sys.argv[1:]
def raise_error():
    raise RuntimeError(message)
engine = define(file, "def run(function):\\n    if function: function()\\n"
                      "    raise RuntimeError(%r)" % message)
try:
    engine(raise_error if is_function == "yes" else None)
except RuntimeError as error:
    print(classify_error(error))
"""
ENGINE = "/site-packages/torch/autograd/graph.py"


@pytest.mark.parametrize(
    ("file", "message", "is_function", "rule"),
    [
        (ENGINE, LEGACY, "no", "gradient-stream"),
        ("/site-packages/torch/autograd/__init__.py", LEGACY, "no", "gradient-stream"),
        # A backward function of the program itself uses the default stream.
        (ENGINE, LEGACY, "yes", "None"),
        ("/site-packages/torch/cuda/streams.py", LEGACY, "no", "None"),
        (ENGINE, "CUDA error: out of memory", "no", "out-of-memory"),
        ("train.py", MERGE, "no", "two-captures"),
    ],
)
def test_the_rule_of_an_error_outside_operators(
    file: str, message: str, is_function: str, rule: str
) -> None:
    assert run_text(PROGRAM, file, message, is_function).strip() == rule
