"""A program that forks a process for each line on its standard input; each replays all dead letters of a queue."""

import asyncio
import os
import sys

from reprieve.operations.streams import replay_in_bulk
from reprieve.streams.operator_errors import connect_redis

QUEUE, URL = sys.argv[1:]


async def replay():
    await replay_in_bulk(connect_redis(URL), QUEUE, actor="ada", rate=2000.0)


for _ in sys.stdin:
    pid = os.fork()
    if pid == 0:
        asyncio.run(replay())
        os._exit(0)
    sys.stdout.write(f"{pid}\n")
    sys.stdout.flush()
    os.waitpid(pid, 0)
    sys.stdout.write("ended\n")
    sys.stdout.flush()
