"""Secrets in key position: the names that people give them, and the notations that join a name to its value."""

import json
import re
from collections.abc import Callable

from redaction_audit.draw import Draw

NAMES = (
    "password", "passwd", "db_password", "dbPassword", "userPassword", "db-password", "DB_PASS", "smtpPassword", "pwd",
    "passphrase", "secret", "client_secret", "clientSecret", "client-secret", "CLIENT_SECRET", "api_key", "apiKey",
    "api-key", "apikey", "API_KEY", "OPENAI_API_KEY", "DD_API_KEY", "x_api_key", "access_token", "accessToken",
    "access-token", "refresh_token", "refreshToken", "auth_token", "authToken", "bearer_token", "id_token",
    "session_token", "sessionToken", "private_key", "privateKey", "secret_key", "secretKey", "SECRET_KEY",
    "aws_secret_access_key", "secretAccessKey", "SecretAccessKey", "signing_secret", "signingSecret", "webhook_secret",
    "jwt_secret", "JWT_SECRET", "encryption_key", "encryptionKey", "CLOUDFLARE_API_TOKEN", "bot_token", "github_token",
    "slackToken", "account_key", "consumer_secret", "shared_secret", "app_secret", "appSecret", "credentials",
    "master_key", "webhookSecret", "MAILGUN_API_KEY", "AZURE_OPENAI_KEY",
    "serviceRoleKey", "storageAccountKey", "accessKeySecret", "token", "oauth_token",
)  # fmt: skip

_PASSWORDS = ("pass", "pwd")

Notation = Callable[[Draw, str, str], str]


def value_for(draw: Draw, name: str) -> str:
    """A weak or strong password where the name asks for one, else something opaque."""
    if name == "MAILGUN_API_KEY":
        return draw.fill("key-{h32}")
    if any(part in name.lower() for part in _PASSWORDS):
        return draw.password()
    return draw.opaque() if draw.random() < 0.85 else draw.fill("{h8}-{h4}-4{h3}-a{h3}-{h12}")


def _json(draw: Draw, name: str, value: str) -> str:
    record = {"host": draw.host(), "retries": 3, name: value, "region": "eu-west-1", "timeout_ms": 2500}
    return draw.choice((json.dumps(record), json.dumps(record, separators=(",", ":")), json.dumps(record, indent=2)))


def _nested_json(draw: Draw, name: str, value: str) -> str:
    return json.dumps({"config": {"auth": {"user": draw.word(), name: value}, "port": 5432}, "ok": False})


def _camel(name: str) -> str:
    head, *rest = name.lower().replace("-", "_").split("_")
    return head + "".join(part.capitalize() for part in rest) if rest else name


def _shouted(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).replace("-", "_").upper()


def _identifier(name: str) -> str:
    return name.replace("-", "_")


def _python_call(draw: Draw, name: str, value: str) -> str:
    return f"connect(host={draw.host()!r}, {_identifier(name)}={value!r}, timeout=30)"


def _pydantic_error(draw: Draw, name: str, value: str) -> str:
    return (
        f"1 validation error for Settings\nport\n  Input should be a valid integer [type=int_parsing, "
        f"input_value={{'{name}': {value!r}}}, input_type=dict]"
    )


NOTATIONS: dict[str, Notation] = {
    "json": _json,
    "json-nested": _nested_json,
    "dict-repr": lambda d, n, v: repr({"host": d.host(), n: v, "port": 5432}),
    "dataclass-repr": lambda d, n, v: f"Settings(host={d.host()!r}, {_identifier(n)}={v!r}, port=5432)",
    "pydantic-repr": lambda d, n, v: f"host={d.host()!r} {_identifier(n)}={v!r} port=5432",
    "pydantic-error": _pydantic_error,
    "python-call": _python_call,
    "python-assign": lambda d, n, v: f"{_identifier(n)} = {v!r}",
    "environ": lambda d, n, v: f"os.environ[{n!r}] = {v!r}",
    "subscript": lambda d, n, v: f"settings[{n!r}] = {v!r}",
    "bytes-pair": lambda d, n, v: f"[(b'host', b'{d.host()}'), (b'{n}', b'{v}')]",
    "pair-list": lambda d, n, v: repr([("accept", "*/*"), (n, v)]),
    "yaml": lambda d, n, v: f"database:\n  host: {d.host()}\n  {n}: {v}\n  port: 5432",
    "yaml-quoted": lambda d, n, v: f'database:\n  {n}: "{v}"\n  port: 5432',
    "ini": lambda d, n, v: f"[upstream]\nhost = {d.host()}\n{n} = {v}\ntimeout = 30",
    "toml": lambda d, n, v: f'[upstream]\n{n} = "{v}"\ntimeout = 30',
    "env-line": lambda d, n, v: f"{_shouted(n)}={v}",
    "logfmt": lambda d, n, v: f'level=error {n}={v} attempt=3 msg="upstream refused"',
    "query": lambda d, n, v: f"GET /v2/items?page=2&{n}={v}&limit=50 HTTP/1.1",
    "form": lambda d, n, v: f"grant_type=client_credentials&{n}={v}&scope=read",
    "properties": lambda d, n, v: f"spring.upstream.{n}={v}",
    "xml": lambda d, n, v: f"<config><host>{d.host()}</host><{n}>{v}</{n}></config>",
    "hcl": lambda d, n, v: f'  {n} = "{v}"\n  region = "eu-west-1"',
    "js-object": lambda d, n, v: f"{{ host: '{d.host()}', {_camel(n)}: '{v}', retries: 3 }}",
    "go-struct": lambda d, n, v: f"{{Host:{d.host()} {_camel(n)[0].upper() + _camel(n)[1:]}:{v} Port:5432}}",
    "ruby-hash": lambda d, n, v: f'{{:host=>"{d.host()}", :{_identifier(n)}=>"{v}", :port=>5432}}',
    "java-string": lambda d, n, v: f"Config{{host={d.host()}, {_camel(n)}={v}, port=5432}}",
    "describe-env": lambda d, n, v: f"    Environment:\n      LOG_LEVEL:  info\n      {_shouted(n)}:  {v}\n    Mounts:",
    "terraform-plan": lambda d, n, v: f'      + {n:<20} = "{v}"',
    "set-x": lambda d, n, v: f"+ {_shouted(n)}={v}",
}

PLAIN_VALUE_ONLY = frozenset({"yaml", "ini", "logfmt", "env-line", "set-x", "properties", "go-struct", "java-string"})
"""Notations without quotes: a value with a sign that ends it there would be somebody's syntax error."""
