"""Names that a change removes while the tree still uses them, and calls that no longer fit."""

from contextlib import nullcontext

import pytest

from reprieve.review.critic import facts, names
from reprieve.review.critic.facts import check_change
from reprieve.review.critic.names import CHECKS
from reprieve.review.critic.parsing import ParserChild
from support.change_sets import change_between

USE = "src/shop/views.py"
PACKAGE = {"src/shop/__init__.py": ""}


@pytest.fixture(scope="module")
def child():
    with ParserChild() as child:
        yield child


@pytest.fixture(autouse=True)
def _one_child_for_all(child, monkeypatch):
    """A child for each check would be most of the time that these tests take."""
    for module in (facts, names):
        monkeypatch.setattr(module, "ParserChild", lambda: nullcontext(child))


def findings(before, after, **options):
    report = check_change(change_between(before, after, **options), checks=CHECKS)
    assert "not checked" not in report.scope
    return report.findings


def places(before, after, **options):
    return [place for each in findings(before, after, **options) for place in (each.place, *each.also)]


def removal(use, *, old="def total(items): return sum(items)\n", new="", path=USE):
    """Where a removal from src/shop/prices.py is reported, with one file that uses the module."""
    before = {**PACKAGE, "src/shop/prices.py": old, path: use}
    return places(before, {**before, "src/shop/prices.py": new})


@pytest.mark.parametrize(
    ("use", "line"),
    [
        ("from shop.prices import total\n", 1),
        ("from shop.prices import (\n    other,\n    total,\n)\n", 3),
        ("from .prices import total as t\nt([1])\n", 1),
        ("import shop.prices\n\nshop.prices.total([1])\n", 3),
        ("import shop.prices as p\n\np.total([1])\n", 3),
        ("from shop import prices\n\ndef f():\n    return prices.total([1])\n", 4),
        ("from . import prices\nprices.total([1])\n", 2),
        ("from unittest.mock import patch\n\npatch('shop.prices.total')\n", 3),
    ],
)
def test_a_use_of_a_removed_function_is_reported_at_its_line(use, line):
    assert removal(use) == [f"{USE}:{line}"]


@pytest.mark.parametrize(
    "use",
    [
        "from shop.prices import other\n",
        "from third_party.prices import total\n",
        "total = 3\nprint(total)\n",
        "from shop import prices\n\ndef f(prices):\n    return prices.total([1])\n",
        "try:\n    from shop.prices import total\nexcept ImportError:\n    total = None\n",
        "import shop.prices as p\n\nif hasattr(p, 'total'):\n    p.total([1])\n",
        "from unittest.mock import patch\n\npatch('shop.prices.total', create=True)\n",
        "# from shop.prices import total\n",
    ],
)
def test_a_use_of_something_else_is_not_reported(use):
    assert removal(use) == []


@pytest.mark.parametrize(
    "new",
    [
        "from shop.sums import total\n",
        "from shop.sums import *\n",
        "def __getattr__(name): return sum\n",
        "if FAST:\n    def total(items): return 0\nelse:\n    def total(items): return 1\n",
        "total = sum\n",
        "def total(items: list) -> int: return sum(items)\n",
        "def broken(:\n",
    ],
)
def test_a_module_that_still_provides_the_name_is_not_reported(new):
    assert removal("from shop.prices import total\n", new=new) == []


@pytest.mark.parametrize(
    ("old", "name"),
    [("class Price: ...\n", "Price"), ("LIMIT = 3\n", "LIMIT"), ("from shop.base import Money\n", "Money")],
)
def test_classes_constants_and_reexports_count(old, name):
    assert removal(f"from shop.prices import {name}\n", old=old) == [f"{USE}:1"]


def test_a_removed_reexport_is_explained_with_its_source():
    before = {
        "shop/__init__.py": "from .prices import total\n",
        "shop/prices.py": "def total(): return 1\n",
        "app.py": "from shop import total\n",
    }
    (found,) = findings(before, {**before, "shop/__init__.py": ""})
    assert (found.place, "take it from shop/prices.py" in found.comment) == ("app.py:1", True)


def test_a_module_that_is_moved_and_edited_is_reported_once():
    others = {"shop/__init__.py": "", "app.py": "from shop.prices import x\n"}
    before = {**others, "shop/prices.py": "x = 1\ny = 2\n"}
    after = {**others, "shop/costs.py": "y = 2\n"}
    assert places(before, after, renamed={"shop/prices.py": "shop/costs.py"}) == ["app.py:1"]


def test_a_rename_is_named():
    body = "def {}(items):\n    found = sum(items)\n    log(found)\n    return found\n"
    before = {
        "shop/__init__.py": "",
        "shop/prices.py": body.format("total"),
        "app.py": "from shop.prices import total\n",
    }
    (found,) = findings(before, {**before, "shop/prices.py": body.format("total_of")})
    assert "use `total_of`" in found.comment


