from __future__ import annotations

from pathlib import Path
from statistics import median

from click.testing import CliRunner

from graphviz_dash.bundle.launch import read_launch
from graphviz_dash.model.launch import LaunchMeasure, LaunchSeries


def test_all_measures(tmp_path: Path) -> None:
    from collectors.launch.cli import bench

    arguments = ["launch", "-o", str(tmp_path), "--trials", "5", "--processes", "2"]
    arguments += ["--lengths", "1,100,1000"]
    result = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    recording = read_launch(tmp_path)
    assert recording.complete
    for series in recording.series:
        assert {*series.samples, *series.absent} == set(LaunchMeasure)
        assert {len(values) for values in series.samples.values()} == {10}
        assert series.topology.nodes == (
            series.topology.width * series.topology.length + series.topology.single_root
        )
    kinds = {series.topology.middle_node for series in recording.series}
    assert kinds == {None, "Memcpy", "Memset", "Host"}

    def middle(series: LaunchSeries, measure: LaunchMeasure) -> float:
        return median(series.samples[measure])

    long = next(one for one in recording.series if one.topology.length == 1000)
    graph, stream = LaunchMeasure.REPEAT_LAUNCH_CPU, LaunchMeasure.STREAM_CPU
    assert 20 * middle(long, graph) < middle(long, stream)
    assert LaunchMeasure.STREAM_DEVICE in long.absent
    first, repeat = LaunchMeasure.FIRST_LAUNCH_CPU, LaunchMeasure.REPEAT_LAUNCH_CPU
    assert middle(long, repeat) < middle(long, first)
