"""Build the JSON of a check of replays."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import field

from graphviz_dash.analysis.replay_check import (
    MemoryFault,
    ReplayCause,
    ReplayDiagnosis,
    StopFault,
    WrongOperator,
    find_differing_ranks,
)
from graphviz_dash.exports.documents.values import Count, Document, Ns, Sentence, build
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


class NodeDocument(Document, frozen=True):
    """A graph node and the code that captured it."""

    graph: str
    index: Count = field(name="node")
    kind: str
    name: str | None
    op: str | None
    location: str | None
    module: str | None
    collective: Count | None


class ElementDocument(Document, frozen=True):
    """An element after an eager step and after a replay."""

    index: list[Count]
    eager: float
    replay: float


class WrongOperatorDocument(Document, frozen=True):
    """The first operator that a replay computes differently from an eager step."""

    cause: str
    sentence: Sentence
    title: Sentence
    advice: Sentence
    name: str = field(name="op")
    index: Count = field(name="operator")
    location: str | None
    module: str | None
    node: Count | None = field(name="first_node")
    replay: Count | None
    changed_inputs: bool
    tensor: str | None
    capture_value: str | None
    eager: list[str]
    kernels: list[str]
    relative: float | None = field(name="relative_difference")
    eager_difference: float | None = field(name="noise")
    differing_elements: Count | None
    elements: list[ElementDocument]


class RankProgressDocument(Document, frozen=True):
    """Progress of a rank while another rank hangs."""

    rank: Count
    replay: Count
    is_busy: bool = field(name="busy")
    collectives: Count
    collectives_passed: Count
    missing_collectives: list[Count]


class InvalidArgumentDocument(Document, frozen=True):
    """A kernel argument of the size of an address that was in no allocation at the capture."""

    node: Count
    argument: Count
    value: str


class ReplayStopDocument(Document, frozen=True):
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
    waited_ns: Ns | None = field(name="wait")
    error: str | None
    ranks: list[RankProgressDocument]
    differing_ranks: list[Count]
    invalid_arguments: list[InvalidArgumentDocument]


class MemoryFaultDocument(Document, frozen=True):
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
    reported_before_replay: Count = field(name="before_replay")
    argument: Count | None
    allocation_place: str | None


class CheckGapDocument(Document, frozen=True):
    """A part that was not checked."""

    subject: str
    reason: Sentence
    count: Count


class CheckedProcessDocument(Document, frozen=True):
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


class ReplayCheckDocument(Document, frozen=True):
    """Checks of replays."""

    checks: list[CheckedProcessDocument]


def build_replay_check_document(diagnoses: Sequence[ReplayDiagnosis]) -> ReplayCheckDocument:
    """Build the document of a check, one entry per bundle."""
    return ReplayCheckDocument(checks=[_build_check(diagnosis) for diagnosis in diagnoses])


def _build_check(diagnosis: ReplayDiagnosis) -> CheckedProcessDocument:
    values = diagnosis.check.values
    return build(
        CheckedProcessDocument,
        diagnosis,
        diagnosis.check,
        verdict=format_replay_verdict(diagnosis),
        operators=sum(len(item.operators) for item in values),
        hash_count=sum(item.hash_count for item in values),
        nodes=sum(item.nodes for item in values),
        replays=sum(item.rounds * item.replays for item in values),
        wrong=[_build_wrong(wrong) for wrong in diagnosis.wrong],
        stops=[_build_stop(fault) for fault in diagnosis.stops],
        memory=[_build_memory(fault) for fault in diagnosis.memory],
    )


def _describe_cause(cause: ReplayCause) -> dict[str, str]:
    return {"cause": cause.value, "title": CAUSE_TITLES[cause], "advice": CAUSE_ADVICE[cause]}


def _build_wrong(wrong: WrongOperator) -> WrongOperatorDocument:
    difference, elements = wrong.difference, wrong.elements
    tensor = difference.tensor if difference else None
    return build(
        WrongOperatorDocument,
        wrong,
        wrong.operator,
        difference,
        wrong.fact,
        **_describe_cause(wrong.cause),
        sentence=format_wrong_operator(wrong),
        location=_get_text(wrong.operator.location),
        changed_inputs=bool(difference and difference.round),
        tensor=f"{tensor.role} {tensor.dtype} {list(tensor.shape)}" if tensor else None,
        eager=wrong.fact.eager if wrong.fact else [],
        differing_elements=elements and elements.differing_elements,
        elements=elements.first if elements else [],
    )


def _build_stop(fault: StopFault) -> ReplayStopDocument:
    stop = fault.stop
    return build(
        ReplayStopDocument,
        stop,
        **_describe_cause(fault.cause),
        sentence=format_stop(fault),
        capture_place=_get_text(stop.capture_location),
        suspects=[_build_node(node) for node in stop.suspects],
        last=[_build_node(node) for node in stop.last],
        differing_ranks=[item.rank for item in find_differing_ranks(fault)],
    )


def _build_memory(fault: MemoryFault) -> MemoryFaultDocument:
    memory = fault.memory
    return build(
        MemoryFaultDocument,
        memory,
        **_describe_cause(fault.cause),
        sentence=format_memory_fault(fault),
        node=memory.node and _build_node(memory.node),
        free_place=_get_text(memory.free_location),
        allocation_place=_get_text(memory.allocation_location),
    )


def _build_node(node: NodeOwner) -> NodeDocument:
    return build(NodeDocument, node, location=_get_text(node.location))


def _get_text(location: CodeLocation | None) -> str | None:
    return location.text if location else None
