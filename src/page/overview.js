// overview.js - the first screen: what is wrong, then how much flows, then the parts.

import { h, fill, refill, num, short, span, ms, when, lasting, clock, panel, table, empty, badge, link, shortId } from './dom.js';
import { get } from './client.js';
import { chart } from './chart.js';
import { live } from './live.js';
import { troubles } from './trouble.js';
import { term } from './filter.js';
import { actButton, copyAsButton, curlGet } from './acts.js';
import { pauseTopic, sinkTable, pauseTable, tuningTable } from './sinks.js';

export const title = 'Overview';

const REFRESH = 5000; /* how often the whole document is asked for, at most */
const SERIES = 30000;
const FEED = 10;

const LEVELS = { bad: ['✕', 'Urgent'], warn: ['!', 'Warning'], note: ['i', 'Note'] };

function verdict(status) {
  const found = troubles(status);
  if (!found.some((one) => one.level !== 'note'))
    found.unshift({ level: 'good', text: 'Nothing is wrong', more: `${status.pending ? `${num(status.pending)} pending, oldest ${span(status.oldest_undelivered_s)}` : 'Nothing waits'}; every sink accepts.` });
  return h('ul.troubles', { 'aria-label': 'What is wrong' }, found.map((one) => {
    const [sign, word] = LEVELS[one.level] || ['✓', 'Good'];
    return h(`li.${one.level}`, {}, h('span.sign', { 'aria-hidden': 'true' }, sign), h('div', {},
      h('strong', {}, h('span.hidden', {}, word, ': '), one.href ? link(one.href, one.text) : one.text),
      one.more && h('span.more', {}, one.more), one.since && h('small', {}, lasting(one.since))));
  }));
}

const tile = (name, value, note, href, bad) => h('a.tile' + (bad ? '.bad' : ''), { href },
  h('span.name', {}, name), h('span.value', {}, value), h('span.note', {}, note || ' '));

/* Figures of the moment from the stream, and the rest from the document. */
function tiles(status, now, last) {
  const about = status.estimated ? 'about ' : '';
  const rate = now && now.rate !== undefined ? now.rate : status.sinks.reduce((sum, sink) => sum + Number(sink.rate), 0);
  const pick = (name, other) => (now && now[name] !== undefined && now[name] !== null ? now[name] : other);
  const oldest = pick('oldest_s', status.oldest_undelivered_s), dead = pick('dead', status.dead);
  return h('div.tiles', {},
    tile('Delivered', `${short(rate)}/s`, `${num(status.processing)} in flight`, '#/messages?filter=status%3Adelivered'),
    tile('Latency p95', ms(last && last.p95_ms), last && last.p50_ms !== null ? `p50 ${ms(last.p50_ms)}` : 'last minute', '#/sinks'),
    tile('Pending', about + short(pick('pending', status.pending)), `${short(status.due)} due, ${short(status.retrying)} retrying`, '#/messages?filter=status%3Apending'),
    tile('Oldest undelivered', span(oldest), status.parked ? `${short(status.parked)} behind their key` : 'since it was enqueued', '#/messages?filter=status%3Apending', oldest > 300),
    tile('Dead', about + short(dead), `${short(status.dead_last_hour)} in the last hour`, '#/failures', status.dead_last_hour > 0));
}

function charts(series) {
  const points = series.points || [];
  if (!points.length) return empty('Nothing is recorded yet. The leading relay adds a point every minute.');
  const of = (name, by) => points.map((point) => (point[name] === null || point[name] === undefined ? null : point[name] / (by || 1)));
  const step = series.step_s || 60, times = points.map((point) => point.at);
  const perSecond = (value) => `${short(value)}/s`;
  const rows = points.slice().reverse();
  const column = (name, key, format) => [name, (point) => format(point[key]), 'num'];
  return h('div', {}, h('div.charts', {},
    chart('Rate', times, [{ name: 'enqueued', values: of('enqueued', step) }, { name: 'delivered', values: of('delivered', step) }], perSecond),
    chart('Latency', times, [{ name: 'p95', values: of('p95_ms') }, { name: 'p50', values: of('p50_ms') }], ms),
    chart('Pending', times, [{ name: 'pending', values: of('pending') }], short),
    chart('Oldest undelivered', times, [{ name: 'age', values: of('oldest_s') }], span),
    chart('Failures per minute', times, [{ name: 'failed', values: of('failed', step / 60) }, { name: 'dead', values: of('dead', step / 60) }], short)),
  h('details', {}, h('summary', {}, 'The last hour as a table'), table('The last hour', [['at', (point) => clock(new Date(point.at))],
    column('enqueued', 'enqueued', num), column('delivered', 'delivered', num), column('failed', 'failed', num), column('died', 'dead', num),
    column('pending', 'pending', num), column('oldest', 'oldest_s', span), column('p50', 'p50_ms', ms), column('p95', 'p95_ms', ms)], rows)));
}

