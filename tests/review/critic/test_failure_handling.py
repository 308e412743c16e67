"""Weak failure handling that a change adds, and sound failure handling that looks like it."""

import ast
import textwrap

import pytest

from reprieve.review.critic import failure_handling
from reprieve.review.critic.facts import check_change
from reprieve.review.critic.failure_patterns import find_problems
from reprieve.review.critic.findings import Severity
from reprieve.review.critic.parsing import ParserChild
from support.change_sets import change_between, patch_between

IMPORTS = (
    "import asyncio, contextlib, http.client, socket, ssl, smtplib, time, urllib.request\n"
    "import aiohttp, backoff, httpx, reprieve, requests, stamina, tenacity, urllib3\n"
    "from tenacity import retry, stop_after_attempt, wait_random\nfrom urllib3.util import Retry\n"
)


def problems_in(code):
    return [each[0] for each in find_problems(ast.parse(IMPORTS + textwrap.dedent(code)))]


def findings_in(after, *, before=None, path="src/shop.py"):
    old = {} if before is None else {path: textwrap.dedent(before)}
    change = change_between(old, {path: textwrap.dedent(after)})
    return check_change(change, checks=failure_handling.CHECKS).findings


def rules_in(after, *, before=None, path="src/shop.py"):
    return [each.rule for each in findings_in(after, before=before, path=path)]


# Timeouts


@pytest.mark.parametrize(
    "code",
    [
        "requests.get('https://a')",
        "requests.request('GET', 'https://a')",
        "requests.post('https://a', timeout=None)",
        "urllib.request.urlopen('https://a')",
        "socket.create_connection(('a', 80))",
        "http.client.HTTPSConnection('a')",
        "smtplib.SMTP('a')",
        "urllib3.PoolManager()\npool = urllib3.PoolManager()\npool.request('GET', 'https://a')",
        "httpx.Client(timeout=None)",
        "httpx.get('https://a', timeout=None)",
        "httpx.AsyncClient(timeout=httpx.Timeout(None))",
        "aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))",
        "session = requests.Session()\nsession.get('https://a')",
        "with requests.Session() as caller:\n    caller.post('https://a')",
        "def f(session: requests.Session):\n    session.get('https://a')",
        "class A:\n    def __init__(self):\n        self.web = requests.Session()\n    def f(self):\n        self.web.get('a')",
    ],
)
def test_a_network_call_without_a_timeout_is_found(code):
    assert problems_in(code) == ["no-timeout"]


@pytest.mark.parametrize(
    "code",
    [
        "requests.get('https://a', timeout=3)",
        "requests.get('https://a', **options)",
        "urllib.request.urlopen('https://a', None, 3)",
        "socket.create_connection(('a', 80), 3)",
        "def f():\n    link = socket.create_connection(('a', 80))\n    link.settimeout(3)",
        "socket.setdefaulttimeout(3)\nurllib.request.urlopen('https://a')",
        "httpx.get('https://a')",
        "httpx.Timeout(10, read=None)",
        "aiohttp.ClientTimeout(total=None, sock_read=10)",
        "pool = urllib3.PoolManager(timeout=3)\npool.request('GET', 'https://a')",
        "def f(session):\n    return session.get(User, 3)",
        "def f():\n    s = requests.Session()\ndef g(s):\n    return s.get('key')",
        "session = requests.Session()\nsession.mount('https://', TimeoutAdapter())\nsession.get('https://a')",
        "cache.get('https://a')",
    ],
)
def test_a_network_call_that_cannot_hang_is_no_problem(code):
    assert problems_in(code) == []


# Certificates


@pytest.mark.parametrize(
    "code",
    [
        "requests.get('https://a', timeout=3, verify=False)",
        "httpx.AsyncClient(verify=False)",
        "session = requests.Session()\nsession.verify = False",
        "ssl._create_default_https_context = ssl._create_unverified_context",
        "context.check_hostname = False",
        "context.verify_mode = ssl.CERT_NONE",
        "urllib3.PoolManager(cert_reqs='CERT_NONE')",
        "aiohttp.TCPConnector(ssl=False)",
        "search = Elasticsearch('https://a', verify_certs=False)",
    ],
)
def test_a_connection_that_accepts_any_certificate_is_found(code):
    assert problems_in(code) == ["certificate-not-verified"]


@pytest.mark.parametrize(
    "code",
    [
        "requests.get('https://a', timeout=3, verify='ca.pem')",
        "image.load('a', verify=False)",
        "options.verify_ssl = True",
    ],
)
def test_a_verified_connection_is_no_problem(code):
    assert problems_in(code) == []


# Swallowed exceptions


@pytest.mark.parametrize(
    "handler",
    [
        "except:\n    pass",
        "except Exception:\n    return None",
        "except (KeyError, Exception) as error:\n    return []",
    ],
)
def test_a_handler_that_drops_every_error_is_found(handler):
    code = f"try:\n    price = read()\n{handler}"
    assert problems_in(f"def f():\n{textwrap.indent(code, '    ')}") == ["swallowed-exception"]


@pytest.mark.parametrize("name", ["cancel_order", "delete_account", "remove_item", "release_payment", "wait_for_reply"])
def test_a_failure_is_not_accepted_because_a_name_begins_like_one_of_cleanup(name):
    code = f"def {name}(order):\n    try:\n        {name}_at_provider(order)\n    except Exception:\n        pass\n"
    assert problems_in(code) == ["swallowed-exception"]