def test_a_move_is_named():
    body = "def total(items):\n    found = sum(items)\n    return found\n"
    before = {"shop/__init__.py": "", "shop/prices.py": body, "app.py": "from shop.prices import total\n"}
    (found,) = findings(before, {**before, "shop/prices.py": "", "shop/sums.py": body})
    assert "take it from shop/sums.py" in found.comment


def test_a_use_in_the_same_module_is_reported():
    before = {"shop.py": "def total(): return 1\n\ndef f():\n    return total()\n"}
    assert places(before, {"shop.py": "def f():\n    return total()\n"}) == ["shop.py:2"]


def test_modules_of_the_same_name_are_not_confused():
    before = {
        "a/__init__.py": "", "a/prices.py": "def total(): return 1\n",
        "b/__init__.py": "", "b/prices.py": "def total(): return 1\n",
        "app.py": "from b.prices import total\n",
    }  # fmt: skip
    assert places(before, {**before, "a/prices.py": ""}) == []


def test_an_ambiguous_module_is_not_reported():
    before = {
        "one/src/shop/__init__.py": "", "one/src/shop/prices.py": "def total(): return 1\n",
        "two/src/shop/__init__.py": "", "two/src/shop/prices.py": "def total(): return 1\n",
        "app.py": "from shop.prices import total\n",
    }  # fmt: skip
    assert places(before, {**before, "one/src/shop/prices.py": ""}) == []


def test_a_module_inside_a_package_is_not_a_top_level_module():
    before = {
        "app/__init__.py": "", "app/shop/__init__.py": "", "app/shop/prices.py": "def total(): return 1\n",
        "app/views.py": "from shop.prices import total\n",
    }  # fmt: skip
    assert places(before, {**before, "app/shop/prices.py": ""}) == []


def test_a_name_that_a_moved_module_never_defined_is_not_reported():
    use = {"app.py": "from shop.prices import late\n"}
    before = {**use, "shop/__init__.py": "", "shop/prices.py": "x = 1\n"}
    after = {**use, "src/shop/__init__.py": "", "src/shop/prices.py": "x = 1\n"}
    assert places(before, after, renamed={"shop/prices.py": "src/shop/prices.py"}) == []


def test_the_use_in_a_package_that_reexports_is_reported():
    before = {
        "shop/__init__.py": "from .prices import total\n",
        "shop/prices.py": "def total(): return 1\n",
        "app.py": "from shop import total\n",
    }
    assert places(before, {**before, "shop/prices.py": ""}) == ["shop/__init__.py:1"]


@pytest.mark.parametrize("use", ["import shop.prices", "from shop import prices", "import shop.prices as x"])
def test_an_import_of_a_deleted_module_is_reported(use):
    before = {"shop/__init__.py": "", "shop/prices.py": "x = 1\n", "app.py": use}
    assert places(before, {"shop/__init__.py": "", "app.py": use}) == ["app.py:1"]


def test_an_import_of_a_moved_module_is_reported_with_its_new_place():
    before = {"shop/__init__.py": "", "shop/prices.py": "x = 1\n", "app.py": "from shop.prices import x\n"}
    after = {"shop/__init__.py": "", "shop/costs.py": "x = 1\n", "app.py": before["app.py"]}
    (found,) = findings(before, after, renamed={"shop/prices.py": "shop/costs.py"})
    assert found.place == "app.py:1"
    assert "shop/costs.py" in found.comment


@pytest.mark.parametrize(
    "now",
    [
        {"shop/prices/__init__.py": "x = 1\n"},
        {"src/shop/__init__.py": "", "src/shop/prices.py": "x = 1\n"},
        {"shop/prices.pyx": "x = 1\n"},
        {".gitignore": "prices.py\n"},
    ],
)
def test_a_module_that_is_provided_in_another_way_is_not_reported(now):
    before = {"shop/__init__.py": "", "shop/prices.py": "x = 1\n", "app.py": "from shop.prices import x\n"}
    package = {} if "src/shop/__init__.py" in now else {"shop/__init__.py": ""}
    assert places(before, {"app.py": before["app.py"], **package, **now}) == []


CLASS = "class Job{bases}:\n    def _load(self): return 1\n    def run(self): return self._load()\n"


@pytest.mark.parametrize(
    ("bases", "more", "expected"),
    [
        ("", "", ["jobs.py:2"]),
        ("(Base)", "", []),
        ("", "    def __getattr__(self, name): return print\n", []),
        ("", "    def set(self): self._load = print\n", []),
        ("", "    _load = print\n", []),
    ],
)
def test_a_removed_method_is_reported_where_nothing_else_provides_it(bases, more, expected):
    old = CLASS.format(bases=bases) + more
    new = old.replace("    def _load(self): return 1\n", "")
    assert places({"jobs.py": old}, {"jobs.py": new}) == expected


def test_a_method_that_a_subclass_provides_is_not_reported():
    old = CLASS.format(bases="")
    child = "from jobs import Job\n\nclass Quick(Job):\n    def _load(self): return 2\n"
    new = old.replace("    def _load(self): return 1\n", "")
    assert places({"jobs.py": old, "quick.py": child}, {"jobs.py": new, "quick.py": child}) == []


