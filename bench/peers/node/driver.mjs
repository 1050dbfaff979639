// The protocol of ../README.md for drivers in JavaScript.
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

export const mode = process.env.PEER_MODE ?? "work";
export const count = Number(process.env.PEER_COUNT ?? 0);
export const keys = Number(process.env.PEER_KEYS ?? 0);
export const connection = {
  host: process.env.PGHOST,
  port: Number(process.env.PGPORT),
  user: process.env.PGUSER,
  database: process.env.PGDATABASE,
};

export const url = process.env.PEER_URL;
const stamps = process.env.PEER_STAMPS ? [] : null;
let handled = 0;
let allHandled;
const finished = new Promise((resolve) => (allHandled = resolve));

// To be called for each payload, and waited for.
export async function handle(payload) {
  if (url) {
    const answer = await fetch(url, { method: "POST", body: JSON.stringify(payload) });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    await answer.arrayBuffer(); // or its connection cannot be used again
  }
  if (stamps) stamps.push(payload.i, Math.round((performance.timeOrigin + performance.now()) * 1000));
  if (++handled === count) allHandled();
}

export function payload(i) {
  return { i, pad: "x".repeat(181 - String(i).length) };
}

// start: begins to work, returns a function that ends it with everything settled.
export async function work(start) {
  const lines = createInterface({ input: process.stdin });
  const ended = new Promise((resolve) => lines.once("close", resolve));
  console.log("ready");
  await new Promise((resolve) => lines.once("line", resolve));
  const stop = await start();
  await (count ? finished : ended);
  await stop();
  if (stamps) {
    let text = "";
    for (let i = 0; i < stamps.length; i += 2) text += `${stamps[i]} ${stamps[i + 1]}\n`;
    writeFileSync(process.env.PEER_STAMPS, text);
  }
  console.log(`done ${handled}`);
  await ended;
  process.exit(0);
}