def test_suppressing_every_error_is_found():
    assert problems_in("with contextlib.suppress(Exception):\n    read()") == ["swallowed-exception"]


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    read()\nexcept KeyError:\n    pass",
        "try:\n    read()\nexcept Exception:\n    log.exception('x')",
        "try:\n    read()\nexcept Exception as error:\n    raise ValueError from error",
        "try:\n    read()\nexcept Exception:\n    price = 0",
        "try:\n    import fast\nexcept Exception:\n    pass",
        "try:\n    connection.close()\nexcept Exception:\n    pass",
        "class A:\n    def __del__(self):\n        try:\n            read()\n        except Exception:\n            pass",
        "def is_valid(x):\n    try:\n        parse(x)\n    except Exception:\n        return False\n    return True",
        "with contextlib.suppress(KeyError):\n    read()",
        "with contextlib.suppress(Exception):\n    connection.close()",
    ],
)
def test_a_handler_that_has_a_reason_is_no_problem(code):
    assert problems_in(code) == []


@pytest.mark.parametrize(
    ("comment", "found"),
    [
        ("", True),
        ("  # noqa: F401", True),
        ("  # the cache is only an optimization, so a failure to write it costs nothing", False),
        ("  # noqa: BLE001", False),
    ],
)
def test_a_comment_that_says_why_is_accepted(comment, found):
    code = f"try:\n    read()\nexcept Exception:{comment}\n    pass\n"
    assert rules_in(code) == ["swallowed-exception"] * found


# Cancellation


@pytest.mark.parametrize(
    ("code", "severity"),
    [
        (
            "while True:\n    try:\n        await step()\n    except asyncio.CancelledError:\n        log.info('x')",
            Severity.MEDIUM,
        ),
        ("try:\n    return await step()\nexcept asyncio.CancelledError:\n    return None, 1", Severity.MEDIUM),
        ("while True:\n    try:\n        await step()\n    except:\n        log.info('x')", Severity.MEDIUM),
        (
            "while True:\n    try:\n        await step()\n    except BaseException as error:\n        log.info(error)",
            Severity.MEDIUM,
        ),
        ("try:\n    await step()\nexcept asyncio.CancelledError:\n    log.info('x')", Severity.LOW),
    ],
)
def test_a_hidden_cancellation_is_found(code, severity):
    found = findings_in(f"import asyncio\n\n\nasync def f():\n{textwrap.indent(code, '    ')}\n")
    assert [(each.rule, each.severity) for each in found] == [("swallowed-cancellation", severity)]


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    await step()\nexcept asyncio.CancelledError:\n    clean()\n    raise",
        "task.cancel()\ntry:\n    await task\nexcept asyncio.CancelledError:\n    pass",
        "while True:\n    try:\n        await step()\n    except asyncio.CancelledError:\n        break",
        "try:\n    await step()\nexcept asyncio.CancelledError:\n    raise\nexcept BaseException:\n    log.error('x')",
        "try:\n    await step()\nexcept BaseException as error:\n    future.set_exception(error)",
        "try:\n    step()\nexcept BaseException:\n    log.error('x')",
    ],
)
def test_a_cancellation_that_goes_on_is_no_problem(code):
    assert problems_in(f"async def f():\n{textwrap.indent(code, '    ')}\n") == []


# Retries


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (
            "retry-without-backoff",
            "def f():\n    while True:\n        try:\n            return call()\n        except Exception:\n            pass",
        ),
        (
            "retry-without-backoff",
            (
                "def f():\n    for _ in range(5):\n        try:\n            return call()\n"
                "        except requests.ConnectionError as error:\n            log.info(error)"
            ),
        ),
        (
            "retry-without-backoff",
            (
                "def f():\n    attempt = 0\n    while attempt < 5:\n        try:\n            call()\n            break\n"
                "        except Exception:\n            attempt += 1"
            ),
        ),
        (
            "retry-without-limit",
            "def f():\n    while True:\n        try:\n            return call()\n        except Exception:\n            time.sleep(3)",
        ),
        ("retry-without-limit", "@tenacity.retry(wait=wait_random(1, 3))\ndef f():\n    call()"),
        ("retry-without-backoff", "@retry(stop=stop_after_attempt(3))\ndef f():\n    call()"),
        ("retry-without-limit", "@backoff.on_exception(backoff.expo, OSError)\ndef f():\n    call()"),
        ("retry-without-limit", "@stamina.retry(on=OSError, attempts=None, timeout=None)\ndef f():\n    call()"),
        ("retry-without-backoff", "Retry(total=5)"),
        ("retry-not-idempotent", "Retry(total=5, backoff_factor=1, allowed_methods=None)"),
        ("retry-not-idempotent", "Retry(total=5, backoff_factor=1, allowed_methods=['GET', 'POST'])"),
        ("retry-not-idempotent", "@reprieve.retry()\ndef f():\n    requests.post('https://a/orders', timeout=3)"),
        ("retry-not-idempotent", "@stamina.retry(on=OSError)\nasync def f(client):\n    await client.post('/orders')"),
        (
            "retry-not-idempotent",
            (
                "def f():\n    for _ in range(3):\n        try:\n            return httpx.post('https://a/orders')\n"
                "        except httpx.HTTPError:\n            time.sleep(3)"
            ),
        ),
    ],
)
def test_an_unsafe_retry_is_found(rule, code):
    assert problems_in(code) == [rule]


def test_a_bare_retry_has_neither_a_limit_nor_a_pause():
    assert problems_in("@retry\ndef f():\n    call()") == ["retry-without-backoff", "retry-without-limit"]


