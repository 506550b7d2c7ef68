// Comparison of two files.
import { h, say, note, count, plural, later, base, input, checkbox, field } from './dom.js';
import { json } from './api.js';
import { kindName } from './links.js';
import { changeItem, side } from './changes.js';

const KINDS = ['changed', 'added', 'removed', 'replaced'];
const MOST = 200; // maximum number of differences of a kind before "Show more"
const FEW = 20; // maximum number of differences that are all opened

let comparison; // cached for the tab, since neither file changes

export async function show(main, ctx, to) {
  main.append(h('h1', { tabindex: -1 }, 'Compare'));
  if (!comparison) {
    say('Comparing …');
    comparison = await json('/larder/compare', ctx.signal);
    say('');
  }
  const c = comparison;
  const place = h('div');
  const search = input('search', to.query.get('q') || '', { type: 'search' });
  const boxes = KINDS.map((k) => checkbox(`${count(c[k])} ${k}`, { value: k, checked: true, change: draw }));
  search.addEventListener('input', later(() => {
    history.replaceState(history.state, '', `#/compare${search.value ? `?q=${encodeURIComponent(search.value)}` : ''}`);
    draw();
  }));
  function draw() {
    const kinds = new Set(boxes.map((b) => b.firstChild).filter((i) => i.checked).map((i) => i.value));
    const t = search.value.trim().toLowerCase();
    const shown = c.changes.filter((one) => kinds.has(one.kind) && (!t || matches(one, t)));
    place.replaceChildren(...sections(shown, c));
    say(plural(shown.length, 'difference'));
  }
  main.append(
    h('dl', { class: 'facts' }, file('A', c.a), file('B', c.b),
      h('dt', null, 'Same'), h('dd', null, plural(c.same, 'object'))),
    ...(c.notes || []).map((n) => note(n)),
    c.left ? note(`${plural(c.left, 'more difference')} are not shown: larder diff prints all.`, 'warn') : '',
    h('form', { class: 'bar', role: 'search', submit: (e) => e.preventDefault() },
      field('Find', search), boxes), place);
  draw();
  ctx.refocus();
}

function file(name, s) {
  const taken = s.takenAt ? `, taken ${s.takenAt}` : '';
  return [h('dt', null, name), h('dd', { title: s.file }, base(s.file) + taken)];
}

// matches reports whether a name, a value or a path contains a text. The path includes the key in the field's value.
function matches(c, t) {
  const key = (text) => /^[^\s:]+(?=:)/.exec(text || '') || '';
  const fields = (c.fields || []).map((f) => [`${f.path}.${key(f.old)}`, `${f.path}.${key(f.new)}`, f.old, f.new]);
  return [c.name, c.namespace, kindName(c), ...fields.flat()].some((s) => s && s.toLowerCase().includes(t));
}

// sections returns the differences, grouped by kind.
function sections(changes, c) {
  const by = new Map();
  for (const one of changes) by.set(kindName(one), [...(by.get(kindName(one)) || []), one]);
  if (!by.size) return [note(c.changes.length ? 'No difference is selected.' : 'There is no difference.')];
  return [...by].map(([name, all]) => {
    const items = h('ol', { class: 'changes' });
    const more = h('button', { type: 'button', click: () => draw() });
    let shown = 0;
    function draw() {
      const next = all.slice(shown, shown + MOST);
      const o = { open: changes.length <= FEW, old: 'A', new: 'B', more: yaml };
      items.append(...next.map((one) => changeItem(one, o)));
      shown += next.length;
      more.hidden = shown === all.length;
      more.textContent = `Show more (${count(all.length - shown)} left)`;
    }
    draw();
    return h('section', null, h('h2', null, name, ' ', h('span', { class: 'count' }, count(all.length))), items, more);
  });
}

// yaml returns a button that shows the whole object of both files.
function yaml(c) {
  const button = h('button', { type: 'button', click: async () => {
    const { group = '', version, resource, namespace = '', name } = c;
    const q = new URLSearchParams({ group, version, resource, namespace, name });
    try {
      const both = await json(`/larder/compare/object?${q}`);
      button.closest('.inside').append(beside(both.a, both.b));
    } catch (err) {
      button.closest('.inside').append(note(err.message, 'bad'));
    }
    button.remove();
  } }, 'Whole YAML of both');
  return button;
}

// beside returns a table that shows two texts side by side.
function beside(a, b) {
  const rows = aligned(a ? a.trimEnd().split('\n') : [], b ? b.trimEnd().split('\n') : []);
  return h('table', { class: 'fields whole' }, h('caption', { class: 'unseen' }, 'The whole object'),
    h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'A'), h('th', { scope: 'col' }, 'B'))),
    h('tbody', null, rows.map(([x, y]) => h('tr', null, side(x !== y && 'old', x), side(x !== y && 'new', y)))));
}

const LARGEST = 4e6; // maximum size of lcs; for longer texts only the common start and end are aligned

// aligned returns pairs of lines: the longest common subsequence, with the differing lines between its pairs.
function aligned(a, b) {
  let [from, end] = [0, 0];
  while (from < a.length && from < b.length && a[from] === b[from]) from++;
  while (end < a.length - from && end < b.length - from && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const [m, n] = [a.slice(from, a.length - end), b.slice(from, b.length - end)];
  const rows = a.slice(0, from).map((l) => [l, l]);
  const w = n.length + 1;
  const lcs = m.length * n.length < LARGEST ? new Uint32Array((m.length + 1) * w) : null;
  for (let i = m.length - 1; lcs && i >= 0; i--) {
    for (let j = n.length - 1; j >= 0; j--) {
      const [down, right, both] = [(i + 1) * w + j, i * w + j + 1, (i + 1) * w + j + 1];
      lcs[i * w + j] = m[i] === n[j] ? lcs[both] + 1 : Math.max(lcs[down], lcs[right]);
    }
  }
  let [i, j] = [0, 0];
  let [left, right] = [[], []];
  const flush = () => {
    for (let k = 0; k < Math.max(left.length, right.length); k++) rows.push([left[k], right[k]]);
    [left, right] = [[], []];
  };
  while (i < m.length || j < n.length) {
    if (i < m.length && j < n.length && m[i] === n[j]) {
      flush();
      rows.push([m[i++], n[j++]]);
    } else if (j >= n.length || i < m.length && (!lcs || lcs[(i + 1) * w + j] >= lcs[i * w + j + 1])) left.push(m[i++]);
    else right.push(n[j++]);
  }
  flush();
  return rows.concat(a.slice(a.length - end).map((l) => [l, l]));
}
