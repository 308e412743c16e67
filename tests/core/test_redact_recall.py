"""Every kind of secret in every embedding, escaped up to three times: nothing of six characters may stay."""

import json
import random
import string

import pytest

from reprieve.core.redact import redact

RNG = random.Random(20_240)  # the same corpus on every run


def of(alphabet: str, length: int) -> str:
    body = "".join(RNG.choice(alphabet) for _ in range(length - 1))
    return body + RNG.choice([c for c in alphabet if c.isdigit()] or list(alphabet))


ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
LOWER = string.ascii_lowercase + string.digits
DASHED = ALNUM + "_-"

# Prefixes stand apart from the rest so that no scanner takes this file for a leak.
VENDORS = {
    "aws": ("AKIA", UPPER, 16),
    "aws-temporary": ("ASIA", UPPER, 16),
    "github": ("gh" + "p_", ALNUM, 36),
    "github-server": ("gh" + "s_", ALNUM, 36),
    "github-fine": ("github" + "_pat_", ALNUM, 82),
    "gitlab": ("gl" + "pat-", ALNUM, 20),
    "slack-bot": ("xox" + "b-123456789012-123456789012-", ALNUM, 24),
    "slack-app": ("xapp" + "-1-A012345-", ALNUM, 40),
    "stripe": ("sk_" + "live_", ALNUM, 24),
    "stripe-restricted": ("rk_" + "live_", ALNUM, 24),
    "sendgrid": ("SG" + ".", DASHED, 22),
    "mailgun": ("key" + "-", HEX, 32),
    "openai": ("sk" + "-", ALNUM, 48),
    "openai-project": ("sk-" + "proj-", DASHED, 100),
    "anthropic": ("sk-" + "ant-api03-", DASHED, 95),
    "google": ("AI" + "za", DASHED, 35),
    "google-oauth": ("ya" + "29.", DASHED, 60),
    "google-client": ("GOCSPX" + "-", DASHED, 28),
    "huggingface": ("h" + "f_", ALNUM, 34),
    "replicate": ("r" + "8_", ALNUM, 37),
    "npm": ("npm" + "_", ALNUM, 36),
    "pypi": ("pypi" + "-AgEIcHlwaS5vcmc", DASHED, 90),
    "digitalocean": ("dop" + "_v1_", HEX, 64),
    "shopify": ("shp" + "at_", HEX, 32),
    "newrelic": ("NRAK" + "-", UPPER, 27),
    "linear": ("lin" + "_api_", ALNUM, 40),
    "notion": ("ntn" + "_", ALNUM, 46),
    "atlassian": ("ATATT" + "3xFfGF0", DASHED, 150),
    "databricks": ("dapi", HEX, 32),
    "doppler": ("dp" + ".pt.", ALNUM, 43),
    "vault": ("hv" + "s.", DASHED, 90),
    "supabase": ("sb" + "p_", HEX, 40),
    "planetscale": ("pscale" + "_tkn_", ALNUM, 43),
    "telegram": ("123456789" + ":AA", DASHED, 33),
    "facebook": ("EAA" + "CEdEose0cBA", ALNUM, 120),
    "age": ("AGE-SECRET" + "-KEY-1", UPPER, 58),
    "grafana": ("gl" + "sa_", ALNUM, 41),
    "perplexity": ("pp" + "lx-", ALNUM, 48),
    "groq": ("gs" + "k_", ALNUM, 52),
    "xai": ("xa" + "i-", ALNUM, 80),
    "resend": ("r" + "e_", ALNUM, 32),
    "svix": ("wh" + "sec_", ALNUM, 32),
    "pinecone": ("pc" + "sk_", ALNUM, 70),
    "langsmith": ("lsv2" + "_pt_", HEX, 32),
    "figma": ("fig" + "d_", DASHED, 40),
    "airtable": ("pat" + "AbCdEfGh1jKlMn.", HEX, 64),
    "typeform": ("tf" + "p_", ALNUM, 44),
    "rubygems": ("rubygems" + "_", HEX, 48),
    "artifactory": ("AKC" + "p8", ALNUM, 60),
    "docker": ("dckr" + "_pat_", DASHED, 27),
    "tailscale": ("tskey" + "-auth-", ALNUM, 30),
    "terraform": ("AbCdEfGhIjKlMn.atlas" + "v1.", ALNUM, 67),
    "twilio": ("S" + "K", HEX, 32),
    "fly": ("fo" + "1_", ALNUM, 43),
    "nvidia": ("nv" + "api-", DASHED, 64),
    "jwt": ("ey" + "JhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.ey" + "JzdWIiOiIxMjM0NTY3ODkwIn0.", DASHED, 43),
    "contentful": ("CFPAT" + "-", DASHED, 43),
    "postman": ("PMAK" + "-", HEX, 24),
    "sentry": ("sntr" + "ys_", ALNUM, 60),
    "hubspot": ("pat" + "-na1-", HEX, 32),
    "discord": ("MTA" + "5MDgxMjM0NTY3ODkwMTIz.GhIjKl.", ALNUM, 38),
}
KEYS = {name: prefix + of(alphabet, length) for name, (prefix, alphabet, length) in VENDORS.items()}

