from __future__ import annotations

from tests.collectors.program.programs.cases import CAPTURE, FAKE, PYTHON, bare, case, shell

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