def signature_change(old, new, call):
    use = f"from shop.prices import total\n\n{call}\n"
    before = {**PACKAGE, "src/shop/prices.py": f"{old}\n", USE: use}
    return places(before, {**before, "src/shop/prices.py": f"{new}\n"})


@pytest.mark.parametrize(
    ("old", "new", "call"),
    [
        ("def total(a): return a", "def total(a, b): return a", "total(1)"),
        ("def total(a, b=1): return a", "def total(a): return a", "total(1, b=2)"),
        ("def total(a, b=1): return a", "def total(a): return a", "total(1, 2)"),
        ("def total(a, b=1): return a", "def total(a, *, b=1): return a", "total(1, 2)"),
        ("def total(a): return a", "def total(c): return c", "total(a=1)"),
        ("async def total(a): return a", "async def total(a, b): return a", "total(1)"),
        ("class total:\n    def __init__(self, a): self.a = a",
         "class total:\n    def __init__(self, a, b): self.a = a", "total(1)"),
        ("class total:\n    @staticmethod\n    def of(a): return a",
         "class total:\n    @staticmethod\n    def of(a, b): return a", "total.of(1)"),
        ("class total:\n    @classmethod\n    def of(cls, a): return a",
         "class total:\n    @classmethod\n    def of(cls, a, b): return a", "total.of(1)"),
    ],
)  # fmt: skip
def test_a_call_that_no_longer_fits_is_reported(old, new, call):
    assert signature_change(old, new, call) == [f"{USE}:3"]


@pytest.mark.parametrize(
    ("old", "new", "call"),
    [
        ("def total(a): return a", "def total(a, b=1): return a", "total(1)"),
        ("def total(a): return a", "def total(a, *rest): return a", "total(1)"),
        ("def total(a): return a", "def total(a, **others): return a", "total(a=1)"),
        ("def total(a): return a", "def total(a, b): return a", "total(*items)"),
        ("def total(a): return a", "def total(a, b): return a", "total(**items)"),
        ("def total(a): return a", "def total(a, b): return a", "total(1, 2)"),
        ("def total(a): return a", "def total(a, b): return a", "total()"),
        ("def total(a): return a", "def total(a, b): return a", "callback = total"),
        ("@task\ndef total(a): return a", "@task\ndef total(a, b): return a", "total(1)"),
        ("def total(a): return a", "@task\ndef total(a, b): return a", "total(1)"),
        ("def total(a): return a", "def total(a, b): return a\ntotal = task(total)", "total(1)"),
        ("def total(a): return a", "def total(a, b): return a",
         "with pytest.raises(TypeError):\n    total(1)"),
        ("class total(Enum):\n    def __init__(self, a): self.a = a",
         "class total(Enum):\n    def __init__(self, a, b): self.a = a", "total(1)"),
        ("@dataclass\nclass total:\n    def __init__(self, a): self.a = a",
         "@dataclass\nclass total:\n    def __init__(self, a, b): self.a = a", "total(1)"),
    ],
)  # fmt: skip
def test_a_call_that_may_fit_is_not_reported(old, new, call):
    assert signature_change(old, new, call) == []


def test_a_call_through_self_is_reported():
    old = "class Job:\n    def run(self):\n        self.load(1)\n    def load(self, a): return a\n"
    new = old.replace("(self, a)", "(self, a, b)")
    (found,) = findings({"jobs.py": old}, {"jobs.py": new})
    assert (found.rule, found.place) == ("changed-signature", "jobs.py:3")
    assert "`b` is missing" in found.comment


def test_a_call_through_a_reexport_is_reported():
    before = {
        "shop/__init__.py": "from .prices import total\n",
        "shop/prices.py": "def total(a): return a\n",
        "app.py": "from shop import total\n\ntotal(1)\n",
    }
    assert places(before, {**before, "shop/prices.py": "def total(a, b): return a\n"}) == ["app.py:3"]


NEW_CALLS = [
    ("def total(a, b): return a\n\ntotal(1)\n", "`b` is missing"),
    ("def total(a): return a\n\ntotal(1, 2)\n", "2 positional arguments where 1 are accepted"),
    ("def total(a): return a\n\ntotal(1, b=2)\n", "no parameter `b`"),
    ("async def total(a): return a\n\nasync def f(): await total()\n", "`a` is missing"),
    ("class Job:\n    def load(self, a): return a\n    def run(self): self.load()\n", "`a` is missing"),
    ("class Job:\n    def load(self, a): return a\n    def run(self): self.load(1, 2)\n", "2 positional"),
    ("class Job(object):\n    @staticmethod\n    def of(a): return a\n    def run(self): self.of()\n", "`a`"),
    ("class Job:\n    def __init__(self, a): self.a = a\n\njob = Job()\n", "`a` is missing"),
]


@pytest.mark.parametrize(("new", "reason"), NEW_CALLS)
@pytest.mark.parametrize("old", [{}, {"jobs.py": "import os\n"}])
def test_a_call_that_does_not_fit_a_new_definition_is_reported(old, new, reason):
    (found,) = findings(old, {"jobs.py": new})
    assert (found.rule, "is new" in found.comment) == ("changed-signature", True)
    assert reason in found.comment


