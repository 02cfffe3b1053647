"""What thousands of page loads leave in the server: descriptors, memory, threads.

    python -m benchmarks.page_loads [--loads 5000] [--sample decode]

Each load requests document, socket and page like a new tab, without a browser. The server has a
soft limit of 256 descriptors, like macOS.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time

from tests.attack.server import dashboard
from tests.attack.visitor import Visitor

SOFT_LIMIT = 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loads", type=int, default=5000)
    parser.add_argument("--sample", default="decode")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT_LIMIT, hard))
    start_time = time.monotonic()
    print("| loads | descriptors | memory, MB | threads | a load, ms | minutes |")
    print("| --- | --- | --- | --- | --- | --- |")
    with dashboard([options.sample]) as served:
        server = served.server
        times: list[float] = []
        for number in range(1, options.loads + 1):
            at = time.monotonic()
            with Visitor(served.address) as visitor:
                visitor.open("compare", f"experiment={options.sample}")
                assert not visitor.problems, visitor.problems
            times.append((time.monotonic() - at) * 1000)
            if number in (1, 10, 100) or number % (options.loads // 10 or 1) == 0:
                print(
                    f"| {number:,} | {server.num_fds()} | {server.memory_info().rss / 1e6:.0f} "
                    f"| {server.num_threads()} | {statistics.median(times):.0f} "
                    f"| {(time.monotonic() - start_time) / 60:.1f} |",
                    flush=True,
                )
                times.clear()


if __name__ == "__main__":
    main()
