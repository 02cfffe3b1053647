"""Score the checks of replays on planted faults: ``python -m evaluation.replays.score``.

Needs a GPU. ``values`` compares replays with eager steps in this process; ``clean`` does the same
for steps without a fault; ``stops`` runs programs that crash, hang or lose memory under
``collect --marks``. Each result is written immediately.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

SIZES: Final = (13, 60, 130, 400)
"""Blocks of about seven nodes."""

STOPS: Final = (
    ("bad-store", "bad_store", "crash"),
    ("trap", "trap_here", "crash"),
    ("misaligned", "misaligned", "crash"),
    ("assert", "index", "crash"),
    ("spin", "spin", "hang"),
    ("host", "Host", "hang"),
    ("freed", "", "memory-freed"),
    ("pool", "", "other-graph"),
    ("unmapped", "", "memory-freed"),
)
"""Kind, part of the name of the kernel, and cause."""

_ILLEGAL: Final = {"bad-store": "bad_store", "misaligned": "misaligned", "unmapped": "elementwise"}
"""Part of the name of the kernel by kind."""

_SANITIZER: Final = (
    *("compute-sanitizer", "--tool", "memcheck"),
    *("--report-api-errors", "no", "--print-limit", "1"),
)
_ACCESS: Final = re.compile(
    r"(?:Invalid|Misaligned|Address).*\n=+\s+at (?:0x[0-9a-f]+ in )?(.+?)(?:\+0x[0-9a-f]+)?\n"
)


@click.group()
def score() -> None:
    """Score the checks."""


@score.command("values")
@click.option("--out", "path", type=click.Path(path_type=Path), required=True)
@click.option("--seconds", type=float, default=120)
@click.option("--seeds", default=2)
@click.option("--largest", default=400)
@click.option("--shard", default="0/1", help="Number of this shard and of all.")
def score_values(path: Path, seconds: float, seeds: int, largest: int, shard: str) -> None:
    """Check steps with a planted fault."""
    deadline = time.monotonic() + seconds
    results = []
    for result in _check_planted(seeds, largest, deadline, shard):
        results.append(result)
        path.write_text(json.dumps(results, indent=1))
        click.echo(
            f"{'RIGHT' if result['exact'] and result['right_cause'] else 'WRONG'} "
            f"{result['name']} {result['nodes']} nodes: {result['answer']} "
            f"(truth {result['truth']}), {result['seconds']:.1f} s"
        )
        if not result["exact"]:
            details = {key: result.get(key) for key in ("first", "facts", "orders", "gaps")}
            click.echo(f"   {details}")
    exact = sum(result["exact"] for result in results)
    causes = sum(result["right_cause"] for result in results)
    click.echo(f"TOTAL {len(results)}: exact {exact}, cause {causes}")


def _check_planted(
    seeds: int, largest: int, deadline: float, shard: str
) -> Iterator[dict[str, Any]]:
    from tests.gpu.planted_faults import FAULTS, build

    cases = [
        (name, SIZES[(seed + number) % len(SIZES)], seed)
        for seed in range(seeds)
        for number, name in enumerate(FAULTS)
    ]
    number, count = map(int, shard.split("/"))
    for name, blocks, seed in cases[number::count]:
        if time.monotonic() > deadline:
            return
        case = build(name, min(blocks, largest), seed, train=False)
        yield _check(name, case.step, case.truth.operator, case.truth.cause, case.module)


def _check(name: str, step: Any, operator: str, cause: str, module: str) -> dict[str, Any]:
    import torch

    from collectors.replays.check import check_step
    from graphviz_dash.analysis.replay_check import diagnose_replays

    start_time = time.monotonic()
    result: dict[str, Any] = {"name": name, "truth": [operator, cause, module]}
    try:
        check = check_step(step)
        diagnosis = diagnose_replays(check)
    except Exception as error:  # one broken case must not cost the others
        text = f"{type(error).__name__}: {str(error)[:300]}"
        click.echo("".join(traceback.format_exception(error)[-4:])[-1500:])
        torch.cuda.synchronize()
        return result | {
            "answer": text,
            "nodes": 0,
            "exact": False,
            "right_cause": False,
            "seconds": time.monotonic() - start_time,
        }
    wrong = diagnosis.wrong[0] if diagnosis.wrong else None
    answer = [
        wrong.operator.name if wrong else None,
        wrong.cause.value if wrong else None,
        wrong.operator.module if wrong else None,
    ]
    values = check.values[0] if check.values else None
    return result | {
        "answer": answer,
        "nodes": values.nodes if values else 0,
        "hash_count": values.hash_count if values else 0,
        "differing": values.difference_count if values else 0,
        "first": [
            [
                item.round,
                item.replay,
                item.operator,
                item.tensor.role,
                item.relative,
                item.eager_difference,
            ]
            for item in (values.differences[:4] if values else ())
        ],
        "orders": len(values.orders) if values else 0,
        "facts": [
            [item.operator, item.kind.value, item.capture_value, list(item.eager[:2])]
            for item in (values.facts[:4] if values else ())
        ],
        "replay": wrong.difference.replay if wrong and wrong.difference else None,
        "line": wrong.operator.location.text if wrong and wrong.operator.location else None,
        "elements": wrong.elements.differing_elements if wrong and wrong.elements else None,
        "gaps": [f"{item.subject}: {item.reason}" for item in check.gaps],
        "exact": (answer[0], answer[2]) == (operator, module),
        "right_cause": answer[1] == cause,
        "seconds": time.monotonic() - start_time,
    }


@score.command("clean")
@click.option("--out", "path", type=click.Path(path_type=Path), required=True)
@click.option("--workloads", default="mlp-train,transformer-train,decode,fork-join")
def score_clean(path: Path, workloads: str) -> None:
    """Check steps without a fault: nothing may be found."""
    from collectors.workloads import get_factory_path, load_factory
    from tests.gpu.planted_faults import build_clean

    results = []
    steps: list[tuple[str, Any]] = [
        ("blocks", lambda: build_clean(140, train=False)),
        ("training", lambda: build_clean(30, train=True)),
    ]
    for name in workloads.split(","):
        factory = load_factory(get_factory_path(name))
        steps.append((name, factory))
    for name, make in steps:
        result = _check(name, make(), "", "", "")
        results.append(result)
        path.write_text(json.dumps(results, indent=1))
        is_clean = result["answer"] == [None, None, None]
        click.echo(
            f"{'CLEAN' if is_clean else 'ALARM'} {name} {result['nodes']} nodes, "
            f"{result.get('hash_count')} hashed, {result.get('differing')} differ: "
            f"{result['answer']} {result.get('gaps')} {result['seconds']:.1f} s"
        )


@score.command("stops")
@click.option("--out", "path", type=click.Path(path_type=Path), required=True)
@click.option("--seconds", type=float, default=120)
@click.option("--parallel", default=4)
@click.option("--blocks", default="13,130")
def score_stops(path: Path, seconds: float, parallel: int, blocks: str) -> None:
    """Run programs that crash, hang or lose memory."""
    deadline = time.monotonic() + seconds
    pending = [
        (kind, part, cause, int(size)) for size in blocks.split(",") for kind, part, cause in STOPS
    ]
    running: list[tuple[tuple[str, str, str, int], Any, Path, float]] = []
    results: list[dict[str, Any]] = []
    while (pending or running) and time.monotonic() < deadline:
        while pending and len(running) < parallel:
            case = pending.pop(0)
            folder = Path(tempfile.mkdtemp())
            program = [
                *(sys.executable, "-m", "evaluation.replays.stopping"),
                *(case[0], str(case[3]), str(len(results) + len(pending))),
            ]
            process = _start(_mark_program(folder / "out", program), folder / "log")
            running.append((case, process, folder, time.monotonic()))
        for item in list(running):
            if item[1].poll() is not None:
                running.remove(item)
                results.append(_read_stop(*item))
                path.write_text(json.dumps(results, indent=1))
        time.sleep(0.2)
    for case, process, folder, start_time in running:
        process.kill()
        results.append(_read_stop(case, process, folder, start_time) | {"timeout": True})
    path.write_text(json.dumps(results, indent=1))
    exact = sum(result["exact"] for result in results)
    click.echo(
        f"TOTAL {len(results)}: exact {exact}, cause {sum(r['right_cause'] for r in results)}"
    )


@score.command("sanitizer")
@click.option("--out", "path", type=click.Path(path_type=Path), required=True)
@click.option("--seconds", type=float, default=120)
@click.option("--seeds", default=2)
def score_sanitizer(path: Path, seconds: float, seeds: int) -> None:
    """Compare the kernels of illegal accesses with those that compute-sanitizer names."""
    deadline = time.monotonic() + seconds
    cases = [(kind, seed) for seed in range(seeds) for kind in _ILLEGAL]
    running = []
    for kind, seed in cases:
        program = [sys.executable, "-m", "evaluation.replays.stopping", kind, "13", str(seed)]
        folder = Path(tempfile.mkdtemp())
        sanitizer_run = _start([*_SANITIZER, *program], folder / "sanitizer")
        marks_run = _start(_mark_program(folder / "out", program), folder / "log")
        running.append((kind, seed, folder, sanitizer_run, marks_run))
        for *_, first, second in running[:-2]:
            # Four programs at a time.
            _wait(first, deadline)
            _wait(second, deadline)
    results = []
    for kind, seed, folder, sanitizer_run, marks_run in running:
        _wait(sanitizer_run, deadline)
        _wait(marks_run, deadline)
        text = (folder / "sanitizer").read_text(errors="replace")
        kernels = [_get_base_name(name) for name in _ACCESS.findall(text)]
        answer = _read_stop((kind, _ILLEGAL[kind], "", 13), marks_run, folder, time.monotonic())
        names = [
            _get_base_name(name.partition(" ")[2])
            for name in answer.get("answer", {}).get("suspects", ())
        ]
        agrees = bool(kernels) and names[:1] == kernels[:1]
        result = {"name": kind, "seed": seed, "sanitizer": kernels[:1], "marks": names}
        results.append(result | {"agrees": agrees})
        path.write_text(json.dumps(results, indent=1))
        click.echo(f"{'AGREES' if agrees else 'DIFFERS'} {result}")
        if not kernels:
            click.echo(text[-600:])
    click.echo(f"TOTAL {len(results)}: agree {sum(bool(item['agrees']) for item in results)}")


def _start(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as stream:
        return subprocess.Popen(command, stdout=stream, stderr=stream)


def _wait(process: subprocess.Popen[bytes], deadline: float) -> None:
    try:
        process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _mark_program(folder: Path, program: Sequence[str]) -> list[str]:
    return [
        *(sys.executable, "-P", "-c", _MAIN, "collect", "--marks"),
        *("--hang-seconds", "3", "-o", str(folder), "--", *program),
    ]


def _get_base_name(kernel: str) -> str:
    """Return a kernel's name without namespaces, templates and arguments."""
    start = kernel.removeprefix("void ").partition("<")[0].partition("(")[0]
    return start.strip().rpartition("::")[2].split(" ")[0]


