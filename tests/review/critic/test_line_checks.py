import pytest

from reprieve.core.redact.vendors import VENDORS
from reprieve.review.critic.change_set import ParsedFile
from reprieve.review.critic.facts import check_change
from reprieve.review.critic.findings import Severity
from reprieve.review.critic.line_checks import (
    _PUBLIC_RULES,
    _is_of_secrets,
    find_conflict_markers,
    find_debug_leftovers,
    find_invisible_characters,
    find_secrets,
)
from support.change_sets import change_between

GIT_TOKEN = "ghp_" + "wQ7dR2mK9xVb4TzLp8NsYc3HfJ6gAe1UiO5k"
PASSWORD = "vR7#kq9Lm2"
KEY_BODY = "".join(f"MIIEpAIBAAKCAQEAx8v2Qk7wZp{number}Lr9sTbVn3mXc5Yd8Ff1Gh4Jj6Kl\n" for number in range(9))
PRIVATE_KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_BODY}-----END RSA PRIVATE KEY-----\n"


def secrets_in(path, text, before=None):
    return list(find_secrets(change_between({} if before is None else {path: before}, {path: text})))


class TestSecret:
    @pytest.mark.parametrize(
        ("path", "line"),
        [
            ("src/client.py", f'TOKEN = "{GIT_TOKEN}"'),
            ("src/client.py", f"connect(password='{PASSWORD}')"),
            ("src/db.ts", f'const url = "postgres://app:{PASSWORD}@db.prod.corp.com:5432/app"'),
            ("deploy/prod.env", f"DB_PASSWORD={PASSWORD}"),
            ("config.yml", "api_key: 8fK2mQz7Lw4Xv9Rt3Bn6"),
            ("Dockerfile", "ENV STRIPE_KEY=sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"),
        ],
    )
    def test_reports_a_credential(self, path, line):
        (finding,) = secrets_in(path, f"{line}\n")
        assert (finding.rule, finding.severity, finding.line) == ("secret", Severity.HIGH, 1)

    @pytest.mark.parametrize(
        ("path", "line"),
        [
            ("src/client.py", "password = settings.password"),
            ("src/client.py", "client = Client(token=self._token2)"),
            ("src/client.py", 'key = os.environ["API_KEY_V2"]'),
            ("src/client.py", "def login(user: str, password: str = None) -> Token:"),
            ("src/client.py", 'password = "changeme123"'),
            ("src/client.py", 'API_KEY = "your-api-key-0a1b2c3d4e"'),
            ("src/client.py", 'token = "<token-1>"'),
            ("src/client.py", 'TOKEN_NAME = "x_access_token_v2"'),
            ("src/client.py", 'SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"'),
            ("src/client.py", 'password_hash = "5f4dcc3b5aa765d61d8327deb882cf99"'),
            ("src/client.py", 'URL = "postgres://app:p4ssphrase9@localhost/app"'),
            ("deploy/prod.env", "DB_PASSWORD=${DB_PASSWORD}"),
            ("deploy/prod.env.example", f"DB_PASSWORD={PASSWORD}"),
            ("config.yml", "api_key: {{ vault.api_key2 }}"),
            ("config.yml", "  password: ${{ secrets.PASSWORD_2 }}"),
            (
                "keys/server.pub",
                "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8m2Kq7Wz4Xv9Rt3Bn6Lp1Yc5Hf8Gd0Se2Ta4Ub6 root",
            ),
            ("package-lock.json", '"integrity": "sha512-vR7kq9Lm2WzXbT4nPs6YdHf8JgKc3EaUiOQ1rMxLvBt=="'),
            ("frontend/lang/messages/ja-JP.json", '"new-password": "パスワードは8文字以上"'),
            (
                ".travis.yml",
                'URL="AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFs="',
            ),
        ],
    )
    def test_accepts_references_placeholders_and_checksums(self, path, line):
        assert secrets_in(path, f"{line}\n") == []

    @pytest.mark.parametrize("path", ["tests/test_client.py", "docs/setup.md", "fixtures/user.json", "README.rst"])
    def test_accepts_made_up_passwords_in_tests_and_documents(self, path):
        assert secrets_in(path, f'password = "{PASSWORD}"\n') == []

    @pytest.mark.parametrize("path", ["tests/test_client.py", "docs/setup.md"])
    def test_reports_the_format_of_a_vendor_in_tests_and_documents_too(self, path):
        assert len(secrets_in(path, f'token = "{GIT_TOKEN}"\n')) == 1

    def test_accepts_the_example_key_of_a_vendor(self):
        assert secrets_in("src/aws.py", 'KEY = "AKIA' + 'IOSFODNN7EXAMPLE"\n') == []

    def test_reports_a_private_key_once_at_its_first_line(self):
        (finding,) = secrets_in("deploy/server.pem", PRIVATE_KEY)
        assert (finding.line, finding.quote) == (1, "-----BEGIN RSA PRIVATE KEY-----")

    def test_rates_a_private_key_of_a_document_lower(self):
        (finding,) = secrets_in("docs/server.pem", PRIVATE_KEY)
        assert finding.severity is Severity.MEDIUM

    @pytest.mark.parametrize("path", ["tests/certs/server.pem", "app/settings/test.py"])
    def test_accepts_a_private_key_of_a_test(self, path):
        assert secrets_in(path, PRIVATE_KEY) == []

    def test_accepts_a_private_key_in_the_test_module_of_a_rust_file(self):
        test = f'#[cfg(test)]\nmod tests {{\n    const KEY: &str = "{PRIVATE_KEY}";\n}}\n'
        assert secrets_in("src/token.rs", f"fn read() {{}}\n\n{test}") == []
        assert len(secrets_in("src/token.rs", f'{test}\nconst KEY: &str = "{PRIVATE_KEY}";\n')) == 1

    @pytest.mark.parametrize("path", ["src/client.py", "tests/test_client.py"])
    @pytest.mark.parametrize("kind", ["ghp", "gho", "ghs", "ghu"])
    def test_accepts_the_tokens_that_the_documents_of_github_show(self, path, kind):
        token = f"{kind}_" + "16C7e42F292c6912E7710c838347Ae178B4a"
        assert secrets_in(path, f'token = "{token}"\n') == []

    def test_accepts_the_header_of_a_private_key_in_code(self):
        assert secrets_in("src/pem.py", 'HEADER = "-----BEGIN RSA PRIVATE KEY-----"\nother = 1\n') == []

    @pytest.mark.parametrize("secret", [GIT_TOKEN, PASSWORD])
    def test_quotes_the_line_without_any_part_of_the_secret(self, secret):
        (finding,) = secrets_in("src/client.py", f'login(password="{secret}", again="{secret}")\n')
        assert finding.quote.startswith("login(")
        assert not any(secret[start : start + 4] in finding.quote for start in range(len(secret) - 3))

    def test_accepts_a_secret_that_the_file_had_before(self):
        line = f'TOKEN = "{GIT_TOKEN}"'
        assert secrets_in("src/client.py", f"import os\nGITHUB_{line}\n", before=f"{line}\n") == []

    def test_accepts_a_secret_that_moved_from_another_file(self):
        line = f'TOKEN = "{GIT_TOKEN}"\n'
        assert list(find_secrets(change_between({"a.py": line}, {"b.py": line}))) == []

    def test_finds_the_line_of_a_secret_among_many(self):
        lines = [f"value_{number} = {number}" for number in range(900)]
        lines[700] = f'TOKEN = "{GIT_TOKEN}"'
        (finding,) = secrets_in("src/client.py", "\n".join(lines))
        assert finding.line == 701

    def test_finds_no_secret_in_five_thousand_calls(self):
        change = change_between(
            {}, {"src/a.py": "".join(f'key_{n} = load("name {n}")  # a comment\n' for n in range(5_000))}
        )
        assert change.files[0].added
        assert list(find_secrets(change)) == []

    def test_knows_every_rule_of_the_scanner_for_keys_of_vendors(self):
        rules = {vendor.rule for vendor in VENDORS} - _PUBLIC_RULES - {"password-hash", "mnemonic"}
        assert [rule for rule in sorted(rules) if not _is_of_secrets(rule)] == []

    @pytest.mark.parametrize(
        "line", ['email = "jane.doe@corp.com"', 'phone = "+49 170 1234567"', 'card = "4111 1111 1111 1111"']
    )
    def test_leaves_data_of_people_to_other_checks(self, line):
        assert secrets_in("src/client.py", f"{line}\n") == []


