// Changes: live and recorded.
import { h, say, note, count, plural, later, input, field, checkbox } from './dom.js';
import { json, list, watch } from './api.js';
import { kindName, objectLink, viewLink } from './links.js';
import { feed, differing } from './feed.js';

const FOLLOWED = 4; // maximum number of watches: a browser has six connections to a server
const LOADED = 5000; // maximum number of objects of a kind whose old columns are kept
const RECORDED = 200;
const HOUR = 3600;

// minute formats the time of a recorded change, which is accurate to a minute.
const minute = (t) => `${t.slice(0, 16).replace('T', ' ')}Z`;

// changeItem returns the list item of a change, which shows its fields when opened. o.more(c) returns further nodes.
export function changeItem(c, o) {
  const what = c.namespace ? `${c.namespace}/${c.name}` : c.name;
  const few = (c.fields || []).map((f) => f.path).filter((p, i, all) => all.indexOf(p) === i);
  const more = few.length > 3 ? `, ${few.length - 3} more` : '';
  const summary = [
    h('span', { class: `tag ${c.kind}` }, c.kind), ' ', o.resource && [h('span', { class: 'kind' }, kindName(c)), ' '],
    h('span', { class: 'name' }, what), ' ',
    h('span', { class: 'detail' }, c.note || few.slice(0, 3).join(', ') + more),
    c.time && h('time', { datetime: c.time }, o.recorded ? minute(c.time) : `${c.time.slice(11, 19)}Z`),
  ];
  const d = h('details', { class: 'change' }, h('summary', null, summary));
  let built = false;
  d.addEventListener('toggle', () => {
    if (!d.open || built) return;
    built = true;
    const open = c.kind !== 'removed' && h('a', { href: objectLink(c, c.namespace, c.name) }, 'Open');
    d.append(h('div', { class: 'inside' }, fields(c, o.old || 'old', o.new || 'new'),
      h('p', { class: 'bar' }, open, o.more && o.more(c))));
  });
  d.open = !!o.open;
  return h('li', null, d);
}

// side returns a cell with the old or new value of a field, which may be empty.
export function side(name, text) { return h('td', { class: text && name }, h('pre', null, text || '')); }

// pathCell returns the cell with the path of a field; null if the row above has the same path.
function pathCell(f, i, all) {
  if (i > 0 && all[i - 1].path === f.path) return null;
  let rowspan = 1;
  while (i + rowspan < all.length && all[i + rowspan].path === f.path) rowspan++;
  return h('th', { scope: rowspan > 1 ? 'rowgroup' : 'row', rowspan }, f.path || '(the object)');
}

function fields(c, old, now) {
  if (!c.fields || !c.fields.length) return null;
  return h('table', { class: 'fields' }, h('caption', { class: 'unseen' }, 'Fields that differ'),
    h('thead', null, h('tr', null, ['Field', old, now].map((n) => h('th', { scope: 'col' }, n)))),
    h('tbody', null, c.fields.map((f, i, all) => h('tr', null, pathCell(f, i, all),
      side('old', f.old), side('new', f.new)))));
}

export async function show(main, ctx, to) {
  main.append(h('h1', { tabindex: -1 }, 'Changes'));
  const s = ctx.status;
  if (!s) return;
  if (s.of !== 'mirror' && !s.changes) {
    const hint = s.compare ? ' Compare shows how it differs from an older one.' : '';
    main.append(note(`Nothing changes in a ${s.of}.${hint}`));
    return;
  }
  const q = Object.fromEntries(['kind', 'ns', 'q'].map((name) => [name, to.query.get(name) || '']));
  const lists = []; // functions that redraw a list of changes
  main.append(filters(s, q, () => lists.forEach((draw) => draw())));
  const counts = s.changes ? (await record(ctx, HOUR, {})).counts || {} : {};
  if (s.of === 'mirror') main.append(live(ctx, q, counts, lists));
  if (s.changes) main.append(await recorded(ctx, q, lists));
}

// filters returns the form that selects changes by kind, namespace and name. It stores q in the address.
function filters(s, q, changed) {
  const kinds = [...new Set(s.collections.filter((c) => !c.hidden).map(kindName))].sort();
  const kind = h('select', { id: 'kind' }, h('option', { value: '' }, 'all'),
    kinds.map((k) => h('option', { value: k, selected: k === q.kind }, k)));
  const ns = input('ns', q.ns, { placeholder: 'all' });
  const search = input('search', q.q, { type: 'search' });
  const apply = later(() => {
    Object.assign(q, { kind: kind.value, ns: ns.value.trim(), q: search.value.trim() });
    history.replaceState(history.state, '', viewLink('changes', q));
    changed();
  });
  for (const e of [kind, ns, search]) e.addEventListener('input', apply);
  return h('form', { class: 'bar', role: 'search', submit: (e) => e.preventDefault() },
    field('Kind', kind), field('Namespace', ns), field('Name', search));
}

const selects = (q, c) => (!q.kind || kindName(c) === q.kind) && (!q.ns || c.namespace === q.ns)
  && c.name.includes(q.q);

