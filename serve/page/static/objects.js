// The objects of a kind, and one object as YAML.
import { h, morph, table, say, note, count, plural, later, input, checkbox, field } from './dom.js';
import { list, watch, pathOf, text } from './api.js';
import { kindName, listLink, objectLink } from './links.js';
import { feed, differing } from './feed.js';

const MOST = 500; // maximum number of matches that a search loads

// kindOf returns the kind of an address, with the restrictions of a collection.
function kindOf(to, ctx) {
  const q = to.query;
  const all = (ctx.status && ctx.status.collections) || [];
  const known = all.find((c) => kindName(c) === kindName(to.kind) && c.version === to.kind.version);
  const namespaced = known ? known.namespaced : true;
  return { ...to.kind, fieldSelector: q.get('f') || '', metadata: !!q.get('m'), namespaced };
}

export async function show(main, ctx, to) {
  const kind = kindOf(to, ctx);
  const o = { namespace: to.query.get('ns') || '', labels: to.query.get('l') || '' };
  const q = { ...Object.fromEntries(to.query), q: to.query.get('q') || '' };
  const counted = h('span', { class: 'count' });
  const live = h('span', { class: 'tag', hidden: true }, 'live');
  const place = h('div');
  const v = new List(kind, o, ctx, { counted, place, live });
  const search = input('search', q.q, { type: 'search' });
  search.addEventListener('input', later(() => {
    q.q = search.value.trim();
    history.replaceState(history.state, '', listLink(kind, q));
    v.find(q.q).catch(ctx.fail);
  }));
  const form = h('form', { class: 'bar', role: 'search', submit: (e) => {
    e.preventDefault();
    const d = new FormData(form);
    location.hash = listLink(kind, { ...q, ns: d.get('ns'), l: d.get('l'), q: search.value.trim() });
  } },
  field('Name', search),
  kind.namespaced && field('Namespace', input('ns', o.namespace, { placeholder: 'all' })),
  field('Labels', input('l', o.labels, { placeholder: 'app=web,tier!=db' })),
  h('button', { type: 'submit' }, 'Apply'),
  checkbox('all columns', { change: (e) => place.classList.toggle('wide', e.target.checked) }));
  main.append(h('h1', { tabindex: -1 }, kindName(kind), ' ', counted, ' ', live), form, place);
  await v.find(q.q);
  ctx.refocus();
}

// List shows the loaded objects of a kind, or the matches of a search.
class List {
  constructor(kind, o, ctx, at) { Object.assign(this, { kind, o, ctx, at, search: 0 }); }

  matches(row) { return !this.text || row.name.includes(this.text) || row.namespace.includes(this.text); }

  // find loads the first page, or, for a search, pages until enough rows match. It then follows changes. A later search
  // ends it.
  async find(t) {
    const signal = this.begin();
    const run = ++this.search;
    Object.assign(this, { text: t, next: '', seen: 0, rows: new Map(), body: null, last: '' });
    do {
      const page = await this.page(run, signal);
      if (!page) return;
      this.take(page);
      if (!this.body) this.build(page);
      this.draw(page.rows.filter((r) => this.matches(r)));
    } while (t && this.next && this.rows.size < MOST);
    if (this.ctx.status && this.ctx.status.of === 'mirror') this.follow(signal);
  }

  // page returns the next page, or undefined if a search after run has begun meanwhile, which aborts the request.
  async page(run, signal) {
    try {
      const page = await list(this.kind, { ...this.o, next: this.next }, signal);
      return run === this.search ? page : undefined;
    } catch (err) {
      if (run === this.search) throw err;
      return undefined;
    }
  }

  // begin aborts the previous search and returns the signal of a new one.
  begin() {
    if (this.stop) this.stop.abort();
    this.stop = new AbortController();
    return AbortSignal.any([this.ctx.signal, this.stop.signal]);
  }

  take(page) {
    this.seen += page.rows.length;
    this.next = page.next;
    this.rv = this.rv && this.body ? this.rv : page.rv;
    if (page.left !== undefined) this.total = this.seen + page.left;
    else if (!page.next) this.total = this.seen;
    if (page.rows.length) this.last = keyOf(page.rows.at(-1));
  }

  build(page) {
    this.columns = page.columns;
    const classes = (c) => (c.wide ? 'more' : undefined);
    const heads = page.columns.map((c) => ({ name: c.name, class: classes(c) }));
    if (this.namespaced()) heads.unshift('Namespace');
    const t = table(kindName(this.kind), heads, [], { class: 'list' });
    this.body = t.querySelector('tbody');
    this.more = h('button', { type: 'button', click: () => this.another().catch(this.ctx.fail) });
    this.at.place.replaceChildren(...page.warnings.map((w) => note(w, 'warn')), t, this.more);
  }

  namespaced() { return this.kind.namespaced && !this.o.namespace; }

  draw(rows) {
    for (const r of rows) {
      this.rows.set(keyOf(r), r);
      this.body.append(this.row(r));
    }
    this.tell();
  }

  row(r) {
    const link = h('a', { href: objectLink(this.kind, r.namespace, r.name) }, r.name);
    const cells = r.cells.map((c, i) => {
      const column = this.columns[i] || {};
      const classes = [column.wide && 'more', tone(column.name, c)].filter(Boolean).join(' ');
      return i === 0 ? h('th', { scope: 'row' }, link) : h('td', { class: classes || undefined }, c);
    });
    return h('tr', { 'data-key': keyOf(r) }, this.namespaced() && h('td', null, r.namespace), cells);
  }

