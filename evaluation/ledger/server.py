"""A decoder with one graph per batch size. Options change the cost of the graphs.

Prints ``FACTS {json}``: used device memory at several stages by ``torch.cuda.mem_get_info``,
seconds since the start of the process and CPU seconds of its thread, measured without
graphviz-dash.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import json
import os
import time
from typing import Any

import torch
from torch import distributed, nn
from torch.nn import functional

HEAD = 64
VOCABULARY = 32_000


def read_age_s() -> float:
    with open("/proc/self/stat") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


class Layer(nn.Module):
    """Attention with a static cache, and a gated feed-forward network."""

    def __init__(self, width: int, ranks: int) -> None:
        super().__init__()
        self.heads = width // HEAD // ranks
        self.first_norm, self.second_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width // ranks, bias=False)
        self.out = nn.Linear(width // ranks, width, bias=False)
        self.up = nn.Linear(width, 6 * width // ranks, bias=False)
        self.down = nn.Linear(3 * width // ranks, width, bias=False)

    def forward(self, x: torch.Tensor, cache: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        """Compute one token per sequence. ``cache``: (2, batch, heads, length, HEAD)."""
        batch = x.shape[0]
        q, k, v = self.qkv(self.first_norm(x)).view(batch, 3, self.heads, 1, HEAD).unbind(1)
        cache[0, :batch].index_copy_(2, place, k)
        cache[1, :batch].index_copy_(2, place, v)
        attention = functional.scaled_dot_product_attention(q, cache[0, :batch], cache[1, :batch])
        x = x + add_up(self.out(attention.reshape(batch, -1)))
        gate, value = self.up(self.second_norm(x)).chunk(2, -1)
        return x + add_up(self.down(functional.silu(gate) * value))


def add_up(share: torch.Tensor) -> torch.Tensor:
    """Sum the shares of all ranks, if there are processes for them."""
    if distributed.is_initialized():
        distributed.all_reduce(share)
    return share


def join_logits(logits: torch.Tensor, ranks: int) -> torch.Tensor:
    """Concatenate the logits of all ranks. Without processes for them, repeat those of one."""
    if not distributed.is_initialized():
        return torch.cat([logits] * ranks, -1)
    parts = logits.new_empty((ranks * logits.shape[0], logits.shape[1]))
    distributed.all_gather_into_tensor(parts, logits)
    return torch.cat(parts.chunk(ranks), -1)


class Decoder(nn.Module):
    """A decoder, or one rank's share of it. The shares are summed only with ``--distributed``."""

    def __init__(self, layers: int, width: int, ranks: int) -> None:
        super().__init__()
        self.ranks = ranks
        self.embedding = nn.Embedding(VOCABULARY // ranks, width)
        self.layers = nn.ModuleList(Layer(width, ranks) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY // ranks, bias=False)

    def forward(
        self, tokens: torch.Tensor, caches: list[torch.Tensor], place: torch.Tensor
    ) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, cache, place)
        logits = self.head(x)
        if self.ranks > 1:
            logits = join_logits(logits, self.ranks)
        return logits.float().softmax(-1)


class Llama(nn.Module):
    """A Llama of transformers that scores complete sequences, without a cache."""

    def __init__(self, layers: int, width: int, batch: int, length: int) -> None:
        super().__init__()
        transformers = importlib.import_module("transformers")
        config = transformers.LlamaConfig(
            hidden_size=width,
            intermediate_size=width * 11 // 4,
            num_hidden_layers=layers,
            num_attention_heads=width // HEAD,
            num_key_value_heads=width // HEAD,
            vocab_size=VOCABULARY,
            max_position_embeddings=length,
            attn_implementation="sdpa",
        )
        self.model = transformers.LlamaForCausalLM(config)
        self.texts = torch.zeros((batch, length), dtype=torch.long)
        self.places = torch.arange(length)[None]
        self.mask = torch.full((1, 1, length, length), float("-inf")).triu(1)

    def forward(
        self, tokens: torch.Tensor, caches: list[torch.Tensor], place: torch.Tensor
    ) -> torch.Tensor:
        """Score as many sequences as ``tokens``. The other arguments are unused."""
        batch = tokens.shape[0]
        logits: torch.Tensor = self.model(
            input_ids=self.texts[:batch],
            position_ids=self.places,
            attention_mask=self.mask.expand(batch, -1, -1, -1),
            use_cache=False,
            logits_to_keep=1,
        ).logits
        return logits.float().softmax(-1)


REFERENCE_STEPS = 400_000


def measure_speed() -> float:
    """Return the seconds of a fixed computation in Python, for comparison with other starts."""
    begin = time.perf_counter()
    value = 0
    for number in range(REFERENCE_STEPS):
        value = (value * 31 + number) % 1_000_003
    return time.perf_counter() - begin


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="64,32,16,8,4,2,1")
    parser.add_argument("--pools", choices=("one", "each"), default="one")
    parser.add_argument("--streams", choices=("one", "each"), default="one")
    parser.add_argument(
        "--warm",
        choices=("each", "all", "first"),
        default="each",
        help="warm up each size before its capture, all before the first, or only the first",
    )
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--objects", type=int, default=0, help="Python objects on the heap")
    parser.add_argument("--collect", action="store_true", help="collect before each capture")
    parser.add_argument("--freeze", action="store_true", help="freeze the collector's objects")
    parser.add_argument("--side", choices=("one", "each"), default="one", help="warm-up streams")
    parser.add_argument("--used", default="", help="sizes that are replay_sizes")
    parser.add_argument("--gate", default="", help="wait for this file before using the GPU")
    parser.add_argument("--share", action="store_true", help="one executable for all sizes")
    parser.add_argument("--ranks", type=int, default=1, help="share of one tensor-parallel rank")
    parser.add_argument("--distributed", action="store_true", help="one process for each rank")
    parser.add_argument("--replays", type=int, default=40)
    parser.add_argument("--llama", action="store_true", help="a model of transformers")
    return parser.parse_args()