def test_a_call_of_a_new_function_in_place_of_a_nested_one_is_reported():
    old = "def f(a):\n    def total(): return a\n    return total()\n"
    new = "def f(a):\n    return total()\n\ndef total(a): return a\n"
    assert places({"jobs.py": old}, {"jobs.py": new}) == ["jobs.py:2"]


def test_a_call_of_a_new_function_that_is_imported_is_reported():
    new = {**PACKAGE, "src/shop/sums.py": "def total(a): return a\n"}
    assert places(PACKAGE, {**new, USE: "from shop.sums import total\n\ntotal()\n"}) == [f"{USE}:3"]


@pytest.mark.parametrize(
    "new",
    [
        "def total(a, b=1): return a\n\ntotal(1)\n",
        "def total(a, b): return a\n\ntotal(*items)\n",
        "@task\ndef total(a, b): return a\n\ntotal(1)\n",
        "def total(a, b): return a\ntotal = partial(total, 1)\n\ntotal(1)\n",
        "def total(a, b): return a\n\ndef f(total): return total(1)\n",
        "def total(a, b): return a\n\ndef f():\n    from shop.sums import total\n    total(1)\n",
        "if FAST:\n    def total(a, b): return a\n\ntotal(1)\n",
        "def total(a, b): raise NotImplementedError\n\ntotal(1)\n",
        "def total(a, b): return a\n\nwith pytest.raises(TypeError):\n    total(1)\n",
        "from sums import *\n\ndef total(a, b): return a\n\ntotal(1)\n",
        "class Job(Base):\n    def load(self, a): return a\n    def run(self): self.load()\n",
        "class Job:\n    def load(self, a): return a\n    def run(self, other): other.load()\n",
        "class Job:\n    def load(self, a): return a\n    def run(self):\n        self.load = f\n        self.load()\n",
        "class Job:\n    def load(self): return 1\n    @classmethod\n    def run(cls, job): cls.load(job)\n",
        "@dataclass\nclass Job:\n    a: int = 0\n\nJob(1)\n",
        "class Job(Base):\n    def __init__(self, a): self.a = a\n\nJob()\n",
        "class Job:\n    def __new__(cls, *args): return super().__new__(cls)\n\nJob(1)\n",
    ],
)
def test_a_call_that_may_fit_a_new_definition_is_not_reported(new):
    assert places({"jobs.py": "import os\n"}, {"jobs.py": new}) == []


def test_a_function_that_is_only_moved_is_not_new():
    before = {"jobs.py": "def total(a): return a\n\ntotal()\n", "sums.py": "x = 1\n"}
    after = {"jobs.py": "from sums import total\n\ntotal()\n", "sums.py": "x = 1\ndef total(a): return a\n"}
    assert places(before, after) == []


@pytest.mark.parametrize(
    ("old", "use"),
    [
        ("export function total() {}\n", "import { total } from './prices';\n"),
        ("export const total = 1;\n", "import def, { other, total as t } from './prices';\n"),
        ("export interface total {}\n", "import type { total } from './prices';\n"),
        ("const total = 1;\nexport { other, total };\n", "export { total } from './prices';\n"),
    ],
)
@pytest.mark.parametrize("path", ["web/prices.ts", "web/prices/index.ts"])
def test_a_removed_export_is_reported_where_it_is_imported(old, use, path):
    before = {path: old, "web/app.ts": use}
    assert places(before, {**before, path: "export const other = 1;\n"}) == ["web/app.ts:1"]


@pytest.mark.parametrize(
    ("new", "use"),
    [
        ("export const total = 2;\n", "import { total } from './prices';\n"),
        ("export * from './sums';\n", "import { total } from './prices';\n"),
        ("export { sum as total } from './sums';\n", "import { total } from './prices';\n"),
        ("export const { total, other } = sums;\n", "import { total } from './prices';\n"),
        ("", "import { total } from './other';\n"),
        ("", "import { total } from 'prices';\n"),
        ("", "// import { total } from './prices';\n"),
        ("", "import { other as total } from './prices';\n"),
    ],
)
def test_an_import_that_finds_its_export_is_not_reported(new, use):
    before = {"web/prices.ts": "export function total() {}\n", "web/app.ts": use}
    assert places(before, {**before, "web/prices.ts": new}) == []


def test_an_import_with_the_compiled_suffix_is_reported():
    use = "import { total } from './prices.js';\n"
    before = {"web/prices.ts": "export const total = 1;\n", "web/app.ts": use}
    assert places(before, {**before, "web/prices.ts": ""}) == ["web/app.ts:1"]


def test_an_import_of_a_deleted_script_is_reported():
    before = {"web/prices.js": "export default 1;\n", "web/app.js": "import prices from './prices';\n"}
    assert places(before, {"web/app.js": before["web/app.js"]}) == ["web/app.js:1"]


