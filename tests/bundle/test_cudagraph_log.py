"""Messages of torch's log ``cudagraphs``, as torch 2.11 wrote them on an H200."""

from __future__ import annotations

from graphviz_dash.bundle.compile_stacks import strip_folders
from graphviz_dash.bundle.cudagraph_log import CudagraphLog

_PARTITIONS = """\
Created 3 graph partitions: 2 cudagraphable, 1 non-cudagraphable
  Partition 0: 2 nodes, cudagraphable, inputs=2, outputs=1
  Partition 1: 2 nodes, non-cudagraphable, inputs=1, outputs=1
    buf3: reason=DeviceCopy ops, ir=DeviceCopy, fx=prims.device_put.default(mean, cpu)
           File "/app/model/steps.py", line 41, in forward
             h = a.mean().cpu()
  Partition 2: 1 nodes, cudagraphable, inputs=2, outputs=1"""

_AGAIN = """\
[0/0] Re-recording function=partition_0, reason=static input data pointer changed.
input name: arg0_1. data pointer changed from 139712675184640 to 139712675708928. \
input stack trace: None
"""


def told(*messages: str, frame: str | None = "0/0") -> CudagraphLog:
    log = CudagraphLog(strip_folders)
    for message in messages:
        log.process_message(message, frame)
    return log


def test_a_graph_that_is_split() -> None:
    log = told(*_PARTITIONS.splitlines())
    (split,) = log.get_partitionings()
    assert [(part.nodes, part.captured) for part in split.partitions] == [
        (2, True),
        (2, False),
        (1, True),
    ]
    (operator,) = split.partitions[1].operators
    assert (operator.name, operator.reason) == ("buf3", "DeviceCopy ops")
    assert operator.operator == "prims.device_put.default"
    assert [(line.text, line.code) for line in operator.lines] == [
        ("steps.py:41", "h = a.mean().cpu()")
    ]


def test_a_skip_with_and_without_a_line() -> None:
    where = 'Found from : \n   File "/app/model/steps.py", line 7, in f\n    b.add_(a)\n'
    log = told(
        "skipping cudagraphs due to mutated inputs (1 instances)",
        f"skipping cudagraphs due to cpu device (arg1_1). {where}",
        f"skipping cudagraphs due to cpu device (arg1_1). {where}",
    )
    assert [(skip.reason, [line.text for line in skip.lines]) for skip in log.skips] == [
        ("mutated inputs (1 instances)", []),
        ("cpu device (arg1_1)", ["steps.py:7"]),
    ]


def test_a_recording_made_again() -> None:
    log = told(
        "[0/0] Running warmup function=partition_0",
        "[0/0] Recording function=partition_0, cuda_graph_id=0, inputs: [0]: Tensor(size=[4])",
        _AGAIN,
        "[0/0] Recording function=partition_0, cuda_graph_id=1, inputs: [0]: Tensor(size=[4])",
    )
    (again,) = log.rerecordings
    assert (again.frame, again.reason) == ("0/0", "static input data pointer changed")
    assert [moved.name for moved in again.moved] == ["arg0_1"]
    assert (log.recordings, log.warmups["0/0"]) == (2, 1)


def test_warnings_are_counted_and_others_are_passed_over() -> None:
    text = "CUDAGraph supports dynamic shapes by recording a new graph for each distinct input size"
    log = told(text, text, "something new", "  Partition without a number")
    assert [(warning.text, warning.count) for warning in log.get_warnings()] == [(text, 2)]
