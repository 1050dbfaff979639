// trouble.js - what is wrong, most urgent first, from the document of `outbox status`. No elements here.

import { plural, span } from './dom.js';
import { term } from './filter.js';

const OLD = 60;   /* seconds that a due message may wait before it is worth a line */
const LATE = 300; /* … before it is urgent */

const messages = (filter) => `#/messages?filter=${encodeURIComponent(filter)}`;
const scopeOf = (pause) => (pause.sink ? `sink ${pause.sink}` : pause.topic ? `topic ${pause.topic}` : pause.namespace ? `namespace ${pause.namespace}` : 'everything');
export { scopeOf };

function relays(status, found) {
  const alive = status.relays.filter((relay) => relay.alive);
  if (!alive.length)
    found.push({ level: 'bad', text: 'No relay is running', more: 'Nothing is delivered. Start one: outbox run', href: '#/sinks' });
  const off = alive.filter((relay) => !relay.enabled);
  if (off.length)
    found.push({ level: 'bad', text: `${off.length === alive.length ? 'All relays are' : `${plural(off.length, 'relay')} of ${alive.length}`} switched off`,
      more: 'outbox tune enabled --reset', href: '#/sinks' });
  for (const [field, word] of [['version', 'versions'], ['routes_digest', 'routes']])
    if (new Set(alive.map((relay) => relay[field])).size > 1)
      found.push({ level: 'warn', text: `Relays have different ${word}`, more: 'Is a rollout under way?', href: '#/overview' });
}

function sinks(status, found) {
  for (const sink of status.sinks) {
    const error = [sink.code, sink.error].filter(Boolean).join(': ');
    if (sink.breaker !== 'closed')
      found.push({ level: sink.breaker === 'open' ? 'bad' : 'warn', text: `Sink ${sink.name} ${sink.cause === 'blocked' ? 'refuses us' : sink.cause === 'down' ? 'is down' : 'fails'}: breaker ${sink.breaker.replace('_', ' ')}`,
        more: error, since: sink.since, href: '#/sinks' });
    else if (sink.failed >= 3)
      found.push({ level: 'warn', text: `Sink ${sink.name} failed ${plural(sink.failed, 'time')} in a row`, more: error, since: sink.success_at, href: '#/sinks' });
  }
}

function queue(status, found) {
  if (status.due > 0 && status.oldest_due_s > OLD)
    found.push({ level: status.oldest_due_s > LATE ? 'bad' : 'warn', text: `The oldest due message waits ${span(status.oldest_due_s)}`,
      more: `${plural(status.due, 'message')} due`, href: messages('status:pending age:>1m') });
  else if (status.retrying > 0 && status.oldest_undelivered_s > LATE)
    found.push({ level: 'warn', text: `The oldest undelivered message is ${span(status.oldest_undelivered_s)} old`,
      more: `${plural(status.retrying, 'message')} retrying`, href: messages('status:pending attempts:>0') });
  if (status.stuck > 0)
    found.push({ level: 'warn', text: `${plural(status.stuck, 'lease')} expired`, more: 'A relay died or stalled; the next claim takes these over.', href: messages('status:processing') });
  for (const topic of status.topics.filter((one) => one.dead_last_hour > 0).sort((a, b) => b.dead_last_hour - a.dead_last_hour).slice(0, 5))
    found.push({ level: 'bad', text: `${plural(topic.dead_last_hour, 'message')} of ${topic.topic} died within the hour`,
      more: [topic.last_code, topic.last_error].filter(Boolean).join(': '), href: messages(`status:dead ${term('topic', topic.topic)}`) });
  const old = status.dead - status.dead_last_hour;
  if (old > 0)
    found.push({ level: 'note', text: `${plural(old, 'older dead letter')}`, more: 'Retry or discard them by group.', href: '#/failures' });
}

export function troubles(status) {
  const found = [];
  relays(status, found);
  sinks(status, found);
  queue(status, found);
  for (const pause of status.pauses)
    found.push({ level: 'warn', text: `Paused: ${scopeOf(pause)}`, more: `by ${pause.actor}${pause.reason ? `: ${pause.reason}` : ''}`, since: pause.at, href: '#/sinks' });
  for (const tuning of status.tunings)
    if (tuning.name !== 'enabled' || tuning.value !== 'off' || !status.relays.some((relay) => relay.alive && !relay.enabled))
      found.push({ level: 'note', text: `Tuned: ${tuning.name} = ${tuning.value}`, more: `by ${tuning.actor}${tuning.reason ? `: ${tuning.reason}` : ''}`, since: tuning.at, href: '#/sinks' });
  const order = { bad: 0, warn: 1, note: 2 };
  return found.sort((a, b) => order[a.level] - order[b.level]);
}
