// app.js - the shell: login, navigation, theme, keys, and which screen the address names.

import { h, fill, dialog, toast, badge } from './dom.js';
import { get, session, takeTokenFromHash, token, setToken, forgetToken, may, Problem } from './client.js';
import { showProblem } from './acts.js';
import { live } from './live.js';
import * as overview from './overview.js';
import * as messages from './messages.js';
import * as message from './message.js';
import * as failures from './failures.js';
import * as keys from './keys.js';
import * as sinks from './sinks.js';
import * as jobs from './jobs.js';
import * as tokens from './tokens.js';

/* name in the address: module with title and show(place) */
const SCREENS = { overview, messages, message, failures, keys, sinks, jobs, tokens };
const MENU = ['overview', 'messages', 'failures', 'keys', 'sinks', 'jobs', 'tokens'];

/* A tenant's token reaches that tenant's messages, and nothing that all tenants share. */
const SHARED = ['overview', 'failures', 'keys', 'sinks', 'tokens'];
const menu = () => MENU.filter((name) => (session.me.tenant ? !SHARED.includes(name) : name !== 'tokens' || may('admin')));

/* ---- the address: #/messages?filter=status%3Adead, #/message/ID ---- */

function route() {
  const [path, search] = location.hash.replace(/^#\/?/, '').split('?');
  const [name, ...rest] = path.split('/');
  return { name: SCREENS[name] ? name : menu()[0], rest: rest.map(decodeURIComponent), params: new URLSearchParams(search || '') };
}

/* ---- the shell ---- */

const main = h('main', { id: 'main', tabindex: '-1' });
let current = null;

function shell() {
  const { me } = session;
  const links = menu().map((name, index) =>
    h('a', { href: `#/${name}`, 'data-screen': name, title: `Key: ${index + 1}` }, SCREENS[name].title));
  const stores = (me.stores || []).length > 1 && h('label.store', {}, 'Store ', h('select', { onchange: (event) => {
    session.store = event.target.value;
    live.restart();
    show(true);
  } }, me.stores.map((name) => h('option', { value: name, selected: name === (session.store || me.store.name) }, name))));
  return [h('header.top', {},
    h('a.brand', { href: `#/${menu()[0]}` }, h('img', { src: 'icon.svg', alt: '', width: 22, height: 22 }), 'Outbox'),
    h('nav', { 'aria-label': 'Screens' }, links),
    h('div.who', {}, live.indicator, stores,
      h('span.me', { title: `${me.tenant ? `tenant ${me.tenant}, ` : ''}version ${me.version}` }, badge(me.role, `${me.name} · ${me.role}`)),
      h('button.plain', { type: 'button', onclick: switchTheme, 'aria-label': 'Switch between dark and light' }, '◑'),
      h('button.plain', { type: 'button', onclick: help, 'aria-label': 'Keys and help' }, '?'),
      h('button.plain', { type: 'button', onclick: logout }, 'Log out'))),
  main];
}

async function show(keepFocus) {
  const place = route(), screen = SCREENS[place.name];
  if (current && current.leave) current.leave();
  document.title = `${screen.title} – Outbox`;
  for (const item of document.querySelectorAll('nav a')) {
    if (item.dataset.screen === (place.name === 'message' ? 'messages' : place.name)) item.setAttribute('aria-current', 'page');
    else item.removeAttribute('aria-current');
  }
  const control = new AbortController(), body = h('div.screen', {});
  current = { place, refresh: null, leave: () => control.abort() };
  const mine = current;
  main.dataset.at = location.hash;
  main.setAttribute('aria-busy', 'true');
  fill(main, h('h1', {}, screen.title), body);
  if (!keepFocus) { main.focus({ preventScroll: true }); window.scrollTo(0, 0); }
  await guarded(body, async () => {
    mine.refresh = (await screen.show({ ...place, body, main, signal: control.signal, guarded: (work) => guarded(body, work) })) || null;
  });
  if (mine === current) main.removeAttribute('aria-busy');
}

/* Runs something that asks the relay; what goes wrong is shown where the screen is. */
async function guarded(body, work) {
  try {
    await work();
  } catch (problem) {
    if (problem.name === 'AbortError') return;
    if (problem instanceof Problem && problem.status === 401) return login(problem);
    if (!(problem instanceof Problem)) console.error(problem);
    if (body.childElementCount) toast(problem.message, true); else showProblem(body, problem);
  }
}

/* ---- login ---- */

function login(problem) {
  live.stop();
  const error = h('div', { role: 'alert' });
  const had = Boolean(token());
  forgetToken();
  const input = h('input', { id: 'token', type: 'password', name: 'token', autocomplete: 'off', spellcheck: 'false', required: true, placeholder: 'obx_…' });
  const form = h('form.login', { onsubmit: async (event) => {
    event.preventDefault();
    setToken(input.value.trim());
    await start();
  } },
  h('img', { src: 'icon.svg', alt: '', width: 40, height: 40 }), h('h1', {}, 'Outbox'),
  h('label.field', { for: 'token' }, 'Token', input), h('button.primary', { type: 'submit' }, 'Log in'), error,
  h('p.note', {}, 'A token is made on the command line: ', h('code', {}, 'outbox token create NAME --role viewer'),
    '. The browser keeps it for this tab only.'));
  if (problem && had) showProblem(error, problem);
  fill(document.getElementById('app'), h('main.narrow', { id: 'main', tabindex: '-1' }, form));
  document.title = 'Log in – Outbox';
  input.focus();
}

function logout() {
  forgetToken();
  login();
}

/* Without a token too: `outbox dev` needs none. */
async function start() {
  const app = document.getElementById('app');
  try {
    session.me = await get('me');
  } catch (problem) {
    if (problem.status === 401 || problem.status === 403) return login(problem);
    const box = h('div', {});
    showProblem(box, problem);
    return fill(app, h('main.narrow', { id: 'main', tabindex: '-1' }, h('h1', {}, 'Outbox'), box,
      h('button.primary', { type: 'button', onclick: start }, 'Try again')));
  }
  fill(app, shell());
  live.start();
  await show(true);
}

/* ---- theme ---- */

function switchTheme() {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === 'dark'
    : matchMedia('(prefers-color-scheme: dark)').matches;
  document.documentElement.dataset.theme = dark ? 'light' : 'dark';
  localStorage.setItem('outbox.theme', document.documentElement.dataset.theme);
}

/* ---- keys ---- */

const KEYS = [['/', 'to the filter'], ['j, k', 'next, previous row'], ['Enter', 'open the row'], ['1 … 7', 'the screens'], ['r', 'load again'],
  ['t', 'dark or light'], ['?', 'this help'], ['Esc', 'close, leave a field']];

function help() {
  const off = h('input', { type: 'checkbox', checked: localStorage.getItem('outbox.keys') !== 'off',
    onchange: () => localStorage.setItem('outbox.keys', off.checked ? 'on' : 'off') });
  dialog('Keys', h('div', {}, h('dl.keys', {}, KEYS.map(([key, what]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, what)])),
    h('label', {}, off, ' Keys are on'),
    h('p.note', {}, 'A view can be linked: its address has the screen and the filter, and no token.')));
}