def conflicts_in(path, text, parsed=None):
    change = change_between({}, {path: text})
    if parsed is not None:
        change = type(change)(
            files=change.files, tree=change.tree, base=change.base, parsed={path: ParsedFile(after=parsed)}
        )
    return [each.line for each in find_conflict_markers(change)]


class TestConflictMarker:
    CONFLICT = "a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> topic\nd\n"

    def test_reports_a_conflict_once_at_its_first_marker(self):
        assert conflicts_in("src/a.py", self.CONFLICT) == [2]

    def test_reports_the_rest_of_a_conflict(self):
        assert conflicts_in("src/a.py", "a\n=======\nc\n>>>>>>> topic\n") == [2]

    def test_accepts_headings_of_documents(self):
        assert conflicts_in("docs/a.rst", "Heading\n=======\n\nText\n") == []

    def test_accepts_a_conflict_that_a_document_shows(self):
        assert conflicts_in("docs/merge.md", f"```\n{self.CONFLICT}```\n") == []

    def test_accepts_markers_inside_a_text_of_a_file_that_parses(self):
        assert conflicts_in("src/a.py", f'TEXT = """\n{self.CONFLICT}"""\n', parsed={"error": None}) == []

    def test_accepts_markers_that_are_indented(self):
        assert conflicts_in("src/a.c", "  <<<<<<< x\n") == []


