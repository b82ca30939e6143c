/* Elements without markup: what comes from hosts becomes text nodes and can become nothing else.
 *
 *   el('button.chip#go', {onclick: f, 'aria-pressed': true, hidden: false, dataset: {n: 1}}, 'text', node, [nodes],
 *       null)
 *       attributes: a function is a listener (onclick), true an empty attribute, false and null none; `value`,
 *           `checked`,
 *       `textContent` and `tabIndex` are set as properties. Children: nodes and arrays; everything else as text.
 *   put(node, ...children)   replaces what is in it        text(node, value)   only when it differs
 *   svg('path', {d: …})      the same for SVG */

const PROPERTIES = new Set(['value', 'checked', 'textContent', 'tabIndex', 'disabled']);

function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
        if (typeof value === 'function') node.addEventListener(name.slice(2), value);
        else if (name === 'dataset') Object.assign(node.dataset, value);
        else if (PROPERTIES.has(name)) node[name] = value;
        else if (value === true) node.setAttribute(name, name.startsWith('aria-') ? 'true' : '');
        else if (value === false && name.startsWith('aria-')) node.setAttribute(name, 'false');
        else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
    }
    append(node, children);
    return node;
}

function append(node, children) {
    for (const child of children) {
        if (Array.isArray(child)) append(node, child);
        else if (child instanceof Node) node.append(child);
        else if (child !== null && child !== undefined && child !== false) node.append(String(child));
    }
}

export function el(what, attributes, ...children) {
    const m = /^([a-z][\w-]*)((?:[.#][\w-]+)*)$/.exec(what);
    const node = document.createElement(m[1]);
    for (const part of m[2].match(/[.#][\w-]+/g) || []) {
        if (part[0] === '#') node.id = part.slice(1);
        else node.classList.add(part.slice(1));
    }
    return fill(node, attributes, children);
}

export function svg(name, attributes, ...children) {
    return fill(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children);
}

export function put(node, ...children) {
    node.replaceChildren();
    append(node, children);
    return node;
}

export function text(node, value) {
    const s = value === null || value === undefined ? '' : String(value);
    if (node.textContent !== s) node.textContent = s;
    return node;
}