@pytest.mark.parametrize(
    "code",
    [
        # a worker, which goes on after success too
        "while True:\n    try:\n        handle(queue.get())\n    except Exception:\n        log.exception('x')",
        "while True:\n    try:\n        poll()\n    except Exception:\n        log.exception('x')\n    time.sleep(5)",
        "for line in lines:\n    try:\n        parse(line)\n        break\n    except Exception:\n        log.info('x')",
        # a search, whose attempts differ
        "for port in range(8000, 8010):\n    try:\n        listen(port)\n        break\n    except Exception:\n        log.info('x')",
        (
            "import os\nfor _ in range(9):\n    try:\n        os.mkdir(free_name())\n        break\n"
            "    except Exception:\n        log.info('taken')"
        ),
        # a question
        "while True:\n    try:\n        age = int(input())\n        break\n    except Exception:\n        print('again')",
        # an expected failure
        "def f():\n    while True:\n        try:\n            return make(random_name())\n        except FileExistsError:\n            pass",
        # a repair before the next attempt
        "def f():\n    for _ in range(2):\n        try:\n            return call()\n        except Exception:\n            connect()",
        # a limit
        (
            "def f():\n    n = 0\n    while True:\n        try:\n            return call()\n        except Exception:\n            n += 1\n"
            "            if n > 5:\n                raise\n            time.sleep(n)"
        ),
        (
            "def f():\n    while True:\n        try:\n            return call()\n        except Exception as error:\n"
            "            raise_if_late(error)\n            time.sleep(3)"
        ),
        "def f():\n    for n in range(5):\n        try:\n            return call()\n        except Exception:\n            time.sleep(n)",
        "@retry(stop=stop_after_attempt(3), wait=wait_random(1, 3))\ndef f():\n    call()",
        "@retry(**options)\ndef f():\n    call()",
        "@backoff.on_exception(backoff.expo, OSError, max_tries=3)\ndef f():\n    call()",
        "@stamina.retry(on=OSError)\ndef f():\n    call()",
        "Retry(total=5, backoff_factor=1)",
        "Retry(total=0)",
        # a request that may be repeated
        "@reprieve.retry()\ndef f():\n    requests.get('https://a', timeout=3)",
        "@reprieve.retry()\ndef f(key):\n    requests.post('https://a', headers={'Idempotency-Key': key}, timeout=3)",
        "@reprieve.retry()\ndef f():\n    requests.post('https://a/search', timeout=3)",
        "@stamina.retry(on=httpx.ConnectError)\ndef f(client):\n    client.post('/orders')",
    ],
)
def test_a_sound_loop_is_no_problem(code):
    assert problems_in(code) == []


# Results of tasks


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("await asyncio.gather(a(), b(), return_exceptions=True)", True),
        ("results = await asyncio.gather(a(), return_exceptions=True)\nlog.info('done')", True),
        ("results = await asyncio.gather(a(), return_exceptions=True)\nlog.info(results)", False),
        ("return await asyncio.gather(a(), return_exceptions=True)", False),
        ("await asyncio.gather(a())", False),
        ("task.cancel()\nawait asyncio.gather(task, return_exceptions=True)", False),
    ],
)
def test_errors_of_tasks_that_are_not_looked_at_are_found(body, found):
    assert problems_in(f"async def f():\n{textwrap.indent(body, '    ')}\n") == ["ignored-gather-result"] * found


def test_dropped_errors_of_tasks_in_a_shutdown_are_no_problem():
    assert problems_in("async def close(tasks):\n    await asyncio.gather(*tasks, return_exceptions=True)") == []


# What the change has to do with it

HANDLER = "def f():\n    try:\n        read()\n    except Exception:\n        pass\n"


def test_a_problem_that_the_change_did_not_touch_is_not_reported():
    assert rules_in(HANDLER + "\n\nPRICE = 3\n", before=HANDLER) == []


def test_a_problem_that_only_moved_is_not_reported():
    assert rules_in("A = 1\nB = 2\n\n\n" + HANDLER, before=HANDLER + "\n\nA = 1\n") == []


def test_a_handler_that_the_change_emptied_is_reported_at_its_start():
    before = HANDLER.replace("pass", "log.exception('x')")
    assert [(each.rule, each.line) for each in findings_in(HANDLER, before=before)] == [("swallowed-exception", 4)]


def test_a_handler_that_the_file_has_elsewhere_already_is_its_habit():
    after = HANDLER + "\n\n" + HANDLER.replace("f()", "g()")
    assert findings_in(after, before=HANDLER) == ()


def test_the_first_handler_of_a_file_that_drops_errors_is_reported():
    before = HANDLER.replace("pass", "raise")
    after = before + "\n\n" + HANDLER.replace("f()", "g()")
    assert [each.line for each in findings_in(after, before=before)] == [11]


def test_an_empty_catch_beside_another_one_is_a_habit_of_the_file():
    catch = "try {\n  load();\n} catch (e) {\n}\n"
    other = catch.replace("load", "save")
    assert rules_in(catch + other, before=catch, path="src/shop.ts") == []
    assert rules_in("start();\n" + catch, before="start();\n", path="src/shop.ts") == ["swallowed-exception"]


def test_a_catch_whose_body_the_change_takes_out_is_reported():
    before = "try {\n  load();\n} catch (e) {\n  log.warn(e);\n}\n"
    assert rules_in(before.replace("  log.warn(e);\n", ""), before=before, path="src/shop.ts") == [
        "swallowed-exception"
    ]


def test_a_handler_that_moves_to_another_file_is_not_reported():
    moved = "import shop\n\n\ndef load():\n    try:\n        return shop.load()\n    except Exception:\n        return None\n"
    change = change_between({"src/a.py": moved, "src/b.py": "X = 1\n"}, {"src/a.py": "X = 2\n", "src/b.py": moved})
    assert check_change(change, checks=failure_handling.CHECKS).findings == ()
    change = change_between({"src/b.py": "X = 1\n"}, {"src/b.py": moved})
    assert len(check_change(change, checks=failure_handling.CHECKS).findings) == 1