PLAIN_EMBEDDINGS = (
    "{}",
    "key {}.",
    "({})",
    "got '{}', expected another",
    "\n{}\n",
    "https://example.org/hook/{}/x",
    "value: {}, next",
    "<{}>",
    "[{}]",
    "`{}`",
    "a={}&b=1",
)

PASSWORDS = (
    "hunter2",
    "letmein",
    "summer2024!",
    "Tr0ub4dor&3",
    "correct-horse",
    "p@ss/w0rd",
    "x9$kQ!z",
    "qwerty",
    "S3cr3t;Pass",
)
NAMES = (
    "password",
    "DB_PASSWORD",
    "db-password",
    "dbPassword",
    "passwd",
    "pwd",
    "userPassword",
    "admin_pass",
    "passphrase",
)
SECRET_NAMES = (
    "client_secret", "clientSecret", "api_key", "apiKey", "x-api-key", "API_KEY", "access_token", "refreshToken", "signing_key",
    "private_token", "AWS_SECRET_ACCESS_KEY", "session_token", "csrf_token", "auth_token", "secret", "token", "webhook_secret",
    "SECRET_KEY", "encryption-key", "bearer_token", "master_key", "accountKey", "id_token", "jwt", "credentials",
)  # fmt: skip
QUOTED = (
    '{{"user": "anna", "{k}": "{v}", "port": 5432}}',
    "{{'user': 'anna', '{k}': '{v}'}}",
    "Settings(host='db', {k}='{v}')",
    'connect("{k}": "{v}")',
    '{k} = "{v}"',
    "{k}: '{v}'",
    'config["db"]["{k}"] = "{v}"',
    "headers=[('{k}', '{v}')]",
    '<add key="{k}" value="{v}"/>',
    '{{"name": "{k}", "value": "{v}"}}',
    "{k}: str = '{v}'",
    '"{k}" => "{v}"',
    "{k}=SecretStr('{v}')",
    "export {k}='{v}'",
)
BARE = (
    "{k}={v}",
    "export {k}={v}\necho",
    "{k}: {v}\nport: 5432",
    "host=db port=5432 {k}={v} dbname=x",
    "Server=db;User Id=sa;{k}={v};Encrypt=yes",
    "--{k} {v} --verbose",
    "--{k}={v}",
    "<{k}>{v}</{k}>",
    "  {k} = {v}\n",
    "- name: {k}\n  value: {v}\n",
    "https://x.example/cb?{k}={v}&n=1",
)


def escaped(text: str, depth: int) -> str:
    for _ in range(depth):
        text = json.dumps(text)
    return text


def left_over(secret: str, clean: str, run: int = 6) -> str | None:
    if len(secret) <= run:
        return secret if secret in clean else None
    return next((secret[i : i + run] for i in range(len(secret) - run + 1) if secret[i : i + run] in clean), None)


def misses(cases):
    return [(text, part) for text, secret in cases if (part := left_over(secret, redact(text))) is not None]


