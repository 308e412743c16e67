"""What ruff finds in a change, and what the critic makes of it."""

import subprocess
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from reprieve.review.critic import ruff
from reprieve.review.critic.facts import check_change
from reprieve.review.critic.findings import Severity
from reprieve.review.critic.rules import NotCheckedError
from support.change_sets import change_between


def found_in(after, *, before=None, path="src/shop.py"):
    old = {} if before is None else {path: textwrap.dedent(before)}
    return list(ruff.check_with_ruff(change_between(old, {path: textwrap.dedent(after)})))


def rules_in(after, *, before=None, path="src/shop.py"):
    return [each.rule for each in found_in(after, before=before, path=path)]


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("undefined-name", "def total():\n    return prize\n"),
        ("used-before-assignment", "price = 1\n\n\ndef total():\n    print(price)\n    price = 3\n    return price\n"),
        ("does-not-compile", "def total():\n    return 1\n\n\nreturn 2\n"),
        ("wrong-format-arguments", "print('%s of %s' % (1,))\n"),
        ("wrong-format-arguments", "print('{} {}'.format(1))\n"),
        ("unused-format-argument", "print('{}'.format(1, 2))\n"),
        ("value-from-init", "class A:\n    def __init__(self):\n        return 3\n"),
        ("wrong-special-method", "class A:\n    def __exit__(self):\n        pass\n"),
        ("wrong-index", "print([1, 2][5])\n"),
        ("wrong-export-list", "__all__ = ['missing']\n"),
        ("wrong-open-mode", "with open('a', 'rz') as file:\n    file.read()\n"),
        ("mutable-default", "def add(item, cart=[]):\n    cart.append(item)\n"),
        ("wrong-raise", "def area():\n    raise NotImplemented\n"),
        ("wrong-log-arguments", "import logging\n\nlogging.info('%s %s', 1)\n"),
        ("condition-always-true", "assert (1 == 2, 'one is not two')\n"),
        ("constant-condition", "def f(x):\n    if x == 'a' or 'b':\n        return 1\n"),
        ("identity-comparison", "def f(x):\n    return x is 'a'\n"),
        ("self-comparison", "def f(a):\n    return a < a\n"),
        ("self-assignment", "def f(size):\n    size = size\n    return size\n"),
        ("unused-comparison", "def f(x):\n    x == 3\n"),
        ("missing-raise", "def f():\n    ValueError('bad')\n"),
        ("redefinition", "def f():\n    pass\n\n\ndef f():\n    pass\n"),
        ("duplicate-key", "PRICES = {'tea': 1, 'tea': 2}\n"),
        ("missing-comma", "NAMES = [\n    'anna'\n    'bert',\n    'carl',\n]\n"),
        ("default-evaluated-once", "from datetime import datetime\n\n\ndef f(now=datetime.now()):\n    return now\n"),
        ("return-in-finally", "def f():\n    try:\n        pass\n    finally:\n        return 1\n"),
        ("exception-not-caught", "import contextlib\n\nwith contextlib.suppress():\n    print()\n"),
        ("loop-variable-capture", "def f():\n    return [g for i in range(3) for g in [lambda: i]]\n"),
        ("flags-as-count", "import re\n\nprint(re.sub('a', 'b', 'A', re.IGNORECASE))\n"),
        ("strip-of-words", "print('https://a'.lstrip('https://'))\n"),
        ("lost-task", "import asyncio\n\n\nasync def f(work):\n    asyncio.create_task(work())\n"),
        ("blocking-call-in-async", "import time\n\n\nasync def f():\n    time.sleep(1)\n"),
        ("shell-injection", "import subprocess\n\n\ndef f(name):\n    subprocess.run(f'ls {name}', shell=True)\n"),
        ("code-execution", "def f(text):\n    return eval(text)\n"),
        ("unsafe-deserialization", "import pickle\n\n\ndef f(data):\n    return pickle.loads(data)\n"),
        ("unsafe-yaml", "import yaml\n\n\ndef f(text):\n    return yaml.load(text, Loader=yaml.Loader)\n"),
        ("weak-hash", "import hashlib\n\n\ndef f(password):\n    return hashlib.md5(password)\n"),
        ("world-writable-file", "import os\n\nos.chmod('a', 0o777)\n"),
        ("debug-server", "from flask import Flask\n\napp = Flask('a')\napp.run(debug=True)\n"),
        ("unclosed-file", "TEXT = open('a').read()\n"),
        ("naive-utc-time", "import datetime\n\nNOW = datetime.datetime.utcnow()\n"),
        ("environment-default-type", "import os\n\nDEBUG = os.getenv('DEBUG', False)\n"),
    ],
)
def test_an_added_fault_is_found(rule, code):
    assert rules_in(code) == [rule]


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess\n\nsubprocess.run('ls -l', shell=True)\n",
        "import os\n\nos.chmod('a', 0o755)\n",
        "import os\n\nLIMIT = int(os.getenv('LIMIT', 10))\n",
        "import re\n\nprint(re.sub('a', 'b', 'c', 0, re.IGNORECASE))\n",
        "def f(limit, now=max(1, 2)):\n    return limit, now\n",
        "def f(value):\n    return value != value\n",
        "try:\n    import json\nexcept ImportError:\n    pass\n",
        "import json  # noqa: F401\n",
        "from shop import (  # noqa: F401\n    buy,\n    sell,\n)\n",
        "def f(path):\n    with open(path) as file:\n        pass\n",
        "def f():\n    try:\n        g()\n    except ValueError as error:\n        pass\n\n\ndef g():\n    pass\n",
        "TEXTS = [\n    'a sentence that is too long for one line '\n    'goes on in the next line',\n]\n",
        "str = str\n",
        "def f(stream):\n    return stream.extra(3, None)\n",
        "def f(app):\n    @app.route('/a')\n    def page():\n        pass\n\n    @app.route('/b')\n    def page():\n        pass\n",
        "def on_error(error):\n    if error.fatal:\n        raise\n",
        "print(_('translated'))\n",
        "import jinja2\n\nENVIRONMENT = jinja2.Environment()\n",
        "def f(a, file=open('x')):\n    return a, file\n",
        "def f(x):\n    x.attribute\n",
        "print 'Python 2'\nprint(undefined)\n",
    ],
)
def test_what_is_probably_no_fault_is_not_reported(code):
    assert rules_in(code) == []


