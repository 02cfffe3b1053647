// Folds that the visitor opened or closed stay so when new content of the same page replaces them.
{
  const FOLD = '[data-testid="stHtml"] details';
  const states = new Map();
  let page = location.pathname;

  const getTitle = (fold) =>
    fold.id || (fold.querySelector("summary")?.textContent ?? "").replace(/\d[\d.,]*/g, "#");
  // Equal titles are distinguished by their order.
  const getKey = (fold) => {
    const title = getTitle(fold);
    const equal = [...document.querySelectorAll(FOLD)].filter((other) => getTitle(other) === title);
    return `${title} ${equal.indexOf(fold)}`;
  };

  document.addEventListener("click", (event) => {
    const fold = event.target.closest?.("summary")?.closest(FOLD);
    // The click toggles the fold after this event.
    if (!fold) return;
    // Until then, changes of the page cost nothing.
    if (!states.size) {
      page = location.pathname;
      keeper.observe(document, { childList: true, subtree: true });
    }
    states.set(getKey(fold), !fold.open);
  });
  const keeper = new MutationObserver((changes) => {
    if (location.pathname !== page) {
      page = location.pathname;
      states.clear();
      keeper.disconnect();
      return;
    }
    for (const node of changes.flatMap((change) => [...change.addedNodes])) {
      if (!(node instanceof Element)) continue;
      const folds = node.matches(FOLD) ? [node] : [];
      for (const fold of [...folds, ...node.querySelectorAll("details")]) {
        const state = fold.matches(FOLD) ? states.get(getKey(fold)) : undefined;
        if (state !== undefined) fold.open = state;
      }
    }
  });
}