@pytest.mark.parametrize("depth", range(4))
@pytest.mark.parametrize("name", KEYS)
def test_a_vendors_key_is_removed_wherever_it_stands(name, depth):
    key = KEYS[name]
    assert misses((escaped(form.format(key), depth), key) for form in PLAIN_EMBEDDINGS) == []


@pytest.mark.parametrize("depth", range(4))
@pytest.mark.parametrize("form", QUOTED)
def test_a_quoted_value_under_a_telling_name_is_removed(form, depth):
    cases = [(escaped(form.format(k=k, v=v), depth), v) for k in NAMES for v in PASSWORDS if "'" not in v]
    cases += [(escaped(form.format(k=k, v=(v := of(ALNUM, 24))), depth), v) for k in SECRET_NAMES]
    assert misses(cases) == []


@pytest.mark.parametrize("depth", range(4))
@pytest.mark.parametrize("form", BARE)
def test_a_bare_value_under_a_telling_name_is_removed(form, depth):
    words = [v for v in PASSWORDS if not (set("&;/<") & set(v))]
    cases = [(escaped(form.format(k=k, v=v), depth), v) for k in NAMES for v in words]
    cases += [(escaped(form.format(k=k, v=(v := of(ALNUM, 24))), depth), v) for k in SECRET_NAMES]
    assert misses(cases) == []


COMMANDS = (
    "mysql -h db -u root -p{} shop", "mysqldump --user=root -p{} shop > dump.sql", "sshpass -p {} ssh deploy@web1", "sshpass -p{} ssh x",
    "curl -u anna:{} https://api.example/x", "curl --user 'anna:{}' https://x", "curl -s -X POST -uanna:{} https://x", "wget --password={} ftp://x",
    "p4 -u anna -P {} sync", "docker login -u anna -p {} registry.example", "redis-cli -h cache -a {} ping", "PGPASSWORD={} psql -h db",
    "MYSQL_PWD={} mysql", "aws configure set aws_secret_access_key {}", "psql postgresql://app:{}@db:5432/x", "ldapsearch -x -D cn=admin -w {} -b dc=x",
    "openssl rsa -in k.pem -passin pass:{}", "sqlcmd -S db -U sa -P {} -Q 'select 1'", "mongosh --host db -u root -p {} admin", "gpg --batch --passphrase {} -d x",
    "smbclient //srv/share -U anna%{}", "htpasswd -b .htpasswd anna {}", "echo {} | docker login -u anna --password-stdin reg", "echo '{}' | sudo -S ls",
    "kubectl create secret generic db --from-literal=password={}", "helm upgrade x --set db.password={}", "svn co --username a --password {} https://x",
    "git clone https://anna:{}@git.example/x.git", "ansible-playbook -e db_password={} site.yml", "keytool -list -storepass {} -keystore k",
    "['mysql', '-u', 'root', '-p{}', 'shop']", "Command '['sshpass', '-p', '{}', 'ssh', 'x']' returned non-zero exit status 5",
    "['curl', '-u', 'anna:{}', 'https://x']", "['docker', 'login', '-u', 'a', '-p', '{}']", "['tool', '--password', '{}', '--x']", "vault login token={}x8Jq2Lm9",
    "zip -P {} out.zip a b", "npm config set //reg.example/:_authToken {}", "net use z: \\\\srv\\x /user:anna /password:{}",
)  # fmt: skip


@pytest.mark.parametrize("depth", range(4))
@pytest.mark.parametrize("form", COMMANDS)
def test_the_password_of_a_command_line_is_removed(form, depth):
    assert misses((escaped(form.format(v), depth), v) for v in ("hunter2", "letmein", "summer2024!", "x9kQ_z77")) == []


PROSE = (
    "password '{}' rejected", 'password "{}" rejected for user anna', "Invalid password: {}", "Invalid password: {}.", "wrong password '{}'",
    "authentication failed for user anna with password {}", "535 5.7.8 bad password {} for anna", "the password is {}", "login failed (password={})",
    "(535, b'5.7.8 Authentication failed: invalid password \"{}\"')", "Your temporary password is {} and expires soon", "PASS {}", "C: PASS {}\r\nS: 230 ok",
    "a1 LOGIN anna {}\r\n", "machine x login anna password {}", "ALTER USER anna WITH PASSWORD '{}'", "CREATE USER a IDENTIFIED BY '{}'",
    "db.example:5432:shop:anna:{}", "Access denied for user 'anna' using password '{}'", "tried password {}, failed", "default password {}",
)  # fmt: skip


