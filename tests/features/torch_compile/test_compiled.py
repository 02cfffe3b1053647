from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from graphviz_dash.analysis.prediction.calibration import load_shipped_calibration
from graphviz_dash.analysis.step_comparison.step_parts import StepPart
from graphviz_dash.analysis.trace.steps import find_steps
from graphviz_dash.features.torch_compile.analysis.cause import CompileCause
from graphviz_dash.features.torch_compile.analysis.causes import find_compile_causes
from graphviz_dash.features.torch_compile.analysis.clean_step import (
    CpuPiece,
    get_first_node_latency_ns,
)
from graphviz_dash.features.torch_compile.analysis.inputs import (
    find_first_cpu_use,
    find_input_origin,
)
from graphviz_dash.features.torch_compile.analysis.program_tree import BoxKind, build_program_tree
from graphviz_dash.features.torch_compile.analysis.rule_outcomes import build_rule_outcomes
from graphviz_dash.features.torch_compile.analysis.savings import GAIN_EXPONENT, StepCosts
from graphviz_dash.features.torch_compile.analysis.step_regions import divide_into_regions
from graphviz_dash.features.torch_compile.analysis.step_time import (
    FrameCalls,
    StepDivider,
    StepTime,
    compute_step_time,
)
from graphviz_dash.features.torch_compile.narrative import PART_MEANINGS
from graphviz_dash.features.torch_compile.timeline_lanes import build_compiled_step
from graphviz_dash.ingest.kineto.reader import read_trace
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.compilation import (
    Compilation,
    CompilationFact,
    CompiledFrame,
    CompiledGraph,
    CompileWarning,
    CopiedInput,
    FactSource,
    FunctionInput,
    GraphBreak,
    GraphPartition,
    GraphSkip,
    MovedInput,
    Partitioning,
    Recompile,
    Rerecording,
    SplitOperator,
    TreeFunction,
    TreeNode,
    UserLine,
)
from graphviz_dash.model.compile_rules import COMPILE_RULES, CompileRuleId
from graphviz_dash.model.doctor import CheckStatus
from graphviz_dash.model.trace import Trace
from tests.trace_builder import GpuWork, TraceBuilder

BROKEN = UserLine("model.py", 8, "forward", "print(x)")
US = 1_000

FRAMES = (
    CompiledFrame("0/0", "forward", UserLine("model.py", 5), False, nodes=3),
    CompiledFrame("1/0", "forward", UserLine("model.py", 8), True, nodes=2),
)
BREAK = GraphBreak("0/0", "Failed to trace builtin operator `print`", None, (), None, (BROKEN,))
NODES = (
    TreeNode(0, 0, None, None, (CopiedInput("primals_1", 4096),), 0, 1, 0),
    TreeNode(1, 1, 0, None, (), 1, 1, 0),
)
FUNCTIONS = (
    TreeFunction(0, "0/0", "inference", (FunctionInput("primals_1", False, False),)),
    TreeFunction(1, "1/0", "inference", ()),
)


def compilation(**facts: object) -> Compilation:
    """A function with a graph break in it, and ``facts`` besides."""
    told: dict[str, object] = {"frames": FRAMES, "breaks": (BREAK,), **facts}
    told.update(functions=FUNCTIONS, nodes=NODES)
    return Compilation("2.11", (), **told)  # type: ignore[arg-type]


def one_step(trace: TraceBuilder, at: int) -> None:
    """100 µs: guards 5, an input copy and a graph, 10 µs of Python, guards 5, another graph."""

    def us(value: float) -> int:
        return at + round(value * US)

    trace.op("TorchDynamo Cache Lookup", us(1), 5 * US)
    trace.op("Torch-Compiled Region: 0/0", us(6), 84 * US)
    trace.op("## Call CompiledFxGraph first ##", us(10), 30 * US)
    trace.op("aten::_foreach_copy_", us(12), 4 * US)
    copy = trace.runtime("cudaLaunchKernel", us(13), 2 * US)
    trace.kernel("copy", us(14), 4 * US, correlation=copy)
    trace.graph_launch(us(20), 4 * US, [GpuWork("gemm", us(26), 10 * US)])
    trace.op("TorchDynamo Cache Lookup", us(50), 5 * US)
    trace.op("Torch-Compiled Region: 1/0", us(55), 35 * US)
    trace.op("## Call CompiledFxGraph second ##", us(58), 27 * US)
    trace.graph_launch(us(60), 4 * US, [GpuWork("gemm", us(66), 10 * US)])
    trace.runtime("cudaDeviceSynchronize", us(91), 8 * US)


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """Two such steps."""
    builder = TraceBuilder()
    for number in range(2):
        builder.annotation(f"graphviz_dash.step#{number}", number * 200 * US, 100 * US)
        one_step(builder, number * 200 * US)
    return read_trace(builder.write(tmp_path / "trace.json"))


