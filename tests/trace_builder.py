"""Traces of known truth: a builder for Kineto traces, laid out as Kineto writes them.
``tests.experiments`` builds whole runs and experiments with it.

Times are integer nanoseconds since the trace's own zero, which ``base_ns`` and ``offset_ns`` place
in Unix time. Every method that adds an event returns what leads to it: the correlation of a launch,
the External id of an op, the Python id of a frame.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

PID = 700
MAIN_THREAD = 700
AUTOGRAD_THREAD = 722

Json = dict[str, Any]


class GpuWork(Struct, frozen=True):
    """One slice on the GPU, for :meth:`TraceBuilder.graph_launch`; times in ns as in the builder.

    ``kind`` is kernel, memcpy or memset; a copy or set has ``bytes`` instead of a launch shape.
    """

    name: str
    start: int
    duration: int
    kind: str = "kernel"
    stream: int = 7
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (128, 1, 1)
    shared: int = 0
    registers: int = 32
    bytes: int = 0
    graph_id: int | None = None
    graph_node_id: int | None = None


def microseconds(ns: int) -> str:
    """``ns`` as Kineto writes it: decimal microseconds with three digits, exact at any size."""
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


class TraceBuilder:
    """Collects events and writes them as one Kineto trace.

    ``base_ns`` is baseTimeNanoseconds (None: the field is left out, as in old traces).
    ``offset_ns`` is added to every time that is written, as the large offsets of real traces.
    ``whole_microseconds`` writes the integer times of torch before 2.2. ``fields_last`` puts the
    top-level fields behind traceEvents. ``indent`` re-emits the document as ``json.dumps`` would.
    ``flows`` writes Kineto's ac2g arrows beside launches and GPU work.
    """

    def __init__(
        self,
        *,
        base_ns: int | None = 1_790_857_026_000_000_000,
        offset_ns: int = 4_377_359_067_820_009,
        pid: int = PID,
        tid: int = MAIN_THREAD,
        device: int = 0,
        device_names: Sequence[str] = ("NVIDIA H200",),
        with_stack: bool = False,
        record_shapes: bool = False,
        whole_microseconds: bool = False,
        fields_last: bool = False,
        indent: int | None = None,
        flows: bool = True,
    ) -> None:
        self.fields: Json = {
            "schemaVersion": 1,
            "deviceProperties": [
                {"id": index, "name": name, "totalGlobalMem": 150_109_880_320, "numSms": 132}
                for index, name in enumerate(device_names)
            ],
            "trace_id": "00000000000000000000000000000000",
            **({"with_stack": 1} if with_stack else {}),
            **({"record_shapes": 1} if record_shapes else {}),
            "cupti_version": 130001,
            "cuda_driver_version": 13000,
            "cuda_runtime_version": 13000,
            "displayTimeUnit": "ms",
            **({} if base_ns is None else {"baseTimeNanoseconds": base_ns}),
        }
        self.events: list[str] = []
        self._offset = offset_ns
        self._pid = pid
        self._tid = tid
        self._device = device
        self._whole = whole_microseconds
        self._fields_last = fields_last
        self._indent = indent
        self._flows = flows
        self._correlation = 0
        self._external = 0
        self._python = 0

    @property
    def count(self) -> int:
        """Return the number of entries in traceEvents."""
        return len(self.events)

    def op(
        self,
        name: str,
        start: int,
        duration: int,
        *,
        tid: int | None = None,
        dims: Any = None,
        types: Sequence[str] | None = None,
        sequence: int | None = None,
        forward_thread: int = 0,
    ) -> int:
        """An operator on the CPU. Returns its External id."""
        self._external += 1
        args: Json = {"External id": self._external, "Record function id": 0}
        if sequence is not None:
            args |= {"Sequence number": sequence, "Fwd thread id": forward_thread}
        if types is not None:
            args["Input type"] = list(types)
        if dims is not None:
            args["Input Dims"] = dims
        args["Ev Idx"] = self._external - 1
        self._slice("cpu_op", name, start, duration, self._pid, self._thread(tid), args)
        return self._external

    def annotation(self, name: str, start: int, duration: int, *, tid: int | None = None) -> int:
        """A record_function range. Returns its External id."""
        self._external += 1
        args = {"External id": self._external, "Record function id": 0}
        self._slice("user_annotation", name, start, duration, self._pid, self._thread(tid), args)
        return self._external

    def frame(
        self,
        name: str,
        start: int,
        duration: int,
        *,
        parent: int | None = None,
        tid: int | None = None,
    ) -> int:
        """A Python frame such as ``model.py(35): forward``. Returns its Python id."""
        self._python += 1
        args = {"Python parent id": parent, "Python id": self._python, "Ev Idx": 0}
        self._slice("python_function", name, start, duration, self._pid, self._thread(tid), args)
        return self._python

    def runtime(
        self,
        name: str,
        start: int,
        duration: int,
        *,
        correlation: int | None = None,
        external_id: int | None = None,
        tid: int | None = None,
        category: str = "cuda_runtime",
        arguments: Json | None = None,
    ) -> int:
        """A call of the CUDA runtime or driver, with more ``arguments`` as ROCm's profiler writes
        them. Returns its correlation (a new one by default)."""
        correlation = self.new_correlation() if correlation is None else correlation
        thread = self._thread(tid)
        args: Json = {} if external_id is None else {"External id": external_id}
        args |= {"cbid": 211, "correlation": correlation} | (arguments or {})
        self._slice(category, name, start, duration, self._pid, thread, args)
        self._flow("s", correlation, start, self._pid, thread)
        return correlation

    def kernel(
        self,
        name: str,
        start: int,
        duration: int,
        *,
        correlation: int | None,
        external_id: int | None = None,
        stream: int = 7,
        grid: tuple[int, int, int] | None = (1, 1, 1),
        block: tuple[int, int, int] = (128, 1, 1),
        shared: int = 0,
        registers: int = 32,
        graph_id: int | None = None,
        graph_node_id: int | None = None,
    ) -> None:
        """A kernel on the GPU. ``correlation`` None leaves the argument out, ``grid`` None all that
        tells the launch, as ROCm's profiler does for kernels of graphs."""
        args: Json = {} if external_id is None else {"External id": external_id}
        args |= {"queued": 0, "device": self._device, "context": 1, "stream": stream}
        if correlation is not None:
            args["correlation"] = correlation
        if grid is not None:
            args |= {
                "registers per thread": registers,
                "shared memory": shared,
                "blocks per SM": 0.25,
                "warps per SM": 1.5,
                "grid": list(grid),
                "block": list(block),
                "est. achieved occupancy %": 2,
            }
        if graph_id is not None:
            args["graph id"] = graph_id
        if graph_node_id is not None:
            args["graph node id"] = graph_node_id
        self._on_gpu("kernel", name, start, duration, stream, args)

    def memcpy(
        self,
        name: str,
        start: int,
        duration: int,
        *,
        bytes: int,
        correlation: int | None,
        external_id: int | None = None,
        stream: int = 7,
    ) -> None:
        """A copy on the GPU; ``name`` such as ``Memcpy DtoH (Device -> Pinned)``."""
        args = self._transfer_args(bytes, correlation, external_id, stream)
        self._on_gpu("gpu_memcpy", name, start, duration, stream, args)

    def memset(
        self,
        name: str,
        start: int,
        duration: int,
        *,
        bytes: int,
        correlation: int | None,
        external_id: int | None = None,
        stream: int = 7,
    ) -> None:
        """A set on the GPU; ``name`` such as ``Memset (Device)``."""
        args = self._transfer_args(bytes, correlation, external_id, stream)
        self._on_gpu("gpu_memset", name, start, duration, stream, args)

    def work(self, work: GpuWork, correlation: int | None, external_id: int | None = None) -> None:
        """GPU work of any kind."""
        if work.kind == "kernel":
            self.kernel(
                work.name,
                work.start,
                work.duration,
                correlation=correlation,
                external_id=external_id,
                stream=work.stream,
                grid=work.grid,
                block=work.block,
                shared=work.shared,
                registers=work.registers,
                graph_id=work.graph_id,
                graph_node_id=work.graph_node_id,
            )
            return
        {"memcpy": self.memcpy, "memset": self.memset}[work.kind](
            work.name,
            work.start,
            work.duration,
            bytes=work.bytes,
            correlation=correlation,
            external_id=external_id,
            stream=work.stream,
        )

    def graph_launch(
        self, start: int, duration: int, kernels: Iterable[GpuWork], *, tid: int | None = None
    ) -> int:
        """A cudaGraphLaunch and the work of its replay, all under one correlation (returned)."""
        correlation = self.runtime("cudaGraphLaunch", start, duration, tid=tid)
        for work in kernels:
            self.work(work, correlation)
        return correlation

    def thread_name(self, tid: int, name: str) -> None:
        self.raw(
            {"name": "thread_name", "ph": "M", "pid": self._pid, "tid": tid, "args": {"name": name}}
        )

    def raw(self, event: Json | str) -> None:
        """Any event, as an object or as the JSON text that is to stand in the file."""
        self.events.append(event if isinstance(event, str) else json.dumps(event))

    def new_correlation(self) -> int:
        """The next unused correlation; they grow by four, as other calls lie between."""
        self._correlation += 4
        return self._correlation

    def text(self) -> str:
        head = [f'  "{key}": {json.dumps(value)}' for key, value in self.fields.items()]
        tail = ['  "traceName": "/tmp/trace.json"']
        events = '  "traceEvents": [\n  ' + ",\n  ".join(self.events) + "\n  ]"
        parts = [events, *head, *tail] if self._fields_last else [*head, events, *tail]
        document = "\n{\n" + ",\n".join(parts) + "\n}"
        return document if self._indent is None else _reindented(document, self._indent)

    def write(self, path: Path) -> Path:
        """Writes the trace, gzip-compressed when the name ends in ``.gz``. Returns ``path``."""
        data = self.text().encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data, 6, mtime=0) if path.suffix == ".gz" else data)
        return path

    def _thread(self, tid: int | None) -> int:
        return self._tid if tid is None else tid

    def _transfer_args(
        self, count: int, correlation: int | None, external_id: int | None, stream: int
    ) -> Json:
        args: Json = {} if external_id is None else {"External id": external_id}
        args |= {"device": self._device, "context": 1, "stream": stream}
        if correlation is not None:
            args["correlation"] = correlation
        return args | {"bytes": count, "memory bandwidth (GB/s)": 0.04}

    def _on_gpu(
        self, category: str, name: str, start: int, duration: int, stream: int, args: Json
    ) -> None:
        self._slice(category, name, start, duration, self._device, stream, args)
        self._flow("f", args.get("correlation", 0), start, self._device, stream)

    def _time(self, ns: int) -> str:
        return str(ns // 1000) if self._whole else microseconds(ns)

    def _slice(
        self, category: str, name: str, start: int, duration: int, pid: int, tid: int, args: Json
    ) -> None:
        # Built by hand, for json.dumps would round decimal microseconds of epoch size.
        self.events.append(
            f'{{\n    "ph": "X", "cat": "{category}", "name": {json.dumps(name)}, '
            f'"pid": {pid}, "tid": {tid},\n'
            f'    "ts": {self._time(start + self._offset)}, "dur": {self._time(duration)},\n'
            f'    "args": {{\n      {json.dumps(args)[1:-1]}\n    }}\n  }}'
        )

    def _flow(self, phase: str, correlation: int, start: int, pid: int, tid: int) -> None:
        if not self._flows:
            return
        binding = ', "bp": "e"' if phase == "f" else ""
        self.events.append(
            f'{{\n    "ph": "{phase}", "id": {correlation}, "pid": {pid}, "tid": {tid}, '
            f'"ts": {self._time(start + self._offset)},\n'
            f'    "cat": "ac2g", "name": "ac2g"{binding}\n  }}'
        )


class _Verbatim:
    """A number as its text, so that re-indenting keeps every digit."""

    def __init__(self, text: str) -> None:
        self.text = text


def _reindented(document: str, indent: int) -> str:
    return _dump(json.loads(document, parse_float=_Verbatim), "", " " * indent)


def _dump(value: Any, lead: str, step: str) -> str:
    inner = lead + step
    if isinstance(value, _Verbatim):
        return value.text
    if isinstance(value, dict) and value:
        parts = [f"{json.dumps(key)}: {_dump(item, inner, step)}" for key, item in value.items()]
        return "{\n" + ",\n".join(inner + part for part in parts) + f"\n{lead}}}"
    if isinstance(value, list) and value:
        parts = [_dump(item, inner, step) for item in value]
        return "[\n" + ",\n".join(inner + part for part in parts) + f"\n{lead}]"
    return json.dumps(value)
