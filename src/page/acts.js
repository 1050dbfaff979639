// acts.js - what an operator does: a dialog that shows how many and which, asks why, then follows the job. Also the buttons
// that say why a viewer cannot press them.

import { h, fill, dialog, toast, num, plural, table, link, shortId, badge, code, copyButton } from './dom.js';
import { get, post, del, may, whyNot, session, Problem } from './client.js';
import { asCli, shellQuote, asSql } from './filter.js';

/* A button of an act. Without the role it stays reachable by keyboard and says why it does nothing. */
export function actButton(role, label, onclick, kind) {
  const allowed = may(role);
  return h('button.small' + (kind ? '.' + kind : ''), { type: 'button', 'aria-disabled': allowed ? undefined : 'true',
    title: allowed ? undefined : whyNot(role), onclick: () => (allowed ? onclick() : toast(whyNot(role), true)) }, label);
}

export const readOnlyNote = (role = 'operator') => !may(role) && h('p.note', {}, whyNot(role) + '.');

export const ACTS = {
  retry: { label: 'Retry', what: 'Dead letters become pending again with a new budget of attempts; what backs off is due now.' },
  redeliver: { label: 'Redeliver', what: 'Delivered messages are enqueued again, as new messages that name their origin. Receivers see them a second time.' },
  skip: { label: 'Skip', what: 'The message is not delivered, and the next one of its key goes on.', danger: true },
  move: { label: 'Move', what: 'The messages go to another topic, and by its route to another sink.' },
  expire: { label: 'Expire', what: 'No further attempt begins. The messages become dead letters.', danger: true },
  discard: { label: 'Discard', what: 'The messages will not be delivered. They stay on record as discarded.', danger: true },
};

/* Which acts make sense for a message in this status; the relay decides. */
export const ACTS_OF = {
  pending: ['retry', 'skip', 'move', 'expire', 'discard'],
  processing: [],
  dead: ['retry', 'move', 'skip', 'discard'],
  delivered: ['redeliver'],
  discarded: ['redeliver'],
};

/* ---- copy as ---- */

const origin = () => location.origin + location.pathname.replace(/[^/]*$/, '');
const CURL = 'curl -H "Authorization: Bearer $OUTBOX_TOKEN"';
const forStore = () => (session.store ? `store=${encodeURIComponent(session.store)}` : '');

export function curlGet(path, params) {
  const all = new URLSearchParams(Object.entries(params || {}).filter(([, value]) => value));
  const text = [String(all), forStore()].filter(Boolean).join('&');
  return `${CURL} ${shellQuote(`${origin()}api/v1/${path}${text ? '?' + text : ''}`)}`;
}

export function curlPost(path, body) {
  return `${CURL} -H 'Content-Type: application/json' \\\n  -d ${shellQuote(JSON.stringify(body))} ${shellQuote(`${origin()}api/v1/${path}${forStore() ? '?' + forStore() : ''}`)}`;
}

/* ways: [[name, text or null]] */
export function copyAs(ways) {
  const list = ways.filter(([, text]) => text).map(([name, text]) => h('div.copyas', {}, h('h3', {}, name), copyButton(text, `Copy ${name}`),
    h('pre', { tabindex: '0', 'aria-label': name }, text)));
  dialog('Copy as', h('div', {}, list, h('p.note', {}, 'The token is not in the text: put it into the variable OUTBOX_TOKEN.')));
}

export const copyAsButton = (ways) => h('button.small', { type: 'button', onclick: () => copyAs(ways()) }, 'Copy as …');

function actAsCli(act, target, fields) {
  const which = target.ids ? target.ids.join(' ') : asCli(target.filter || '');
  const parts = [`outbox ${act}`, which];
  if (act === 'move' && fields.topic) parts.push(`--to ${shellQuote(fields.topic)}`);
  if (fields.rate) parts.push(`--rate ${fields.rate}/s`);
  if (fields.limit) parts.push(`--limit ${fields.limit}`);
  if (fields.reason) parts.push(`--reason ${shellQuote(fields.reason)}`);
  return parts.filter(Boolean).join(' ');
}

/* ---- the dialog ---- */

export const sampleTable = (rows) => table('A sample of the messages', [
  ['id', (row) => link(`#/message/${row.id}`, code(shortId(row.id)))], ['status', (row) => badge(row.status)], ['topic', (row) => row.topic],
  ['last error', (row) => [row.last_code, row.last_error].filter(Boolean).join(': ') || '–', 'clip']], rows);

export const howMany = (found) => `${found.exact ? '' : 'at least '}${plural(found.count, 'message')}`;

function describe(target) {
  if (target.ids) return target.ids.length === 1 ? ['message ', code(target.ids[0])] : [plural(target.ids.length, 'chosen message')];
  return ['all messages that match ', code(target.filter || 'everything')];
}

