from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from collectors.cupti import code_files
from collectors.cupti.code_files import CodeFiles, find_unread_kernels, list_code_files
from collectors.cupti.code_reader import read_launch_control
from collectors.cupti.cubin import LaunchControl, add_launch_control
from collectors.cupti.fatbins import list_cubins, zstd
from graphviz_dash.bundle.read import read_bundle
from graphviz_dash.model.graph import EdgeType, KernelParams
from tests.samples import SAMPLES

CUBINS = Path(__file__).parents[2] / "cases" / "launch-control"
SM_90, SM_100 = ((CUBINS / f"sm_{number}.cubin").read_bytes() for number in (90, 100))
NAMES = {"plain", "waits", "triggers", "both"}
CONTROLS = {
    "plain": LaunchControl(waits=False, triggers=False),
    "waits": LaunchControl(waits=True, triggers=False),
    "triggers": LaunchControl(waits=False, triggers=True),
    "both": LaunchControl(waits=True, triggers=True),
}
NOTHING = LaunchControl(waits=False, triggers=False)
CUBIN, PTX = 2, 1
ZSTANDARD, LZ4 = 0x8000, 0x2000


def build_entry(
    payload: bytes, arch: int, kind: int = CUBIN, flags: int = 0, header_bytes: int = 64
) -> bytes:
    stored = len(payload) if flags else 0
    padding = -len(payload) % 8
    header = struct.pack(
        "<HHIQIIHHIIIQQQ",
        *(kind, 0x101, header_bytes, len(payload) + padding, stored, 64, 8, 1, arch),
        *(0, 0, flags, 0, 0),
    )
    return header.ljust(header_bytes, b"\0") + payload + bytes(padding)


def build_container(*entries: bytes) -> bytes:
    content = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(content)) + content


def build_library(*containers: bytes, machine: int = 62) -> bytes:
    """Build a host library whose only section is .nv_fatbin."""
    content = b"".join(entry + bytes(24) for entry in containers)
    names = b"\0.nv_fatbin\0.shstrtab\0"
    begin = 64
    headers = [
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (1, 1, 0, 0, begin, len(content), 0, 0, 8, 0),
        (12, 3, 0, 0, begin + len(content), len(names), 0, 0, 1, 0),
    ]
    start = begin + len(content) + len(names)
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<H", head, 0x12, machine)
    struct.pack_into("<Q", head, 0x28, start)
    struct.pack_into("<HHH", head, 0x3A, 64, len(headers), 2)
    table = b"".join(struct.pack("<IIQQQQIIQQ", *header) for header in headers)
    return bytes(head) + content + names + table


LIBRARY = build_library(
    build_container(
        build_entry(b"// PTX", 90, PTX),
        build_entry(zstd.compress(SM_90), 90, flags=ZSTANDARD | 0x11, header_bytes=104),
        build_entry(SM_100, 100),
    ),
    build_container(build_entry(b"no code", 80)),
)


def test_code_in_a_library_is_that_of_the_gpu() -> None:
    assert list(list_cubins(LIBRARY, (9, 0))) == [SM_90]
    assert [cubin[: len(SM_100)] for cubin in list_cubins(LIBRARY, (10, 0))] == [SM_100]
    # Code of compute capability 8.0 runs on 8.6, but not on 9.0.
    assert [cubin[:7] for cubin in list_cubins(LIBRARY, (8, 6))] == [b"no code"]
    assert list(list_cubins(LIBRARY, (7, 5))) == []


def test_the_newest_code_of_a_container_runs() -> None:
    library = build_library(build_container(build_entry(b"older", 80), build_entry(b"newer", 86)))
    assert [cubin[:5] for cubin in list_cubins(library, (8, 9))] == [b"newer"]
    assert [cubin[:5] for cubin in list_cubins(library, (8, 0))] == [b"older"]


def test_compressions_that_are_not_read() -> None:
    lz4 = build_library(build_container(build_entry(b"compressed", 90, flags=LZ4)))
    assert list(list_cubins(lz4, (9, 0))) == []
    broken = build_library(build_container(build_entry(b"compressed", 90, flags=ZSTANDARD)))
    assert list(list_cubins(broken, (9, 0))) == []