@score.command("ranks")
@click.option("--out", "path", type=click.Path(path_type=Path), required=True)
@click.option("--seconds", type=float, default=60)
@click.option("--parallel", default=4)
@click.option("--cases", default="spin:5,skip:3,late:2")
def score_ranks(path: Path, seconds: float, parallel: int, cases: str) -> None:
    """Run programs on two GPUs whose ranks wait for each other."""
    deadline = time.monotonic() + seconds
    counts = [part.split(":") for part in cases.split(",")]
    # All kinds early, in case the time ends
    pending = sorted(
        ((kind, seed) for kind, count in counts for seed in range(int(count))),
        key=lambda case: case[1],
    )
    running: list[tuple[str, int, Any, Path]] = []
    results: list[dict[str, Any]] = []
    while (pending or running) and time.monotonic() < deadline:
        while pending and len(running) < parallel:
            kind, seed = pending.pop(0)
            folder = Path(tempfile.mkdtemp())
            # The launcher takes a free port.
            program = [
                *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
                *("--nproc-per-node", "2", "-m", "evaluation.replays.hanging_ranks"),
                *(kind, str(seed)),
            ]
            process = _start(_mark_program(folder / "out", program), folder / "log")
            running.append((kind, seed, process, folder))
        for item in list(running):
            if item[2].poll() is not None:
                running.remove(item)
                results.append(_read_ranks(item[0], item[1], item[3]))
                path.write_text(json.dumps(results, indent=1))
        time.sleep(0.2)
    for kind, seed, process, folder in running:
        process.kill()
        results.append(_read_ranks(kind, seed, folder) | {"timeout": True})
    path.write_text(json.dumps(results, indent=1))
    click.echo(f"TOTAL {len(results)}: right {sum(result['exact'] for result in results)}")


