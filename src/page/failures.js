// failures.js - errors grouped by what they have in common: which one, how many, since when; retry or discard a group.

import { h, fill, num, short, when, empty, badge, link, panel } from './dom.js';
import { get } from './client.js';
import { TERMS } from './terms.js';
import { askAct, actButton, readOnlyNote, copyAsButton, curlGet } from './acts.js';
import { term } from './filter.js';
import { messagesAt } from './messages.js';

export const title = 'Failures';

/* The messages of a group: by its fingerprint where filters know that, else by its code. */
function filterOf(group) {
  const name = ['group', 'fingerprint'].find((word) => TERMS.some((row) => row.name === word));
  if (name) return `${name}:${group.fingerprint}`;
  return group.code ? term('code', group.code) : `error:~${term('', group.sample.slice(0, 40)).slice(1)}`;
}

function card(group, again) {
  const target = { fingerprint: String(group.fingerprint), label: [group.code, group.sample].filter(Boolean).join(': ').slice(0, 80) };
  return h('li.group', {}, h('div.figure', {}, h('b', {}, short(group.count)), h('small', {}, 'failures')), h('div', {},
    h('h3', {}, group.code && h('code', {}, group.code), ' ', group.sample),
    h('p', {}, group.dead ? badge('dead', `${num(group.dead)} dead`) : null, ' ', group.retrying ? badge('retry', `${num(group.retrying)} retrying`) : null,
      h('small', {}, ' first ', when(group.first_seen), ', last ', when(group.last_seen), (group.sinks || []).length > 0 && ` · sinks ${group.sinks.join(', ')}`,
        (group.topics || []).length > 0 && ` · topics ${group.topics.slice(0, 5).join(', ')}${group.topics.length > 5 ? ' …' : ''}`)),
    h('div.acts', {}, link(messagesAt(filterOf(group)), 'Messages'), actButton('operator', 'Retry …', () => askAct('retry', target, again)),
      actButton('operator', 'Discard …', () => askAct('discard', target, again), 'danger'))));
}

export async function show({ body, signal, guarded }) {
  const list = h('div', {});
  const load = async () => {
    const { groups } = await get('groups', {}, signal);
    fill(list, groups.length ? h('ul.groups', {}, groups.map((group) => card(group, () => guarded(load)))) : empty('Nothing fails: no dead letters, no retries.'));
  };
  await load();
  fill(body, readOnlyNote(), panel('Error groups, most failures first', list),
    h('p', {}, copyAsButton(() => [['Command line', 'outbox list status:dead'], ['curl', curlGet('groups')]])));
  return load;
}