function topics(status, again) {
  const weight = (topic) => topic.dead_last_hour * 1e6 + topic.retrying * 1e3 + topic.pending + topic.dead;
  const rows = status.topics.slice().sort((a, b) => weight(b) - weight(a)).slice(0, 100);
  const to = (topic, more) => `#/messages?filter=${encodeURIComponent(`${more ? more + ' ' : ''}${term('topic', topic.topic)}`)}`;
  if (!rows.length) return empty('No topic yet. Enqueue a message: outbox send hello \'{"world": 1}\'');
  return table('Topics', [
    ['topic', (t) => [link(to(t), t.topic), t.namespace !== 'default' && h('small', {}, ' ', t.namespace), t.paused && [' ', badge('paused')]]],
    ['pending', (t) => link(to(t, 'status:pending'), short(t.pending)), 'num'], ['due', (t) => short(t.due), 'num'],
    ['retrying', (t) => (t.retrying ? link(to(t, 'status:pending attempts:>0'), short(t.retrying)) : '0'), 'num'],
    ['in flight', (t) => short(t.processing), 'num'],
    ['dead', (t) => (t.dead ? link(to(t, 'status:dead'), short(t.dead)) : '0'), 'num'],
    ['oldest', (t) => span(t.oldest_undelivered_s), 'num'],
    ['last error', (t) => (t.last_error_at || t.last_error ? [t.last_code, t.last_code && ': ', t.last_error, ' ', h('small', {}, when(t.last_error_at))] : '–'), 'clip'],
    ['', (t) => (t.paused ? null : actButton('operator', 'Pause …', () => pauseTopic(t, again)))]], rows);
}

const relayTable = (relays) => (relays.length ? table('Relays', [
  ['relay', (r) => r.worker], ['state', (r) => (r.alive ? badge(r.enabled ? 'running' : 'paused', r.enabled ? r.state : 'switched off') : badge('dead', 'not seen'))],
  ['host', (r) => r.host || '–'], ['process', (r) => String(r.pid), 'num'], ['version', (r) => r.version || '–'],
  ['started', (r) => when(r.started_at)], ['heartbeat', (r) => when(r.seen_at)]], relays) : empty('No relay has reported itself. Start one: outbox run'));

/* One line a transition, newest first. */
const feedLine = (event) => h('li', {}, h('time', { datetime: event.at }, clock(new Date(event.at))), badge(event.status),
  link(`#/message/${event.id}`, shortId(event.id)), h('span.topic', {}, event.topic), event.sink && h('span', {}, '→ ', event.sink),
  h('span.more', {}, [event.attempt > 1 && `attempt ${event.attempt}`, event.latency_ms !== null && event.latency_ms !== undefined && ms(event.latency_ms), event.code, event.error].filter(Boolean).join(' · ')));

export async function show({ body, signal, guarded }) {
  const parts = Object.fromEntries(['verdict', 'tiles', 'charts', 'sinks', 'topics', 'pauses', 'relays'].map((name) => [name, h('div', {})]));
  const feed = h('ol.feed', {});
  let status = null, now = null, series = { points: [] }, asked = 0, askedSeries = 0;

  const drawTiles = () => refill(parts.tiles, tiles(status, now, series.points.at(-1)));
  const load = async () => {
    asked = Date.now();
    status = await get('status', {}, signal);
    if (Date.now() - askedSeries > SERIES) {
      askedSeries = Date.now();
      try { series = await get('series', { minutes: 60 }, signal); } catch (problem) { if (problem.name === 'AbortError' || problem.status === 401) throw problem; }
      refill(parts.charts, charts(series));
    }
    drawTiles();
    refill(parts.verdict, verdict(status));
    refill(parts.sinks, sinkTable(status, load));
    refill(parts.topics, topics(status, load));
    refill(parts.pauses, pauseTable(status, load), tuningTable(status, load));
    refill(parts.relays, relayTable(status.relays));
  };
  await load();
  fill(body, parts.verdict, parts.tiles, panel('The last hour', parts.charts), panel('Sinks', parts.sinks), panel('Topics', parts.topics),
    panel('Happening now', feed, empty('Deliveries and failures appear here as they happen.')), panel('Pauses and tuning', parts.pauses), panel('Relays', parts.relays),
    h('p', {}, copyAsButton(() => [['Command line', 'outbox status'], ['SQL', 'SELECT * FROM outbox.status;'], ['curl', curlGet('status')]])));
  live.listen((name, data) => {
    if (name === 'status') { now = data; if (status) drawTiles(); }
    if (name === 'message') {
      feed.prepend(feedLine(data));
      while (feed.childElementCount > FEED) feed.lastChild.remove();
    }
    if (name !== 'message' && Date.now() - asked > REFRESH) guarded(load);
  }, signal);
  return load;
}