SCRIPT_LOADS = [
    "const prices = require('./prices');\n",
    "const { total } = require('../web/prices.js');\n",
    "import * as prices from './prices';\n",
    "export * from './prices.js';\n",
    "const late = () => import(/* webpackChunkName: 'prices' */ './prices');\n",
    "jest.mock('./prices', () => ({ total: 1 }));\n",
    "const path = require.resolve('./prices');\n",
]


@pytest.mark.parametrize("use", SCRIPT_LOADS)
@pytest.mark.parametrize("after", [{}, {"web/costs.js": "exports.total = 1;\n"}])
def test_a_load_of_a_script_that_is_gone_is_reported(use, after):
    before = {"web/prices.js": "exports.total = 1;\n", "web/app.js": f"'use strict';\n{use}"}
    renamed = {"web/prices.js": "web/costs.js"} if after else {}
    assert places(before, {"web/app.js": before["web/app.js"], **after}, renamed=renamed) == ["web/app.js:2"]


@pytest.mark.parametrize(
    ("use", "now"),
    [
        ("const prices = require('./prices');\n", {"web/prices.json": "{}"}),
        ("const prices = require('./prices');\n", {"web/prices/index.js": "exports.total = 1;\n"}),
        ("const prices = require('./prices');\n", {"web/prices/package.json": "{}"}),
        ("const prices = require('./prices');\n", {".gitignore": "prices.js\n"}),
        ("const prices = require('prices');\n", {}),
        ("const prices = require('./lib/prices');\n", {}),
        ("const prices = loader.require('./prices');\n", {}),
        ("// const prices = require('./prices');\n", {}),
        ("const text = \"require('./prices')\";\n", {}),
        ("try {\n  prices = require('./prices');\n} catch (error) {}\n", {}),
        ("import('./prices').catch(() => null);\n", {}),
        ("jest.mock('./prices', () => ({}), { virtual: true });\n", {}),
    ],
)
def test_a_load_that_may_succeed_is_not_reported(use, now):
    before = {"web/prices.js": "exports.total = 1;\n", "web/app.js": use}
    assert places(before, {"web/app.js": use, **now}) == []


def test_a_load_from_a_folder_of_test_data_is_not_reported():
    before = {"web/prices.js": "exports.total = 1;\n", "test/fixtures/app.js": "require('../../web/prices');\n"}
    assert places(before, {"test/fixtures/app.js": before["test/fixtures/app.js"]}) == []


def test_scripts_that_move_together_are_not_reported():
    before = {"web/prices.js": "exports.total = 1;\n", "web/app.js": "require('./prices');\n"}
    after = {path.replace("web", "site"): text for path, text in before.items()}
    assert places(before, after, renamed={path: path.replace("web", "site") for path in before}) == []


def test_a_moved_script_that_loads_a_deleted_one_is_reported():
    before = {"web/prices.js": "exports.total = 1;\n", "web/app.js": "require('./prices');\n"}
    after = {"site/app.js": before["web/app.js"]}
    assert places(before, after, renamed={"web/app.js": "site/app.js"}) == ["site/app.js:1"]


def test_a_script_that_became_typescript_is_not_reported():
    before = {"web/prices.js": "export default 1;\n", "web/app.js": "import prices from './prices';\n"}
    after = {"web/prices.ts": before["web/prices.js"], "web/app.js": before["web/app.js"]}
    assert places(before, after) == []


LITERAL = "function total() {}\nmodule.exports = {\n  total,\n  'sum': sum,\n};\n"
ASSIGNED = "exports.total = function () {};\nexports.sum = sum;\n"


def script_change(old, new, use):
    before = {"lib/prices.js": old, "lib/app.js": use}
    return places(before, {**before, "lib/prices.js": new})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (LITERAL, LITERAL.replace("  total,\n", "")),
        (LITERAL, LITERAL.replace("  total,", "  totalOf,")),
        (ASSIGNED, "exports.sum = sum;\n"),
        (ASSIGNED.replace("exports", "module.exports"), "module.exports.sum = sum;\n"),
        ("exports = module.exports = { total: f, sum };\n", "exports = module.exports = { f, sum };\n"),
    ],
)
@pytest.mark.parametrize(
    ("use", "line"),
    [
        ("const { total } = require('./prices');\n", 1),
        ("const {\n  sum,\n  total: t,\n} = require('../lib/prices.js');\n", 3),
        ("const prices = require('./prices');\n\nprices.total();\n", 3),
        ("var fs = require('fs'),\n  prices = require('./prices');\nf(prices.total);\n", 3),
        ("const prices = require('./prices');\nif (a && !prices.total(1)) f();\n", 2),
        ("const f = require('./prices').total;\n", 1),
    ],
)
def test_a_removed_commonjs_name_is_reported_where_it_is_taken(old, new, use, line):
    assert script_change(old, new, use) == [f"lib/app.js:{line}"]


def test_a_renamed_commonjs_name_is_named():
    before = {"lib/prices.js": LITERAL, "lib/app.js": "const { total } = require('./prices');\n"}
    after = {**before, "lib/prices.js": LITERAL.replace("  total,", "  totalOf,")}
    (found,) = findings(before, after)
    assert "use `totalOf`" in found.comment


