"""The rules of capture, each with what it says, why, and what to do instead.

Source: PyTorch, "CUDA semantics", section "CUDA Graphs: Constraints", and the CUDA programming
guide, section "Stream capture: prohibited and unhandled operations". docs/reference/rules.md lists
them, written by ``make docs``.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from graphviz_dash.model.doctor import RuleId, Severity


class Rule(Struct, frozen=True):
    """One rule."""

    id: RuleId
    """By which findings name it."""
    title: str
    """A few words."""
    severity: Severity
    """Whether the capture fails by it, or replays go wrong."""
    text: str
    """What it says and why."""
    advice: str
    """What to do instead."""
    wrong: str
    """A short program that breaks it."""
    right: str
    """What to write instead."""

    @property
    def heading(self) -> str:
        """Heading of its section in the reference."""
        return self.id.value


_ALL: Final = (
    Rule(
        RuleId.DEFAULT_STREAM,
        "Capture on the default stream",
        Severity.ILLEGAL,
        "A capture runs on a stream of its own. The default stream waits for all others and they "
        "for it, which cannot be recorded.",
        "Capture with `torch.cuda.graph(g)`, which brings its own stream, or make another stream "
        "current before `capture_begin()`. Warm up on a side stream too.",
        "g.capture_begin()",
        "with torch.cuda.graph(g):\n    y = model(x)",
    ),
    Rule(
        RuleId.SYNC_VALUE,
        "A GPU value is read on the CPU",
        Severity.ILLEGAL,
        "`.item()`, `float()`, `bool()`, `.tolist()` and printing a tensor wait for the GPU, but "
        "captured work does not run yet: there is no value to wait for.",
        "Keep the value on the GPU and read it after the replay, every few steps if that is "
        "enough.",
        "losses.append(loss.item())",
        "graph.replay()\nif step % 100 == 0:\n    losses.append(static_loss.item())",
    ),
    Rule(
        RuleId.SYNC_SHAPE,
        "The size of a result depends on GPU data",
        Severity.ILLEGAL,
        "`nonzero`, boolean masks, `unique`, `repeat_interleave` with counts and checked linear "
        "algebra wait for the GPU to learn a size or a status; a graph has fixed sizes.",
        "Use a form of fixed size: `torch.where(mask, x, 0)`, `nonzero_static(size=...)`, "
        "`topk`, `repeat_interleave(..., output_size=n)`, `*_ex` functions of torch.linalg.",
        "total = x[x > 0].sum()",
        "total = torch.where(x > 0, x, 0).sum()",
    ),
    Rule(
        RuleId.SYNC_COPY,
        "A copy to the CPU waits for the GPU",
        Severity.ILLEGAL,
        "`.cpu()`, `.numpy()` and `.to('cpu')` copy to pageable memory and wait for the data.",
        "Copy after the replay, or inside it into pinned memory with `non_blocking=True` and wait "
        "for an event after the replay.",
        "result = y.cpu()",
        "host = torch.empty(y.shape, pin_memory=True)  # once, before the capture\n"
        "host.copy_(y, non_blocking=True)",
    ),
    Rule(
        RuleId.SYNC_CALL,
        "The CPU waits for the GPU",
        Severity.ILLEGAL,
        "`torch.cuda.synchronize()` and the `synchronize()`, `query()` and `elapsed_time()` of "
        "streams and events ask whether work is done that only runs at replay.",
        "Wait outside the captured step. Between streams inside it use `wait_stream` or "
        "`wait_event`, which become edges of the graph.",
        "torch.cuda.synchronize()",
        "graph.replay()\ntorch.cuda.synchronize()  # after the replay, and only if needed",
    ),
    Rule(
        RuleId.CONTROL_FLOW,
        "Python decides by data",
        Severity.ILLEGAL,
        "A graph holds the one path that was taken at capture. Deciding by a GPU value waits for "
        "it and fails the capture; deciding by a CPU value freezes that decision silently.",
        "Decide on the GPU with `torch.where`, or `torch.cond` under torch.compile; or capture a "
        "graph for each path and choose which to replay; or leave the decision outside.",
        "if loss > limit:\n    grad = grad * 0.5",
        "grad = torch.where(loss > limit, grad * 0.5, grad)",
    ),
    Rule(
        RuleId.UNPINNED_COPY,
        "A copy from memory that is not pinned",
        Severity.ILLEGAL,
        "A copy between GPU and CPU inside a capture must be asynchronous, and only pinned memory "
        "can be. The address is recorded, so the same buffer must be filled before each replay. "
        "`torch.tensor(..., device='cuda')` is such a copy too.",
        "Copy into a static GPU tensor before the replay; or keep one pinned buffer and fill it "
        "before each replay. Make constants once, before the capture.",
        "x = batch.cuda()",
        "static_x.copy_(batch)  # before graph.replay()",
    ),
    Rule(
        RuleId.GENERATOR,
        "A random generator that the graph does not know",
        Severity.ILLEGAL,
        "Each replay must draw new numbers, so the graph has to know its generators. The default "
        "one is known; others must be registered, and none can be made or seeded in a capture.",
        "Make the generator before the capture and call `g.register_generator_state(generator)` "
        "on the graph before it.",
        'noise = torch.randn(n, device="cuda", generator=gen)',
        "g = torch.cuda.CUDAGraph()\ng.register_generator_state(gen)\nwith torch.cuda.graph(g):\n"
        '    noise = torch.randn(n, device="cuda", generator=gen)',
    ),
    Rule(
        RuleId.TWO_CAPTURES,
        "Two captures at once",
        Severity.ILLEGAL,
        "A process can have one capture under way at a time in mode `global`, torch's default.",
        "End one capture before the next begins; let both share memory with `pool=g1.pool()`. In "
        "threads, guard captures with a lock, or capture in each with "
        "`capture_error_mode='thread_local'`: newer versions of torch allow captures at the same "
        "time in that mode, and NCCL in several threads needs it.",
        "with torch.cuda.graph(g1):\n    with torch.cuda.graph(g2):\n        ...",
        "with torch.cuda.graph(g1):\n    ...\nwith torch.cuda.graph(g2, pool=g1.pool()):\n    ...",
    ),
    Rule(
        RuleId.OTHER_THREAD,
        "CUDA work in another thread during the capture",
        Severity.ILLEGAL,
        "While a capture in mode `global` is under way, unsafe calls of any thread (allocations, "
        "synchronous copies, event queries) fail, and they break the capture. What does run is "
        "not in the graph.",
        "Let other threads rest during the capture: begin the data loader's prefetching after it. "
        "`capture_error_mode='thread_local'` allows them, if they touch nothing of the graph.",
        "Thread(target=prefetch).start()\nwith torch.cuda.graph(g):\n    ...",
        "with torch.cuda.graph(g):\n    ...\nThread(target=prefetch).start()",
    ),
    Rule(
        RuleId.UNJOINED_STREAM,
        "A forked stream that is never joined",
        Severity.ILLEGAL,
        "Work on another stream is part of the capture once that stream waits for the captured "
        "one; the captured stream must then wait for it before the capture ends.",
        "Call `current.wait_stream(side)` after the last work on each side stream.",
        "side.wait_stream(cur)\nwith torch.cuda.stream(side):\n    z = f(x)",
        "side.wait_stream(cur)\nwith torch.cuda.stream(side):\n    z = f(x)\ncur.wait_stream(side)",
    ),
    Rule(
        RuleId.OPTIMIZER_CAPTURABLE,
        "An optimizer that is not capturable",
        Severity.ILLEGAL,
        "Adam and its relatives keep their step count on the CPU; with `capturable=True` it is a "
        "GPU tensor that replays advance.",
        "Make the optimizer with `capturable=True`.",
        "torch.optim.Adam(model.parameters())",
        "torch.optim.Adam(model.parameters(), capturable=True)",
    ),
    Rule(
        RuleId.NO_WARMUP,
        "A library starts up inside the capture",
        Severity.ILLEGAL,
        "The first call of cuBLAS, cuDNN, cuSOLVER or a compiled kernel makes handles, loads code "
        "and allocates, which a capture does not allow.",
        "Run the step a few times before the capture, on a side stream: 3 times, 11 with "
        "DistributedDataParallel.",
        "with torch.cuda.graph(g):  # the first call ever\n    y = model(x)",
        "s = torch.cuda.Stream()\nwith torch.cuda.stream(s):\n    for _ in range(3):\n"
        "        model(x)\nwith torch.cuda.graph(g):\n    y = model(x)",
    ),
    Rule(
        RuleId.FORBIDDEN_CALL,
        "A call that no capture allows",
        Severity.ILLEGAL,
        "Calls such as cudaMalloc, a synchronous cudaMemcpy or work on the legacy stream end the "
        "capture. They often come from another library that uses CUDA by itself.",
        "Make it before the capture (allocate, compile, warm up there) or after the replay; give "
        "the library torch's current stream and memory.",
        "buffer = cuda.cudaMalloc(n)",
        'buffer = torch.empty(n, dtype=torch.uint8, device="cuda")',
    ),
    Rule(
        RuleId.MOVED_INPUT,
        "An input that moves to a new address",
        Severity.SILENT,
        "A graph reads the addresses that it saw at capture. A new tensor in the same variable is "
        "not seen: replays go on reading the old memory, which may be used for something else.",
        "Allocate inputs once and copy new data into them with `static_x.copy_(x)` before each "
        "replay; keep state (hidden states, caches) in place with `copy_`.",
        "x = next(batches).cuda()\ngraph.replay()",
        "static_x.copy_(next(batches))\ngraph.replay()",
    ),
    Rule(
        RuleId.CHANGING_SHAPE,
        "Shapes that change from step to step",
        Severity.SILENT,
        "A graph has the sizes of the step that was captured; it works on the old size whatever "
        "comes.",
        "Pad to a fixed size; or capture a graph for each of a few sizes (buckets) and replay the "
        "one that fits; or use `torch.compile(mode='reduce-overhead')`, which does that.",
        "y = model(x[:, :length])",
        "y = model(pad(x, (0, MAX - length)))",
    ),
    Rule(
        RuleId.CHANGING_SCALAR,
        "A Python number that changes from step to step",
        Severity.SILENT,
        "Python numbers are arguments of kernels and are recorded as they were: a learning rate "
        "or a counter stays what it was at capture.",
        "Keep the number in a GPU tensor and change it with `fill_` before the replay; give "
        "optimizers a tensor as learning rate.",
        "p.add_(g, alpha=-lr)  # lr from a schedule",
        'lr = torch.tensor(0.1, device="cuda")\np.sub_(g * lr)\nlr.fill_(new_lr)  # before replay',
    ),
    Rule(
        RuleId.CPU_WORK,
        "CPU work that will not replay",
        Severity.SILENT,
        "A replay runs the GPU's part alone. Operators on CPU tensors and changes of Python state "
        "(counters, lists, logs) happen once, at capture, and never again.",
        "Move it out of the captured step, beside the call of `replay()`, or onto the GPU.",
        "count += 1\nweights = torch.rand(8)  # on the CPU",
        "graph.replay()\ncount += 1",
    ),
    Rule(
        RuleId.ESCAPED_WORK,
        "Work on a stream that is not captured",
        Severity.SILENT,
        "Only streams that wait for the captured one are part of the capture. Work on the default "
        "(legacy) stream or an unrelated one runs at once, when the step is captured, and is not "
        "in the graph.",
        "Let the stream wait for the captured one first (`side.wait_stream(cur)`) and join it "
        "after; do not name the default stream inside a step.",
        "with torch.cuda.stream(torch.cuda.default_stream()):\n    z = f(x)",
        "side.wait_stream(cur)\nwith torch.cuda.stream(side):\n    z = f(x)\ncur.wait_stream(side)",
    ),
    Rule(
        RuleId.EMPTY_CAPTURE,
        "A capture that holds nothing",
        Severity.SILENT,
        "The step launched no work on the captured stream, so replays do nothing.",
        "Check that the step works on CUDA tensors, and on the current stream.",
        "with torch.cuda.graph(g):\n    y = model.cpu()(x)",
        "with torch.cuda.graph(g):\n    y = model(x)",
    ),
    Rule(
        RuleId.REPLAY_DIFFERS,
        "A replay gives another result",
        Severity.SILENT,
        "From the same state a replay and an eager step end in different memory, by more than two "
        "eager steps differ, and no other rule says why.",
        "Look for state that the step keeps outside of torch, for kernels of other libraries that "
        "take pointers or numbers from the CPU, and for memory that is freed between replays.",
        "library.run(x.data_ptr(), counter)",
        "library.run(static_x.data_ptr(), counter_tensor.data_ptr())",
    ),
)

RULES: Final = {rule.id: rule for rule in _ALL}
"""Every rule by its id, the illegal ones first."""
