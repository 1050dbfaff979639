// pg-boss. A drain is four loops of fetch and complete, 1000 jobs each, which is faster than its polling workers;
// otherwise four workers that NOTIFY wakes. PEER_MODE=sql prints its insert statement.
import { PgBoss } from "pg-boss";
import { insertJobs } from "./node_modules/pg-boss/dist/plans.js";
import { connection, count, handle, mode, payload, url, work } from "./driver.mjs";

const boss = new PgBoss({ ...connection, supervise: false, schedule: false, max: 10, useListenNotify: true });
boss.on("error", (error) => {
  console.error(error);
  process.exit(1);
});
await boss.start();
if (mode === "prepare") {
  await boss.createQueue("noop", { notify: true });
  process.exit(0);
}
if (mode === "sql") {
  const { table } = await boss.getQueue("noop");
  console.log(JSON.stringify(insertJobs("pgboss", { table, name: "noop", notify: true })));
  process.exit(0);
}
if (mode === "fill") {
  for (let at = 1; at <= count; at += 5000) {
    const jobs = [];
    for (let i = at; i < Math.min(at + 5000, count + 1); i++) jobs.push({ data: payload(i) });
    await boss.insert("noop", jobs);
  }
  process.exit(0);
}

async function loop() {
  for (;;) {
    const jobs = await boss.fetch("noop", { batchSize: url ? 16 : 1000 });
    if (!jobs || jobs.length === 0) return;
    await Promise.all(jobs.map((job) => handle(job.data)));
    await boss.complete(
      "noop",
      jobs.map((job) => job.id),
    );
  }
}

await work(async () => {
  if (count) {
    const loops = Promise.all([loop(), loop(), loop(), loop()]);
    return () => loops;
  }
  const options = { batchSize: 100, localConcurrency: 4, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
  await boss.work("noop", options, (jobs) => Promise.all(jobs.map((job) => handle(job.data))));
  return () => boss.stop({ graceful: true, timeout: 5000 });
});
