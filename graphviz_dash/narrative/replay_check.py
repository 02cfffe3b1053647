"""Replay checks in words: one sentence per fault, its evidence and advice."""

from __future__ import annotations

from typing import Final

from graphviz_dash.analysis.replay_check import (
    MemoryFault,
    ReplayCause,
    ReplayDiagnosis,
    ReplayFault,
    StopFault,
    WrongOperator,
    find_differing_ranks,
)
from graphviz_dash.analysis.trace.kernel_names import shorten_name
from graphviz_dash.model.doctor import CodeLocation
from graphviz_dash.model.replay_check import (
    CheckedOperator,
    CheckGap,
    ElementDifference,
    FactKind,
    InvalidArgument,
    NodeOwner,
    RankProgress,
    ReplayStop,
    WrongElements,
)
from graphviz_dash.units import format_count, format_ns, pluralize

_MAX_KERNELS: Final = 3
_SHOWN_FACTS: Final = (FactKind.SCALAR, FactKind.SHAPE, FactKind.PARAMETER)

CAUSE_TITLES: Final = {
    ReplayCause.INPUT_REPLACED: "Input replaced",
    ReplayCause.MEMORY_FREED: "Memory freed",
    ReplayCause.MEMORY_MOVED: "Memory moved",
    ReplayCause.SCALAR_FROZEN: "Number frozen at the capture",
    ReplayCause.HOST_WORK: "CPU work missing from replays",
    ReplayCause.CONTROL_FLOW: "Another branch",
    ReplayCause.CHANGING_SHAPE: "Changed size",
    ReplayCause.MISSING_JOIN: "Missing wait between streams",
    ReplayCause.RANDOM_NUMBERS: "Random numbers of the capture",
    ReplayCause.OTHER_GRAPH: "Memory of another graph",
    ReplayCause.GRADIENT_OVERWRITTEN: "Gradient overwritten",
    ReplayCause.MEMORY_CHANGE: "Memory changed between replays",
    ReplayCause.ESCAPED_WORK: "Work missing from the graph",
    ReplayCause.FOREIGN_KERNEL: "Kernel outside operators",
    ReplayCause.SECOND_REPLAY: "Later replay wrong",
    ReplayCause.CRASH: "Crash",
    ReplayCause.COLLECTIVE: "Collective waits for another rank",
    ReplayCause.HANG: "Hang",
    ReplayCause.UNKNOWN: "Cause unknown",
}

CAUSE_ADVICE: Final = {
    ReplayCause.INPUT_REPLACED: "Copy new values into the captured tensor: static.copy_(new).",
    ReplayCause.MEMORY_FREED: "Keep a reference to the tensor as long as the graph is replayed.",
    ReplayCause.MEMORY_MOVED: "Allocate the largest size before the capture and keep the storage.",
    ReplayCause.SCALAR_FROZEN: (
        "Keep the number in a GPU tensor and update it before each replay, or capture again."
    ),
    ReplayCause.HOST_WORK: (
        "Do the CPU work before each replay, outside the capture, in the captured pinned tensor."
    ),
    ReplayCause.CONTROL_FLOW: "Capture one graph per branch and choose the graph at each step.",
    ReplayCause.CHANGING_SHAPE: "Pad to a fixed size, or capture one graph per size.",
    ReplayCause.MISSING_JOIN: "Let the reading stream wait: reader.wait_stream(writer).",
    ReplayCause.RANDOM_NUMBERS: "Draw random numbers on the GPU with the default generator.",
    ReplayCause.OTHER_GRAPH: (
        "Keep the other graph alive and unreset, or copy its result into memory of your own."
    ),
    ReplayCause.GRADIENT_OVERWRITTEN: (
        "Allocate each `.grad` before the first step and keep it: zero_grad(set_to_none=False)."
    ),
    ReplayCause.MEMORY_CHANGE: "Write the memory only before a replay, on the same stream.",
    ReplayCause.ESCAPED_WORK: (
        "Run the work on the captured stream, or on one that waited for it: side.wait_stream(main)."
    ),
    ReplayCause.FOREIGN_KERNEL: (
        "Pass values that change through GPU memory, not as arguments of the kernel."
    ),
    ReplayCause.SECOND_REPLAY: "Look for memory that a replay changes and an eager step resets.",
    ReplayCause.CRASH: "Check the indices and addresses that the kernel receives at this replay.",
    ReplayCause.COLLECTIVE: "Let every rank replay the same collectives in the same order.",
    ReplayCause.HANG: "Find the flag, CPU work or stream that the kernel waits for.",
    ReplayCause.UNKNOWN: "Compare the elements below with the line's inputs.",
}


