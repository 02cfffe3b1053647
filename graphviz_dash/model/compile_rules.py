"""Rules of torch.compile with CUDA graphs: text, reason and advice.

Sources: PyTorch, "CUDAGraph Trees", "torch.compile Troubleshooting" and "Recompilation", and the
reasons given by torch 2.11 to 2.13. ``make docs`` lists them in
docs/reference/rules.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct


class CompileRuleId(StrEnum):
    """Conditions for a compiled step to be replayed as one graph."""

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
    UNEXPLAINED_SPLIT = "unexplained-split"
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
    title: str
    text: str
    """Explanation of the rule."""
    advice: str
    """Recommended change."""
    wrong: str
    """Code that violates the rule."""
    right: str
    """Code that follows the rule."""

    @property
    def heading(self) -> str:
        """Heading of its section in the reference; some ids are also those of capture rules."""
        return f"{self.id.value} (compile)"


_ALL: Final = (
    CompileRule(
        CompileRuleId.GRAPH_BREAK,
        "Dynamo breaks the graph",
        "Python runs this line. The code before and after it becomes two graphs, each with its "
        "own guards, wrappers and launch, and the GPU waits while Python runs in between.",
        "Move the line out of the compiled function, or use an operation that Dynamo supports. "
        "`fullgraph=True` makes every break an error.",
        "y = layer(x)\nexternal_library(y)\nz = head(y)",
        "z = head(layer(x))  # compiled\nexternal_library(z)  # after it",
    ),
    CompileRule(
        CompileRuleId.VALUE_READ,
        "Python branches on a GPU value",
        "`.item()`, `float()`, `bool()` and `if` on a tensor wait for the GPU and end the graph, "
        "because the code that follows depends on the value.",
        "Keep the value on the GPU: `torch.where` instead of `if`, a tensor instead of a number. "
        "Read it after the step, every few steps.",
        "if loss > limit:\n    grad = grad * 0.5",
        "grad = torch.where(loss > limit, grad * 0.5, grad)",
    ),
    CompileRule(
        CompileRuleId.PYTHON_SIDE_EFFECT,
        "Printing, logging or warning in the step",
        "A replay cannot run Python code, so Dynamo ends the graph at the call.",
        "Do it after the compiled step. `torch._dynamo.config.reorderable_logging_functions` "
        "moves prints after the graph; `torch.compiler.is_compiling()` allows you to skip them.",
        "y = layer(x)\nprint(y.shape)\nz = head(y)",
        "if not torch.compiler.is_compiling():\n    print(y.shape)",
    ),
    CompileRule(
        CompileRuleId.DISABLED_FUNCTION,
        "A function excluded from compilation",
        "`torch.compiler.disable` and `torch._dynamo.graph_break()` end the graph.",
        "Remove the decorator, or call the function before or after the compiled step.",
        "norm = torch.compiler.disable(norm)\ny = head(norm(layer(x)))",
        "y = head(norm(layer(x)))",
    ),
    CompileRule(
        CompileRuleId.RECOMPILING,
        "A function is compiled more than once",
        "Each compilation is valid for its guards. A number, a string, a size or a mode that "
        "changes triggers another compilation, which lasts seconds and records new graphs.",
        "Pass changing values as tensors; mark sizes as dynamic (`torch._dynamo.mark_dynamic`), "
        "or pad them to a few; keep gradients on or off.",
        'optimizer.param_groups[0]["lr"] = schedule(step)',
        'lr = torch.tensor(1e-3, device="cuda")  # in the optimizer\nlr.fill_(schedule(step))',
    ),
    CompileRule(
        CompileRuleId.RECOMPILE_LIMIT,
        "Recompile limit reached",
        "After `torch._dynamo.config.recompile_limit` compilations (8), Dynamo stops compiling "
        "the function, and it runs eagerly.",
        "Remove the cause of the recompilations (see recompiling). A higher limit only adds "
        "compile time.",
        "y = step(x, name)  # another name each time",
        "y = step(x)",
    ),
    CompileRule(
        CompileRuleId.CPU_WORK,
        "An operator on the CPU in the graph",
        "A CUDA graph contains GPU work only. Inductor splits the graph at CPU operators, often "
        "at a single scalar tensor. Each part has its own launch, and inputs are copied between "
        "the parts.",
        "Create the tensor on the GPU, or pass a Python number.",
        "scale = torch.tensor(2.0)\ny = model(x) * scale",
        'scale = torch.tensor(2.0, device="cuda")\ny = model(x) * scale',
    ),
    CompileRule(
        CompileRuleId.COPY_BETWEEN_DEVICES,
        "A copy between CPU and GPU in the graph",
        "`.cpu()`, `.to('cpu')` and `.cuda()` inside the compiled function split its graph.",
        "Copy before or after the compiled step.",
        "return head(y), y.mean().cpu()",
        "out, mean = model(x)\nmean = mean.cpu()",
    ),
    CompileRule(
        CompileRuleId.UNSAFE_OPERATOR,
        "An operator tagged as unsafe to capture",
        "Operators tagged `cudagraph_unsafe`, and operators known to synchronise, run between two "
        "graphs.",
        "Use an operator that can be captured. Remove the tag from your own operator once it "
        "neither synchronises nor reads from the CPU.",
        'torch.library.custom_op("my::op", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,))',
        'torch.library.custom_op("my::op", mutates_args=())',
    ),
    CompileRule(
        CompileRuleId.SIZE_FROM_DATA,
        "A size that depends on data",
        "`nonzero`, boolean masks, `unique` and a captured `.item()` produce sizes or numbers "
        "known only to the GPU. Dynamo breaks the graph there, or Inductor splits it, and the CPU "
        "waits for the value between two graphs.",
        "Use a fixed-size form: `torch.where(mask, x, 0)`, `nonzero_static(size=...)`, `topk`. "
        "`torch._dynamo.config.capture_dynamic_output_shape_ops` avoids only the break, not the "
        "split.",
        "index = torch.nonzero(x > 0)",
        "index = torch.nonzero_static(x > 0, size=limit)",
    ),
    CompileRule(
        CompileRuleId.UNEXPLAINED_SPLIT,
        "A graph is split for an unknown reason",
        "The trace shows several launches, or work between them, in one compiled graph. Inductor "
        "reports the reason for a split only when it compiles, not when it loads the graph from "
        "its cache.",
        "Record once with `TORCHINDUCTOR_FORCE_DISABLE_CACHES=1` to see the operators and their "
        "lines.",
        "python train.py  # compiled before",
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES=1 python train.py",
    ),
    CompileRule(
        CompileRuleId.MUTATED_INPUT,
        "An input is modified",
        "A replay would write to the recorded address and not to the tensor of this call, so "
        "Inductor records no part of this graph. Parameters, buffers and outputs of graphs may be "
        "modified.",
        "Return the new value instead, make the tensor a buffer of the module, or mark it with "
        "`torch._dynamo.mark_static_address(tensor)`.",
        "cache.add_(x)  # an argument of the compiled function",
        "cache = cache + x  # and return it",
    ),
    CompileRule(
        CompileRuleId.CHANGING_SIZES,
        "One graph per size",
        "Each set of sizes has its own warm-up, its own graphs and its own memory.",
        "Pad to a few sizes. `torch._inductor.config.triton.cudagraph_skip_dynamic_graphs` skips "
        "sizes that rarely recur, but torch 2.11 still records a partition whose operators read a "
        "changing size and return a fixed one, such as attention over a growing cache.",
        "for batch in batches:  # of every length\n    model(batch)",
        "model(pad(batch, to=next_size(len(batch))))",
    ),
    CompileRule(
        CompileRuleId.NOT_RECORDED,
        "A compiled graph that is not recorded",
        "Inductor records no CUDA graph for this function; its kernels are launched one by one.",
        "Move the cause named in the reason out of the compiled function.",
        'torch.compile(model, mode="reduce-overhead")  # on two devices',
        'torch.compile(part_of_one_device, mode="reduce-overhead")',
    ),
    CompileRule(
        CompileRuleId.COPIED_INPUTS,
        "Inputs are copied before each replay",
        "A graph reads its inputs at fixed addresses. Inputs without a known fixed address (all "
        "but parameters, buffers and outputs of graphs) are copied before each replay.",
        "Keep large inputs in one tensor that is written in place and marked with "
        "`torch._dynamo.mark_static_address(tensor)`. Close over constants as parameters or "
        "buffers.",
        "y = compiled(x, table)  # the same table each time",
        "torch._dynamo.mark_static_address(table)\ny = compiled(x, table)",
    ),
    CompileRule(
        CompileRuleId.MOVED_INPUT,
        "A static input has moved",
        "The memory of a parameter, buffer or marked tensor changed, so the graph was recorded "
        "again, which costs milliseconds and memory. After 128 such recordings, torch stops using "
        "graphs.",
        "Write into the tensor (`copy_`) instead of replacing its memory.",
        "layer.weight.data = new_weight",
        "layer.weight.data.copy_(new_weight)",
    ),
    CompileRule(
        CompileRuleId.CALLS_IN_ONE_STEP,
        "Torch counts several calls as one step",
        "Outputs of a graph must stay valid until the step ends. Until then, each further call of "
        "the same function is recorded as a separate graph with separate memory, and replays only "
        "in that order.",
        "Call `torch.compiler.cudagraph_mark_step_begin()` before each call, and clone outputs "
        "that are read later.",
        "torch.compiler.cudagraph_mark_step_begin()\nfor _ in range(tokens):\n"
        "    token = compiled(token, cache)",
        "for _ in range(tokens):\n    torch.compiler.cudagraph_mark_step_begin()\n"
        "    token = compiled(token, cache).clone()",
    ),
    CompileRule(
        CompileRuleId.PENDING_BACKWARD,
        "Outputs of an earlier step are still alive",
        "The trees cannot replay over outputs that may still be used, or whose backward has not "
        "run. The function runs as a warm-up on each call.",
        "Call `torch.compiler.cudagraph_mark_step_begin()` before each step. Use "
        "`torch.no_grad()` for inference. Drop or clone outputs that you keep.",
        "outputs.append(compiled(x))",
        "torch.compiler.cudagraph_mark_step_begin()\noutputs.append(compiled(x).clone())",
    ),
    CompileRule(
        CompileRuleId.OVERWRITTEN_OUTPUT,
        "An output is used after the next run overwrote it",
        "Outputs are stored in the graph's memory, which the next replay overwrites. Gradients are "
        "outputs of the backward graph.",
        "Clone outputs that you keep, outside the compiled function. If the error is about a "
        "gradient, cloning outputs does not help: to accumulate gradients, allocate each `.grad` "
        "before the first step and keep it (`zero_grad(set_to_none=False)`).",
        "last = compiled(x)\ncompiled(y)\nlast.sum()",
        "last = compiled(x).clone()\ncompiled(y)\nlast.sum()",
    ),
    CompileRule(
        CompileRuleId.CAPTURE_FAILED,
        "A recording failed",
        "An operator synchronised or made a call that captures forbid, and Inductor did not "
        "expect it. The error ends the step.",
        "Move the operator out of the compiled function, or mark it. See the doctor's rules.",
        "values = torch.linalg.svdvals(x)",
        "x = compiled(...)\nvalues = torch.linalg.svdvals(x)  # after it",
    ),
)

COMPILE_RULES: Final = {rule.id: rule for rule in _ALL}
"""Rules by id, in the order of the documentation."""
