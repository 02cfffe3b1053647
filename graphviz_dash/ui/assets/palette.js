// Palette (Ctrl+K) and Share. The page lists experiments, runs and pages; the server finds nodes and
// kernels of the experiment, and experiments if they are too many for the page.
{
  const MAX_LISTED = 40
  const DELAY_MS = 150
  let dialog, field, list, timer
  let found = []
  let names = []
  let listing = Promise.resolve()

  const read = () => JSON.parse(document.querySelector("[data-palette]")?.dataset.palette ?? "null")
  const makeAddress = (page, query) => {
    const text = new URLSearchParams(query).toString()
    return `./${page === "overview" ? "" : page}${text ? `?${text}` : ""}`
  }
  // Names of folders and kernels are untrusted: invisible characters and marks of direction show as escapes.
  const escapeText = (text) => text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = character.codePointAt(0)
    return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}`
      : code < 65536 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`
  })
  const make = (tag, kind, text = "") => {
    const element = document.createElement(tag)
    element.className = kind
    element.textContent = escapeText(text)
    return element
  }

  const listLocal = (data) => {
    const experiment = data.experiment ? { experiment: data.experiment } : {}
    return [
      ...data.pages.map(([page, title]) => ({
        kind: "page", title, note: page === "overview" ? "" : data.experiment ?? "", page,
        query: page === "overview" ? {} : experiment,
      })),
      ...(data.experiments ?? names).map((name) => ({
        kind: "experiment", title: name, note: "", page: "compare", query: { experiment: name },
      })),
      ...data.runs.map((name) => ({
        kind: "run", title: name, note: data.experiment, page: "compare",
        query: { ...experiment, run: name },
      })),
    ]
  }

  const isMatch = (entry, words) => {
    const text = `${entry.kind} ${entry.title} ${entry.note}`.toLowerCase()
    return words.every((word) => text.includes(word))
  }

  const draw = (data) => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean)
    const entries = [...listLocal(data).filter((entry) => isMatch(entry, words)), ...found]
    const rows = entries.slice(0, MAX_LISTED).map((entry, index) => {
      const link = make("a", "to-page")
      link.href = makeAddress(entry.page, entry.query)
      link.id = `palette-${index}`
      link.setAttribute("role", "option")
      link.append(make("b", "", entry.title), make("small", "", entry.note), make("em", "", entry.kind))
      return link
    })
    list.replaceChildren(...(rows.length ? rows : [make("p", "", "Nothing found")]))
    choose(0)
  }

  const choose = (index) => {
    const rows = [...list.querySelectorAll("a")]
    if (!rows.length) return field.removeAttribute("aria-activedescendant")
    const next = (index + rows.length) % rows.length
    rows.forEach((row, place) => row.setAttribute("aria-selected", String(place === next)))
    rows[next].scrollIntoView({ block: "nearest" })
    field.setAttribute("aria-activedescendant", rows[next].id)
  }
  const getChosen = () =>
    [...list.querySelectorAll("a")].findIndex((row) => row.ariaSelected === "true")

  const find = async (data) => {
    const text = field.value
    if (!data.key || text.trim().length < 2) return
    const parameters = new URLSearchParams({ experiment: data.key, q: text })
    const answer = await fetch(`./api/find?${parameters}`).catch(() => null)
    if (!answer?.ok || field.value !== text) return
    const { hits } = await answer.json()
    found = hits.map((hit) => ({ ...hit, query: { experiment: data.experiment, ...hit.query } }))
    draw(data)
  }

  const listExperiments = async (data) => {
    if (data.experiments) return
    const text = field.value
    const answer = await fetch(`./api/experiments?${new URLSearchParams({ q: text })}`).catch(() => null)
    if (!answer?.ok || field.value !== text) return
    names = (await answer.json()).names
    draw(data)
  }

  const build = () => {
    dialog = make("dialog", "palette")
    dialog.setAttribute("aria-label", "Go to")
    field = make("input", "")
    field.placeholder = "Go to an experiment, run, page, node or kernel"
    field.setAttribute("role", "combobox")
    field.setAttribute("aria-controls", "palette-list")
    field.setAttribute("aria-expanded", "true")
    field.setAttribute("aria-label", "Go to")
    list = make("div", "")
    list.id = "palette-list"
    list.setAttribute("role", "listbox")
    dialog.append(field, list)
    document.body.append(dialog)
    field.addEventListener("input", () => {
      found = []
      const data = read()
      draw(data)
      listing = listExperiments(data)
      clearTimeout(timer)
      timer = setTimeout(() => find(data), DELAY_MS)
    })
    dialog.addEventListener("keydown", (event) => {
      event.stopPropagation()
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
      if (step) choose(getChosen() + step)
      else if (event.key === "Enter") listing.then(() => list.querySelectorAll("a")[getChosen()]?.click())
      else return
      event.preventDefault()
    })
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog || event.target.closest("a")) dialog.close()
    })
  }

  const open = () => {
    const data = read()
    // Between two pages there is no bar: the palette opens as soon as the next one is drawn.
    if (!data) return requestAnimationFrame(open)
    if (!dialog) build()
    if (dialog.open) return
    const { color, backgroundColor } = getComputedStyle(document.querySelector('[data-testid="stApp"]'))
    Object.assign(dialog.style, { color, backgroundColor })
    field.value = ""
    found = []
    names = []
    dialog.showModal()
    draw(data)
    listing = listExperiments(data)
    field.focus()
  }

  const copy = async (text) => {
    if (navigator.clipboard) return navigator.clipboard.writeText(text)
    // A page that is not served by HTTPS has no clipboard.
    const area = make("textarea", "", text)
    document.body.append(area)
    area.select()
    document.execCommand("copy")
    area.remove()
  }
  const share = async () => {
    await copy(location.href)
    const end = performance.now() + 2000
    // A page that is drawn meanwhile replaces the button.
    const show = () => {
      const copied = performance.now() < end
      const button = document.querySelector(".share-link")
      if (button && button.classList.contains("done") !== copied) {
        button.classList.toggle("done", copied)
        button.querySelector("span").textContent = copied ? "Link copied" : "Share"
      }
      if (copied) requestAnimationFrame(show)
    }
    show()
  }

  addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "k") return
    event.preventDefault()
    event.stopPropagation()
    if (dialog?.open) dialog.close()
    else open()
  }, true)
  document.addEventListener("click", (event) => {
    if (event.target.closest?.(".open-palette")) open()
    if (event.target.closest?.(".share-link")) share()
  })
}