@pytest.mark.parametrize(
    "new",
    [
        "module.exports = { ...sums, sum };\n",
        "module.exports = { [name]: f, sum };\n",
        "module.exports = { sum };\nObject.assign(module.exports, sums);\n",
        "module.exports = { sum };\nmodule.exports.total = sum;\n",
        "module.exports = { sum, get total() { return 1; } };\n",
        "module.exports = { sum, async total(a, b) {} };\n",
        "module.exports = { sum, 'total': sum };\n",
        "module.exports = require('./sums');\n",
        "module.exports = new Prices();\n",
        "exports.sum = sum;\nfor (const name of names) exports[name] = 1;\n",
        "exports.sum = exports.total = sum;\n",
        "if (old) {\n  module.exports = { sum, total };\n} else {\n  module.exports = { sum };\n}\n",
        "register(module);\nexports.sum = sum;\n",
        "export const sum = 1;\n",
    ],
)
def test_a_commonjs_module_that_may_export_the_name_is_not_reported(new):
    assert script_change(LITERAL, new, "const { total } = require('./prices');\n") == []


@pytest.mark.parametrize(
    "use",
    [
        "const { sum } = require('./prices'); total();\n",
        "const { total = sum } = require('./prices');\n",
        "const { total } = require('./other/prices');\n",
        "const prices = require('./prices');\nif (prices.total) prices.total();\n",
        "const prices = require('./prices');\nconst f = prices.total || sum;\n",
        "const prices = require('./prices');\nprices.total?.();\n",
        "const prices = require('./prices');\nprices.total = sum;\nprices.total();\n",
        "const prices = require('./prices');\nfunction f(prices) { return prices.total; }\n",
        "const prices = require('./prices');\nlist.map((prices) => prices.total);\n",
        "const prices = require('./prices');\nlist.map(prices => prices.total);\n",
        "const prices = require('./prices');\nfor (const prices of all) prices.total();\n",
        "const prices = require('./prices')(settings);\nprices.total();\n",
        "const prices = require('./prices');\nother.prices.total();\n",
        "jest.mock('./prices', () => ({ total: f }));\nconst { total } = require('./prices');\n",
        "// const { total } = require('./prices');\n",
    ],
)
def test_a_use_that_may_find_its_commonjs_name_is_not_reported(use):
    assert script_change(LITERAL, LITERAL.replace("  total,\n", ""), use) == []


GO = {
    "go.mod": "module example.com/shop\n",
    "prices/prices.go": "package prices\n\nfunc Total(a int) int { return a }\n",
}


@pytest.mark.parametrize(
    ("path", "use", "line"),
    [
        ("prices/use.go", "package prices\n\nvar x = Total(1)\n", 3),
        ("app/app.go", 'package app\n\nimport "example.com/shop/prices"\n\nvar x = prices.Total(1)\n', 5),
        ("app/app.go", 'package app\nimport (\n\tp "example.com/shop/prices"\n)\nvar x = p.Total(1)\n', 5),
    ],
)
def test_a_removed_go_function_is_reported_where_it_is_used(path, use, line):
    before = {**GO, path: use}
    assert places(before, {**before, "prices/prices.go": "package prices\n"}) == [f"{path}:{line}"]


@pytest.mark.parametrize(
    ("path", "use"),
    [
        ("prices/use.go", "package prices\n\nfunc Total(a int) int { return 0 }\n\nvar x = Total(1)\n"),
        ("prices/use.go", "package prices\n\ntype T interface {\n\tTotal(a int) int\n}\n"),
        ("prices/use.go", "package prices\n\nfunc (t T) Total(a int) int { return 0 }\n"),
        ("prices/use.go", "package prices\n\nfunc f() {\n\tTotal := g\n\tTotal(1)\n}\n"),
        ("prices/use.go", "package prices\n\n// Total(1)\nvar x = `Total(1)`\n"),
        ("prices/use.go", "package prices\n\nvar x = y.Total(1)\n"),
        ("prices/use_windows.go", "package prices\n\nvar x = Total(1)\n"),
        ("app/app.go", 'package app\n\nimport "example.com/other/prices"\n\nvar x = prices.Total(1)\n'),
    ],
)
def test_another_go_name_is_not_reported(path, use):
    before = {**GO, path: use}
    assert places(before, {**before, "prices/prices.go": "package prices\n"}) == []


STORE = """package shop

type Store struct {
	name, path string
	rows map[string]struct{ a int }
	open func(
		path string,
	) error
}

func (s *Store) load(a int) int { return a }
"""
RELOAD = "package shop\n\nfunc (s *Store) Reload() int {\n\treturn s.load(1)\n}\n"


def method_change(use, *, old=STORE, new=None, path="shop/use.go"):
    before = {"go.mod": "module example.com/m\n", "shop/store.go": old, path: use}
    new = old[: old.index("func (")] if new is None else new
    return places(before, {**before, "shop/store.go": new})


