// Requests with the token of this tab.

export class ApiError extends Error {
  constructor(code, message) { super(message); this.code = code; }
}

export const token = {
  get: () => sessionStorage.getItem('token'),
  set: (t) => (t ? sessionStorage.setItem('token', t) : sessionStorage.removeItem('token')),
};

async function send(path, accept, signal) {
  const headers = { Accept: accept };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  let r;
  try {
    r = await fetch(path, { headers, signal, cache: 'no-store', credentials: 'omit', redirect: 'error' });
  } catch (err) {
    if (signal && signal.aborted) throw err;
    throw new ApiError(0, 'larder cannot be reached');
  }
  if (r.ok) return r;
  const text = await r.text();
  let message = text;
  try { message = JSON.parse(text).message || text; } catch { /* not JSON */ }
  throw new ApiError(r.status, message || r.statusText);
}

export async function json(path, signal, accept) {
  const r = await send(path, accept || 'application/json', signal);
  return Object.assign(await r.json(), { warnings: warnings(r) });
}

export async function text(path, signal, accept) { return (await send(path, accept, signal)).text(); }

function warnings(r) {
  const found = (r.headers.get('Warning') || '').matchAll(/299 - "((?:[^"\\]|\\.)*)"/g);
  return [...found].map((m) => m[1].replace(/\\(.)/g, '$1'));
}

const FORMS = { table: ['Table', 'Table'], metadata: ['PartialObjectMetadataList', 'PartialObjectMetadata'] };

// accept returns the Accept header for a list (one is 0), or for a watch or a single object (one is 1).
function accept(kind, one) {
  return `application/json;as=${FORMS[kind.metadata ? 'metadata' : 'table'][one]};v=v1;g=meta.k8s.io`;
}

// pathOf returns the URL path of a kind, or of one of its objects. A kind is {group, version, resource}, and may
// have the restrictions of a collection: {namespace, labelSelector, fieldSelector, metadata}.
export function pathOf(kind, namespace, name) {
  const parts = kind.group ? ['apis', kind.group, kind.version] : ['api', kind.version];
  if (namespace) parts.push('namespaces', namespace);
  parts.push(kind.resource);
  if (name) parts.push(name);
  return '/' + parts.map(encodeURIComponent).join('/');
}

function listPath(kind, o, more) {
  const q = new URLSearchParams(more);
  const labels = [kind.labelSelector, o.labels].filter(Boolean).join(',');
  if (labels) q.set('labelSelector', labels);
  if (kind.fieldSelector) q.set('fieldSelector', kind.fieldSelector);
  return `${pathOf(kind, o.namespace || kind.namespace)}?${q}`;
}

const rowOf = (meta, cells) => ({ namespace: meta.namespace || '', name: meta.name, rv: meta.resourceVersion, cells });

function rowsOf(answer) {
  if (answer.rows) return answer.rows.map((r) => rowOf(r.object.metadata, r.cells.map(cellText)));
  const metas = (answer.items || [answer]).map((i) => i.metadata);
  return metas.map((m) => rowOf(m, [m.name, m.creationTimestamp || '']));
}

const cellText = (c) => (c === null || c === undefined ? '' : typeof c === 'object' ? JSON.stringify(c) : String(c));

// list returns a page of a kind: {columns, rows, next, left, rv, warnings}. o is {namespace, labels, next, limit}.
export async function list(kind, o, signal) {
  const q = { limit: o.limit || 500 };
  if (o.next) q.continue = o.next;
  const answer = await json(listPath(kind, o, q), signal, accept(kind, 0));
  const meta = answer.metadata;
  const columns = answer.columnDefinitions || [{ name: 'Name' }, { name: 'Created' }];
  return {
    columns: columns.map((c) => ({ name: c.name, wide: c.priority > 0 })), rows: rowsOf(answer), next: meta.continue,
    left: meta.remainingItemCount, rv: meta.resourceVersion, warnings: answer.warnings,
  };
}

// watch calls changed(type, row) for each change after the resourceVersion rv, live(true) when it connects, and
// live(false) when it is disconnected. It ends with the signal, or with an error if a new list is needed.
export async function watch(kind, o, rv, signal, changed, live) {
  for (let wait = 1000; !signal.aborted; wait = Math.min(wait * 2, 30000)) {
    try {
      const path = listPath(kind, o, { watch: 1, resourceVersion: rv });
      const r = await send(path, accept(kind, 1), signal);
      live(true);
      for await (const line of lines(r.body)) {
        const event = JSON.parse(line);
        if (event.type === 'ERROR') throw new ApiError(event.object.code || 410, event.object.message);
        if (event.type === 'BOOKMARK') continue;
        wait = 1000;
        for (const row of rowsOf(event.object)) {
          rv = row.rv;
          changed(event.type, row);
        }
      }
    } catch (err) {
      if (signal.aborted) return;
      if (err.code >= 400 && err.code < 500 && err.code !== 429) throw err;
    }
    live(false);
    await new Promise((done) => setTimeout(done, wait));
  }
}

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split('\n');
    rest = parts.pop();
    for (const line of parts) if (line) yield line;
  }
}
