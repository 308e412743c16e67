"""What an operator can see and do, as typed functions: one module per noun, redacted values, no rendering.

streams.py           dead letters of Redis Streams, groups and their state
stream_adoption.py   dead letters of a stream copied into the store, for triage
tasks.py             tasks of supervised workers
"""
