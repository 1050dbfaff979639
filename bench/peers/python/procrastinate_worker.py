"""procrastinate: an asyncio worker with 16 jobs at once, woken by NOTIFY. The protocol is in ../README.md."""
import asyncio
import os
import sys
import time

import procrastinate

COUNT = int(os.environ.get("PEER_COUNT", 0))
STAMPS = os.environ.get("PEER_STAMPS")
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo="", min_size=4, max_size=20))
stamps, handled = [], 0
everything = asyncio.Event()


@app.task(name="noop", queue="bench")
async def noop(i, pad):
    global handled
    if STAMPS:
        stamps.append((i, time.time_ns() // 1000))
    handled += 1
    if handled == COUNT:
        everything.set()


async def settled():
    """A job's row is updated after its task has returned."""
    rows = "select count(*) as n from procrastinate_jobs where status in ('todo', 'doing')"
    while (await app.connector.execute_query_one_async(rows))["n"]:
        await asyncio.sleep(0.005)


async def work():
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    print("ready", flush=True)
    await lines.readline()
    worker = asyncio.create_task(app.run_worker_async(
        concurrency=16, wait=True, fetch_job_polling_interval=0.1, install_signal_handlers=False, queues=["bench"]))
    if COUNT:
        await everything.wait()
        await settled()
    else:
        await lines.read()
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    if STAMPS:
        with open(STAMPS, "w") as file:
            file.writelines("%d %d\n" % stamp for stamp in stamps)
    print("done", handled, flush=True)
    await lines.read()


async def main():
    async with app.open_async():
        if os.environ.get("PEER_MODE") == "prepare":
            await app.schema_manager.apply_schema_async()
        else:
            await work()


asyncio.run(main())
