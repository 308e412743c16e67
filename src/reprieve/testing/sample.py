"""A repository to try things on: a small shop whose history has bugs in it, made by git, the same on every machine."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_PEOPLE: Final = {"Ada": "ada@shop.example", "Bo": "bo@shop.example"}
_FIRST: Final = 1_767_254_400
"""When the first commit was made, in seconds since the epoch; each other one an hour later."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit: who, why, and the files as they are then."""

    author: str
    subject: str
    files: Mapping[str, str]


HISTORY: Final = (
    Commit("Ada", "Carts and their owners", {
        "CODEOWNERS": "*           @shop/everybody\n*.py        bo@shop.example\n/docs/      ada@shop.example\n",
        "shop/cart.py": "class Cart:\n    def __init__(self):\n        self.items = []\n\n    def add(self, item):\n        self.items.append(item)\n",
    }),
    Commit("Bo", "Carts know their total", {
        "shop/cart.py": "class Cart:\n    def __init__(self, items=[]):\n        self.items = items\n\n    def add(self, item):\n"
        "        self.items.append(item)\n\n    def total(self):\n        return sum(item.price for item in self.items)\n",
    }),
    Commit("Ada", "Discounts", {
        "shop/discount.py": "def discounted(price, percent):\n    return price - price * percent\n",
        "package-lock.json": '{"lockfileVersion": 3}\n',
    }),
    Commit("Bo", "Look orders up by customer", {
        "shop/orders.py": "def orders_of(connection, customer):\n"
        "    return connection.execute(f\"SELECT * FROM orders WHERE customer = '{customer}'\").fetchall()\n",
    }),
    Commit("Ada", "Say how to pay", {"docs/paying.md": "# Paying\n\nCards, and cash on delivery.\n"}),
    Commit("Bo", "Payments are tried again", {
        "shop/pay.py": "def pay(gateway, amount):\n    for _ in range(3):\n        try:\n            return gateway.charge(amount)\n"
        "        except Exception:\n            pass\n",
    }),
)  # fmt: skip
"""What happens in it; most of it is wrong in one way or another."""


def make_repository(folder: Path, history: tuple[Commit, ...] = HISTORY) -> list[str]:
    """Make it in a folder that is not there yet; gives the commits, the oldest first."""
    folder.mkdir(parents=True)
    _git(folder, "init", "--quiet", "--initial-branch=main")
    return [commit(folder, each, place) for place, each in enumerate(history)]


def commit(folder: Path, made: Commit, place: int = 0) -> str:
    """One more commit, so many hours after the first."""
    for path, text in made.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    when = f"{_FIRST + 3600 * place} +0000"
    names = {
        "GIT_AUTHOR_NAME": made.author, "GIT_AUTHOR_EMAIL": _PEOPLE.get(made.author, f"{made.author.lower()}@shop.example"),
        "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_NAME": "Shop", "GIT_COMMITTER_EMAIL": "shop@shop.example", "GIT_COMMITTER_DATE": when,
    }  # fmt: skip
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--allow-empty", "--message", made.subject, **names)
    return _git(folder, "rev-parse", "HEAD").strip()


def _git(folder: Path, *arguments: str, **names: str) -> str:
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **names,
    }
    command = ["git", "-c", "commit.gpgSign=false", "-c", f"core.hooksPath={os.devnull}", *arguments]  # fmt: skip
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 - git, and arguments of ours
    return done.stdout
