"""Find the instructions of programmatic launch in compiled kernels.

``griddepcontrol.wait`` compiles to ACQBULK and ``griddepcontrol.launch_dependents`` to PREEXIT, as
nvdisasm shows for compute capability 9.0 and 10.0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from collectors.cupti.elf import list_sections, read_machine
from graphviz_dash.model.graph import CapturedGraph, KernelParams

_MACHINE: Final = 190
"""Machine of an ELF file with code for a GPU."""
_CODE: Final = ".text."
_INSTRUCTION_BYTES: Final = 16
"""Since compute capability 7.0."""
_OPCODE: Final = 0xFFF
_ACQBULK: Final = 0x82E
_PREEXIT: Final = 0x82D


class LaunchControl(Struct, frozen=True):
    """Instructions of programmatic launch in a kernel."""

    waits: bool
    """It waits for the kernels before it (``griddepcontrol.wait``)."""
    triggers: bool
    """It releases the next kernels early (``griddepcontrol.launch_dependents``)."""


def find_launch_control(cubin: bytes) -> dict[str, LaunchControl]:
    """Return the launch instructions by mangled name; empty if not readable."""
    try:
        return {name: _inspect(code) for name, code in _list_functions(cubin)}
    except (struct.error, ValueError):
        return {}


def _inspect(code: bytes) -> LaunchControl:
    # Imported when code is read: recording starts with msgspec alone.
    import numpy as np

    words = np.frombuffer(code, "<u2", len(code) // _INSTRUCTION_BYTES * 8)
    opcodes = words[::8] & _OPCODE
    return LaunchControl(bool((opcodes == _ACQBULK).any()), bool((opcodes == _PREEXIT).any()))


def _list_functions(cubin: bytes) -> Iterator[tuple[str, bytes]]:
    if read_machine(cubin) != _MACHINE:
        return
    for section in list_sections(cubin):
        if section.name.startswith(_CODE):
            yield section.name.removeprefix(_CODE), cubin[section.begin : section.end]


def add_launch_control(
    graph: CapturedGraph, controls: Mapping[str, LaunchControl | None]
) -> CapturedGraph:
    """Add to each kernel whether it waits and triggers. Others remain unknown."""
    nodes = []
    for node in graph.nodes:
        params = node.params
        control = controls.get(params.name) if isinstance(params, KernelParams) else None
        if isinstance(params, KernelParams) and control is not None:
            params = replace(params, dependency_wait=control.waits, early_trigger=control.triggers)
            node = replace(node, params=params)  # noqa: PLW2901
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))