@pytest.fixture
def time(trace: Trace) -> StepTime:
    told = compute_step_time(trace, find_steps(trace), compilation())
    assert isinstance(told, StepTime)
    return told


def parts(time: StepTime) -> dict[tuple[StepPart, str | None], tuple[float, float]]:
    """Busy and idle time of each part, in µs."""
    return {(part.part, part.frame): (part.busy_ns / US, part.idle_ns / US) for part in time.parts}


def test_the_parts_are_what_was_laid_out(time: StepTime) -> None:
    assert parts(time) == {
        (StepPart.PYTHON, None): (0, 3),
        (StepPart.GUARDS, "0/0"): (0, 5),
        # Before the copy, between it and the launch, and behind the graph, to the call's end.
        (StepPart.DISPATCH, "0/0"): (0, 6 + 2 + 2 + 4),
        (StepPart.COPIES, "0/0"): (4, 2),
        (StepPart.LAUNCH, "0/0"): (0, 4),
        (StepPart.REPLAY, "0/0"): (10, 0),
        (StepPart.EAGER, "0/0"): (0, 10),
        (StepPart.GUARDS, "1/0"): (0, 5),
        (StepPart.DISPATCH, "1/0"): (0, 5 + 2 + 14),
        (StepPart.LAUNCH, "1/0"): (0, 4),
        (StepPart.REPLAY, "1/0"): (10, 0),
        (StepPart.WAIT, None): (0, 8),
    }
    assert [(call.frame, call.calls, call.replays, call.launches) for call in time.calls] == [
        ("0/0", 1, 1, 1),
        ("1/0", 1, 1, 0),
    ]


def test_they_add_up_to_the_traced_step_and_to_a_clean_one(time: StepTime) -> None:
    assert time.busy_ns + time.idle_ns == time.traced_ns == 100 * US
    for clean in (60 * US, 100 * US, 24 * US):
        assert sum(time.compute_clean_ns(part, clean) for part in time.parts) == pytest.approx(
            clean
        )
        assert time.compute_remainder_ns(clean) == 0


def test_work_that_is_longer_than_the_clean_step_leaves_a_remainder(time: StepTime) -> None:
    assert time.compute_remainder_ns(20 * US) == pytest.approx(-4 * US)


def test_the_regions_of_a_step_cover_it_and_name_what_breaks_it(
    trace: Trace, time: StepTime
) -> None:
    step = find_steps(trace)[1]
    own = find_compile_causes(compilation(), time, 100.0 * US)
    regions = divide_into_regions(StepDivider(trace, compilation()), step, own)
    edges = [(region.span.start, region.span.end) for region in regions]
    assert edges[0][0] == step.start
    assert edges[-1][1] == step.end
    assert all(before[1] == after[0] for before, after in pairwise(edges))
    assert sum(end - start for start, end in edges) == 100 * US
    eager = [region for region in regions if region.span.part is StepPart.EAGER]
    ((cause, stretch),) = [(region.cause, region.span) for region in eager]
    assert cause is not None
    assert cause.lines == (BROKEN,)
    assert (stretch.start - step.start, stretch.end - step.start) == (40 * US, 50 * US)
    lane = build_compiled_step(regions)
    assert lane.texts[int(lane.code[regions.index(eager[0])])][0] == "eager work: model.py:8"


def causes(told: Compilation, time: StepTime | None = None) -> dict[CompileRuleId, CompileCause]:
    """The causes by their rules, of a step of 100 µs."""
    timed = time or Missing("traced pass", "there is none")  # type: ignore[arg-type]
    return {cause.rule: cause for cause in find_compile_causes(told, timed, 100.0 * US)}


