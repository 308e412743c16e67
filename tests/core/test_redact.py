"""Redaction as such: markers, reports, idempotence, linear time, identifiers that stay."""

import cProfile
import json
import string
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprieve.core.redact import NONE, RedactionReport, Secrets, patterns, redact, scan
from reprieve.core.redact import engine as engine_module

GITHUB = "gh" + "p_" + "aB3" * 12


def test_clean_text_comes_back_as_the_very_same_object():
    text = "HTTP 503 from https://api.example.com/v1/jobs/42, retry after 30 s"
    assert scan(text) == (text, ())
    assert scan(text)[0] is text


def test_a_marker_names_the_rule_and_holds_nothing_of_the_secret():
    assert redact(f"push failed with {GITHUB}.") == "push failed with [redacted:git-token]."


def test_a_report_counts_rules_over_several_texts_and_holds_no_value():
    report = RedactionReport()
    redact(f"{GITHUB} and password=hunter2", report=report)
    redact("password=hunter2", report=report)
    redact("nothing here", report=report)
    assert report.counts == (("git-token", 1), ("password", 2))
    assert report.total == 3
    assert json.loads(report.to_json()) == {"git-token": 1, "password": 2}
    assert "hunter2" not in repr(report)


def test_scan_says_what_redact_would_report():
    clean, counts = scan(f"a {GITHUB} b password=hunter2")
    assert clean == "a [redacted:git-token] b password=[redacted:password]"
    assert counts == (("git-token", 1), ("password", 1))


def test_lone_surrogates_and_nul_pass_through():
    text = "bad \ud800 text \x00 with password=hunter2 \udfff"
    assert redact(text) == "bad \ud800 text \x00 with password=[redacted:password] \udfff"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("пароль=тест password=hunter2 конец", "пароль=тест password=[redacted:password] конец"),
        ("名前 {'password': '日本語パスワード'} 終わり", "名前 {'password': '[redacted:password]'} 終わり"),
        ("x@é.example — ok", "[redacted:email] — ok"),
    ],
)
def test_characters_outside_ascii_are_never_split(text, clean):
    assert redact(text) == clean


def test_network_addresses_stay_unless_asked_for():
    text = "connect to 10.1.2.3:5432 and [fe80::1] and ::1 failed at 10:20:30 with 1.2.3"
    assert redact(text) == text
    gone = redact(text, addresses=True)
    assert "10.1.2.3" not in gone
    assert "fe80" not in gone
    assert "10:20:30" in gone
    assert "1.2.3" in gone


IDENTIFIERS = (
    "7f3a9c1e-4b7d-4b0e-9c55-2d7c3a1f8e11", "2b4120780b18", "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "req_011CSHoEeqs5C35K2UUqR7Fy", "x-request-id: 9d2c-4412", "chatcmpl-9aBcDeFgHiJkLmNoPqRsTuVwXyZ",
    "trace_id=5dac6d12cd2a4b66e949727d35c290a5", "span_id=846edd0caecf566f", "2024-05-01T10:20:30.123456Z", "1714558830123", "/srv/app/lib/client.py", "line 1042", "v2.31.0-rc.1+build.7",
    "cl-42@3", "01HW3Z9K8X4N7Q2R5T6V8Y0B1C", "order-2024-000123", "SQLSTATE 40P01", "<Foo object at 0x7f3a9c1e4b70>", "requests==2.31.0", "sha256:9b2a28eb47540823042a2ba401386845089bb7b62a9637d55816132c4c3c36eb",
    "arn:aws:iam::123456789012:role/deploy", "db-3.prod.internal:5432", "main.3f2a9c1b.chunk.js", "shop-worker-7d9f8b6c5d-x2k4q", "msg_01XFDUDYJgAACzvnptvVoYEL", "pi_3NxYzAbCdEfGhIjK",
    "job 8123456789", "exit code 137", "errno 104", "pid 97555", "commit 3f2a9c1", "index 3f2a9c1..8b7d6e5 100644", 'W/"5f2a9c1b-1a2b"', "i-0abc123def4567890", "subnet-0a1b2c3d4e5f67890", "token_type=bearer",
    "max_tokens=4096", "prompt_tokens: 812", "key_id=17", "session 42", "password_reset_at=2024-05-01", "author=7", "KeyError: 'token'", "passed=12 failed=0", "primary_key=id", "cache_key=user:42:profile",
    "idempotency_key=cl-42@3", "git@github.com:org/repo.git", "npm@10.2.4", "logo@2x.png", "getty@tty1.service", "4242 rows", "1.2.3.4", "0.30000000000000004", "+0200", "2024-05-01 10:20:30,123",
)  # fmt: skip


@pytest.mark.parametrize("identifier", IDENTIFIERS)
def test_what_operators_look_for_stays(identifier):
    for form in ("{}", "failed: {} again", '{{"id": "{}"}}', "job={} state=dead", "[{}]"):
        text = form.format(identifier)
        assert redact(text) == text


SENTENCES = (
    'password authentication failed for user "app"', "Invalid password: too short", "The password must be at least 8 characters", "token expired", "Unexpected token } in JSON at position 5",
    "Incorrect API key provided: sk-****abcd.", "Authorization header is missing", "no password supplied", "(using password: YES)", "fe_sendauth: no password supplied",
    "api_key=os.environ['API_KEY'], password=None, token=self.token", "def login(self, password: str, token: str | None = None) -> Session:", "    password=password,", 'raise AuthError(f"bad token: {token}")',
    'getpass.getpass("Password: ")', "secret_name=db-credentials", "token: <missing>", "password: ********", "password=$DB_PASSWORD", "token=${{ secrets.TOKEN }}", "{'password': ['This field is required.']}",
    "invalid credentials", "401 Unauthorized: bearer token required", "cookie jar is empty", "session closed", "The secret is rotated every day", "SELECT password_hash FROM users WHERE id = $1", "Basic authentication is not supported",
)  # fmt: skip