# Attributes, log fields, translations and digests


@pytest.mark.parametrize(
    "code",
    [
        "class A:\n    __slots__ = ('a',)\n\n    def f(self):\n        self.b = 1\n",
        "class A(object):\n    __slots__ = ['a']\n\n    def f(self, x):\n        self.a, self.b = x\n",
        "class A:\n    __slots__ = ('a',)\n\n\nclass B(A):\n    __slots__ = ()\n\n    def f(me):\n        me.c = 1\n",
    ],
)
def test_an_attribute_that_no_slot_holds_is_found(code):
    assert problems_in(code) == ["attribute-not-in-slots"]


@pytest.mark.parametrize(
    "code",
    [
        "class A:\n    __slots__ = ('a',)\n\n    def f(self):\n        self.a = 1\n",
        "class A:\n    __slots__ = ('a', '__dict__')\n\n    def f(self):\n        self.b = 1\n",
        "class A(Base):\n    __slots__ = ('a',)\n\n    def f(self):\n        self.b = 1\n",
        "class A:\n    __slots__ = NAMES\n\n    def f(self):\n        self.b = 1\n",
        "class A:\n    __slots__ = ('a',)\n\n    @property\n    def b(self): ...\n\n    def f(self):\n        self.b = 1\n",
        "class A:\n    __slots__ = ('a',)\n\n    @classmethod\n    def f(cls):\n        cls.b = 1\n",
    ],
)
def test_an_attribute_that_may_have_room_is_not_reported(code):
    assert problems_in(code) == []


@pytest.mark.parametrize(
    "code",
    [
        "logger.info('x', extra={'name': 'y'})",
        "self._logger.debug('x', extra={'process': 1, **more})",
        "logging.error('x', extra=dict(message='y'))",
        "def f():\n    fields = {'module': 1}\n    log.warning('x', extra=fields)",
    ],
)
def test_a_field_that_log_records_use_themselves_is_found(code):
    assert problems_in(code) == ["reserved-log-field"]


def test_other_fields_and_other_calls_are_not_reported():
    assert problems_in("logger.info('x', extra={'user': 1})\nclient.send('x', extra={'name': 1})") == []


@pytest.mark.parametrize(
    "code",
    [
        "self.request._(f'Hello {name}')",
        "gettext('Hello %s' % name)",
        "_('Hello {}'.format(name))",
        "lazy_gettext('Hello ' + name)",
        "ngettext(f'{n} day', f'{n} days', n)",
    ],
)
def test_a_text_that_is_formatted_before_its_translation_is_found(code):
    assert problems_in(code) == ["formatted-translation"]


def test_a_translation_that_is_formatted_afterwards_is_not_reported():
    assert problems_in("_('Hello %s') % name\n_(f'Hello')\n_(TEXT + OTHER)\n_('a' 'b')") == []


@pytest.mark.parametrize(
    "code",
    [
        "import hashlib\nclass TokenSigner(Signer):\n    default_digest_method = hashlib.sha1",
        "import hashlib\nmake_serializer(key, digest_method=hashlib.md5)",
        "import hashlib, hmac\ndef sign(key, text):\n    return hmac.new(key, text, hashlib.sha1)",
        "import hmac\ndef sign(key, text):\n    return hmac.new(key, text, 'sha1')",
    ],
)
def test_a_weak_digest_that_is_given_to_something_that_signs_is_found(code):
    assert problems_in(code) == ["weak-hash"]


def test_a_weak_digest_of_something_else_is_not_reported():
    assert problems_in("import hashlib\nFILES = Cache(digest_method=hashlib.md5)\nNAMES = ['sha1']") == []


def test_asking_what_was_caught_does_not_pass_a_cancellation_on():
    code = """
        async def run(self):
            try:
                await self.work()
            except (Exception, asyncio.CancelledError) as error:
                status = "off" if isinstance(error, asyncio.CancelledError) else "bad"
            return status
    """
    assert problems_in(code) == ["swallowed-cancellation"]


def test_a_loop_around_the_error_of_a_client_library_is_a_retry():
    code = """
        import redis
        def load(client):
            while True:
                try:
                    return client.load()
                except redis.RedisError:
                    time.sleep(1)
    """
    assert problems_in(code) == ["retry-without-limit"]


# Timeouts that go


GO_CLIENT = """package shop

import (
	"net/http"
	"time"
)

var client = &http.Client{Timeout: 3 * time.Second}
"""


@pytest.mark.parametrize(
    "literal",
    [
        "&http.Client{Transport: transport}",
        "&http.Client{\n\tTransport: &http.Transport{DisableKeepAlives: true},\n}",
        "&http.Client{}",
        "new(http.Client)",
    ],
)
def test_a_client_of_go_that_loses_its_timeout_is_found(literal):
    after = GO_CLIENT.replace("&http.Client{Timeout: 3 * time.Second}", literal)
    assert rules_in(after, before=GO_CLIENT, path="shop/client.go") == ["no-timeout"]