@pytest.mark.parametrize(
    "use",
    [
        RELOAD,
        RELOAD.replace("s *Store", "s Store"),
        RELOAD.replace("return s.load(1)", "return f(s.load)"),
        "package shop\n\nfunc (s *Store) Reload() int { return\ns.load(1) }\n\ntype x int\n",
    ],
)
def test_a_removed_go_method_is_reported_where_its_type_uses_it(use):
    assert method_change(use) == ["shop/use.go:4"]


def test_a_removed_go_method_of_a_function_type_is_reported():
    old = "package shop\n\ntype Store func(int) int\n\nfunc (s Store) load(a int) int { return a }\n"
    assert method_change(RELOAD, old=old) == ["shop/use.go:4"]


def test_a_renamed_go_method_is_named():
    before = {"shop/store.go": STORE, "shop/use.go": RELOAD}
    (found,) = findings(before, {**before, "shop/store.go": STORE.replace("load(", "loadRow(")})
    assert (found.place, "use `loadRow`" in found.comment) == ("shop/use.go:4", True)


@pytest.mark.parametrize(
    ("use", "path"),
    [
        (RELOAD + "\nfunc (s *Store) load(a int) int { return 0 }\n", "shop/use.go"),
        (RELOAD.replace("*Store", "*Other"), "shop/use.go"),
        (RELOAD.replace("return s", "s := f()\n\treturn s"), "shop/use.go"),
        (RELOAD.replace("return s", "return s.inner"), "shop/use.go"),
        (RELOAD.replace("return s", "// return s"), "shop/use.go"),
        ("package shop\n\nfunc (s *Store) a() int { return 1 }\n\nfunc b(s Other) { s.load(1) }\n", "shop/use.go"),
        (RELOAD, "shop/use_windows.go"),
        (RELOAD, "other/use.go"),
        (RELOAD.replace("package shop", "package shop_test"), "shop/use_test.go"),
    ],
)
def test_a_use_of_another_go_method_is_not_reported(use, path):
    assert method_change(use, path=path) == []


@pytest.mark.parametrize(
    "fields",
    ["\tBase\n", "\t*base.Store\n", '\tBase `json:"x"`\n', "\tload func(int) int\n", "\tname, load func(int) int\n"],
)
def test_a_go_type_that_may_have_the_member_is_not_reported(fields):
    assert method_change(RELOAD, old=STORE.replace("\tname, path string\n", fields)) == []


@pytest.mark.parametrize("declared", ["type Store interface {\n}", "type Store = Other", "type Store Other"])
def test_a_go_type_whose_members_are_not_known_is_not_reported(declared):
    old = f"package shop\n\n{declared}\n\nfunc (s *Store) load(a int) int {{ return a }}\n"
    assert method_change(RELOAD, old=old) == []


def test_a_go_method_that_moves_to_another_file_is_not_reported():
    before = {"shop/store.go": STORE, "shop/use.go": RELOAD}
    at = STORE.index("func (")
    after = {**before, "shop/store.go": STORE[:at], "shop/rows.go": f"package shop\n\n{STORE[at:]}"}
    assert places(before, after) == []


def test_a_generated_file_is_not_read():
    change = change_between(
        {"shop.py": "def total(): ...\n", "app.py": "import shop\nshop.total()\n"},
        {"shop.py": "", "app.py": "import shop\nshop.total()\n"},
    )
    for file in change.files:
        object.__setattr__(file, "is_generated", True)
    assert check_change(change, checks=CHECKS).findings == ()


@pytest.mark.parametrize(
    "text",
    [
        "exports " * 10_000,
        "module.exports = {" + "a," * 20_000,
        "module.exports = {" + "{(" * 20_000,
        "try {" * 20_000,
        "require('./prices');" * 5_000,
        "const { a," * 10_000,
        "const prices = require('./prices');" + "f(prices, " * 10_000,
        "const prices = require('./prices');" + "prices.total ? " * 10_000,
        "import (" + " " * 50_000,
    ],
)
def test_hostile_commonjs_scripts_are_read_in_linear_time(text):
    before = {"web/prices.js": LITERAL, "web/app.js": f"require('./prices'); // total\n{text}"}
    assert places(before, {**before, "web/prices.js": text}) == []


@pytest.mark.parametrize("text", ["func (s *Store) f() " * 5_000, "s.load " * 20_000, "type Store struct {" * 5_000])
def test_hostile_go_files_are_read_in_linear_time(text):
    assert method_change(f"{RELOAD}\n{text}", new=f"package shop\n\n{text}") == []


@pytest.mark.parametrize("text", ["/*" * 50_000, "`\\" * 50_000, "import a " * 20_000, '"\\' * 50_000])
def test_hostile_scripts_are_read_in_linear_time(text):
    before = {"web/prices.ts": "export function total() {}\n", "web/app.ts": "// total prices\n"}
    assert places(before, {"web/prices.ts": "", "web/app.ts": f"// total prices\n{text}"}) == []


