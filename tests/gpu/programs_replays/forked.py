"""Two forked workers capture and replay; one of them replays into freed memory."""

import multiprocessing
import sys


def work(number: int) -> None:
    """Replay a graph; worker 1 frees its input first."""
    import torch

    x = torch.ones(1 << 16, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
    for replay in range(4):
        if replay == 2 and number == 1:
            del x  # FREES
        graph.replay()
    torch.cuda.synchronize()
    print("worker", number, y[0].item(), flush=True)


if __name__ == "__main__":
    import torch  # noqa: F401  # as engines do before they fork

    workers = [
        multiprocessing.get_context("fork").Process(target=work, args=(number,))
        for number in range(2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sys.exit(max(worker.exitcode or 0 for worker in workers))