/* target: {ids} or {filter}. ondone(job) when it has ended. */
export function askAct(act, target, ondone) {
  const { label, what, danger } = ACTS[act];
  const single = target.ids && target.ids.length === 1;
  const field = (name, text, props) => h('label.field', {}, text, h('input', { name, autocomplete: 'off', ...props }));
  const confirm = h('button' + (danger ? '.danger' : '.primary'), { type: 'submit' }, label);
  const count = h('div.count', { 'aria-live': 'polite' });
  const error = h('div', { role: 'alert' });
  const values = () => Object.fromEntries(new FormData(form));
  const body = (more) => {
    const { reason, rate, limit, topic } = values();
    const which = target.ids ? { ids: target.ids } : { filter: target.filter || '' };
    return { act, ...which, ...(topic ? { topic } : {}), ...(reason ? { reason } : {}), ...(rate ? { rate: Number(rate) } : {}),
      ...(limit ? { limit: Number(limit) } : {}), ...more };
  };
  const form = h('form', { method: 'dialog', onsubmit: async (event) => {
    event.preventDefault();
    confirm.disabled = true;
    try {
      follow(node, await post('acts', body()), ondone);
    } catch (problem) {
      showProblem(error, problem);
      confirm.disabled = false;
    }
  } },
  h('p', {}, `${label} `, describe(target), '. ', what), count,
  act === 'move' && field('topic', 'To the topic', { required: true }),
  field('reason', single ? 'Reason, for the record' : 'Reason, for the record (needed)', { required: !single, maxlength: 500 }),
  !single && h('div.pair', {}, field('rate', 'At most per second', { type: 'number', min: 1, placeholder: 'no limit' }),
    field('limit', 'At most this many', { type: 'number', min: 1, placeholder: 'all' })),
  error,
  h('footer', {}, h('button', { type: 'button', onclick: () => copyAs([['Command line', actAsCli(act, target, values())],
    ['curl', curlPost('acts', body())]]) }, 'Copy as …'), confirm));
  const node = dialog(`${label} ${single ? 'a message' : 'messages'}`, form);
  (form.querySelector('input') || confirm).focus();
  if (!single) preview(body({ dry_run: true }), label, count, confirm);
}

/* How many and which, before anything is done. */
async function preview(body, label, count, confirm) {
  fill(count, 'Counting …');
  if (body.act === 'move') body.topic = body.topic || '-';
  try {
    const found = await post('acts', body);
    fill(count, h('p', {}, h('b', {}, howMany(found)), found.count ? ', for example:' : '. Nothing to do.'),
      found.sample && found.sample.length ? sampleTable(found.sample) : null);
    confirm.textContent = `${label} ${howMany(found)}`;
    confirm.disabled = found.count === 0;
  } catch (problem) {
    showProblem(count, problem);
  }
}

export function showProblem(node, problem) {
  fill(node, h('div.problem', {}, h('strong', {}, problem.message), problem.next ? h('p', {}, problem.next) : null));
}

/* ---- jobs ---- */

export const jobText = (job) => {
  const parts = [`${num(job.done)} done`];
  if (job.refused) parts.push(`${num(job.refused)} refused`);
  if (job.left) parts.push(`${num(job.left)} left`);
  return parts.join(', ');
};

export function jobProgress(job) {
  const total = job.total === null || job.total === undefined ? undefined : Math.max(1, job.total);
  return h('progress', { max: total || 1, value: job.state === 'done' && !total ? 1 : total ? job.done + (job.refused || 0) : undefined,
    'aria-label': `${job.act}: ${jobText(job)}` });
}

export async function cancelJob(id) {
  try {
    await del(`jobs/${id}`);
    toast('Cancelled. What was done stays done.');
  } catch (problem) {
    toast(problem.message, true);
  }
}

const pause = (time) => new Promise((resolve) => { setTimeout(resolve, time); });

/* Shows a job until it has ended or the dialog is closed; the job goes on without it. */
async function follow(node, answer, ondone) {
  const body = h('div', { 'aria-live': 'polite' });
  node.querySelector('form').replaceWith(body);
  let job = typeof answer.job === 'object' ? answer.job : { id: answer.job || answer.id, state: 'running', done: 0, refused: 0, total: null, act: '' };
  for (let round = 0; ; round++) {
    try {
      job = await get(`jobs/${job.id}`);
    } catch (problem) {
      if (problem instanceof Problem && problem.status === 404 && round > 0) { job.state = 'done'; } else return showProblem(body, problem);
    }
    const running = job.state === 'running';
    fill(body, h('p', {}, badge(job.state), ' ', jobText(job)), jobProgress(job), job.error && h('div.problem', {}, job.error),
      h('footer', {}, running && h('button', { type: 'button', onclick: () => cancelJob(job.id) }, 'Cancel the job'),
        h('button.primary', { type: 'button', onclick: () => node.close() }, running ? 'Let it run' : 'Close')));
    if (!running || !node.isConnected) break;
    await pause(round < 5 ? 200 : 1000);
  }
  if (ondone) ondone(job);
}

/* A small dialog with some fields and one button. fields: [[name, label, props]]; send(values) does it. */
export function askForm(title, text, fields, button, send, danger) {
  const error = h('div', { role: 'alert' });
  const input = ([name, label, props = {}]) => h('label.field', {}, label,
    props.options ? h('select', { name }, props.options.map((option) => h('option', { value: option, selected: option === props.value }, option)))
      : h('input', { name, autocomplete: 'off', ...props }));
  const submit = h('button' + (danger ? '.danger' : '.primary'), { type: 'submit' }, button);
  const form = h('form', { method: 'dialog', onsubmit: async (event) => {
    event.preventDefault();
    submit.disabled = true;
    try {
      const values = Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ''));
      const shown = await send(values);
      if (shown instanceof Node) fill(form, shown); else node.close();
    } catch (problem) {
      showProblem(error, problem);
      submit.disabled = false;
    }
  } }, text && h('p', {}, text), fields.map(input), error, h('footer', {}, submit));
  const node = dialog(title, form);
  (form.querySelector('input, select') || submit).focus();
}

export const listWays = (filter) => [['Command line', `outbox list ${asCli(filter)}`.trim()], ['SQL', asSql(filter)],
  ['curl', curlGet('messages', { filter })]];
