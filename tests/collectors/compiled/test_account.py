"""Record torch.compile by torch's loggers.

Logs of the program stay unchanged, and an unknown torch only costs facts.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace as Object
from typing import Any

import pytest

from collectors.compiled.account import (
    SLOW_PATH,
    CompileRecorder,
    record_compilation,
    save_compilation,
)
from collectors.compiled.taps import TRACE_LOGGER
from collectors.compiled.trees import TREES
from collectors.guard import Guard
from collectors.process.results import read_result
from graphviz_dash.bundle import parts
from graphviz_dash.features.torch_compile.analysis.causes import find_compile_causes
from graphviz_dash.model.absence import Fact, Missing
from graphviz_dash.model.compilation import CompilationFact
from graphviz_dash.model.compile_rules import CompileRuleId

SCHEDULER = "torch._inductor.scheduler"
STACK = '  File "/app/model/steps.py", line 9, in forward\n    cache.add_(x)\n'


class _Heard(logging.Handler):
    """Records of a handler of the program."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    """The scheduler's logger, once its module is imported; warnings and worse are logged."""
    monkeypatch.setitem(sys.modules, SCHEDULER, Object())
    logger = logging.getLogger(f"{SCHEDULER}.__cudagraphs")
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    handler = _Heard()
    logger.addHandler(handler)
    yield logger
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)
    logger.propagate = True


def heard(logger: logging.Logger) -> list[str]:
    (handler,) = (each for each in logger.handlers if isinstance(each, _Heard))
    return handler.messages


def structured(record: dict[str, Any], payload: str | None = None) -> None:
    """A record of the structured trace, as torch logs it."""
    logger = logging.getLogger(TRACE_LOGGER)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.debug("", extra={"metadata": record, "payload": payload})


START = {
    "dynamo_start": {"stack": [{"line": 5, "name": "forward", "filename": "/app/model/steps.py"}]},
    "frame_id": 0,
    "frame_compile_id": 0,
    "attempt": 0,
}


def test_the_program_hears_what_it_heard_before(log: logging.Logger) -> None:
    with record_compilation() as account:
        assert log.isEnabledFor(logging.DEBUG)
        log.debug("Created 1 graph partitions: 1 cudagraphable, 0 non-cudagraphable")
        log.debug("  Partition 0: 3 nodes, cudagraphable, inputs=1, outputs=1")
        log.warning("skipping cudagraphs due to multiple devices: cuda:0, cuda:1")
    assert heard(log) == ["skipping cudagraphs due to multiple devices: cuda:0, cuda:1"]
    assert log.level == logging.WARNING
    assert log.filters == []
    result = account.get_result()
    assert result is not None
    assert [len(split.partitions) for split in result.partitionings] == [1]
    assert [skip.reason for skip in result.skips] == ["multiple devices: cuda:0, cuda:1"]


def test_a_module_that_is_imported_later_is_heard_from_its_next_record(
    monkeypatch: pytest.MonkeyPatch, log: logging.Logger
) -> None:
    monkeypatch.delitem(sys.modules, SCHEDULER)
    with record_compilation():
        assert not log.isEnabledFor(logging.DEBUG)
        monkeypatch.setitem(sys.modules, SCHEDULER, Object())
        structured(START)
        assert log.isEnabledFor(logging.DEBUG)


def test_the_structured_trace_is_heard_and_its_handler_goes() -> None:
    handlers = list(logging.getLogger(TRACE_LOGGER).handlers)
    with record_compilation() as account:
        structured(START)
        structured({"odd": 3})
    assert logging.getLogger(TRACE_LOGGER).handlers == handlers
    result = account.get_result()
    assert result is not None
    assert [(frame.id, frame.function) for frame in result.frames] == [("0/0", "forward")]


PROGRAM = """\
def step(compiled):
    return compiled()

def run(compiled):
    result = step(compiled)
    return result
"""


def test_the_innermost_caller_is_the_call_of_the_compiled_function(tmp_path: Path) -> None:
    """The stack that torch 2.9 to 2.13 tell lacks that call: two frames too many are skipped."""
    own = {"line": 5, "name": "forward", "filename": "/app/model/steps.py"}
    outer = {"line": 5, "name": "run", "filename": "/app/train.py", "loc": "result = step()"}
    told = {**START, "dynamo_start": {"stack": [outer, own]}}
    path = tmp_path / "train.py"
    path.write_text(PROGRAM, encoding="utf-8")
    program: dict[str, Any] = {}
    exec(compile(PROGRAM, str(path), "exec"), program)
    dynamo = {"__name__": "torch._dynamo.convert_frame", "told": lambda: structured(told)}
    exec("def compiled():\n    told()\n", dynamo)
    with record_compilation() as account:
        program["run"](dynamo["compiled"])
    result = account.get_result()
    assert result is not None
    (frame,) = result.frames
    assert [(line.text, line.function, line.code) for line in frame.callers[:2]] == [
        ("train.py:2", "step", "return compiled()"),
        ("train.py:5", "run", "result = step(compiled)"),
    ]
    assert frame.location is not None
    assert frame.location.text == "steps.py:5"


def test_nothing_is_made_of_a_program_that_compiles_nothing() -> None:
    with record_compilation() as account:
        pass
    assert account.get_result() is None