def leftovers_in(path, text, before="\n"):
    files = {} if before is None else {path: before}
    return [each.comment.split("`")[1] for each in find_debug_leftovers(change_between(files, {path: text}))]


class TestDebugLeftover:
    @pytest.mark.parametrize(
        ("path", "line", "statement"),
        [
            ("src/a.py", "    breakpoint()", "breakpoint()"),
            ("src/a.py", "    import pdb; pdb.set_trace()", "pdb.set_trace()"),
            ("tests/test_a.py", "    breakpoint()  # look", "breakpoint()"),
            ("src/a.ts", "  debugger;", "debugger"),
            ("src/a.vue", "      console.log(response);", "console.log"),
            ("src/a.js", '      console.log("here", value);', "console.log"),
            ("app/a.rb", "    binding.pry", "binding.pry"),
            ("src/a.rs", "    dbg!(&value);", "dbg!"),
            ("src/a.php", "    var_dump($user);", "var_dump"),
            ("src/A.java", '    System.out.println("DEBUG " + user);', "System.out.println"),
            ("pkg/a.go", "\tspew.Dump(user)", "spew.Dump"),
            ("pkg/a.go", '\tfmt.Printf("dedup %s firing=%+v resolved=%+v\\n", key, firing, resolved)', "fmt.Printf"),
            ("src/a.py", '    print("here")', "print"),
            ("src/a.py", '    print(f"{user.name=}")', "print"),
        ],
    )
    def test_reports_a_statement_left_from_debugging(self, path, line, statement):
        assert leftovers_in(path, f"{line}\n") == [statement]

    @pytest.mark.parametrize(
        ("path", "line"),
        [
            ("src/a.py", '    log("call breakpoint() here")'),
            ("src/a.py", "    # breakpoint()"),
            ("src/a.py", '    print("Done.")'),
            ("scripts/a.py", '    print("here")'),
            ("tests/test_a.py", '    print("here")'),
            ("src/a.py", "from pdb import Pdb"),
            ("src/a.ts", "  const debuggerUrl = 1"),
            ("src/a.js", "  console.error(error)"),
            ("src/a.js", '  console.log("Server is listening on port", port)'),
            ("src/server.js", "  console.log(port)"),
            ("scripts/a.js", "  console.log(value)"),
            ("src/a.test.js", "  console.log(value)"),
            ("webpack.config.js", "  console.log(value)"),
            ("Gemfile", 'gem "byebug"'),
            ("tests/a.rs", "    dbg!(value);"),
        ],
    )
    def test_accepts_output_for_people_and_other_words(self, path, line):
        assert leftovers_in(path, f"{line}\n") == []

    def test_accepts_a_console_in_a_file_that_used_it_before(self):
        assert leftovers_in("src/a.js", "console.log(a)\nconsole.log(b)\n", before="console.log(a)\n") == []

    def test_accepts_a_console_in_a_new_file(self):
        assert leftovers_in("src/a.js", "console.log(a)\n", before=None) == []

    def test_accepts_a_debugger_that_the_file_builds_upon(self):
        assert leftovers_in("src/shell.py", "import pdb\n\nclass Shell(pdb.Pdb):\n    pass\n") == []

    def test_accepts_a_statement_inside_a_text_of_several_lines(self):
        assert leftovers_in("src/a.py", 'SOURCE = """\nbreakpoint()\n"""\n') == []

    def test_accepts_a_statement_that_moved(self):
        assert leftovers_in("src/a.py", "x = 1\nif x:\n    breakpoint()\n", before="breakpoint()\nx = 1\n") == []


