// What takes the server longer than a view: nodes of slices and differences, with its progress.

class More {
  constructor(t, box) {
    this.t = t;
    this.box = box;
    this.standing = null;
  }

  /** Forgets what was begun for other runs. */
  reset() {
    this.standing = null;
    this.render();
  }

  begin() {
    if (!this.standing) this.find(false);
  }

  /** Has the server find out what the view still lacks, and shows how far that is. */
  async find(again) {
    const { t } = this;
    const { source } = t;
    const query = this.query();
    if (again) query.set("again", "1");
    this.standing = { state: "running", what: "", share: 0 };
    for (let first = true; ; first = false) {
      const standing = await this.ask("more", query);
      query.delete("again");
      if (source !== t.source) return;
      this.standing = standing;
      this.render();
      if (standing.state === "done") {
        t.load();
        if (t.card) t.loadCard(t.card.run, t.card.token, false);
        t.ruler.measure();
      }
      if (standing.state !== "running") return;
      await new Promise((resolve) => setTimeout(resolve, first ? 50 : 200));
    }
  }

  async cancel() {
    this.box.querySelector("button").disabled = true;
    await this.ask("cancel", this.query());
  }

  query() {
    const query = new URLSearchParams(this.t.query);
    query.delete("step");
    return query;
  }

  async ask(what, query) {
    try {
      const answer = await fetch(`/api/timeline/${what}?${query}`, { method: "POST" });
      const body = await answer.json();
      if (!answer.ok) throw new Error(body.error ? body.error.message : answer.statusText);
      return body;
    } catch (problem) {
      return { state: "failed", what: "", share: 0, problem: problem.message };
    }
  }

  render() {
    const { standing, box } = this;
    const quiet = !standing || standing.state === "done" || !(standing.what || standing.problem);
    box.hidden = quiet;
    if (quiet) return box.replaceChildren();
    if (standing.state !== "running") {
      const why = standing.state === "cancelled" ? "cancelled" : standing.problem;
      box.replaceChildren(
        element("span", "", `Nodes and differences: ${why}`),
        button("Try again", "Find out nodes and differences", () => this.find(true)),
      );
      return;
    }
    // Kept while it runs, so that the button is not taken from under the pointer.
    let bar = box.querySelector("progress");
    if (!bar) {
      bar = element("progress");
      bar.max = 1;
      box.replaceChildren(
        element("span"),
        bar,
        button("Cancel", "Cancel finding out nodes and differences", () => this.cancel()),
      );
    }
    bar.value = standing.share;
    bar.setAttribute("aria-label", standing.what);
    box.querySelector("span").textContent = standing.what;
  }
}
