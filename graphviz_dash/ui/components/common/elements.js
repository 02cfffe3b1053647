// Elements of the page. Names come from traces, so text is only set, never parsed as markup.

/**
 * Find an element of the component.
 * @throws {Error} if there is none of that kind
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
 * Make an element with a class, and with text or children.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {string} [className]
 * @param {string | Node[]} [content]
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function makeElement(tag, className = "", content = "") {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (Array.isArray(content)) node.append(...content);
  else node.textContent = content;
  return node;
}

/**
 * Make a button. The label explains the action and names its key.
 * @param {string} text
 * @param {string} label
 * @param {() => void} action
 */
export function makeButton(text, label, action) {
  const button = makeElement("button", "", text);
  button.type = "button";
  button.title = label;
  button.setAttribute("aria-label", label);
  button.addEventListener("click", action);
  return button;
}

/**
 * Place a tooltip next to a point of the stage, on the side with room.
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

/** Whether the reader prefers reduced motion. */
export function prefersReducedMotion() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/**
 * Get the 2D context of a canvas.
 * @param {HTMLCanvasElement} canvas
 * @returns {CanvasRenderingContext2D}
 */
export function getContext(canvas) {
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser has no 2D canvas");
  return context;
}
