// Drains no-op jobs with graphile-worker, set as its own page on performance sets it: 24 jobs at once, a local queue of
// 500, completions in batches. argv: how many. Prints one JSON object; the clock runs from the start of the worker to
// the last job done and completed in the database.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const count = Number(process.argv[2]);
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 25 });
const utils = await makeWorkerUtils({ pgPool: pool });
await utils.migrate();
await pool.query(
  `select count(*) from graphile_worker.add_jobs(array(
     select row('noop', json_build_object('i', i, 'pad', repeat('x', 181 - length(i::text))), null, null, null, null, null,
                null)::graphile_worker.job_spec
       from generate_series(1, $1::int) i))`,
  [count],
);
await pool.query("vacuum analyze");

let done = 0;
let allDone;
const finished = new Promise((resolve) => (allDone = resolve));
const start = performance.now();
const runner = await run({
  pgPool: pool,
  logger: new Logger(() => () => {}),
  noHandleSignals: true,
  taskList: {
    noop: () => {
      if (++done === count) allDone();
    },
  },
  preset: {
    worker: {
      concurrentJobs: 24,
      maxPoolSize: 25,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
    },
  },
});
await finished;
await runner.stop(); // flushes the last completions
const seconds = (performance.now() - start) / 1000;
const left = await pool.query("select count(*)::int as n from graphile_worker._private_jobs");
console.log(JSON.stringify({ count, seconds, left: left.rows[0].n }));
await pool.end();
process.exit(0);
