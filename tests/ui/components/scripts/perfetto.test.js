// What the Perfetto buttons compute.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  chooseTextColour,
  formatBytes,
} from "../../../../graphviz_dash/features/perfetto/page/component/perfetto.js";

test("sizes are in kB below a tenth of a megabyte", () => {
  assert.deepEqual([1, 99_999, 1e5, 2.34e6].map(formatBytes), [
    "1 kB",
    "100 kB",
    "0.1 MB",
    "2.3 MB",
  ]);
});

test("text on a theme's colour is black or white; another form of colour is left alone", () => {
  assert.equal(chooseTextColour("rgb(255, 255, 255)"), "#101418");
  assert.equal(chooseTextColour("rgb(20, 40, 120)"), "#fff");
  assert.equal(chooseTextColour("color(srgb 1 1 1)"), "");
});
