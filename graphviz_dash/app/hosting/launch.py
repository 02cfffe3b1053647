"""Run Streamlit without collections of garbage during its imports.

    python -P -m graphviz_dash.app.hosting.launch run SCRIPT [OPTIONS...]

Imports create hundreds of thousands of objects and almost no garbage. Collections would need a
quarter of the time until the server answers. The server enables them when it has started
(:mod:`graphviz_dash.app.hosting.lifespan`).
"""

from __future__ import annotations

import gc
import runpy


def main() -> None:
    """Run Streamlit's command line."""
    gc.disable()
    runpy.run_module("streamlit", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