@pytest.mark.spec("CRIT-4.5")
@pytest.mark.parametrize("form", PROSE)
def test_a_weak_password_inside_a_sentence_is_removed(form):
    assert misses((form.format(v), v) for v in ("hunter2", "letmein", "summer2024!", "dragon99")) == []


URLS = (
    "postgresql://app:{}@db.example:5432/shop", "redis://:{}@cache:6379/0", "amqp://guest:{}@rabbit//", "mongodb+srv://app:{}@cluster0.abc.mongodb.net/x",
    "https://anna:{}@index.example/python", "mysql+pymysql://root:{}@localhost/shop", "smtp://anna%40x.example:{}@mail:587", "ftp://anna:{}@ftp.example/x",
    "jdbc:postgresql://db/shop?user=a&password={}", "jdbc:sqlserver://db;user=sa;password={};encrypt=true", "Data Source=db;User ID=sa;Pwd={};",
    "host=db user=app password={} sslmode=require", "DefaultEndpointsProtocol=https;AccountName=x;AccountKey={}k3yK3yk3y==;EndpointSuffix=x",
    "https://x.example/?access_token={}&a=1", "https://x.example/cb#access_token={}&token_type=bearer", "extra-index-url = https://anna:{}@index.example/python",
)  # fmt: skip


@pytest.mark.parametrize("depth", range(4))
@pytest.mark.parametrize("form", URLS)
def test_a_connection_string_loses_its_password(form, depth):
    assert (
        misses((escaped(form.format(v), depth), v) for v in ("hunter2", "letmein1", "summer2024!", "x9kQ_z77Lm")) == []
    )


HEADERS = (
    "Authorization: Bearer {}", "authorization: Basic {}", "Proxy-Authorization: Basic {}", "Cookie: sid={}; theme=dark", "Set-Cookie: session={}; Path=/; HttpOnly",
    "X-Api-Key: {}", "> Authorization: token {}", "< set-cookie: id={}; Secure", 'Authorization: Digest username="a", response="{}"', "X-Auth-Token: {}",
    "curl -H 'Authorization: Bearer {}' https://x", 'curl -H "X-Api-Key: {}" https://x', "{{'Authorization': 'Bearer {}'}}", "[(b'authorization', b'Bearer {}')]",
    "Headers({{'authorization': 'Bearer {}', 'host': 'x'}})", "X-Vault-Token: {}", "Ocp-Apim-Subscription-Key: {}", "DD-API-KEY: {}", "Authorization: ApiKey {}",
    "PRIVATE-TOKEN: {}", "Authorization: AWS4-HMAC-SHA256 Credential=x/20240101/eu/s3/aws4_request, SignedHeaders=host, Signature={}",
)  # fmt: skip


@pytest.mark.parametrize("depth", range(4))
@pytest.mark.parametrize("form", HEADERS)
def test_a_credential_header_loses_its_value(form, depth):
    assert misses((escaped(form.format(v), depth), v) for v in (of(ALNUM, 40), of(HEX, 32), "YW5uYTpodW50ZXIy")) == []


@pytest.mark.parametrize("depth", range(4))
@pytest.mark.parametrize(
    "kind",
    [
        "RSA PRIVATE KEY",
        "PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "EC PRIVATE KEY",
        "PGP PRIVATE KEY BLOCK",
        "ENCRYPTED PRIVATE KEY",
    ],
)
@pytest.mark.parametrize("cut", [False, True])
def test_a_private_key_is_removed_even_if_it_was_cut_off(kind, cut, depth):
    lines = [of(ALNUM + "+/", 64) for _ in range(6)]
    end = "" if cut else f"\n-----END {kind}-----\n"
    text = escaped(f"key:\n-----BEGIN {kind}-----\n" + "\n".join(lines) + end, depth)
    assert misses((text, line) for line in lines) == []
