// How a component lives on the page of Streamlit.

/**
 * What Streamlit hands to a component on each run of the page's script.
 * @template Data
 * @typedef {object} Component
 * @property {Data} data
 * @property {HTMLElement | ShadowRoot} parentElement
 * @property {(name: string, value: unknown) => void} setStateValue
 */

/**
 * @template Data
 * @typedef {object} Mounted
 * @property {HTMLElement} host the element that was there when it was made
 * @property {(component: Component<Data>) => void} update
 * @property {() => void} dispose
 */

/**
 * A function for Streamlit to call: it makes one `Drawing` for each place on the page, and another
 * where Streamlit has put new elements there.
 * @template Data
 * @param {new (root: HTMLElement | ShadowRoot) => Mounted<Data>} Drawing
 * @param {string} selector of its element
 * @returns {(component: Component<Data>) => () => void}
 */
export function mount(Drawing, selector) {
  /** @type {WeakMap<Node, Mounted<Data>>} */
  const drawings = new WeakMap();
  /** @type {WeakMap<Node, Component<Data>>} what each place was last told */
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
      // Two changes in a row, and Streamlit ends the first when the second is drawn already.
      if (latest.get(parentElement) !== component) return;
      current.dispose();
      drawings.delete(parentElement);
    };
  };
}
