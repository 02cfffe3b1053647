"""Record missing sample experiments on a machine with their GPU.

Runs the commands of sample_traces/README.md one by one, because concurrent runs would disturb each
other. Existing experiments are skipped; delete one to record it again.
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


def parse_commands(page: str) -> dict[str, list[list[str]]]:
    """Return the commands of the page by the experiment that they write, in order."""
    commands: dict[str, list[list[str]]] = {}
    for block in _BLOCK.findall(page):
        for line in block.splitlines():
            words = shlex.split(line)
            target = words[words.index("-o") + 1]
            commands.setdefault(target.removeprefix(_FOLDER), []).append(words)
    return commands


def main() -> int:
    """Record the experiments; return 1 if a command failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="experiments to record (default: all)")
    options = parser.parse_args()
    commands = parse_commands(README.read_text(encoding="utf-8"))
    if unknown := set(options.names) - set(commands):
        parser.error(f"{README} has no command for {', '.join(sorted(unknown))}")
    failed = []
    for name in options.names or commands:
        if (README.parent / name).exists():
            print(f"{name} already exists", flush=True)
            continue
        for words in commands[name]:
            print(f"$ {shlex.join(words)}", flush=True)
            start = time.monotonic()
            code = subprocess.run(words, cwd=ROOT, check=False).returncode
            print(f"exit code {code} after {time.monotonic() - start:.0f} s", flush=True)
            if code:
                failed.append(shlex.join(words))
    print("\n".join(("failed:", *failed)) if failed else "all commands succeeded")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