def test_a_break_costs_what_it_puts_between_and_the_graph_that_it_adds(time: StepTime) -> None:
    cause = causes(compilation(), time)[CompileRuleId.PYTHON_SIDE_EFFECT]
    assert cause.lines == (BROKEN,)
    # What is left: 20 µs of CPU up to one launch, the work of both graphs, and 9 µs behind it.
    factor = StepCosts(time, 100.0 * US).factor
    left = (20 * US * factor) + get_first_node_latency_ns() + 9 * US * factor
    assert cause.gain_ns == pytest.approx(
        80 * US * (1 - (left / (80 * US)) ** GAIN_EXPONENT), rel=0.01
    )


def test_a_function_that_is_given_up_costs_the_graphs_of_what_it_calls(time: StepTime) -> None:
    outer = CompiledFrame("9/0", "loop", UserLine("model.py", 1, "loop"), False, failure="print")
    given_up = msgspec.structs.replace(BREAK, frame="9/0", runs_eagerly=True)
    callers = (UserLine("model.py", 3, "loop", "x = layer(x)"),)
    inner = [msgspec.structs.replace(f, is_continuation=False, callers=callers) for f in FRAMES]
    told = compilation(frames=(outer, *inner), breaks=(given_up,))
    cause = causes(told, time)[CompileRuleId.PYTHON_SIDE_EFFECT]
    broken = causes(compilation(), time)[CompileRuleId.PYTHON_SIDE_EFFECT]
    assert cause.gain_ns == pytest.approx(broken.gain_ns)
    alone = causes(compilation(frames=(outer, *FRAMES), breaks=(given_up,)), time)
    saves = alone[CompileRuleId.PYTHON_SIDE_EFFECT].gain_ns
    assert isinstance(saves, Missing)
    assert saves.reason.startswith("the whole function runs eagerly")


def test_a_break_in_a_helper_adds_what_resumes_its_caller(time: StepTime) -> None:
    helper = UserLine("model.py", 2, "shown", "print(x)")
    place = UserLine("model.py", 5, "forward")
    called = UserLine("model.py", 8, "forward", "shown(x)")
    frames = (
        msgspec.structs.replace(FRAMES[0], location=place, callers=(UserLine("main.py", 1),)),
        FRAMES[1],
    )
    lines = (helper, called, UserLine("main.py", 1))
    told = compilation(frames=frames, breaks=(msgspec.structs.replace(BREAK, lines=lines),))
    cause = causes(told, time)[CompileRuleId.PYTHON_SIDE_EFFECT]
    assert cause.lines[0] == helper
    alone = causes(compilation(), time)[CompileRuleId.PYTHON_SIDE_EFFECT]
    assert cause.gain_ns == alone.gain_ns


def test_a_clean_program_has_no_cause(time: StepTime) -> None:
    told = Compilation("2.11", (), frames=FRAMES[:1], functions=FUNCTIONS, nodes=NODES)
    assert find_compile_causes(told, time, 100.0 * US) == ()


def test_copies_are_a_cause_where_they_are_a_tenth_of_the_step(time: StepTime) -> None:
    told = Compilation("2.11", (), frames=FRAMES, functions=FUNCTIONS, nodes=NODES)
    (cause,) = find_compile_causes(told, time, 30.0 * US)
    assert cause.rule is CompileRuleId.COPIED_INPUTS
    assert cause.details == ("primals_1: 4,096 B",)
    # Of 4 µs of the CPU: the copy itself is done while the graph is launched.
    saved = 4 * US * StepCosts(time, 30.0 * US).factor
    assert cause.gain_ns == pytest.approx(GAIN_EXPONENT * saved, rel=0.01)


@pytest.mark.parametrize(
    ("reason", "rule"),
    [
        ("mutated inputs (1 instances)", CompileRuleId.MUTATED_INPUT),
        ("multiple devices: cuda:0, cuda:1", CompileRuleId.NOT_RECORDED),
        ("cpu device (arg1_1)", CompileRuleId.CPU_WORK),
    ],
)
def test_skips(reason: str, rule: CompileRuleId) -> None:
    found = causes(compilation(breaks=(), skips=(GraphSkip("1/0", reason, (BROKEN,)),)))
    assert found[rule].lines == (BROKEN,)