def test_a_fault_on_a_line_that_the_change_did_not_touch_is_not_reported():
    before = "def add(item, cart=[]):\n    cart.append(item)\n"
    assert rules_in(before + "\n\nPRICE = 3\n", before=before) == []


def test_a_fault_that_only_moved_is_not_reported():
    fault = "def add(item, cart=[]):\n    cart.append(item)\n"
    assert rules_in("A = 1\nB = 2\n\n\n" + fault, before=fault + "\n\nA = 1\n") == []


def test_a_second_fault_of_the_same_text_is_reported():
    fault = "def test(a=[]):\n    return a\n"
    after = f"{fault}\n\nclass B:\n    {fault.replace(chr(10), chr(10) + '    ')}\n"
    assert [each.line for each in found_in(after, before=fault)] == [6]


def test_a_name_whose_import_the_change_removes_is_reported_where_it_is_used():
    before = "import os\n\n\ndef f():\n    return os.getcwd()\n"
    after = "def f():\n    return os.getcwd()\n"
    assert [(each.rule, each.line) for each in found_in(after, before=before)] == [("undefined-name", 2)]


def test_a_name_that_was_undefined_before_is_not_reported():
    before = "def f():\n    return injected\n"
    assert rules_in(before + "\n\ndef g():\n    return injected\n", before=before) == []


def test_a_blocking_call_in_a_function_that_became_async_is_reported():
    before = "import time\n\n\ndef f():\n    time.sleep(1)\n"
    assert rules_in(before.replace("def f", "async def f"), before=before) == ["blocking-call-in-async"]


def test_undefined_names_are_told_by_name():
    (finding,) = found_in("def total():\n    return prize\n")
    assert "`prize`" in finding.comment
    assert (finding.code, finding.severity) == ("F821", Severity.HIGH)


def test_a_name_in_a_quoted_annotation_raises_nothing():
    assert found_in('def f(order: "Order"):\n    return order\n') == []


@pytest.mark.parametrize(
    ("query", "severity"),
    [
        ("f\"SELECT * FROM users WHERE name = '{name}'\"", Severity.HIGH),
        ('"SELECT * FROM users WHERE id = " + name', Severity.HIGH),
        ('"SELECT * FROM users WHERE id = %s" % name', Severity.HIGH),
        ('"DELETE FROM users WHERE id = {}".format(name)', Severity.HIGH),
        ('f"INSERT INTO users VALUES ({name})"', Severity.HIGH),
        ('f"SELECT * FROM users {name}"', Severity.MEDIUM),
    ],
)
def test_values_in_a_query_are_severe_and_names_of_tables_are_not(query, severity):
    (finding,) = found_in(f"def f(db, name):\n    db.execute({query})\n")
    assert (finding.rule, finding.severity) == ("sql-injection", severity)


