// Addresses of the views, which are fragments of the page's address.

const seg = (s) => encodeURIComponent(s || '_');

export const kindName = (k) => (k.group ? `${k.resource}.${k.group}` : k.resource);

export function listLink(kind, o) {
  return viewLink(`objects/${seg(kind.group)}/${seg(kind.version)}/${seg(kind.resource)}`, o || {});
}

export function objectLink(kind, namespace, name) {
  return `#/object/${seg(kind.group)}/${seg(kind.version)}/${seg(kind.resource)}/${seg(namespace)}/${seg(name)}`;
}

// collectionLink returns the address of a collection's objects.
export function collectionLink(c) {
  return listLink(c, { ns: c.namespace, l: c.labelSelector, f: c.fieldSelector, m: c.metadata ? 1 : '' });
}

// viewLink returns the address of a view with query parameters. Empty values are omitted.
export function viewLink(view, o) {
  const q = new URLSearchParams(Object.entries(o).filter(([, v]) => v)).toString();
  return `#/${view}${q ? `?${q}` : ''}`;
}

// unescaped decodes a part of an address, and returns it unchanged if it is malformed.
export function unescaped(s) {
  try { return decodeURIComponent(s); } catch { return s; }
}

// parse parses a fragment to {view, kind, namespace, name, query}.
export function parse(hash) {
  const [path, search] = hash.replace(/^#\/?/, '').split('?');
  const parts = path.split('/').map((s) => (s === '_' ? '' : unescaped(s)));
  const [view, group, version, resource, namespace, name] = parts;
  const query = new URLSearchParams(search || '');
  return { view: view || 'state', kind: { group, version, resource }, namespace, name, query };
}
