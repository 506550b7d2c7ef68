// The page: signing in, the current view, and the keyboard.
import { h, say, note, base } from './dom.js';
import { json, token, ApiError } from './api.js';
import { parse, listLink, unescaped } from './links.js';
import * as state from './state.js';
import * as objects from './objects.js';
import * as changes from './changes.js';
import * as compare from './compare.js';

const VIEWS = {
  state: state.show, objects: objects.show, object: objects.showOne, changes: changes.show, compare: compare.show,
};
const main = document.getElementById('main');
const nav = document.getElementById('nav');
const signout = document.getElementById('signout');
let current = new AbortController(); // aborts when another view is opened
let status; // the last response of /larder/status; null without the right to it
let left = ''; // the address of the previous view

// takeToken removes a token from the address, where others could see it, and reloads the page with it.
function takeToken() {
  const found = /^#token=([^&]*)/.exec(location.hash);
  if (!found) return false;
  history.replaceState(history.state, '', `${location.pathname}#/`);
  use(unescaped(found[1]));
  return true;
}

// use reloads the page with a token, or without one. It clears all data of the previous user.
function use(t) {
  sessionStorage.clear();
  token.set(t);
  location.reload();
}

async function go() {
  current.abort();
  if (takeToken()) return;
  current = new AbortController();
  const { signal } = current;
  const to = parse(location.hash);
  const show = VIEWS[to.view] || VIEWS.state;
  say('');
  const ctx = { signal, status, refocus, fail: (err) => fail(err, signal) };
  try {
    if (!status || to.view === 'state') ctx.status = status = await load(signal);
    if (signal.aborted) return;
    head(to);
    main.replaceChildren();
    const shown = show(main, ctx, to);
    if (document.activeElement === document.body) focusOn(main.querySelector('h1'));
    await shown;
    if (document.activeElement === document.body) focusOn(main.querySelector('h1'));
  } catch (err) {
    fail(err, signal);
  } finally {
    if (!signal.aborted) left = location.hash;
  }
}

async function load(signal) {
  try {
    return await json('/larder/status', signal);
  } catch (err) {
    if (err.code === 403 || err.code === 404) return null;
    throw err;
  }
}

function head(to) {
  const name = to.name || to.kind.resource || to.view;
  document.title = `${name} · Larder`;
  document.getElementById('file').textContent = status ? `${status.of} ${base(status.file)}` : '';
  nav.hidden = false;
  signout.hidden = !token.get();
  nav.querySelector('[href="#/compare"]').hidden = !(status && status.compare);
  for (const a of nav.querySelectorAll('a')) {
    const { view } = parse(a.getAttribute('href'));
    if (view === to.view) a.setAttribute('aria-current', 'page');
    else if (view === 'state' && to.kind.resource) a.setAttribute('aria-current', 'true');
    else a.removeAttribute('aria-current');
  }
}

function fail(err, signal) {
  if (signal.aborted) return;
  if (err.code === 401) return signIn(token.get() ? 'That token is not known here.' : '');
  if (!(err instanceof ApiError)) console.error(err);
  main.append(note(err.code === 403 ? `You may not see this: ${err.message}` : err.message, 'bad'));
}

function signIn(why) {
  current.abort();
  token.set('');
  nav.hidden = signout.hidden = true;
  document.title = 'Sign in · Larder';
  const props = { id: 'token', type: 'password', autocomplete: 'off', required: true, 'aria-describedby': 'where' };
  const field = h('input', props);
  main.replaceChildren(h('form', { class: 'signin', submit: (e) => {
    e.preventDefault();
    use(field.value.trim());
  } }, h('h1', { tabindex: -1 }, 'Sign in'), why && note(why, 'bad'), h('label', { for: 'token' }, 'Token'), field,
  h('p', { id: 'where', class: 'detail' }, 'It is in the kubeconfig that larder has written, under users. A token of '
    + 'the cluster works as well, with its rights. It stays in this tab.'),
  h('button', { type: 'submit' }, 'Sign in')));
  field.focus();
}

function focusOn(e) { if (e) e.focus({ preventScroll: true }); }

// refocus focuses the link to the previous view.
function refocus() {
  const link = [...main.querySelectorAll('a')].find((a) => a.getAttribute('href') === left);
  if (link) link.focus();
}

function back(to) {
  if (history.state && history.state.depth > 0) history.back();
  else location.hash = to.view === 'object' ? listLink(to.kind, { ns: to.namespace }) : '#/';
}

function keys(e) {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const typing = e.target.matches('input:not([type=checkbox]), select, textarea');
  if (e.key === '/' && !typing) {
    const search = document.getElementById('search');
    if (search) { e.preventDefault(); search.focus(); search.select(); }
  } else if (e.key === 'Escape' && typing) {
    if (e.target.value && e.target.type === 'search') {
      e.target.value = '';
      e.target.dispatchEvent(new Event('input'));
    } else focusOn(main.querySelector('h1'));
    e.preventDefault();
  } else if (e.key === 'Escape') back(parse(location.hash));
  else if (e.key === 'ArrowDown' || e.key === 'ArrowUp') move(e);
}

// move focuses the next or the previous row. It starts at a row, or above the first one.
function move(e) {
  const links = [...main.querySelectorAll('table.list tbody th a, ol.changes summary')];
  const at = links.indexOf(document.activeElement);
  const inside = at >= 0 || e.target.id === 'search' || e.target.tagName === 'H1' || e.target === document.body;
  const to = links[at + (e.key === 'ArrowDown' ? 1 : -1)];
  if (!inside || !to || at < 0 && e.key === 'ArrowUp') return;
  e.preventDefault();
  to.focus();
}

let depth = (history.state && history.state.depth) || 0;
window.addEventListener('hashchange', () => {
  if (!history.state) history.replaceState({ depth: depth + 1 }, '');
  depth = history.state.depth;
  go();
});
document.addEventListener('keydown', keys);
document.getElementById('skip').addEventListener('click', () => main.focus());
signout.addEventListener('click', () => use(''));
go();
