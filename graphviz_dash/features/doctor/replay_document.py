"""Build the JSON of a check of replays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from graphviz_dash.analysis.replay_check import (
    MemoryFault,
    ReplayDiagnosis,
    StopFault,
    WrongOperator,
    find_differing_ranks,
)
from graphviz_dash.exports.documents.values import Count, Ns, Sentence
from graphviz_dash.model.doctor import CodeLocation
from graphviz_dash.model.replay_check import NodeOwner
from graphviz_dash.narrative.replay_check import (
    CAUSE_ADVICE,
    CAUSE_TITLES,
    format_memory_fault,
    format_replay_verdict,
    format_stop,
    format_wrong_operator,
)


class NodeDocument(TypedDict):
    """A graph node and the code that captured it."""

    graph: str
    node: Count
    kind: str
    name: str | None
    op: str | None
    location: str | None
    module: str | None
    collective: Count | None


class ElementDocument(TypedDict):
    """An element after an eager step and after a replay."""

    index: list[Count]
    eager: float
    replay: float


class WrongOperatorDocument(TypedDict):
    """The first operator that a replay computes differently from an eager step."""

    cause: str
    sentence: Sentence
    title: Sentence
    advice: Sentence
    op: str
    operator: Count
    location: str | None
    module: str | None
    first_node: Count | None
    replay: Count | None
    changed_inputs: bool
    tensor: str | None
    capture_value: str | None
    eager: list[str]
    kernels: list[str]
    relative_difference: float | None
    noise: float | None
    differing_elements: Count | None
    elements: list[ElementDocument]


class RankProgressDocument(TypedDict):
    """Progress of a rank while another rank hangs."""

    rank: Count
    replay: Count
    busy: bool
    collectives: Count
    collectives_passed: Count
    missing_collectives: list[Count]


class InvalidArgumentDocument(TypedDict):
    """A kernel argument of the size of an address that was in no allocation at the capture."""

    node: Count
    argument: Count
    value: str


class ReplayStopDocument(TypedDict):
    """A replay that crashed or hangs."""

    kind: str
    cause: str
    sentence: Sentence
    title: Sentence
    advice: Sentence
    graph: str
    key: str | None
    capture_place: str | None
    rank: Count | None
    replay: Count
    is_running: bool
    suspects: list[NodeDocument]
    last: list[NodeDocument]
    completions: Count
    nodes: Count
    collectives: Count
    collectives_passed: Count
    wait: Ns | None
    error: str | None
    ranks: list[RankProgressDocument]
    differing_ranks: list[Count]
    invalid_arguments: list[InvalidArgumentDocument]


class MemoryFaultDocument(TypedDict):
    """Memory that a replay would use after its end."""

    cause: str
    sentence: Sentence
    title: Sentence
    advice: Sentence
    graph: str
    node: NodeDocument | None
    owner: str
    description: str
    fate: str
    free_place: str | None
    after_replay: Count
    before_replay: Count
    argument: Count | None
    allocation_place: str | None


class CheckGapDocument(TypedDict):
    """A part that was not checked."""

    subject: str
    reason: Sentence
    count: Count


class CheckedProcessDocument(TypedDict):
    """Check of one bundle."""

    subject: str
    verdict: Sentence
    graphs: Count
    operators: Count
    hash_count: Count
    nodes: Count
    replays: Count
    wrong: list[WrongOperatorDocument]
    stops: list[ReplayStopDocument]
    memory: list[MemoryFaultDocument]
    gaps: list[CheckGapDocument]


class ReplayCheckDocument(TypedDict):
    """Checks of replays."""

    checks: list[CheckedProcessDocument]


def build_replay_check_document(diagnoses: Sequence[ReplayDiagnosis]) -> ReplayCheckDocument:
    """Build the document of the checked bundles."""
    return {"checks": [_build_check(diagnosis) for diagnosis in diagnoses]}


def _build_check(diagnosis: ReplayDiagnosis) -> CheckedProcessDocument:
    values = diagnosis.check.values
    return {
        "subject": diagnosis.check.subject,
        "verdict": format_replay_verdict(diagnosis),
        "graphs": diagnosis.check.graphs,
        "operators": sum(len(item.operators) for item in values),
        "hash_count": sum(item.hash_count for item in values),
        "nodes": sum(item.nodes for item in values),
        "replays": sum(item.rounds * item.replays for item in values),
        "wrong": [_build_wrong(wrong) for wrong in diagnosis.wrong],
        "stops": [_build_stop(fault) for fault in diagnosis.stops],
        "memory": [_build_memory(fault) for fault in diagnosis.memory],
        "gaps": [
            {"subject": item.subject, "reason": item.reason, "count": item.count}
            for item in diagnosis.gaps
        ],
    }


def _build_wrong(wrong: WrongOperator) -> WrongOperatorDocument:
    difference, elements = wrong.difference, wrong.elements
    tensor = difference.tensor if difference else None
    return {
        "cause": wrong.cause.value,
        "sentence": format_wrong_operator(wrong),
        "title": CAUSE_TITLES[wrong.cause],
        "advice": CAUSE_ADVICE[wrong.cause],
        "op": wrong.operator.name,
        "operator": wrong.index,
        "location": _get_text(wrong.operator.location),
        "module": wrong.operator.module,
        "first_node": wrong.node,
        "replay": difference.replay if difference else None,
        "changed_inputs": bool(difference and difference.round),
        "tensor": f"{tensor.role} {tensor.dtype} {list(tensor.shape)}" if tensor else None,
        "capture_value": wrong.fact.capture_value if wrong.fact else None,
        "eager": list(wrong.fact.eager) if wrong.fact else [],
        "kernels": list(wrong.kernels),
        "relative_difference": difference.relative if difference else None,
        "noise": difference.eager_difference if difference else None,
        "differing_elements": elements.differing_elements if elements else None,
        "elements": [
            {"index": list(item.index), "eager": item.eager, "replay": item.replay}
            for item in (elements.first if elements else ())
        ],
    }


def _build_stop(fault: StopFault) -> ReplayStopDocument:
    stop = fault.stop
    return {
        "kind": stop.kind,
        "cause": fault.cause.value,
        "sentence": format_stop(fault),
        "title": CAUSE_TITLES[fault.cause],
        "advice": CAUSE_ADVICE[fault.cause],
        "graph": stop.graph,
        "key": stop.key,
        "capture_place": _get_text(stop.capture_location),
        "rank": stop.rank,
        "replay": stop.replay,
        "is_running": stop.is_running,
        "suspects": [_build_node(node) for node in stop.suspects],
        "last": [_build_node(node) for node in stop.last],
        "completions": stop.completions,
        "nodes": stop.nodes,
        "collectives": stop.collectives,
        "collectives_passed": stop.collectives_passed,
        "wait": stop.waited_ns,
        "error": stop.error,
        "ranks": [
            {
                "rank": item.rank,
                "replay": item.replay,
                "busy": item.is_busy,
                "collectives": item.collectives,
                "collectives_passed": item.collectives_passed,
                "missing_collectives": list(item.missing_collectives),
            }
            for item in stop.ranks
        ],
        "differing_ranks": [item.rank for item in find_differing_ranks(fault)],
        "invalid_arguments": [
            {"node": item.node, "argument": item.argument, "value": item.value}
            for item in stop.invalid_arguments
        ],
    }


def _build_memory(fault: MemoryFault) -> MemoryFaultDocument:
    memory = fault.memory
    return {
        "cause": fault.cause.value,
        "sentence": format_memory_fault(fault),
        "title": CAUSE_TITLES[fault.cause],
        "advice": CAUSE_ADVICE[fault.cause],
        "graph": memory.graph,
        "node": _build_node(memory.node) if memory.node else None,
        "owner": memory.owner,
        "description": memory.description,
        "fate": memory.fate,
        "free_place": _get_text(memory.free_location),
        "after_replay": memory.after_replay,
        "before_replay": memory.reported_before_replay,
        "argument": memory.argument,
        "allocation_place": _get_text(memory.allocation_location),
    }


def _build_node(node: NodeOwner) -> NodeDocument:
    return {
        "graph": node.graph,
        "node": node.index,
        "kind": node.kind,
        "name": node.name,
        "op": node.op,
        "location": _get_text(node.location),
        "module": node.module,
        "collective": node.collective,
    }


def _get_text(location: CodeLocation | None) -> str | None:
    return location.text if location else None