def format_replay_verdict(diagnosis: ReplayDiagnosis) -> str:
    """Return the verdict in one sentence."""
    if diagnosis.fault_count:
        first = list_fault_sentences(diagnosis)[0]
        rest = diagnosis.fault_count - 1
        return first if not rest else f"{first} {pluralize(rest, 'further fault')} found."
    values = diagnosis.check.values
    if values:
        first_values = values[0]
        replays = first_values.rounds * first_values.replays
        return (
            f"All {format_count(first_values.hash_count)} tensors of "
            f"{pluralize(len(first_values.operators), 'operator')} agree with eager steps in "
            f"{pluralize(replays, 'replay')}."
        )
    if diagnosis.check.graphs and diagnosis.check.subject == "program":
        return (
            f"No crash, no hang and no freed memory in "
            f"{pluralize(diagnosis.check.graphs, 'graph')}."
        )
    reason = diagnosis.gaps[0].reason if diagnosis.gaps else "nothing was captured"
    return f"Replays were not checked: {reason}."


def list_fault_sentences(diagnosis: ReplayDiagnosis) -> list[str]:
    """Return one sentence per fault, most important first."""
    return list(map(format_fault, diagnosis.faults))


def format_fault(fault: ReplayFault) -> str:
    """Describe a fault in one sentence."""
    match fault:
        case StopFault():
            return format_stop(fault)
        case WrongOperator():
            return format_wrong_operator(fault)
        case MemoryFault():
            return format_memory_fault(fault)


def list_fault_facts(fault: ReplayFault) -> list[tuple[str, str]]:
    """Return the known facts of a fault: label and text."""
    match fault:
        case StopFault(stop=stop):
            facts = _list_stop_facts(stop)
        case WrongOperator():
            facts = _list_wrong_facts(fault)
        case MemoryFault(memory=memory):
            facts = [
                ("Graph", memory.graph),
                ("Memory", memory.description),
                (
                    "Allocated at",
                    memory.allocation_location.text if memory.allocation_location else None,
                ),
                ("Reported before replay", format_count(memory.reported_before_replay)),
                ("Used by", format_node(memory.node) if memory.node else None),
                ("Argument", None if memory.argument is None else str(memory.argument)),
            ]
    return [(label, text) for label, text in facts if text is not None]


def _list_stop_facts(stop: ReplayStop) -> list[tuple[str, str | None]]:
    return [
        ("Graph", stop.graph),
        ("Label", stop.key),
        ("Captured at", stop.capture_location.text if stop.capture_location else None),
        ("Replay", format_count(stop.replay)),
        ("Rank", None if stop.rank is None else str(stop.rank)),
        ("Nodes that ended", format_completions(stop)),
        ("Last nodes", "; ".join(map(format_node, stop.last)) or None),
        ("Error", stop.error),
    ]


def format_progress(stop: ReplayStop) -> str:
    """Describe the replay that stopped and its progress as a label."""
    rank = "" if stop.rank is None else f", rank {stop.rank}"
    replay = f"{stop.graph}{rank}, replay {format_count(stop.replay)}"
    return f"{replay}: {format_completions(stop)} nodes ended"


def format_completions(stop: ReplayStop) -> str:
    """Format the number of nodes that ended."""
    return f"{format_count(stop.completions)} of {format_count(stop.nodes)}"