@pytest.mark.parametrize(
    ("reason", "operator", "rule"),
    [
        ("cpu ops", "aten.sum.default", CompileRuleId.CPU_WORK),
        ("cpu ops", "prims.device_put.default", CompileRuleId.COPY_BETWEEN_DEVICES),
        ("DeviceCopy ops", None, CompileRuleId.COPY_BETWEEN_DEVICES),
        ("unbacked binding ops", "aten.nonzero.default", CompileRuleId.SIZE_FROM_DATA),
        ("CUDAGraph-unsafe custom ops", "mine.f.default", CompileRuleId.UNSAFE_OPERATOR),
    ],
)
def test_splits(reason: str, operator: str | None, rule: CompileRuleId) -> None:
    split = SplitOperator("op1", reason, operator, (BROKEN,))
    made = GraphPartition(1, 1, 1, False, (split,))
    found = causes(compilation(partitionings=(Partitioning("0/0", (made,)),)))
    assert found[rule].lines == (BROKEN,)
    assert isinstance(found[rule].gain_ns, Missing)


def test_a_split_in_a_graph_that_is_skipped_saves_nothing_by_itself(time: StepTime) -> None:
    split = SplitOperator("op1", "cpu ops", "aten.sum.default", (BROKEN,))
    made = GraphPartition(1, 1, 1, False, (split,))
    skip = GraphSkip("0/0", "mutated inputs (1 instances)", (BROKEN,))
    told = compilation(breaks=(), partitionings=(Partitioning("0/0", (made,)),), skips=(skip,))
    saves = causes(told, time)[CompileRuleId.CPU_WORK].gain_ns
    assert isinstance(saves, Missing)
    assert "fix this first" in saves.reason


def test_a_graph_from_the_cache_that_is_split_is_told_by_its_trace(time: StepTime) -> None:
    split = GraphPartition(1, 1, 1, True, ())
    told = compilation(breaks=(), graphs=(CompiledGraph("0/0", "first", False, True),))
    assert CompileRuleId.UNEXPLAINED_SPLIT not in causes(told, time)
    first = next(n for n, piece in enumerate(time.pieces) if piece.launches_graph)
    second = CpuPiece(StepPart.DISPATCH, "0/0", 6.0 * US), time.pieces[first]
    pieces = (*time.pieces[: first + 1], *second, *time.pieces[first + 1 :])
    twice = replace(time, calls=(FrameCalls("0/0", 1, 1, 2, 1),), pieces=pieces)
    cause = causes(told, twice)[CompileRuleId.UNEXPLAINED_SPLIT]
    # The dispatch and the launch of its second graph, whose work does not keep the CPU waiting.
    factor = StepCosts(twice, 100.0 * US).factor
    call_ns, _ = load_shipped_calibration().replay_cpu_ns
    assert cause.gain_ns == pytest.approx(GAIN_EXPONENT * (6 * US * factor + call_ns), rel=0.02)
    known = msgspec.structs.replace(told, partitionings=(Partitioning("0/0", (split, split)),))
    assert CompileRuleId.UNEXPLAINED_SPLIT not in causes(known, twice)


def test_a_backward_pass_from_the_cache_is_no_split(time: StepTime) -> None:
    told = compilation(breaks=(), graphs=(CompiledGraph("0/0", "first", False, True),))
    both = replace(time, calls=(FrameCalls("0/0", 1, 2, 2, 0),))
    assert CompileRuleId.UNEXPLAINED_SPLIT not in causes(told, both)


def build_steps_that_end_at_a_replay(folder: Path, *, cut: bool = False) -> Trace:
    """Steps marked from one return of a graph launch to the next, inside the compiled call. With
    ``cut``, the trace ends before the launch of one more call."""
    builder = TraceBuilder()
    for number in range(6):
        at = number * 100 * US
        one_step(builder, at)
        start = at + 64 * US
        if number < 5:
            builder.annotation(f"graphviz_dash.step#{number}", start, 100 * US)
    if cut:
        at = 6 * 100 * US
        builder.op("Torch-Compiled Region: 1/0", at, 20 * US)
        builder.op("## Call CompiledFxGraph second ##", at + 2 * US, 18 * US)
        builder.op("aten::_foreach_copy_", at + 2 * US, 4 * US)
        copy = builder.runtime("cudaLaunchKernel", at + 3 * US, 2 * US)
        builder.kernel("copy", at + 6 * US, 4 * US, correlation=copy)
        builder.annotation("graphviz_dash.step#5", 5 * 100 * US + 64 * US, 60 * US)
    return read_trace(builder.write(folder / "replays.json"))


