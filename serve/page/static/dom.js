// DOM nodes from data. Texts of objects are untrusted, and become text nodes.

// h returns an element. In props, functions become event listeners (click, input), false and undefined are ignored,
// true becomes an empty attribute, and other values become attributes.
export function h(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (typeof value === 'function') e.addEventListener(name, value);
    else if (value || value === 0 || value === '') e.setAttribute(name, value === true ? '' : value);
  }
  e.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return e;
}

// morph changes the node a to equal b. Equal parts are kept, so that focus and selection stay.
export function morph(a, b) {
  if (a.nodeName !== b.nodeName) return a.replaceWith(b);
  if (a.nodeType === Node.TEXT_NODE) {
    if (a.data !== b.data) a.data = b.data;
    return;
  }
  for (const name of a.getAttributeNames()) if (!b.hasAttribute(name) && name !== 'open') a.removeAttribute(name);
  for (const { name, value } of b.attributes) if (a.getAttribute(name) !== value) a.setAttribute(name, value);
  const [old, now] = [[...a.childNodes], [...b.childNodes]];
  now.forEach((n, i) => (i < old.length ? morph(old[i], n) : a.append(n)));
  old.slice(now.length).forEach((n) => n.remove());
}

// table returns a horizontally scrollable table. columns are names or {name, class, sort, sorted}: sort is the click
// handler of the heading, and sorted the direction for aria-sort.
export function table(caption, columns, rows, props) {
  const head = columns.map((c) => h('th', { scope: 'col', class: c.class, 'aria-sort': c.sorted },
    c.sort ? h('button', { type: 'button', click: c.sort }, c.name) : c.name || c));
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
    h('table', props, h('caption', { class: 'unseen' }, caption),
      h('thead', null, h('tr', null, head)), h('tbody', null, rows)));
}

// say shows a text in the status region, which screen readers announce.
export function say(text) {
  const e = document.getElementById('said');
  if (e.textContent !== text) e.textContent = text;
}

export function note(text, kind) {
  return h('p', { class: `note ${kind || ''}`, role: kind === 'bad' && 'alert' }, text);
}

export const detail = (text) => h('div', { class: 'detail' }, text);

// num returns a column of numbers.
export const num = (name, more) => ({ name, class: `num ${more || ''}` });

export function input(id, value, props) {
  return h('input', { id, name: id, value, autocomplete: 'off', spellcheck: 'false', ...props });
}

// field returns an input or a select with its label, on one line.
export function field(label, control) {
  return h('span', { class: 'field' }, h('label', { for: control.id }, label), control);
}

export function checkbox(text, props) {
  return h('label', { class: 'check' }, h('input', { type: 'checkbox', ...props }), ` ${text}`);
}

export function age(then, now) {
  const s = Math.max(0, (new Date(now || Date.now()) - new Date(then)) / 1000);
  if (!then || !Number.isFinite(s)) return '–';
  for (const [unit, size, upTo] of [['s', 1, 120], ['m', 60, 120], ['h', 3600, 48], ['d', 86400, Infinity]]) {
    if (s / size < upTo) return Math.floor(s / size) + unit;
  }
}

export function size(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; i++) n /= 1024;
  return `${i && n < 10 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

export const base = (path) => path.split(/[\\/]/).pop();

export const count = (n) => n.toLocaleString('en');

export function plural(n, one) { return `${count(n)} ${one}${n === 1 ? '' : 's'}`; }

// later returns a debounced f: it runs 150 ms after the last call.
export function later(f) {
  let timer;
  return () => { clearTimeout(timer); timer = setTimeout(f, 150); };
}
