// live.js - what happens now: the relay's stream, or, where that fails, a question every few seconds. It stops while the
// tab is hidden: a forgotten tab costs the database nothing.

import { h, fill } from './dom.js';
import { stream, session, Problem } from './client.js';

const POLL = 5000;
const listeners = new Set();
let control = null, timer = null;

const indicator = h('span.live', { role: 'status' });

function tell(state, text) {
  indicator.className = `live ${state}`;
  fill(indicator, h('i', { 'aria-hidden': 'true' }), text);
}

function emit(name, data) {
  for (const listener of [...listeners]) listener(name, data);
}

async function run() {
  const mine = new AbortController();
  control = mine;
  try {
    tell('wait', 'connecting');
    await stream((name, data) => {
      tell('on', 'live');
      emit(name, data);
    }, mine.signal);
  } catch (problem) {
    if (problem.name === 'AbortError') return;
    if (problem instanceof Problem && problem.status === 401) return emit('tick', null);
  }
  if (mine.signal.aborted) return;
  tell('off', 'every 5 s');
  emit('tick', null);
  timer = setTimeout(run, POLL);
}

function stop() {
  clearTimeout(timer);
  if (control) control.abort();
  control = null;
}

function start() {
  stop();
  if (session.me && !document.hidden) run();
}

document.addEventListener('visibilitychange', () => {
  if (!session.me) return;
  if (document.hidden) { stop(); tell('off', 'paused'); } else start();
});

/* listener(name, data): status, message, job; tick when there is no stream and it is time to ask. Until the signal aborts. */
function listen(listener, signal) {
  listeners.add(listener);
  signal.addEventListener('abort', () => listeners.delete(listener));
}

export const live = { start, stop, restart: start, listen, indicator };
