"""Steps with one planted fault at a known operator, in graphs of 100 to 3,000 nodes.

The network is a row of blocks. One block, chosen by its number, applies the fault; the block's path
and the operator name the place exactly.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from cuda.bindings import driver
from torch import nn

from collectors.driver.calls import call
from collectors.replays.kernels import compile_source

WIDTH: Final = 128
ROWS: Final = 64

Fault = Callable[["State", torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Truth:
    operator: str
    """Operator that first computes something else."""
    cause: str
    """Cause as the check calls it."""
    submodule: str = ""
    """Module of that operator inside the block, with a dot."""


@dataclass
class State:
    count: int = 0
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    streams: dict[str, Any] = field(default_factory=dict)
    history: list[torch.Tensor] = field(default_factory=list)


class Block(nn.Module):
    """About seven nodes, and the fault if this is its block."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.fault: Fault | None = None
        self.state = State()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.linear(x)) + 0.5 * x
        if self.fault is not None:
            y = self.fault(self.state, y)
        return self.norm(y)


FAULTS: Final[dict[str, tuple[Fault, Truth]]] = {}


def register_fault(
    name: str, operator: str, cause: str, submodule: str = ""
) -> Callable[[Fault], Fault]:
    def add(fault: Fault) -> Fault:
        FAULTS[name] = (fault, Truth(operator, cause, submodule))
        return fault

    return add


def _get(state: State, name: str, make: Callable[[], torch.Tensor]) -> torch.Tensor:
    if name not in state.tensors:
        state.tensors[name] = make()
    return state.tensors[name]


def _make_row(value: float = 0.1) -> torch.Tensor:
    return torch.full((WIDTH,), value, device="cuda")


@register_fault("scalar", "aten::mul", "scalar-frozen")
def scale_by_count(state: State, x: torch.Tensor) -> torch.Tensor:
    """A number of the program changes from step to step."""
    state.count += 1
    return x * (1 + 0.001 * state.count)


@register_fault("scalar-add", "aten::add", "scalar-frozen")
def add_count(state: State, x: torch.Tensor) -> torch.Tensor:
    """The same in another operator and with a small effect."""
    state.count += 1
    return x + 1e-4 * state.count


@register_fault("cpu-scalar", "aten::mul", "scalar-frozen")
def scale_by_cpu_tensor(state: State, x: torch.Tensor) -> torch.Tensor:
    """A CPU scalar is read at the capture."""
    factor = _get(state, "factor", lambda: torch.tensor(1.0))
    factor += 0.01
    return x * factor


@register_fault("random-scalar", "aten::mul", "scalar-frozen")
def scale_by_random(state: State, x: torch.Tensor) -> torch.Tensor:
    """A random number of Python is drawn at the capture only."""
    return x * (1 + 0.01 * random.random())


@register_fault("replaced", "aten::mul", "input-replaced")
def add_replaced(state: State, x: torch.Tensor) -> torch.Tensor:
    """The program puts another tensor in the place of an input."""
    bias = _get(state, "bias", _make_row)
    state.history.append(bias)
    state.tensors["bias"] = bias * 1.01
    return x + bias


@register_fault("batches", "aten::mul", "input-replaced")
def scale_by_batch(state: State, x: torch.Tensor) -> torch.Tensor:
    """Each step reads the next of several tensors."""
    if not state.history:
        state.history = [_make_row(0.9 + 0.02 * number) for number in range(8)]
    state.count += 1
    return x * state.history[state.count % 8]


@register_fault("window", "aten::add", "scalar-frozen")
def add_window(state: State, x: torch.Tensor) -> torch.Tensor:
    """Each step reads another part of a tensor."""
    table = _get(state, "table", lambda: torch.linspace(0, 1, 64 * WIDTH, device="cuda"))
    state.count += 1
    first = (state.count % 32) * WIDTH
    return x + table[first : first + WIDTH]


@register_fault("pinned", "aten::_to_copy", "host-work")
def add_pinned(state: State, x: torch.Tensor) -> torch.Tensor:
    """The CPU fills a pinned tensor in the step."""
    host = _get(state, "pinned", lambda: torch.zeros(WIDTH, pin_memory=True))
    state.count += 1
    host.fill_(0.1 * state.count)
    return x + host.to("cuda", non_blocking=True)


@register_fault("pinned-back", "aten::_to_copy", "host-work")
def copy_back(state: State, x: torch.Tensor) -> torch.Tensor:
    """The first replay is right, later ones are not (R7)."""
    host = _get(state, "pinned", lambda: torch.zeros(WIDTH, pin_memory=True))
    host.fill_(1.0)
    device = host.to("cuda", non_blocking=True)
    y = x + device
    host.copy_(device * 3, non_blocking=True)
    return y


@register_fault("cpu-noise", "aten::_to_copy", "random-numbers")
def add_cpu_noise(state: State, x: torch.Tensor) -> torch.Tensor:
    """Random numbers are drawn on the CPU."""
    host = _get(state, "pinned", lambda: torch.zeros(WIDTH, pin_memory=True))
    host.normal_()
    return x + 0.1 * host.to("cuda", non_blocking=True)