def test_a_step_that_ends_at_a_replay_cuts_no_call(tmp_path: Path) -> None:
    loaded = build_steps_that_end_at_a_replay(tmp_path)
    told = compute_step_time(loaded, find_steps(loaded), compilation())
    assert isinstance(told, StepTime)
    assert {(call.frame, call.calls, call.replays) for call in told.calls} == {
        ("0/0", 1, 1),
        ("1/0", 1, 1),
    }
    spent = parts(told)
    assert not any(part is StepPart.COMPILED for part, _ in spent)
    assert spent[StepPart.COPIES, "0/0"][0] == 4


def test_a_call_that_the_end_of_the_trace_cuts_is_not_split(tmp_path: Path) -> None:
    loaded = build_steps_that_end_at_a_replay(tmp_path, cut=True)
    cached = (CompiledGraph("1/0", "second", False, True),)
    told = compilation(breaks=(), graphs=cached)
    timed = compute_step_time(loaded, find_steps(loaded)[-1:], told)
    assert isinstance(timed, StepTime)
    assert not any(part.part is StepPart.COMPILED for part in timed.parts)
    assert CompileRuleId.UNEXPLAINED_SPLIT not in causes(told, timed)


@pytest.mark.parametrize(
    ("reason", "explanation"),
    [
        (
            "Dynamic shape operator",
            "Operator `aten.nonzero.default`'s output shape depends on data",
        ),
        ("dynamic shape operator: aten.nonzero.default", None),
    ],
)
def test_a_break_at_an_operator_of_unknown_size_has_its_rule(
    reason: str, explanation: str | None
) -> None:
    broken = GraphBreak("0/0", reason, explanation, (), None, (BROKEN,))
    assert causes(compilation(breaks=(broken,)))[CompileRuleId.SIZE_FROM_DATA].lines == (BROKEN,)


def test_recompiles_of_a_function_are_one_cause_with_what_they_took() -> None:
    frames = tuple(
        CompiledFrame(f"3/{n}", "f", UserLine("model.py", 20), False, compile_ns=10**9)
        for n in range(3)
    )
    again = [Recompile(f"3/{n}", (f"k == {n}",), ()) for n in (1, 2)]
    limit = Recompile("3/3", ("k == 2",), (), limit_reached=True)
    told = Compilation("2.11", (), frames=frames, recompiles=(*again, limit))
    cause = causes(told)[CompileRuleId.RECOMPILE_LIMIT]
    assert (cause.count, cause.one_time_ns, cause.lines[0].text) == (3, 2 * 10**9, "model.py:20")


CODE = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[8, 8][8, 1]cuda:0", L_scale_: "f32[][]cpu"):
        l_x_ = L_x_
        l_scale_ = L_scale_

        # File: model.py:7 in forward, code: y = torch.relu(x)
        y: "f32[8, 8][8, 1]cuda:0" = torch.relu(l_x_);  l_x_ = None

        # File: model.py:8 in forward, code: return y * scale
        mul: "f32[8, 8][8, 1]cuda:0" = y * l_scale_;  y = l_scale_ = None
        return (mul,)