@pytest.mark.parametrize("sentence", SENTENCES)
def test_talk_about_secrets_stays_readable(sentence):
    assert redact(sentence) == sentence


FRAGMENTS = st.sampled_from(
    [
        "password", "=", ": ", '"', "'", "\\", '\\"', "{", "}", "[", "]", "(", ")", ",", " ", "\n", "hunter2", "Authorization: Bearer ", "x1y2z3a4b5c6", "content", "role", "user", "messages", "token", "api_key",
        "[redacted:", "[redacted:password]", "https://u:", "@host/", "-----BEGIN PRIVATE KEY-----", "anna@example.com", "+49 170 1234567", "&quot;", "''", "\x1b[31m", "Human:", "Assistant:", "--password ",
        "mysql -p", "AUTH ", "\\n", "\t", "None", "4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00", "first_name", "Anna Smith", "<", ">", "value", "name", ";", "&", "|", "- ", GITHUB, "é", "😀", "334 ", "aHVudGVyMg==",
    ]
)  # fmt: skip


@settings(max_examples=1500, deadline=None)
@given(st.lists(FRAGMENTS, max_size=24).map("".join))
def test_redacting_twice_is_redacting_once(text):
    once = redact(text)
    assert redact(once) == once


@settings(max_examples=400, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_survived_and_settles(text):
    once = redact(text)
    assert redact(once) == once


SECRET_TEXT = st.text(
    alphabet=string.ascii_letters + string.digits + "!#$%*+-_.:?^~/ ", min_size=6, max_size=40
).filter(lambda value: value.strip() == value and any(c.isalnum() for c in value) and value not in "[redacted:live]")


@settings(max_examples=400, deadline=None)
@given(SECRET_TEXT, st.integers(0, 3))
def test_any_registered_value_is_found_however_often_it_was_escaped(value, depth):
    secrets = Secrets.of({"live": value})
    text = f"<<{value}>>"
    for _ in range(depth):
        text = json.dumps(text)
    assert value not in redact(text, secrets=secrets)


def test_re2_is_not_loaded_until_something_is_redacted():
    code = "import sys, reprieve.core.redact as r; assert 're2' not in sys.modules; r.redact('x'); assert 're2' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


SEEDS = {
    "sheets": "password,email\n", "queries": "?email=x", "arrows": "=>|ssn", "assignments": "a=", "password keys": "password=", "quotes": '"', "backslashes": "\\", "key beginnings": "-----BEGIN PRIVATE KEY-----", "half key beginnings": "-----BEGIN ", "jwt heads": "ey" + "J.", "at signs": "a@",
    "at signs alone": "@", "digits": "1", "urls": "a://", "braces": '{"a":', "brackets": "[", "hits": "password=hunter2" + " x" * 42, "open quotes": 'password="', "escaped quotes": 'content: \\"', "chat keys": '"content": "',
    "roles": '{"role": "user", "content": "', "tuples": "('user', '", "speakers": "Human: a\nAssistant: b\n", "templates": "<|im_start|>user\n", "spaces": "password= ", "commands": "mysql ", "headers": "Authorization: ", "colons": "a:5432:b:c:",
    "newlines": "token:\n", "entities": "&quot;", "doubled quotes": "''", "emails": "anna@example.com,", "phones": "+49 170 1234567 ", "cards": "4111 1111 1111 1111 ", "ibans": "DE89 3704 0044 ", "vendors": GITHUB + " ", "nested lists": '"content": [[', "lists of tuples": 'role: user "messages": [(', "arguments": '{"role": "user", "input": {', "calls": "auth=(", "cookies": "cookies={", "secret calls": "token=SecretStr('",
    "elements": "<password a='b'", "pairs": "('password', ", "values elsewhere": '"name": "password", "value": ', "annotations": "password: str = ", "digest headers": 'Authorization: Digest a="', "quoted headers": '"Authorization: ',
    "prose": "the password is ", "curl": "curl -u ", "pipes": "echo x | ", "colours": "\x1b[31m", "base64": "QUFB", "transcript lines": "Human: ", "prompts": "Prompt: ", "blocks": "password: |\n  a\n", "mail names": "Anna Smith <", "dots": "a.", "lines": "a\n",
    "markers": "[redacted:password]",
    "members": "auth=('a', ", "yaml": "- role: user\n  content: x\n", "flags": "--password ", "pem bodies": "A" * 64 + "\n", "unicode": "é😀", "wraps": "gh" + "p_aaaaaaaaaaaa\n",
}  # fmt: skip


def calls_of(text):
    """How many calls, of Python and of C, it takes to redact a text."""
    profile = cProfile.Profile()
    profile.runcall(redact, text)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize("name", SEEDS)
def test_work_grows_with_the_text_and_no_faster(name):
    """Calls are counted, not timed."""
    redact(SEEDS[name] * 50)  # patterns are compiled when they are first used
    small, large = (calls_of((SEEDS[name] * (size // len(SEEDS[name]) + 1))[:size]) for size in (1 << 14, 1 << 16))
    # Four times the text, four times the work; or, where a short text was one single hit, so many calls a byte.
    assert large <= max(4 * small * 1.3 + 2000, 40 * (1 << 16))


def test_no_pattern_asks_for_more_states_than_it_may_have():
    for trigger, _ in (row for group in engine_module._groups() for row in group):
        patterns.compiled(trigger)
    assert scan("x", NONE) == ("x", ())
