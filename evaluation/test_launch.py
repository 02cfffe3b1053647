from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from evaluation import launch_pair
from evaluation.launch_vs_sample import judge, same_speeds, speeds
from graphviz_dash.model.launch import LaunchMeasure, Topology

ROOT = Path(__file__).parents[1]
FAST, SLOW = [501.5, 501.7], [679.4, 679.6, 679.8]


def test_samples_that_lie_apart_are_different_speeds() -> None:
    assert speeds([679.6, 501.5, 679.4, 501.7, 679.8]) == [FAST, SLOW]
    assert speeds([100.0, 104.0, 109.0, 114.0]) == [[100.0, 104.0, 109.0, 114.0]]


def test_a_speed_is_compared_with_the_same_speed() -> None:
    assert same_speeds(FAST + SLOW, SLOW + FAST) == [(FAST, FAST), (SLOW, SLOW)]
    assert same_speeds(FAST + SLOW, SLOW) == [(SLOW, SLOW)]
    assert same_speeds(FAST, SLOW) == []


def test_two_speeds_in_other_shares_meet_the_goal_which_medians_would_miss() -> None:
    kind = LaunchMeasure.REPEAT_LAUNCH_DEVICE
    cpp, python = [*FAST, *SLOW], [*FAST, *FAST, *SLOW]
    assert judge(kind, cpp, python) == "met, by speed 1.000, 1.000"
    assert judge(kind, cpp, SLOW) == "met, by speed 1.000, 1 in C++ alone"
    assert judge(kind, SLOW, cpp) == "met, by speed 1.000, 1 in Python alone"
    assert judge(kind, FAST, SLOW) == "missed"
    assert judge(LaunchMeasure.FIRST_LAUNCH_CPU, cpp, python) == "missed"


def test_other_goals_are_judged_by_medians() -> None:
    assert judge(LaunchMeasure.REPEAT_LAUNCH_CPU, [2.0, 2.1, 9.0], [2.6, 2.6, 2.8]) == "met"
    assert judge(LaunchMeasure.REPEAT_LAUNCH_CPU, [2.0, 2.1, 9.0], [2.7, 2.8, 2.9]) == "missed"
    assert judge(LaunchMeasure.INSTANTIATION, [10.0], [10.9]) == "met"
    assert judge(LaunchMeasure.CAPTURE, [10.0], [90.0]) == ""


@pytest.fixture(scope="module")
def compile_library(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    shared_object = tmp_path_factory.mktemp("pair") / "launch_pair.so"
    source = ROOT / "evaluation" / "launch_pair.c"
    subprocess.run(
        [compiler, "-O3", "-shared", "-fPIC", "-Werror", "-Wall", "-o", shared_object, source],
        check=True,
    )
    return str(shared_object)


class Cuda:
    def __init__(self, status: int = 0) -> None:
        self.calls: list[tuple[str, int, int | None]] = []

        def launch(executable: int, stream: int) -> int:
            self.calls.append(("launch", executable, stream))
            return status

        def wait(stream: int) -> int:
            self.calls.append(("wait", stream, None))
            return 0

        pointer = ctypes.c_void_p
        self.cuGraphLaunch = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)(launch)
        self.cuStreamSynchronize = ctypes.CFUNCTYPE(ctypes.c_int, pointer)(wait)


def test_c_makes_the_four_calls_in_their_order_and_times_each(compile_library: str) -> None:
    cuda = Cuda()
    times: dict[LaunchMeasure, int] = {}
    launch_pair.from_c(compile_library, cuda, 7)(9, times)
    assert cuda.calls == [("launch", 9, 7), ("wait", 7, None)] * 2
    assert set(times) == set(launch_pair.MEASURES)
    assert 0 < times[LaunchMeasure.FIRST_LAUNCH_CPU] <= times[LaunchMeasure.FIRST_LAUNCH]
    assert 0 < times[LaunchMeasure.REPEAT_LAUNCH_CPU] <= times[LaunchMeasure.REPEAT_LAUNCH]


def test_a_launch_that_fails_is_not_timed(compile_library: str) -> None:
    with pytest.raises(RuntimeError, match="CUresult 400"):
        launch_pair.from_c(compile_library, Cuda(400), 7)(9, {})


def test_a_row_compares_within_each_process() -> None:
    calm = {"Python": [3000, 3000, 3000, 9000], "C": [2000] * 4}
    busy = {"Python": [9500] * 4, "C": [8000] * 4}
    assert launch_pair.row(Topology(1, 500, False, None, 0), [busy, calm]) == (
        "| 1 x 500 | 6.25 | 5.00 | +1.25 | +1.00 +1.50 |"
    )
