// Opens a trace in a Perfetto UI by its postMessage protocol: open the window, say PING until it
// says PONG, then hand over the trace once.

import { find } from "../common/elements.js";
import { fetchJson, getMessage } from "../common/server.js";
import { computeLuminance } from "../common/theme.js";

/** @import { Component } from "../common/mount.js" */
/** @import { Standing } from "../common/wire.js" */
/** @import { PerfettoData } from "./wire.js" */

const PING_MS = 100;
const POLL_MS = 150;
const LIGHT_LUMINANCE = 0.3;

/** A problem for which the window of Perfetto has no use any more. */
class TraceError extends Error {}

/** @param {Component<PerfettoData>} component */
export default function perfetto(component) {
  const { parentElement, data } = component;
  const root = find(parentElement, ".perfetto", HTMLElement);
  const stop = new AbortController();
  const publicButton = find(root, ".public", HTMLButtonElement);
  const localButton = find(root, ".local", HTMLButtonElement);
  root.classList.toggle("small", data.small);
  publicButton.textContent = `${data.label} (${data.host})`;
  publicButton.style.color = chooseTextColour(getComputedStyle(publicButton).backgroundColor);
  localButton.hidden = data.local === null;
  setDownload(root, ".native", `${data.path}?${data.native}`, `${data.stem}.pftrace`);
  setDownload(root, ".chrome", `${data.path}?${data.chrome}`, `${data.stem}.json`);
  const handover = new Handover(root, data, stop.signal);
  // Set, not added: this runs again with the page's script, on the same elements.
  publicButton.onclick = () => handover.open(data.public);
  localButton.onclick = () => data.local && handover.open(data.local);
  return () => stop.abort();
}

/** The writing of a trace on the server and its way to a window of Perfetto. */
class Handover {
  /**
   * @param {HTMLElement} root
   * @param {PerfettoData} data
   * @param {AbortSignal} signal
   */
  constructor(root, data, signal) {
    this.data = data;
    this.signal = signal;
    this.status = find(root, ".status", HTMLElement);
    this.progress = find(root, ".going", HTMLElement);
    this.bar = find(root, "progress", HTMLProgressElement);
    this.buttons = [...root.querySelectorAll("button")].filter((each) => !each.matches(".cancel"));
    find(root, ".cancel", HTMLButtonElement).onclick = () => this.cancel();
  }

  /**
   * @param {string} text
   * @param {boolean} [problem]
   */
  showStatus(text, problem = false) {
    this.status.textContent = text;
    this.status.hidden = !text;
    this.status.classList.toggle("problem", problem);
  }

  /**
   * Opens the UI at an address and hands the trace over.
   * @param {string} address
   */
  async open(address) {
    const target = new URL(address, location.href);
    // First of all: a browser lets only the click itself open a window, not what comes after it.
    const ui = window.open(target.href, "_blank");
    if (!ui) {
      const advice = "Allow pop-ups, or download the trace.";
      return this.showStatus(`The browser kept the new window from opening. ${advice}`, true);
    }
    for (const button of this.buttons) button.disabled = true;
    // A trace that cannot be had must end the waiting for the window, and the other way round.
    const round = new AbortController();
    const off = AbortSignal.any([this.signal, round.signal]);
    try {
      this.showStatus("Exporting the trace…");
      const [buffer] = await Promise.all([
        this.loadTrace(target.host, off),
        waitForPong(ui, target.origin, this.data.timeout, off),
      ]);
      const size = buffer.byteLength;
      const { title, stem } = this.data;
      const trace = { buffer, title, fileName: `${stem}.pftrace.gz` };
      ui.postMessage({ perfetto: trace }, target.origin, [buffer]);
      const asks = target.origin === location.origin
        ? ""
        : " It may ask whether to trust this page.";
      this.showStatus(`Handed ${formatBytes(size)} to Perfetto.${asks}`);
    } catch (error) {
      if (this.signal.aborted) return;
      if (error instanceof TraceError) ui.close();
      this.showStatus(getMessage(error), true);
    } finally {
      round.abort();
      for (const button of this.buttons) button.disabled = false;
    }
  }

