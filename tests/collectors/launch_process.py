"""A replacement of ``python -m collectors.launch.run`` with made-up samples and the same exits.

``GRAPHVIZ_DASH_TEST_LAUNCH``: ``slow`` delays each graph, ``fail`` fails.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import msgspec

from collectors.launch.requests import LaunchRequest, LaunchResult
from graphviz_dash.model.launch import LaunchMeasure, LaunchSeries

how = os.environ.get("GRAPHVIZ_DASH_TEST_LAUNCH", "")
interrupted = []
signal.signal(signal.SIGINT, lambda *_: interrupted.append(1))
request = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=LaunchRequest)
if how == "fail":
    sys.exit("cudaGraphLaunch returned cudaErrorLaunchFailure (719)")
series = []
for number, topology in enumerate(request.topologies):
    if how == "slow" and number == 1:
        Path(os.environ["GRAPHVIZ_DASH_TEST_STARTED"]).touch()
        for _ in range(500):
            time.sleep(0.02)
            if interrupted:
                break
    if interrupted:
        break
    samples = {LaunchMeasure.CAPTURE: tuple(range(1, request.trials + 1))}
    series.append(LaunchSeries(topology, samples, {}))
found = LaunchResult(not interrupted, (140,), (60,), tuple(series))
Path(request.out).write_bytes(msgspec.json.encode(found))
