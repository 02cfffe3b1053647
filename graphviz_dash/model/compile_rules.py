"""The rules of torch.compile with CUDA graphs: what each says, why, and what to write instead.

Sources: PyTorch, "CUDAGraph Trees", "torch.compile Troubleshooting" and "Recompilation", and the
reasons that torch 2.11 to 2.13 give. docs/reference/rules.md lists them, written by ``make docs``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct


class CompileRuleId(StrEnum):
    """What a program must keep so that its compiled step is replayed as one graph."""

    GRAPH_BREAK = "graph-break"
    VALUE_READ = "value-read"
    PYTHON_SIDE_EFFECT = "python-side-effect"
    DISABLED_FUNCTION = "disabled-function"
    RECOMPILING = "recompiling"
    RECOMPILE_LIMIT = "recompile-limit"
    CPU_WORK = "cpu-work"
    COPY_BETWEEN_DEVICES = "copy-between-devices"
    UNSAFE_OPERATOR = "unsafe-operator"
    SIZE_FROM_DATA = "size-from-data"
    SPLIT_UNTOLD = "split-untold"
    MUTATED_INPUT = "mutated-input"
    CHANGING_SIZES = "changing-sizes"
    NOT_RECORDED = "not-recorded"
    COPIED_INPUTS = "copied-inputs"
    MOVED_INPUT = "moved-input"
    CALLS_IN_ONE_STEP = "calls-in-one-step"
    PENDING_BACKWARD = "pending-backward"
    OVERWRITTEN_OUTPUT = "overwritten-output"
    CAPTURE_FAILED = "capture-failed"


class CompileRule(Struct, frozen=True):
    """One rule."""

    id: CompileRuleId
    """By which causes name it."""
    title: str
    """A few words."""
    text: str
    """What it says and why."""
    advice: str
    """What to do instead."""
    wrong: str
    """A few lines that break it."""
    right: str
    """What to write instead."""

    @property
    def heading(self) -> str:
        """Heading of its section in the reference; some ids are also those of capture rules."""
        return f"{self.id.value} (compile)"


_ALL: Final = (
    CompileRule(
        CompileRuleId.GRAPH_BREAK,
        "Dynamo cannot go on",
        "The line is run by Python, and what is before and behind it become two graphs, each with "
        "guards, wrappers and a launch of its own; the GPU waits while Python is between them.",
        "Move the line out of the compiled function, or replace it by what Dynamo knows; "
        "`fullgraph=True` makes every break an error.",
        "y = layer(x)\nexternal_library(y)\nz = head(y)",
        "z = head(layer(x))  # compiled\nexternal_library(z)  # behind it",
    ),
    CompileRule(
        CompileRuleId.VALUE_READ,
        "Python decides by a value on the GPU",
        "`.item()`, `float()`, `bool()` and `if` on a tensor wait for the GPU and end the graph: "
        "what follows cannot be known before.",
        "Keep the value on the GPU: `torch.where` instead of `if`, a tensor instead of a number; "
        "read it behind the step, every few steps.",
        "if loss > limit:\n    grad = grad * 0.5",
        "grad = torch.where(loss > limit, grad * 0.5, grad)",
    ),
    CompileRule(
        CompileRuleId.PYTHON_SIDE_EFFECT,
        "Printing, logging or warning in the step",
        "What a replay cannot do has to be done by Python at that very place.",
        "Do it behind the compiled step. `torch._dynamo.config.reorderable_logging_functions` "
        "moves prints behind the graph; `torch.compiler.is_compiling()` leaves them out.",
        "y = layer(x)\nprint(y.shape)\nz = head(y)",
        "if not torch.compiler.is_compiling():\n    print(y.shape)",
    ),
    CompileRule(
        CompileRuleId.DISABLED_FUNCTION,
        "A function that is not to be compiled",
        "`torch.compiler.disable` and `torch._dynamo.graph_break()` end the graph where they "
        "stand.",
        "Take the decorator off, or call the function before or behind the compiled step.",
        "norm = torch.compiler.disable(norm)\ny = head(norm(layer(x)))",
        "y = head(norm(layer(x)))",
    ),
    CompileRule(
        CompileRuleId.RECOMPILING,
        "A function is compiled more than once",
        "Each compilation holds for what its guards say. A number, a text, a size or a mode that "
        "changes makes a new one, which takes seconds, and graphs are recorded anew.",
        "Give what changes as a tensor; mark sizes as dynamic (`torch._dynamo.mark_dynamic`), or "
        "pad them to a few; keep gradients on or off.",
        'optimizer.param_groups[0]["lr"] = schedule(step)',
        'lr = torch.tensor(1e-3, device="cuda")  # in the optimizer\nlr.fill_(schedule(step))',
    ),
    CompileRule(
        CompileRuleId.RECOMPILE_LIMIT,
        "Compiled too often: it runs eagerly",
        "After `torch._dynamo.config.recompile_limit` compilations (8) Dynamo gives a function up, "
        "and it runs as if it were not compiled.",
        "Remove what changes (see recompiling). Raising the limit only makes the compiling longer.",
        "y = step(x, name)  # another name each time",
        "y = step(x)",
    ),
    CompileRule(
        CompileRuleId.CPU_WORK,
        "An operator on the CPU in the graph",
        "A CUDA graph holds work of the GPU only. Inductor splits the graph at operators of the "
        "CPU, often of one scalar tensor: each part is launched by itself, and inputs are copied "
        "from part to part.",
        "Make the tensor on the GPU, or give a Python number.",
        "scale = torch.tensor(2.0)\ny = model(x) * scale",
        'scale = torch.tensor(2.0, device="cuda")\ny = model(x) * scale',
    ),
    CompileRule(
        CompileRuleId.COPY_BETWEEN_DEVICES,
        "A copy between CPU and GPU in the graph",
        "`.cpu()`, `.to('cpu')` and `.cuda()` inside the compiled function split its graph.",
        "Copy before or behind the compiled step.",
        "return head(y), y.mean().cpu()",
        "out, mean = model(x)\nmean = mean.cpu()",
    ),
    CompileRule(
        CompileRuleId.UNSAFE_OPERATOR,
        "An operator that says it cannot be captured",
        "Operators tagged `cudagraph_unsafe`, and those that torch knows to synchronise, run "
        "between two graphs.",
        "Use an operator that can be captured; take the tag off an operator of your own once it "
        "neither synchronises nor reads the CPU.",
        'torch.library.custom_op("my::op", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,))',
        'torch.library.custom_op("my::op", mutates_args=())',
    ),
    CompileRule(
        CompileRuleId.SIZE_FROM_DATA,
        "A size that depends on data",
        "`nonzero`, boolean masks, `unique` and a captured `.item()` give sizes or numbers that "
        "only the GPU knows; the CPU has to wait for them between two graphs.",
        "Use a form of fixed size: `torch.where(mask, x, 0)`, `nonzero_static(size=...)`, `topk`.",
        "index = torch.nonzero(x > 0)",
        "index = torch.nonzero_static(x > 0, size=limit)",
    ),
    CompileRule(
        CompileRuleId.SPLIT_UNTOLD,
        "A graph is split, and nothing says why",
        "The trace shows several launches, or work between them, in one compiled graph. Inductor "
        "says why it splits a graph when it compiles it, and nothing when it takes it from its "
        "cache.",
        "Record once with `TORCHINDUCTOR_FORCE_DISABLE_CACHES=1`: the operators and their lines "
        "are then told.",
        "python train.py  # compiled before",
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES=1 python train.py",
    ),
    CompileRule(
        CompileRuleId.MUTATED_INPUT,
        "An input is written to",
        "A replay would write to the address that was recorded, not to the tensor of this call, so "
        "nothing is recorded of the whole graph. Parameters, buffers and outputs of graphs may be "
        "written to.",
        "Return the new value instead; or make the tensor a buffer of the module, or mark it with "
        "`torch._dynamo.mark_static_address(tensor)`.",
        "cache.add_(x)  # an argument of the compiled function",
        "cache = cache + x  # and return it",
    ),
    CompileRule(
        CompileRuleId.CHANGING_SIZES,
        "A graph for each size",
        "Each set of sizes is recorded as graphs of its own, after a warm-up, with memory of its "
        "own.",
        "Pad to a few sizes; or `torch._inductor.config.triton.cudagraph_skip_dynamic_graphs` for "
        "sizes that hardly come again.",
        "for batch in batches:  # of every length\n    model(batch)",
        "model(pad(batch, to=next_size(len(batch))))",
    ),
    CompileRule(
        CompileRuleId.NOT_RECORDED,
        "A compiled graph that is not recorded",
        "Inductor records nothing of this graph; its kernels are launched one by one.",
        "What the reason names is to be moved out of the compiled function.",
        'torch.compile(model, mode="reduce-overhead")  # on two devices',
        'torch.compile(part_of_one_device, mode="reduce-overhead")',
    ),
    CompileRule(
        CompileRuleId.COPIED_INPUTS,
        "Inputs are copied before each replay",
        "A graph reads its inputs at fixed addresses. What is not known to stay where it is (all "
        "but parameters, buffers and outputs of graphs) is copied there each time.",
        "Keep large inputs in one tensor that is written in place and marked with "
        "`torch._dynamo.mark_static_address(tensor)`; close over constants as parameters or "
        "buffers.",
        "y = compiled(x, table)  # the same table each time",
        "torch._dynamo.mark_static_address(table)\ny = compiled(x, table)",
    ),
    CompileRule(
        CompileRuleId.MOVED_INPUT,
        "An input that should stay moved",
        "A parameter, buffer or marked tensor came with other memory: the graph was recorded "
        "again, which takes milliseconds and memory. After 128 such recordings there are no "
        "graphs.",
        "Write into the tensor (`copy_`) instead of giving it other memory.",
        "layer.weight.data = new_weight",
        "layer.weight.data.copy_(new_weight)",
    ),
    CompileRule(
        CompileRuleId.CALLS_IN_ONE_STEP,
        "Several calls are one step for torch",
        "What a graph returned must stay until the step ends. Until then each further call of the "
        "same function is recorded as a graph of its own, with memory of its own, and replays in "
        "that order alone.",
        "Call `torch.compiler.cudagraph_mark_step_begin()` before each call, and clone what is "
        "read later.",
        "torch.compiler.cudagraph_mark_step_begin()\nfor _ in range(tokens):\n"
        "    token = compiled(token, cache)",
        "for _ in range(tokens):\n    torch.compiler.cudagraph_mark_step_begin()\n"
        "    token = compiled(token, cache).clone()",
    ),
    CompileRule(
        CompileRuleId.PENDING_BACKWARD,
        "Outputs of an earlier step still live",
        "The trees cannot replay over outputs that may still be used, or whose backward has not "
        "run: the function runs as if warmed up, at each call.",
        "Call `torch.compiler.cudagraph_mark_step_begin()` before each step; use `torch.no_grad()` "
        "for inference; drop or clone what is kept.",
        "outputs.append(compiled(x))",
        "torch.compiler.cudagraph_mark_step_begin()\noutputs.append(compiled(x).clone())",
    ),
    CompileRule(
        CompileRuleId.OVERWRITTEN_OUTPUT,
        "An output is used after the next run has overwritten it",
        "Outputs lie in memory of the graph, which the next replay writes anew.",
        "Clone what is kept, outside the compiled function.",
        "last = compiled(x)\ncompiled(y)\nlast.sum()",
        "last = compiled(x).clone()\ncompiled(y)\nlast.sum()",
    ),
    CompileRule(
        CompileRuleId.CAPTURE_FAILED,
        "A recording failed",
        "An operator synchronised, or did what a capture forbids, and Inductor did not know: the "
        "error ends the step.",
        "Move the operator out of the compiled function, or mark it: see the doctor's rules.",
        "values = torch.linalg.svdvals(x)",
        "x = compiled(...)\nvalues = torch.linalg.svdvals(x)  # behind it",
    ),
)

COMPILE_RULES: Final = {rule.id: rule for rule in _ALL}
"""The rules by id, in the order in which docs list them."""