@pytest.mark.parametrize(
    "literal", ["&http.Client{Transport: transport, Timeout: limit}", "&http.Client{\n\tTimeout: limit,\n}"]
)
def test_a_client_of_go_that_keeps_a_timeout_is_not_reported(literal):
    after = GO_CLIENT.replace("&http.Client{Timeout: 3 * time.Second}", literal)
    assert rules_in(after, before=GO_CLIENT, path="shop/client.go") == []


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("src/a.py", "api.load(url, timeout=5)\n", "api.load(url)\n"),
        ("src/a.py", "api.load(\n    url,\n    timeout=5,\n)\n", "api.load(\n    url,\n)\n"),
        ("src/a.ts", "await load(url, { retries: 1, timeout: 500 });\n", "await load(url, { retries: 1 });\n"),
    ],
)
def test_a_call_that_only_loses_its_timeout_is_reported(path, before, after):
    assert rules_in(after, before=before, path=path) == ["no-timeout"]


@pytest.mark.parametrize(
    "after", ["api.load(url, timeout=9)\n", "api.load(url, timeout_ms=9)\n", "", "api.load_all(url)\n"]
)
def test_a_timeout_that_changes_or_goes_with_its_call_is_not_reported(after):
    assert rules_in(after, before="api.load(url, timeout=5)\n", path="src/a.py") == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("Dockerfile", "RUN pip install --trusted-host pypi.shop.example -r requirements.txt"),
        ("Dockerfile", "    --trusted-host pypi.shop.example \\"),
        ("pip.conf", "trusted-host = pypi.shop.example"),
        (".github/workflows/ci.yml", "          curl -kfsSO https://shop.example/tool && break"),
        ("setup.sh", "apt-get install --allow-unauthenticated shop"),
        ("setup.sh", "npm config set strict-ssl false"),
    ],
)
def test_a_command_that_accepts_any_server_is_found(path, line):
    assert rules_in(f"{line}\n", path=path) == ["certificate-not-verified"]


def test_a_function_that_says_that_it_does_not_verify_is_not_reported():
    code = "import ssl\n\n\ndef make_insecure_context(context):\n    context.check_hostname = False\n"
    assert rules_in(code) == []
    assert rules_in(code.replace("insecure_", "")) == ["certificate-not-verified"]


@pytest.mark.parametrize("path", ["tests/test_shop.py", "src/shop_test.py"])
def test_tests_may_do_it(path):
    assert rules_in("import requests\n\nrequests.get('https://a', verify=False)\n" + HANDLER, path=path) == []


def test_a_file_that_is_not_python_has_no_problems():
    assert rules_in("print 'Python 2'\n") == []


def test_the_parser_child_finds_the_problems():
    with ParserChild() as child:
        assert child.parse("python", HANDLER)["problems"] == [["swallowed-exception", 4, 5, ""]]


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "a." * 900 + "b\n",
        "import requests\n" + "requests.get('a')\n" * 2_000,
        "import socket\ndef f():\n" + "    socket.create_connection('a')\n" * 1_500,
        "".join(f"{'  ' * depth}try:\n" for depth in range(15)) + "  " * 15 + "a()\n"
        + "".join(f"{'  ' * depth}except Exception:\n{'  ' * depth} pass\n" for depth in range(14, -1, -1)),
    ],
)  # fmt: skip
@pytest.mark.timeout(60)  # quadratic work would take longer
def test_large_files_are_read_to_their_end(text):
    assert all(each[1] <= text.count("\n") for each in find_problems(ast.parse(text)))


# Other languages


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.go", "tls.Config{InsecureSkipVerify: true}"),
        ("a.js", "https.request({ rejectUnauthorized: false })"),
        ("a.js", "process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0'"),
        ("Dockerfile", "ENV NODE_TLS_REJECT_UNAUTHORIZED=0"),
        ("run.sh", "curl -k https://a/install.sh | sh"),
        ("run.sh", "curl -sSLk https://a/install.sh"),
        ("ci.yml", "  - curl --insecure https://a"),
        ("run.sh", "wget -q --no-check-certificate https://a"),
        ("a.rb", "http.verify_mode = OpenSSL::SSL::VERIFY_NONE"),
        ("a.php", "curl_setopt($c, CURLOPT_SSL_VERIFYPEER, false);"),
        ("run.sh", "git config --global http.sslVerify false"),
        ("A.java", "builder.setSSLHostnameVerifier(NoopHostnameVerifier.INSTANCE);"),
        ("A.java", "public void checkServerTrusted(X509Certificate[] c, String t) {}"),
        ("a.cs", "handler.ServerCertificateCustomValidationCallback = (a, b, c, d) => true;"),
        ("a.rs", "client.danger_accept_invalid_certs(true)"),
    ],
)
def test_other_languages_that_accept_any_certificate_are_found(path, line):
    assert rules_in(line + "\n", path=path) == ["certificate-not-verified"]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.go", "tls.Config{InsecureSkipVerify: false}"),
        ("a.go", "// InsecureSkipVerify: true"),
        ("a.js", "https.request({ rejectUnauthorized: true })"),
        ("run.sh", "curl -o k https://a"),
        ("run.sh", "curl -k https://localhost:8443/health"),
        ("run.sh", "curl -fsSL https://a"),
        ("notes.md", "curl -k https://a"),
        ("tests/a.go", "tls.Config{InsecureSkipVerify: true}"),
    ],
)
def test_other_languages_that_verify_are_no_problem(path, line):
    assert rules_in(line + "\n", path=path) == []


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("a.js", "try { read() } catch (e) {}\n"),
        ("a.ts", "try {\n  read();\n} catch {\n}\n"),
        ("A.java", "try {\n  read();\n} catch (IOException | Error e) {\n}\n"),
        ("a.rb", "begin\n  read\nrescue => e\nend\n"),
        ("a.rb", "begin\n  read\nrescue StandardError\n  nil\nend\n"),
        ("a.rb", "price = read rescue nil\n"),
        ("a.go", "package a\n\nfunc f() {\n\t_ = err\n}\n"),
        ("a.go", "package a\n\nfunc f() {\n\tif err := g(); err != nil {\n\t}\n}\n"),
    ],
)
def test_empty_handlers_of_other_languages_are_found(path, code):
    assert rules_in(code, path=path) == ["swallowed-exception"]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("a.js", "try { read() } catch (e) { report(e) }\n"),
        ("a.js", "try {\n  read();\n} catch (e) {\n  // the file is optional\n}\n"),
        ("a.js", "try { read() } catch (e) { /* optional */ }\n"),
        ("a.rb", "begin\n  read\nrescue KeyError\nend\n"),
        ("a.rb", "begin\n  read\nrescue => e\n  log(e)\nend\n"),
        ("a.go", "package a\n\nfunc f() error {\n\tif err != nil {\n\t\treturn err\n\t}\n\treturn nil\n}\n"),
        ("a.test.js", "try { read() } catch (e) {}\n"),
    ],
)
def test_handlers_of_other_languages_that_do_something_are_no_problem(path, code):
    assert rules_in(code, path=path) == []


