"""Rules of stream capture: text, reason and advice.

Source: PyTorch, "CUDA semantics", section "CUDA Graphs: Constraints", and the CUDA programming
guide, section "Stream capture: prohibited and unhandled operations". ``make docs``
lists them in docs/reference/rules.md.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from graphviz_dash.model.doctor import RuleId, Severity


class Rule(Struct, frozen=True):
    """One rule."""

    id: RuleId
    title: str
    severity: Severity
    """Effect of a violation: a failed capture, incorrect replays or lost memory."""
    text: str
    """Explanation of the rule."""
    advice: str
    wrong: str
    """A short program that violates the rule."""
    right: str
    """A short program that follows the rule."""

    @property
    def heading(self) -> str:
        """Heading of its section in the reference."""
        return self.id.value


_ALL: Final = (
    Rule(
        RuleId.DEFAULT_STREAM,
        "Capture on the default stream",
        Severity.ILLEGAL,
        "A capture needs a non-default stream. The default stream synchronises implicitly with all "
        "other streams, which cannot be captured.",
        "Capture with `torch.cuda.graph(g)`, which provides a stream, or make another stream "
        "current before `capture_begin()`. Warm up on a side stream too.",
        "g.capture_begin()",
        "with torch.cuda.graph(g):\n    y = model(x)",
    ),
    Rule(
        RuleId.SYNC_VALUE,
        "A GPU value is read on the CPU",
        Severity.ILLEGAL,
        "`.item()`, `float()`, `bool()`, `.tolist()` and printing a tensor wait for the GPU. "
        "Captured work has not run yet, so there is no value.",
        "Keep the value on the GPU and read it after the replay, or only every few steps.",
        "losses.append(loss.item())",
        "graph.replay()\nif step % 100 == 0:\n    losses.append(static_loss.item())",
    ),
    Rule(
        RuleId.SYNC_SHAPE,
        "The size of a result depends on GPU data",
        Severity.ILLEGAL,
        "`nonzero`, boolean masks, `unique`, `repeat_interleave` with counts and checked linear "
        "algebra wait for the GPU to learn a size or a status; a graph has fixed sizes.",
        "Use a fixed-size form: `torch.where(mask, x, 0)`, `nonzero_static(size=...)`, `topk`, "
        "`repeat_interleave(..., output_size=n)`, `*_ex` functions of torch.linalg.",
        "total = x[x > 0].sum()",
        "total = torch.where(x > 0, x, 0).sum()",
    ),
    Rule(
        RuleId.SYNC_COPY,
        "A copy to the CPU waits for the GPU",
        Severity.ILLEGAL,
        "`.cpu()`, `.numpy()` and `.to('cpu')` copy to pageable memory and wait for the data.",
        "Copy after the replay. Alternatively, copy inside it into pinned memory with "
        "`non_blocking=True` and wait for an event after the replay.",
        "result = y.cpu()",
        "host = torch.empty(y.shape, pin_memory=True)  # once, before the capture\n"
        "host.copy_(y, non_blocking=True)",
    ),
    Rule(
        RuleId.SYNC_CALL,
        "The CPU waits for the GPU",
        Severity.ILLEGAL,
        "`torch.cuda.synchronize()` and the `synchronize()`, `query()` and `elapsed_time()` of "
        "streams and events depend on work that runs only at replay.",
        "Wait outside the captured step. Between streams inside it use `wait_stream` or "
        "`wait_event`, which become edges of the graph.",
        "torch.cuda.synchronize()",
        "graph.replay()\ntorch.cuda.synchronize()  # after the replay, and only if needed",
    ),
    Rule(
        RuleId.CONTROL_FLOW,
        "Python branches on data",
        Severity.ILLEGAL,
        "A graph contains only the path taken at capture. Branching on a GPU value waits for it "
        "and fails the capture; branching on a CPU value silently freezes the decision.",
        "Branch on the GPU with `torch.where`, or `torch.cond` under torch.compile. Alternatively, "
        "capture one graph per path and select at replay, or branch outside the graph.",
        "if loss > limit:\n    grad = grad * 0.5",
        "grad = torch.where(loss > limit, grad * 0.5, grad)",
    ),
    Rule(
        RuleId.UNPINNED_COPY,
        "A copy from memory that is not pinned",
        Severity.ILLEGAL,
        "Copies between GPU and CPU must be asynchronous in a capture, which requires pinned "
        "memory. The address is recorded, so the same buffer must be filled before each replay. "
        "`torch.tensor(..., device='cuda')` is such a copy too.",
        "Copy into a static GPU tensor before the replay, or keep one pinned buffer and fill it "
        "before each replay. Create constants once, before the capture.",
        "x = batch.cuda()",
        "static_x.copy_(batch)  # before graph.replay()",
    ),
    Rule(
        RuleId.GENERATOR,
        "A random generator not registered with the graph",
        Severity.ILLEGAL,
        "Each replay must draw new numbers, so generators must be registered with the graph. The "
        "default generator is. None can be created or seeded in a capture.",
        "Create the generator before the capture and call `g.register_generator_state(generator)` "
        "on the graph before it.",
        'noise = torch.randn(n, device="cuda", generator=gen)',
        "g = torch.cuda.CUDAGraph()\ng.register_generator_state(gen)\nwith torch.cuda.graph(g):\n"
        '    noise = torch.randn(n, device="cuda", generator=gen)',
    ),
    Rule(
        RuleId.TWO_CAPTURES,
        "Two simultaneous captures",
        Severity.ILLEGAL,
        "In mode `global`, torch's default, a process can have only one active capture.",
        "End one capture before starting the next; share memory with `pool=g1.pool()`. In "
        "threads, guard captures with a lock or use `capture_error_mode='thread_local'`. Newer "
        "versions of torch allow simultaneous captures in that mode, and NCCL in several threads "
        "requires it.",
        "with torch.cuda.graph(g1):\n    with torch.cuda.graph(g2):\n        ...",
        "with torch.cuda.graph(g1):\n    ...\nwith torch.cuda.graph(g2, pool=g1.pool()):\n    ...",
    ),
    Rule(
        RuleId.OTHER_THREAD,
        "CUDA work in another thread during the capture",
        Severity.ILLEGAL,
        "During a capture in mode `global`, unsafe calls of any thread (allocations, synchronous "
        "copies, event queries) fail and invalidate the capture. Calls that succeed are not in "
        "the graph.",
        "Pause other threads during the capture: start the data loader's prefetching after it. "
        "`capture_error_mode='thread_local'` allows them if they use nothing of the graph.",
        "Thread(target=prefetch).start()\nwith torch.cuda.graph(g):\n    ...",
        "with torch.cuda.graph(g):\n    ...\nThread(target=prefetch).start()",
    ),
    Rule(
        RuleId.UNJOINED_STREAM,
        "A forked stream that is never joined",
        Severity.ILLEGAL,
        "Work on another stream belongs to the capture once that stream waits for the captured "
        "one. The captured stream must wait for it before the capture ends.",
        "Call `current.wait_stream(side)` after the last work on each side stream.",
        "side.wait_stream(cur)\nwith torch.cuda.stream(side):\n    z = f(x)",
        "side.wait_stream(cur)\nwith torch.cuda.stream(side):\n    z = f(x)\ncur.wait_stream(side)",
    ),
    Rule(
        RuleId.OPTIMIZER_CAPTURABLE,
        "An optimizer that is not capturable",
        Severity.ILLEGAL,
        "Adam and related optimizers keep their step count on the CPU. With `capturable=True` it "
        "is a GPU tensor that replays advance.",
        "Create the optimizer with `capturable=True`.",
        "torch.optim.Adam(model.parameters())",
        "torch.optim.Adam(model.parameters(), capturable=True)",
    ),
    Rule(
        RuleId.NO_WARMUP,
        "A library initialises inside the capture",
        Severity.ILLEGAL,
        "The first call of cuBLAS, cuDNN, cuSOLVER or a compiled kernel creates handles, loads "
        "code and allocates memory, which a capture forbids.",
        "Run the step a few times before the capture, on a side stream: 3 times, or 11 times with "
        "DistributedDataParallel.",
        "with torch.cuda.graph(g):  # the first call ever\n    y = model(x)",
        "s = torch.cuda.Stream()\nwith torch.cuda.stream(s):\n    for _ in range(3):\n"
        "        model(x)\nwith torch.cuda.graph(g):\n    y = model(x)",
    ),
    Rule(
        RuleId.OUT_OF_MEMORY,
        "Out of memory during a capture",
        Severity.ILLEGAL,
        "A capture allocates from a separate pool and cannot use cached memory of the default "
        "pool. The failed allocation invalidates the capture, so later errors look like illegal "
        "calls.",
        "Call `torch.cuda.empty_cache()` before the capture, share one pool between graphs, or "
        "capture the largest graph first.",
        "with torch.cuda.graph(g):",
        "torch.cuda.empty_cache()\nwith torch.cuda.graph(g, pool=pool):",
    ),
    Rule(
        RuleId.COLLECTED_GRAPH,
        "A graph is destroyed during a capture",
        Severity.ILLEGAL,
        "The garbage collector or a dropped reference destroyed another graph. Its destruction "
        "frees memory, which a capture forbids.",
        "Drop old graphs before the capture, call `gc.collect()`, and disable the collector until "
        "the capture ends.",
        "holder.graph, holder.self = g, holder  # a cycle\nwith torch.cuda.graph(other):",
        "gc.collect()\nwith torch.cuda.graph(other):",
    ),
    Rule(
        RuleId.GRADIENT_STREAM,
        "Gradients accumulate on the default stream",
        Severity.ILLEGAL,
        "Autograd runs each backward node on the stream on which it was created. Nodes created on "
        "the default stream before the capture would make that stream wait for the captured one. "
        "DistributedDataParallel keeps such nodes, and so does a loss that is still alive.",
        "Create the wrapper and run the warm-up under the stream that is captured. Delete losses "
        "and outputs of earlier steps before the capture.",
        "model = DistributedDataParallel(net)\nwith torch.cuda.graph(g, stream=s):\n"
        "    model(x).sum().backward()",
        "with torch.cuda.stream(s):\n    model = DistributedDataParallel(net)\n    warm_up(model)\n"
        "with torch.cuda.graph(g, stream=s):\n    model(x).sum().backward()",
    ),
    Rule(
        RuleId.CONDITIONAL_COLLECTIVE,
        "A collective in a conditional body",
        Severity.ILLEGAL,
        "The body of a conditional node (`torch.cond`, `while_loop`) is a separate capture. NCCL "
        "joins it with the surrounding capture, which CUDA refuses, or adds event nodes, which "
        "bodies must not contain.",
        "Run the collective before or after the conditional, on each rank. If all collectives of "
        "its communicator are in this graph, `NCCL_GRAPH_MIXING_SUPPORT=0` avoids the event nodes.",
        "torch.cond(flag, lambda x: all_reduce(x), lambda x: x, (x,))",
        "reduced = all_reduce(x)\ny = torch.where(flag, reduced, x)",
    ),
    Rule(
        RuleId.FIRST_RANDOM,
        "The first random numbers of a capture",
        Severity.ILLEGAL,
        "The first random operator of a capture allocates the state of the generator. If memory "
        "was freed on another stream after `record_stream`, that allocation asks for the state of "
        "an event, which a capture forbids. Only some versions of torch fail.",
        "Draw a random number as the first operator of the capture, before memory is freed, or "
        "free that memory before the capture starts.",
        "with torch.cuda.graph(g):\n    del block  # of this stream\n    x = torch.rand(n)",
        "del block\ntorch.cuda.synchronize()\nwith torch.cuda.graph(g):\n    x = torch.rand(n)",
    ),
    Rule(
        RuleId.FORBIDDEN_CALL,
        "A call forbidden in captures",
        Severity.ILLEGAL,
        "Calls such as cudaMalloc, a synchronous cudaMemcpy or work on the legacy stream end the "
        "capture. They often come from another library that uses CUDA directly.",
        "Move the call before the capture (allocate, compile, warm up there) or after the replay. "
        "Pass torch's current stream and memory to the library.",
        "buffer = cuda.cudaMalloc(n)",
        'buffer = torch.empty(n, dtype=torch.uint8, device="cuda")',
    ),
    Rule(
        RuleId.MOVED_INPUT,
        "An input that moves to a new address",
        Severity.SILENT,
        "A graph reads the addresses recorded at capture. Replays ignore a new tensor in the same "
        "variable and keep reading the old memory, which may have been reused.",
        "Allocate inputs once and copy new data into them with `static_x.copy_(x)` before each "
        "replay. Keep state (hidden states, caches) in place with `copy_`.",
        "x = next(batches).cuda()\ngraph.replay()",
        "static_x.copy_(next(batches))\ngraph.replay()",
    ),
    Rule(
        RuleId.CHANGING_SHAPE,
        "Shapes that change from step to step",
        Severity.SILENT,
        "A graph has the sizes of the captured step and always processes those sizes.",
        "Pad to a fixed size, or capture one graph for each of a few sizes (buckets) and replay "
        "the one that fits, or use `torch.compile(mode='reduce-overhead')`, which does that.",
        "y = model(x[:, :length])",
        "y = model(pad(x, (0, MAX - length)))",
    ),
    Rule(
        RuleId.CHANGING_SCALAR,
        "A Python number that changes from step to step",
        Severity.SILENT,
        "Python numbers are kernel arguments and are recorded by value: a learning rate or a "
        "counter keeps its value from the capture.",
        "Keep the number in a GPU tensor and update it with `fill_` before the replay. Pass a "
        "tensor as the learning rate of optimizers.",
        "p.add_(g, alpha=-lr)  # lr from a schedule",
        'lr = torch.tensor(0.1, device="cuda")\np.sub_(g * lr)\nlr.fill_(new_lr)  # before replay',
    ),
    Rule(
        RuleId.CPU_WORK,
        "CPU work that is not replayed",
        Severity.SILENT,
        "A replay runs GPU work only. Operators on CPU tensors and changes of Python state "
        "(counters, lists, logs) run once, at capture, and not at replay.",
        "Move it out of the captured step, next to the call of `replay()`, or onto the GPU.",
        "count += 1\nweights = torch.rand(8)  # on the CPU",
        "graph.replay()\ncount += 1",
    ),
    Rule(
        RuleId.ESCAPED_WORK,
        "Work on a stream that is not captured",
        Severity.SILENT,
        "Only streams that wait for the captured one are part of the capture. Work on the default "
        "(legacy) stream or an unrelated one runs immediately, at capture, and is not in the "
        "graph.",
        "Make the stream wait for the captured one first (`side.wait_stream(cur)`) and join it "
        "afterwards. Do not use the default stream inside a step.",
        "with torch.cuda.stream(torch.cuda.default_stream()):\n    z = f(x)",
        "side.wait_stream(cur)\nwith torch.cuda.stream(side):\n    z = f(x)\ncur.wait_stream(side)",
    ),
    Rule(
        RuleId.EMPTY_CAPTURE,
        "An empty capture",
        Severity.SILENT,
        "The step launched no work on the captured stream, so replays do nothing.",
        "Check that the step works on CUDA tensors, and on the current stream.",
        "with torch.cuda.graph(g):\n    y = model.cpu()(x)",
        "with torch.cuda.graph(g):\n    y = model(x)",
    ),
    Rule(
        RuleId.REPLAY_DIFFERS,
        "A replay computes a different result",
        Severity.SILENT,
        "Starting from the same state, memory after a replay differs from memory after an eager "
        "step by more than between two eager steps, and no other rule explains it.",
        "Check for state that the step keeps outside torch, for kernels of other libraries that "
        "read pointers or numbers from the CPU, and for memory freed between replays.",
        "library.run(x.data_ptr(), counter)",
        "library.run(static_x.data_ptr(), counter_tensor.data_ptr())",
    ),
    Rule(
        RuleId.DEFERRED_FREE,
        "Memory used on another stream is not reused",
        Severity.COSTLY,
        "After `record_stream`, the allocator waits for an event before it reuses a freed block. "
        "A captured event does not complete, so the pool grows by each such block.",
        "Join the side stream before the tensor is freed, and omit `record_stream` in the capture.",
        "x.record_stream(side)\ndel x",
        "main.wait_stream(side)\ndel x",
    ),
    Rule(
        RuleId.FAILED_CAPTURE_POOL,
        "A failed capture keeps its memory",
        Severity.COSTLY,
        "Memory that a failed capture allocated stays reserved until the process ends.",
        "Remove the illegal call before you capture at full size, or try the capture in a separate "
        "process.",
        "try:\n    capture()\nexcept RuntimeError:\n    run_eagerly()",
        "graphviz-dash doctor --workload mine:factory  # a separate process",
    ),
)

RULES: Final = {rule.id: rule for rule in _ALL}
"""Rules by id, illegal ones first."""
