from __future__ import annotations

import pickle
from pathlib import Path

from tests.cli.fixtures import Invoke, invoke
from tests.ingest.formats.test_snapshot_file import SNAPSHOT
from tests.ui.views.apptests import LookIn, markup, shown

__all__ = ["invoke"]


def test_a_snapshot_is_shown_by_stream_pool_size_and_line(
    tmp_path: Path, look_in: LookIn, invoke: Invoke
) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(SNAPSHOT))
    assert invoke("import", str(path), "-o", str(tmp_path / "in" / "E")).code == 0
    look_in(tmp_path / "in")
    page = markup(shown("memory", experiment="E"))
    assert "9.00 MiB in 4 live blocks of 24.0 MiB reserved, at the time of the snapshot." in page
    assert "at exit" not in page
    for row in ("stream 5", "pool 0-3", "2 to 4 MiB", "model.py:7 forward"):
        assert row in page
