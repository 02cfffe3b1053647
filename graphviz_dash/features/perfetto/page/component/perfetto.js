// Opens a trace in a Perfetto UI by its postMessage protocol: open the window, send PING until PONG
// comes back, then send the trace once.

import { find } from "../../../../ui/components/common/elements.js";
import { fetchJson, getMessage } from "../../../../ui/components/common/server.js";
import { computeLuminance } from "../../../../ui/components/common/theme.js";

/** @import { Component } from "../../../../ui/components/common/mount.js" */
/** @import { JobStatus } from "../../../../ui/components/common/wire.js" */
/** @import { PerfettoData } from "./wire.js" */

const PING_MS = 100;
const POLL_MS = 150;
const LIGHT_LUMINANCE = 0.3;

/** A problem of the trace, which makes the Perfetto window useless. */
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
  // Assigned, because this function runs again on the same elements with each run of the page.
  publicButton.onclick = () => handover.open(data.public);
  localButton.onclick = () => data.local && handover.open(data.local);
  return () => stop.abort();
}

/** Export of a trace on the server, and its transfer to a Perfetto window. */
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
    this.buttons = [...root.querySelectorAll("button")].filter((button) =>
      !button.matches(".cancel")
    );
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
   * Open the UI at an address and send it the trace.
   * @param {string} address
   */
  async open(address) {
    const target = new URL(address, location.href);
    // Browsers allow opening a window only directly in the click, hence first.
    const ui = window.open(target.href, "_blank");
    if (!ui) {
      const advice = "Allow pop-ups, or download the trace.";
      return this.showStatus(`The browser blocked the new window. ${advice}`, true);
    }
    for (const button of this.buttons) button.disabled = true;
    // A failed export ends the wait for the window, and vice versa.
    const attempt = new AbortController();
    const signal = AbortSignal.any([this.signal, attempt.signal]);
    try {
      this.showStatus("Exporting the trace…");
      const [buffer] = await Promise.all([
        this.loadTrace(target.host, signal),
        waitForPong(ui, target.origin, this.data.timeout, signal),
      ]);
      const size = buffer.byteLength;
      const { title, stem } = this.data;
      const trace = { buffer, title, fileName: `${stem}.pftrace.gz` };
      ui.postMessage({ perfetto: trace }, target.origin, [buffer]);
      const note = target.origin === location.origin
        ? ""
        : " It may ask whether to trust this page.";
      this.showStatus(`Sent ${formatBytes(size)} to Perfetto.${note}`);
    } catch (error) {
      if (this.signal.aborted) return;
      if (error instanceof TraceError) ui.close();
      this.showStatus(getMessage(error), true);
    } finally {
      attempt.abort();
      for (const button of this.buttons) button.disabled = false;
    }
  }

  /**
   * Load the trace when the server has written it.
   * @param {string} host of the UI
   * @param {AbortSignal} signal
   */
  async loadTrace(host, signal) {
    await this.waitForExport(signal);
    const bytes = await fetchTrace(`${this.data.path}?${this.data.trace}`, signal);
    this.showStatus(`Waiting for Perfetto at ${host}…`);
    return bytes;
  }

  /**
   * Wait for the export of the trace, and show its progress.
   * @param {AbortSignal} signal
   */
  async waitForExport(signal) {
    const query = new URLSearchParams(this.data.trace);
    query.set("again", "1");
    try {
      for (;;) {
        const status = await this.post("begin", query, signal);
        query.delete("again");
        if (status.state === "done") return;
        if (status.state === "cancelled") throw new TraceError("The export was cancelled.");
        if (status.state === "failed") {
          throw new TraceError(`Could not export the trace: ${status.problem}`);
        }
        this.bar.value = status.progress;
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
   * @param {"begin" | "cancel"} action
   * @param {URLSearchParams} query
   * @param {AbortSignal} [signal]
   * @returns {Promise<JobStatus>}
   */
  async post(action, query, signal) {
    try {
      return await fetchJson(`${this.data.path}/${action}?${query}`, { method: "POST", signal });
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
  let response;
  try {
    response = await fetch(address, { signal });
    if (response.ok) return await response.arrayBuffer();
  } catch (error) {
    throw toTraceError(error);
  }
  const body = await response.json().catch(() => null);
  throw new TraceError(
    `Could not export the trace: ${body?.error?.message ?? response.statusText}`,
  );
}

/** @param {unknown} error */
function toTraceError(error) {
  // Browsers reject with a TypeError if the server is unreachable.
  const verb = error instanceof TypeError ? "fetch" : "export";
  return new TraceError(`Could not ${verb} the trace: ${getMessage(error)}`);
}

/**
 * Wait for the first message of the UI in a window.
 * @param {Window} ui
 * @param {string} origin
 * @param {number} timeout ms
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
function waitForPong(ui, origin, timeout, signal) {
  return new Promise((resolve, reject) => {
    const start = performance.now();
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
          "The Perfetto window was closed, or its server isolates it from other pages" +
            " (Cross-Origin-Opener-Policy). Download the trace and open it there.",
        );
      } else if (performance.now() - start > timeout) {
        finish(
          `Perfetto did not respond within ${Math.round(timeout / 1000)} s.` +
            " Download the trace and open it there.",
        );
      } else {
        // Contains no data, so any page that the window shows now may receive it.
        ui.postMessage("PING", "*");
      }
    }, PING_MS);
    addEventListener("message", (event) => {
      if (event.source === ui && event.origin === origin && event.data === "PONG") finish();
    }, { signal: done.signal });
    signal.addEventListener("abort", () => finish("aborted"), { signal: done.signal });
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
 * Choose black or white text for a background "rgb(r, g, b)"; empty for other forms of colours.
 * @param {string} colour
 */
export function chooseTextColour(colour) {
  if (!colour.startsWith("rgb")) return "";
  return computeLuminance(colour) > LIGHT_LUMINANCE ? "#101418" : "#fff";
}

/**
 * Format a size in kB below 0.1 MB, else in MB.
 * @param {number} bytes
 */
export function formatBytes(bytes) {
  return bytes < 1e5 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