def test_an_empty_handler_that_only_moved_is_not_reported():
    handler = "try {\n  read();\n} catch (e) {\n}\n"
    assert rules_in("a();\nb();\n" + handler, before=handler + "a();\n", path="a.js") == []


def test_an_empty_handler_beside_a_full_one_of_the_same_text_is_reported():
    before = "try {\n  read();\n} catch (e) {\n  report(e);\n}\n"
    after = before + before.replace("  report(e);\n", "")
    assert [each.line for each in findings_in(after, before=before, path="a.js")] == [8]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('http.Get("https://a")', True),
        ("client := &http.Client{}", True),
        ("http.DefaultClient.Do(request)", True),
        ("client := &http.Client{Timeout: time.Second}", False),
        ("cache.Get(key)", False),
    ],
)
def test_go_calls_without_a_timeout_are_found(line, found):
    code = f'package a\n\nimport "net/http"\n\nfunc f() {{\n\t{line}\n}}\n'
    assert rules_in(code, path="a.go") == ["no-timeout"] * found


def test_go_requests_with_a_context_are_no_problem():
    code = 'package a\n\nimport "net/http"\n\nfunc f() {\n\tr := http.NewRequestWithContext(c)\n\thttp.DefaultClient.Do(r)\n}\n'
    assert rules_in(code, path="a.go") == []


def test_a_patch_alone_is_enough_for_other_languages():
    change = patch_between({}, {"a.js": "try { read() } catch (e) {}\n"})
    assert [each.rule for each in check_change(change, checks=failure_handling.CHECKS).findings] == [
        "swallowed-exception"
    ]


@pytest.mark.parametrize("sign", [" ", "(", "'", "a ", "curl ", "catch (", "rescue ", "#"])
@pytest.mark.parametrize("suffix", ["sh", "js", "rb", "go", "cs"])
@pytest.mark.timeout(60)  # a pattern that tracks back would take longer
def test_long_lines_hold_no_finding(sign, suffix):
    change = change_between({}, {f"a.{suffix}": (sign * 1_900)[:1_900] + "\n"})
    assert "not checked" not in check_change(change, checks=failure_handling.CHECKS).scope


def test_an_exception_of_the_project_that_is_created_and_not_raised_is_reported():
    code = "try:\n    scan()\nexcept OSError as error:\n    log.warning(error)\n    ParseError(f'no scan: {error}')\n"
    assert problems_in(code) == ["missing-raise"]
    assert problems_in(code.replace("    ParseError", "    raise ParseError")) == []


def test_a_timeout_that_the_change_removes_from_a_call_over_several_lines_is_missed():
    before = "import requests\n\n\ndef ask(url):\n    return requests.get(\n        url,\n        timeout=3,\n    )\n"
    assert [each.rule for each in findings_in(before.replace("        timeout=3,\n", ""), before=before)] == [
        "no-timeout"
    ]


CLIENT = 'package a\n\nimport "net/http"\n\nfunc New() *http.Client {\n\treturn &http.Client{\n\t\tTimeout: wait,\n\t\tTransport: t,\n\t}\n}\n'


def test_a_timeout_that_the_change_removes_from_a_client_of_go_is_missed():
    findings = findings_in(CLIENT.replace("\t\tTimeout: wait,\n", ""), before=CLIENT, path="client.go")
    assert [(each.rule, each.line) for each in findings] == [("no-timeout", 6)]
    assert findings_in(CLIENT.replace("Timeout: wait", "Timeout: 2 * wait"), before=CLIENT, path="client.go") == ()


WATCH = 'package a\n\nfunc Watch() error {\n\tfor _, item := range items {\n\t\tif err := add(item); err != nil {\n\t\t\treturn fmt.Errorf("add: %w", err)\n\t\t}\n\t}\n\treturn nil\n}\n'


def test_a_go_error_that_was_returned_and_is_left_out_now_is_reported():
    after = WATCH.replace('return fmt.Errorf("add: %w", err)', "continue")
    assert [(each.rule, each.line) for each in findings_in(after, before=WATCH, path="a.go")] == [
        ("swallowed-exception", 5)
    ]
    assert findings_in(after, before=None, path="a.go") == ()


