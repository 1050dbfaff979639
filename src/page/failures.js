// failures.js - errors grouped by what they have in common: which one, how many, since when; retry or discard a group.

import { h, fill, num, short, when, empty, badge, link, panel } from './dom.js';
import { get } from './client.js';
import { askAct, actButton, readOnlyNote, copyAsButton, curlGet } from './acts.js';
import { messagesAt } from './messages.js';

export const title = 'Failures';

function card(group, again) {
  const filter = `group:${group.fingerprint}`;
  return h('li.group', {}, h('div.figure', {}, h('b', {}, group.estimated && '≥ ', short(group.count)), h('small', {}, group.count === 1 ? 'message' : 'messages')), h('div', {},
    h('h3', {}, group.code && h('code', {}, group.code), ' ', group.sample),
    h('p', {}, group.dead ? badge('dead', `${num(group.dead)} dead`) : null, ' ', group.retrying ? badge('retry', `${num(group.retrying)} retrying`) : null,
      h('small', {}, ' first ', when(group.first_seen), ', last ', when(group.last_seen), group.sinks.length > 0 && ` · sinks ${group.sinks.join(', ')}`,
        group.topics.length > 0 && ` · topics ${group.topics.slice(0, 5).join(', ')}${group.topics.length > 5 ? ' …' : ''}`)),
    h('div.acts', {}, link(messagesAt(filter), 'Messages'), actButton('operator', 'Retry …', () => askAct('retry', { filter }, again)),
      actButton('operator', 'Discard …', () => askAct('discard', { filter: `status:dead ${filter}` }, again), 'danger'))));
}

export async function show({ body, signal, guarded }) {
  const list = h('div', {});
  const load = async () => {
    const { groups } = await get('groups', {}, signal);
    fill(list, groups.length ? h('ul.groups', {}, groups.map((group) => card(group, () => guarded(load)))) : empty('Nothing fails: no dead letters, no retries.'));
  };
  await load();
  fill(body, readOnlyNote(), panel('Error groups, most messages first', list),
    h('p', {}, copyAsButton(() => [['Command line', 'outbox errors'], ['curl', curlGet('groups')]])));
  return load;
}
