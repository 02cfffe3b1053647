"""Mangled names of foreign files, demangled where they can do no harm.

A few hundred characters of a mangled name can stand for gigabytes of text, and the demangler is C
code of the system: so names that others wrote are demangled in a process of their own, with little
memory and little time. Where it dies, names stay as they are.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_MOST_SECONDS: Final = 20
_MOST_MEMORY: Final = 1 << 30
_LONGEST: Final = 16_384


def demangled(names: Iterable[str]) -> dict[str, str]:
    """Each of ``names`` as c++filt would print it; itself where it is not mangled or too long."""
    readable = {name: name for name in names}
    mangled = [name for name in readable if name.startswith("_Z") and len(name) <= _LONGEST]
    if not mangled:
        return readable
    command = [sys.executable, "-m", __name__]
    above = str(Path(__file__).parents[2])
    try:
        answer = subprocess.run(
            command,
            input=json.dumps(mangled),
            capture_output=True,
            text=True,
            timeout=_MOST_SECONDS,
            cwd=above,
            check=True,
        ).stdout
        texts = json.loads(answer)
    except (OSError, subprocess.SubprocessError, ValueError):
        return readable
    for name, text in zip(mangled, texts, strict=True):
        if len(text) <= _LONGEST:
            readable[name] = text
    return readable


def _main() -> None:
    from graphviz_dash.bundle.demangle import demangle

    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (_MOST_SECONDS, _MOST_SECONDS))
    json.dump([demangle(name) for name in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    _main()
