from __future__ import annotations

import gc

from graphviz_dash.garbage import raise_scan_threshold


def test_a_higher_threshold_stays() -> None:
    before = gc.get_threshold()
    try:
        gc.set_threshold(700, 10, 10)
        assert raise_scan_threshold()[0] == 700
        raised = gc.get_threshold()[0]
        assert raised > 10_000
        gc.set_threshold(2 * raised, 10, 10)
        raise_scan_threshold()
        assert gc.get_threshold()[0] == 2 * raised
    finally:
        gc.set_threshold(*before)