"""
FRAME = CompiledFrame("0/0", "forward", None, False, code=CODE)


@pytest.mark.parametrize(
    ("name", "origin", "line"),
    [
        ("arg1_1", "L_scale_", "model.py:8"),
        ("primals_1", "L_x_", "model.py:7"),
        ("primals_9", "primals_9", None),
    ],
)
def test_an_input_has_its_name_and_the_line_that_first_uses_it(
    name: str, origin: str, line: str | None
) -> None:
    found = find_input_origin(FRAME, name, None)
    assert (found.name, found.line and found.line.text) == (origin, line)


def test_the_line_of_an_input_on_the_cpu() -> None:
    line = find_first_cpu_use(FRAME)
    assert line is not None
    assert (line.text, line.code) == ("model.py:8", "return y * scale")


def test_an_input_that_moved_is_named() -> None:
    again = Rerecording("0/0", "partition_0", "static input data pointer changed", ())
    moved = Rerecording("0/0", "partition_0", again.reason, (MovedInput("arg1_1"),))
    told = Compilation("2.11", (), frames=(FRAME,), rerecordings=(moved, moved))
    cause = causes(told)[CompileRuleId.MOVED_INPUT]
    assert (cause.count, cause.details, cause.lines[0].text) == (2, ("L_scale_",), "model.py:8")


def test_the_tree_leads_from_the_function_to_its_graphs(time: StepTime) -> None:
    told = compilation(graphs=(CompiledGraph("0/0", "first", False, False),))
    found = find_compile_causes(told, time, 100.0 * US)
    tree = build_program_tree(told, time, 100.0 * US, found)
    (function,) = tree.roots
    assert [(box.kind, box.title) for box in tree.walk()] == [
        (BoxKind.FUNCTION, "forward"),
        (BoxKind.FRAME, "0/0"),
        (BoxKind.GRAPH, "graph 0 of the trees"),
        (BoxKind.RESUME, "after the break at line 8"),
        (BoxKind.GRAPH, "graph 1 of the trees"),
    ]
    assert tree.boxes == 5
    # All but what lies outside compiled functions: Python before them and the wait behind them.
    assert function.total_ns == pytest.approx((100 - 3 - 8) * US)
    assert function.causes == (0,)


def test_every_rule_and_every_part_has_its_words() -> None:
    assert set(COMPILE_RULES) == set(CompileRuleId)
    assert set(PART_MEANINGS) == set(StepPart)


def test_each_rule_is_broken_kept_or_not_looked_at_with_the_reason() -> None:
    sources = (
        FactSource(CompilationFact.BREAKS, "structured trace"),
        FactSource(CompilationFact.RECOMPILES, "structured trace"),
        FactSource(CompilationFact.NODES, None, "no CUDA graph was recorded"),
    )
    told = Compilation("2.11", sources, frames=FRAMES, breaks=(BREAK,))
    untimed = Missing(Fact.TRACED_STEPS, "no steps were traced")
    outcomes = build_rule_outcomes(told, untimed, find_compile_causes(told, untimed, untimed))
    by_rule = {outcome.rule.id: (outcome.status, outcome.reason) for outcome in outcomes}
    assert set(by_rule) == set(CompileRuleId)
    assert outcomes[0].rule.id is CompileRuleId.PYTHON_SIDE_EFFECT
    assert by_rule[CompileRuleId.PYTHON_SIDE_EFFECT] == (CheckStatus.FOUND, None)
    assert by_rule[CompileRuleId.RECOMPILING] == (CheckStatus.PASSED, None)
    assert by_rule[CompileRuleId.CAPTURE_FAILED] == (CheckStatus.PASSED, None)
    unchecked = CheckStatus.NOT_CHECKED
    assert by_rule[CompileRuleId.COPIED_INPUTS] == (unchecked, "no CUDA graph was recorded")
    assert by_rule[CompileRuleId.CPU_WORK][0] is unchecked


WRITING = """class GraphModule(torch.nn.Module):
    def forward(self, L_self_buffers_h_: "f32[4]", L_a_: "f32[4]", L_b_: "f32[4]"):
        l_self_buffers_h_ = L_self_buffers_h_
        l_a_ = L_a_
        l_b_ = L_b_
         # File: model.py:3 in forward, code: self.h.add_(a)
        add_: "f32[4]" = l_self_buffers_h_.add_(l_a_);  add_ = None
         # File: model.py:4 in forward, code: v = b.view(-1)
        v: "f32[4]" = l_b_.view(-1)
         # File: model.py:5 in forward, code: {code}
        {statement}
         # File: model.py:6 in forward, code: return a * b, torch.nonzero(a), b.cpu()
        mul: "f32[4]" = l_a_ * l_b_;  nonzero = torch.nonzero(l_a_)
         # File: model.py:7 in forward, code: return b.cpu()
        cpu: "f32[4]" = l_b_.cpu()
