from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.importers import archives
from graphviz_dash.importers.archives import unpack_experiment
from graphviz_dash.ingest.limits import Limits
from tests.builders import make_experiment
from tests.ui.state.test_uploads import files, packed


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_experiment(tmp_path_factory.mktemp("archives") / "toy")


def _truncated(experiment: Path) -> bytes:
    return packed(experiment).getvalue()[:-400]


def _damaged_member(experiment: Path) -> bytes:
    data = bytearray(packed(experiment).getvalue())
    data[200:260] = bytes(60)
    return bytes(data)


def _damaged_bundle(experiment: Path) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for file in experiment.rglob("*"):
            if file.is_file():
                cut = file.read_bytes()[:-9] if file.name == "clean.json" else file.read_bytes()
                archive.writestr(f"toy/{file.relative_to(experiment)}", cut)
    return content.getvalue()


def _two_experiments(experiment: Path) -> bytes:
    content = packed(experiment)
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr("other/eager/manifest.json", b"{}")
    return content.getvalue()


def _without_runs(_: Path) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("manifest.json", b"{}")
        archive.writestr("readme.txt", b"")
    return content.getvalue()


def _encrypted(experiment: Path) -> bytes:
    data = bytearray(packed(experiment).getvalue())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.find(signature)
        while place >= 0:
            data[place + flags] |= 1
            place = data.find(signature, place + 4)
    return bytes(data)


def _twice(experiment: Path) -> bytes:
    content = packed(experiment)
    with zipfile.ZipFile(content, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("toy/eager/manifest.json", b"{}")
    return content.getvalue()


def _long_name(experiment: Path) -> bytes:
    content = packed(experiment)
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr(f"toy/{'x' * 400}/manifest.json", b"{}")
    return content.getvalue()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda _: b"", "not a readable zip file"),
        (lambda _: b"PK\x03\x04 and then nothing", "not a readable zip file"),
        (_truncated, "not a readable zip file"),
        (_damaged_member, "not a readable zip file"),
        (_damaged_bundle, "clean.json"),
        (_two_experiments, "runs in 2 folders"),
        (_without_runs, "no folder with a manifest.json; .* Unpack files"),
        (_encrypted, "without a password"),
        (_twice, "not a readable zip file"),
        (lambda path: packed(path, "../").getvalue(), "no folder with a manifest.json"),
        (_long_name, "not a readable zip file"),
    ],
)
def test_a_bad_file_is_one_clear_error(
    experiment: Path,
    tmp_path: Path,
    make: Callable[[Path], bytes],
    said: str,
) -> None:
    with pytest.raises(InputError, match=said) as caught:
        unpack_experiment(io.BytesIO(make(experiment)), tmp_path / "out", "bad.zip")
    assert "\n" not in str(caught.value)
    assert {path.name for path in tmp_path.iterdir()} <= {"out"}


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each piece that is unpacked from now on."""
    sizes: list[int] = []
    read = zipfile.ZipExtFile.read

    def counted(member: zipfile.ZipExtFile, size: int = -1) -> bytes:
        chunk = read(member, size)
        sizes.append(len(chunk))
        return chunk

    monkeypatch.setattr(zipfile.ZipExtFile, "read", counted)
    return sizes


def test_members_that_no_manifest_lists_are_not_unpacked(
    experiment: Path, tmp_path: Path, unpacked: list[int]
) -> None:
    more = {f"toy/eager/graphs/graph-{n}.json": bytes(10_000_000) for n in range(7, 20)}
    assert unpack_experiment(packed(experiment, **more), tmp_path / "out", "x.zip") == "toy"
    assert files(tmp_path / "out") == files(experiment)
    assert sum(unpacked) < 1_000_000


def test_a_member_is_no_larger_than_its_manifest_says(
    experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unpacked: list[int]
) -> None:
    monkeypatch.setattr(archives, "_CHUNK", 10_000)
    content = io.BytesIO()
    with zipfile.ZipFile(packed(experiment)) as whole, zipfile.ZipFile(content, "w") as archive:
        for member in whole.infolist():
            bomb = member.filename.endswith("clean.json")
            archive.writestr(member.filename, bytes(50_000_000) if bomb else whole.read(member))
    unpacked.clear()
    with pytest.raises(InputError, match=r"more than [\d,]+ bytes in toy/eager/clean.json"):
        unpack_experiment(content, tmp_path / "out", "bomb.zip")
    assert sum(unpacked) < 1_000_000


def test_all_together_is_limited(
    experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", 2_000)
    with pytest.raises(InputError, match="the size in its manifest, at most"):
        unpack_experiment(packed(experiment), tmp_path / "out", "large.zip")


def test_the_number_of_members_is_limited(
    experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_MEMBERS", 5)
    with pytest.raises(InputError, match="entries"):
        unpack_experiment(packed(experiment), tmp_path / "out", "many.zip")


def test_damage_anywhere_in_an_archive_is_one_error(experiment: Path, tmp_path: Path) -> None:
    """A byte in each region of the file: headers, names, compressed data, directory."""
    whole = packed(experiment).getvalue()
    errors = []
    for number, at in enumerate(range(0, len(whole), max(1, len(whole) // 150))):
        broken = bytearray(whole)
        broken[at] ^= 0xFF
        try:
            unpack_experiment(io.BytesIO(bytes(broken)), tmp_path / str(number), "x.zip")
        except InputError as error:
            errors.append(str(error))
    assert errors
    assert not any("\n" in error for error in errors)


def test_nodes_of_all_graphs_are_limited(experiment: Path, tmp_path: Path) -> None:
    archive = packed(experiment)
    with pytest.raises(InputError, match=r"toy.zip: graphs of 11 nodes or more;.*limit nodes"):
        unpack_experiment(archive, tmp_path / "out", "toy.zip", Limits(nodes=2))


def test_traces_are_read_before_anybody_is_shown_them(experiment: Path, tmp_path: Path) -> None:
    """A manifest can name any bytes, and the first visitor would read them."""
    bad = Path(shutil.copytree(experiment, tmp_path / "toy"))
    trace = bad / "eager" / "traces" / "replay.json.gz"
    trace.write_bytes(gzip.compress(b'{"traceEvents": 5}'))
    manifest = json.loads((bad / "eager" / "manifest.json").read_bytes())
    for entry in manifest["files"]:
        if entry["path"] == "traces/replay.json.gz":
            entry["bytes"] = trace.stat().st_size
            entry["sha256"] = hashlib.sha256(trace.read_bytes()).hexdigest()
    (bad / "eager" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"replay.json.gz: traceEvents is not an array"):
        unpack_experiment(packed(bad), tmp_path / "out", "toy.zip")
    with pytest.raises(InputError, match="limit events"):
        unpack_experiment(packed(experiment), tmp_path / "more", "toy.zip", Limits(events=3))
