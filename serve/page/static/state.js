// The state of each collection.
import {
  h, morph, table, say, note, age, size, count, plural, base, detail, num, input, field, checkbox,
} from './dom.js';
import { json } from './api.js';
import { collectionLink, kindName, viewLink } from './links.js';

const EVERY = 5000;

export async function show(main, ctx, to) {
  const body = h('div');
  main.append(h('h1', { tabindex: -1 }, 'State'));
  if (!ctx.status) {
    const kinds = await discovered(ctx.signal);
    main.append(note('The state takes the right to get /larder/status. These are the kinds that are served.'),
      h('ul', null, kinds.map((k) => h('li', null, h('a', { href: collectionLink(k) }, kindName(k))))));
    return;
  }
  const q = { q: to.query.get('q') || '', empty: to.query.get('empty') || '', sort: to.query.get('sort') || '' };
  const draw = () => morph(body, h('div', null, overview(ctx.status, q, sortBy)));
  const change = () => {
    history.replaceState(history.state, '', viewLink('', q));
    draw();
  };
  function sortBy(column) {
    const orders = [column.name, `-${column.name}`];
    const first = /num/.test(column.class) ? 1 : 0; // numbers are first sorted descending
    q.sort = orders[q.sort === orders[first] ? 1 - first : first];
    change();
  }
  const search = input('search', q.q, { type: 'search' });
  search.addEventListener('input', () => { q.q = search.value.trim(); change(); });
  const empty = checkbox('empty kinds', { checked: !!q.empty, change: (e) => {
    q.empty = e.target.checked ? 1 : '';
    change();
  } });
  main.append(h('form', { class: 'bar', role: 'search', submit: (e) => e.preventDefault() },
    field('Resource', search), empty), body);
  draw();
  ctx.refocus();
  for (;;) {
    await new Promise((done) => setTimeout(done, EVERY));
    if (ctx.signal.aborted) return;
    if (document.hidden) continue;
    try {
      ctx.status = await json('/larder/status', ctx.signal);
      draw();
      say('');
    } catch (err) {
      if (ctx.signal.aborted) return;
      if (err.code === 401) throw err;
      say(`Not up to date: ${err.message}`);
    }
  }
}

const sum = (o) => Object.values(o || {}).reduce((a, b) => a + b, 0);

// VALUES has the functions that return the sort values of the columns. A state that needs attention sorts first.
const VALUES = {
  Resource: kindName, Scope: (c) => c.scope, Objects: (c) => c.objects, RV: (c) => +c.resourceVersion || 0,
  Age: (c) => -Date.parse(c.lastContact) || 0, State: (c) => `${c.well ? 1 : 0}${c.state}`,
  Resumes: (c) => (c.live ? c.live.resumes : 0), Relists: (c) => (c.live ? sum(c.live.relists) : 0),
  Incidents: (c) => (c.live ? sum(c.live.incidentTotals) : 0), Received: (c) => (c.live ? c.live.received : 0),
};

// select returns the collections that match q, in q's order. Without a search it omits empty kinds, unless q.empty is
// set or their state needs attention.
function select(all, q) {
  const found = all.filter((c) => (q.q ? kindName(c).includes(q.q) : q.empty || c.objects || !c.well));
  const value = VALUES[q.sort.replace(/^-/, '')];
  if (!value) return found;
  const down = q.sort.startsWith('-') ? -1 : 1;
  const order = (a, b) => (a < b ? -down : a > b ? down : 0);
  return found.sort((a, b) => order(value(a), value(b)));
}

