from __future__ import annotations

from tests.collectors.program.programs.cases import bare, case

FORKS = (
    case(
        "a child captures",
        """
        g = captured()
        if not (child := os.fork()):
            h = captured()
            for _ in range(50): h.replay()
            print("child", flush=True)
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        for _ in range(3): g.replay()
        """,
        runs=2,
    ),
    case(
        "a child that captures nothing",
        """
        g = captured()
        if not (child := os.fork()):
            for _ in range(50): g.replay()
            sys.exit(0)
        os.waitpid(child, 0)
        """,
    ),
    case(
        "many children that capture nothing",
        """
        captured()
        children = [os.fork() or os._exit(number) for number in range(12)]
        print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
        """,
    ),
    case(
        "a child and its child",
        """
        def descend(depth):
            captured()
            if depth and not (child := os.fork()):
                sys.exit(descend(depth - 1))
            elif depth:
                os.waitpid(child, 0)
            print("depth", depth, flush=True)
            return depth
        descend(2)
        """,
        runs=3,
    ),
    case(
        "a child that ends at once",
        """
        if not (child := os.fork()):
            captured()
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
    ),
    case(
        "a child that raises",
        """
        captured()
        if not (child := os.fork()):
            captured()
            raise ValueError("in the child")
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
        runs=2,
    ),
    case(
        "a child that is killed",
        """
        if not (child := os.fork()):
            captured()
            os.kill(os.getpid(), 9)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        captured()
        """,
        runs=2,
    ),
    case(
        "children forked in threads",
        """
        from threading import Thread
        codes = []
        def work(number):
            if not (child := os.fork()):
                captured()
                os._exit(number)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        threads = [Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(sorted(codes))
        """,
        runs=4,
    ),
    case(
        "forked within a capture",
        """
        with torch.cuda.graph(G()):
            if not (child := os.fork()):
                os._exit(0)
        print(os.waitpid(child, 0)[1])
        """,
    ),
    case(
        "forked within the traced window",
        """
        g = captured()
        for _ in range(8): g.replay()
        if not (child := os.fork()):
            captured().replay()
            sys.exit(0)
        print(os.waitpid(child, 0)[1])
        for _ in range(8): g.replay()
        """,
        runs=2,
    ),
    case(
        "forked while the recorder writes",
        """
        captured()
        session = sys.modules.get("collectors.program.session")
        watcher = session and session._active
        lock = watcher and getattr(watcher, "_recorder", watcher)._lock
        if lock: lock.acquire()
        if not (child := os.fork()):
            captured()
            os._exit(5)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        if lock: lock.release()
        """,
        runs=2,
    ),
    case(
        "a daemon",
        """
        read, write = os.pipe()
        if not os.fork():
            os.setsid()
            if os.fork(): os._exit(0)
            os.closerange(0, 3)
            numbers = [os.open("/dev/null", os.O_RDWR) for _ in range(3)]
            captured()
            os.write(write, f"daemon with {numbers}".encode())
            os._exit(0)
        os.close(write)
        print(os.fdopen(read).read())
        """,
    ),
    bare(
        "preforked workers that import torch together",
        """
        import os, time
        go, ready = os.pipe(), os.pipe()
        children = []
        for number in range(3):
            if not (child := os.fork()):
                os.close(go[1])
                os.write(ready[1], b".")
                os.read(go[0], 1)
                import torch
                g = torch.cuda.CUDAGraph()
                with torch.cuda.graph(g):
                    pass
                os._exit(number)
            children.append(child)
        for _ in children:
            os.read(ready[0], 1)
        os.close(go[0]), os.close(go[1])
        print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
        """,
        runs=3,
    ),
    case(
        "preforked workers",
        """
        children = []
        for number in range(3):
            if not (child := os.fork()):
                g = captured()
                for _ in range(number): g.replay()
                os._exit(number)
            children.append(child)
        print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
        """,
        runs=3,
    ),
)
