"""Programs of many kinds, each of which must be the same whether it is recorded or not."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

PYTHON = sys.executable
FAKE = Path(__file__).parents[1] / "fake_torch"

CAPTURE = """
import os, sys, time
import torch
from torch.cuda import CUDAGraph as G

def captured(graph=None):
    g = graph or G()
    with torch.cuda.graph(g):
        pass
    return g
"""


@dataclass(frozen=True)
class Case:
    """A program, and how it is started."""

    name: str
    """The test's id."""
    program: str
    """train.py."""
    runs: int = 1
    """How many of its processes must have become runs when it is recorded."""
    command: tuple[str, ...] = (PYTHON, "train.py")
    """How it is started, in its folder."""
    files: dict[str, str] = field(default_factory=dict)
    """Further files, by path."""
    environment: dict[str, str] = field(default_factory=dict)
    """Further variables; ``{folder}`` is the program's folder, ``{path}`` the PYTHONPATH."""
    errors: bool = False
    """Whether the recorder is made to fail, and must tell so."""
    stdin: str = ""
    """What it reads."""
    needs: str = ""
    """A shell command that succeeds where the case can be tried."""


def case(name: str, program: str, **how: object) -> Case:
    """A case whose program begins with a torch and ``captured()``."""
    return Case(name, CAPTURE + textwrap.dedent(program), **how)  # type: ignore[arg-type]


def bare(name: str, program: str, **how: object) -> Case:
    """A case whose program is all there is."""
    return Case(name, textwrap.dedent(program), **how)  # type: ignore[arg-type]


def shell(line: str) -> tuple[str, ...]:
    """A command of the shell; ``{python}`` is this Python."""
    return ("bash", "-c", line.replace("{python}", PYTHON))


ENDS = (
    case("returns", "g = captured()\nfor i in range(40): g.replay()\nprint('out', i)"),
    case("writes to stderr", "captured()\nprint('err', file=sys.stderr)"),
    case("exits with a code", "captured()\nsys.exit(9)"),
    case("exits with a text", "captured()\nsys.exit('no')"),
    case("os._exit", "captured()\nprint('a', flush=True)\nos._exit(4)"),
    case("raises", "captured()\nraise KeyError('lost')"),
    case(
        "raises with a surrogate",
        "captured()\nraise RuntimeError('bytes \\udcff of a path')",
    ),
    case(
        "raises from a cause",
        """
        g = captured()
        try:
            g.replay(), {}["x"]
        except KeyError as error:
            raise RuntimeError("twice") from error
        """,
    ),
    case(
        "own end",
        """
        import atexit
        atexit.register(print, "first registered, last to go")
        g = captured()
        atexit.register(lambda: (g.replay(), print("replayed at the end")))
        """,
    ),
    case("raises at its end", "import atexit\ncaptured()\natexit.register(lambda: 1 / 0)"),
    case("aborts", "captured()\nos.abort()"),
    case("own excepthook", "captured()\nsys.excepthook = lambda *e: print('own', e[0])\n1 / 0"),
)

