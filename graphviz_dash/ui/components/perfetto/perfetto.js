// Opens a trace in a Perfetto UI by its postMessage protocol: open the window, say PING until it
// says PONG, then hand over the trace once.

const PING_MS = 100;

export default function (component) {
  const { parentElement, data } = component;
  const root = parentElement.querySelector(".perfetto");
  const stop = new AbortController();
  const { signal } = stop;
  const find = (name) => root.querySelector(`.${name}`);
  const buttons = [find("public"), find("local")];

  root.classList.toggle("small", data.small);
  find("public").textContent = `${data.label} (${data.host})`;
  find("local").hidden = data.local === null;
  find("public").style.color = legibleOn(getComputedStyle(find("public")).backgroundColor);
  download(find("native"), `${data.path}?${data.native}`, `${data.stem}.pftrace`);
  download(find("chrome"), `${data.path}?${data.chrome}`, `${data.stem}.json`);
  const say = (text, problem = false) => {
    const status = find("status");
    status.textContent = text;
    status.hidden = !text;
    status.classList.toggle("problem", problem);
  };
  // Set, not added: this runs again with the page's script, on the same elements.
  const going = new Going(find("going"), data);
  find("public").onclick = () => open(data.public, data, buttons, say, signal, going);
  find("local").onclick = () => open(data.local, data, buttons, say, signal, going);
  return () => stop.abort();
}

/** The writing of a trace on the server: how far it is, and its end on demand. */
class Going {
  constructor(box, data) {
    this.box = box;
    this.data = data;
    box.querySelector(".cancel").onclick = () => this.cancel();
  }

  /** Resolves when the trace is written. */
  async written(signal) {
    const query = new URLSearchParams(this.data.trace);
    query.set("again", "1");
    const bar = this.box.querySelector("progress");
    try {
      for (;;) {
        const standing = await this.ask("begin", query, signal);
        query.delete("again");
        if (standing.state === "done") return;
        if (standing.state === "cancelled") throw told("The export was cancelled.");
        if (standing.state === "failed") throw told(`The trace could not be exported: ${standing.problem}`);
        bar.value = standing.share;
        this.box.hidden = false;
        await new Promise((resolve) => setTimeout(resolve, 150));
        signal.throwIfAborted();
      }
    } finally {
      this.box.hidden = true;
    }
  }

  cancel() {
    this.ask("cancel", new URLSearchParams(this.data.trace)).catch(() => {});
  }

  async ask(what, query, signal) {
    let answer;
    try {
      answer = await fetch(`${this.data.path}/${what}?${query}`, { method: "POST", signal });
    } catch (problem) {
      throw told(`The trace could not be fetched: ${problem.message}`);
    }
    const body = await answer.json().catch(() => null);
    if (answer.ok) return body;
    throw told(`The trace could not be exported: ${body?.error?.message ?? answer.statusText}`);
  }
}

/** Black or white, whichever stands out more from a theme's colour ("rgb(r, g, b)"). */
function legibleOn(colour) {
  if (!colour.startsWith("rgb")) return "";
  const linear = (colour.match(/[\d.]+/g) || [])
    .slice(0, 3)
    .map((value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  const luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  return luminance > 0.3 ? "#101418" : "#fff";
}

function download(link, address, name) {
  link.href = address;
  link.download = name;
}

async function open(address, data, buttons, say, signal, going) {
  const target = new URL(address, window.location.href);
  // First of all: a browser lets only the click itself open a window, not what comes after it.
  const ui = window.open(target.href, "_blank");
  if (!ui) {
    say("The browser kept the new window from opening. Allow pop-ups, or download the trace.", true);
    return;
  }
  for (const button of buttons) button.disabled = true;
  // A trace that cannot be had must end the waiting for the window, and the other way round.
  const round = new AbortController();
  const off = AbortSignal.any([signal, round.signal]);
  try {
    say("Exporting the trace…");
    const [buffer] = await Promise.all([
      going.written(off).then(() => fetchTrace(`${data.path}?${data.trace}`, off)).then((bytes) => {
        say(`Waiting for Perfetto at ${target.host}…`);
        return bytes;
      }),
      answered(ui, target.origin, data.timeout, off),
    ]);
    const size = buffer.byteLength;
    const perfetto = { buffer, title: data.title, fileName: `${data.stem}.pftrace.gz` };
    ui.postMessage({ perfetto }, target.origin, [buffer]);
    const asks = target.origin === window.location.origin ? "" : " It may ask whether to trust this page.";
    say(`Handed ${megabytes(size)} to Perfetto.${asks}`);
  } catch (problem) {
    if (signal.aborted) return;
    if (problem.closes) ui.close();
    say(problem.message, true);
  } finally {
    round.abort();
    for (const button of buttons) button.disabled = false;
  }
}

async function fetchTrace(address, signal) {
  let answer;
  try {
    answer = await fetch(address, { signal });
    if (answer.ok) return await answer.arrayBuffer();
  } catch (problem) {
    throw told(`The trace could not be fetched: ${problem.message}`);
  }
  const body = await answer.json().catch(() => null);
  throw told(`The trace could not be exported: ${body?.error?.message ?? answer.statusText}`);
}

/** Resolves once the UI in the window `ui` has answered. */
function answered(ui, origin, timeout, signal) {
  return new Promise((resolve, reject) => {
    const begun = performance.now();
    const done = new AbortController();
    const finish = (settle, value) => {
      clearInterval(timer);
      done.abort();
      settle(value);
    };
    const timer = setInterval(() => {
      if (ui.closed) {
        finish(reject, new Error(
          "The Perfetto window was closed, or its server cuts it off from other pages" +
            " (Cross-Origin-Opener-Policy). Download the trace and open it there.",
        ));
      } else if (performance.now() - begun > timeout) {
        finish(reject, new Error(
          `Perfetto did not answer within ${Math.round(timeout / 1000)} s.` +
            " Download the trace and open it there.",
        ));
      } else {
        // Says nothing of the trace, so it may go to whatever page the window shows by now.
        ui.postMessage("PING", "*");
      }
    }, PING_MS);
    window.addEventListener("message", (event) => {
      if (event.source === ui && event.origin === origin && event.data === "PONG") finish(resolve);
    }, { signal: done.signal });
    signal.addEventListener("abort", () => finish(reject, new Error("given up")), {
      signal: done.signal,
    });
  });
}

function told(message) {
  return Object.assign(new Error(message), { closes: true });
}

function megabytes(bytes) {
  return bytes < 1e5 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
