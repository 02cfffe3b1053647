"""Graphs whose replays are not handled once a program has settled."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from graphviz_dash.model.recording import Recording
from tests.collectors.program.recorded import CAPTURE, run, seen
from tests.collectors.program.test_loop import loop_of

START = """
import random, sys, threading
from collectors.program import recorder, session

def active():
    return session._active._recorder

if STAY_AWAKE:
    recorder._SETTLED_STEPS = active()._settles_at = 1 << 40

def sleeping():
    return sorted(counter.number for counter in active()._sleeping._counters)

def captured_at(number):
    # Each place of capture needs a function.
    place = {}
    exec(compile(SOURCE, f"place-{number}.py", "exec"), globals(), place)
    return place["capture"]()

SOURCE = '''
def capture(optimizer=None):
    g = G()
    with torch.cuda.graph(g):
        if optimizer is not None:
            optimizer.step()
    return g
'''
exec(SOURCE)
draw = random.Random(0)
told = []
"""

LAYERS = """
graphs = [captured() for _ in range(4)]
for i in range(300):
    for g in graphs: g.replay()
    told.append(sleeping())
"""
ONE_GRAPH = """
graphs = [captured()]
for i in range(300):
    graphs[0].replay()
    told.append(sleeping())
    if i % 100 == 99: graphs.append(captured_at(0))
    if i == 250: graphs[1].replay()
"""
PLACES = """
graphs = [captured_at(number) for number in range(4)]
for i in range(300):
    for g in graphs: g.replay()
    told.append(sleeping())
"""
OPTIMIZERS = """
a, b = torch.optim.SGD(), torch.optim.SGD()
policy, critic, actor = capture(), capture(a), capture(b)
for i in range(300):
    policy.replay(); critic.replay(); policy.replay(); critic.replay(); actor.replay()
    told.append(sleeping())
"""
NEW_CAPTURE = """
graphs = [captured() for _ in range(3)]
for i in range(300):
    if i == 100: graphs.append(captured())
    for g in graphs: g.replay()
    told.append(sleeping())
"""
CHANGING_ORDER = """
graphs = [captured() for _ in range(4)]
for i in range(300):
    for g in draw.sample(graphs, len(graphs)): g.replay()
    told.append(sleeping())
"""
SIZES = """
sizes = [[captured() for _ in range(3)] for _ in range(5)]
for i in range(600):
    for g in draw.choices(sizes, [40, 20, 4, 2, 1])[0]: g.replay()
    told.append(sleeping())