// live shows new changes of the followed kinds; by default, of the kinds with the most recorded changes.
function live(ctx, q, counts, lists) {
  const changes = (c) => counts[kindName(c)] || 0;
  const served = ctx.status.collections.filter((c) => !c.hidden && c.live).sort((a, b) => changes(b) - changes(a));
  const key = (c) => `${kindName(c)} ${c.scope}`;
  const kept = sessionStorage.getItem('followed');
  const chosen = new Set(kept === null ? served.slice(0, FOLLOWED).map(key) : JSON.parse(kept));
  const items = h('ol', { class: 'changes', 'aria-label': 'Changes as they come' });
  const empty = note('');
  feed.changed = () => {
    const known = new Set([...items.children].map((li) => li.dataset.id));
    for (const c of feed.changes.filter((one) => !known.has(one.id) && selects(q, one)).reverse()) {
      const li = changeItem(c, { resource: true, open: c.fields && c.fields.length });
      li.dataset.id = c.id;
      items.prepend(li);
      if (items.children.length > feed.most) items.lastChild.remove();
      if (known.size) say(`${c.kind} ${kindName(c)} ${c.name}`);
    }
    empty.hidden = items.children.length > 0;
    empty.textContent = q.kind || q.ns || q.q ? 'No such change since this page was opened.'
      : 'No changes since this page was opened.';
  };
  lists.push(() => { items.replaceChildren(); feed.changed(); });
  ctx.signal.addEventListener('abort', () => { feed.changed = () => {}; });
  const stops = new Map();
  const boxes = served.map((c) => checkbox(kindName(c) + (c.scope === 'all' ? '' : ` (${c.scope})`),
    { value: key(c), checked: chosen.has(key(c)), change: apply }));
  function apply() {
    const inputs = boxes.map((b) => b.firstChild);
    const on = inputs.filter((i) => i.checked);
    inputs.forEach((i) => { i.disabled = !i.checked && on.length >= FOLLOWED; });
    sessionStorage.setItem('followed', JSON.stringify(on.map((i) => i.value)));
    for (const c of served) {
      const want = on.some((i) => i.value === key(c));
      if (want && !stops.has(key(c))) {
        const stop = new AbortController();
        stops.set(key(c), stop);
        follow(c, AbortSignal.any([ctx.signal, stop.signal]), ctx);
      } else if (!want && stops.has(key(c))) {
        stops.get(key(c)).abort();
        stops.delete(key(c));
      }
    }
  }
  apply();
  feed.changed();
  const legend = h('legend', null, `Follow ${FOLLOWED} kinds at most`);
  return h('section', null, h('fieldset', { class: 'bar' }, legend, boxes), items, empty);
}

// follow lists a collection, to know the old columns of its objects, and adds its later changes to the feed.
async function follow(c, signal, ctx) {
  try {
    for (;;) {
      const rows = new Map();
      let page;
      do {
        const next = await list(c, { next: page && page.next }, signal);
        page = { ...next, rv: page ? page.rv : next.rv };
        for (const r of page.rows) rows.set(`${r.namespace}/${r.name}`, r);
      } while (page.next && rows.size < LOADED);
      try {
        await watch(c, {}, page.rv, signal, (type, row) => {
          const key = `${row.namespace}/${row.name}`;
          const old = rows.get(key);
          feed.add(c, type, row, old && differing(page.columns, old, row));
          if (type === 'DELETED') rows.delete(key);
          else if (rows.size < LOADED || old) rows.set(key, row);
        }, () => {});
        return;
      } catch (err) {
        if (err.code !== 410) throw err;
      }
    }
  } catch (err) {
    if (!signal.aborted) ctx.fail(err);
  }
}

// record returns the recorded changes of the last seconds that match q.
async function record(ctx, seconds, q) {
  const since = new Date(Date.now() - seconds * 1000).toISOString();
  const query = { since, limit: RECORDED, kind: q.kind || '', namespace: q.ns || '', name: q.q || '' };
  return { ...await json(`/larder/changes?${new URLSearchParams(query)}`, ctx.signal), asked: since };
}

// recorded shows the changes that the server has recorded.
async function recorded(ctx, q, lists) {
  const items = h('ol', { class: 'changes', 'aria-label': 'Recorded changes' });
  const told = h('p', { class: 'detail' });
  const spans = [['10 minutes', 600], ['hour', HOUR], ['day', 86400], ['week', 604800]];
  const span = h('select', { id: 'since', change: () => load().catch(ctx.fail) },
    spans.map(([name, s]) => h('option', { value: s, selected: s === HOUR }, `the last ${name}`)));
  let run = 0;
  async function load() {
    const mine = ++run;
    const { changes, since, asked } = await record(ctx, span.value, q);
    if (mine !== run) return; // a later request has another filter
    items.replaceChildren(...changes.map((c) => changeItem(c, { resource: true, recorded: true })));
    const all = changes.length < RECORDED;
    const short = all && Date.parse(since) > Date.parse(asked) + 60000;
    told.textContent = (all ? plural(changes.length, 'change') : `the newest ${count(RECORDED)}`) +
      (short ? `; before ${minute(since)} they are not on record` : '');
  }
  lists.push(() => load().catch(ctx.fail));
  await load();
  return h('section', null, h('h2', null, 'On record'),
    h('p', { class: 'bar' }, field('Of', span)), told, items);
}
