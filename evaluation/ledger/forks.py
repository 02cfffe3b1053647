"""Start the decoder many times in forks of a process that has imported it.

usage: python forks.py, with one JSON list of options per line of the standard input.

Prints ``DONE`` after each start. The process itself never uses CUDA, so its forks may.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

import server


def main() -> None:
    importlib.import_module("transformers").LlamaForCausalLM  # noqa: B018  lazy import
    print("WAITING", flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            sys.argv = ["server.py", *json.loads(line)]
            server.main()
            os._exit(0)
        os.waitpid(pid, 0)
        print("DONE", flush=True)


if __name__ == "__main__":
    main()