@pytest.mark.parametrize("path", ["@/services/query", "services/query", "~/services/query"])
def test_an_import_through_an_alias_of_the_build_is_resolved_where_one_file_fits(path):
    before = {
        "client/app/services/query.js": "export const poll = () => 1\nexport const run = () => 2\n",
        "client/app/pages/list.js": f'import {{ poll }} from "{path}"\n\npoll()\n',
    }
    after = {**before, "client/app/services/query.js": "export const pollJob = () => 1\nexport const run = () => 2\n"}
    found = [(each.rule, each.place) for each in check_change(change_between(before, after)).findings]
    assert found == [("removed-name", "client/app/pages/list.js:1")]
    twice = {"server/services/query.js": "export const other = 1\n"}
    assert check_change(change_between(before | twice, after | twice)).findings == ()


def test_a_constant_of_the_same_script_that_is_removed_and_still_called_is_reported():
    before = "const lru = require('tiny-lru').lru\n\nfunction make () {\n  return lru(100)\n}\n"
    after = "const { Fifo } = require('toad-cache')\n\nfunction make () {\n  return lru(100)\n}\n"
    found = [
        (each.rule, each.place) for each in check_change(change_between({"a.js": before}, {"a.js": after})).findings
    ]
    assert found == [("removed-name", "a.js:4")]
    bound = after.replace("function make ()", "function make (lru)")
    assert check_change(change_between({"a.js": before}, {"a.js": bound})).findings == ()


def test_a_method_with_the_name_of_a_removed_import_is_no_use_of_it():
    before = "const fresh = require('fresh')\n\nmodule.exports = {\n  get fresh () {\n    return fresh(this)\n  }\n}\n"
    after = "module.exports = {\n  get fresh () {\n    return this.request.fresh\n  }\n}\n"
    assert check_change(change_between({"a.js": before}, {"a.js": after})).findings == ()


INDEX = "export * from './prices';\n"
PRICES = "export function total() {}\nexport function rate() {}\n"


@pytest.mark.parametrize("target", ["./shop", "./shop/index", "@/src/shop"])
def test_a_name_that_an_index_file_passes_on_is_followed_to_its_users(target):
    use = f"import {{ total }} from '{target}';\n"
    before = {"src/shop/index.ts": INDEX, "src/shop/prices.ts": PRICES, "src/use.ts": use}
    after = {**before, "src/shop/prices.ts": PRICES.replace("total", "sum")}
    assert places(before, after) == ["src/use.ts:1"]


def test_a_name_that_an_index_file_has_from_another_file_too_is_not_reported():
    before = {
        "src/shop/index.ts": INDEX + "export * from './sums';\n",
        "src/shop/prices.ts": PRICES,
        "src/shop/sums.ts": "export const total = 1;\n",
        "src/use.ts": "import { total } from './shop';\n",
    }
    assert places(before, {**before, "src/shop/prices.ts": PRICES.replace("total", "sum")}) == []


def test_all_uses_of_what_one_file_lost_are_one_finding():
    use = "import { total, rate } from './prices';\n"
    before = {"src/prices.ts": PRICES, "src/a.ts": use, "src/b.ts": use}
    (found,) = findings(before, {**before, "src/prices.ts": "export function sum(a) {}\n"})
    assert (found.place, found.also) == ("src/a.ts:1", ("src/b.ts:1",))
    assert "`total`" in found.comment
    assert "`rate`" in found.comment


@pytest.mark.parametrize(
    ("use", "line"), [("import rate from './prices';\n", 1), ("\nexport { default as rate } from './prices';\n", 2)]
)
def test_a_default_export_that_is_gone_breaks_its_imports(use, line):
    before = {"src/prices.ts": "export default function rate() {}\n", "src/use.ts": use}
    assert places(before, {**before, "src/prices.ts": "export function rate() {}\n"}) == [f"src/use.ts:{line}"]
    after = {**before, "src/prices.ts": "function rate() {}\nexport { rate as default };\n"}
    assert places(before, after) == []


def test_a_call_in_a_function_of_go_on_one_line_is_a_use():
    before = {
        "go.mod": "module example.org/shop\n",
        "shop/a.go": "package shop\n\nfunc Total() int { return 1 }\n",
        "shop/b.go": "package shop\n\nfunc f() int { return Total() }\n",
    }
    after = {**before, "shop/a.go": "package shop\n\nfunc Sum() int { return 1 }\n"}
    assert places(before, after) == ["shop/b.go:3"]


@pytest.mark.parametrize("path", ["#services/query", "@services/query", "@app/services/query"])
def test_an_import_through_an_alias_of_a_folder_is_resolved_where_one_file_fits(path):
    before = {
        "client/app/services/query.ts": "export const poll = () => 1\nexport const run = () => 2\n",
        "client/app/pages/list.ts": f'import {{ poll }} from "{path}";\n\npoll()\n',
    }
    after = {**before, "client/app/services/query.ts": "export const pollJob = () => 1\nexport const run = () => 2\n"}
    found = [(each.rule, each.place) for each in check_change(change_between(before, after)).findings]
    assert found == [("removed-name", "client/app/pages/list.ts:1")]
