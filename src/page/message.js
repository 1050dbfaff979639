// message.js - one message: why it is where it is, what it says, what was tried, what is around it, what can be done.

import { h, fill, num, ms, when, exactly, panel, table, empty, badge, link, code, copy, copyButton, uid } from './dom.js';
import { get, getText, parse, parseExactly, session } from './client.js';
import { ACTS, ACTS_OF, askAct, actButton, copyAsButton, curlGet, readOnlyNote } from './acts.js';
import { term } from './filter.js';
import { messageColumns, messageRow, messagesAt } from './messages.js';

export const title = 'Message';

/* ---- explain ---- */

const GOOD = ['delivered', 'due', 'leased'];

const fact = ([name, value]) => [h('dt', {}, name.replaceAll('_', ' ')),
  h('dd', {}, value === null ? '–' : typeof value === 'object' ? JSON.stringify(value) : /^\d{4}-\d\d-\d\dT/.test(value) ? when(value) : String(value))];

function answer(one, index, id) {
  return h(`li.${GOOD.includes(one.state) ? 'good' : index ? 'warn' : 'bad'}`, {}, h('div', {},
    index > 0 && one.step > 1 && h('small', {}, 'and the message it waits for, ', link(`#/message/${one.message_id}`, one.message_id)),
    h('strong', {}, h('span.state', {}, one.state.replaceAll('_', ' ')), ' ', one.reason),
    one.message_id !== id && index === 0 && link(`#/message/${one.message_id}`, one.message_id),
    one.command && h('span.command', {}, h('code', {}, one.command), copyButton(one.command, 'Copy the command')),
    one.facts && Object.keys(one.facts).length > 0 && h('details', {}, h('summary', {}, 'Facts'), h('dl.facts', {}, Object.entries(one.facts).map(fact)))));
}

const explained = (explain, id) => h('ul.troubles.explain', { 'aria-label': 'Why it is not delivered yet' }, explain.answers.map((one, index) => answer(one, index, id)));

/* ---- payload ---- */

function bytesOf(text) {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

function hex(bytes) {
  const lines = [];
  for (let at = 0; at < Math.min(bytes.length, 65536); at += 16) {
    const row = [...bytes.slice(at, at + 16)];
    lines.push(`${at.toString(16).padStart(8, '0')}  ${row.map((byte) => byte.toString(16).padStart(2, '0')).join(' ').padEnd(47)}  ` +
      row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : '.')).join(''));
  }
  if (bytes.length > 65536) lines.push(`… ${num(bytes.length - 65536)} bytes more`);
  return lines.join('\n');
}

/* {pretty, raw, hex}: the ways to show it that there are. */
function forms(message, exact) {
  if (message.payload_base64 !== undefined && message.payload_base64 !== null) {
    const bytes = bytesOf(message.payload_base64);
    return { raw: new TextDecoder().decode(bytes), hex: hex(bytes) };
  }
  const raw = JSON.stringify(exact.message.payload);
  if (raw === undefined) return {};
  return { pretty: JSON.stringify(exact.message.payload, null, 2), raw, hex: hex(new TextEncoder().encode(raw)) };
}

function payload(message, exact) {
  const ways = forms(message, exact), names = Object.keys(ways);
  if (!names.length) return empty('The payload is not shown.');
  const id = uid('payload'), shown = h('pre.payload', { id, tabindex: '0', 'aria-label': 'Payload' }, ways[names[0]]);
  const tabs = names.map((name, index) => h('button.small', { type: 'button', 'aria-pressed': String(index === 0), 'aria-controls': id, onclick: (event) => {
    shown.textContent = ways[name];
    tabs.forEach((tab) => tab.setAttribute('aria-pressed', String(tab === event.currentTarget)));
  } }, name));
  return h('div', {}, h('div.acts', {}, tabs, h('button.small', { type: 'button', onclick: () => copy(shown.textContent) }, 'Copy')),
    message.payload_fault && h('p.note', {}, message.payload_fault), shown);
}

/* ---- facts, headers, attempts ---- */

