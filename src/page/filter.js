// filter.js - the filter box: completion from the terms of def/filter.def, and the filter in other languages. The relay
// parses filters; here a filter is only cut into its terms.

import { TERMS, STATUSES } from './terms.js';
import { h, fill, uid } from './dom.js';
import { session } from './client.js';

const FREE = /^[^\s"*?:]+$/;

/* The terms: [{text, name, value, quoted}]; a word without a colon is an id. Quotes are taken off the value. */
export function terms(filter) {
  const found = [];
  for (const [text] of filter.matchAll(/(?:[^\s":]*:)?(?:[~<>=]*"(?:\\.|[^"\\])*"?|[^\s"]*)+/g)) {
    if (!text) continue;
    const colon = text.indexOf(':');
    const raw = text.slice(colon + 1), quote = /^([~<>=]*)"((?:\\.|[^"\\])*)"?$/.exec(raw);
    found.push({ text, name: colon < 0 ? 'id' : text.slice(0, colon), quoted: Boolean(quote),
      value: quote ? quote[1] + quote[2].replace(/\\(.)/g, '$1') : raw });
  }
  return found;
}

export const term = (name, value) => `${name}:${FREE.test(value) ? value : '"' + value.replace(/["\\]/g, '\\$&') + '"'}`;

/* ---- the filter in other languages ---- */

export const shellQuote = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
export const asCli = (filter) => terms(filter).map((one) => shellQuote(one.text)).join(' ');
const sqlQuote = (text) => `'${text.replaceAll("'", "''")}'`;

function pattern(column, one, sqlite) {
  if (one.quoted || !/[*?]/.test(one.value)) return `${column} = ${sqlQuote(one.value)}`;
  if (sqlite) return `${column} GLOB ${sqlQuote(one.value.replaceAll('[', '[[]'))}`;
  return `${column} LIKE ${sqlQuote(one.value.replace(/[\\%_]/g, '\\$&').replaceAll('*', '%').replaceAll('?', '_'))}`;
}

const SECONDS = { s: 1, m: 60, h: 3600, d: 86400 };

function compared(column, one, sqlite) {
  const [, sign, value] = /^(>=|<=|>|<|)(.*)$/.exec(one.value);
  if (one.name !== 'age') return `${column} ${sign || '='} ${Number(value)}`;
  const seconds = [...value.matchAll(/(\d+)([smhd])/g)].reduce((sum, [, n, unit]) => sum + n * SECONDS[unit], 0);
  const turned = { '>': '<', '>=': '<=', '<': '>', '<=': '>=' }[sign];
  return sqlite ? `${column} ${turned} strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-${seconds} seconds')`
    : `${column} ${turned} now() - interval '${seconds} seconds'`;
}

const COLUMNS = { tenant: 'tenant_id', correlation: 'correlation_id', code: 'last_code', error: 'last_error', age: 'created_at' };

/* One condition, or null for what has no column. */
function condition(one, sqlite) {
  const kind = (TERMS.find((row) => row.name === one.name) || {}).kind, column = COLUMNS[one.name] || one.name;
  if (kind === 'PATTERN') return pattern(column, one, sqlite);
  if (kind === 'CONTAINS') return `${column} ${sqlite ? 'LIKE' : 'ILIKE'} ${sqlQuote('%' + one.value.replace(/^~/, '').replace(/[\\%_]/g, '\\$&') + '%')}${sqlite ? " ESCAPE '\\'" : ''}`;
  if (kind === 'COUNT' || kind === 'AGE') return compared(column, one, sqlite);
  if (kind === 'ID' && one.value.length < 36) return `${sqlite ? 'id' : 'id::text'} LIKE ${sqlQuote(one.value.replace(/[^0-9a-fA-F-]/g, '') + '%')}`;
  return ['STATUS', 'TEXT', 'UUID', 'ID'].includes(kind) ? `${column} = ${sqlQuote(one.value)}` : null;
}

export function asSql(filter) {
  const sqlite = session.me && session.me.store && session.me.store.kind === 'sqlite';
  const where = terms(filter).map((one) => condition(one, sqlite));
  if (where.includes(null)) return null;
  const from = sqlite ? 'outbox_messages' : 'outbox.messages';
  return `SELECT id, status, topic, key, attempts, last_code, last_error, created_at\n  FROM ${from}` +
    (where.length ? `\n WHERE ${where.join('\n   AND ')}` : '') + '\n ORDER BY id DESC LIMIT 100;';
}

/* ---- completion ---- */

/* What may stand where the caret is: [{text, what}], and where it begins. */
export function suggestions(text, caret) {
  const start = text.slice(0, caret).search(/\S*$/), word = text.slice(start, caret);
  const colon = word.indexOf(':');
  if (colon < 0) {
    const used = new Set(terms(text.slice(0, start)).map((one) => one.name));
    return { start, list: TERMS.filter((row) => row.name.startsWith(word) && (!used.has(row.name) || ['age', 'attempts'].includes(row.name)))
      .map((row) => ({ text: row.name + ':', what: row.what, example: row.example })) };
  }
  if (word.slice(0, colon) !== 'status') return { start, list: [] };
  return { start, list: STATUSES.filter((status) => status.startsWith(word.slice(colon + 1)))
    .map((status) => ({ text: 'status:' + status + ' ', what: '', example: '' })) };
}

/* The box: a combobox with its list. onsubmit(filter). */
export function filterBox(value, onsubmit) {
  const list = h('ul.options', { id: uid('options'), role: 'listbox', 'aria-label': 'Terms', hidden: true });
  const input = h('input.filter', { type: 'text', id: 'filter', role: 'combobox', 'aria-label': 'Filter', 'aria-expanded': 'false',
    'aria-controls': list.id, 'aria-autocomplete': 'list', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false',
    placeholder: 'status:dead topic:orders.* age:>1h', value });
  let offered = { start: 0, list: [] }, chosen = -1;

  const close = () => {
    list.hidden = true;
    chosen = -1;
    input.setAttribute('aria-expanded', 'false');
    input.removeAttribute('aria-activedescendant');
  };
  const take = (index) => {
    const rest = input.value.slice(input.selectionStart).replace(/^\S*/, ''), text = offered.list[index].text;
    input.value = input.value.slice(0, offered.start) + text + rest;
    input.setSelectionRange(offered.start + text.length, offered.start + text.length);
    open();
  };
  const choose = (index) => {
    chosen = index;
    [...list.children].forEach((item, i) => item.setAttribute('aria-selected', String(i === index)));
    if (index < 0) return;
    input.setAttribute('aria-activedescendant', list.children[index].id);
    list.children[index].scrollIntoView({ block: 'nearest' });
  };
  const open = () => {
    offered = suggestions(input.value, input.selectionStart);
    fill(list, offered.list.map((item, index) => h('li', { role: 'option', id: `${list.id}-${index}`, 'aria-selected': 'false',
      onmousedown: (event) => { event.preventDefault(); take(index); } },
    h('code', {}, item.text), ' ', h('span', {}, item.what), item.example && h('small', {}, item.example))));
    close();
    list.hidden = offered.list.length === 0;
    input.setAttribute('aria-expanded', String(!list.hidden));
  };

  input.addEventListener('input', open);
  input.addEventListener('focus', open);
  input.addEventListener('blur', close);
  input.addEventListener('keydown', (event) => {
    const count = list.hidden ? 0 : offered.list.length;
    if (event.key === 'ArrowDown' && count) choose((chosen + 1) % count);
    else if (event.key === 'ArrowUp' && count) choose((chosen + count - 1) % count);
    else if ((event.key === 'Enter' || event.key === 'Tab') && chosen >= 0) take(chosen);
    else if (event.key === 'Enter') { close(); return; } /* the form is submitted */
    else if (event.key === 'Escape' && count) close();
    else if (event.key === 'Escape') { input.blur(); return; }
    else return;
    event.preventDefault();
  });
  return h('form.filterbox', { role: 'search', onsubmit: (event) => { event.preventDefault(); onsubmit(input.value.trim()); } },
    h('div.combo', {}, input, list), h('button', { type: 'submit' }, 'Find'));
}
