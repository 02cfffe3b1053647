// What is written beside a run.

import assert from "node:assert/strict";
import { test } from "node:test";

import { formatSummary } from "../../../../graphviz_dash/features/timeline/page/component/runs.js";
import { run } from "./builders.js";

test("lanes that are not drawn say where they are", () => {
  assert.equal(formatSummary(run([], { hiddenLanes: 3 })), "");
  assert.equal(formatSummary(run([], { summary: "GPU busy 90%" })), "GPU busy 90% in view");
  assert.equal(
    formatSummary(run([], { summary: "GPU busy 90%", hiddenLanes: 3 })),
    "GPU busy 90% in view · 3 lanes hidden (open in Perfetto)",
  );
});