function overview(s, q, sortBy) {
  const mirror = s.of === 'mirror';
  const names = ['Resource', 'Scope', num('Objects'), num('RV', 'opt'), num('Age'), 'State'];
  if (mirror) names.push(...['Resumes', 'Relists', 'Incidents', 'Received'].map((name) => num(name, 'opt')));
  const columns = names.map((c) => (c.name ? c : { name: c })).map((c) => ({ ...c, sort: () => sortBy(c),
    sorted: { [c.name]: 'ascending', [`-${c.name}`]: 'descending' }[q.sort] }));
  const shown = select(s.collections, q);
  const rows = shown.map((c) => row(c, s));
  const total = shown.reduce((n, c) => n + c.objects, 0);
  const hidden = s.collections.length - shown.length;
  return [
    facts(s),
    s.error && note(`Changes cannot be written to the file: ${s.error}`, 'bad'),
    s.forbidden && note(s.forbidden, 'bad'),
    s.memory.refused && note(`${plural(s.memory.refused, 'request')} refused: the memory for answers was spent ` +
      '(--serve-memory)', 'warn'),
    table(`${plural(total, 'object')} in ${plural(rows.length, 'collection')}`, columns, rows, { class: 'list' }),
    hidden > 0 && detail(q.q ? `${plural(hidden, 'other collection')}` : `${plural(hidden, 'empty kind')} hidden`),
  ].filter(Boolean);
}

function facts(s) {
  const list = [['File', `${base(s.file)}, ${size(s.bytes)}`]];
  const snap = s.snapshot;
  if (s.memory.size) list.push(['Memory', `${size(s.memory.used)} of ${size(s.memory.size)} for answers in use`]);
  if (snap) {
    list.push(['Taken', snap.takenAt ? `${snap.takenAt}, ${age(snap.takenAt, s.now)} ago` : 'at an unknown time']);
    list.push(['Cluster', [snap.clusterID, snap.serverVersion].filter(Boolean).join(', ') || 'unknown']);
    if (snap.larder) list.push(['By', `larder ${snap.larder}${snap.encrypted ? ', encrypted' : ''}`]);
    for (const left of snap.leftOut || []) list.push(['Left out', left]);
  }
  return h('dl', { class: 'facts' }, list.map(([k, v]) => [h('dt', null, k), h('dd', null, v)]));
}

const totals = (o) => [count(sum(o)), Object.entries(o || {}).map(([k, n]) => detail(`${k}: ${n}`))];

function row(c, s) {
  const name = kindName(c);
  const live = c.live;
  let work = ['', '', '', ''];
  if (live) work = [count(live.resumes), live.relists, live.incidentTotals, size(live.received)];
  const [word, ...rest] = c.state.split(', ');
  const details = [...rest, ...(c.notes || []), c.hidden, live && live.error, ...((live && live.unguarded) || [])]
    .filter(Boolean);
  return h('tr', null,
    h('th', { scope: 'row' }, c.hidden ? name : h('a', { href: collectionLink(c) }, name)),
    h('td', null, c.scope),
    h('td', { class: 'num' }, count(c.objects)),
    h('td', { class: 'num opt' }, c.resourceVersion || '–'),
    h('td', { class: 'num', title: c.lastContact }, age(c.lastContact, s.now)),
    h('td', null, h('span', { class: `tag ${tone(c)}` }, word), details.map(detail)),
    s.of === 'mirror' && work.map((v) => h('td', { class: 'num opt' }, typeof v === 'string' ? v : totals(v))));
}

// tone returns the class of a collection's state. It is bad if the data are not being updated.
function tone(c) {
  if (c.well) return 'ok';
  return c.live && c.live.error || !c.objects && !c.resourceVersion ? 'bad' : 'warn';
}

// discovered returns the kinds from discovery.
async function discovered(signal) {
  const accept = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';
  const kinds = [];
  for (const path of ['/api', '/apis']) {
    for (const group of (await json(path, signal, accept)).items || []) {
      for (const v of group.versions.slice(0, 1)) {
        for (const r of v.resources || []) {
          if (!r.verbs.includes('list')) continue;
          kinds.push({ group: group.metadata.name || '', version: v.version, resource: r.resource });
        }
      }
    }
  }
  return kinds;
}