def _read_ranks(kind: str, seed: int, folder: Path) -> dict[str, Any]:
    """Compare the report of a hang with the planted collective and rank."""
    from graphviz_dash.analysis.replay_check import diagnose_replays, find_differing_ranks
    from graphviz_dash.bundle.read import read_bundle
    from graphviz_dash.narrative.replay_check import format_replay_verdict

    log = (folder / "log").read_text(errors="replace")
    truth = next(
        (json.loads(line[6:]) for line in log.splitlines() if line.startswith("TRUTH ")), {}
    )
    result: dict[str, Any] = {"name": kind, "seed": seed, "truth": truth, "exact": False}
    bundles = sorted((folder / "out").glob("*/manifest.json"))
    if bundles:
        check = read_bundle(bundles[0].parent).replay_check
        assert check is not None
        diagnosis = diagnose_replays(check)
        waits = {
            stop.rank: [node.collective or node.name for node in stop.suspects]
            for stop in check.stops
        }
        differing = (
            [item.rank for item in find_differing_ranks(diagnosis.stops[0])]
            if diagnosis.stops
            else []
        )
        target = truth.get("collective")
        truth_waits = {
            "spin": {0: [target], 1: ["spin"]},
            "skip": {0: [8]},
            "late": {0: [1]},
        }[kind]
        missing = sorted(
            number
            for stop in check.stops
            for item in stop.ranks
            for number in item.missing_collectives
        )
        result |= {"waits": waits, "differing": differing, "missing": missing}
        result["verdict"] = format_replay_verdict(diagnosis)
        result["exact"] = (waits, differing, missing) == (
            truth_waits,
            [1],
            [target] if kind == "skip" else [],
        )
    click.echo(f"{'RIGHT' if result['exact'] else 'WRONG'} {result}")
    if not result["exact"]:
        click.echo("   " + log[-900:].replace("\n", "\n   "))
    return result


