"""A server modelled on vLLM: forked workers, one set of graphs per batch size in a shared memory
pool, eager attention between the pieces.

graphviz-dash collect -o runs -- python -m collectors.examples.server
graphviz-dash collect -o runs -- python -m collectors.examples.server --gpus 2

The main process draws batch sizes and passes them to one worker per GPU. Workers sum their shares
with NCCL inside the graphs. A batch is padded to the next size; above the largest size it runs
eagerly.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import socket
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Final

import torch
from torch.nn import functional

import collectors

SIZES: Final = (1, 2, 4, *range(8, 257, 8))
"""Sizes that vLLM captures up to a batch of 256."""

_END_S: Final = 60
"""Time limit for a worker to exit after serving."""
_CONTEXT = 128
_HEADS = 8


class Decoder:
    """A decoder with random weights, split into pieces at attention.

    The last piece returns logits. ``rank`` of ``world`` holds its share of each layer.
    """

    def __init__(self, width: int, layers: int, max_batch: int, world: int) -> None:
        def weight(rows: int, columns: int) -> torch.Tensor:
            return torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16) / rows**0.5

        share = width // world
        self.world = world
        self.heads = _HEADS // world
        self.embedding = weight(1024, width)
        self.qkv = [weight(width, 3 * share) for _ in range(layers)]
        self.out = [weight(share, width) for _ in range(layers)]
        self.up = [weight(width, 4 * share) for _ in range(layers)]
        self.down = [weight(4 * share, width) for _ in range(layers)]
        self.tokens = torch.zeros(max_batch, dtype=torch.int64, device="cuda")
        self.attended = torch.zeros(max_batch, share, device="cuda", dtype=torch.bfloat16)
        cache = (layers, 2, max_batch, self.heads, _CONTEXT, share // self.heads)
        self.cache = torch.randn(cache, device="cuda", dtype=torch.bfloat16)

    @property
    def pieces(self) -> int:
        """Number of pieces: one more than layers."""
        return len(self.qkv) + 1

    def run_piece(self, number: int, hidden: torch.Tensor | None, size: int) -> list[torch.Tensor]:
        """Run piece ``number`` for ``size`` rows; return the residual stream and the output."""
        if hidden is None:
            hidden = functional.embedding(self.tokens[:size], self.embedding)
        else:
            layer = number - 1
            hidden = hidden + self._all_reduce(self.attended[:size] @ self.out[layer])
            inner = functional.gelu(_normalize(hidden) @ self.up[layer])
            hidden = hidden + self._all_reduce(inner @ self.down[layer])
        last = number == len(self.qkv)
        result = _normalize(hidden) @ (self.embedding.t() if last else self.qkv[number])
        return [hidden, result]

    def compute_attention(self, layer: int, qkv: torch.Tensor, size: int) -> None:
        """Run eager attention of ``size`` requests over their cache."""
        query = qkv[:size].chunk(3, dim=1)[0].view(size, self.heads, 1, -1)
        keys, values = self.cache[layer, 0, :size], self.cache[layer, 1, :size]
        attended = functional.scaled_dot_product_attention(query, keys, values)
        self.attended[:size].copy_(attended.reshape(size, -1))

    def _all_reduce(self, partial: torch.Tensor) -> torch.Tensor:
        if self.world > 1:
            torch.distributed.all_reduce(partial)
        return partial


class Server:
    """Runs batches through graphs of the next size."""

    def __init__(self, decoder: Decoder, sizes: tuple[int, ...], labels: bool) -> None:
        self.decoder = decoder
        self.sizes = sizes
        self._labels = labels
        self._pool = torch.cuda.graph_pool_handle()
        self._graphs: dict[int, list[tuple[torch.cuda.CUDAGraph, list[torch.Tensor]]]] = {}
        for size in sorted(sizes, reverse=True):
            with self._open_label(None, size):
                self._run(size, self._build_eager_piece(size))
                torch.cuda.synchronize()
                self._run(size, self._build_captured_piece(size))

    def run_step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits of one decoding step of ``tokens``, one row each."""
        real = len(tokens)
        size = min((size for size in self.sizes if size >= real), default=None)
        self.decoder.tokens[:real].copy_(tokens, non_blocking=True)
        with self._open_label(real, size or real):
            if size is None:
                return self._run(real, self._build_eager_piece(real))
            graphs = self._graphs[size]

            def replayed(number: int, _hidden: torch.Tensor | None) -> list[torch.Tensor]:
                graph, outputs = graphs[number]
                graph.replay()
                return outputs

            return self._run(real, replayed)[:real]

    def close(self) -> None:
        """Destroy the graphs once the GPU is idle."""
        torch.cuda.synchronize()
        for pieces in self._graphs.values():
            for graph, _ in pieces:
                graph.reset()
        self._graphs.clear()

    def _run(
        self, real: int, piece: Callable[[int, torch.Tensor | None], list[torch.Tensor]]
    ) -> torch.Tensor:
        hidden, result = piece(0, None)
        for number in range(1, self.decoder.pieces):
            self.decoder.compute_attention(number - 1, result, real)
            hidden, result = piece(number, hidden)
        return result

    def _build_eager_piece(
        self, size: int
    ) -> Callable[[int, torch.Tensor | None], list[torch.Tensor]]:
        return lambda number, hidden: self.decoder.run_piece(number, hidden, size)

    def _build_captured_piece(
        self, size: int
    ) -> Callable[[int, torch.Tensor | None], list[torch.Tensor]]:
        graphs = self._graphs[size] = []

        def capture(number: int, hidden: torch.Tensor | None) -> list[torch.Tensor]:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool):
                outputs = self.decoder.run_piece(number, hidden, size)
            graphs.append((graph, outputs))
            return outputs

        return capture

    def _open_label(self, real: int | None, size: int) -> AbstractContextManager[None]:
        if not self._labels:
            return nullcontext()
        return collectors.label("decode", real=real, phase="decode", batch=size)