"""


@pytest.mark.parametrize(
    "statement",
    [
        'mul_: "f32[4]" = l_b_.mul_(0.5);  mul_ = None',
        "l_b_[0] = l_a_;  setitem = l_b_;  setitem = None",
        "v[slice(2, 5, None)] = 1;  setitem = v",
        "l_b_ += l_a_;  iadd = l_b_",
        'add: "f32[4]" = torch.add(l_a_, l_a_, out = l_b_);  add = None',
        "_foreach_add_ = torch._foreach_add_([l_b_], 1.0)",
        "relu = torch.nn.functional.relu_(l_b_)",
    ],
)
def test_a_written_input_has_the_line_that_writes(statement: str) -> None:
    """Statements as Dynamo of torch 2.11 prints them."""
    code = WRITING.format(statement=statement, code="...")
    frame = msgspec.structs.replace(FRAMES[0], code=code)
    skips = (GraphSkip("0/0", "mutated inputs (1 instances)", ()),)
    told = causes(Compilation("2.11", (), frames=(frame,), skips=skips))
    assert [line.text for line in told[CompileRuleId.MUTATED_INPUT].lines] == ["model.py:5"]


def test_operators_unknown_to_inductor_are_found_in_the_dynamo_graph() -> None:
    frame = msgspec.structs.replace(
        FRAMES[0], code=WRITING.format(statement="y = v * 2", code="...")
    )
    operators = (
        SplitOperator("buf1", "unbacked binding ops", None, ()),
        SplitOperator("buf2", "DeviceCopy ops", None, ()),
    )
    split = Partitioning("0/0", (GraphPartition(2, 1, 1, False, operators),))
    told = causes(Compilation("2.11", (), frames=(frame,), partitionings=(split,)))
    assert told[CompileRuleId.SIZE_FROM_DATA].lines[0].text == "model.py:6"
    assert told[CompileRuleId.COPY_BETWEEN_DEVICES].lines[0].text == "model.py:7"


def test_a_skip_and_a_warning_without_a_line_are_placed_by_their_function() -> None:
    call = UserLine("train.py", 30, "<module>", "model(batch)")
    frame = msgspec.structs.replace(FRAMES[0], callers=(call,))
    told = causes(
        Compilation(
            "2.11",
            (),
            frames=(frame,),
            functions=FUNCTIONS[:1],
            skips=(GraphSkip("0/0", "multiple devices: cuda:0, cuda:1", ()),),
            warnings=(CompileWarning("CUDAGraph supports dynamic shapes by recording", ()),),
        )
    )
    assert told[CompileRuleId.NOT_RECORDED].lines == (frame.location, call)
    assert told[CompileRuleId.CHANGING_SIZES].lines == (call,)


@pytest.mark.parametrize(
    ("recordings", "reason", "gain"),
    [
        (0, "60 sizes, none recorded: each new size only warms up", "each step is a warm-up"),
        (1, "CUDAGraph supports dynamic shapes by recording", "one-time cost per size"),
    ],
)
def test_changing_sizes_cost_once_only_if_they_were_recorded(
    recordings: int, reason: str, gain: str
) -> None:
    sizes = tuple(
        TreeFunction(number, "0/0", "inference", (), warmups=1, recordings=recordings)
        for number in range(60)
    )
    warning = CompileWarning("CUDAGraph supports dynamic shapes by recording", ())
    told = Compilation("2.11", (), frames=FRAMES, functions=sizes, warnings=(warning,))
    cause = causes(told)[CompileRuleId.CHANGING_SIZES]
    assert cause.reason == reason
    assert isinstance(cause.gain_ns, Missing)
    assert gain in cause.gain_ns.reason


def test_outputs_that_are_kept_are_told_at_the_call_and_other_calls_beside_it() -> None:
    calls = [UserLine("train.py", line, "step", "kept.append(model(x))") for line in (30, 50)]
    waiting = "outputs of an earlier step still wait for their backward"
    told = Compilation(
        "2.11", (), warnings=tuple(CompileWarning(waiting, (call,)) for call in calls)
    )
    cause = causes(told)[CompileRuleId.PENDING_BACKWARD]
    assert (cause.lines, cause.count) == ((calls[0],), 2)
    assert cause.details == ("called at train.py:50",)


def test_a_graph_recorded_again_because_outputs_live_is_told_at_the_call() -> None:
    call = UserLine("train.py", 30, "<module>", "model(batch)")
    frame = msgspec.structs.replace(FRAMES[0], callers=(call,))
    again = Rerecording("0/0", "function 0", "live outputs should be dead", ())
    told = causes(Compilation("2.11", (), frames=(frame,), rerecordings=(again,)))
    assert told[CompileRuleId.PENDING_BACKWARD].lines == (call,)
