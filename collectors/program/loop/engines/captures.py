"""Read the key of a graph from the frames that capture it."""

from __future__ import annotations

from itertools import islice
from types import FrameType
from typing import Final

from collectors.passes.annotate import iter_callers
from collectors.program.loop.engines import sglang, vllm
from collectors.program.loop.engines.frames import read_variables
from collectors.program.loop.events import CaptureFacts

_READERS: Final = (vllm.read_capture, sglang.read_capture)

_FRAMES: Final = 4
"""Number of capturing frames whose variables are kept."""
_NUMBERS: Final = 64
"""Maximum number of variables per frame."""
_LARGEST: Final = 1 << 31


def read_record_fields(frame: FrameType | None) -> dict[str, int]:
    """Read the positive integer fields of immutable dataclasses around ``frame``: a program often
    looks its graphs up by one.

    These are variables of the innermost frames of the program, and attributes of ``self`` there.
    """
    fields: dict[str, int] = {}
    for caller in islice(iter_callers(frame), _FRAMES):
        variables = read_variables(caller)
        owner = getattr(variables.get("self"), "__dict__", {})
        for value in islice((*variables.values(), *owner.values()), _NUMBERS):
            parameters = getattr(type(value), "__dataclass_params__", None)
            if getattr(parameters, "frozen", False):
                for name in islice(type(value).__dataclass_fields__, _NUMBERS):
                    number = getattr(value, "__dict__", {}).get(name)
                    if type(number) is int and 0 < number < _LARGEST:
                        fields.setdefault(name, number)
    return fields


def find_capture_facts(frame: FrameType | None) -> CaptureFacts | None:
    """Return an engine's facts for the graph that ``frame`` captures. None for other captures.

    Raises:
        AttributeError, KeyError: Unknown version of the engine.
    """
    while frame is not None:
        for read in _READERS:
            facts = read(frame)
            if facts is not None:
                return facts
        frame = frame.f_back
    return None


def find_graph_name(frame: FrameType | None) -> str | None:
    """Return an engine's name for the graph captured in ``frame``. None for other captures.

    megatron-core captures forward and backward of each layer: ``layer 3 forward``.

    Raises:
        AttributeError, KeyError: Unknown version of the engine.
    """
    while frame is not None:
        code = frame.f_code
        pass_name = _MEGATRON_PASSES.get(code.co_name)
        if pass_name is not None and code.co_filename.endswith(
            "megatron/core/transformer/cuda_graphs.py"
        ):
            return f"layer {read_variables(frame)['self'].base_module.layer_number} {pass_name}"
        frame = frame.f_back
    return None


_MEGATRON_PASSES: Final = {"create_fwd_graph": "forward", "create_bwd_graph": "backward"}


def read_numbers(frame: FrameType | None) -> dict[str, int]:
    """Read the positive integer variables of the program's innermost frames around ``frame``.

    An inner variable hides outer ones of its name.
    """
    numbers: dict[str, int] = {}
    for caller in islice(iter_callers(frame), _FRAMES):
        values = (
            (name, value)
            for name, value in read_variables(caller).items()
            if type(value) is int and 0 < value < _LARGEST
        )
        for name, value in islice(values, _NUMBERS):
            numbers.setdefault(name, value)
    return numbers
