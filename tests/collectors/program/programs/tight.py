"""Programs that leave a recorder little room: files, memory, rights."""

from __future__ import annotations

from tests.collectors.program.programs.cases import bare, case, shell

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
