"""A program with graph breaks, recompiles, changing sizes and a skip. Writes the recorded facts as
JSON to the given file. ``versions.py`` runs it with torch and msgspec alone."""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo

from collectors.compiled.account import CompileRecorder
from collectors.guard import Guard
from graphviz_dash.features.torch_compile.analysis.inputs import find_first_write
from graphviz_dash.model.compilation import Compilation, UserLine

HERE = Path(__file__).name
LIMIT = 3


def broken(x: torch.Tensor) -> torch.Tensor:
    x = x.sin() + 1
    print(end="")  # break: print
    x = x * 2
    if x.sum() > 0:  # break: branch
        x = x + 1
    return x.cos()


def reading(x: torch.Tensor) -> torch.Tensor:
    total = x.sum().item()  # break: item
    return x * total


@torch.compiler.disable
def outside(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def disabled(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    x = outside(x)  # break: disable
    return x.sin()


def worded(x: torch.Tensor, word: str) -> torch.Tensor:
    return x + len(word)  # recompile: word


def sized(x: torch.Tensor) -> torch.Tensor:
    return (x * 3).sum()  # recompile: size


def written(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
    cache.add_(x)  # skip
    return cache * 2


def call(function: Callable[..., torch.Tensor], *inputs: object) -> torch.Tensor:
    return function(*inputs)  # call


def run() -> list[torch.Tensor]:
    tensor = torch.ones(8)
    results = []
    for function in (broken, reading, disabled):
        results.append(call(torch.compile(function, backend="eager"), tensor))
    compiled_text = torch.compile(worded, backend="eager", dynamic=False)
    results += [call(compiled_text, tensor, "x" * length) for length in range(6)]
    size = torch.compile(sized, backend="eager")
    results += [call(size, torch.ones(length)) for length in (8, 9, 10)]
    write = torch.compile(written, mode="reduce-overhead")
    results += [call(write, tensor, torch.ones(8)) for _ in range(2)]
    return results


def line_of(mark: str) -> int:
    """The line of this file that ends with a comment ``mark``."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(at for at, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))


def has_line(lines: tuple[UserLine, ...], mark: str) -> bool:
    return bool(lines) and (lines[0].file, lines[0].line) == (HERE, line_of(mark))


def facts_of(compilation: Compilation | None, guard: Guard, equal: bool) -> dict[str, Any]:
    """Facts by row name of the table."""
    facts: dict[str, Any] = {"torch": torch.__version__.partition("+")[0]}
    if compilation is None:
        return facts | {"recorded": "nothing"}
    frames = compilation.frames
    breaks = {
        mark: any(has_line(each.lines, f"break: {mark}") for each in compilation.breaks)
        for mark in ("print", "branch", "item", "disable")
    }
    recompiles = compilation.recompiles
    facts["results equal"] = _mark(equal)
    facts["errors of ours"] = guard.errors
    facts["compilations"] = len(frames)
    facts["with their line"] = _share(frame.location is not None for frame in frames)
    full_frames = [frame for frame in frames if not frame.is_continuation]
    facts["with the line of their call"] = _share(
        has_line(each.callers, "call") for each in full_frames
    )
    facts["with their FX graph"] = _share(frame.code is not None for frame in frames)
    facts["with guards counted"] = _share(frame.guards is not None for frame in frames)
    facts["with guards timed"] = _share(frame.guard_ns is not None for frame in frames)
    facts["with their compile time"] = _share(frame.compile_ns is not None for frame in frames)
    facts["breaks at the right line, of 4"] = sum(breaks.values())
    facts["breaks with hints"] = sum(bool(each.hints) for each in compilation.breaks)
    facts["recompiles"] = len(recompiles)
    facts["with the guard"] = _share(
        bool(each.guards) for each in recompiles if not each.limit_reached
    )
    facts["with the line of the guard"] = _share(bool(each.lines) for each in recompiles)
    facts["limit told"] = _mark(any(each.limit_reached for each in recompiles))
    facts["Inductor's graphs with their key"] = len(compilation.graphs)
    write_lines = [
        find_first_write(frame) for frame in frames if frame.function == written.__name__
    ]
    facts["written input at its line"] = _mark(
        any(line is not None and has_line((line,), "skip") for line in write_lines)
    )
    return facts | _of_sources()


def _mark(value: bool) -> str:
    return "yes" if value else "–"


def _share(values: Any) -> str:
    items = list(values)
    return f"{sum(items)} of {len(items)}"


def _of_sources() -> dict[str, Any]:
    """Facts that need a GPU, looked up in torch's sources."""
    trees, names = _text("cudagraph_trees"), set()
    for node in ast.walk(ast.parse(trees)):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.FunctionDef):
            names.add(node.name)
    requested_ids = {
        "functions and nodes": (
            "ids_to_funcs roots get_roots id_to_mode warmed_up_functions wrapped_function children "
            "static_input_idxs mutated_input_idxs non_static_input_idx cudagraph_managed_idxs "
            "output_storage_alias placeholders reconstructed_inputs"
        ),
        "compilation of a function": "id_to_compile_id",
        "skips for mutation": "warned_mutation",
        "pending backwards": "warned_functions",
    }
    facts = {}
    for what, attributes in requested_ids.items():
        missing = [name for name in attributes.split() if name not in names]
        facts[f"trees: {what}"] = f"without {', '.join(missing)}" if missing else "yes"
    everything = "".join(
        _text(module)
        for module in ("scheduler", "cudagraph_trees", "cudagraph_utils", "compile_fx")
    )
    texts = {
        "log: partitions": "graph partitions:",
        "log: operators that split": 'f"reason={reason}"',
        "log: skips": "skipping cudagraphs due to",
        "log: recordings": "Recording function",
        "log: recordings made again": "Re-recording",
        "log: inputs that moved": "data pointer changed",
    }
    return facts | {what: _mark(text in everything) for what, text in texts.items()}


def _text(module: str) -> str:
    spec = importlib.util.find_spec(f"torch._inductor.{module}")
    if spec is None or spec.origin is None:
        return ""
    return Path(spec.origin).read_text(encoding="utf-8")


def main() -> None:
    warnings.simplefilter("ignore")
    limit = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else None
    setattr(torch._dynamo.config, limit or "cache_size_limit", LIMIT)
    plain = run()
    torch._dynamo.reset()
    guard = Guard()
    account = CompileRecorder(guard)
    account.start()
    recording_facts = run()
    account.stop()
    equal = all(torch.equal(a, b) for a, b in zip(plain, recording_facts, strict=True))
    Path(sys.argv[1]).write_text(json.dumps(facts_of(account.get_result(), guard, equal)))


if __name__ == "__main__":
    main()
