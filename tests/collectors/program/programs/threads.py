from __future__ import annotations

from tests.collectors.program.programs.cases import bare, case

THREADS = (
    case(
        "a thread that outlives main",
        """
        from threading import Thread, main_thread
        def work():
            main_thread().join()
            g = captured()
            for _ in range(3): g.replay()
            print("behind main")
        Thread(target=work).start()
        """,
    ),
    case(
        "a daemonic thread that replays to the end",
        """
        from threading import Thread
        g = captured()
        def work():
            while True: g.replay()
        Thread(target=work, daemon=True).start()
        print("main is over")
        """,
    ),
    case(
        "joins all threads",
        """
        import threading
        g = captured()
        for _ in range(20): g.replay()
        for thread in threading.enumerate():
            if thread is not threading.current_thread(): thread.join()
        print(threading.active_count(), [thread.name for thread in threading.enumerate()])
        """,
    ),
    bare(
        "counts the system's threads",
        """
        import os, torch
        print(len(os.listdir("/proc/self/task")), os.listdir("/proc/self/fd"))
        """,
        runs=0,
    ),
    case(
        "threads that capture and replay at once",
        """
        from threading import Barrier, Thread
        sys.setswitchinterval(1e-6)
        together = Barrier(2)
        def work(number):
            graphs = []
            for _ in range(3):
                g = G()
                together.wait()
                with torch.cuda.graph(g):
                    together.wait()
                graphs.append(g)
            for at in range(300): graphs[at % 3].replay()
        threads = [Thread(target=work, args=(number,)) for number in range(2)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print("both")
        """,
    ),
    case(
        "an executor of threads",
        """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(1) as pool:
            graphs = list(pool.map(lambda _: captured(), range(3)))
            list(pool.map(lambda g: g.replay(), graphs))
        print(len(graphs))
        """,
    ),
    case(
        "a thread that raises",
        """
        from threading import Thread
        def work():
            captured()
            raise ValueError("in a thread")
        thread = Thread(target=work, name="own")
        thread.start(); thread.join()
        """,
    ),
    case(
        "asyncio",
        """
        import asyncio
        async def main():
            g = captured()
            child = await asyncio.create_subprocess_exec("sh", "-c", "exit 3")
            for _ in range(5):
                g.replay()
                await asyncio.sleep(0)
            await asyncio.to_thread(g.replay)
            print(await child.wait())
        asyncio.run(main())
        """,
    ),
    case(
        "asyncio that raises",
        """
        import asyncio
        async def main():
            captured().replay()
            raise ValueError("in a task")
        asyncio.run(main())
        """,
    ),
)
