"""What the first component needs is imported before it is drawn."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from graphviz_dash.ui.warm import warm_up
before = {"pandas", "pyarrow"} & set(sys.modules)
thread = warm_up()
thread.join()
assert warm_up() is thread
print(sorted(before), sorted({"pandas", "pyarrow"} & set(sys.modules)))
"""


def test_what_components_need_is_imported_beside_the_pages() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split("\n")[0] == "[] ['pandas', 'pyarrow']"