@pytest.mark.parametrize(
    "query",
    [
        'f"SELECT * FROM {TABLE} WHERE id = ?"',
        'f"SELECT * FROM {db.TABLE} WHERE id = ?"',
        'f"SELECT * FROM users WHERE id IN ({placeholders})"',
        "f\"SELECT * FROM users WHERE id IN ({', '.join('?' * len(name))})\"",
        'f"SELECT * FROM users LIMIT {int(name)}"',
        'f"Select {name} from the list"',
        '"SELECT * FROM users WHERE id = ?", (name,)',
    ],
)
def test_constants_and_placeholders_in_a_query_are_no_fault(query):
    assert rules_in(f"TABLE = 'users'\n\n\ndef f(db, name, placeholders):\n    db.execute({query})\n") == []


def test_a_value_added_within_a_query_of_many_lines_is_reported_on_its_line():
    before = 'def f(db, name):\n    db.execute(f"""\n        SELECT *\n        FROM users\n    """)\n'
    after = before.replace("users\n", "users\n        WHERE name = '{name}'\n")
    assert [(each.rule, each.line) for each in found_in(after, before=before)] == [("sql-injection", 5)]


@pytest.mark.parametrize(
    ("command", "severity"),
    [("f'ls {name}'", Severity.HIGH), ("'ls ' + name", Severity.HIGH), ("name", Severity.MEDIUM)],
)
def test_a_command_that_is_put_together_is_more_severe(command, severity):
    (finding,) = found_in(f"import subprocess\n\n\ndef f(name):\n    subprocess.run({command}, shell=True)\n")
    assert finding.severity is severity


def test_a_checksum_is_no_weak_hash():
    code = "import hashlib\n\n\ndef f({0}):\n    return hashlib.md5({0})\n"
    assert [len(found_in(code.format(name))) for name in ("data", "password")] == [0, 1]


def test_a_formatter_makes_no_old_fault_new():
    before = "def f(items=[]): return items\n"
    assert (
        check_change(
            change_between({"a.py": before}, {"a.py": "def f(\n    items=[],\n):\n    return items\n"})
        ).findings
        == ()
    )


def test_data_whose_signature_is_verified_may_be_unpickled():
    code = "import hmac\nimport pickle\n\n\ndef f(data, mark):\n    {0}\n    return pickle.loads(data)\n"
    assert found_in(code.format("assert hmac.compare_digest(mark, data)")) == []


@pytest.mark.parametrize(
    "code",
    [
        "import os\n\n\ndef test_a():\n    assert 1\n",
        "import subprocess\n\n\ndef test_a(name):\n    subprocess.run(f'ls {name}', shell=True)\n",
        "import pytest\n\n\ndef test_a(x):\n    with pytest.raises(TypeError):\n        x < 3\n",
        "from fixtures import client\n\n\ndef test_a(client):\n    assert client\n",
    ],
)
def test_what_tests_do_on_purpose_is_not_reported(code):
    assert rules_in(code, path="tests/test_shop.py") == []


def test_a_test_that_hides_another_of_the_same_name_is_reported():
    test = "def test_a():\n    assert 1\n"
    assert rules_in(f"{test}\n\n{test}", path="tests/test_shop.py") == ["redefinition"]


@pytest.mark.parametrize("path", ["src/__init__.py", "src/_compat.py", "src/shop.pyi", "alembic/versions/a.py"])
def test_imports_for_others_are_not_unused(path):
    assert rules_in("from shop import buy\n", path=path) == []


def test_comments_in_the_file_do_not_switch_ruff_off():
    code = "# ruff: noqa\n# ruff: disable[S506]\nimport yaml\n\nyaml.load('a', Loader=yaml.Loader)  # noqa\n"
    assert rules_in(code) == ["unsafe-yaml"]


def test_settings_of_the_environment_and_the_folder_do_not_reach_ruff(tmp_path, monkeypatch):
    (tmp_path / "ruff.toml").write_text("lint.ignore = ['F821']\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUFF_CONFIG", str(tmp_path / "ruff.toml"))
    assert rules_in("print(prize)\n") == ["undefined-name"]


def test_ruff_starts_without_configuration_in_an_empty_folder(monkeypatch):
    run, started = subprocess.run, []

    def watched(command, **options):
        started.append(("--isolated" in command, options["env"], list(Path(options["cwd"]).iterdir())))
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", watched)
    found_in("print(prize)\n")
    assert started == [(True, {}, [])]


def test_a_name_that_looks_like_an_option_does_not_reach_ruff():
    assert rules_in("print(prize)\n", path="--config=evil.py") == ["undefined-name"]


