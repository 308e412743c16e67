"""A small shop for tests of the review pipeline: six commits, small enough to know by heart."""

from reprieve.testing.sample import Commit

HISTORY = (
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
