"""Run Streamlit without collections of garbage during its imports.

    python -P -m graphviz_dash.app.hosting.launch run SCRIPT [OPTIONS...] -- [FOLDERS...]

Imports create almost no garbage, and collections would need a quarter of the time until the server
answers. The server enables them later (:mod:`graphviz_dash.app.hosting.lifespan`). Meanwhile,
another process searches the folders and computes the first cards.
"""

from __future__ import annotations

import gc
import runpy
import sys

from graphviz_dash.app.hosting.cards_client import FIRST_CARDS
from graphviz_dash.app.hosting.switch import is_plain


def main() -> None:
    """Run Streamlit's command line."""
    gc.disable()
    if "--" in sys.argv and not is_plain():
        FIRST_CARDS.begin(sys.argv[sys.argv.index("--") + 1 :])
    runpy.run_module("streamlit", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
