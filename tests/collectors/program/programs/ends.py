"""Programs that end by returning, exits, errors, signals, or another program."""

from __future__ import annotations

from tests.collectors.program.programs.cases import bare, case

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
