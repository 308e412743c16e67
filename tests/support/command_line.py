"""The command line inside a test process."""

from __future__ import annotations

from functools import cache

import typer.main

from reprieve.faces.cli import main

__all__ = ["main"]

# Typer builds all commands anew for each call of `main`, which takes 70 ms. A file of tests calls it a
# hundred times.
typer.main.get_command = cache(typer.main.get_command)