@register_fault("branch", "aten::relu", "control-flow")
def choose_branch(state: State, x: torch.Tensor) -> torch.Tensor:
    """The program takes another branch in every other step."""
    state.count += 1
    return torch.relu(x) if state.count % 2 else torch.sigmoid(x)


@register_fault("loop", "aten::native_layer_norm", "control-flow", ".norm")
def extend_loop(state: State, x: torch.Tensor) -> torch.Tensor:
    """Each step runs one operator more."""
    state.count += 1
    for _ in range(state.count):
        x = x * 0.99
    return x


@register_fault("shape", "aten::add", "changing-shape")
def add_prefix(state: State, x: torch.Tensor) -> torch.Tensor:
    """A size grows from step to step."""
    state.count += 1
    y = x[: 8 + state.count] + 0.5
    return x + y.mean()


@register_fault("no-join", "aten::add", "missing-join")
def read_too_early(state: State, x: torch.Tensor) -> torch.Tensor:
    """A result of another stream is read without waiting for it."""
    current = torch.cuda.current_stream()
    side = state.streams.setdefault("side", torch.cuda.Stream())
    side.wait_stream(current)
    with torch.cuda.stream(side):
        y = x
        for _ in range(4):
            y = torch.sin(y)
    state.history = [x, y]
    z = x + y
    current.wait_stream(side)
    return z


@register_fault("escaped", "aten::add_", "escaped-work")
def update_elsewhere(state: State, x: torch.Tensor) -> torch.Tensor:
    """An update runs on a stream that the capture does not know."""
    total = _get(state, "total", _make_row)
    side = state.streams.setdefault("side", torch.cuda.Stream())
    with torch.cuda.stream(side):
        total.add_(0.01)
    return x + total


_SCALE: Final = r"""
extern "C" __global__ void scale(float* data, int count, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] *= factor;
}
"""
_functions: dict[str, Any] = {}


def launch_scale(x: torch.Tensor, factor: float) -> None:
    """Scale a tensor by a kernel that is no operator."""
    import ctypes

    if "scale" not in _functions:
        major, minor = torch.cuda.get_device_capability()
        module = call(driver.cuModuleLoadData, compile_source(_SCALE, f"sm_{major}{minor}"))
        _functions["scale"] = call(driver.cuModuleGetFunction, module, b"scale")
    arguments = (
        ctypes.c_void_p(x.data_ptr()),
        ctypes.c_int(x.numel()),
        ctypes.c_float(factor),
    )
    pointers = (ctypes.c_void_p * 3)(*map(ctypes.addressof, arguments))
    grid = -(-x.numel() // 256)
    stream = torch.cuda.current_stream().cuda_stream
    call(
        driver.cuLaunchKernel,
        _functions["scale"],
        *(grid, 1, 1, 256, 1, 1, 0),
        stream,
        ctypes.addressof(pointers),
        0,
    )


@register_fault("foreign", "aten::add", "foreign-kernel")
def scale_by_kernel(state: State, x: torch.Tensor) -> torch.Tensor:
    """A kernel that is no operator receives a number that changes."""
    state.count += 1
    y = x * 1.0
    launch_scale(y.detach(), 1 + 0.01 * state.count)
    return y + 1.0


@register_fault("dropout-list", "aten::mul", "input-replaced")
def scale_by_new_mask(state: State, x: torch.Tensor) -> torch.Tensor:
    """The program makes a new mask outside and throws the old one away."""
    mask = _get(state, "mask", _make_row)
    result = x * mask
    state.history = [*state.history[-8:], mask]
    state.tensors["mask"] = mask.clone() * 0.99
    return result


@dataclass(frozen=True)
class FaultyStep:
    """A step with a fault."""

    step: Callable[[], object]
    truth: Truth
    module: str


def build(name: str, blocks: int, seed: int, *, train: bool) -> FaultyStep:
    """Build a step of ``blocks`` blocks with the fault at a random block."""
    torch.manual_seed(seed)
    fault, truth = FAULTS[name]
    net = nn.Sequential(*(Block() for _ in range(blocks))).cuda()
    at = random.Random(seed).randrange(blocks)
    net[at].fault = fault
    return FaultyStep(_build_step(net, train=train), truth, f"net.{at}{truth.submodule}")


def build_clean(blocks: int, *, train: bool) -> Callable[[], object]:
    torch.manual_seed(0)
    net = nn.Sequential(*(Block() for _ in range(blocks))).cuda()
    return _build_step(net, train=train)


def _build_step(net: nn.Sequential, *, train: bool) -> Callable[[], object]:
    x = torch.randn(ROWS, WIDTH, device="cuda")
    optimizer = torch.optim.Adam(net.parameters(), 1e-4, capturable=True) if train else None

    def step() -> object:
        if optimizer is None:
            with torch.no_grad():
                return net(x)
        optimizer.zero_grad(set_to_none=True)
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step
