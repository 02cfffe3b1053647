"""Programs with and without the recorder: equal output, exit code and signal.

    python -m benchmarks.unchanged_programs [--match TEXT] [--jobs 2]

Runs each program alone and under ``graphviz-dash collect`` and prints the differences: small
programs that look for traces of a recorder, tests of the standard library, and tools from the
standard library and PyPI. Messages of the recorder follow the program's own output. The exit code 0
becomes 1 if there is nothing to record, as documented.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.collectors.program.programs import CASES

ROOT: Final = Path(__file__).parents[1]
FAKE_TORCH: Final = ROOT / "tests" / "collectors" / "fake_torch"
_LIMIT_S: Final = 300
_VOLATILE: Final = (
    (re.compile(r"\b0x[0-9a-f]+\b"), "<address>"),
    (re.compile(r"\bin \d+\.\d+ ?s(?:ec)?\b"), "<time>"),
    (re.compile(r"\b\d+\.\d+ ?(?:s|sec|seconds)\b"), "<time>"),
    (re.compile(r"python_worker_[\w]+|test_python_\w+|/tmp/tmp\w+"), "<temporary>"),
)
_STANDARD_TESTS: Final = (
    *("abc", "argparse", "array", "ast", "atexit", "base64", "bdb", "binascii"),
    *("bisect", "bool", "builtin", "bytes", "call", "class", "cmath", "code"),
    *("code_module", "codecs", "collections", "contextlib", "copy", "copyreg", "coroutines", "csv"),
    *("dataclasses", "decimal", "descr", "dict", "dis", "doctest", "dynamic", "enum"),
    *("exceptions", "extcall", "fileinput", "float", "fnmatch", "format", "fractions", "frame"),
    *("frozen", "functools", "future", "generators", "genericpath", "getopt", "glob", "grammar"),
    *("hashlib", "heapq", "importlib", "inspect", "int", "io", "iter", "itertools"),
    *("json", "keyword", "linecache", "list", "locale", "logging", "math", "module"),
    *("opcodes", "operator", "ordered_dict", "pathlib", "pickle", "pkgutil", "pprint", "profile"),
    *("property", "queue", "random", "re", "reprlib", "richcmp", "runpy", "sched"),
    *("set", "shelve", "shlex", "shutil", "signal", "site", "slice", "sort"),
    *("sqlite3", "stat", "string", "struct", "subprocess", "super", "sys", "sys_settrace"),
    *("syntax", "tempfile", "textwrap", "threading", "time", "tokenize", "trace", "traceback"),
    *("tuple", "types", "typing", "unicodedata", "unittest", "unpack", "userdict", "utf8source"),
    *("uuid", "warnings", "weakref", "with", "yield_from", "zipfile", "zipimport", "zlib"),
)
_TOOLS: Final = {
    "json.tool": ["-m", "json.tool", "{data}/object.json"],
    "ast": ["-m", "ast", "{data}/module.py"],
    "dis": ["-m", "dis", "{data}/module.py"],
    "tokenize": ["-m", "tokenize", "{data}/module.py"],
    "py_compile": ["-m", "py_compile", "{data}/module.py"],
    "compileall": ["-m", "compileall", "-q", "{data}"],
    "doctest": ["-m", "doctest", "-v", "{data}/module.py"],
    "unittest": ["-m", "unittest", "-v", "discover", "{data}"],
    "trace": ["-m", "trace", "--listfuncs", "{data}/module.py"],
    "pdb": ["-m", "pdb", "{data}/module.py"],
    "calendar": ["-m", "calendar", "2026"],
    "this": ["-m", "this"],
    "zipapp": ["-m", "zipapp", "--info", "{data}/none.pyz"],
    "base64": ["-m", "base64", "-e", "{data}/object.json"],
    "inspect": ["-m", "inspect", "textwrap:dedent"],
    "pyclbr": ["-m", "pyclbr", "{data}/module.py"],
    "site": ["-m", "site"],
    "sysconfig": ["-m", "sysconfig"],
    "pip list": ["-m", "pip", "list", "--disable-pip-version-check"],
    "pytest": ["-m", "pytest", "-q", "-p", "no:cacheprovider", "{data}/test_module.py"],
    "mypy": ["-m", "mypy", "--cache-dir=/dev/null", "--no-incremental", "{data}/module.py"],
    "ruff": ["-m", "ruff", "check", "--no-cache", "{data}/module.py"],
    "pygments": ["-m", "pygments", "{data}/module.py"],
    "rich": ["-m", "rich.table"],
    "numpy": ["-c", "import numpy; print(numpy.arange(6).reshape(2, 3).sum(axis=0))"],
    "polars": ["-c", "import polars; print(polars.DataFrame({'a': [1, 2]}).sum())"],
    "msgspec": ["-c", "import msgspec; print(msgspec.json.encode({'a': 1}))"],
    "click": ["-c", "import click; click.echo(click.style('x', 'red'))"],
}
_FILES: Final = {
    "object.json": '{"b": [1, 2.5, null], "a": "text"}',
    "module.py": textwrap.dedent('''
        """A module.

        >>> add(1, 2)
        3
        """

        class Number:
            def double(self):
                return add(self, self)

        def add(a, b):
            return a + b

        if __name__ == "__main__":
            print(add(1, 2))
    '''),
    "test_module.py": textwrap.dedent("""
        import unittest
        import module

        class AddTest(unittest.TestCase):
            def test_add(self):
                self.assertEqual(module.add(1, 2), 3)

            def test_wrong(self):
                self.assertEqual(module.add(1, 2), 4)
    """),
}
_STATEMENTS: Final = {
    "depth": "n = 0\ndef f():\n global n\n n += 1\n f()\ntry: f()\nexcept RecursionError: print(n)",
    "stack": "import inspect; print([frame.function for frame in inspect.stack()])",
    "frames": "import sys; f = sys._getframe()\nwhile f: print(f.f_code.co_name); f = f.f_back",
    "main": "print(sorted(globals()), __file__ if '__file__' in globals() else '', __spec__)",
    "loader": "print(type(__loader__), __builtins__.__name__)",
    "finders": "import sys; print([getattr(f, '__name__', one) for f in sys.meta_path])",
    "hooks": "import sys; print(sys.path_hooks and len(sys.path_hooks), sys.excepthook is "
    "sys.__excepthook__, sys.displayhook is sys.__displayhook__, sys.unraisablehook is "
    "sys.__unraisablehook__)",
    "threading hook": "import threading; print(threading.excepthook is threading.__excepthook__)",
    "path": "import sys; print(sys.path)",
    "environment": "import os; print(sorted(os.environ.items()))",
    "site modules": "import sys; print([name for name in ('sitecustomize', 'usercustomize') "
    "if name in sys.modules])",
    "modules": "import sys; print(sorted(name for name in sys.modules if 'collector' in name))",
    "arguments": "import sys; print(sys.argv, sys.orig_argv[1:])",
    "flags": "import sys; print(sys.flags, sys.dont_write_bytecode, sys.pycache_prefix)",
    "signals": "import signal; print([(int(n), str(signal.getsignal(n))) for n in "
    "sorted(signal.valid_signals()) if n < 32])",
    "wakeup": "import signal; print(signal.set_wakeup_fd(-1), "
    "signal.getitimer(signal.ITIMER_REAL))",
    "mask": "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []))",
    "trace": "import sys; print(sys.gettrace(), sys.getprofile(), sys.getrecursionlimit())",
    "threads": "import threading; print([thread.name for thread in threading.enumerate()])",
    "tasks": "import os; print(len(os.listdir('/proc/self/task')))",
    "descriptors": "import os; print(sorted(os.listdir('/proc/self/fd')))",
    "children": "import psutil; print(psutil.Process().children())",
    "umask": "import os; print(os.umask(0o22), os.getpriority(os.PRIO_PROCESS, 0))",
    "limits": "import resource; print([resource.getrlimit(n) for n in range(10)])",
    "streams": "import sys; print([(s.encoding, s.errors, s.line_buffering, s.isatty()) for s in "
    "(sys.stdin, sys.stdout, sys.stderr)])",
    "standard input": "import sys; print(sys.stdin.read().upper())",
    "warnings": "import warnings; print(warnings.filters)",
    "garbage": "import gc; print(gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), "
    "gc.callbacks)",
    "switch": "import sys; print(sys.getswitchinterval())",
    "audit": "import sys\nsys.addaudithook(lambda e, a: e == 'os.system' and print(e, a))\n"
    "import os; os.system('true')",
    "codecs": "import locale, sys; print(locale.getlocale(), sys.getfilesystemencoding())",
    "random": "import random; random.seed(5); print(random.random())",
    "hash": "import sys; print(sys.flags.hash_randomization, hash(5))",
    "decimal": "import decimal; print(decimal.getcontext())",
    "logging": "import logging; print(logging.root.handlers, logging.root.level, "
    "logging.Logger.manager.loggerDict.keys())",
    "atexit": "import atexit; atexit.register(print, 'last'); print(atexit._ncallbacks())",
    "exit 0": "raise SystemExit(0)",
    "exit 5": "import sys; sys.exit(5)",
    "exit -2": "raise SystemExit(-2)",
    "exit text": "raise SystemExit('stop here')",
    "exit object": "raise SystemExit(['a', 1])",
    "immediate exit": "import os; print('lost', end=''); os._exit(9)",
    "exit in a thread": "import threading, sys; t = threading.Thread(target=sys.exit, args=(3,)); "
    "t.start(); t.join(); print('on')",
    "error": "import math\ndef f(x): return math.sqrt(x)\nf(-1)",
    "chained error": "try: {}['a']\nexcept KeyError as e: raise ValueError('x') from e",
    "error group": "raise ExceptionGroup('two', [ValueError(1), TypeError(2)])",
    "error in exit": "import atexit; atexit.register(lambda: 1 / 0)",
    "error in finalizer": "class A:\n def __del__(self): raise ValueError('x')\nA()",
    "error in a thread": "import threading; t = threading.Thread(target=lambda: 1 / 0, name='t'); "
    "t.start(); t.join()",
    "syntax error": "def f(:\n pass",
    "interrupt": "raise KeyboardInterrupt",
    "broken pipe": "import os, sys; os.close(1); print('x')",
    "abort": "import os, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.abort()",
    "terminate": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "hang up": "import os, signal; os.kill(os.getpid(), signal.SIGHUP)",
    "kill": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "user signal": "import os, signal; os.kill(os.getpid(), signal.SIGUSR1)",
    "own handler": "import os, signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(4)); "
    "os.kill(os.getpid(), signal.SIGTERM)",
    "fork": "import os, sys; pid = os.fork()\nif not pid: os._exit(6)\nprint(os.waitpid(pid, "
    "0)[1])",
    "child": "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'import sys; "
    "print(sys.path[1:], list(sys.modules)[:9])'], capture_output=True))",
    "isolated child": "import subprocess, sys; print(subprocess.run([sys.executable, '-I', '-c', "
    "'print(5)'], capture_output=True))",
    "replacement": "import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'print(7)'])",
    "pool": "import multiprocessing as m\nif __name__ == '__main__':\n with m.Pool(2) as p: "
    "print(p.map(abs, [-1, -2]))",
    "spawned pool": "import multiprocessing as m\nif __name__ == '__main__':\n with "
    "m.get_context('spawn').Pool(1) as p: print(p.map(abs, [-1]))",
    "asyncio": "import asyncio; print(asyncio.run(asyncio.sleep(0, 'done')))",
    "large output": "print('x' * 3_000_000)",
    "bytes output": "import sys; sys.stdout.buffer.write(bytes(range(256)))",
    "pickle": "import pickle; f = pickle.loads(pickle.dumps(print)); f('x')",
    "import": "import importlib.util as u; print(u.find_spec('json').loader.__class__)",
    "missing import": "import nothing_of_this_name",
    "reload": "import importlib, json; print(importlib.reload(json).__name__)",
    "profile": "import cProfile; p = cProfile.Profile(); p.enable(); sum([1]); p.disable(); "
    "print(len(p.getstats()))",
    "tracemalloc": "import tracemalloc; print(tracemalloc.is_tracing())",
    "faulthandler": "import faulthandler; print(faulthandler.is_enabled())",
}
_DIFFERENCES: Final = {
    "finders": "the recorder waits for the import of torch",
    "environment": "variables of the recorder and its folder on PYTHONPATH",
    "modules": "modules of the recorder",
    "garbage": "a callback times collections",
    "logging": "loggers of torch that the recorder reads",
    "atexit": "the recorder writes its files at the end",
}
"""Differences that docs/how-to/record-a-program.md lists, by program."""
_PREFIXES: Final = {"": "", "torch, ": "import torch\n"}


class Program(Struct, frozen=True):
    name: str
    arguments: list[str]
    """Arguments of the interpreter."""
    text: str | None = None
    """Content of ``train.py``; None for none."""
    files: dict[str, str] = {}
    """Other files of its folder by path."""
    input: str = ""


class Outcome(Struct, frozen=True):
    code: int
    stdout: str
    stderr: str


def list_programs(data: Path) -> Iterator[Program]:
    """Yield all programs; ``data`` contains the files of the tools."""
    for prefix, text in _PREFIXES.items():
        for name, statements in _STATEMENTS.items():
            yield Program(f"{prefix}{name}", ["train.py"], f"{text}{statements}\n", input="input\n")
    for case in CASES:
        if case.command[1:] == ("train.py",) and not case.needs and not case.environment:
            yield Program(
                f"case {case.name}", ["train.py"], case.program, dict(case.files), case.stdin or ""
            )
    for name in _STANDARD_TESTS:
        yield Program(f"test {name}", ["-m", "unittest", "-q", f"test.test_{name}"])
    for name, arguments in _TOOLS.items():
        yield Program(f"tool {name}", [word.replace("{data}", str(data)) for word in arguments])


def run(program: Program, folder: Path, *, has_recorder: bool) -> Outcome:
    """Run a program in a new folder."""
    folder.mkdir()
    files = program.files | ({} if program.text is None else {"train.py": program.text})
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    command = [sys.executable, *program.arguments]
    if has_recorder:
        recorder = [sys.executable, "-P", "-m", "graphviz_dash.app.cli.main"]
        output = folder.with_name(f"{folder.name}-output")
        command = [*recorder, "collect", "-o", str(output), "--", *command]
    result = subprocess.run(
        command,
        cwd=folder,
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(map(str, (FAKE_TORCH, ROOT))), "PYTHONHASHSEED": "1"},
        input=program.input,
        capture_output=True,
        text=True,
        errors="backslashreplace",
        check=False,
        timeout=_LIMIT_S,
        start_new_session=True,
    )
    return Outcome(
        result.returncode, _simplify(result.stdout, folder), _simplify(result.stderr, folder)
    )


def _simplify(text: str, folder: Path) -> str:
    """Replace addresses, times and the folder."""
    text = text.replace(str(folder), "<folder>")
    for pattern, replacement in _VOLATILE:
        text = pattern.sub(replacement, text)
    return text


def find_difference(plain: Outcome, outcome: Outcome) -> str | None:
    """Describe the first difference; None if there is none."""
    code = plain.code if plain.code >= 0 else 128 - plain.code
    if outcome.code not in (code, plain.code) and (code, outcome.code) != (0, 1):
        return f"exit code {plain.code}, recorded {outcome.code}"
    if plain.stdout != outcome.stdout:
        return f"stdout {_show_difference(plain.stdout, outcome.stdout)}"
    # The messages of the recorder follow.
    if not outcome.stderr.startswith(plain.stderr):
        return f"stderr {_show_difference(plain.stderr, outcome.stderr)}"
    return None


def _show_difference(first: str, second: str) -> str:
    pairs = enumerate(zip(first, second, strict=False))
    length = min(len(first), len(second))
    position = next((index for index, (a, b) in pairs if a != b), length)
    begin = max(0, position - 30)
    return f"{first[begin : position + 90]!r}, recorded {second[begin : position + 90]!r}"


def compare(program: Program, scratch: Path, number: int) -> tuple[str, str | None]:
    """Return the name of a program and its difference; ``unstable`` if it differs from itself."""
    outcomes = []
    for attempt, has_recorder in enumerate((False, True, False)):
        try:
            folder = scratch / f"{number}-{attempt}"
            outcomes.append(run(program, folder, has_recorder=has_recorder))
        except subprocess.TimeoutExpired:
            return program.name, f"no end within {_LIMIT_S} s{' recorded' * has_recorder}"
        if attempt == 1 and find_difference(*outcomes) is None:
            return program.name, None
    if outcomes[0] != outcomes[2]:
        return program.name, "unstable"
    return program.name, find_difference(outcomes[0], outcomes[1])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--match", default="", help="text in the names of the programs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(options.jobs) as pool:
        data = Path(scratch) / "data"
        data.mkdir()
        for name, text in _FILES.items():
            (data / name).write_text(text, encoding="utf-8")
        programs = [program for program in list_programs(data) if options.match in program.name]
        results = pool.map(partial(_compare, Path(scratch)), enumerate(programs))
        counts = {"equal": 0, "unstable": 0, "documented": 0, "different": 0}
        for name, difference in results:
            kind = "equal" if difference is None else difference
            if name.rpartition(", ")[2] in _DIFFERENCES and difference is not None:
                kind = "documented"
            counts[kind if kind in counts else "different"] += 1
            if difference is not None:
                print(f"{name}: {difference}", flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return int(counts["different"] > 0)


def _compare(scratch: Path, item: tuple[int, Program]) -> tuple[str, str | None]:
    number, program = item
    return compare(program, scratch, number)


if __name__ == "__main__":
    sys.exit(main())