def _normalize(rows: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(rows, rows.shape[-1:])


def run_worker(rank: int, options: argparse.Namespace, port: int, requests: Connection) -> None:
    """Serve batches until told to stop, then send the duration of each in s."""
    torch.cuda.set_device(rank)
    torch.manual_seed(0)
    if options.gpus > 1:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        torch.distributed.init_process_group("nccl", rank=rank, world_size=options.gpus)
    with torch.inference_mode():
        decoder = Decoder(options.width, options.layers, 2 * max(options.sizes), options.gpus)
        server = Server(decoder, options.sizes, labels=not options.no_labels)
        requests.send("ready")
        times = []
        while (size := requests.recv()) is not None:
            start = time.perf_counter()
            tokens = torch.randint(0, 1024, (size,), device="cuda")
            server.run_step(tokens).argmax(dim=1).tolist()
            times.append(time.perf_counter() - start)
        requests.send(times)
    # NCCL waits for graphs that hold its kernels, so destroy them before the group.
    server.close()
    if options.gpus > 1:
        torch.distributed.destroy_process_group()


def draw_batch_sizes(steps: int, largest: int) -> list[int]:
    """Draw batch sizes with rising and falling load, occasionally above ``largest``."""
    draw = random.Random(0)
    sizes, load = [], largest / 4
    for _ in range(steps):
        load = min(max(load * draw.uniform(0.8, 1.22), 1), 1.1 * largest)
        sizes.append(max(1, round(load)))
    return sizes


def _parse_sizes(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _join_worker(worker: BaseProcess) -> bool:
    worker.join(_END_S)
    if worker.is_alive():
        worker.kill()
        worker.join()
        return False
    return True


def main() -> None:
    """Start the workers and send them batches."""
    parser = argparse.ArgumentParser(description=__doc__, prog="server")
    parser.add_argument("--gpus", type=int, default=1, help="number of workers, one per GPU")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--sizes", type=_parse_sizes, default=SIZES, help="for example 1,2,4,8")
    parser.add_argument("--no-labels", action="store_true", help="do not label steps")
    options = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("fork")
    connections = []
    for rank in range(options.gpus):
        parent_end, child_end = context.Pipe()
        worker = context.Process(
            target=run_worker, args=(rank, options, port, child_end), name=f"worker-{rank}"
        )
        worker.start()
        connections.append((worker, parent_end))
    for _, connection in connections:
        connection.recv()
    sizes = draw_batch_sizes(options.steps, max(options.sizes))
    for size in (*sizes, None):
        for _, connection in connections:
            connection.send(size)
    times = max((connection.recv() for _, connection in connections), key=sum)
    total_s = sum(times)
    late = [worker for worker, _ in connections if not _join_worker(worker)]
    print(
        f"served {sum(sizes):,} tokens in {total_s:.2f} s: {sum(sizes) / total_s:,.0f} tokens/s, "
        f"median step {1e6 * statistics.median(times):,.0f} us"
    )
    if late:
        names = ", ".join(worker.name for worker in late)
        raise SystemExit(f"{names}: did not exit within {_END_S} s")


if __name__ == "__main__":
    main()
