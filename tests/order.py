"""Order of test files: slow ones start first, and files that share a server or a browser share a
process."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

FIRST: Final = (
    # These look at the same dashboard, in one browser.
    (
        "app/overview/test_stillness.py",
        "ui/test_every_page.py",
        "features/graph/page/test_dag_component.py",
        "features/graph/page/test_dag_overlay.py",
        "features/graph/page/test_dag_modules.py",
        "features/graph/page/test_dag_streams.py",
        "features/graph/page/test_graph_choice.py",
        "features/ladder/page/test_page.py",
        "app/test_main_path.py",
        "app/test_tasks.py",
        "app/test_amounts.py",
        "app/overview/test_early_cards.py",
        "ui/page/test_palette.py",
        "ui/page/test_folds.py",
        "ui/test_buttons.py",
        "ui/test_help.py",
    ),
    (
        "ui/test_looks.py",
        "ui/test_opened_files.py",
        "ui/page/test_history.py",
        "app/hosting/test_first_page.py",
        "ui/test_keyboard.py",
        "app/hosting/test_guard.py",
        "features/timeline/page/test_timeline_component.py",
        "features/perfetto/page/test_perfetto.py",
        "app/hosting/test_switch.py",
        "app/report/test_report.py",
    ),
    # These read many samples.
    (
        "ui/views/test_samples_open.py",
        "ingest/test_samples.py",
        "app/documents/test_schemas.py",
        "cli/test_same_figures.py",
        "app/test_same_figures.py",
        "features/graph/drawing/test_by_definition.py",
        "app/report/test_static_charts.py",
        "analysis/step_comparison/test_waterfall.py",
        "app/compare/charts/test_comparison.py",
        "narrative/test_answer.py",
        "guidance/test_gaps.py",
        "ui/views/test_pages.py",
        "narrative/test_answer_properties.py",
        "cli/test_brief.py",
        "cli/test_gold.py",
        "app/compare/page/test_page.py",
        "test_examples.py",
        "analysis/comparison/test_recorded_figures.py",
        "analysis/comparison/test_break_even.py",
        "analysis/prediction/test_calibration.py",
        "analysis/prediction/test_evaluation.py",
        "analysis/prediction/test_idle_time.py",
        "app/compare/charts/test_waterfall.py",
        "app/compare/test_two_days.py",
        "features/efficiency/page/test_panel.py",
        "features/efficiency/test_command.py",
        "features/graph/page/test_page.py",
        "features/torch_compile/test_narrative.py",
        "ui/page/test_navigation.py",
        "collectors/passes/test_capture_events.py",
        "features/timeline/page/test_page.py",
        "features/ranks/test_page.py",
        "features/graph/page/test_graph_comparison.py",
        "features/gate/test_command.py",
    ),
    ("app/hosting/test_streamlit_names.py",),
    ("app/cli/test_working_folder.py",),
    ("ui/state/test_uploads.py",),
    ("collectors/program/test_recorder.py",),
    ("test_faults.py",),
    ("app/cli/test_serve.py",),
    ("app/hosting/test_start.py",),
    ("importers/test_ended_by_signals.py",),
    ("collectors/test_robust.py",),
    ("analysis/ranks/test_waits.py",),
    ("collectors/program/test_unharmed.py",),
    ("importers/test_confined.py",),
    ("test_attack.py",),
    ("app/cli/test_main.py",),
    ("features/graph/drawing/test_view.py",),
    ("ingest/kineto/test_damaged_traces.py",),
    ("ingest/kineto/test_workers.py",),
    ("ingest/formats/test_hostile_files.py",),
    ("test_walls.py", "test_layout.py"),  # both read all modules
    ("ingest/test_cache.py",),
    ("analysis/replays/test_branches.py",),
    ("ingest/kineto/test_zstd.py",),
)
"""Files below tests/ by duration; those of a row run together. All others are short."""

_ROW: Final = {f"tests/{file}": number for number, row in enumerate(FIRST) for file in row}
_PLACE: Final = {f"tests/{file}": place for row in FIRST for place, file in enumerate(row)}


def file_of(test: str) -> str:
    return test.partition("::")[0]


def in_order(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> tuple[int, int]:
        file = file_of(item.nodeid)
        return _ROW.get(file, len(FIRST)), _PLACE.get(file, 0)

    items.sort(key=place)


class LongestFirst(LoadFileScheduling):
    """Schedules files in the order of collection, those in a row of ``FIRST`` together."""

    def _split_scope(self, nodeid: str) -> str:
        file = file_of(nodeid)
        return str(_ROW.get(file, file))

    def remove_node(self, node: WorkerController) -> str | None:
        """Remove a dead process and return the test that it ran; its other tests run elsewhere.

        pytest-xdist would run the same test again, and wait for ever if the process had finished
        a file before.
        """
        work = self.assigned_work.pop(node)
        waiting = [name for unit in work.values() for name, done in unit.items() if not done]
        if not waiting:
            return None
        for unit in work.values():
            unit.update(dict.fromkeys(unit.keys() & {waiting[0]}, True))
        units = {scope: unit for scope, unit in work.items() if not all(unit.values())}
        self.workqueue = OrderedDict(units | self.workqueue)
        for other in self.nodes:
            self._reschedule(other)
        return waiting[0]

    def _reschedule(self, node: WorkerController) -> None:
        """Give ``node`` more tests, unless it replaces a dead process and has not collected yet:
        pytest-xdist would look for its tests and stop all others with an error."""
        if node not in self.registered_collections or node.shutting_down:
            return
        super()._reschedule(node)
        # A process begins a test when it knows the next one.
        while self.workqueue and self._pending_of(self.assigned_work[node]) < 2:
            self._assign_work_unit(node)

    def schedule(self) -> None:
        """Begin without pytest-xdist's order by number of tests, which says nothing about time."""
        self.config.option.loadscopereorder = False
        super().schedule()
