// Elements of the page. Names come from traces: text is only ever set, never parsed as markup.

/**
 * The element of a class within the component.
 * @template {Element} T
 * @param {ParentNode} root
 * @param {string} selector
 * @param {new () => T} kind
 * @returns {T}
 */
export function find(root, selector, kind) {
  const element = root.querySelector(selector);
  if (!(element instanceof kind)) throw new Error(`the component has no ${selector}`);
  return element;
}

/**
 * A new element with a class, and with text or children.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {string} [className]
 * @param {string | Node[]} [content]
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function makeElement(tag, className = "", content = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (Array.isArray(content)) made.append(...content);
  else made.textContent = content;
  return made;
}

/**
 * A button that says `text`; `label` tells more, the key that does the same included.
 * @param {string} text
 * @param {string} label
 * @param {() => void} action
 */
export function makeButton(text, label, action) {
  const made = makeElement("button", "", text);
  made.type = "button";
  made.title = label;
  made.setAttribute("aria-label", label);
  made.addEventListener("click", action);
  return made;
}

/**
 * Puts a tooltip beside a point of the stage, on the side that has room.
 * @param {HTMLElement} tooltip
 * @param {{x: number, y: number}} point
 * @param {{width: number, height: number}} stage
 */
export function placeTooltip(tooltip, point, stage) {
  const { offsetWidth: width, offsetHeight: height } = tooltip;
  const left = point.x + 16 + width > stage.width ? point.x - width - 12 : point.x + 16;
  const top = point.y + 17 + height > stage.height ? point.y - height - 10 : point.y + 17;
  tooltip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
}

/** Whether the reader has asked for no motion. */
export function prefersReducedMotion() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/**
 * The context of a canvas.
 * @param {HTMLCanvasElement} canvas
 * @returns {CanvasRenderingContext2D}
 */
export function getContext(canvas) {
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser draws on no canvas");
  return context;
}