"""
LATE_GRAPH = """
graphs = [captured_at(number) for number in range(4)]
for i in range(300):
    for g in graphs[: 3 + i // 150]: g.replay()
    told.append(sleeping())
"""
EARLY_GRAPH = """
graphs = [captured() for _ in range(4)]
for g in graphs: g.replay()
for i in range(300):
    for g in graphs[: 4 if i % 70 == 69 else 3]: g.replay()
    told.append(sleeping())
"""
PROFILED = """
from torch.profiler import profile
graphs = [captured() for _ in range(3)]
for i in range(300):
    if i == 100:
        with profile(): pass
    for g in graphs: g.replay()
    told.append(sleeping())
"""


ORDINARY = "--skip", "250", "--steps", "5"


def record(
    folder: Path, program: str, *options: str, stays_awake: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """Record a program. Returns results without times, and the lines that it prints."""
    folder.mkdir()
    start = START.replace("STAY_AWAKE", str(stays_awake))
    done = run(folder, CAPTURE + start + textwrap.dedent(program), *options)
    assert done.returncode == 0, done.stderr
    _, recording = seen(folder)
    return _list_results(folder, recording), done.stdout.splitlines()


def _list_results(folder: Path, recording: Recording) -> dict[str, Any]:
    loop = loop_of(folder)
    return {
        "steps": recording.steps,
        "boundary": (recording.boundary_kind, recording.boundary),
        "times": len(recording.step_ns),
        "window": recording.window_steps,
        "ended": recording.window_ended_by,
        "graphs": [(graph.replays, graph.window_replays) for graph in recording.graphs],
        "families": [
            (family.name, [(member.graphs, member.key) for member in family.members])
            for family in loop.families
        ],
        "kinds": loop.steps.kind,
        "step_families": loop.steps.family,
        "count": loop.step_count,
    }


@pytest.mark.parametrize(
    ("program", "sleeps"),
    [
        pytest.param(LAYERS, {"[]", "[1, 2, 3]"}, id="layers of one place"),
        pytest.param(ONE_GRAPH, {"[]"}, id="one graph"),
        pytest.param(PLACES, {"[]", "[1, 2, 3]"}, id="layers of several places"),
        pytest.param(OPTIMIZERS, {"[]", "[2]"}, id="optimizers in graphs"),
        pytest.param(NEW_CAPTURE, {"[]", "[1, 2]", "[0, 2, 3]"}, id="another capture"),
        pytest.param(CHANGING_ORDER, {"[]"}, id="changing order"),
        pytest.param(LATE_GRAPH, {"[]", "[1, 2]"}, id="first replay later"),
        pytest.param(EARLY_GRAPH, {"[]", "[0, 2]"}, id="rare graph"),
        pytest.param(PROFILED, {"[]", "[1, 2]"}, id="a profiler of the program"),
    ],
)
def test_results_do_not_depend_on_sleep(tmp_path: Path, program: str, sleeps: set[str]) -> None:
    told = "\nfor line in dict.fromkeys(map(str, told)): print(line)\n"
    results, lines = record(tmp_path / "sleep", program + told, *ORDINARY)
    awake, awake_lines = record(tmp_path / "awake", program + told, *ORDINARY, stays_awake=True)
    assert results == awake
    assert (set(lines), awake_lines) == (sleeps, ["[]"])


def test_sizes_in_random_order_sleep_except_for_their_first_graphs(tmp_path: Path) -> None:
    """All first graphs have one place and end steps, also those that come rarely."""
    told = "\nfor line in dict.fromkeys(map(str, told)): print(line)\n"
    options = "--skip", "550", "--steps", "5"
    results, lines = record(tmp_path / "sleep", SIZES + told, *options)
    awake, _ = record(tmp_path / "awake", SIZES + told, *options, stays_awake=True)
    assert results == awake
    assert results["boundary"][1].startswith("replay of any graph captured at")
    slept = [set(map(int, line.strip("[]").split(", "))) for line in lines if line != "[]"]
    assert {1, 2, 4, 5} <= max(slept, key=len)
    assert not set.union(*slept) & {0, 3, 6, 9, 12}


ANCHOR_ENDS = """
first, second, third = (captured_at(number) for number in range(3))
for i in range(100): first.replay(), second.replay(), third.replay()
told = sleeping()
steps = active()._clock.steps
while active()._clock.boundary == "replay of graph-0":
    second.replay(), third.replay()
    assert second._graphviz_dash_counter.replays < 10_000_000
for i in range(300): second.replay(), third.replay()
print(told, steps)
"""
OTHER_THREAD = """
first, second = captured(), captured()
for i in range(100): first.replay(), second.replay()
told = sleeping()
steps = active()._clock.steps

def go_on():
    while active()._clock.boundary == "replay of graph-0":
        first.replay(), second.replay()
        assert second._graphviz_dash_counter.replays < 10_000_000
    for i in range(300): first.replay(), second.replay()

thread = threading.Thread(target=go_on)
thread.start()
thread.join()
print(told, steps)
"""


@pytest.mark.parametrize(
    ("program", "told"), [(ANCHOR_ENDS, "[1, 2] 99"), (OTHER_THREAD, "[1] 99")]
)
@pytest.mark.parametrize("stays_awake", [False, True])
def test_another_graph_ends_steps_if_the_anchor_comes_no_more(
    tmp_path: Path, program: str, told: str, stays_awake: bool
) -> None:
    results, lines = record(tmp_path / "run", program, *ORDINARY, stays_awake=stays_awake)
    assert lines == [told.replace("[1, 2]", "[]").replace("[1]", "[]") if stays_awake else told]
    assert results["boundary"][1] in ("replay of graph-1", "replay of graph-2")
    assert (results["times"], results["window"]) == (250, 5)


PREDECESSOR = """
graphs = [captured() for _ in range(3)]
for i in range(100):
    for g in graphs: g.replay()
told = sleeping()
# A graph sleeps, so that only the events have the predecessor of the next one.
graphs[0].replay(), graphs[1].replay()
late = captured()
previous = active()._previous[threading.get_ident()].number
graphs[2].replay()
print(told, previous, sleeping(), sorted(active()._captures["graph-2"].after))
"""


def test_the_predecessor_of_a_graph_is_known_after_sleep(tmp_path: Path) -> None:
    _, lines = record(tmp_path / "run", PREDECESSOR, *ORDINARY)
    assert lines == ["[1, 2] 1 [] ['graph-1']"]


COUNT_CALLS = """
graphs = [captured() for _ in range(GRAPHS)]
for i in range(200):
    for g in graphs: g.replay()
calls = 0
def count(frame, event, _):
    global calls
    calls += event == "call"
sys.setprofile(count)
for i in range(10):
    for g in graphs: g.replay()
sys.setprofile(None)
print(sleeping(), calls)
"""


@pytest.mark.parametrize("graphs", [1, 9])
def test_a_step_of_a_settled_program_calls_one_function_more_than_its_replays(
    tmp_path: Path, graphs: int
) -> None:
    _, lines = record(tmp_path / "run", COUNT_CALLS.replace("GRAPHS", str(graphs)), *ORDINARY)
    # Each replay has the recorder's function and the fake torch's.
    assert lines == [f"{list(range(1, graphs))} {10 * (2 * graphs + 1)}"]


CLASS_ATTRIBUTE = """
g = captured()
def replay():
    g.replay()
for _ in range(100): replay()
for each in dis.get_instructions(G.replay, adaptive=True):
    if each.argval == "_graphviz_dash_counter": print(each.opname)
"""


def test_python_caches_the_place_of_a_counter(tmp_path: Path) -> None:
    """A default in the class prevents this."""
    _, lines = record(tmp_path / "run", f"import dis{CLASS_ATTRIBUTE}", *ORDINARY)
    assert lines == ["LOAD_ATTR_INSTANCE_VALUE"]
