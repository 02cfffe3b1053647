"""Thousands of experiments, built from small samples."""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path
from typing import Final

import msgspec

SAMPLES: Final = Path(__file__).parents[1] / "sample_traces"
SMALL_SAMPLES: Final = ("superset", "fork-join", "moved-inputs", "creation-order")
_SUBJECTS: Final = ("attention", "encoder", "decoder", "optimizer", "sampler", "embedding")


def make_experiments(folder: Path, count: int, samples: Path = SAMPLES) -> None:
    """Fill ``folder`` with ``count`` experiments in a hundred groups.

    ``samples`` must be on the same file system, because of the hard links.
    """
    for number in range(count):
        target = folder / f"group-{number % 100:02d}" / f"experiment-{number:05d}"
        make_experiment(target, samples / SMALL_SAMPLES[number % len(SMALL_SAMPLES)], number)


def make_experiment(target: Path, sample: Path, number: int) -> None:
    """Copy ``sample`` to ``target`` with its own step times, dates and description."""
    noise = random.Random(number)
    factor = noise.uniform(0.5, 2.0)
    for manifest_file in sample.glob("*/manifest.json"):
        run = manifest_file.parent
        copy = target / run.name
        copy.mkdir(parents=True)
        manifest = msgspec.json.decode(manifest_file.read_bytes())
        for entry in manifest["files"]:
            source, file = run / entry["path"], copy / entry["path"]
            file.parent.mkdir(exist_ok=True)
            if entry["role"] != "clean":
                os.link(source, file)
                continue
            content = _scale_steps(source.read_bytes(), factor * noise.uniform(0.9, 1.1))
            file.write_bytes(content)
            entry["bytes"] = len(content)
            entry["sha256"] = hashlib.sha256(content).hexdigest()
        manifest["created"] = f"2026-{number % 12 + 1:02d}-{number % 28 + 1:02d}T08:00:00+00:00"
        (copy / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    subject = _SUBJECTS[number % len(_SUBJECTS)]
    (target / "about.txt").write_text(f"Trial {number} of the {subject}\n", encoding="utf-8")


def _scale_steps(content: bytes, factor: float) -> bytes:
    clean = msgspec.json.decode(content)
    clean["steps"] = [[round(time_ns * factor) for time_ns in step] for step in clean["steps"]]
    return msgspec.json.encode(clean)
