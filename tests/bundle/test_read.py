from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphviz_dash.bundle import read
from graphviz_dash.bundle.read import is_bundle, read_bundle, read_manifest
from graphviz_dash.errors import InputError
from graphviz_dash.model.run import FileEntry, FileRole
from tests.bundle.arbitrary import entries
from tests.bundle.examples import GRAPH, MANIFEST
from tests.bundle.forging import Change, edit_manifest, refusal, replace_part


class TestFolder:
    def test_no_such_folder(self, tmp_path: Path) -> None:
        error = refusal(tmp_path / "nothing")
        assert (error.where, error.found) == (str(tmp_path / "nothing"), "no such folder")

    def test_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "trace.json").write_text("{}")
        error = refusal(tmp_path / "trace.json")
        assert error.found == "a file"
        assert "graphviz-dash import FILE -o FOLDER" in error.advice

    def test_an_empty_folder(self, tmp_path: Path) -> None:
        assert not is_bundle(tmp_path)
        assert refusal(tmp_path).found == "no manifest.json"

    def test_an_experiment_names_its_runs(self, tmp_path: Path) -> None:
        for number in range(9):
            (tmp_path / f"run-{number}").mkdir()
            (tmp_path / f"run-{number}" / "manifest.json").touch()
        runs = ", ".join(f"run-{number}" for number in range(8))
        assert refusal(tmp_path).advice == f"Runs in this folder: {runs} and others."

    def test_a_folder_called_manifest(self, tmp_path: Path) -> None:
        (tmp_path / "manifest.json").mkdir()
        assert refusal(tmp_path).found == "no manifest.json"

    def test_a_pipe_called_manifest_does_not_hang(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "manifest.json")
        assert refusal(tmp_path).found == "no manifest.json"

    def test_a_path_with_a_line_break_stays_on_one_line(self, tmp_path: Path) -> None:
        assert "a\\nb\\x1b[31m" in str(refusal(tmp_path / "a\nb\x1b[31m"))

    def test_unlisted_files_are_ignored(self, bundle: Path) -> None:
        (bundle / "notes.txt").write_text("mine")
        (bundle / "graphs" / "graph-1.json").write_text("not a graph")
        assert read_bundle(bundle).graphs == (GRAPH,)


