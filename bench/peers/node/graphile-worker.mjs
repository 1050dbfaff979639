// graphile-worker as its page on performance sets it: a local queue, completions in batches. With keys, each key is a queue
// of its own, which it works one job at a time.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { connection, handle, mode, url, work } from "./driver.mjs";

const pool = new pg.Pool({ ...connection, max: 10 });
if (mode === "prepare") {
  const utils = await makeWorkerUtils({ pgPool: pool });
  await utils.migrate();
  process.exit(0);
}
await pool.query("select 1");
await work(async () => {
  const runner = await run({
    pgPool: pool,
    logger: new Logger(() => () => {}),
    noHandleSignals: true,
    taskList: { noop: handle },
    preset: {
      worker: {
        concurrentJobs: url ? 64 : 24,
        maxPoolSize: 10,
        localQueue: { size: 2000 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    },
  });
  return () => runner.stop(); // flushes the last completions
});
