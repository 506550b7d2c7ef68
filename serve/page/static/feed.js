// Changes received in this tab, newest first.

const KINDS = { ADDED: 'added', MODIFIED: 'changed', DELETED: 'removed' };

export const feed = {
  changes: [],
  most: 500,
  changed: () => {}, // set by the view that shows them

  add(kind, type, row, fields) {
    if (!KINDS[type]) return;
    const { group, version, resource } = kind;
    const id = `${resource}.${group}/${row.namespace}/${row.name}@${row.rv}`;
    if (feed.changes.some((c) => c.id === id)) return;
    let note;
    if (type === 'MODIFIED' && !fields) note = 'what it was before is not known';
    else if (type === 'MODIFIED' && !fields.length) note = 'none of its columns';
    feed.changes.unshift({
      id, time: new Date().toISOString(), kind: KINDS[type], group, version, resource,
      namespace: row.namespace, name: row.name, fields: type === 'MODIFIED' ? fields : undefined, note,
    });
    feed.changes.length = Math.min(feed.changes.length, feed.most);
    feed.changed();
  },
};

// differing returns the columns in which two rows differ, except ages.
export function differing(columns, old, now) {
  return columns.map((c, i) => ({ path: c.name, old: old.cells[i], new: now.cells[i] }))
    .filter((f) => f.old !== f.new && f.path !== 'Age');
}
