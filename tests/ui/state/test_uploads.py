"""Uploaded experiments: what a zip file may hold, and what it cannot do."""

from __future__ import annotations

import io
import stat
import zipfile
from pathlib import Path

import pytest

from graphviz_dash.errors import InputError
from graphviz_dash.ingest.load import find_experiments, load_experiment
from graphviz_dash.ui.state import uploads
from graphviz_dash.ui.state.uploads import Uploads
from tests.builders import make_experiment
from tests.importers.test_bundles import capture, replay
from tests.ingest.formats.test_pickles import attacks

SAMPLES = Path(__file__).parents[3] / "sample_traces"


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Uploads:
    monkeypatch.setattr(uploads.tempfile, "tempdir", str(tmp_path))
    return Uploads()


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_experiment(tmp_path_factory.mktemp("uploads") / "toy")


def packed(experiment: Path, prefix: str = "toy/", **more: bytes) -> io.BytesIO:
    """The experiment as a zip file below ``prefix``, with ``more`` members."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(experiment.rglob("*")):
            if file.is_file():
                archive.write(file, f"{prefix}{file.relative_to(experiment)}")
        for name, data in more.items():
            archive.writestr(name, data)
    content.seek(0)
    return content


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def outside(opened: Uploads, tmp_path: Path) -> set[Path]:
    """What lies beside the folder of uploads, or hidden in it."""
    return {path for path in tmp_path.iterdir() if path != opened.folder} | set(
        opened.folder.glob(".*")
    )


@pytest.mark.parametrize(
    ("prefix", "name"),
    [("toy/", "toy"), ("a/b/deep/", "deep"), ("", "upload"), ("x y*/", "x-y"), ("/toy/", "toy")],
)
def test_an_experiment_opens_wherever_it_lies_in_the_file(
    opened: Uploads, experiment: Path, tmp_path: Path, prefix: str, name: str
) -> None:
    path = opened.add("upload.zip", packed(experiment, prefix))
    assert path.name == name
    assert files(path) == files(experiment)
    assert [run.name for run in load_experiment(path).runs] == ["eager", "graph"]
    assert outside(opened, tmp_path) == set()


@pytest.mark.parametrize("sample", find_experiments(SAMPLES), ids=lambda path: path.name)
def test_every_sample_opens_with_all_its_files(opened: Uploads, sample: Path) -> None:
    folder = opened.add("x.zip", packed(sample, f"{sample.name}/"))
    assert folder.name == sample.name
    assert files(folder) == files(sample)


def test_the_folder_is_private_and_names_do_not_clash(opened: Uploads, experiment: Path) -> None:
    assert stat.S_IMODE(opened.folder.stat().st_mode) == 0o700
    names = [opened.add("toy.zip", packed(experiment)).name for _ in range(3)]
    assert names == ["toy", "toy-2", "toy-3"]


def test_only_the_files_of_bundles_are_unpacked(
    opened: Uploads, experiment: Path, tmp_path: Path
) -> None:
    more = {
        "toy/eager/run.py": b"import os",
        "toy/eager/traces/../../../escape.json": b"{}",
        "toy/eager/graphs/../../../../escape.json": b"{}",
        "/toy/absolute.json": b"{}",
        "../escape.json": b"{}",
        "toy/.hidden/x": b"",
        "toy/eager/graphs/sub/graph-9.json": b"{}",
    }
    path = opened.add("toy.zip", packed(experiment, **more))
    assert files(path) == files(experiment)
    assert outside(opened, tmp_path) == set()


def test_a_link_in_the_file_becomes_none(opened: Uploads, experiment: Path, tmp_path: Path) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(packed(experiment)) as whole, zipfile.ZipFile(content, "w") as archive:
        for member in whole.infolist():
            link = zipfile.ZipInfo(member.filename)
            if member.filename == "toy/graph/graphs/graph-0.json":
                link.external_attr = (stat.S_IFLNK | 0o777) << 16
                archive.writestr(link, "/etc/passwd")
            else:
                archive.writestr(link, whole.read(member))
    content.seek(0)
    with pytest.raises(InputError, match=r"graph-0\.json: 11 bytes"):
        opened.add("toy.zip", content)
    assert not [path for path in tmp_path.rglob("*") if path.is_symlink()]


def test_a_bad_file_is_one_clear_error_and_leaves_nothing(opened: Uploads, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"bad\.zip: not a readable zip file") as caught:
        opened.add("bad.zip", io.BytesIO(b"PK and then nothing"))
    assert "\n" not in str(caught.value)
    assert list(opened.folder.iterdir()) == []
    assert outside(opened, tmp_path) == set()


class TestForeignFiles:
    """Traces and graphs of other programs are imported as the command line does."""

    def test_a_capture_and_its_replays(self, opened: Uploads, tmp_path: Path) -> None:
        named = []
        for make, name in ((capture, "m-capture.json.gz"), (replay, "m-replay.json.gz")):
            named.append((name, io.BytesIO(make(tmp_path / name).read_bytes())))
        folder = opened.import_files(named)
        assert folder == opened.folder / "m"
        (run,) = load_experiment(folder).runs
        assert len(run.graphs) == 1
        assert not list(opened.folder.glob(".*"))

    @pytest.mark.parametrize(
        "name", ["../../etc/passwd", "/abs/x", "..", ".hidden", "a\0b\x1b[31m"]
    )
    def test_names_lead_nowhere(self, opened: Uploads, tmp_path: Path, name: str) -> None:
        content = replay(tmp_path / "own.json.gz").read_bytes()
        folder = opened.import_files([(name, io.BytesIO(content))])
        assert folder.parent == opened.folder
        assert {path.name for path in tmp_path.iterdir()} == {"own.json.gz", opened.folder.name}

    def test_the_size_of_all_together_is_limited(
        self, opened: Uploads, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(uploads, "MAX_UPLOAD_BYTES", 100)
        parts = [(f"{n}.json", io.BytesIO(b"{" * 60)) for n in range(2)]
        with pytest.raises(InputError, match="GiB together"):
            opened.import_files(parts)
        assert not list(opened.folder.iterdir())

    def test_a_pickle_that_would_run_code(self, opened: Uploads, tmp_path: Path) -> None:
        target = tmp_path / "owned"
        content = io.BytesIO(attacks(target)["reduce"])
        with pytest.raises(InputError, match="could run code"):
            opened.import_files([("snapshot.pickle", content)])
        assert not target.exists()
