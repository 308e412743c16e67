"""A value in the place of a secret goes, in whatever notation it stands and however often it was escaped."""

import json

import pytest

from reprieve.core.redact import redact

WEAK = "meadow" + "7346"
STRONG = "q7Lr2" + "vXw9Tz4KpB8"
LETTERS = "juniper" + "saddle"
TICKET = "F902912233EC68D9" + "C17C6F52188C76C7"

ANY = {
    "validator": "1 validation error for Settings\npassword\n  String should have at most 5 characters [type=string_too_long, input_value='{}', input_type=str]",
    "validator-nested": "db.api_key\n  Extra inputs are not permitted [type=extra_forbidden, input_value='{}', input_type=str]",
    "validator-json": '{{"detail":[{{"type":"string_too_short","loc":["body","password"],"msg":"String should have at least 8 characters","input":"{}"}}]}}',
    "validator-dict": "[{{'type': 'string_too_long', 'loc': ('password',), 'msg': 'String should have', 'input': '{}'}}]",
    "ftp": "USER bob\r\n331 Please specify the password.\r\nPASS {}\r\n530 Login incorrect.",
    "pop3": "USER bob\n+OK\nPASS {}\n-ERR",
    "block-scalar": "- password: |\n    {}\n",
    "folded-scalar": "password: >-\n    {}\nhost: h",
    "bold-label": "**Password:** {}",
    "bold-key": "**SMTP_PASS**: `{}`",
    "table-row": "| Password | `{}` |",
    "expanded-row": "id | 7\npassword | {}\nhost | h",
    "redis-hello": "HELLO 3 AUTH default {}",
    "redis-acl-entity": "<pre>ACL SETUSER bob on &gt;{} ~* +@all</pre>",
    "redis-prompt": "`call': 127.0.0.1:6379> AUTH {} (RuntimeError)",
    "dockerfile-in-a-message": "Uncaught RuntimeException: ENV DB_PASSWORD {} in /srv/www/app/Client.php:895",
    "arrow": 'password <- "{}"',
    "comparison": "assert password == '{}'",
    "long-arrow": "password ==> {}",
    "optional": 'password: Optional("{}")',
    "just": 'password = Just "{}"',
    "go-variable": 'var password string = "{}"',
    "rust-constant": 'const PASSWORD: &str = "{}";',
    "plural": 'passwords: ["{}", "b"]',
    "basic-auth": "basic auth bob:{} was refused",
    "unlock-code": "unlock_code: {}",
    "wifi": "wifi_psk={}",
    "router": "username bob password 0 {}",
    "dotted-key": "api.key={}",
    "redis-acl": "ACL SETUSER bob on >{} ~* +@all",
    "redis-wire": "*2\r\n$4\r\nAUTH\r\n$24\r\n{}\r\n",
    "sql-set-password": "SET PASSWORD FOR 'app'@'%' = '{}';",
    "sql-identified": "ALTER USER scott IDENTIFIED BY {};",
    "sentence-use": "use password {} to log in",
    "sentence-is": "my api key is {}",
    "prompt": "Password for bob: {}",
    "argument-error": "tool: error: argument --password: invalid value: '{}'",
    "mismatch": "password mismatch: '{}' != stored hash",
    "secure-string": "ConvertTo-SecureString -String {} -AsPlainText -Force",
    "network-credential": 'new NetworkCredential("bob", "{}")',
    "flag-init": "doctl auth init -t {}",
    "flag-htpasswd": "htpasswd -b -c f bob {}",
    "flag-body": "gh secret set NPM_TOKEN --body {}",
    "flag-config-secret": "pulumi config set --secret dbPassword {}",
    "flag-second": "keytool -importkeystore -srcstorepass x1y2z3 -deststorepass {}",
    "flag-ldappasswd": "ldappasswd -s {} -D cn=a uid=b",
    "flag-http-basic": "poetry config http-basic.foo bob {}",
    "flag-add-user": "rabbitmqctl add_user bob {}",
    "flag-change": "rabbitmqctl change_password bob {}",
    "property-login": "mvn sonar:sonar -Dsonar.login={}",
    "property-key": "-Dapi_key={}",
    "property-hash": "-DpasswordHash={}",
    "flag-new-phrase": "ssh-keygen -t rsa -N '{}' -f k",
    "flag-old-phrase": "ssh-keygen -p -P {} -N '' -f k",
    "flag-auth-password": "swaks -au bob -ap {}",
    "flag-authtoken": "ngrok config add-authtoken {}",
    "fish": "set -x GITHUB_TOKEN {}",
    "comma-user": "lftp -u app,{} sftp://p4.internal",
    "net-use": "net use Z: \\\\fs1\\share /user:deploy {}",
    "chpasswd": "echo bob:{} | chpasswd",
    "plist": "<key>password</key>\n<string>{}</string>",
    "definition": "<dt>Password</dt><dd>{}</dd>",
    "attribute-names-text": '<string name="secret_key">{}</string>',
    "hidden-input": '<input name="password" type="hidden" value="{}"/>',
    "input-value-first": '<input type="hidden" value="{}" name="csrf_token">',
    "bytearray": "key=bytearray(b'{}')",
    "php-dump": '  ["password"]=>\n  string(10) "{}"',
    "erlang": '{{auth,[{{user,"bob"}},{{password,"{}"}}]}}',
    "property-initializer": 'public string Password {{ get; set; }} = "{}";',
    "camel-pw": "namespace(bindPw='{}', x=1)",
    "conditional-assignment": "PASSWORD ?= {}",
    "shell-default": "TOKEN=${{TOKEN:-{}}}",
    "workflow-command": "::set-output name=token::{}",
    "secret-repr": "SecretStr('{}')",
    "go-dsn": "app:{}@tcp(db:3306)/orders",
    "triple-quotes": 'access_token="""{}"""',
    "sheet": "username,password,role\ndeploy,{},admin\n",
    "header-in-a-mapping": "headers={{'Accept': '*/*', 'X-N8N-API-KEY': '{}', 'User-Agent': 'x/1'}}",
    "ldif": "userPassword:: {}==",
    "url-slash": "postgresql://app:2s6t/{}@db:5432/x",
    "magic-link": "https://x.test/magic-link?code={}",
    "verifier": "code_verifier={}&redirect_uri=https%3A%2F%2Fapp.test",
    "device": '{{"device_code":"{}","interval":5}}',
    "mssql": "CREATE LOGIN alice WITH PASSWORD = N'{}'",
    "crypt": "SELECT crypt('{}', gen_salt('bf'))",
    "cloud-init": "chpasswd:\n  list: |\n    root:{}",
    "sheet-in-a-message": "rpc error: desc = username,password,role\nroot,{},admin",
    "dotted-pair": "[(b'host', b'h'), (b'kafka.sasl.password', b'{}')]",
    "subscript": "password[0]='{}'",
    "next-line": "password:\n  {}\nnext: 1",
    "tab": "password\t{}",
    "html-in-html": "<pre>{{&amp;quot;password&amp;quot;:&amp;quot;{}&amp;quot;}}</pre>",
    "wrong": "Wrong password '{}' for bob",
    "field-value": "field 'password' with value '{}' rejected",
    "saml": "GET https://x.test/v1?limit=10&SAMLResponse={}&page=2",
}
ONLY_LETTERS = (
    "password={}, host=h",
    "pwd={},user=bob",
    "Config(user=bob, password={}, url=x)",
    "Map(user -> bob, password -> {})",
    "Authorization: Bearer {}",
    "ENV API_TOKEN {}",
    "The temporary password is: {}",
    "TOKEN=${{TOKEN:-{}}}",
)
RANDOM_ONLY = (
    "X-Honeycomb-Team: {}",
    "X-JFrog-Art-Api: {}",
    "GH_PAT={}",
    "{{ host: 'h', ghPat: '{}' }}",
    "using key {}for tenant 3".replace("}f", "} f"),
    "key rejected: {}.",
    "{{'pat': '{}'}}",
    "Incorrect API key provided: -{}. You can find your key",
    "Incorrect API key provided: _{}. You can find your key",
)
TICKETS = ("perforce:1666 (bot) {}", "p4 login -a -p: {}")