def invisible_in(path, text, before=None):
    files = {} if before is None else {path: before}
    return [(each.rule, each.quote) for each in find_invisible_characters(change_between(files, {path: text}))]


class TestInvisibleCharacters:
    def test_reports_a_control_of_direction_and_shows_it(self):
        ((rule, quote),) = invisible_in("src/a.py", "if role != 'user\u202e\u2066': # \u2069\n")
        assert rule == "bidi-control"
        assert quote == "if role != 'user\\u202e\\u2066': # \\u2069"

    def test_reports_a_mark_of_direction_in_code(self):
        assert [rule for rule, _ in invisible_in("src/a.go", "is\u200fAdmin := true\n")] == ["bidi-control"]

    def test_reports_a_zero_width_character_inside_a_name(self):
        assert invisible_in("src/a.js", "const ad\u200bmin = 1\n") == [
            ("invisible-character", "const ad\\u200bmin = 1")
        ]

    @pytest.mark.parametrize(
        ("path", "text"),
        [
            ("locale/he/messages.po", 'msgstr "\u202b\u05e9\u05dc\u05d5\u05dd\u202c"'),
            ("src/i18n/ar.json", '"greeting": "\u200f\u0645\u0631\u062d\u0628\u0627"'),
            ("docs/a.md", "text \u202e"),
            ("data/names.json", '"name": "\u202b\u05e9\u05dc\u05d5\u05dd\u202c"'),
            ("src/a.py", 'FAMILY = "\U0001f468\u200d\U0001f469"'),
            ("src/a.py", 'name = "Grüße"'),
            ("src/a.py", 'RLM = "\\u200f"'),
        ],
    )
    def test_accepts_translations_emoji_and_escapes(self, path, text):
        assert invisible_in(path, f"{text}\n") == []

    def test_accepts_a_line_that_was_there_before(self):
        line = "x = 'a\u202eb'"
        assert invisible_in("src/a.py", f"if y:\n    {line}\n", before=f"{line}\n") == []


@pytest.mark.parametrize(
    ("before", "found"), [("let a = 1;\n", True), ("let a = 1;\nconsole.log('Server is listening on', port);\n", True)]
)
def test_a_printed_value_with_a_short_label_is_a_leftover(before, found):
    after = before + 'console.log("hideValues", this.hideValues, parameters);\n'
    rules = [each.rule for each in check_change(change_between({"src/a.jsx": before}, {"src/a.jsx": after})).findings]
    assert rules == ["debug-leftover"] * found


def test_a_password_of_a_container_of_the_tests_is_no_secret():
    text = "services:\n  db:\n    environment:\n      POSTGRES_PASSWORD: hGt7sKq2Lm9x\n"
    assert [each.rule for each in check_change(change_between({}, {"deploy/compose.yaml": text})).findings] == [
        "secret"
    ]
    for path in (".ci/compose.ci.yaml", "docker-compose.e2e.yml"):
        assert check_change(change_between({}, {path: text})).findings == ()


def test_a_pattern_that_describes_keys_is_no_secret():
    key = "sk-" + "ant-api03-"
    line = f'PATTERN = re.compile(r"{key}[0-9a-zA-Z\\-_]{{90,}}")\n'
    assert list(find_secrets(change_between({}, {"src/scan.py": line}))) == []


def test_an_error_that_a_handler_shows_is_no_leftover():
    before = {"src/a.ts": "start();\n"}
    assert list(find_debug_leftovers(change_between(before, {"src/a.ts": "start();\nconsole.log(error);\n"}))) == []
    assert len(list(find_debug_leftovers(change_between(before, {"src/a.ts": "start();\nconsole.log(rows);\n"})))) == 1
