"""What starts, watches and kills processes.

runner.py    functions in child processes that are kept warm (in each of them runs child_main.py)
restarts.py  a pool of worker processes that are started again when they end
spawner.py   commands that are watched;  command.py  one that is killed when its named timeout expires
session.py   one process in a session of its own;  ipc.py  how a call reaches a child process and its answer comes back
oom.py       the kernel's OOM killer;  parent_death.py  ending with the parent
"""