def escaped(text: str, depth: int) -> str:
    for _ in range(depth):
        text = json.dumps({"detail": text})
    return text


def gone(text: str, value: str) -> None:
    for depth in range(4):
        clean = redact(escaped(text, depth))
        assert value not in clean, (depth, clean)
        assert redact(clean) == clean


@pytest.mark.parametrize("value", [WEAK, STRONG], ids=["weak", "strong"])
@pytest.mark.parametrize("text", ANY.values(), ids=ANY.keys())
def test_a_value_in_the_place_of_a_secret_goes_in_every_notation(text, value):
    gone(text.format(value), value)


@pytest.mark.parametrize("text", ONLY_LETTERS)
def test_a_value_of_letters_only_goes_where_no_code_stands(text):
    gone(text.format(LETTERS), LETTERS)


@pytest.mark.parametrize("text", RANDOM_ONLY)
def test_a_random_value_goes_under_names_that_are_not_sure(text):
    gone(text.format(STRONG), STRONG)


@pytest.mark.parametrize("text", TICKETS)
def test_a_ticket_goes_where_a_server_or_its_client_shows_it(text):
    gone(text.format(TICKET), TICKET)


def test_letters_of_another_alphabet_go_when_escaped_too():
    gone("DB_PASSWORD=\u043f\u0443\u0442\u044c1234\nMODE=prod", "1234")


