"""A sample repository, made by git, the same on every machine: a small shop whose history has planted faults."""

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
    """One commit: its author, its subject, and the files that it changes."""

    author: str
    subject: str
    files: Mapping[str, str | None]
    """The new text of each file; None deletes the file."""
    fault: str = ""
    """The fault that is planted; empty for a harmless commit."""


def make_repository(folder: Path, history: tuple[Commit, ...]) -> list[str]:
    """Make a repository in a folder that does not exist yet. Returns the ids of its commits, the oldest first."""
    folder.mkdir(parents=True)
    _git(folder, "init", "--quiet", "--initial-branch=main")
    return [commit(folder, each, place) for place, each in enumerate(history)]


def commit(folder: Path, made: Commit, place: int = 0) -> str:
    """Add one commit, `place` hours after the first. Returns its id."""
    for path, text in made.files.items():
        if text is None:
            (folder / path).unlink()
            continue
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


HISTORY: Final[tuple[Commit, ...]] = (
    Commit(
        author="Ada",
        subject="Start the shop backend: customers, carts, orders and payments",
        files={
            "CODEOWNERS": """\
*.py bo@shop.example
/docs/ ada@shop.example
/shop/payments.py ada@shop.example
""",
            "README.md": """\
# shop

The backend of a small web shop: customers, carts, orders and their payment.
It needs Python 3.11 and nothing else; the data lives in one SQLite file.

    pip install -e .
    export SHOP_PAYMENT_KEY=...   # ask Ada for a test key
    shop --db shop.sqlite --help

Run the tests with `python -m unittest discover -s tests`.

Amounts are whole cents everywhere. How payments work: `docs/payments.md`.
""",
            "docs/payments.md": """\
# Payments

Cards are charged by Payfold. The shop never sees a card number, only the
one-time token that Payfold's form hands out.

- The API key is read from the environment variable `SHOP_PAYMENT_KEY`.
- Every request has a timeout and an idempotency key, so that it can be sent
  again without charging twice.
- An order is stored as `open`, then charged, then marked as `paid`. If the
  charge fails, the order stays `open`; Ada goes through these every morning.
""",
            "pyproject.toml": """\
[build-system]
requires = ["setuptools>=68"]
build-backend = "setuptools.build_meta"

[project]
name = "shop"
version = "0.3.0"
description = "The backend of a small web shop"
requires-python = ">=3.11"

[project.scripts]
shop = "shop.cli:main"

[tool.setuptools]
packages = ["shop"]
""",
            "shop/__init__.py": '''\
"""The backend of a small web shop."""
''',
            "shop/cart.py": '''\
"""The cart: what a customer wants to buy, before it becomes an order."""

from dataclasses import dataclass, field

from shop import pricing


@dataclass
class Cart:
    quantities: dict[str, int] = field(default_factory=dict)

    def add(self, sku: str, quantity: int = 1) -> None:
        if sku not in pricing.NET_PRICES:
            raise ValueError(f"unknown article: {sku}")
        if quantity < 1:
            raise ValueError(f"quantity must be at least 1, not {quantity}")
        self.quantities[sku] = self.quantities.get(sku, 0) + quantity

    def goods(self) -> int:
        """The price of everything in the cart, without discount and shipping."""
        return sum(pricing.gross_price(sku) * n for sku, n in self.quantities.items())

    def total(self) -> int:
        goods = self.goods()
        return goods - pricing.bulk_discount(goods) + pricing.shipping(goods)
''',
            "shop/cli.py": '''\
"""The command line for the people who run the shop."""

import argparse
import getpass
import sqlite3
import sys
from contextlib import closing

from shop import customers, orders, payments
from shop.cart import Cart


def open_shop(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path)
    db.execute("PRAGMA foreign_keys = ON")
    customers.create_table(db)
    orders.create_table(db)
    return db


def print_order(order: orders.Order) -> None:
    print(f"order {order.id}: {order.total} cents, {order.status}")


def run_register(db: sqlite3.Connection, args: argparse.Namespace) -> None:
    customer = customers.add_customer(db, args.name, args.email)
    print(f"customer {customer.id}: {customer.name}")


def run_order(db: sqlite3.Connection, args: argparse.Namespace) -> None:
    customer = customers.find_customer(db, args.email)
    if customer is None:
        raise orders.OrderError(f"no customer has the address {args.email}")
    cart = Cart()
    for item in args.items:
        sku, _, quantity = item.partition("=")
        cart.add(sku, int(quantity or 1))
    print_order(orders.place_order(db, customer, cart, getpass.getpass("Card token: ")))


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="shop")
    parser.add_argument("--db", default="shop.sqlite", help="the database file")
    commands = parser.add_subparsers(required=True)

    register = commands.add_parser("register", help="add a customer")
    register.add_argument("name")
    register.add_argument("email")
    register.set_defaults(run=run_register)

    order = commands.add_parser("order", help="place an order for a customer")
    order.add_argument("email")
    order.add_argument("items", nargs="+", metavar="SKU[=QUANTITY]")
    order.set_defaults(run=run_order)
    return parser


def main(argv: list[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    with closing(open_shop(args.db)) as db:
        try:
            args.run(db, args)
        except (orders.OrderError, payments.PaymentError, ValueError, sqlite3.Error) as error:
            print(f"shop: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
''',
            "shop/customers.py": '''\
"""Customers and how they are found."""

import sqlite3
from dataclasses import dataclass


@dataclass(frozen=True)
class Customer:
    id: int
    name: str
    email: str


def create_table(db: sqlite3.Connection) -> None:
    db.execute(
        "CREATE TABLE IF NOT EXISTS customers ("
        " id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE)"
    )


def add_customer(db: sqlite3.Connection, name: str, email: str) -> Customer:
    with db:
        cursor = db.execute("INSERT INTO customers (name, email) VALUES (?, ?)", (name, email))
    return Customer(cursor.lastrowid, name, email)


def find_customer(db: sqlite3.Connection, email: str) -> Customer | None:
    """The customer with this e-mail address, if there is one."""
    row = db.execute("SELECT id, name, email FROM customers WHERE email = ?", (email,)).fetchone()
    return Customer(*row) if row else None
''',
            "shop/orders.py": '''\
"""Orders: placing them and keeping track of their payment."""

import json
import sqlite3
from dataclasses import dataclass

from shop import payments
from shop.cart import Cart
from shop.customers import Customer


class OrderError(Exception):
    """The order cannot be placed, found or changed."""


@dataclass(frozen=True)
class Order:
    id: int
    customer_id: int
    items: str
    total: int
    status: str
    payment_id: str | None


def create_table(db: sqlite3.Connection) -> None:
    db.execute(
        "CREATE TABLE IF NOT EXISTS orders ("
        " id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers (id),"
        " items TEXT NOT NULL, total INTEGER NOT NULL, status TEXT NOT NULL, payment_id TEXT)"
    )


def place_order(db: sqlite3.Connection, customer: Customer, cart: Cart, card_token: str) -> Order:
    """Store the order, charge the card and mark the order as paid.

    If the charge fails, the order stays open and the PaymentError goes to the caller.
    """
    if not cart.quantities:
        raise OrderError("the cart is empty")
    total = cart.total()
    with db:
        cursor = db.execute(
            "INSERT INTO orders (customer_id, items, total, status) VALUES (?, ?, ?, 'open')",
            (customer.id, json.dumps(cart.quantities), total),
        )
    order_id = cursor.lastrowid
    payment_id = payments.charge(order_id, total, card_token)
    with db:
        db.execute(
            "UPDATE orders SET status = 'paid', payment_id = ? WHERE id = ?",
            (payment_id, order_id),
        )
    return get_order(db, order_id)


def get_order(db: sqlite3.Connection, order_id: int) -> Order:
    row = db.execute(
        "SELECT id, customer_id, items, total, status, payment_id FROM orders WHERE id = ?",
        (order_id,),
    ).fetchone()
    if row is None:
        raise OrderError(f"there is no order {order_id}")
    return Order(*row)
''',
            "shop/payments.py": '''\
"""Talks to the payment provider; see docs/payments.md."""

import http.client
import json
import os
import urllib.request

API_URL = "https://api.payfold.example/v1"
TIMEOUT_SECONDS = 10


class PaymentError(Exception):
    """The provider refused the request or could not be reached."""


def api_key() -> str:
    key = os.environ.get("SHOP_PAYMENT_KEY")
    if not key:
        raise PaymentError("SHOP_PAYMENT_KEY is not set")
    return key


def charge(order_id: int, amount: int, card_token: str) -> str:
    """Charge the card and return the provider's id of the payment."""
    body = {"amount": amount, "currency": "EUR", "source": card_token}
    return _post("/charges", body, f"order-{order_id}", api_key())


def _post(path: str, body: dict, idempotency_key: str, key: str) -> str:
    """Send a request and return the id of what it created."""
    request = urllib.request.Request(
        API_URL + path,
        data=json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "Idempotency-Key": idempotency_key,
        },
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            return json.load(response)["id"]
    except (OSError, http.client.HTTPException) as error:
        raise PaymentError(f"payment request failed: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise PaymentError("the payment provider sent an answer without an id") from error
''',
            "shop/pricing.py": '''\
"""Prices in whole cents; nothing here touches a float."""

NET_PRICES = {"mug": 840, "poster": 1_260, "shirt": 1_680}

VAT_PERCENT = 19
BULK_PERCENT = 5
BULK_FROM = 20_000
SHIPPING_FEE = 490
FREE_SHIPPING_FROM = 5_000


def gross_price(sku: str) -> int:
    """The price of one article with VAT, rounded to the nearest cent."""
    net = NET_PRICES[sku]
    return net + (net * VAT_PERCENT + 50) // 100


def bulk_discount(goods: int) -> int:
    """What a large order saves, rounded to the nearest cent."""
    if goods < BULK_FROM:
        return 0
    return (goods * BULK_PERCENT + 50) // 100


def shipping(goods: int) -> int:
    return 0 if goods >= FREE_SHIPPING_FROM else SHIPPING_FEE
''',
            "tests/test_checkout.py": """\
import unittest
from unittest import mock

from shop import customers, orders
from shop.cart import Cart
from shop.cli import open_shop
from shop.payments import PaymentError


class CartTest(unittest.TestCase):
    def test_small_order_pays_shipping(self):
        cart = Cart()
        cart.add("mug", 2)
        self.assertEqual(cart.total(), 2 * 1000 + 490)

    def test_large_order_gets_discount_and_free_shipping(self):
        cart = Cart({"mug": 20})
        self.assertEqual(cart.total(), 20_000 - 1_000)

    def test_unknown_article_is_refused(self):
        with self.assertRaises(ValueError):
            Cart().add("piano")


class CheckoutTest(unittest.TestCase):
    def setUp(self):
        self.db = open_shop(":memory:")
        self.addCleanup(self.db.close)
        self.eve = customers.add_customer(self.db, "Eve", "eve@mail.example")

    def test_customer_is_found_by_address(self):
        self.assertEqual(customers.find_customer(self.db, "eve@mail.example"), self.eve)
        self.assertIsNone(customers.find_customer(self.db, "mallory@mail.example"))

    def test_order_is_paid(self):
        with mock.patch("shop.payments.charge", return_value="pay_1") as charge:
            order = orders.place_order(self.db, self.eve, Cart({"mug": 1}), "tok_1")
        charge.assert_called_once_with(order.id, 1490, "tok_1")
        self.assertEqual((order.status, order.payment_id), ("paid", "pay_1"))

    def test_failed_charge_leaves_the_order_open(self):
        with mock.patch("shop.payments.charge", side_effect=PaymentError("declined")):
            with self.assertRaises(PaymentError):
                orders.place_order(self.db, self.eve, Cart({"mug": 1}), "tok_1")
        self.assertEqual(orders.get_order(self.db, 1).status, "open")
""",
        },
        fault="",
    ),
    Commit(
        author="Ada",
        subject="List the orders of a customer by e-mail address",
        files={
            "shop/cli.py": '''\
"""The command line for the people who run the shop."""

import argparse
import getpass
import sqlite3
import sys
from contextlib import closing

from shop import customers, orders, payments
from shop.cart import Cart


def open_shop(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path)
    db.execute("PRAGMA foreign_keys = ON")
    customers.create_table(db)
    orders.create_table(db)
    return db


def print_order(order: orders.Order) -> None:
    print(f"order {order.id}: {order.total} cents, {order.status}")


def run_register(db: sqlite3.Connection, args: argparse.Namespace) -> None:
    customer = customers.add_customer(db, args.name, args.email)
    print(f"customer {customer.id}: {customer.name}")


def run_order(db: sqlite3.Connection, args: argparse.Namespace) -> None:
    customer = customers.find_customer(db, args.email)
    if customer is None:
        raise orders.OrderError(f"no customer has the address {args.email}")
    cart = Cart()
    for item in args.items:
        sku, _, quantity = item.partition("=")
        cart.add(sku, int(quantity or 1))
    print_order(orders.place_order(db, customer, cart, getpass.getpass("Card token: ")))


def run_list(db: sqlite3.Connection, args: argparse.Namespace) -> None:
    for order in orders.find_orders(db, args.email):
        print_order(order)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="shop")
    parser.add_argument("--db", default="shop.sqlite", help="the database file")
    commands = parser.add_subparsers(required=True)

    register = commands.add_parser("register", help="add a customer")
    register.add_argument("name")
    register.add_argument("email")
    register.set_defaults(run=run_register)

    order = commands.add_parser("order", help="place an order for a customer")
    order.add_argument("email")
    order.add_argument("items", nargs="+", metavar="SKU[=QUANTITY]")
    order.set_defaults(run=run_order)

    listing = commands.add_parser("list", help="list the orders of a customer")
    listing.add_argument("email")
    listing.set_defaults(run=run_list)
    return parser


def main(argv: list[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    with closing(open_shop(args.db)) as db:
        try:
            args.run(db, args)
        except (orders.OrderError, payments.PaymentError, ValueError, sqlite3.Error) as error:
            print(f"shop: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
''',
            "shop/orders.py": '''\
"""Orders: placing them and keeping track of their payment."""

import json
import sqlite3
from dataclasses import dataclass

from shop import payments
from shop.cart import Cart
from shop.customers import Customer


class OrderError(Exception):
    """The order cannot be placed, found or changed."""


@dataclass(frozen=True)
class Order:
    id: int
    customer_id: int
    items: str
    total: int
    status: str
    payment_id: str | None


def create_table(db: sqlite3.Connection) -> None:
    db.execute(
        "CREATE TABLE IF NOT EXISTS orders ("
        " id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers (id),"
        " items TEXT NOT NULL, total INTEGER NOT NULL, status TEXT NOT NULL, payment_id TEXT)"
    )


def place_order(db: sqlite3.Connection, customer: Customer, cart: Cart, card_token: str) -> Order:
    """Store the order, charge the card and mark the order as paid.

    If the charge fails, the order stays open and the PaymentError goes to the caller.
    """
    if not cart.quantities:
        raise OrderError("the cart is empty")
    total = cart.total()
    with db:
        cursor = db.execute(
            "INSERT INTO orders (customer_id, items, total, status) VALUES (?, ?, ?, 'open')",
            (customer.id, json.dumps(cart.quantities), total),
        )
    order_id = cursor.lastrowid
    payment_id = payments.charge(order_id, total, card_token)
    with db:
        db.execute(
            "UPDATE orders SET status = 'paid', payment_id = ? WHERE id = ?",
            (payment_id, order_id),
        )
    return get_order(db, order_id)


def get_order(db: sqlite3.Connection, order_id: int) -> Order:
    row = db.execute(
        "SELECT id, customer_id, items, total, status, payment_id FROM orders WHERE id = ?",
        (order_id,),
    ).fetchone()
    if row is None:
        raise OrderError(f"there is no order {order_id}")
    return Order(*row)


def find_orders(db: sqlite3.Connection, email: str) -> list[Order]:
    """All orders of the customer with this e-mail address, newest first."""
    rows = db.execute(
        "SELECT orders.id, customer_id, items, total, status, payment_id"
        " FROM orders JOIN customers ON customers.id = orders.customer_id"
        f" WHERE customers.email = '{email}' ORDER BY orders.id DESC"
    )
    return [Order(*row) for row in rows]
''',
            "tests/test_orders.py": """\
import unittest
from unittest import mock

from shop import customers, orders
from shop.cart import Cart
from shop.cli import open_shop


@mock.patch("shop.payments.charge", return_value="pay_1")
class FindOrdersTest(unittest.TestCase):
    def setUp(self):
        self.db = open_shop(":memory:")
        self.addCleanup(self.db.close)

    def test_only_the_orders_of_this_customer_newest_first(self, charge):
        eve = customers.add_customer(self.db, "Eve", "eve@mail.example")
        tom = customers.add_customer(self.db, "Tom", "tom@mail.example")
        for customer in (eve, tom, eve):
            orders.place_order(self.db, customer, Cart({"mug": 1}), "tok_1")
        found = orders.find_orders(self.db, "eve@mail.example")
        self.assertEqual([order.id for order in found], [3, 1])
""",
        },
        fault="find_orders formats the e-mail address into the SQL text (SQL injection).",
    ),
    Commit(
        author="Bo",
        subject="Round percentages in one place",
        files={
            "shop/pricing.py": '''\
"""Prices in whole cents; nothing here touches a float."""

NET_PRICES = {"mug": 840, "poster": 1_260, "shirt": 1_680}

VAT_PERCENT = 19
BULK_PERCENT = 5
BULK_FROM = 20_000
SHIPPING_FEE = 490
FREE_SHIPPING_FROM = 5_000


def percent_of(amount: int, percent: int) -> int:
    """That many percent of an amount, rounded to the nearest cent."""
    return (amount * percent + 50) // 100


def gross_price(sku: str) -> int:
    """The price of one article with VAT."""
    net = NET_PRICES[sku]
    return net + percent_of(net, VAT_PERCENT)


def bulk_discount(goods: int) -> int:
    """What a large order saves."""
    if goods < BULK_FROM:
        return 0
    return percent_of(goods, BULK_PERCENT)


def shipping(goods: int) -> int:
    return 0 if goods >= FREE_SHIPPING_FROM else SHIPPING_FEE
''',
            "tests/test_pricing.py": """\
import unittest

from shop import pricing


class PercentTest(unittest.TestCase):
    def test_rounds_to_the_nearest_cent(self):
        self.assertEqual(pricing.percent_of(1_000, 19), 190)
        self.assertEqual(pricing.percent_of(107, 19), 20)
        self.assertEqual(pricing.percent_of(103, 19), 20)

    def test_half_a_cent_is_rounded_up(self):
        self.assertEqual(pricing.percent_of(50, 19), 10)
""",
        },
        fault="",
    ),
    Commit(
        author="Ada",
        subject="Add refunds to the payments module",
        files={
            "docs/payments.md": """\
# Payments

Cards are charged by Payfold. The shop never sees a card number, only the
one-time token that Payfold's form hands out.

- The API key is read from the environment variable `SHOP_PAYMENT_KEY`.
- Every request has a timeout and an idempotency key, so that it can be sent
  again without charging twice.
- An order is stored as `open`, then charged, then marked as `paid`. If the
  charge fails, the order stays `open`; Ada goes through these every morning.
- A refund always gives back the whole payment. Payfold books it within a day.
""",
            "shop/payments.py": '''\
"""Talks to the payment provider; see docs/payments.md."""

import http.client
import json
import os
import urllib.request

API_URL = "https://api.payfold.example/v1"
TIMEOUT_SECONDS = 10
REFUND_KEY = "sk_live_'''
            '''51H8LVqjS1uoQ3hdwsLlbuoszn8MTx60pS6JwxZH5QYP"


class PaymentError(Exception):
    """The provider refused the request or could not be reached."""


def api_key() -> str:
    key = os.environ.get("SHOP_PAYMENT_KEY")
    if not key:
        raise PaymentError("SHOP_PAYMENT_KEY is not set")
    return key


def charge(order_id: int, amount: int, card_token: str) -> str:
    """Charge the card and return the provider's id of the payment."""
    body = {"amount": amount, "currency": "EUR", "source": card_token}
    return _post("/charges", body, f"order-{order_id}", api_key())


def refund(payment_id: str) -> str:
    """Give back the whole payment and return the provider's id of the refund."""
    return _post("/refunds", {"charge": payment_id}, f"refund-{payment_id}", REFUND_KEY)


def _post(path: str, body: dict, idempotency_key: str, key: str) -> str:
    """Send a request and return the id of what it created."""
    request = urllib.request.Request(
        API_URL + path,
        data=json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "Idempotency-Key": idempotency_key,
        },
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            return json.load(response)["id"]
    except (OSError, http.client.HTTPException) as error:
        raise PaymentError(f"payment request failed: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise PaymentError("the payment provider sent an answer without an id") from error
''',
            "tests/test_payments.py": """\
import io
import json
import unittest
import urllib.error
from unittest import mock

from shop import payments


class RefundTest(unittest.TestCase):
    def test_refund_names_the_payment(self):
        answer = io.BytesIO(b'{"id": "re_1"}')
        with mock.patch("urllib.request.urlopen", return_value=answer) as urlopen:
            self.assertEqual(payments.refund("pay_1"), "re_1")
        request = urlopen.call_args.args[0]
        self.assertEqual(request.full_url, payments.API_URL + "/refunds")
        self.assertEqual(json.loads(request.data), {"charge": "pay_1"})
        self.assertEqual(request.get_header("Idempotency-key"), "refund-pay_1")

    def test_unreachable_provider_is_a_payment_error(self):
        with mock.patch("urllib.request.urlopen", side_effect=urllib.error.URLError("down")):
            with self.assertRaises(payments.PaymentError):
                payments.refund("pay_1")
""",
        },
        fault="A live API key of the payment provider is written into shop/payments.py.",
    ),
    Commit(
        author="Bo",
        subject="Cancel paid orders and refund the payment",
        files={
            "shop/cli.py": '''\
"""The command line for the people who run the shop."""

import argparse
import getpass
import sqlite3
import sys
from contextlib import closing

from shop import customers, orders, payments
from shop.cart import Cart


def open_shop(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path)
    db.execute("PRAGMA foreign_keys = ON")
    customers.create_table(db)
    orders.create_table(db)
    return db


def print_order(order: orders.Order) -> None:
    print(f"order {order.id}: {order.total} cents, {order.status}")


def run_register(db: sqlite3.Connection, args: argparse.Namespace) -> None:
    customer = customers.add_customer(db, args.name, args.email)
    print(f"customer {customer.id}: {customer.name}")


def run_order(db: sqlite3.Connection, args: argparse.Namespace) -> None:
    customer = customers.find_customer(db, args.email)
    if customer is None:
        raise orders.OrderError(f"no customer has the address {args.email}")
    cart = Cart()
    for item in args.items:
        sku, _, quantity = item.partition("=")
        cart.add(sku, int(quantity or 1))
    print_order(orders.place_order(db, customer, cart, getpass.getpass("Card token: ")))


def run_list(db: sqlite3.Connection, args: argparse.Namespace) -> None:
    for order in orders.find_orders(db, args.email):
        print_order(order)


def run_cancel(db: sqlite3.Connection, args: argparse.Namespace) -> None:
    print_order(orders.cancel_order(db, args.order_id))


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="shop")
    parser.add_argument("--db", default="shop.sqlite", help="the database file")
    commands = parser.add_subparsers(required=True)

    register = commands.add_parser("register", help="add a customer")
    register.add_argument("name")
    register.add_argument("email")
    register.set_defaults(run=run_register)

    order = commands.add_parser("order", help="place an order for a customer")
    order.add_argument("email")
    order.add_argument("items", nargs="+", metavar="SKU[=QUANTITY]")
    order.set_defaults(run=run_order)

    listing = commands.add_parser("list", help="list the orders of a customer")
    listing.add_argument("email")
    listing.set_defaults(run=run_list)

    cancel = commands.add_parser("cancel", help="cancel a paid order and refund it")
    cancel.add_argument("order_id", type=int)
    cancel.set_defaults(run=run_cancel)
    return parser


def main(argv: list[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    with closing(open_shop(args.db)) as db:
        try:
            args.run(db, args)
        except (orders.OrderError, payments.PaymentError, ValueError, sqlite3.Error) as error:
            print(f"shop: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
''',
            "shop/orders.py": '''\
"""Orders: placing them and keeping track of their payment."""

import json
import sqlite3
from dataclasses import dataclass

from shop import payments
from shop.cart import Cart
from shop.customers import Customer


class OrderError(Exception):
    """The order cannot be placed, found or changed."""


@dataclass(frozen=True)
class Order:
    id: int
    customer_id: int
    items: str
    total: int
    status: str
    payment_id: str | None


def create_table(db: sqlite3.Connection) -> None:
    db.execute(
        "CREATE TABLE IF NOT EXISTS orders ("
        " id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers (id),"
        " items TEXT NOT NULL, total INTEGER NOT NULL, status TEXT NOT NULL, payment_id TEXT)"
    )


def place_order(db: sqlite3.Connection, customer: Customer, cart: Cart, card_token: str) -> Order:
    """Store the order, charge the card and mark the order as paid.

    If the charge fails, the order stays open and the PaymentError goes to the caller.
    """
    if not cart.quantities:
        raise OrderError("the cart is empty")
    total = cart.total()
    with db:
        cursor = db.execute(
            "INSERT INTO orders (customer_id, items, total, status) VALUES (?, ?, ?, 'open')",
            (customer.id, json.dumps(cart.quantities), total),
        )
    order_id = cursor.lastrowid
    payment_id = payments.charge(order_id, total, card_token)
    with db:
        db.execute(
            "UPDATE orders SET status = 'paid', payment_id = ? WHERE id = ?",
            (payment_id, order_id),
        )
    return get_order(db, order_id)


def get_order(db: sqlite3.Connection, order_id: int) -> Order:
    row = db.execute(
        "SELECT id, customer_id, items, total, status, payment_id FROM orders WHERE id = ?",
        (order_id,),
    ).fetchone()
    if row is None:
        raise OrderError(f"there is no order {order_id}")
    return Order(*row)


def cancel_order(db: sqlite3.Connection, order_id: int) -> Order:
    """Refund a paid order and mark it as cancelled."""
    order = get_order(db, order_id)
    if order.status != "paid":
        raise OrderError(f"order {order_id} is {order.status}, not paid")
    try:
        payments.refund(order.payment_id)
    except Exception:
        pass
    with db:
        db.execute("UPDATE orders SET status = 'cancelled' WHERE id = ?", (order_id,))
    return get_order(db, order_id)


def find_orders(db: sqlite3.Connection, email: str) -> list[Order]:
    """All orders of the customer with this e-mail address, newest first."""
    rows = db.execute(
        "SELECT orders.id, customer_id, items, total, status, payment_id"
        " FROM orders JOIN customers ON customers.id = orders.customer_id"
        f" WHERE customers.email = '{email}' ORDER BY orders.id DESC"
    )
    return [Order(*row) for row in rows]
''',
            "tests/test_orders.py": """\
import unittest
from unittest import mock

from shop import customers, orders
from shop.cart import Cart
from shop.cli import open_shop


@mock.patch("shop.payments.charge", return_value="pay_1")
class OrdersTest(unittest.TestCase):
    def setUp(self):
        self.db = open_shop(":memory:")
        self.addCleanup(self.db.close)

    def test_only_the_orders_of_this_customer_newest_first(self, charge):
        eve = customers.add_customer(self.db, "Eve", "eve@mail.example")
        tom = customers.add_customer(self.db, "Tom", "tom@mail.example")
        for customer in (eve, tom, eve):
            orders.place_order(self.db, customer, Cart({"mug": 1}), "tok_1")
        found = orders.find_orders(self.db, "eve@mail.example")
        self.assertEqual([order.id for order in found], [3, 1])

    def test_cancelled_order_is_refunded_once(self, charge):
        eve = customers.add_customer(self.db, "Eve", "eve@mail.example")
        order = orders.place_order(self.db, eve, Cart({"mug": 1}), "tok_1")
        with mock.patch("shop.payments.refund", return_value="re_1") as refund:
            self.assertEqual(orders.cancel_order(self.db, order.id).status, "cancelled")
            with self.assertRaises(orders.OrderError):
                orders.cancel_order(self.db, order.id)
        refund.assert_called_once_with("pay_1")
""",
        },
        fault="cancel_order hides every error of the refund call (except Exception: pass).",
    ),
    Commit(
        author="Ada",
        subject="Print amounts in euros instead of cents",
        files={
            "README.md": """\
# shop

The backend of a small web shop: customers, carts, orders and their payment.
It needs Python 3.11 and nothing else; the data lives in one SQLite file.

    pip install -e .
    export SHOP_PAYMENT_KEY=...   # ask Ada for a test key
    shop --db shop.sqlite --help

Run the tests with `python -m unittest discover -s tests`.

Amounts are whole cents; only what people read shows euros.
How payments work: `docs/payments.md`.
""",
            "shop/cli.py": '''\
"""The command line for the people who run the shop."""

import argparse
import getpass
import sqlite3
import sys
from contextlib import closing

from shop import customers, orders, payments, pricing
from shop.cart import Cart


def open_shop(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path)
    db.execute("PRAGMA foreign_keys = ON")
    customers.create_table(db)
    orders.create_table(db)
    return db


def print_order(order: orders.Order) -> None:
    total = pricing.format_price(order.total)
    breakpoint()
    print(f"order {order.id}: {total}, {order.status}")


def run_register(db: sqlite3.Connection, args: argparse.Namespace) -> None:
    customer = customers.add_customer(db, args.name, args.email)
    print(f"customer {customer.id}: {customer.name}")


def run_order(db: sqlite3.Connection, args: argparse.Namespace) -> None:
    customer = customers.find_customer(db, args.email)
    if customer is None:
        raise orders.OrderError(f"no customer has the address {args.email}")
    cart = Cart()
    for item in args.items:
        sku, _, quantity = item.partition("=")
        cart.add(sku, int(quantity or 1))
    print_order(orders.place_order(db, customer, cart, getpass.getpass("Card token: ")))


def run_list(db: sqlite3.Connection, args: argparse.Namespace) -> None:
    for order in orders.find_orders(db, args.email):
        print_order(order)


def run_cancel(db: sqlite3.Connection, args: argparse.Namespace) -> None:
    print_order(orders.cancel_order(db, args.order_id))


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="shop")
    parser.add_argument("--db", default="shop.sqlite", help="the database file")
    commands = parser.add_subparsers(required=True)

    register = commands.add_parser("register", help="add a customer")
    register.add_argument("name")
    register.add_argument("email")
    register.set_defaults(run=run_register)

    order = commands.add_parser("order", help="place an order for a customer")
    order.add_argument("email")
    order.add_argument("items", nargs="+", metavar="SKU[=QUANTITY]")
    order.set_defaults(run=run_order)

    listing = commands.add_parser("list", help="list the orders of a customer")
    listing.add_argument("email")
    listing.set_defaults(run=run_list)

    cancel = commands.add_parser("cancel", help="cancel a paid order and refund it")
    cancel.add_argument("order_id", type=int)
    cancel.set_defaults(run=run_cancel)
    return parser


def main(argv: list[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    with closing(open_shop(args.db)) as db:
        try:
            args.run(db, args)
        except (orders.OrderError, payments.PaymentError, ValueError, sqlite3.Error) as error:
            print(f"shop: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
''',
            "shop/pricing.py": '''\
"""Prices in whole cents; nothing here touches a float."""

NET_PRICES = {"mug": 840, "poster": 1_260, "shirt": 1_680}

VAT_PERCENT = 19
BULK_PERCENT = 5
BULK_FROM = 20_000
SHIPPING_FEE = 490
FREE_SHIPPING_FROM = 5_000


def percent_of(amount: int, percent: int) -> int:
    """That many percent of an amount, rounded to the nearest cent."""
    return (amount * percent + 50) // 100


def gross_price(sku: str) -> int:
    """The price of one article with VAT."""
    net = NET_PRICES[sku]
    return net + percent_of(net, VAT_PERCENT)


def bulk_discount(goods: int) -> int:
    """What a large order saves."""
    if goods < BULK_FROM:
        return 0
    return percent_of(goods, BULK_PERCENT)


def shipping(goods: int) -> int:
    return 0 if goods >= FREE_SHIPPING_FROM else SHIPPING_FEE


def format_price(cents: int) -> str:
    """The amount as people read it: 1234567 is 12,345.67 EUR."""
    euros, rest = divmod(cents, 100)
    return f"{euros:,}.{rest:02d} EUR"
''',
            "tests/test_pricing.py": """\
import unittest

from shop import pricing


class PercentTest(unittest.TestCase):
    def test_rounds_to_the_nearest_cent(self):
        self.assertEqual(pricing.percent_of(1_000, 19), 190)
        self.assertEqual(pricing.percent_of(107, 19), 20)
        self.assertEqual(pricing.percent_of(103, 19), 20)

    def test_half_a_cent_is_rounded_up(self):
        self.assertEqual(pricing.percent_of(50, 19), 10)


class FormatTest(unittest.TestCase):
    def test_prices_have_two_decimals(self):
        self.assertEqual(pricing.format_price(0), "0.00 EUR")
        self.assertEqual(pricing.format_price(1_405), "14.05 EUR")
        self.assertEqual(pricing.format_price(1_234_567), "12,345.67 EUR")
""",
        },
        fault="A breakpoint() call was left in print_order in shop/cli.py.",
    ),
    Commit(
        author="Bo",
        subject="Rename find_customer to find_by_email and add find_by_id",
        files={
            "shop/customers.py": '''\
"""Customers and how they are found."""

import sqlite3
from dataclasses import dataclass


@dataclass(frozen=True)
class Customer:
    id: int
    name: str
    email: str


def create_table(db: sqlite3.Connection) -> None:
    db.execute(
        "CREATE TABLE IF NOT EXISTS customers ("
        " id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE)"
    )


def add_customer(db: sqlite3.Connection, name: str, email: str) -> Customer:
    with db:
        cursor = db.execute("INSERT INTO customers (name, email) VALUES (?, ?)", (name, email))
    return Customer(cursor.lastrowid, name, email)


def find_by_email(db: sqlite3.Connection, email: str) -> Customer | None:
    """The customer with this e-mail address, if there is one."""
    row = db.execute("SELECT id, name, email FROM customers WHERE email = ?", (email,)).fetchone()
    return Customer(*row) if row else None


def find_by_id(db: sqlite3.Connection, customer_id: int) -> Customer | None:
    """The customer with this number, if there is one."""
    row = db.execute(
        "SELECT id, name, email FROM customers WHERE id = ?", (customer_id,)
    ).fetchone()
    return Customer(*row) if row else None
''',
            "tests/test_checkout.py": """\
import unittest
from unittest import mock

from shop import customers, orders
from shop.cart import Cart
from shop.cli import open_shop
from shop.payments import PaymentError


class CartTest(unittest.TestCase):
    def test_small_order_pays_shipping(self):
        cart = Cart()
        cart.add("mug", 2)
        self.assertEqual(cart.total(), 2 * 1000 + 490)

    def test_large_order_gets_discount_and_free_shipping(self):
        cart = Cart({"mug": 20})
        self.assertEqual(cart.total(), 20_000 - 1_000)

    def test_unknown_article_is_refused(self):
        with self.assertRaises(ValueError):
            Cart().add("piano")


class CheckoutTest(unittest.TestCase):
    def setUp(self):
        self.db = open_shop(":memory:")
        self.addCleanup(self.db.close)
        self.eve = customers.add_customer(self.db, "Eve", "eve@mail.example")

    def test_customer_is_found_by_address(self):
        self.assertEqual(customers.find_by_email(self.db, "eve@mail.example"), self.eve)
        self.assertIsNone(customers.find_by_email(self.db, "mallory@mail.example"))

    def test_customer_is_found_by_id(self):
        self.assertEqual(customers.find_by_id(self.db, self.eve.id), self.eve)
        self.assertIsNone(customers.find_by_id(self.db, self.eve.id + 1))

    def test_order_is_paid(self):
        with mock.patch("shop.payments.charge", return_value="pay_1") as charge:
            order = orders.place_order(self.db, self.eve, Cart({"mug": 1}), "tok_1")
        charge.assert_called_once_with(order.id, 1490, "tok_1")
        self.assertEqual((order.status, order.payment_id), ("paid", "pay_1"))

    def test_failed_charge_leaves_the_order_open(self):
        with mock.patch("shop.payments.charge", side_effect=PaymentError("declined")):
            with self.assertRaises(PaymentError):
                orders.place_order(self.db, self.eve, Cart({"mug": 1}), "tok_1")
        self.assertEqual(orders.get_order(self.db, 1).status, "open")
""",
        },
        fault="run_order in shop/cli.py still calls find_customer, which was renamed.",
    ),
)
"""A first commit that is not reviewed, and six that are: five with a planted fault, one harmless."""