  tell() {
    const all = this.total === undefined ? `${count(this.seen)}+` : count(this.total);
    const found = count(this.rows.size) + (this.next && this.rows.size >= MOST ? '+' : '');
    this.at.counted.textContent = this.text ? `${found} of ${all}` : all;
    this.more.hidden = !this.next || !!this.text;
    const left = this.total === undefined ? '' : ` (${count(this.total - this.seen)} left)`;
    this.more.textContent = `Show more${left}`;
    if (this.text) say(`${found} found${this.next ? `, ${count(this.seen)} looked at` : ''}`);
    else say(`${count(this.rows.size)} of ${all} shown`);
  }

  async another() {
    const page = await this.page(this.search, this.ctx.signal);
    if (!page) return;
    const first = page.rows[0];
    this.take(page);
    this.draw(page.rows);
    if (first) this.body.querySelector(`[data-key="${CSS.escape(keyOf(first))}"] a`).focus();
  }

  // follow shows changes as they arrive. If the watch expires it lists again.
  follow(signal) {
    const live = (is) => { this.at.live.hidden = !is; };
    watch(this.kind, this.o, this.rv, signal, (type, row) => this.changed(type, row), live).catch((err) => {
      live(false);
      if (err.code === 410) this.find(this.text).catch(this.ctx.fail);
      else this.ctx.fail(err);
    });
  }

  changed(type, row) {
    const key = keyOf(row);
    const old = this.rows.get(key);
    feed.add(this.kind, type, row, old && differing(this.columns, old, row));
    const at = [...this.body.children].find((tr) => tr.dataset.key === key);
    if (type === 'DELETED') {
      if (at) at.remove();
      this.rows.delete(key);
      this.count(-1, !this.next || key <= this.last);
    } else if (at) {
      this.rows.set(key, row);
      morph(at, this.row(row));
      flash(at);
    } else {
      const beyond = this.next && key > this.last;
      if (type === 'ADDED') this.count(1, !beyond);
      if (beyond || !this.matches(row)) return this.tell();
      this.rows.set(key, row);
      const tr = this.row(row);
      this.body.insertBefore(tr, [...this.body.children].find((other) => other.dataset.key > key) || null);
      flash(tr);
    }
    this.tell();
  }

  // count updates the counters for an added or deleted object; here says that it is in the loaded part of the list.
  count(n, here) {
    if (this.total !== undefined) this.total += n;
    if (here) this.seen += n;
  }
}

// tone returns the class of a cell by its state: bad, warn or empty.
function tone(column, text) {
  if (column === 'Ready') {
    const [, ready, all] = /^(\d+)\/(\d+)$/.exec(text) || [];
    return +ready < +all || text === 'False' ? 'warn' : '';
  }
  if (!['Status', 'State', 'Phase', 'Reason', 'Type'].includes(column)) return '';
  if (/BackOff|Err|Fail|Evicted|OOMKilled|NotReady|Invalid|Lost|Degraded|^Unknown/.test(text)) return 'bad';
  return /Pending|Terminating|Creating|Warning|Unschedulable|SchedulingDisabled|^Init:/.test(text) ? 'warn' : '';
}

const keyOf = (row) => (row.namespace ? `${row.namespace}/${row.name}` : row.name);

function flash(e) {
  e.classList.remove('fresh');
  void e.offsetWidth; // restarts the animation
  e.classList.add('fresh');
}

// showOne shows one object.
export async function showOne(main, ctx, to) {
  const kind = to.kind;
  const path = pathOf(kind, to.namespace, to.name);
  const yaml = await text(path, ctx.signal, 'application/yaml').catch((err) => {
    if (err.code !== 406) throw err; // only metadata are mirrored
    return text(path, ctx.signal, 'application/yaml;as=PartialObjectMetadata;g=meta.k8s.io;v=v1');
  });
  const copy = h('button', { type: 'button', click: async () => {
    await navigator.clipboard.writeText(yaml);
    say('Copied');
  } }, 'Copy');
  main.append(h('p', { class: 'crumbs' }, h('a', { href: listLink(kind, {}) }, kindName(kind)), ' / ',
    to.namespace && [h('a', { href: listLink(kind, { ns: to.namespace }) }, to.namespace), ' / ']),
  h('h1', { tabindex: -1 }, to.name, ' ', copy), h('div', { class: 'yaml' }, folded(yaml)));
}

// folded returns the nodes of YAML, with managedFields collapsed.
function folded(yaml) {
  const lines = yaml.split('\n');
  const from = lines.indexOf('  managedFields:');
  if (from < 0) return [h('pre', { tabindex: 0 }, yaml)];
  let to = from + 1;
  while (to < lines.length && /^ {2}(- | )/.test(lines[to])) to++;
  return [
    h('pre', null, lines.slice(0, from).join('\n')),
    h('details', null, h('summary', null, `managedFields: ${plural(to - from - 1, 'line')}`),
      h('pre', null, lines.slice(from + 1, to).join('\n'))),
    h('pre', null, lines.slice(to).join('\n')),
  ];
}
