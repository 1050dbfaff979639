// sinks.js - where messages go: breaker, errors, limits; pause, resume and tune. The overview shows the same tables.

import { h, fill, refill, num, short, when, lasting, panel, table, empty, badge, toast } from './dom.js';
import { get, post } from './client.js';
import { actButton, askForm, readOnlyNote, copyAsButton, curlGet } from './acts.js';
import { scopeOf } from './trouble.js';
import { live } from './live.js';

export const title = 'Sinks';

const REASON = ['reason', 'Reason, for the record', { maxlength: 500 }];

/* ---- acts ---- */

function pause(scope, again) {
  askForm('Pause', `Pauses ${scopeOf(scope)}. Enqueuing goes on; messages wait until it is resumed.`, [REASON], 'Pause', async (values) => {
    await post('pauses', { ...scope, ...values });
    toast(`Paused ${scopeOf(scope)}.`);
    await again();
  });
}

export const pauseTopic = (topic, again) => pause({ namespace: topic.namespace, topic: topic.topic }, again);

function resume(row, again) {
  const scope = Object.fromEntries(['namespace', 'topic', 'sink'].filter((name) => row[name]).map((name) => [name, row[name]]));
  askForm('Resume', `Resumes ${scopeOf(row)}, paused by ${row.actor}${row.reason ? `: “${row.reason}”` : ''}.`, [REASON], 'Resume', async (values) => {
    await post('resume', { ...scope, ...values });
    toast(`Resumed ${scopeOf(row)}.`);
    await again();
  });
}

function tune(name, current, hint, again) {
  askForm('Tune', `${name}: relays apply it within seconds, and keep it until it is reset.`, [['value', `New value (${hint})`, { required: true, value: current || '' }], REASON], 'Tune',
    async (values) => {
      await post('tune', { name, ...values });
      toast(`${name} = ${values.value}`);
      await again();
    });
}

function tuneAny(again) {
  askForm('Tune a setting of running relays', 'poll (500ms), batch (1 to 10000), enabled (on, off), sink.NAME.rate (100/s, off) or sink.NAME.concurrency.',
    [['name', 'Setting', { required: true }], ['value', 'New value', { required: true }], REASON], 'Tune', async (values) => {
      await post('tune', values);
      toast(`${values.name} = ${values.value}`);
      await again();
    });
}

function reset(tuning, again) {
  askForm('Reset', `${tuning.name} goes back to what the relay's configuration says.`, [REASON], 'Reset', async (values) => {
    await post('tune', { name: tuning.name, value: null, ...values });
    toast(`${tuning.name} is reset.`);
    await again();
  });
}

function pauseAny(again) {
  askForm('Pause a topic, a namespace or everything', 'Leave all three empty to stop every delivery. Topics may be patterns: orders.*',
    [['namespace', 'Namespace'], ['topic', 'Topic'], ['sink', 'Sink'], ['reason', 'Reason, for the record (needed)', { required: true, maxlength: 500 }]], 'Pause', async (values) => {
      await post('pauses', values);
      toast(`Paused ${scopeOf(values)}.`);
      await again();
    }, true);
}

/* ---- tables ---- */

const trouble = (sink) => (sink.code || sink.error ? [[sink.code, sink.error].filter(Boolean).join(': '), ' ', h('small', {}, when(sink.error_at))] : '–');

const state = (sink) => [badge(sink.breaker), sink.cause && ` ${sink.cause}`, sink.since && [' ', lasting(sink.since)],
  sink.next_probe && sink.breaker !== 'closed' && [', probe ', when(sink.next_probe)], sink.limited_until && [' ', badge('limited', 'asked to wait'), ' ', when(sink.limited_until)],
  sink.paused && [' ', badge('paused')]];

export function sinkTable(status, again) {
  if (!status.sinks.length) return empty('No relay that is alive has a sink.');
  const urgency = (sink) => ({ open: 0, half_open: 1, closed: 2 })[sink.breaker] - (sink.failed ? 0.5 : 0);
  const rows = status.sinks.slice().sort((a, b) => urgency(a) - urgency(b) || a.name.localeCompare(b.name));
  const several = new Set(rows.map((sink) => sink.relay)).size > 1;
  const paused = (sink) => status.pauses.find((row) => row.sink === sink.name);
  return table('Sinks', [
    ['sink', (s) => [h('b', {}, s.name), ' ', h('small', {}, s.kind || '')]], ...(several ? [['relay', (s) => s.relay]] : []),
    ['breaker', state], ['rate', (s) => `${short(s.rate)}/s`, 'num'], ['in flight', (s) => `${num(s.in_flight)} of ${num(s.concurrency)}`, 'num'],
    ['failed in a row', (s) => num(s.failed), 'num'], ['last success', (s) => when(s.success_at)], ['last error', trouble, 'clip'],
    ['', (s) => h('span.acts', {},
      paused(s) ? actButton('operator', 'Resume …', () => resume(paused(s), again)) : actButton('operator', 'Pause …', () => pause({ sink: s.name }, again)),
      actButton('operator', 'Rate …', () => tune(`sink.${s.name}.rate`, s.rate_limit, '100/s, or off', again)),
      actButton('operator', 'Concurrency …', () => tune(`sink.${s.name}.concurrency`, String(s.concurrency), 'a number', again)))]], rows);
}

const by = (row) => [h('b', {}, row.actor), row.reason ? `: ${row.reason}` : ''];

export function pauseTable(status, again) {
  if (!status.pauses.length) return empty('Nothing is paused.');
  return table('Pauses', [['paused', (row) => scopeOf(row)], ['by, and why', by], ['since', (row) => when(row.at)],
    ['', (row) => actButton('operator', 'Resume …', () => resume(row, again))]], status.pauses);
}

export function tuningTable(status, again) {
  if (!status.tunings.length) return empty('No setting is tuned.');
  return table('Tuned settings', [['setting', (row) => h('code', {}, row.name)], ['value', (row) => row.value], ['by, and why', by], ['since', (row) => when(row.at)],
    ['', (row) => actButton('operator', 'Reset …', () => reset(row, again))]], status.tunings);
}

/* ---- the screen ---- */

export async function show({ body, signal, guarded }) {
  const parts = ['sinks', 'pauses', 'tunings'].map(() => h('div', {}));
  let asked = 0;
  const load = async () => {
    asked = Date.now();
    const status = await get('status', {}, signal);
    refill(parts[0], sinkTable(status, load));
    refill(parts[1], pauseTable(status, load));
    refill(parts[2], tuningTable(status, load));
  };
  await load();
  fill(body, readOnlyNote(), panel('Sinks of the relays that are alive', parts[0]),
    panel('Pauses', parts[1], actButton('operator', 'Pause something …', () => pauseAny(load))),
    panel('Tuning', parts[2], actButton('operator', 'Tune a setting …', () => tuneAny(load))),
    h('p', {}, copyAsButton(() => [['Command line', 'outbox status'], ['curl', curlGet('status')]])));
  live.listen((name) => {
    if (name !== 'message' && Date.now() - asked > 5000) guarded(load);
  }, signal);
  return load;
}
