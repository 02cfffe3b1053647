"""What the parts of a run's memory are, in sentences for pages, terminal and documentation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from graphviz_dash.analysis.memory.report import MemoryPart

PART_MEANINGS: Final[Mapping[MemoryPart, str]] = {
    MemoryPart.WEIGHTS: "Storages of torch.nn.Parameter.",
    MemoryPart.GRADIENTS: (
        "Their .grad, as far as it is alive at the step's peak. With zero_grad(set_to_none=True) "
        "an eager step has few of them then; a graph keeps theirs."
    ),
    MemoryPart.OPTIMIZER: "Tensors in the state of optimizers.",
    MemoryPart.TENSORS: (
        "Other live tensors of the default pool that outlast the step: inputs, buffers of "
        "modules, the static inputs that graphed callables copy into."
    ),
    MemoryPart.WORKSPACES: (
        "Live allocations that no Python tensor holds: workspaces of cuBLAS, one set for each "
        "stream, and so one more in the pool of each stream that captures."
    ),
    MemoryPart.ACTIVATIONS: (
        "Allocated and freed within a step, and alive at its peak: activations, temporaries, "
        "gradients of activations."
    ),
    MemoryPart.EXCLUSIVE: (
        "Places in private pools that the capture of exactly one graph allocated."
    ),
    MemoryPart.SHARED: (
        "Places in private pools that the captures of several graphs allocated, one after the "
        "other: graphs that run in capture order may share them."
    ),
    MemoryPart.UNUSED: (
        "Reserved by private pools, and no graph's: what rounding segments up leaves."
    ),
    MemoryPart.CACHE: (
        "Reserved in the default pool and free at the step's peak: for gradients and other "
        "tensors that come later in the step, or lost to fragmentation."
    ),
    MemoryPart.OUTSIDE: (
        "Device memory of the process less what the allocator reserved: CUDA context, loaded "
        "kernels, executable graphs, libraries' own memory. Where the driver does not list the "
        "process, all that the device has no longer free is taken, other processes included."
    ),
}
"""What each part is, for pages and documentation."""

PUBLISHED_OVERHEAD: Final = (
    "For graphs by layer NeMo's documentation says ~20% more memory for activations (GPT-3 20B on "
    "16 GH200 in FP8: another setup, see docs/gpt-training.md)"
)
"""What is known of others' activation overhead in mode partial; the source is on that page."""