def trees() -> Any:
    """torch._inductor.cudagraph_trees with one function, recorded twice, which moved."""
    holder = Object(name="arg0_1", stack_trace=None, users=[], mutating_use_stack_trace=STACK)
    key = Object(id=0)
    function = Object(
        id=key, static_input_idxs=[], mutated_input_idxs=[0], placeholders=[holder], model=None
    )

    def node(number: int, *children: Any) -> Any:
        return Object(
            id=Object(id=number),
            wrapped_function=function,
            non_static_input_idx=[0],
            reconstructed_inputs=[Object(nbytes=4096)],
            cudagraph_managed_idxs=[],
            output_storage_alias=[Object(), None],
            children={0: list(children)},
            graph=f"cuda {number}",
        )

    manager = Object(
        roots={0: []},
        ids_to_funcs={_Key(0): function},
        id_to_mode={_Key(0): Object(name="INFERENCE")},
        id_to_compile_id={_Key(0): "0/0"},
        warmed_up_functions={_Key(0)},
        warned_mutation=[_Key(0)],
        warned_functions=[_Key(0)],
        get_roots=lambda: [node(0, node(1))],
    )
    container = {"tree_manager_containers": {0: Object(tree_manager=manager)}}
    return Object(local=None, get_obj=lambda _, name: container[name])


class _Key:
    def __init__(self, number: int) -> None:
        self.id = number

    def __hash__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.id == self.id


def test_the_trees_are_read_with_the_graphs_of_the_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, TREES, trees())
    account = CompileRecorder(Guard())
    account.read_trees({"cuda 0": "graph-1", "cuda 1": None}.get)
    result = account.get_result()
    assert result is not None
    assert [(node.id, node.parent, node.graph) for node in result.nodes] == [
        (0, None, "graph-1"),
        (1, 0, None),
    ]
    (copied,) = result.nodes[0].copied
    assert (copied.name, copied.bytes, copied.line and copied.line.text) == (
        "arg0_1",
        4096,
        "steps.py:9",
    )
    (function,) = result.functions
    assert (function.frame, function.mode, function.recordings) == ("0/0", "inference", 2)
    assert [(skip.frame, skip.reason) for skip in result.skips] == [
        ("0/0", "mutated inputs (1 instances)")
    ]


def test_a_function_that_waits_for_a_backward_is_told_at_its_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, TREES, trees())
    call = {"line": 30, "name": "train", "filename": "/app/train.py", "loc": "kept += [model(x)]"}
    own = START["dynamo_start"]["stack"]
    with record_compilation() as account:
        structured({**START, "dynamo_start": {"stack": [call, *own]}})
        account.read_trees(lambda _: None)
    result = account.get_result()
    assert result is not None
    untimed = Missing(Fact.TRACED_STEPS, "no steps were traced")
    (cause,) = (
        cause
        for cause in find_compile_causes(result, untimed, untimed)
        if cause.rule is CompileRuleId.PENDING_BACKWARD
    )
    assert cause.reason == SLOW_PATH
    assert [(line.text, line.code) for line in cause.lines] == [
        ("train.py:30", "kept += [model(x)]")
    ]


def test_trees_of_another_shape_cost_their_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, TREES, Object())
    guard = Guard()
    account = CompileRecorder(guard)
    with record_compilation() as other:
        structured(START)
    account.read_trees(lambda _: None)
    other.read_trees(lambda _: None)
    result = other.get_result()
    assert result is not None
    missing = {source.fact: source.missing_reason for source in result.sources}
    assert missing[CompilationFact.NODES] == f"{TREES} is not as expected (AttributeError)"
    assert guard.errors == 0


@pytest.mark.parametrize(("version", "is_logged"), [("2.6.0+cu124", False), ("2.11.0", True)])
def test_a_torch_that_does_not_log_a_fact_is_not_taken_to_have_none(
    monkeypatch: pytest.MonkeyPatch, version: str, is_logged: bool
) -> None:
    monkeypatch.setitem(sys.modules, "torch", Object(__version__=version))
    with record_compilation() as account:
        structured(START)
    told = account.get_result()
    assert told is not None
    sources = {source.fact: source for source in told.sources}
    for fact in (CompilationFact.PARTITIONS, CompilationFact.RERECORDINGS):
        assert (sources[fact].source is not None) is is_logged
    assert sources[CompilationFact.SKIPS].source is not None
    if not is_logged:
        missing = sources[CompilationFact.PARTITIONS].missing_reason
        assert missing == "torch 2.6 does not log it, torch 2.11 does"


@pytest.mark.parametrize("ends", [True, False])
def test_a_compilation_is_saved_if_the_step_fails(tmp_path: Path, ends: bool) -> None:
    try:
        with save_compilation(tmp_path):
            structured(START)
            if not ends:
                raise RuntimeError("the step fails")
    except RuntimeError:
        assert not ends
    compilation = read_result(parts.COMPILATION, tmp_path)
    assert compilation is not None
    assert [frame.id for frame in compilation.frames] == ["0/0"]


def test_nothing_is_saved_without_a_compilation(tmp_path: Path) -> None:
    with save_compilation(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