def test_the_private_lines_of_a_key_go_when_escaped_too():
    body = "PDBEv0TAH4Jt33rIDOkkOId/" + "lpG8i2oZoOMfzcicxk0Qn9oSw"
    gone(f"PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\n{body}==\nPrivate-MAC: 3031", body)


SECRETLESS = (
    "token for job 0a10b8a9-9ffd-4eb6-af8f-08d90289c820 expired",
    "token for job 50491af0b4a2 expired",
    "api key for request req_011CSHoEeqs5C35K2UUqR7Fy rejected",
    "arn:aws:secretsmanager:us-east-1:884939964563:secret:prod/db-cUoLcL",
    "PASS src/app.test.js (5.2 s)",
    "PASS src/app.test.js",
    "PASS: test_login",
    "250-AUTH=LOGIN PLAIN",
    "ERR AUTH <password> called without any password configured",
    "handled by the\n    AUTH handler\n",
    "['access_key', 'secret_key', 'token']",
    "        password = val\n",
    "        password = await password\n",
    "    sslkey = sslrootcert = None\n",
    '    api_key = get_secret_str("OPENAI")\n',
    "{accessToken:o}=(0,t.default)()",
    "    auth_header = 'Proxy-Authorization'\n",
    "        auth_str = f'{username}:{password}'\n",
    "    :param password: new password\n",
    "    :param str token: anything else\n",
    "const token = await login();",
    'flag.String("api-key", "none", "the key to use")',
    "$pw = $_POST['password'];",
    "PASSWORD=${PASSWORD:?must be set}",
    '{"ClientRequestToken": "EXAMPLE1-90ab-cdef-fedc-ba987EXAMPLE"}',
    '{"output_token": "nextToken"}',
    "ticket: OPS-1234",
    'if token == "name" or auth != "digest":',
    "tokens: 512",
    "curl -u https://x.test/path",
    'FATAL: password authentication failed for user "postgres"',
    "| token | string | yes | the token |",
    "| Password | Description |",
    "<tr><th>Password</th><th>Description</th></tr>",
    "passwords are hashed: password sha256 is too weak, password argon2 is not",
    "the token type 'bearer' is unknown",
    "ValueError: invalid key '2yYA0Gi5e6B4GknG5urQcpsKt71'",
    "using key uploads/2024/q7Lr2vXw9Tz4KpB8.csv",
    "idempotency key 0a10b8a9-9ffd-4eb6-af8f-08d90289c820 was used",
    "password\ttype\trequired",
    "    connect(\n        user=user,\n        api_key=credential,\n    )",
    'headers = {"X-aws-ec2-metadata-token": imdsv2_session_token}',
    "        headers['Proxy-Authorization'] = basic_auth\n",
    '    HEX_PAT = "[0-9A-Fa-f]{1,4}"\n',
    'apiKey := flag.String("api-key", "", "the API key")',
    "password => $config->{password},",
    "        private_key: CertificateIssuerPrivateKeyTypes,\n",
    "        RegEnumKey = win32api.RegEnumKey\n",
    "            token: Slack API Token (either bot or user)\n",
)


@pytest.mark.parametrize("text", SECRETLESS)
def test_what_only_speaks_of_secrets_stays(text):
    assert redact(text) == text


DIGEST = "f9fd10ac6857c5e6" + "0743e5fc930cadc4"
ENDINGS = (
    (f'said "Authorization: Digest username="bob", response="{DIGEST}"" while reading, client: 10.0.0.7', DIGEST, "client: 10.0.0.7"),
    (json.dumps({"text": f'```Authorization: Digest username="bob", response="{DIGEST}"```', "ts": "17"}), DIGEST, '"ts": "17"'),
    (f"Task(body='username,password,role\\nreporting,{WEAK},admin', attempt=3, state=1)", WEAK, "attempt=3"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "value", "kept"), ENDINGS)
def test_what_follows_a_value_with_quotes_of_its_own_stays(text, value, kept):
    clean = redact(text)
    assert value not in clean
    assert kept in clean


@pytest.mark.parametrize("text", ["&amp;amp;", "a &amp;amp;amp; b", "&amp;amp;amp;amp;"])
def test_an_ampersand_that_was_escaped_several_times_stays_as_it_is(text):
    assert redact(text) == text


def test_a_secret_behind_an_ampersand_that_was_escaped_twice_is_found():
    assert "hunter2-hunter2" not in redact("https://shop.example/?a=1&amp;amp;password=hunter2-hunter2")
