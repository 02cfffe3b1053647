from __future__ import annotations

from pathlib import Path

from graphviz_dash.importers.bundles import ImportedRun
from graphviz_dash.importers.locations import find_locations
from graphviz_dash.importers.many import SkippedFiles, import_batch
from tests.importers.fleets import rank, threads
from tests.importers.test_bundles import capture, replay


class TestMany:
    def test_each_run_by_itself(self, tmp_path: Path) -> None:
        folder = tmp_path / "files"
        folder.mkdir()
        capture(folder / "a-capture.json.gz")
        replay(folder / "a-replay.json.gz")
        replay(folder / "b.json.gz")
        (folder / "bad.dot").write_text("digraph {}")
        (folder / "notes.txt").write_text("hello")
        results = list(import_batch(find_locations([str(folder)]), tmp_path / "out", threads))
        made = sorted(one.path.name for one in results if not isinstance(one, SkippedFiles))
        assert made == ["a", "b"]
        reasons = [one.reason for one in results if isinstance(one, SkippedFiles)]
        assert len(reasons) == 2

    def test_the_same_again_goes_on_where_it_was(self, tmp_path: Path) -> None:
        folder = tmp_path / "files"
        folder.mkdir()
        replay(folder / "a.json.gz")
        places = find_locations([str(folder)])
        (first,) = import_batch(places, tmp_path / "out", threads)
        replay(folder / "b.json.gz")
        again = list(import_batch(find_locations([str(folder)]), tmp_path / "out", threads))
        assert first in again
        assert len(again) == 2
        replay(folder / "a.json.gz", ("other",))
        (refused,) = import_batch(places, tmp_path / "out", threads)
        assert isinstance(refused, SkippedFiles)
        assert "the run already exists" in refused.reason

    def test_long_names_and_names_that_are_alike_are_runs_of_their_own(
        self, tmp_path: Path
    ) -> None:
        folder = tmp_path / "files"
        source = rank(tmp_path, 0).read_bytes()
        folder.mkdir()
        long = "meta-llama_Llama-3.3-70B-Instruct_tp8_pp2_dp4_ep1_cudagraph-full_and_piecewise_rank"
        for name in (f"{long}{1}.1773709679453551615.pt", f"{long}{2}.1773709679453551615.pt"):
            (folder / f"{name}.trace.json.gz").write_bytes(source)
        for name in ("step 1", "step+1", "step-1"):
            (folder / f"{name}.json.gz").write_bytes(source)
        made = list(import_batch(find_locations([str(folder)]), tmp_path / "out", threads))
        assert not [one for one in made if isinstance(one, SkippedFiles)]
        names = sorted(path.name for path in (tmp_path / "out").iterdir())
        assert len(names) == 5
        assert max(map(len, names)) < 100
        again = list(import_batch(find_locations([str(folder)]), tmp_path / "out", threads))
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
        assert not [one for one in again if isinstance(one, SkippedFiles)]

    def test_captures_in_a_folder_beside_their_replays(self, tmp_path: Path) -> None:
        captures = tmp_path / "in" / "capture_traces"
        captures.mkdir(parents=True)
        replay(tmp_path / "in" / "execution.json.gz")
        capture(captures / "rank_0.json.gz")
        places = find_locations([str(tmp_path / "in")])
        (found,) = import_batch(places, tmp_path / "out", threads)
        assert isinstance(found, ImportedRun)
        assert [source.name for source in found.sources] == ["execution.json.gz", "rank_0.json.gz"]

    def test_files_of_one_name_in_two_folders(self, tmp_path: Path) -> None:
        for node in ("n0", "n1"):
            (tmp_path / "files" / node).mkdir(parents=True)
            replay(tmp_path / "files" / node / "t-1.json.gz", (node,))
        results = import_batch(find_locations([str(tmp_path / "files")]), tmp_path / "out", threads)
        assert {getattr(one, "path", tmp_path).name for one in results} == {"n0-t-1", "n1-t-1"}