_MAIN: Final = (
    "import sys; from graphviz_dash.app.cli.main import main; sys.exit(main(sys.argv[1:]))"
)


def _read_stop(
    case: tuple[str, str, str, int], process: Any, folder: Path, start_time: float
) -> dict[str, Any]:
    from graphviz_dash.analysis.replay_check import diagnose_replays
    from graphviz_dash.bundle.read import read_bundle

    kind, part, cause, size = case
    log = (folder / "log").read_text(errors="replace")
    result: dict[str, Any] = {
        "name": kind,
        "blocks": size,
        "code": process.poll(),
        "seconds": time.monotonic() - start_time,
        "exact": False,
        "right_cause": False,
        "log": log[-1500:],
    }
    bundles = sorted((folder / "out").glob("*/manifest.json"))
    if bundles:
        check = read_bundle(bundles[0].parent).replay_check
        diagnosis = diagnose_replays(check) if check is not None else None
        causes = [fault.cause.value for fault in diagnosis.stops] if diagnosis else []
        causes += [fault.cause.value for fault in diagnosis.memory] if diagnosis else []
        suspects = (
            [node for fault in diagnosis.stops for node in fault.stop.suspects] if diagnosis else []
        )
        memories = [fault.memory for fault in diagnosis.memory] if diagnosis else []
        memories += [
            fault.memory
            for fault in (diagnosis.stops if diagnosis else ())
            if fault.memory is not None
        ]
        nodes = [memory.node for memory in memories]
        names = [f"{node.index} {node.name} {node.kind} {node.op}" for node in suspects]
        node_locations = [node.location.text for node in nodes if node and node.location]
        result["answer"] = {
            "causes": causes,
            "suspects": names,
            "memory": [
                [
                    memory.description,
                    memory.reported_before_replay,
                    memory.free_location.text if memory.free_location else None,
                    memory.node.location.text if memory.node and memory.node.location else None,
                ]
                for memory in memories
            ],
        }
        result["right_cause"] = cause in causes
        if part:
            result["exact"] = len(names) == 1 and part in names[0]
        else:
            result["exact"] = len(node_locations) == 1 and "stopping.py" in node_locations[0]
    click.echo(
        f"{'RIGHT' if result['exact'] and result['right_cause'] else 'WRONG'} {kind} {size}, exit "
        f"{result['code']}: {result.get('answer')}, {result['seconds']:.0f} s"
    )
    if not result["exact"]:
        click.echo("   " + log[-600:].replace("\n", "\n   "))
    return result


if __name__ == "__main__":
    score()
