"""Records the sample experiments that are not there, on a machine with their GPU.

Runs the commands of sample_traces/README.md as they stand, one after the other, since two at once
would disturb each other's clean passes. To record an experiment anew remove it first; one that is
there is left as it is, so that an interrupted recording goes on where it ended. What is printed
last says which commands failed.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
README: Final = ROOT / "sample_traces" / "README.md"
_FOLDER: Final = "sample_traces/"
_BLOCK: Final = re.compile(r"^```\n(.+?)^```", re.M | re.S)


def commands_of(page: str) -> dict[str, list[list[str]]]:
    """The commands in the page's blocks by the experiment that they write, in their order."""
    commands: dict[str, list[list[str]]] = {}
    for block in _BLOCK.findall(page):
        for line in block.splitlines():
            words = shlex.split(line)
            target = words[words.index("-o") + 1]
            commands.setdefault(target.removeprefix(_FOLDER), []).append(words)
    return commands


def main() -> int:
    """Records; 1 if a command failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="experiments; all where none is named")
    options = parser.parse_args()
    commands = commands_of(README.read_text(encoding="utf-8"))
    if unknown := set(options.names) - set(commands):
        parser.error(f"{README} has no command of {', '.join(sorted(unknown))}")
    failed = []
    for name in options.names or commands:
        if (README.parent / name).exists():
            print(f"{name} is there already", flush=True)
            continue
        for words in commands[name]:
            print(f"$ {shlex.join(words)}", flush=True)
            begun = time.monotonic()
            code = subprocess.run(words, cwd=ROOT, check=False).returncode
            print(f"exit code {code} after {time.monotonic() - begun:.0f} s", flush=True)
            if code:
                failed.append(shlex.join(words))
    print("\n".join(("failed:", *failed)) if failed else "nothing failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
