// driver.mjs - one browser for all tests: reads a call per line, {id, page, call, args}, and answers {id, value} or {id, error}.
// Calls are those of a page of playwright; tests/support/browser.py is the other end.
import fs from 'node:fs';
import readline from 'node:readline';
import { chromium } from 'playwright-core';

const axe = fs.readFileSync('node_modules/axe-core/axe.min.js', 'utf8');
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
const pages = new Map();

async function open({ timeout, ...options }) {
  const page = await (await browser.newContext(options)).newPage();
  const kept = { page, timeout, faults: [], foreign: [] };
  page.setDefaultTimeout(timeout);
  page.on('pageerror', (error) => kept.faults.push(String(error.stack || error)));
  page.on('console', (message) => message.type() === 'error' && !/Failed to load resource/.test(message.text()) && kept.faults.push(message.text()));
  page.on('request', (request) => kept.foreign.push(new URL(request.url()).origin));
  pages.set(pages.size + 1, kept);
  return pages.size;
}

/* What axe finds that is serious or worse, and how much there is of the rest. */
async function check({ page }) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  const serious = found.violations.filter((one) => ['serious', 'critical'].includes(one.impact));
  return { serious: serious.map((one) => `${one.id}: ${one.help}: ${one.nodes.map((node) => node.html).join(' ')}`.slice(0, 500)), others: found.violations.length - serious.length };
}

/* Until a script says something true. playwright's own way would need eval, which the content policy forbids. */
async function until({ page, timeout }, script) {
  for (const end = Date.now() + timeout; Date.now() < end; await new Promise((resolve) => { setTimeout(resolve, 50); })) {
    const value = await page.evaluate(script).catch(() => null); /* the page may be loading */
    if (value) return;
  }
  throw new Error(`never true: ${script}\n${(await page.evaluate('document.body.innerText')).slice(0, 2000)}`);
}

async function run({ page: number, call, args }) {
  if (call === 'open') return open(...args);
  const kept = pages.get(number);
  if (call === 'close') {
    await kept.page.context().close();
    return { faults: kept.faults, origins: [...new Set(kept.foreign)] };
  }
  if (call === 'until') return until(kept, ...args);
  if (call === 'axe') return check(kept);
  if (call === 'press') return kept.page.keyboard.press(...args);
  if (call === 'type') return kept.page.keyboard.type(...args);
  const value = await kept.page[call](...args);
  return ['evaluate', 'innerText', 'textContent', 'inputValue', 'isVisible', 'getAttribute', 'url', 'title'].includes(call) ? value : null;
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  const answer = { id: request.id };
  try { answer.value = await run(request); } catch (error) { answer.error = error.message; }
  process.stdout.write(JSON.stringify(answer) + '\n');
}
await browser.close();