def test_a_retry_whose_success_is_tested_after_the_attempt_needs_a_pause():
    code = (
        "for attempt in range(3):\n    try:\n        answer = client.ping()\n    except OSError:\n        continue\n"
        "    if answer:\n        break\n"
    )
    assert problems_in(code) == ["retry-without-backoff"]
    assert problems_in(code.replace("        continue", "        time.sleep(attempt)\n        continue")) == []


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("lost-task", "self._loop.create_task(self.close())"),
        ("strip-of-words", "version = version.lstrip('ngx-')"),
        ("strip-of-words", "name = name.rstrip('.json')"),
        ("strip-of-words", "url = url.rstrip('/').rstrip('.git')"),
    ],
)
def test_small_faults_that_ruff_leaves_out_are_found(rule, code):
    assert problems_in(code) == [rule]


@pytest.mark.parametrize(
    "code",
    [
        "group.create_task(run())",
        "task = loop.create_task(run())",
        "x.lstrip('0123456789')",
        "x.rstrip('/')",
        "x.lstrip('+-')",
    ],
)
def test_similar_code_without_these_faults_is_left_alone(code):
    assert problems_in(code) == []


def test_a_call_that_loses_its_await_is_reported():
    before = "async def f(body):\n    await body.close()\n"
    after = "async def f(body):\n    try:\n        pass\n    finally:\n        body.close()\n"
    assert rules_in(after, before=before) == ["call-not-awaited"]
    assert rules_in(after.replace("body.close()", "await body.close()"), before=before) == []


def test_an_error_that_was_logged_and_is_only_commented_now_is_reported():
    before = "try {\n  load()\n} catch (err) {\n  console.error(err)\n}\n"
    after = "try {\n  load()\n} catch (err) {\n  // works without it\n}\n"
    assert rules_in(after, before=before, path="a.ts") == ["swallowed-exception"]
    assert rules_in(after, before=None, path="a.ts") == []


def test_a_coroutine_of_the_same_class_or_file_that_is_dropped_is_reported():
    code = "class A:\n    async def close(self):\n        pass\n\n    async def stop(self):\n        self.close()\n"
    assert problems_in(code) == ["call-not-awaited"]
    assert problems_in(code.replace("self.close()", "await self.close()")) == []
    assert problems_in("async def run():\n    pass\n\n\ndef main():\n    run()\n") == ["call-not-awaited"]
    assert problems_in("async def run():\n    pass\n\n\ndef main(run):\n    asyncio.run(run())\n") == []


def test_two_texts_without_a_comma_between_them_are_reported_beside_texts_with_one():
    assert problems_in("order = ['host', 'port' 'user', 'password']") == ["missing-comma"]
    assert problems_in("order = ['host', 'port', 'user']") == []
    assert problems_in("text = ('a long text '\n        'in two parts', 'other')") == []


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("a.ts", "await load().catch(() => {});\n"),
        ("a.js", "return load().catch((e) => {});\n"),
    ],
)
def test_an_error_that_is_not_looked_at_is_reported(path, code):
    assert rules_in(code, path=path) == ["swallowed-exception"]


def test_a_log_line_that_gives_way_to_a_comment_is_reported():
    before = "def f():\n    try:\n        run()\n    except Exception:\n        logger.exception('it failed')\n"
    reason = "# the connection is closed already, so there is nothing left that could be done here"
    after = before.replace("logger.exception('it failed')", f"{reason}\n        pass")
    assert rules_in(after, before=before) == ["swallowed-exception"]
    assert rules_in(after) == []


def test_a_retry_that_gives_up_with_an_error_of_its_own_needs_a_pause_all_the_same():
    code = (
        "for attempt in range(3):\n    try:\n        answer = requests.get(url, timeout=3)\n        break\n"
        "    except requests.RequestException as error:\n        if attempt == 2:\n            raise NotFound(str(error)) from error\n"
    )
    assert problems_in(code) == ["retry-without-backoff"]


def test_a_client_of_go_that_loses_its_timeout_with_its_lines_is_reported():
    after = CLIENT.replace("&http.Client{\n\t\tTimeout: wait,\n\t\tTransport: t,\n\t}", "&http.Client{}")
    assert rules_in(after, before=CLIENT, path="client.go") == ["no-timeout"]


@pytest.mark.parametrize("discard", ["out, _ := os.Create(name)", "_ = os.WriteFile(name, data, 0o600)"])
def test_a_go_error_is_reported_where_the_change_stops_looking_at_it(discard):
    call = discard.partition("= ")[2]
    before = f"package a\n\nfunc f() {{\n\tif err := {call}; err != nil {{\n\t\treturn err\n\t}}\n}}\n"
    after = f"package a\n\nfunc f() {{\n\t{discard}\n}}\n"
    assert rules_in(after, before=before, path="a.go") == ["swallowed-exception"]
    assert rules_in(after, path="a.go") == []


def test_a_script_that_a_person_starts_needs_no_timeout():
    code = "import requests\n\n\ndef f(url):\n    return requests.get(url)\n"
    assert rules_in(code, path="scripts/notes.py") == []
    assert rules_in(code, path="shop/notes.py") == ["no-timeout"]


def test_a_second_try_needs_no_pause():
    code = (
        "tries = 0\nwhile True:\n    tries += 1\n    try:\n        return client.ping()\n    except OSError:\n"
        "        if tries > 1:\n            raise\n"
    )
    assert problems_in(f"def f():\n{textwrap.indent(code, '    ')}") == []


def test_a_promise_that_nothing_waits_for_may_drop_its_errors():
    assert rules_in("load().catch(() => {});\n", path="src/a.ts") == []


