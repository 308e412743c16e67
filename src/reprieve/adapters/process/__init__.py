"""Processes of the machine.

isolator.py   runs functions in child processes that are kept warm (in each of them runs child.py)
children.py   runs commands that are watched over
wire.py       how a call travels;  exits.py  how an end is noticed;  parent.py  dying with it;  memory.py  the OOM killer
"""
