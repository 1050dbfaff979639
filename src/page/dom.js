// dom.js - elements, texts of times and numbers. Whatever comes from a message becomes text here and never markup:
// no other file makes elements in another way.

/* h('td.num', {title: 'x', onclick: f}, child, ...): children are elements, texts, numbers, lists of those, or nothing. */
export function h(name, props, ...children) {
  const [tag, ...classes] = name.split('.');
  const node = document.createElement(tag || 'div');
  if (classes.length) node.className = classes.join(' ');
  set(node, props);
  append(node, children);
  return node;
}

export function svg(name, props, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', name);
  set(node, props);
  append(node, children);
  return node;
}

function set(node, props) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'value' || name === 'checked' || name === 'selected') node[name] = value;
    else node.setAttribute(name, value === true ? '' : value);
  }
}

function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
}

/* Puts new children in place of the old ones. */
export function fill(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

/* The same for what is drawn again by itself: focus and opened details stay where they are, and what is being selected stays as it is. */
export function refill(node, ...children) {
  const selection = getSelection();
  if (selection && !selection.isCollapsed && node.contains(selection.anchorNode)) return;
  const all = () => [...node.querySelectorAll('a, button, input, summary, [tabindex]')], details = () => [...node.querySelectorAll('details')];
  const at = all().indexOf(document.activeElement), opened = details().map((one) => one.open);
  fill(node, ...children);
  details().forEach((one, index) => { one.open = Boolean(opened[index]); });
  if (at >= 0 && all()[at]) all()[at].focus({ preventScroll: true });
}

let unique = 0;
export const uid = (prefix) => `${prefix}-${++unique}`;

/* ---- numbers and times ---- */

export const num = (value) => (value === null || value === undefined ? '–' : Number(value).toLocaleString('en-US'));

export const plural = (count, one, many) => `${num(count)} ${count === 1 ? one : many || one + 's'}`;

export function short(value) {
  if (value === null || value === undefined) return '–';
  const n = Number(value);
  for (const [unit, size] of [['G', 1e9], ['M', 1e6], ['k', 1e4]])
    if (n >= size) return `${(n / (unit === 'k' ? 1e3 : size)).toFixed(n >= size * 10 ? 0 : 1)} ${unit}`;
  return n >= 100 || Number.isInteger(n) ? num(Math.round(n)) : n.toFixed(1);
}

/* 0.4 s, 12 s, 3 min, 2 h 5 min, 3 d 4 h */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  const s = Math.max(0, Number(seconds));
  if (s < 10) return `${Number.isInteger(s) || s < 0.05 ? Math.round(s) : s.toFixed(1)} s`;
  if (s < 90) return `${Math.round(s)} s`;
  const two = (big, bigUnit, small, smallUnit) => (small ? `${big} ${bigUnit} ${small} ${smallUnit}` : `${big} ${bigUnit}`);
  if (s < 3600) return `${Math.round(s / 60)} min`;
  if (s < 86400) return two(Math.floor(s / 3600), 'h', Math.floor((s % 3600) / 60), 'min');
  return two(Math.floor(s / 86400), 'd', Math.floor((s % 86400) / 3600), 'h');
}

export function ms(value) {
  if (value === null || value === undefined) return '–';
  if (value < 10) return `${Number(value).toFixed(1)} ms`;
  return value < 10000 ? `${Math.round(value)} ms` : span(value / 1000);
}

const pad = (n) => String(n).padStart(2, '0');
export const clock = (date) => `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
export const minute = (date) => `${pad(date.getHours())}:${pad(date.getMinutes())}`;

/* "12 s ago" with the full time as its title: a <time>. */
export function when(text) {
  if (!text) return '–';
  const date = new Date(text), past = (Date.now() - date) / 1000;
  const whole = Math.abs(past) < 10 ? Math.round(past) : past;
  const words = past >= 0 ? `${span(whole)} ago` : `in ${span(-whole)}`;
  return h('time', { datetime: text, title: `${date.toLocaleString()} (${text})` }, Math.abs(past) < 1 ? 'now' : words);
}

/* "for 12 min" */
export const lasting = (text) => h('time', { datetime: text, title: `since ${new Date(text).toLocaleString()}` }, `for ${span((Date.now() - new Date(text)) / 1000)}`);

/* "14:03:22.120" today, with the date otherwise. */
export function exactly(text) {
  if (!text) return '–';
  const date = new Date(text), today = date.toDateString() === new Date().toDateString();
  const shown = `${clock(date)}.${String(date.getMilliseconds()).padStart(3, '0')}`;
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} `;
  return h('time', { datetime: text, title: text }, (today ? '' : day) + shown);
}

