// client.js - what the page knows of the relay: the token, requests, the live stream. Nothing here touches the document.

const KEY = 'outbox.token';
export const session = { me: null, store: null };

/* ---- the token: in this tab only, and not in the address ---- */

export function takeTokenFromHash() {
  const match = /[#&]token=([^&]+)/.exec(location.hash);
  if (!match) return;
  sessionStorage.setItem(KEY, decodeURIComponent(match[1]));
  history.replaceState(null, '', location.pathname + location.search + '#/');
}
export const token = () => sessionStorage.getItem(KEY);
export const setToken = (text) => sessionStorage.setItem(KEY, text);
export function forgetToken() {
  sessionStorage.removeItem(KEY);
  session.me = null;
}

const RANKS = { viewer: 1, operator: 2, admin: 3 };
export const may = (role) => session.me !== null && RANKS[session.me.role] >= RANKS[role];
export const whyNot = (role) => session.me === null ? 'You are logged out.' :
  `Your token “${session.me.name}” has the role ${session.me.role}; this needs ${role}. An admin makes such a token: outbox token create NAME --role ${role}`;

/* ---- requests ---- */

/* An answer that is no success: what happened and what to do, as the relay says it. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `the relay answered ${status}`);
    this.status = status;
    this.code = body.code || '';
    this.next = body.next || '';
  }
}

/* A number beyond what JavaScript counts exactly stays the text that it was: a fingerprint, say. */
export function parse(text) {
  return JSON.parse(text, (name, value, context) =>
    (typeof value === 'number' && context && !Number.isSafeInteger(value) && /^-?\d+$/.test(context.source) ? context.source : value));
}

/* For printing only: every number as it was written, 12345678901234567890 and 1.0 too. */
export function parseExactly(text) {
  if (!JSON.rawJSON) return JSON.parse(text);
  return JSON.parse(text, (name, value, context) =>
    (typeof value === 'number' && context.source !== String(value) ? JSON.rawJSON(context.source) : value));
}

export const query = (params) => {
  const text = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== ''));
  return String(text) ? '?' + text : '';
};

export const address = (path, params) =>
  `api/v1/${path}${query({ ...params, store: session.store })}`;

const RETRIES = 3;

/* One request. A relay that is busy says when to ask again: a question is repeated then, an act never. */
async function request(method, path, { params, body, signal, accept } = {}, tries = 0) {
  const headers = { Accept: accept || 'application/json' };
  if (token()) headers.Authorization = `Bearer ${token()}`;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let answer;
  try {
    answer = await fetch(address(path, params), { method, headers, signal, cache: 'no-store', credentials: 'omit',
      body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0, { title: 'The relay does not answer.', next: 'Is it running, and is this address still right?' });
  }
  if (answer.ok) return answer;
  if (answer.status === 503 && method === 'GET' && tries < RETRIES) {
    await new Promise((resolve) => { setTimeout(resolve, Math.min(5, Number(answer.headers.get('Retry-After')) || 1) * 1000); });
    return request(method, path, { params, body, signal, accept }, tries + 1);
  }
  let problem = {};
  try { problem = await answer.json(); } catch { /* no JSON: the status says it */ }
  throw new Problem(answer.status, problem);
}

async function json(method, path, options) {
  const answer = await request(method, path, options);
  const text = await answer.text();
  return text ? parse(text) : {};
}

export const get = (path, params, signal) => json('GET', path, { params, signal });
export async function getText(path, params, signal) {
  return (await request('GET', path, { params, signal })).text();
}
export const post = (path, body) => json('POST', path, { body });
export const del = (path) => json('DELETE', path, {});

/* ---- the live stream: EventSource cannot send a token, so it is read by hand ---- */

export async function stream(on, signal) {
  const answer = await request('GET', 'events', { signal, accept: 'text/event-stream' });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value.replaceAll('\r', '')).split('\n\n');
    rest = events.pop();
    for (const text of events) dispatch(text, on);
  }
}

function dispatch(text, on) {
  let name = 'message';
  const data = [];
  for (const line of text.split('\n')) {
    if (line.startsWith('event:')) name = line.slice(6).trim();
    else if (line.startsWith('data:')) data.push(line.slice(5).trim());
  }
  if (data.length) on(name, parse(data.join('\n')));
}
