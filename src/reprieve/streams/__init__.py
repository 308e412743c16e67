"""Redis Streams: a consumer with retries, dead letters, budgets, a breaker and alerts; no database is needed.

keys.py          the names of a group's keys, and the hash slots of a cluster
connection.py    redis-py connections that never retry by themselves
scripts.py       the Lua scripts in `lua/`: every write that decides something is one of them
message.py       a message, its parsing, and its byte-exact encoding
dead_letters.py  the record in `{queue}:dlq`
consumer.py      `@reprieve.consumer` and what it takes
"""
