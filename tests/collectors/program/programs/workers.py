from __future__ import annotations

import textwrap

from tests.collectors.program.programs.cases import bare

WORK = """
import multiprocessing, os, sys

def work(number):
    import torch
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        pass
    for _ in range(number):
        g.replay()
    return number * number

def fail(number):
    work(number)
    raise ValueError(number)

def end(number):
    work(number)
    os._exit(number)
"""

MULTIPROCESSING = (
    *(
        bare(
            f"multiprocessing by {method}",
            WORK
            + textwrap.dedent(f"""
                if __name__ == "__main__":
                    make = multiprocessing.get_context("{method}").Process
                    processes = [make(target=work, args=(number,)) for number in range(2)]
                    for process in processes: process.start()
                    for process in processes: process.join()
                    print([process.exitcode for process in processes])
                """),
            runs=2,
        )
        for method in ("fork", "forkserver", "spawn")
    ),
    bare(
        "forkserver with torch in it",
        WORK
        + textwrap.dedent("""
            if __name__ == "__main__":
                context = multiprocessing.get_context("forkserver")
                context.set_forkserver_preload(["torch"])
                processes = [context.Process(target=work, args=(n,)) for n in range(2)]
                for process in processes: process.start()
                for process in processes: process.join()
                print([process.exitcode for process in processes])
            """),
        runs=2,
    ),
    bare(
        "a pool",
        WORK
        + textwrap.dedent("""
            import torch
            context = multiprocessing.get_context("fork")
            with context.Pool(2, initializer=work, initargs=(3,)) as pool:
                print(pool.map(abs, range(6)))
                pool.close()
                pool.join()
            """),
        runs=2,
    ),
    bare(
        "a pool that is terminated",
        WORK
        + textwrap.dedent("""
            import torch
            with multiprocessing.get_context("fork").Pool(1) as pool:
                print(pool.map(work, range(3)))
            """),
    ),
    bare(
        "an executor of processes",
        WORK
        + textwrap.dedent("""
            from concurrent.futures import ProcessPoolExecutor
            import torch
            context = multiprocessing.get_context("fork")
            with ProcessPoolExecutor(1, mp_context=context) as pool:
                print(list(pool.map(work, range(4))))
            """),
    ),
    bare(
        "a process that raises",
        WORK
        + textwrap.dedent("""
            import torch
            process = multiprocessing.get_context("fork").Process(target=fail, args=(3,))
            process.start(); process.join(); print(process.exitcode)
            """),
    ),
    bare(
        "a process that ends at once",
        WORK
        + textwrap.dedent("""
            import torch
            process = multiprocessing.get_context("fork").Process(target=end, args=(3,))
            process.start(); process.join(); print(process.exitcode)
            """),
    ),
    bare(
        "a daemonic process",
        WORK
        + textwrap.dedent("""
            import torch
            context = multiprocessing.get_context("fork")
            process = context.Process(target=work, args=(3,), daemon=True)
            process.start(); process.join(); print(process.exitcode, process.daemon)
            """),
    ),
    bare(
        "a manager",
        WORK
        + textwrap.dedent("""
            import torch
            with multiprocessing.get_context("fork").Manager() as manager:
                shared = manager.dict(a=work(2))
                print(dict(shared))
            """),
    ),
)
