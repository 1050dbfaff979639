// Drains no-op jobs with pg-boss: four loops of fetch and complete, 500 jobs each, which is faster than its polling
// workers. argv: how many. Prints one JSON object.
import { PgBoss } from "pg-boss";

const count = Number(process.argv[2]);
const boss = new PgBoss({ connectionString: process.env.DATABASE_URL, supervise: false, schedule: false, max: 10 });
boss.on("error", (error) => {
  console.error(error);
  process.exit(1);
});
await boss.start();
await boss.createQueue("noop");
for (let at = 0; at < count; at += 5000) {
  const jobs = [];
  for (let i = at; i < Math.min(at + 5000, count); i++)
    jobs.push({ data: { i, pad: "x".repeat(181 - String(i).length) } });
  await boss.insert("noop", jobs);
}
await boss.getDb().executeSql("vacuum analyze");

let done = 0;
const start = performance.now();
await Promise.all(
  Array.from({ length: 4 }, async () => {
    for (;;) {
      const jobs = await boss.fetch("noop", { batchSize: 500 });
      if (!jobs || jobs.length === 0) break;
      await boss.complete(
        "noop",
        jobs.map((job) => job.id),
      );
      done += jobs.length;
    }
  }),
);
const seconds = (performance.now() - start) / 1000;
console.log(JSON.stringify({ count: done, seconds, left: count - done }));
process.exit(0);