  /**
   * The trace, once the server has written it.
   * @param {string} host that waits for it
   * @param {AbortSignal} signal
   */
  async loadTrace(host, signal) {
    await this.waitForExport(signal);
    const bytes = await fetchTrace(`${this.data.path}?${this.data.trace}`, signal);
    this.showStatus(`Waiting for Perfetto at ${host}…`);
    return bytes;
  }

  /**
   * Resolves when the trace is written; shows how far that is.
   * @param {AbortSignal} signal
   */
  async waitForExport(signal) {
    const query = new URLSearchParams(this.data.trace);
    query.set("again", "1");
    try {
      for (;;) {
        const standing = await this.post("begin", query, signal);
        query.delete("again");
        if (standing.state === "done") return;
        if (standing.state === "cancelled") throw new TraceError("The export was cancelled.");
        if (standing.state === "failed") {
          throw new TraceError(`The trace could not be exported: ${standing.problem}`);
        }
        this.bar.value = standing.share;
        this.progress.hidden = false;
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
        signal.throwIfAborted();
      }
    } finally {
      this.progress.hidden = true;
    }
  }

  cancel() {
    this.post("cancel", new URLSearchParams(this.data.trace)).catch(() => {});
  }

  /**
   * @param {"begin" | "cancel"} what
   * @param {URLSearchParams} query
   * @param {AbortSignal} [signal]
   * @returns {Promise<Standing>}
   */
  async post(what, query, signal) {
    try {
      return await fetchJson(`${this.data.path}/${what}?${query}`, { method: "POST", signal });
    } catch (error) {
      throw toTraceError(error);
    }
  }
}

/**
 * @param {string} address
 * @param {AbortSignal} signal
 */
async function fetchTrace(address, signal) {
  let answer;
  try {
    answer = await fetch(address, { signal });
    if (answer.ok) return await answer.arrayBuffer();
  } catch (error) {
    throw toTraceError(error);
  }
  const body = await answer.json().catch(() => null);
  throw new TraceError(
    `The trace could not be exported: ${body?.error?.message ?? answer.statusText}`,
  );
}

/** @param {unknown} error */
function toTraceError(error) {
  // A browser rejects with a TypeError where no server answers.
  const what = error instanceof TypeError ? "fetched" : "exported";
  return new TraceError(`The trace could not be ${what}: ${getMessage(error)}`);
}

/**
 * Resolves once the UI in the window `ui` has answered.
 * @param {Window} ui
 * @param {string} origin
 * @param {number} timeout ms
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
function waitForPong(ui, origin, timeout, signal) {
  return new Promise((resolve, reject) => {
    const begun = performance.now();
    const done = new AbortController();
    /** @type {(problem?: string) => void} */
    const finish = (problem) => {
      clearInterval(timer);
      done.abort();
      if (problem) reject(new Error(problem));
      else resolve();
    };
    const timer = setInterval(() => {
      if (ui.closed) {
        finish(
          "The Perfetto window was closed, or its server cuts it off from other pages" +
            " (Cross-Origin-Opener-Policy). Download the trace and open it there.",
        );
      } else if (performance.now() - begun > timeout) {
        finish(
          `Perfetto did not answer within ${Math.round(timeout / 1000)} s.` +
            " Download the trace and open it there.",
        );
      } else {
        // Says nothing of the trace, so it may go to whatever page the window shows by now.
        ui.postMessage("PING", "*");
      }
    }, PING_MS);
    addEventListener("message", (event) => {
      if (event.source === ui && event.origin === origin && event.data === "PONG") finish();
    }, { signal: done.signal });
    signal.addEventListener("abort", () => finish("given up"), { signal: done.signal });
  });
}

/**
 * @param {HTMLElement} root
 * @param {string} selector
 * @param {string} address
 * @param {string} name
 */
function setDownload(root, selector, address, name) {
  const link = find(root, selector, HTMLAnchorElement);
  link.href = address;
  link.download = name;
}

/**
 * Black or white, whichever stands out more from a theme's colour ("rgb(r, g, b)"); empty for what
 * is none.
 * @param {string} colour
 */
export function chooseTextColour(colour) {
  if (!colour.startsWith("rgb")) return "";
  return computeLuminance(colour) > LIGHT_LUMINANCE ? "#101418" : "#fff";
}

/**
 * A size in kB below a tenth of a megabyte, else in MB.
 * @param {number} bytes
 */
export function formatBytes(bytes) {
  return bytes < 1e5 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
