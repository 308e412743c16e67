"""The engine beside its peers, all on one server that waits for the disk.

order.py       what a contender's process is told; with_*.py  how each contender does it
postgres.py    a PostgreSQL process;  server.py  the one that all share;  usage.py  what processes have used
fixture.py     databases that samples use again
driving.py     workers as processes, polled alike;  arena.py  a fresh database for every turn
throughput.py  submitting.py  growth.py  what is measured
"""