def test_kernels_come_from_libraries_and_caches(tmp_path: Path) -> None:
    (tmp_path / "libkernels.so").write_bytes(LIBRARY)
    (tmp_path / "notes.txt").write_text("no library")
    cache = tmp_path / "cache" / "key"
    cache.mkdir(parents=True)
    renamed = SM_90.replace(b".text.both\0", b".text.fuse\0")
    (cache / "fuse.cubin").write_bytes(renamed)
    files = CodeFiles(
        tuple(str(tmp_path / name) for name in ("libkernels.so", "notes.txt", "missing", "cache")),
        (str(tmp_path / "cache"), str(tmp_path / "missing")),
    )
    controls = read_launch_control(files, NAMES | {"fuse", "other"}, (9, 0))
    assert controls == CONTROLS | {"fuse": CONTROLS["both"]}
    assert read_launch_control(files, {"waits"}, (9, 0)) == {"waits": CONTROLS["waits"]}
    assert read_launch_control(files, {"waits"}, (8, 0)) == {}


def test_kernels_of_one_name_that_differ_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "waits.cubin").write_bytes(SM_90)
    (tmp_path / "older").mkdir()
    changed = SM_90.replace(b".text.plain\0", b".text.other\0")
    changed = changed.replace(b".text.waits\0", b".text.plain\0")
    (tmp_path / "older" / "waits.cubin").write_bytes(changed.replace(b"other", b"waits"))
    controls = read_launch_control(CodeFiles((), (str(tmp_path),)), {"waits", "both"}, (9, 0))
    assert controls == {"waits": None, "both": CONTROLS["both"]}


def test_damaged_libraries_are_skipped(tmp_path: Path) -> None:
    file = tmp_path / "library.so"
    for length in range(0, len(LIBRARY), 97):
        file.write_bytes(LIBRARY[:length])
        read_launch_control(CodeFiles((str(file),), ()), NAMES, (9, 0))
    for place in range(0, 200, 3):
        content = bytearray(LIBRARY)
        content[place] ^= 0xFF
        file.write_bytes(content)
        read_launch_control(CodeFiles((str(file),), ()), NAMES, (9, 0))


def test_the_files_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", "/cache/triton")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/cache/inductor")
    files = list_code_files()
    assert os.path.realpath("/proc/self/exe") in files.libraries
    assert all(path.startswith("/") for path in files.libraries)
    assert {"/cache/triton", "/cache/inductor/triton"} < set(files.folders)


def test_files_that_cannot_be_read_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "library.so").write_bytes(LIBRARY)
    (tmp_path / "waits.cubin").write_bytes(SM_90)
    files = CodeFiles((str(tmp_path / "library.so"),), (str(tmp_path),))

    def refuse(*_arguments: object, **_options: object) -> bytes:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", refuse)
        assert read_launch_control(files, NAMES, (9, 0)) == CONTROLS
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refuse)
        assert read_launch_control(files, {"waits"}, (9, 0)) == {}
    monkeypatch.setattr(code_files, "_MAPS", tmp_path / "missing")
    assert list_code_files().libraries == ()


def test_kernels_with_programmatic_edges_are_read() -> None:
    graphs = read_bundle(SAMPLES / "decode" / "graph").graphs
    names = find_unread_kernels(graphs)
    (graph,) = graphs
    ends = {
        index
        for edge in graph.edges
        if edge.type is EdgeType.PROGRAMMATIC
        for index in (edge.source, edge.target)
    }
    params = [graph.nodes[index].params for index in ends]
    assert names == {entry.name for entry in params if isinstance(entry, KernelParams)}
    assert len(names) > 1
    known = add_launch_control(graph, dict.fromkeys(names, NOTHING))
    assert find_unread_kernels([known]) == set()
    assert find_unread_kernels([add_launch_control(graph, dict.fromkeys(names))]) == names