class TestManifest:
    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"\0",
            b"{",
            b"[]",
            b"null",
            b"7",
            b"\xff\xfe",
            b'{"format": "graphviz-dash-run", "version": 1',
            b"[" * 100_000,
            b'{"a":' * 100_000,
            b'{"format": "graphviz-dash-run", "version": 1' + b"0" * 10_000 + b"}",
        ],
        ids=lambda content: repr(content[:20]),
    )
    def test_not_a_manifest(self, bundle: Path, content: bytes) -> None:
        (bundle / "manifest.json").write_bytes(content)
        assert refusal(bundle).where == str(bundle / "manifest.json")

    @pytest.mark.parametrize("kept", [0, 1, 100, 0.5, -2])
    def test_truncated(self, bundle: Path, kept: float) -> None:
        content = (bundle / "manifest.json").read_bytes()
        cut = int(len(content) * kept) if isinstance(kept, float) else kept
        (bundle / "manifest.json").write_bytes(content[:cut])
        assert "JSON" in refusal(bundle).found

    def test_a_newer_version_names_both(self, bundle: Path) -> None:
        # A newer format may have other fields: the version is what is told.
        edit_manifest(bundle, lambda manifest: manifest.update(version=9, experiment="mlp"))
        error = refusal(bundle)
        assert error.found == "bundle format version 9"
        assert error.expected.startswith("version 1 or 2 or 3 or 4 or 5 or 6 or 7 or 8,")
        assert error.advice == "Install a newer graphviz-dash to read it."

    def test_version_1_is_read(self, bundle: Path) -> None:
        edit_manifest(bundle, lambda manifest: manifest.update(version=1))
        assert read_bundle(bundle).manifest.version == 1

    @pytest.mark.parametrize("version", [0, -1])
    def test_an_impossible_version(self, bundle: Path, version: int) -> None:
        edit_manifest(bundle, lambda manifest: manifest.update(version=version))
        error = refusal(bundle)
        assert (error.found, error.advice) == (f"bundle format version {version}", "")

    def test_another_tools_manifest(self, bundle: Path) -> None:
        edit_manifest(bundle, lambda manifest: manifest.update(format="web-app-manifest" * 100))
        error = refusal(bundle)
        assert error.found.startswith("format 'web-app-manifest")
        assert error.expected == "format 'graphviz-dash-run'"

    def test_no_format(self, bundle: Path) -> None:
        edit_manifest(bundle, lambda manifest: manifest.pop("format"))
        assert "`format`" in refusal(bundle).found

    @pytest.mark.parametrize(
        ("change", "names"),
        [
            (lambda m: m.pop("mode"), "`mode`"),
            (lambda m: m.update(mode="fast"), "$.mode"),
            (lambda m: m.update(mode="x" * 1_000_000), "Invalid enum value"),
            (lambda m: m.update(surprise=1), "`surprise`"),
            (lambda m: m.update({"y" * 1_000_000: 1}), "unknown field"),
            (lambda m: m.update(status="done"), "$.status"),
            (lambda m: m.update(rank=-1), "$.rank"),
            (lambda m: m.update(command="graphviz-dash"), "$.command"),
            (lambda m: m["workload"].update(iterations="200"), "$.workload.iterations"),
            (lambda m: m["workload"].update(warmup=-1), "$.workload.warmup"),
            (lambda m: m["workload"].update(warmup=1.5), "$.workload.warmup"),
            (lambda m: m["environment"]["gpu"].update(name=None), "$.environment.gpu.name"),
            (lambda m: m["environment"].update(gpu_count=1 << 63), "$.environment.gpu_count"),
            (lambda m: m["environment"].update(gpu_count=1 << 200), "$.environment.gpu_count"),
            (lambda m: m["files"][0].update(bytes=-1), "$.files[0].bytes"),
            (lambda m: m["files"][0].update(sha256="0" * 63), "$.files[0].sha256"),
            (lambda m: m["files"][0].update(sha256="A" * 64), "$.files[0].sha256"),
            (lambda m: m["files"][0].update(role="weights"), "$.files[0].role"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_a_wrong_field_is_named(self, bundle: Path, change: Change, names: str) -> None:
        edit_manifest(bundle, change)
        error = refusal(bundle)
        assert names in error.found
        assert error.where == str(bundle / "manifest.json")

    def test_too_large_to_be_one(self, bundle: Path) -> None:
        os.truncate(bundle / "manifest.json", 1 << 40)  # sparse: takes no room on the disk
        assert "1,099,511,627,776 bytes" in refusal(bundle).found

    def test_a_link_out_of_the_bundle(self, bundle: Path, tmp_path: Path) -> None:
        (bundle / "manifest.json").rename(tmp_path / "outside.json")
        (bundle / "manifest.json").symlink_to(tmp_path / "outside.json")
        assert refusal(bundle).found == "a symbolic link"

    def test_unreadable(self, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        _deny(monkeypatch, "manifest.json")
        assert refusal(bundle).found == "Permission denied"

    def test_terminal_escapes_are_shown_as_text(self, bundle: Path) -> None:
        edit_manifest(bundle, lambda manifest: manifest.update(format="\x1b[2J\u202egraph\n"))
        assert "\x1b" not in str(refusal(bundle))


class TestPlaces:
    """A path in the manifest never leads anywhere but to the fixed places of the format."""

    @pytest.mark.parametrize(
        "path",
        [
            "../run/clean.json",
            "../clean.json",
            "traces/../clean.json",
            "./clean.json",
            "/clean.json",
            "/etc/passwd",
            "clean.json/",
            "clean.json\0",
            "CLEAN.JSON",
            "Clean.json",
            "traces\\..\\clean.json",
            "C:\\clean.json",
            "",
            ".",
            "..",
            "memory.json",
            "clean.json\n",
            "c" * 1_000_000,
        ],
    )
    def test_a_part_elsewhere(self, bundle: Path, path: str) -> None:
        edit_manifest(bundle, lambda manifest: manifest["files"][0].update(path=path))
        error = refusal(bundle)
        assert error.where == str(bundle / "manifest.json")
        assert error.found.startswith("clean file at ")
        assert error.expected == "'clean.json'"

    @pytest.mark.parametrize(
        "path",
        [
            "graphs/../graph-0.json",
            "graphs/../../graph-0.json",
            "graphs/a/b.json",
            "graphs//graph-0.json",
            "Graphs/graph-0.json",
            "graphs/graph-0.JSON",
            "graphs/graph-0",
            "graphs/.json",
            "graphs/.json.gz",
            "graphs/graph-0.gz",
            "graphs/",
            "graphs\\graph-0.json",
            "graphs/..\\graph-0.json",
            "graphs/graph-0.json\0",
            "/graphs/graph-0.json",
            "graph-0.json",
            "clean",
        ],
    )
    def test_a_graph_elsewhere(self, bundle: Path, path: str) -> None:
        edit_manifest(bundle, lambda manifest: manifest["files"][2].update(path=path))
        assert refusal(bundle).found.startswith("graph file at ")

    @pytest.mark.parametrize("name", ["g" * 300, "g" * 100_000, "\ud800", "..", "%2e%2e", "gräph"])
    def test_a_graph_by_an_odd_name(self, bundle: Path, name: str) -> None:
        edit_manifest(bundle, lambda m: m["files"][2].update(path=f"graphs/{name}.json"))
        assert refusal(bundle).found in ("missing", "File name too long") or "\ud800" in name

    @pytest.mark.parametrize("place", [0, 2, 4])
    def test_listed_twice(self, bundle: Path, place: int) -> None:
        edit_manifest(bundle, lambda m: m["files"].append(m["files"][place]))
        assert refusal(bundle).found.endswith("listed twice")

    @settings(max_examples=80, deadline=None)
    @given(entry=entries)
    @example(entry=FileEntry("graphs/\ud7ff.json", FileRole.GRAPH, 0, "0" * 64))
    def test_no_path_makes_it_look_outside(self, whole: Path, entry: FileEntry) -> None:
        manifest = msgspec.structs.replace(MANIFEST, files=(entry,))
        with pytest.raises(InputError):
            read._check_files(whole, manifest)

    @pytest.mark.parametrize("place", ["clean.json", "graphs/graph-0.json", "traces"])
    def test_a_link_out_of_the_bundle(self, bundle: Path, tmp_path: Path, place: str) -> None:
        (bundle / place).rename(tmp_path / "outside")
        (bundle / place).symlink_to(tmp_path / "outside")
        assert refusal(bundle).found == "a symbolic link"

    def test_a_pipe_does_not_hang(self, bundle: Path) -> None:
        (bundle / "clean.json").unlink()
        os.mkfifo(bundle / "clean.json")
        assert refusal(bundle).where == str(bundle / "clean.json")


class TestParts:
    @pytest.mark.parametrize(
        "place",
        ["clean.json", "memory.json", "graphs/graph-0.json", "traces/replay.json.gz"],
    )
    def test_missing(self, bundle: Path, place: str) -> None:
        size = (bundle / place).stat().st_size
        (bundle / place).unlink()
        error = refusal(bundle)
        assert (error.where, error.found) == (str(bundle / place), "missing")
        assert error.expected == f"a file of {size:,} bytes"

    def test_traces_of_captures_are_numbered_without_a_gap(self, bundle: Path) -> None:
        def move(manifest: dict[str, Any]) -> None:
            for entry in manifest["files"]:
                if entry["path"] == "traces/capture.json.gz":
                    entry["path"] = "traces/capture-2.json.gz"

        (bundle / "traces/capture.json.gz").rename(bundle / "traces/capture-2.json.gz")
        edit_manifest(bundle, move)
        assert refusal(bundle).found == "capture traces 2"

    @pytest.mark.parametrize("place", ["clean.json", "traces/capture.json.gz"])
    def test_truncated(self, bundle: Path, place: str) -> None:
        content = (bundle / place).read_bytes()
        (bundle / place).write_bytes(content[:-1])
        error = refusal(bundle)
        assert error.where == str(bundle / place)
        assert error.found == f"{len(content) - 1:,} bytes"
        assert error.expected == f"{len(content):,} bytes"
        assert "changed or damaged" in error.advice

    @settings(max_examples=50, deadline=None)
    @given(data=st.data())
    def test_any_changed_bit_is_found(
        self, whole: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
    ) -> None:
        places = sorted(entry.path for entry in read_manifest(whole).files)
        place = data.draw(st.sampled_from(places))
        content = bytearray((whole / place).read_bytes())
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        bundle = Path(shutil.copytree(whole, tmp_path_factory.mktemp("bit") / "run"))
        (bundle / place).write_bytes(content)

        error = refusal(bundle)

        assert error.where == str(bundle / place)
        assert error.found.startswith("sha256 ")

    @settings(max_examples=80, deadline=None)
    @given(data=st.data())
    def test_a_damaged_manifest_is_read_or_refused(
        self, whole: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
    ) -> None:
        content = bytearray((whole / "manifest.json").read_bytes())
        begin = data.draw(st.integers(0, len(content)))
        stop = data.draw(st.integers(begin, min(begin + 40, len(content))))
        content[begin:stop] = data.draw(st.binary(max_size=40))
        bundle = Path(shutil.copytree(whole, tmp_path_factory.mktemp("cut") / "run"))
        (bundle / "manifest.json").write_bytes(content)
        try:
            found = read_bundle(bundle)
        except InputError:
            return
        assert set(found.graphs) <= {GRAPH}

    def test_a_promise_of_absurd_size(self, bundle: Path) -> None:
        edit_manifest(bundle, lambda m: m["files"][0].update(bytes=(1 << 63) - 1))
        assert refusal(bundle).expected == "9,223,372,036,854,775,807 bytes"

    @pytest.mark.parametrize("place", [0, 2, 4])
    def test_a_part_too_large_is_not_read(self, bundle: Path, place: int) -> None:
        # The promise and the file agree on 1 TiB (sparse), and hashing that would take an hour.
        os.truncate(bundle / read_manifest(bundle).files[place].path, 1 << 40)
        edit_manifest(bundle, lambda m: m["files"][place].update(bytes=1 << 40))
        error = refusal(bundle)
        assert error.found == f"{1 << 40:,} bytes"
        assert error.expected.startswith("at most ")

    def test_unreadable(self, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        _deny(monkeypatch, "clean.json")
        error = refusal(bundle)
        assert (error.where, error.found) == (str(bundle / "clean.json"), "Permission denied")

    @pytest.mark.parametrize(
        ("place", "content", "names"),
        [
            ("clean.json", b"{}", "`warmup_ns`"),
            ("clean.json", b"[1, 2]", "Expected `object`"),
            ("clean.json", b"NaN", "JSON"),
            ("clean.json", b'{"warmup_ns": 1e400}', "range"),
            ("clean.json", b'{"warmup_ns": -5}', "$.warmup_ns"),
            ("clean.json", b'{"warmup_ns": 1, "steps": [[1]]}', "$.steps[0]"),
            ("clean.json", b'{"warmup_ns": 1, "steps": [[1, 2.5]]}', "$.steps[0][1]"),
            ("memory.json", b'{"pools": {}}', "$.pools"),
            ("graphs/graph-0.json", b'{"id": 0}', "$.id"),
            ("graphs/graph-0.json", b'{"nodes": [{"kind": "Kernel"}]}', "$.nodes[0]"),
            ("graphs/graph-0.json", b'{"nodes": [{"index": 0, "kind": "Magic"}]}', "Magic"),
            (
                "graphs/graph-0.json",
                b'{"nodes": [{"index": 0, "kind": "Kernel", "params": {"of": "spell"}}]}',
                "spell",
            ),
        ],
    )
    def test_a_forged_part(self, bundle: Path, place: str, content: bytes, names: str) -> None:
        replace_part(bundle, place, content)
        error = refusal(bundle)
        assert error.where == str(bundle / place)
        assert names in error.found


def _deny(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Makes opening the file called ``name`` fail; root could read it whatever its mode."""
    real = Path.open

    def open_path(self: Path, *arguments: Any, **options: Any) -> Any:
        if self.name == name:
            raise PermissionError(13, "Permission denied", str(self))
        return real(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", open_path)
