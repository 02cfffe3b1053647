from __future__ import annotations

import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

PYTHON = sys.executable
FAKE = Path(__file__).parents[2] / "fake_torch"

CAPTURE = """
import os, sys, time
import torch
from torch.cuda import CUDAGraph as G

def captured(graph=None):
    g = graph or G()
    with torch.cuda.graph(g):
        pass
    return g
"""


@dataclass(frozen=True)
class Case:
    name: str
    program: str
    """train.py."""
    runs: int = 1
    """Number of processes with a run."""
    command: tuple[str, ...] = (PYTHON, "train.py")
    """Start command, run in the case's folder."""
    files: dict[str, str] = field(default_factory=dict)
    """Further files, by path."""
    environment: dict[str, str] = field(default_factory=dict)
    """Further variables; ``{folder}`` is the program's folder, ``{path}`` the PYTHONPATH."""
    errors: bool = False
    """True if the recorder must fail and report it."""
    stdin: str = ""
    needs: str = ""
    """A shell command that succeeds where the case can be tried."""


def case(name: str, program: str, **how: object) -> Case:
    """A case whose program begins with a torch and ``captured()``."""
    return Case(name, CAPTURE + textwrap.dedent(program), **how)  # type: ignore[arg-type]


def bare(name: str, program: str, **how: object) -> Case:
    """A case whose program is all there is."""
    return Case(name, textwrap.dedent(program), **how)  # type: ignore[arg-type]


def shell(line: str) -> tuple[str, ...]:
    """A command of the shell; ``{python}`` is this Python."""
    return ("bash", "-c", line.replace("{python}", PYTHON))
