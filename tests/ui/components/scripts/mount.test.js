// How Streamlit calls a component, and ends it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { mount } from "../../../../graphviz_dash/ui/components/common/mount.js";

/** A place on a page, and a component for it that notes what happens to its drawings. */
function placed() {
  const host = {};
  const place = /** @type {any} */ ({ querySelector: () => place.host, host });
  /** @type {string[]} */
  const seen = [];
  class Drawing {
    /** @param {any} root */
    constructor(root) {
      this.host = root.host;
      seen.push("made");
    }
    /** @param {{data: string}} component */
    update({ data }) {
      seen.push(data);
    }
    dispose() {
      seen.push("ended");
    }
  }
  const component = mount(/** @type {any} */ (Drawing), ".any");
  /** @param {string} data */
  const call = (data) => component({ parentElement: place, data, setStateValue: () => {} });
  return { place, seen, call };
}

test("one drawing follows all that Python says, until its place goes", () => {
  const { seen, call } = placed();
  call("a");
  const end = call("b");
  end();
  assert.deepEqual(seen, ["made", "a", "b", "ended"]);
});

test("a call that Streamlit gives up ends nothing that a later one has drawn", () => {
  const { seen, call } = placed();
  // Both wait for the script; once it is there both are called, and then the first is ended.
  const first = call("a");
  const second = call("b");
  first();
  call("c");
  assert.deepEqual(seen, ["made", "a", "b", "c"]);
  second();
  assert.deepEqual(seen, ["made", "a", "b", "c"]);
});

test("new elements in the same place get a drawing of their own", () => {
  const { place, seen, call } = placed();
  call("a");
  place.host = {};
  call("b");
  assert.deepEqual(seen, ["made", "a", "ended", "made", "b"]);
});