def _list_wrong_facts(wrong: WrongOperator) -> list[tuple[str, str | None]]:
    operator, difference = wrong.operator, wrong.difference
    return [
        ("Operator", operator.name),
        ("Module", operator.module),
        ("Graph node", None if wrong.node is None else str(wrong.node)),
        ("Value in the capture", wrong.fact.capture_value if wrong.fact else None),
        ("Value in eager steps", ", ".join(wrong.fact.eager) if wrong.fact else None),
        ("Replay", format_count(difference.replay) if difference else None),
        (
            "Relative difference",
            f"{difference.relative:.3g}" if difference and difference.relative else None,
        ),
        (
            "Between two eager steps",
            f"{difference.eager_difference:.3g}"
            if difference and difference.eager_difference is not None
            else None,
        ),
    ]


def format_differing_elements(elements: WrongElements) -> str:
    """Format the number of elements that differ."""
    differing = format_count(elements.differing_elements)
    return f"{differing} of {format_count(elements.elements)} elements differ"


def format_wrong_operator(wrong: WrongOperator) -> str:
    """Describe the first wrong operator and its cause in one sentence."""
    location_text = format_operator(wrong.operator)
    if wrong.difference is None and wrong.cause is not ReplayCause.MISSING_JOIN:
        return f"The program's graph is out of date at {location_text}: {_explain_cause(wrong)}."
    if wrong.difference is None:
        return f"{location_text}: {_explain_cause(wrong)}. Values agreed in this check."
    number = wrong.difference.replay
    inputs = " with other inputs" if wrong.difference.round else ""
    return f"Replay {number}{inputs} is wrong from {location_text} on: {_explain_cause(wrong)}."


def format_operator(operator: CheckedOperator) -> str:
    """Describe an operator with its line and module."""
    text = operator.name
    if operator.location is not None:
        text += f" at {operator.location.text}"
    return f"{text} ({operator.module})" if operator.module else text


def _explain_cause(wrong: WrongOperator) -> str:
    fact = _format_fact(wrong)
    other = wrong.fact.eager[0] if wrong.fact and wrong.fact.eager else "something else"
    writer = format_operator(wrong.writer) if wrong.writer else None
    names = ", ".join(map(shorten_name, wrong.kernels[:_MAX_KERNELS]))
    phrases = {
        ReplayCause.SCALAR_FROZEN: f"a number keeps its value of the capture{fact}",
        ReplayCause.INPUT_REPLACED: (
            "the graph reads the tensor of the capture, the program has another one"
        ),
        ReplayCause.CONTROL_FLOW: f"an eager step runs {other} here",
        ReplayCause.CHANGING_SHAPE: f"a tensor has another shape in an eager step{fact}",
        ReplayCause.HOST_WORK: "a replay does not run the CPU work that fills its input"
        + (f" ({writer})" if writer else ""),
        ReplayCause.RANDOM_NUMBERS: "the replay uses the random numbers of the capture",
        ReplayCause.MISSING_JOIN: (
            f"it does not wait for {writer or 'an operator'}, which writes its input on another "
            "stream"
        ),
        ReplayCause.ESCAPED_WORK: ("its stream is not part of the capture, so the graph lacks it"),
        ReplayCause.FOREIGN_KERNEL: (
            f"its input was written by a kernel that is no operator: {names}{fact}"
        ),
        ReplayCause.MEMORY_CHANGE: "its input changed between two replays",
        ReplayCause.SECOND_REPLAY: "earlier replays are right",
    }
    return phrases.get(wrong.cause, "the cause is unknown")


def _format_fact(wrong: WrongOperator) -> str:
    fact = wrong.fact
    if fact is None or fact.kind not in _SHOWN_FACTS or not fact.eager:
        return ""
    return f" ({fact.capture_value}, eager {fact.eager[0]})"