class Server:
    """Captures the decoder for each size."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.sizes = [int(size) for size in options.sizes.split(",")]
        self.used: dict[str, int] = {}
        self.seconds: dict[str, float] = {}
        self.cpu_seconds: dict[str, float] = {}
        self.instantiation_seconds = 0.0
        """With the ends of the captures."""
        self.graphs: dict[int, Any] = {}
        self.pool: Any = None
        self.side: Any = None
        self.caches: list[torch.Tensor] = []
        if options.llama:
            importlib.import_module("transformers").LlamaForCausalLM  # noqa: B018  lazy import

    def note(self, stage: str) -> None:
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        self.used[stage] = total - free
        self.note_time(stage)

    def note_time(self, stage: str) -> None:
        self.seconds[stage] = read_age_s()
        self.cpu_seconds[stage] = time.thread_time()

    def build(self) -> None:
        torch.set_default_dtype(torch.bfloat16)
        with torch.device("cuda"):
            largest, length = max(self.sizes), self.options.length
            if self.options.llama:
                self.net: nn.Module = Llama(
                    self.options.layers, self.options.width, largest, length
                )
            else:
                self.net = Decoder(self.options.layers, self.options.width, self.options.ranks)
                heads = self.options.width // HEAD // self.options.ranks
                shape = (2, largest, heads, length, HEAD)
                self.caches = [torch.zeros(shape) for _ in range(self.options.layers)]
            self.net.eval()
            self.tokens = torch.zeros(largest, dtype=torch.long)
            self.place = torch.zeros(1, dtype=torch.long)

    def decode(self, size: int) -> torch.Tensor:
        with torch.inference_mode():
            return self.net(self.tokens[:size], self.caches, self.place)

    def warm_up(self, size: int) -> None:
        """Run eagerly on a side stream."""
        side = self.side
        if side is None or self.options.side == "each":
            side = self.side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.decode(size)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()

    def capture(self, size: int) -> None:
        if self.options.collect:
            gc.collect()
        graph = torch.cuda.CUDAGraph(keep_graph=self.options.share)
        pool = self.pool if self.options.pools == "one" else None
        stream = torch.cuda.Stream() if self.options.streams == "each" else None
        with torch.cuda.graph(graph, pool=pool, stream=stream):
            output = self.decode(size)
            begin = time.perf_counter()
        self.instantiation_seconds += time.perf_counter() - begin
        self.pool = self.pool or graph.pool()
        self.graphs[size] = graph, output

    def start(self) -> None:
        self.ballast = [{"number": number} for number in range(self.options.objects)]
        if self.options.freeze:
            gc.collect()
            gc.freeze()
        if self.options.warm == "all":
            for size in self.sizes:
                self.warm_up(size)
        for size in self.sizes:
            if self.options.warm == "each" or (
                self.options.warm == "first" and size == self.sizes[0]
            ):
                self.warm_up(size)
            self.capture(size)

    def share(self) -> None:
        """Use one executable for all sizes: launch it, then count the sizes that it serves."""
        driver = ctypes.CDLL("libcuda.so.1")
        executable = ctypes.c_void_p()
        handles = [ctypes.c_void_p(graph.raw_cuda_graph()) for graph, _ in self.graphs.values()]
        begin = time.perf_counter()
        instantiate = driver.cuGraphInstantiateWithFlags
        assert instantiate(ctypes.byref(executable), handles[0], ctypes.c_ulonglong(0)) == 0
        self.instantiation_seconds += time.perf_counter() - begin
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        assert driver.cuGraphLaunch(executable, stream) == 0
        self.note("first replay")
        info = (ctypes.c_byte * 32)()
        begin = time.perf_counter()
        sizes = [
            size
            for size, handle in zip(self.graphs, handles, strict=True)
            if driver.cuGraphExecUpdate_v2(executable, handle, info) == 0
        ]
        switch_ms = (time.perf_counter() - begin) / len(handles) * 1e3
        self.shared = {"sizes": sizes, "switch_ms": switch_ms}


def main() -> None:
    options = parse_options()
    server = Server(options)
    if options.gate:
        open(f"{options.gate}.waiting", "w").close()
    while options.gate and not os.path.exists(options.gate):
        time.sleep(0.05)
    reference_seconds = [measure_speed()]
    server.note_time("begin")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    if options.distributed:
        torch.cuda.set_device(device)
    torch.cuda.init()
    server.note("context")
    if options.distributed:
        distributed.init_process_group("nccl", device_id=device)
        distributed.barrier()
        server.note("process group")
    server.build()
    server.note("built")
    server.start()
    server.note("captured")
    replay_sizes = [int(size) for size in options.used.split(",")] if options.used else server.sizes
    if options.share:
        server.share()
    else:
        server.graphs[replay_sizes[0]][0].replay()
        server.note("first replay")
    reference_seconds.append(measure_speed())
    for number in range(0 if options.share else options.replays):
        server.graphs[replay_sizes[number % len(replay_sizes)]][0].replay()
    server.note("end")
    facts: dict[str, Any] = {
        "options": vars(options),
        "rank": int(os.environ.get("RANK", "0")),
        "used": server.used,
        "seconds": server.seconds,
        "cpu_seconds": server.cpu_seconds,
        "reserved": torch.cuda.memory_reserved(),
        "reference_seconds": reference_seconds,
        "instantiation_seconds": server.instantiation_seconds,
        "shared": getattr(server, "shared", None),
    }
    # One write: lines of two ranks would mix.
    print(f"FACTS {json.dumps(facts)}\n", end="", flush=True)
    if options.distributed:
        server.graphs.clear()
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
