// jobs.js - bulk acts: begin one, watch and cancel those under way; and the record of what operators did.

import { h, fill, refill, when, panel, table, empty, badge, link, shortId } from './dom.js';
import { get } from './client.js';
import { ACTS, askAct, actButton, readOnlyNote, jobText, jobProgress, cancelJob, copyAsButton, curlGet } from './acts.js';
import { filterBox } from './filter.js';
import { live } from './live.js';

export const title = 'Bulk acts';

const jobTable = (jobs, again) => (jobs.length ? table('Jobs, newest first', [
  ['act', (job) => job.act], ['messages', (job) => h('code', {}, job.filter || '–'), 'mid'], ['state', (job) => badge(job.state)],
  ['progress', (job) => [jobProgress(job), ' ', jobText(job), job.error && h('p.error', {}, job.error)]],
  ['by', (job) => job.actor], ['begun', (job) => when(job.begun)], ['ended', (job) => when(job.ended)],
  ['', (job) => job.state === 'running' && actButton('operator', 'Cancel', async () => { await cancelJob(job.id); await again(); })]], jobs)
  : empty('No bulk act since the relay started.'));

const actTable = (acts) => (acts.length ? table('What operators did, newest first', [
  ['at', (row) => when(row.at)], ['by', (row) => row.actor], ['act', (row) => row.action], ['message', (row) => (row.message_id ? link(`#/message/${row.message_id}`, h('code', {}, shortId(row.message_id))) : row.detail ? h('code', {}, typeof row.detail === 'string' ? row.detail : JSON.stringify(row.detail)) : '–'), 'clip'],
  ['reason', (row) => row.reason || '–', 'clip']], acts) : empty('Nothing on record.'));

function begin(again) {
  const act = h('select', { id: 'act', 'aria-label': 'Act' }, Object.entries(ACTS).map(([name, { label }]) => h('option', { value: name }, label)));
  const box = filterBox('', (filter) => askAct(act.value, { filter }, again));
  box.querySelector('button').replaceWith(actButton('operator', 'Count and ask …', () => box.requestSubmit(), 'primary'));
  return h('div.begin', {}, act, box);
}

export async function show({ body, signal, guarded }) {
  const running = h('div', {}), record = h('div', {});
  let last = 0;
  const loadJobs = async () => {
    last = Date.now();
    const { jobs } = await get('jobs', {}, signal);
    refill(running, jobTable(jobs, load));
  };
  const load = async () => {
    await loadJobs();
    refill(record, actTable((await get('acts', {}, signal)).acts));
  };
  await load();
  fill(body, readOnlyNote(), panel('Begin', h('p.note', {}, 'Shows how many and which messages before anything is done.'), begin(() => guarded(load))), panel('Jobs', running),
    panel('On record', record), h('p', {}, copyAsButton(() => [['curl', `${curlGet('jobs')}\n${curlGet('acts')}`]])));
  live.listen((name) => { if (name === 'job' || (name !== 'message' && Date.now() - last > 2000)) guarded(loadJobs); }, signal);
  return load;
}
