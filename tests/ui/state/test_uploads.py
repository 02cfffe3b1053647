from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from graphviz_dash.errors import GraphvizDashError, InputError
from graphviz_dash.importers import confined
from graphviz_dash.importers.archives import unpack_experiment
from graphviz_dash.importers.bundles import import_files
from graphviz_dash.ingest.load import find_experiments, load_experiment
from graphviz_dash.ui.state import uploads
from graphviz_dash.ui.state.scratch import Scratch
from graphviz_dash.ui.state.store import STORE, ClosedError
from graphviz_dash.ui.state.uploads import Uploads
from tests.builders import make_experiment
from tests.faults import Countdown, each_in_turn, failing_change, failing_read
from tests.importers.test_bundles import capture, replay
from tests.ingest.formats.test_pickles import attacks

SAMPLES = Path(__file__).parents[3] / "sample_traces"


ME, OTHER = "a visitor", "another"


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Uploads]:
    monkeypatch.setattr(uploads.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(uploads, "SCRATCH", scratch := Scratch())
    yield Uploads()
    scratch.remove()


@pytest.fixture
def unconfined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read uploads in this process, which saves half a second.

    Tests of this file check location and owner; other tests use a process, like servers.
    """

    def unpacked(archive: Path, folder: Path, label: str) -> str:
        with archive.open("rb") as content:
            return unpack_experiment(content, folder, label)

    def imported(files: Sequence[Path], folder: Path) -> str:
        return import_files(files, folder)[0].path.name

    monkeypatch.setattr(confined, "unpack_sandboxed", unpacked)
    monkeypatch.setattr(confined, "import_sandboxed", imported)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_experiment(tmp_path_factory.mktemp("uploads") / "toy")


def packed(
    experiment: Path,
    prefix: str = "toy/",
    compression: int = zipfile.ZIP_DEFLATED,
    **more: bytes,
) -> io.BytesIO:
    """The experiment as a zip file below ``prefix``, with ``more`` members."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        for file in sorted(experiment.rglob("*")):
            if file.is_file():
                archive.write(file, f"{prefix}{file.relative_to(experiment)}")
        for name, data in more.items():
            archive.writestr(name, data)
    content.seek(0)
    return content


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def folder_of(opened: Uploads, visitor: str = ME) -> Path:
    folder = opened.get_folder(visitor)
    assert folder is not None
    return folder


def outside(opened: Uploads, tmp_path: Path) -> set[Path]:
    """Files next to the folders of uploads, or hidden in the visitor's."""
    folder = folder_of(opened)
    return {path for path in tmp_path.iterdir() if path != folder.parent.parent} | set(
        folder.glob(".*")
    )


@pytest.mark.usefixtures("unconfined")
@pytest.mark.parametrize(
    ("prefix", "name"),
    [("toy/", "toy"), ("a/b/deep/", "deep"), ("", "upload"), ("x y*/", "x-y"), ("/toy/", "toy")],
)
def test_an_experiment_opens_wherever_it_lies_in_the_file(
    opened: Uploads, experiment: Path, tmp_path: Path, prefix: str, name: str
) -> None:
    path = opened.add(ME, "upload.zip", packed(experiment, prefix))
    assert path.name == name
    assert files(path) == files(experiment)
    assert [run.name for run in load_experiment(path).runs] == ["eager", "graph"]
    assert outside(opened, tmp_path) == set()


def opens_with_all_its_files(opened: Uploads, sample: Path) -> bool:
    # Traces are compressed already, and to do it again takes longer than to read them.
    folder = opened.add(ME, "x.zip", packed(sample, f"{sample.name}/", zipfile.ZIP_STORED))
    return folder.name == sample.name and files(folder) == files(sample)


@pytest.mark.usefixtures("unconfined")
@pytest.mark.parametrize("sample", find_experiments(SAMPLES), ids=lambda path: path.name)
def test_every_sample_opens_with_all_its_files(opened: Uploads, sample: Path) -> None:
    assert opens_with_all_its_files(opened, sample)


def size_of(experiment: Path) -> int:
    return sum(file.stat().st_size for file in experiment.rglob("*") if file.is_file())


@pytest.mark.parametrize(
    "size", [size_of, lambda sample: len(files(sample))], ids=["bytes", "files"]
)
def test_the_largest_sample_opens_within_the_bounds(
    opened: Uploads, size: Callable[[Path], int]
) -> None:
    assert opens_with_all_its_files(opened, max(find_experiments(SAMPLES), key=size))


@pytest.mark.usefixtures("unconfined")
def test_the_folder_is_private_and_names_do_not_clash(opened: Uploads, experiment: Path) -> None:
    names = [opened.add(ME, "toy.zip", packed(experiment)).name for _ in range(3)]
    assert names == ["toy", "toy-2", "toy-3"]
    folder = folder_of(opened)
    for private in (folder, folder.parent, folder.parent.parent):
        assert stat.S_IMODE(private.stat().st_mode) == 0o700


@pytest.mark.usefixtures("unconfined")
def test_each_visitor_has_a_folder_that_his_name_does_not_tell(
    opened: Uploads, experiment: Path
) -> None:
    mine = opened.add(ME, "toy.zip", packed(experiment))
    other = opened.add("../../escape", "toy.zip", packed(experiment))
    assert mine.parent == folder_of(opened)
    assert other.parent == folder_of(opened, "../../escape")
    assert mine.parent.parent == other.parent.parent
    assert mine.name == other.name == "toy"
    assert len(mine.parent.name) == 32
    assert opened.get_folder("nobody") is None


@pytest.mark.usefixtures("unconfined")
def test_only_its_visitor_can_remove_an_upload(opened: Uploads, experiment: Path) -> None:
    path = opened.add(ME, "toy.zip", packed(experiment))
    opened.add(OTHER, "toy.zip", packed(experiment))
    key = STORE.register(path)
    assert STORE.load_experiment_of_key(key).name == "toy"
    for visitor, other in (("nobody", path), (OTHER, path), (ME, experiment), (ME, path.parent)):
        opened.remove(visitor, other)
        assert experiment.is_dir()
        assert STORE.is_loaded(key)
    opened.remove(ME, path)
    assert files(folder_of(opened)) == set()
    with pytest.raises(ClosedError):
        STORE.load_experiment_of_key(key)


@pytest.mark.usefixtures("unconfined")
def test_uploads_are_removed_with_their_visitor(opened: Uploads, experiment: Path) -> None:
    paths = [opened.add(ME, "toy.zip", packed(experiment)) for _ in range(2)]
    other = opened.add(OTHER, "toy.zip", packed(experiment))
    keys = [STORE.register(path) for path in paths]
    STORE.load_experiment_of_key(keys[0])
    opened.remove_visitor(ME)
    opened.remove_visitor("nobody")
    assert opened.get_folder(ME) is None
    assert list(other.parent.parent.iterdir()) == [other.parent]
    assert not STORE.is_loaded(keys[0])
    for key in keys:
        with pytest.raises(ClosedError):
            STORE.load_experiment_of_key(key)


@pytest.mark.usefixtures("unconfined")
def test_a_visitor_may_keep_so_many_and_no_more(
    opened: Uploads, experiment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MAX_EXPERIMENTS", 2)
    first, _ = (opened.add(ME, "toy.zip", packed(experiment)) for _ in range(2))
    with pytest.raises(InputError, match=r"the 3\. experiment.*at most 2.*Remove an upload"):
        opened.add(ME, "toy.zip", packed(experiment))
    opened.add(OTHER, "toy.zip", packed(experiment))
    opened.remove(ME, first)
    opened.add(ME, "toy.zip", packed(experiment))


@pytest.mark.usefixtures("unconfined")
@pytest.mark.parametrize("quota", ["MAX_BYTES_PER_VISITOR", "MAX_ALL_BYTES"])
def test_kept_uploads_are_bounded_in_bytes(
    opened: Uploads, experiment: Path, monkeypatch: pytest.MonkeyPatch, quota: str
) -> None:
    monkeypatch.setattr(uploads, quota, size_of(experiment) + 1)
    kept = opened.add(ME, "toy.zip", packed(experiment))
    visitor = ME if quota == "MAX_BYTES_PER_VISITOR" else OTHER
    with pytest.raises(InputError, match="GiB of uploads"):
        opened.add(visitor, "toy.zip", packed(experiment))
    assert set(folder_of(opened, visitor).iterdir()) == ({kept} if visitor == ME else set())


@pytest.mark.usefixtures("unconfined")
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
    path = opened.add(ME, "toy.zip", packed(experiment, **more))
    assert files(path) == files(experiment)
    assert outside(opened, tmp_path) == set()


@pytest.mark.usefixtures("unconfined")
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
        opened.add(ME, "toy.zip", content)
    assert not [path for path in tmp_path.rglob("*") if path.is_symlink()]


def test_a_bad_file_is_one_clear_error_and_leaves_nothing(opened: Uploads, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"bad\.zip: not a readable zip file") as caught:
        opened.add(ME, "bad.zip", io.BytesIO(b"PK and then nothing"))
    assert "\n" not in str(caught.value)
    assert list(folder_of(opened).iterdir()) == []
    assert outside(opened, tmp_path) == set()


class TestForeignFiles:
    def test_a_capture_and_its_replays(self, opened: Uploads, tmp_path: Path) -> None:
        named = []
        for make, name in ((capture, "m-capture.json.gz"), (replay, "m-replay.json.gz")):
            named.append((name, io.BytesIO(make(tmp_path / name).read_bytes())))
        folder = opened.import_files(ME, named)
        assert folder == folder_of(opened) / "m"
        (run,) = load_experiment(folder).runs
        assert len(run.graphs) == 1
        assert not list(folder_of(opened).glob(".*"))

    @pytest.mark.usefixtures("unconfined")
    @pytest.mark.parametrize(
        "name", ["../../etc/passwd", "/abs/x", "..", ".hidden", "a\0b\x1b[31m"]
    )
    def test_names_lead_nowhere(self, opened: Uploads, tmp_path: Path, name: str) -> None:
        content = replay(tmp_path / "own.json.gz").read_bytes()
        folder = opened.import_files(ME, [(name, io.BytesIO(content))])
        assert folder.parent == folder_of(opened)
        assert {path.name for path in tmp_path.iterdir()} == {
            "own.json.gz",
            folder_of(opened).parent.parent.name,
        }

    def test_the_size_of_all_together_is_limited(
        self, opened: Uploads, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(uploads, "MAX_UPLOAD_BYTES", 100)
        parts = [(f"{n}.json", io.BytesIO(b"{" * 60)) for n in range(2)]
        with pytest.raises(InputError, match="GiB in total"):
            opened.import_files(ME, parts)
        assert not list(folder_of(opened).iterdir())

    def test_a_pickle_that_would_run_code(self, opened: Uploads, tmp_path: Path) -> None:
        target = tmp_path / "owned"
        content = io.BytesIO(attacks(target)["reduce"])
        with pytest.raises(InputError, match="could run code"):
            opened.import_files(ME, [("snapshot.pickle", content)])
        assert not target.exists()


@pytest.mark.usefixtures("unconfined")
@pytest.mark.parametrize("failing", [failing_change, failing_read])
def test_each_fault_of_an_upload_leaves_nothing(
    opened: Uploads, experiment: Path, failing: Callable[[int], AbstractContextManager[Countdown]]
) -> None:
    content = packed(experiment)

    def upload() -> str:
        path = opened.add(ME, "toy.zip", io.BytesIO(content.getvalue()))
        opened.remove(ME, path)
        return "stored"

    assert upload() == "stored"
    outcomes = list(each_in_turn(failing, upload, errors=(GraphvizDashError,)))
    assert len(outcomes) > 10
    for outcome in outcomes:
        assert outcome == "stored" or "\n" not in str(outcome)
    assert any("toy.zip" in str(outcome) for outcome in outcomes)
    assert upload() == "stored"
    assert list(folder_of(opened).glob(".*")) == []