function moveRow(step) {
  const rows = [...main.querySelectorAll('tr[data-href]')];
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement.closest('tr[data-href]'));
  const next = rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step))];
  next.focus();
  next.scrollIntoView({ block: 'nearest' });
}

function toFilter() {
  const input = document.getElementById('filter');
  if (input) input.select(); else location.hash = '#/messages?focus=1';
}

function onKey(event) {
  if (!session.me || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  if (localStorage.getItem('outbox.keys') === 'off' || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const row = event.target.closest && event.target.matches('tr[data-href]') && event.target;
  const acts = { '/': toFilter, j: () => moveRow(1), k: () => moveRow(-1), '?': help, t: switchTheme,
    r: () => current && guarded(current.place ? main.querySelector('.screen') : main, async () => current.refresh && current.refresh()) };
  const link = document.querySelectorAll('nav a')[Number(event.key) - 1];
  if (event.key === 'Enter' && row) location.hash = row.dataset.href;
  else if (acts[event.key]) acts[event.key]();
  else if (/^[1-9]$/.test(event.key) && link) link.click();
  else return;
  event.preventDefault();
}

/* ---- begin ---- */

const theme = localStorage.getItem('outbox.theme');
if (theme) document.documentElement.dataset.theme = theme;
takeTokenFromHash();
addEventListener('hashchange', () => {
  if (location.hash === '#main') return;
  const before = token();
  takeTokenFromHash();
  if (token() !== before || !session.me) start(); else show();
});
document.addEventListener('keydown', onKey);
document.addEventListener('click', (event) => {
  const row = event.target.closest('tr[data-href]');
  if (row && !event.target.closest('a, button, input, label') && !String(getSelection())) location.hash = row.dataset.href;
});
start();
