"""Start a server for each line of the input, with one of Streamlit's names renamed.

A line holds a name, a port and the path of a log; the answer is the server's process id. Servers
are forks of this process, which has loaded all other packages: they dominate a server's start.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

_PACKAGES: Final = (
    *("polars", "numpy", "pandas", "pyarrow", "plotly.graph_objects", "starlette", "uvicorn"),
    *("altair", "tornado", "google.protobuf", "rich", "click", "requests", "PIL.Image"),
    *("graphviz_dash.app.compare.command", "graphviz_dash.app.report.report"),
)
_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Load the packages and serve requests until the input ends."""
    for name in _PACKAGES:
        import_module(name)
    if any(name.partition(".")[0] == "streamlit" for name in sys.modules):
        raise RuntimeError("Streamlit is loaded before its names are renamed")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        name, port, log = line.split(maxsplit=2)
        child = os.fork()
        if not child:
            _serve(name, port, Path(log.strip()))
        print(child, flush=True)


def _serve(name: str, port: str, log: Path) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with log.open("wb") as printed, open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
    os.environ["RENAMED"] = name
    _rename()
    options = {"port": port, "address": "127.0.0.1", "headless": "true", "fileWatcherType": "none"}
    sys.argv = ["streamlit", "run", "app.py"]
    sys.argv += [f"--server.{option}={value}" for option, value in options.items()]
    sys.argv += ["--browser.gatherUsageStats=false", "--", "sample_traces/all-nodes"]
    import_module("streamlit.web.cli").main()


def _rename() -> None:
    """Run the hook again, which found no name at the start."""
    sys.modules.pop("sitecustomize", None)
    hook = import_module("sitecustomize")
    if Path(hook.__file__ or "").parent != Path(__file__).parent:
        raise RuntimeError(f"{hook.__file__} hides the hook")


if __name__ == "__main__":
    main()
