// The life cycle of a component on a page of Streamlit.

/**
 * Arguments of a component on each run of the page's script.
 * @template Data
 * @typedef {object} Component
 * @property {Data} data
 * @property {HTMLElement | ShadowRoot} parentElement
 * @property {(name: string, value: unknown) => void} setStateValue
 */

/**
 * @template Data
 * @typedef {object} Mounted
 * @property {HTMLElement} host element of the place when the drawing was made
 * @property {(component: Component<Data>) => void} update
 * @property {() => void} dispose
 */

/**
 * Make the function that Streamlit calls. It makes a `Drawing` for each place on the page, and
 * another one when Streamlit replaces the elements there.
 * @template Data
 * @param {new (root: HTMLElement | ShadowRoot) => Mounted<Data>} Drawing
 * @param {string} selector of the host element
 * @returns {(component: Component<Data>) => () => void}
 */
export function mount(Drawing, selector) {
  /** @type {WeakMap<Node, Mounted<Data>>} */
  const drawings = new WeakMap();
  /** @type {WeakMap<Node, Component<Data>>} last arguments by place */
  const latest = new WeakMap();
  return (component) => {
    const { parentElement } = component;
    let drawing = drawings.get(parentElement);
    if (!drawing || drawing.host !== parentElement.querySelector(selector)) {
      if (drawing) drawing.dispose();
      drawing = new Drawing(parentElement);
      drawings.set(parentElement, drawing);
    }
    const current = drawing;
    latest.set(parentElement, component);
    current.update(component);
    return () => {
      // After two quick changes Streamlit ends the first one when the second is already drawn.
      if (latest.get(parentElement) !== component) return;
      current.dispose();
      drawings.delete(parentElement);
    };
  };
}