def test_without_ruff_the_report_says_that_its_rules_were_not_checked(monkeypatch):
    monkeypatch.setattr(ruff, "find_ruff", lambda: None)
    report = check_change(change_between({}, {"a.py": "print(prize)\n"}), checks=ruff.CHECKS)
    assert "ruff is not installed" in report.scope
    assert report.scope.startswith("0 rules")


def test_without_python_files_a_missing_ruff_is_not_mentioned(monkeypatch):
    monkeypatch.setattr(ruff, "find_ruff", lambda: None)
    assert list(ruff.check_with_ruff(change_between({}, {"a.go": "package a\n"}))) == []


def test_a_file_that_takes_too_long_is_named_and_the_others_are_checked(monkeypatch):
    run = subprocess.run

    def slow(command, **options):
        if b"slow" in options["input"]:
            raise subprocess.TimeoutExpired(command, 10)
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", slow)
    findings = ruff.check_with_ruff(change_between({}, {"a.py": "print(prize)\n", "b.py": "print('slow')\n"}))
    assert next(findings).file == "a.py"
    with pytest.raises(NotCheckedError, match=r"b\.py: it took longer"):
        next(findings)


def test_generated_files_are_not_checked():
    change = change_between({}, {"a.py": "print(prize)\n"})
    generated = replace(change, files=tuple(replace(each, is_generated=True) for each in change.files))
    assert list(ruff.check_with_ruff(generated)) == []


def test_the_findings_of_many_files_are_all_there():
    files = {f"src/m{number}.py": "import os\n\nprint(os.getcwd(), prize)\n" * 50 for number in range(10)}
    assert len(list(ruff.check_with_ruff(change_between({}, files)))) == 500


def test_every_code_is_known_to_ruff():
    codes = ",".join(rule.code for rule in ruff.RULES)
    done = subprocess.run(
        [ruff.find_ruff(), "check", "--isolated", "--select", codes, "-"], input=b"", capture_output=True, check=False
    )
    assert (done.returncode, b"warning" in done.stderr) == (0, False)


def test_rules_of_one_id_say_the_same():
    said = {(rule.id, rule.advice, rule.finds, rule.severity) for rule in ruff.RULES}
    assert len(said) == len({rule.id for rule in ruff.RULES})


def test_a_query_over_several_lines_is_reported_where_its_value_stands():
    text = (
        'def find(db, email):\n    return db.execute(\n        "SELECT id, total FROM orders"\n'
        "        f\" WHERE email = '{email}'\"\n    )\n"
    )
    (finding,) = check_change(change_between({}, {"orders.py": text})).findings
    assert (finding.rule, finding.line, finding.quote) == ("sql-injection", 4, "f\" WHERE email = '{email}'\"")


def test_the_name_of_a_table_in_a_query_is_not_reported():
    assert rules_in('def f(db, name):\n    db.execute(f"SELECT * FROM {name.table}")\n') == []


def test_what_the_rest_of_a_file_does_already_is_its_habit():
    before = "import datetime\n\nA = datetime.datetime.utcnow()\n"
    assert found_in(before + "B = datetime.datetime.utcnow()\n", before=before) == []


def test_a_function_that_a_loop_only_calls_may_use_its_variable():
    code = "def f(rows):\n    for row in rows:\n        def show():\n            return row\n        print({})\n"
    assert rules_in(code.format("show()")) == []
    assert rules_in(code.format("show")) == ["loop-variable-capture"]


def test_a_call_that_becomes_a_shell_command_is_reported_at_its_new_line():
    before = "import subprocess\n\n\ndef f(path):\n    subprocess.run(\n        ['rm', path],\n    )\n"
    after = before.replace("['rm', path],", "f'rm {path}',\n        shell=True,")
    assert [(each.rule, each.line) for each in found_in(after, before=before)] == [("shell-injection", 6)]


@pytest.mark.parametrize(
    ("version", "found"),
    [
        (">=3.14", []),
        ("==3.14.*", []),
        ("~=3.14", []),
        (">=3.12", ["undefined-name"]),
        (">=3.12,<3.14", ["undefined-name"]),
    ],
)
def test_an_annotation_may_use_a_later_name_from_python_3_14_on(version, found):
    code = "class Shop:\n    def copy(self) -> Shop:\n        return self\n"
    settings = {"pyproject.toml": f'[project]\nrequires-python = "{version}"\n'}
    change = change_between(settings, {**settings, "src/shop.py": code})
    assert [each.rule for each in check_change(change, checks=ruff.CHECKS).findings] == found


def test_a_file_with_the_syntax_of_a_newer_python_is_checked_all_the_same():
    code = "def f(text):\n    try:\n        return int(text)\n    except TypeError, ValueError:\n        return eval(text)\n"
    assert rules_in(code) == ["code-execution"]
