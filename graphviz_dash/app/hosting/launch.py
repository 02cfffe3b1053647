"""Run Streamlit without collections of garbage during its imports.

    python -P -m graphviz_dash.app.hosting.launch run SCRIPT [OPTIONS...]

Imports create almost no garbage, and collections would need a quarter of the time until the server
answers. The server enables them later (:mod:`graphviz_dash.app.hosting.lifespan`).
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
