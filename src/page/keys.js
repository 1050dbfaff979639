// keys.js - what is blocked behind what: keys whose first message holds up the others.

import { h, fill, num, span, table, empty, badge, link, shortId, panel } from './dom.js';
import { get } from './client.js';
import { askAct, actButton, readOnlyNote, copyAsButton, curlGet } from './acts.js';
import { term } from './filter.js';
import { messagesAt } from './messages.js';

export const title = 'Keys';

const rows = (keys, again) => table('Keys that wait, most messages first', [
  ['key', (row) => [link(messagesAt(term('key', row.key)), row.key), row.tenant_id && h('small', {}, ' tenant ', row.tenant_id)]], ['topic', (row) => [row.topic || row.namespace]],
  ['waiting', (row) => num(row.waiting), 'num'], ['oldest', (row) => span(row.oldest_s), 'num'],
  ['behind', (row) => [badge(row.head_status), ' ', link(`#/message/${row.head}`, h('code', {}, shortId(row.head)))]], ['because', (row) => row.why || '–', 'clip'],
  ['', (row) => h('span.acts', {}, actButton('operator', 'Retry the head …', () => askAct('retry', { ids: [row.head] }, again)),
    actButton('operator', 'Skip the head …', () => askAct('skip', { ids: [row.head] }, again), 'danger'))]], keys,
(row) => ({ tabindex: '-1', 'data-href': `#/message/${row.head}`, 'aria-label': `key ${row.key}` }));

export async function show({ body, signal, guarded }) {
  const list = h('div', {});
  const load = async () => {
    const { keys } = await get('keys', {}, signal);
    fill(list, keys.length ? rows(keys, () => guarded(load)) : empty('No key waits: every key\'s first message can go.'));
  };
  await load();
  fill(body, readOnlyNote(), panel('Keys that wait behind their first message', h('p.note', {}, 'Messages of one key are delivered in order. The first one holds up the others until it is delivered, skipped or discarded.'), list),
    h('p', {}, copyAsButton(() => [['curl', curlGet('keys')]])));
  return load;
}