function details(m) {
  const filtered = (name, value) => value && link(messagesAt(term(name, value)), value);
  const rows = [['topic', [filtered('topic', m.topic), m.namespace !== 'default' && ` (${m.namespace})`]], ['key', m.key && [filtered('key', m.key), ` number ${m.seq}`]],
    ['tenant', filtered('tenant', m.tenant_id)], ['subject', filtered('subject', m.subject)], ['recipient', filtered('recipient', m.recipient)],
    ['correlation id', filtered('correlation', m.correlation_id)], ['dedupe key', m.dedupe_key], ['enqueued', [exactly(m.created_at), ' (', when(m.created_at), ')']],
    ['next attempt', m.next_attempt_at && [exactly(m.next_attempt_at), ' (', when(m.next_attempt_at), ')']], ['delivered', m.delivered_at && exactly(m.delivered_at)],
    ['expires', m.expires_at && exactly(m.expires_at)], ['attempts', `${num(m.attempts)}, of which ${num(m.spent)} count; at most ${num(m.max_attempts)} (set by the ${m.max_attempts_from})`],
    ['priority', m.priority === 4 ? null : num(m.priority)], ['held by', m.locked_by && [m.locked_by, ' until ', exactly(m.locked_until)]],
    ['dead because', m.dead_reason && { attempts: 'all attempts are spent', terminal: 'the sink rejected it for good', expired: 'it expired', skipped: 'an operator skipped it' }[m.dead_reason]],
    ['last error', (m.last_code || m.last_error) && [m.last_code, m.last_code && ': ', m.last_error]], ['content type', m.content_type]];
  return h('dl.facts', {}, rows.filter(([, value]) => value).map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));
}

const headers = (m) => (m.headers && Object.keys(m.headers).length ? h('dl.facts', {}, Object.entries(m.headers).map(([name, value]) =>
  [h('dt', {}, name), h('dd', {}, typeof value === 'string' ? value : JSON.stringify(value))])) : empty('No headers.'));

/* Attempts and acts in one line of time, newest first. */
function timeline(shown) {
  const events = [...shown.attempts.map((one) => ({ at: one.claimed_at, attempt: one })), ...shown.acts.map((one) => ({ at: one.at, act: one }))]
    .sort((a, b) => (a.at < b.at ? 1 : -1));
  const line = ({ at, attempt, act }) => (attempt ? h(`li.is-${attempt.outcome}`, {}, exactly(at), badge(attempt.outcome), h('span', {}, `attempt ${attempt.attempt_no}`,
    attempt.latency_ms !== null && `, ${ms(attempt.latency_ms)}`, h('small', {}, ' by ', attempt.worker)),
  (attempt.code || attempt.error) && h('p.error', {}, [attempt.code, attempt.error].filter(Boolean).join(': ')), attempt.reference && h('p', {}, 'receiver\'s id: ', code(attempt.reference)))
    : h('li.act', {}, exactly(at), badge('operator', act.action), h('span', {}, 'by ', h('b', {}, act.actor), act.reason ? `: ${act.reason}` : '')));
  return h('ol.timeline', {}, events.map(line), h('li', {}, exactly(shown.message.created_at), badge('pending', 'enqueued')));
}

const commands = (id) => [['Command line', `outbox explain ${id}\noutbox show ${id}`],
  ['SQL', session.me.store && session.me.store.kind === 'sqlite' ? `SELECT * FROM outbox_messages WHERE id = '${id}';`
    : `SELECT * FROM outbox.explain('${id}');\nSELECT * FROM outbox.messages WHERE id = '${id}';`], ['curl', `${curlGet(`messages/${id}`)}\n${curlGet(`messages/${id}/explain`)}`]];

export async function show({ rest: [id], body, signal, guarded }) {
  const load = async () => {
    const at = `messages/${encodeURIComponent(id)}`;
    const [text, explain, around] = await Promise.all([getText(at, {}, signal), get(`${at}/explain`, {}, signal),
      get(`${at}/neighbours`, {}, signal).catch((problem) => { if (problem.name === 'AbortError') throw problem; return { messages: [] }; })]);
    const shown = parse(text), m = shown.message;
    const near = around.messages.filter((other) => other.key !== null);
    const acts = (ACTS_OF[m.status] || []).filter((act) => act !== 'skip' || m.key);
    fill(body, h('div.title', {}, badge(m.status), code(m.id), copyButton(m.id, 'Copy the id')),
      explained(explain, m.id), readOnlyNote(),
      h('div.acts', {}, acts.map((act) => actButton('operator', `${ACTS[act].label} …`, () => askAct(act, { ids: [m.id] }, () => guarded(load)), ACTS[act].danger && 'danger')),
        copyAsButton(() => commands(m.id)), h('button.small', { type: 'button', onclick: () => guarded(load) }, 'Load again')),
      h('div.columns', {}, h('div', {}, panel('Payload', payload(m, parseExactly(text))), panel('Headers', headers(m))),
        h('div', {}, panel('Timeline', timeline(shown)), panel('Details', details(m)))),
      m.key && panel('Around it in its key', near.length ? table('Messages of the same key, oldest first', messageColumns(), near,
        (row) => ({ ...messageRow(row), 'aria-current': row.id === m.id ? 'true' : undefined })) : empty('No other message of this key.')));
  };
  await load();
  return load;
}