WHILE_NOT = """
    async def f(self):
        done = False
        while not done:
            try:
                await self.connect()
                done = True
            except OSError:
                await asyncio.sleep(1)
"""


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("weak-tls", "ssl.SSLContext(ssl.PROTOCOL_TLSv1)"),
        ("weak-tls", "context.minimum_version = ssl.TLSVersion.TLSv1_1"),
        ("unsafe-yaml", "import yaml\nyaml.unsafe_load(text)"),
        ("shell-injection", "asyncio.create_subprocess_shell(f'ls {name}')"),
        ("cross-site-scripting", "from django.utils.safestring import mark_safe\nX = mark_safe(f'<b>{name}</b>')"),
        ("call-not-awaited", "async def f():\n    asyncio.sleep(1)"),
        ("strip-of-words", "x.strip('www.')"),
        (
            "swallowed-cancellation",
            "async def f(x):\n    with contextlib.suppress(asyncio.CancelledError):\n        await x\n    g()",
        ),
        ("retry-without-limit", WHILE_NOT),
    ],
)
def test_a_usual_form_of_a_mistake_is_found(rule, code):
    assert rule in problems_in(code)


@pytest.mark.parametrize(
    "code",
    [
        "VERSIONS = {'1.0': ssl.PROTOCOL_TLSv1}",
        "if context.version == ssl.TLSVersion.TLSv1: stop()",
        "context.minimum_version = ssl.TLSVersion.TLSv1_2",
        "from django.utils.safestring import mark_safe\nX = mark_safe('<b></b>')",
        "async def f(task):\n    task.cancel()\n    with contextlib.suppress(asyncio.CancelledError):\n        await task",
        "while not ready:\n    try:\n        check()\n    except OSError:\n        time.sleep(1)",
    ],
)
def test_a_relative_of_a_mistake_is_not_reported(code):
    assert problems_in(code) == []


def test_a_call_of_go_that_no_longer_looks_at_its_error_is_reported():
    before = 'package shop\n\nfunc f() error {\n\tif err := os.Remove("x"); err != nil {\n\t\treturn err\n\t}\n\treturn nil\n}\n'
    after = 'package shop\n\nfunc f() error {\n\tos.Remove("x")\n\treturn nil\n}\n'
    assert rules_in(after, before=before, path="shop/a.go") == ["swallowed-exception"]


@pytest.mark.parametrize(
    ("call", "count"),
    [
        ("await handle.cleanup().catch(() => {});", 0),
        ("await fs.rm(path, { recursive: true }).catch(() => {});", 0),
        ("return fs.unlink(join(a, b)).catch(() => undefined)", 0),
        ("await server.close().catch(() => {})", 0),
        ("await load(path).catch(() => {});", 1),
        ("await close(await load(path).catch(() => null))", 1),
    ],
)
def test_a_promise_that_only_cleans_up_may_fail(call, count):
    assert len(rules_in(f"async function f() {{\n  {call}\n}}\n", path="a.ts")) == count


def test_an_error_that_was_ignored_before_in_other_words_is_no_finding():
    before = "const f = () => {\n  return load(id).catch(() => {\n    // ignore\n  });\n}\n"
    after = "const f = () => {\n  return load(id).catch(() => undefined)\n}\n"
    assert rules_in(after, before=before, path="a.ts") == []
    assert rules_in(after, before="const f = () => {\n  return load(id)\n}\n", path="a.ts") == ["swallowed-exception"]


def test_a_handler_with_a_comment_that_moves_beside_a_full_one_is_no_finding():
    inner = "try {\n  a()\n} catch (err) {\n  log.error(err)\n}\ntry {\n  b()\n} catch (_err) {\n  // best effort\n}\n"
    assert rules_in(textwrap.indent(inner, "    "), before=inner, path="a.ts") == []


FETCH = """const response = await fetch(url, {
  method: "GET",
  headers: {
    Accept: "a",
  },
  timeout: 10000, // 10 seconds
  redirect: "error",
});
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("  timeout: 10000, // 10 seconds\n", "", 1),
        ('  headers: {\n    Accept: "a",\n  },\n  timeout: 10000, // 10 seconds\n', '  headers: { Accept: "a" },\n', 1),
        ("  timeout: 10000, // 10 seconds\n", "  signal: AbortSignal.timeout(10000),\n", 0),
    ],
)
def test_a_request_of_a_script_that_loses_its_timeout_is_found(old, new, count):
    found = rules_in(FETCH.replace(old, new), before=FETCH, path="a.ts")
    assert found == ["no-timeout"] * count


def test_a_timeout_of_a_database_that_moves_is_no_finding():
    before = "connect({\n  name: x,\n  statement_timeout: limit,\n  ssl: true,\n})\n"
    after = "connect({\n  name: x,\n  ssl: true,\n})\n"
    assert rules_in(after, before=before, path="a.ts") == []
    renamed = before.replace("statement_timeout", "timeout")
    assert rules_in(after, before=renamed, path="a.ts") == ["no-timeout"]
    moved = after + "connect.query(`SET timeout = ${limit}`)\n"
    assert rules_in(moved, before=renamed, path="a.ts") == []


@pytest.mark.parametrize(
    ("path", "count"), [("profiling/pages.py", 0), ("benchmarks/pages.py", 0), ("shop/pages.py", 1)]
)
def test_a_profile_may_wait(path, count):
    assert rules_in("import requests\n\n\ndef f(url):\n    requests.get(url)\n", path=path) == ["no-timeout"] * count


def test_a_program_that_asks_its_own_machine_may_wait():
    code = "import requests\n\nURL = 'http://{}:8000'\n\n\ndef f():\n    requests.get(URL)\n\n\nif __name__ == '__main__':\n    f()\n"
    assert rules_in(code.format("localhost"), path="pages.py") == []
    assert rules_in(code.format("example.org"), path="pages.py") == ["no-timeout"]
