// messages.js - the list: a filter, a page of what it finds, and acts on all of it or on the chosen ones.

import { h, fill, num, when, table, empty, badge, link, shortId } from './dom.js';
import { get } from './client.js';
import { filterBox } from './filter.js';
import { ACTS, askAct, actButton, copyAsButton, listWays, howMany, showProblem, readOnlyNote } from './acts.js';

export const title = 'Messages';

const PAGE = 50;
const QUICK = [['All', ''], ['Pending', 'status:pending'], ['Retrying', 'status:pending attempts:>0'], ['Processing', 'status:processing'],
  ['Dead', 'status:dead'], ['Delivered', 'status:delivered'], ['Old', 'status:pending age:>5m']];

export const messagesAt = (filter, after) => `#/messages?${new URLSearchParams({ filter, ...(after ? { after } : {}) })}`;

export const messageColumns = (pick) => [
  ...(pick ? [['choose', pick, 'pick']] : []),
  ['status', (m) => [badge(m.status), m.parked && h('small', {}, ' behind its key')]],
  ['id', (m) => link(`#/message/${m.id}`, h('code', {}, shortId(m.id)))],
  ['topic', (m) => [m.topic, m.namespace !== 'default' && h('small', {}, ' ', m.namespace)]], ['key', (m) => m.key || '–', 'mid'],
  ['attempts', (m) => `${num(m.attempts)} of ${num(m.max_attempts)}`, 'num'], ['enqueued', (m) => when(m.created_at)],
  ['next attempt', (m) => (m.status === 'pending' && !m.parked ? when(m.next_attempt_at) : '–')],
  ['last error', (m) => [m.last_code, m.last_error].filter(Boolean).join(': ') || '–', 'clip']];

export const messageRow = (m) => ({ tabindex: '-1', 'data-href': `#/message/${m.id}`, 'aria-label': `message ${m.id}` });

/* Acts that make sense for what the filter asks for. */
function actsFor(filter) {
  const status = (/status:(\w+)/.exec(filter) || [])[1];
  return { dead: ['retry', 'move', 'discard'], pending: ['retry', 'move', 'expire'], delivered: ['redeliver'], processing: [], discarded: [] }[status] ||
    ['retry', 'discard', 'redeliver', 'expire', 'move'];
}

async function showCount(node, filter, signal) {
  fill(node, 'counting …');
  try {
    const found = await get('count', { filter }, signal);
    fill(node, howMany(found));
  } catch (problem) {
    if (problem.name !== 'AbortError') fill(node, '');
  }
}

export async function show({ params, body, signal, guarded }) {
  const filter = params.get('filter') || '', after = params.get('after') || '';
  const count = h('span.count', { 'aria-live': 'polite' }), list = h('div', { 'aria-busy': 'true' }), chosen = new Set();
  const box = filterBox(filter, (text) => {
    if (location.hash === messagesAt(text)) guarded(load); else location.hash = messagesAt(text);
  });
  const pickNote = h('span.picked', { 'aria-live': 'polite' });
  const acts = h('div.acts', {});

  const drawActs = () => {
    const target = chosen.size ? { ids: [...chosen] } : { filter };
    fill(pickNote, chosen.size ? `${num(chosen.size)} chosen` : 'All that match:');
    fill(acts, pickNote, actsFor(filter).map((act) => actButton('operator', `${ACTS[act].label} …`, () => askAct(act, target, () => guarded(load)), ACTS[act].danger && 'danger')),
      copyAsButton(() => listWays(filter)), h('button.small', { type: 'button', onclick: () => guarded(load) }, 'Load again'));
  };
  const pick = (m) => h('input', { type: 'checkbox', 'aria-label': `Choose ${m.id}`, checked: chosen.has(m.id), onchange: (event) => {
    if (event.target.checked) chosen.add(m.id); else chosen.delete(m.id);
    drawActs();
  } });
  const load = async () => {
    let page;
    try {
      page = await get('messages', { filter, after, limit: PAGE }, signal);
    } catch (problem) {
      if (problem.name === 'AbortError' || problem.status === 401) throw problem;
      fill(count);
      return showProblem(list, problem);
    }
    showCount(count, filter, signal);
    fill(list, page.messages.length ? table('Messages, newest first', messageColumns(pick), page.messages, messageRow) :
      empty(filter ? 'No message matches.' : 'No message yet.'),
    page.note && h('p.note', {}, page.note),
    h('nav.pages', { 'aria-label': 'Pages' }, after && link(messagesAt(filter), '« Newest'), page.next && link(messagesAt(filter, page.next), 'Older »')));
    list.removeAttribute('aria-busy');
  };
  drawActs();
  fill(body, box, h('div.chips', {}, QUICK.map(([name, text]) => h('a', { href: messagesAt(text), 'aria-current': text === filter ? 'true' : undefined }, name)), count),
    readOnlyNote(), acts, list);
  if (params.get('focus')) box.querySelector('input').focus();
  await load();
  return load;
}
