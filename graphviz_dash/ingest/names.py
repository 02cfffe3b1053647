"""Demangling of names from untrusted files in a separate process.

A few hundred characters can expand to gigabytes, so the process has little memory and time. If it
dies, names stay unchanged.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Final

from graphviz_dash.ingest.processes import get_module_path

_MAX_SECONDS: Final = 20
_MAX_MEMORY: Final = 1 << 30
_MAX_NAME_LENGTH: Final = 16_384


def demangle_names(names: Iterable[str]) -> dict[str, str]:
    """Demangle ``names`` as c++filt does. Other and too long names are unchanged."""
    result = {name: name for name in names}
    mangled = [name for name in result if name.startswith("_Z") and len(name) <= _MAX_NAME_LENGTH]
    if not mangled:
        return result
    try:
        output = subprocess.run(
            [sys.executable, "-P", "-m", __name__],
            input=json.dumps(mangled),
            capture_output=True,
            text=True,
            timeout=_MAX_SECONDS,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(get_module_path())},
            check=True,
        ).stdout
        texts = json.loads(output)
    except (OSError, subprocess.SubprocessError, ValueError):
        return result
    for name, text in zip(mangled, texts, strict=True):
        if len(text) <= _MAX_NAME_LENGTH:
            result[name] = text
    return result


def main() -> None:
    """Demangle the names of standard input."""
    from graphviz_dash.bundle.demangle import demangle

    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (_MAX_SECONDS, _MAX_SECONDS))
    json.dump([demangle(name) for name in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