/* ---- pieces that several screens have ---- */

const SIGNS = { delivered: '✓', done: '✓', closed: '✓', pending: '…', processing: '▸', running: '▸', half_open: '◐', dead: '✕', failed: '✕',
  open: '✕', discarded: '–', cancelled: '–', retry: '↻', limited: '◷', blocked: '■', paused: '‖', viewer: '○', operator: '◐', admin: '●' };

/* A state is a word and a sign, never a color alone. */
export const badge = (word, text) => h(`span.badge.is-${String(word).replace(/[^a-z_]/g, '')}`, {},
  h('span', { 'aria-hidden': 'true' }, SIGNS[word] || '·'), ' ', text || String(word).replace('_', ' '));

export const panel = (title, ...content) => {
  const id = uid('panel');
  return h('section.panel', { 'aria-labelledby': id }, h('h2', { id }, title), ...content);
};

export const empty = (text) => h('p.empty', {}, text);

/* A table that can be scrolled sideways by keyboard too, and turns into cards on a phone. Columns: [title, cell(row), class]. */
export function table(caption, columns, rows, rowProps) {
  const head = h('tr', {}, columns.map(([title, , kind]) => h('th' + (kind ? '.' + kind : ''), { scope: 'col' },
    title || h('span.hidden', {}, 'Acts'))));
  const body = rows.map((row, index) => h('tr', rowProps ? rowProps(row, index) : {},
    columns.map(([title, cell, kind]) => {
      const content = h('div', {}, cell(row)), nothing = content.textContent === '–' ? '.none' : '';
      return h('td' + (kind ? '.' + kind : '') + nothing, { 'data-title': title }, content);
    })));
  return h('div.scroll', { tabindex: '0', role: 'region', 'aria-label': `${caption}: table` },
    h('table', {}, h('caption.hidden', {}, caption), h('thead', {}, head), h('tbody', {}, body)));
}

export const link = (href, ...text) => h('a', { href }, ...text);
export const code = (text) => h('code', {}, text);
export const shortId = (id) => `${id.slice(0, 8)}…${id.slice(-4)}`;

/* ---- messages to the user ---- */

export function toast(text, bad) {
  const node = h('p.toast' + (bad ? '.bad' : ''), {}, text);
  document.getElementById('toasts').append(node);
  setTimeout(() => node.remove(), bad ? 9000 : 5000);
}

/* The clipboard exists on https and localhost only; elsewhere the old way works. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h('textarea.offscreen', { 'aria-hidden': 'true', value: text });
    (document.querySelector('dialog[open]') || document.body).append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    if (!done) return toast('The browser does not allow copying here. Select the text instead.', true);
  }
  toast('Copied.');
}

export const copyButton = (text, label) => h('button.small', { type: 'button', onclick: () => copy(text),
  'aria-label': label || 'Copy' }, 'Copy');

/* A dialog that gives the focus back when it closes. */
export function dialog(title, content, onclose) {
  const id = uid('dialog'), before = document.activeElement;
  const node = h('dialog', { 'aria-labelledby': id },
    h('header', {}, h('h2', { id }, title),
      h('button.plain', { type: 'button', 'aria-label': 'Close', onclick: () => node.close() }, '✕')),
    content);
  node.addEventListener('close', () => {
    node.remove();
    if (onclose) onclose();
    if (before && before.isConnected) before.focus();
  });
  document.body.append(node);
  node.showModal();
  return node;
}
