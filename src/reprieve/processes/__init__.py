"""What starts, watches and kills processes.

runner.py    functions in child processes that are kept warm (in each of them runs child_main.py)
restarts.py  a pool of worker processes that are started again when they end
spawner.py   commands that run until they end or are stopped
session.py   one command below a warden;  warden.py  the program that watches it and kills its tree
ipc.py       how a call reaches a child process and its answer comes back;  oom.py  the kernel's OOM killer
command.py   a command that is killed when its named timeout expires
"""