def format_stop(fault: StopFault) -> str:
    """Describe a crash or hang in one sentence."""
    stop = fault.stop
    rank = "" if stop.rank is None else f" of rank {stop.rank}"
    key = f" ({stop.key})" if stop.key else ""
    replay = f"Replay {format_count(stop.replay)} of {stop.graph}{key}{rank}"
    if not stop.is_running:
        return f"{replay} waits for earlier work of its stream."
    nodes = " and ".join(map(format_node, stop.suspects)) or "an unknown node"
    if stop.kind == "crash":
        error = f" ({stop.error})" if stop.error else ""
        reasons = [
            *_describe_memory(fault),
            *map(_describe_argument, stop.invalid_arguments[:_MAX_KERNELS]),
        ]
        reason = f": {'; '.join(reasons)}" if reasons else ""
        return f"{replay} crashed in {nodes}{error}{reason}."
    wait = f" for {format_ns(stop.waited_ns)}" if stop.waited_ns is not None else ""
    return f"{replay} hangs{wait} in {nodes}{_format_ranks(fault)}."


def _describe_memory(fault: StopFault) -> list[str]:
    memory = fault.memory
    if memory is None:
        return []
    line = f" at {memory.free_location.text}" if memory.free_location else ""
    user = "it uses" if memory.argument is None else f"argument {memory.argument} points to"
    replay = f" after replay {format_count(memory.after_replay)}"
    return [f"{user} {memory.description}, {memory.fate}{line}{replay}"]


def _describe_argument(argument: InvalidArgument) -> str:
    return f"argument {argument.argument} is {argument.value}, which is in no allocation"


def _format_ranks(fault: StopFault) -> str:
    stop = fault.stop
    if len(stop.ranks) < 2:
        return f"; {format_passed(stop)} passed" if stop.collectives else ""
    parts = [f"rank {item.rank} passed {format_passed(item)}" for item in stop.ranks]
    others = [item for item in fault.lagging if item.rank != stop.rank]
    nodes = [
        f"rank {item.rank} is in {format_node(item.suspects[0])}"
        for item in others
        if item.suspects
    ]
    differing = ", ".join(map(_format_differing_rank, find_differing_ranks(fault)))
    verdict = [f"the others wait for {differing}"] if differing else []
    return "; " + "; ".join([", ".join(parts), *nodes, *verdict])


def _format_differing_rank(item: RankProgress) -> str:
    if not item.missing_collectives:
        return f"rank {item.rank}"
    numbers = ", ".join(map(str, item.missing_collectives[:_MAX_KERNELS]))
    word = "collective" if len(item.missing_collectives) == 1 else "collectives"
    return f"rank {item.rank}, whose graph lacks {word} {numbers}"


def format_passed(stop: ReplayStop | RankProgress) -> str:
    """Format the number of collectives that a rank passed."""
    return f"{stop.collectives_passed} of {stop.collectives} collectives"


def format_node(node: NodeOwner) -> str:
    """Describe a node with its kernel, operator and line."""
    name = shorten_name(node.name) if node.name else node.kind
    text = f"node {node.index}, {name}"
    if node.collective is not None:
        text += f", collective {node.collective}"
    details = [node.op, node.location.text if node.location else None, node.module]
    summary = " at ".join(part for part in details[:2] if part)
    return f"{text} ({summary})" if summary else text


def format_memory_fault(fault: MemoryFault) -> str:
    """Describe memory that a replay would use after its end in one sentence."""
    memory = fault.memory
    if fault.cause is ReplayCause.GRADIENT_OVERWRITTEN:
        return (
            f"Replay {format_count(memory.reported_before_replay)} of {memory.graph} would "
            f"overwrite a parameter's gradient that is not used yet: {memory.description}."
        )
    user = f", used by {format_node(memory.node)}" if memory.node else ""
    return (
        f"Replay {format_count(memory.reported_before_replay)} of {memory.graph} would use "
        f"{memory.description}, which is {memory.fate}{_format_place(memory.free_location)}{user}."
    )


def _format_place(location: CodeLocation | None) -> str:
    return f" by {location.text}" if location else ""


def format_element_difference(element: ElementDifference) -> str:
    """Describe an element that differs."""
    return f"{list(element.index)}: eager {element.eager:.6g}, replay {element.replay:.6g}"


def format_gap(item: CheckGap) -> str:
    """Describe a part that was not checked."""
    count = f"{format_count(item.count)} " if item.count > 1 else ""
    return f"{count}{item.subject}: {item.reason}"