EXECS = (
    case(
        "executes itself again",
        """
        g = captured()
        for _ in range(3): g.replay()
        print(len(sys.argv), flush=True)
        if len(sys.argv) < 3:
            os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
        """,
        runs=3,
    ),
    bare(
        "executes itself before torch",
        """
        import os, sys
        if len(sys.argv) < 2:
            os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
        import torch
        print("torch", len(sys.argv))
        """,
        runs=0,
    ),
    case("executes another", "captured()\nos.execvp('sh', ['sh', '-c', 'echo other; exit 3'])"),
    bare(
        "starts children",
        """
        import subprocess, sys
        code = "import torch; print(torch.__version__)"
        print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True))
        print(subprocess.run([sys.executable, "-c", "print(1)"], check=True).returncode)
        """,
        runs=0,
    ),
    case(
        "a child with a function before it",
        """
        import subprocess
        captured()
        child = subprocess.run(["sh", "-c", "echo child"], preexec_fn=os.setsid)
        print(child.returncode)
        """,
    ),
    case(
        "posix_spawn",
        """
        captured()
        child = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 3"], os.environ)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
    ),
)

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

SIGNALS = (
    *(
        case(f"killed by {name}", f"import signal\ncaptured()\nos.kill(os.getpid(), signal.{name})")
        for name in ("SIGKILL", "SIGTERM", "SIGSEGV", "SIGINT", "SIGHUP")
    ),
    case("killed by a real-time signal", "captured()\nos.kill(os.getpid(), 40)"),
    case(
        "a handler that exits",
        """
        import signal
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
        captured()
        os.kill(os.getpid(), signal.SIGTERM)
        """,
    ),
    case(
        "a handler that raises amid replays",
        """
        import signal
        class Late(Exception): pass
        def late(*_): raise Late
        signal.signal(signal.SIGALRM, late)
        g = captured()
        for again in range(40):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0007)
                while True:
                    g = captured()
                    g.replay()
            except Late:
                torch.capturing = False
        print("late each time")
        """,
    ),
    case(
        "waits for blocked signals",
        """
        import signal
        g = captured()
        for _ in range(3): g.replay()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        os.kill(os.getpid(), signal.SIGUSR1)
        print(signal.sigwait({signal.SIGUSR1}))
        """,
    ),
    case(
        "counts the children that end",
        """
        import signal
        ended = []
        def child_ended(*_):
            while True:
                try:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    return
                if not pid: return
                ended.append(status)
        signal.signal(signal.SIGCHLD, child_ended)
        g = captured()
        for _ in range(30): g.replay()
        import atexit
        atexit.register(lambda: print("children", ended))
        """,
    ),
    case(
        "interrupts itself",
        """
        import signal
        g = captured()
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            print("interrupted")
        g.replay()
        """,
    ),
)

STARTS = (
    case(
        "own sitecustomize",
        "import sitecustomize\ncaptured()\nprint(sitecustomize.theirs)",
        files={"site/sitecustomize.py": "theirs = 1\nprint('theirs')\n"},
        environment={"PYTHONPATH": "{folder}/site:{path}"},
    ),
    case(
        "own sitecustomize that raises",
        "captured()",
        files={"site/sitecustomize.py": "raise ValueError('theirs')\n"},
        environment={"PYTHONPATH": "{folder}/site:{path}"},
    ),
    case(
        "own usercustomize",
        "captured()",
        files={"site/usercustomize.py": "print('theirs')\n"},
        environment={"PYTHONPATH": "{folder}/site:{path}"},
    ),
    *(
        bare(
            f"python {flag}",
            f"import sys\nsys.path[:0] = [{str(FAKE)!r}]\nimport torch\nprint(torch.__version__)",
            command=(PYTHON, flag, "train.py"),
            runs=0,
        )
        for flag in ("-I", "-E", "-S")
    ),
    *(
        case(f"python {' '.join(flags)}", "g = captured()\nfor _ in range(20): g.replay()", **how)
        for flags, how in (
            (flags, {"command": (PYTHON, *flags, "train.py")})
            for flags in (("-O",), ("-W", "error"), ("-X", "dev"), ("-u", "-B"), ("-bb",))
        )
    ),
    case("python -m", "captured()\nprint(__name__, sys.argv)", command=(PYTHON, "-m", "train")),
    bare(
        "python -c",
        "",
        command=(PYTHON, "-c", CAPTURE + "captured()\nprint(__name__, sys.argv)", "x"),
    ),
    bare("python from stdin", "", command=(PYTHON, "-"), stdin=CAPTURE + "captured()\nprint(1)\n"),
    bare(
        "a virtual environment without the recorder",
        """
        import sys, torch
        print(sys.prefix != sys.base_prefix, torch.__version__)
        """,
        command=shell("{python} -m venv --without-pip venv && venv/bin/python train.py"),
        environment={"PYTHONPATH": str(FAKE)},
        runs=0,
    ),
    bare(
        "no torch in it",
        "try:\n    import torch\nexcept ImportError as error:\n    print(error)",
        environment={"PYTHONPATH": ""},
        runs=0,
    ),
    bare(
        "a torch that fails",
        "import torch",
        files={"torch/__init__.py": "def broken():\n    return 1 / 0\n\nbroken()\n"},
        runs=0,
    ),
    bare(
        "a torch without a spec",
        """
        import importlib.util, sys, types
        print(importlib.util.find_spec("torch") is not None)
        sys.modules["torch"] = types.ModuleType("torch")
        import torch
        print(torch)
        """,
        runs=0,
    ),
    case(
        "modules of the recorder's names",
        "import collectors\ncaptured()\nprint(collectors.own)",
        files={"collectors.py": "own = 1\nprint('run once, when asked for')\n"},
        runs=0,
    ),
    bare(
        "variables taken away",
        """
        import os
        os.environ.clear()
        import torch
        print(dict(os.environ))
        """,
        runs=0,
    ),
    case(
        "a name that is no text",
        "captured()\nprint(ascii(sys.argv))",
        command=shell("cp train.py $'tr\\xffain.py' && exec {python} $'tr\\xffain.py'"),
    ),
    case("ascii only", "captured()\nprint('\\xe9')", environment={"PYTHONIOENCODING": "ascii"}),
)

TIGHT = (
    *(
        case(
            f"files of at most {size} KiB",
            """
            graphs = [captured() for _ in range(9)]
            for g in graphs: g.replay()
            print("well")
            """,
            command=shell(f"ulimit -f {size}; exec {{python}} train.py"),
            runs=runs,
            errors=bool(size),
        )
        for size, runs in ((0, 0), (1, 1))
    ),
    case(
        "files of no size, and killed by the signal of it",
        """
        import resource, signal
        g = captured()
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        h = captured()
        for _ in range(30): h.replay()
        print("well")
        """,
    ),
    case(
        "no room for a folder",
        "captured()\nprint('well')",
        command=shell(
            "exec unshare -m sh -c 'mkdir -p scratch && mount -t tmpfs -o nr_inodes=3 none scratch "
            "&& mkdir scratch/processes && exec {python} train.py'"
        ),
        runs=0,
        needs="unshare -m mount -t tmpfs none /mnt",
    ),
    case(
        "no room for a file",
        "captured()\nprint('well')",
        command=shell(
            "exec unshare -m sh -c 'mkdir -p scratch && mount -t tmpfs -o size=4k none scratch "
            "&& mkdir scratch/processes && exec {python} train.py'"
        ),
        runs=0,
        needs="unshare -m mount -t tmpfs none /mnt",
    ),
    case(
        "a folder that is read-only",
        "captured()\nprint('well')",
        command=shell(
            "mkdir -p scratch && chmod -R a-w scratch && exec setpriv "
            "--bounding-set=-dac_override {python} train.py"
        ),
        runs=0,
        needs="setpriv --bounding-set=-dac_override true",
    ),
    bare(
        "a folder that is gone before torch",
        """
        import shutil
        shutil.rmtree("scratch", ignore_errors=True)
        import torch
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            pass
        print("well")
        """,
        runs=0,
    ),
    case(
        "a folder that goes amid replays",
        """
        import shutil
        g = captured()
        shutil.rmtree("scratch", ignore_errors=True)
        h = captured()
        for _ in range(60): h.replay()
        print("well")
        """,
        runs=0,
    ),
    *(
        case(
            f"{what} closed",
            """
            captured()
            for stream in (sys.stdin, sys.stdout, sys.stderr):
                print(stream is None, file=open("streams", "a"))
            print(open("streams").read(), file=sys.stdout or sys.stderr)
            """,
            command=shell(f"exec {{python}} train.py {redirection}"),
        )
        for what, redirection in (
            ("stdin", "<&-"),
            ("stdout", ">&-"),
            ("stderr", "2>&-"),
            ("stdin, stdout and stderr", "<&- >&- 2>&-"),
        )
    ),
    case(
        "no descriptor left",
        """
        files = []
        try:
            while True: files.append(open("train.py"))
        except OSError as error:
            print(len(files), error.strerror)
        captured()
        del files
        """,
        command=shell("ulimit -n 32; exec {python} train.py"),
        errors=True,
    ),
    case(
        "no working folder",
        """
        os.mkdir("gone"); os.chdir("gone"); os.rmdir("../gone")
        captured()
        print("well")
        """,
    ),
    case(
        "as deep as it may",
        """
        g = captured()
        def descend(depth):
            g.replay()
            return descend(depth - 1) if depth else "bottom"
        print(descend(900))
        """,
    ),
    case(
        "little memory",
        "captured()\nprint('well')",
        command=shell("ulimit -v 4000000; ulimit -s 1024; exec {python} train.py"),
    ),
)

INSIDES = (
    case(
        "a capture begun by the base class",
        """
        g = G()
        G.__base__.capture_begin(g)
        g.capture_end()
        g.replay()
        h = captured()
        print("well")
        """,
    ),
    case(
        "a class of graphs with its own ways",
        """
        class Mine(G):
            __slots__ = ()
            def __setattr__(self, name, value): raise AttributeError(name)
            def replay(self):
                print("mine")
                super().replay()
        captured(Mine()).replay()
        """,
    ),
    case(
        "a capture that fails",
        """
        with torch.cuda.graph(G()):
            torch.capturing = "broken"
        """,
    ),
    case(
        "a forward that fails",
        """
        class Inner(torch.nn.Module):
            def forward(self, x): return 1 / x
        class Net(torch.nn.Module):
            inner = Inner()
            def forward(self, x): return self.inner(x)
        net = Net()
        for x in (5, 4, 3, 2, 1, 0): net(x)
        """,
        runs=1,
    ),
    case(
        "calls that a base class and others have made their own",
        """
        calls = []
        class Base(torch.nn.Module):
            def __call__(self, *args):
                calls.append("base")
                return super().__call__(*args)
        class Net(Base):
            def forward(self): calls.append("forward")
        net = Net()
        for _ in range(6): net()
        original = torch.nn.Module.__call__
        def counted(self, *args):
            calls.append("counted")
            return original(self, *args)
        torch.nn.Module.__call__ = counted
        for _ in range(6): net()
        torch.optim.SGD().step()
        for _ in range(6): net()
        print(torch.nn.Module.__call__ is counted, len(calls), calls[-3:])
        """,
    ),
    case(
        "a replay replaced by the program",
        """
        replays = []
        original = G.replay
        def own(self):
            replays.append(self)
            original(self)
        g = captured()
        G.replay = own
        for _ in range(3): g.replay()
        print(len(replays), G.replay is own)
        """,
    ),
    case(
        "warnings",
        """
        import warnings
        def old():
            warnings.warn("old", UserWarning, stacklevel=2)
        for _ in range(2):
            old()
            captured()
        warnings.simplefilter("error")
        captured()
        """,
    ),
    case(
        "logging of everything",
        """
        import logging
        logging.basicConfig(level=logging.DEBUG)
        captured()
        logging.debug("own")
        """,
    ),
    case(
        "traced by itself",
        """
        lines = []
        def own(frame, event, arg):
            if frame.f_code.co_filename.endswith("train.py"): lines.append(event)
            return own
        sys.settrace(own)
        captured().replay()
        sys.settrace(None)
        print(len(lines))
        """,
    ),
    case(
        "copies",
        """
        import copy, pickle
        class Net(torch.nn.Module):
            def forward(self): return 1
        net = Net()
        for _ in range(6): net()
        again = pickle.loads(pickle.dumps(copy.deepcopy(net)))
        print(again(), vars(again))
        """,
    ),
)

CASES = (
    *ENDS,
    *EXECS,
    *FORKS,
    *MULTIPROCESSING,
    *THREADS,
    *SIGNALS,
    *STARTS,
    *TIGHT,
    *INSIDES,
)
