"""Text that talks about passwords, tokens, people and prompts and holds none: all of it has to survive."""

LINES = r'''
password = get_password()
password = getpass.getpass("Password: ")
if not password:
    raise ValueError("password must not be empty")
if password is None or len(password) < 8:
token: str
token: str | None = None
api_key: str = field(repr=False)
secret: SecretStr
def login(user: str, password: str, *, token: str | None = None) -> Session:
def __init__(self, api_key=None, secret_key=None, session_token=None):
    self.password = password
    self._token = token or self._load_token()
    self.api_key = api_key if api_key is not None else os.environ.get("OPENAI_API_KEY")
    api_key = os.environ["ANTHROPIC_API_KEY"]
    token = response.json()["access_token"]
    headers = {"Authorization": f"Bearer {token}"}
    headers["Authorization"] = "Bearer " + self.token
    auth = (settings.user, settings.password)
    password=settings.database.password,
    password=self.password, token=self.token
    secret_key=config.get("secret_key")
    client_secret=kwargs.pop("client_secret", None)
    connect(host=host, user=user, password=password, dbname=dbname)
    token = secrets.token_urlsafe(32)
    token = tokenizer.next_token()
    tokens = [token for token in tokens if token.type != NEWLINE]
    for token in tokenize.generate_tokens(readline):
    return hmac.compare_digest(expected_token, token)
    raise AuthenticationError("missing API key")
openai.OpenAIError: The api_key client option must be set either by passing api_key to the client or by setting the OPENAI_API_KEY environment variable
TypeError: login() missing 1 required positional argument: 'password'
TypeError: __init__() got an unexpected keyword argument 'api_key'
KeyError: 'password'
KeyError: 'access_token'
AttributeError: 'NoneType' object has no attribute 'token'
NameError: name 'token' is not defined
ValueError: invalid literal for int() with base 10: 'abc'
json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)
SyntaxError: unexpected token: '}'
Uncaught SyntaxError: Unexpected token '<', "<!DOCTYPE "... is not valid JSON
FATAL:  password authentication failed for user "postgres"
ERROR 1045 (28000): Access denied for user 'root'@'localhost' (using password: YES)
ERROR 1045 (28000): Access denied for user 'root'@'localhost' (using password: NO)
redis.exceptions.AuthenticationError: invalid username-password pair or user is disabled.
NOAUTH Authentication required.
WRONGPASS invalid username-password pair or user is disabled.
535 5.7.8 Username and Password not accepted. For more information, go to
535 5.7.8 Error: authentication failed: bad username or password
530 5.7.0 Must issue a STARTTLS command first
401 Unauthorized: token expired
403 Forbidden: invalid token
The access token expired
The refresh token is invalid, expired, revoked, or does not match the redirection URI.
invalid_grant: Token has been expired or revoked.
Error: no password supplied
fe_sendauth: no password supplied
sshpass: Failed to run command: No such file or directory
Permission denied (publickey,password).
Enter passphrase for key '/home/deploy/.ssh/id_ed25519':
Password for user postgres:
Incorrect API key provided. You can find your API key in the dashboard.
{"error": {"message": "Invalid API key", "type": "invalid_request_error", "code": "invalid_api_key"}}
{"error":{"type":"authentication_error","message":"invalid x-api-key"}}
{"code": "token_expired", "message": "The token has expired", "status": 401}
usage: tool [-h] [--user USER] [--password PASSWORD] [--token TOKEN] [--api-key KEY]
  --password PASSWORD   password of the database user (default: ask)
  --password TEXT       The password. Prefer --password-stdin.  [env var: DB_PASSWORD]
  --token TOKEN         access token, see the manual
  --password-file FILE  read the password from FILE
  -p, --password        ask for a password
  --api-key-file PATH
mysql -u root -p
docker login --username deploy --password-stdin registry.example.com
psql -h db1 -U app -W -d orders
curl -u "$USER:$PASSWORD" https://api.example.com/
curl -H "Authorization: Bearer $TOKEN" https://api.example.com/
curl -H "Authorization: Bearer ${GITHUB_TOKEN}" https://api.example.com/
export DB_PASSWORD="$(cat /run/secrets/db_password)"
export GITHUB_TOKEN=$(gh auth token)
PGPASSWORD=$POSTGRES_PASSWORD psql -U app
password: ${DB_PASSWORD}
password: "{{ vault_db_password }}"
password: <password>
api_key: ${{ secrets.API_KEY }}
token: ${{ secrets.GITHUB_TOKEN }}
password: null
"password": null,
"token": null, "api_key": "", "secret": false
password=None, token=None
password=***
password: ********
"password": "********"
postgresql://app:***@db1.internal:5432/orders
postgresql://user:${DB_PASSWORD}@host:5432/orders
postgresql://db1.internal:5432/orders
redis://cache-2.internal:6379/0
secretName: db-credentials
secretKeyRef:
  name: db-credentials
  key: password
envFrom: [{secretRef: {name: shop-secrets}}]
valueFrom: {secretKeyRef: {name: db, key: password}}
serviceAccountName: shop-worker
automountServiceAccountToken: false
imagePullSecrets: [{name: registry}]
Content-Type: text/plain
content-type: application/json; charset=utf-8
Content-Length: 5120
"content_length": 512, "content_type": "text/html", "content_encoding": "gzip"
Content-Disposition: attachment; filename="report.csv"
WWW-Authenticate: Bearer realm="example", error="invalid_token"
WWW-Authenticate: Basic realm="Restricted"
Access-Control-Allow-Headers: Authorization, Content-Type, X-Api-Key
Vary: Accept-Encoding, Authorization, Cookie
X-RateLimit-Remaining-Tokens: 149984
x-ratelimit-limit-tokens: 200000
anthropic-ratelimit-tokens-remaining: 39000
max_tokens=100
max_tokens: 4096, max_completion_tokens: 512, maxOutputTokens: 1024
"prompt_tokens": 12, "completion_tokens": 34, "total_tokens": 46
"usage":{"input_tokens":2095,"output_tokens":503,"cache_read_input_tokens":0}
token_count=1532 tokens_per_second=71.3 prompt_length=811
This model's maximum context length is 8192 tokens. However, your messages resulted in 9301 tokens.
prompt is too long: 215321 tokens > 200000 maximum
num_tokens = len(encoder.encode(text))
prompt_tokens_details={"cached_tokens": 0}
"finish_reason": "content_filter"
"content": null
"content": ""
{"type": "content_block_stop", "index": 0}
event: message_stop
"role": "user"
prompt = build_prompt(template, diff)
messages = [build_message(part) for part in parts]
messages.append(to_message(reply))
response = client.messages.create(model=model, messages=messages, max_tokens=1024)
system = load("system.md")
content = response.content[0].text
text = await response.text()
content: bytes = b"".join(chunks)
def content(self) -> bytes:
def messages(self) -> Messages:
    """Given a list of messages comprising a conversation, return the next one."""
def on_tool_call_created(self, tool_call: ToolCall) -> None:
    """Callback that is fired when a tool call is created."""
def refresh(self, token: str) -> Token:
    """Ask for a fresh one, and keep it until it expires."""
        system: Union[str, Iterable[TextBlockParam]] | Omit = omit,
        messages: Iterable[MessageParam],
        prompt: str | Omit = omit,
    response: Any,
    text: str
secretary of the board
The secretariat tokenised the keyboard; monkeys and turnkeys passed by the author.
Passwords are hashed with argon2. Tokens rotate every 24 hours. Keys live in the vault.
The password policy asks for twelve characters; the passphrase may hold spaces.
A password is required. The token is missing. The secret is out of date.
Your password will expire in 3 days.
your password is too short
the password must contain at least one digit
The API key is read from the environment; never put an API key into a URL.
author: the platform team
key=lambda pair: pair[1]
sorted(items, key=lambda x: x.name)
max(rows, key=itemgetter("created_at"))
key = (subject, recipient, version)
key: value
keys = sorted(mapping)
primary key (id), unique key (pipeline, subject, version)
PRIMARY KEY (`id`), KEY `ix_jobs_state` (`state`, `run_at`)
FOREIGN KEY (user_id) REFERENCES users (id)
duplicate key value violates unique constraint "jobs_idempotency_key_key"
DETAIL:  Key (idempotency_key)=(cl-42@3) already exists.
CREATE TABLE users (id bigint primary key, password text not null, token varchar(64), email text unique);
SELECT id, password_hash, token_expires_at FROM users WHERE email = $1 AND password_reset_at IS NULL;
ALTER TABLE accounts ADD COLUMN api_key_id uuid, DROP COLUMN password;
UPDATE users SET password = $1, token = %s WHERE id = :id
cursor.execute("INSERT INTO users (name, password) VALUES (%s, %s)", (name, password))
ALTER USER app WITH PASSWORD $1;
<input type="password" name="password" id="password" autocomplete="current-password" required>
<label for="password">Password</label>
<td>api_key</td><td>string</td><td>required</td>
| `password` | string | The password of the user. Required. |
| `token` | `str` | `None` | Bearer token |
| `api_key` | `string` | no | falls back to the environment |
.password-field { color: #336699; border: 1px solid #ccc; }
.token.keyword { font-weight: 600; content: "\2014"; }
li::before { content: "-"; color: var(--token-color, #a0b1c2); }
grant_type=client_credentials
response_type=code&client_id=web&redirect_uri=https%3A%2F%2Fapp.example.com%2Fcb
scope: read:user user:email
token_type: bearer, expires_in: 3600
"token_type": "Bearer", "expires_in": 3599, "scope": "openid profile"
algorithm: HS256
cookie: enabled
Set-Cookie header ignored
session.cookies.clear()
cookies=cookies, auth=auth, timeout=timeout
auth=None, cert=None, verify=True
authorization: required
auth: required
Authorization header is missing
Basic usage is described below. Bearer tokens are described in chapter 4.
basic authentication, digest authentication and bearer token authentication
pass
bypass=true passed=12 failed=0 passthrough: yes compass=north
credentials: include
credentials=credentials.AnonymousCredentials()
Unable to locate credentials. You can configure credentials by running "aws configure".
botocore.exceptions.NoCredentialsError: Unable to locate credentials
phone: Optional[str] = None
email: EmailStr
full_name = Column(String(120))
first_name, last_name, date_of_birth, address
name: worker
name=checkout namespace=shop address=0.0.0.0:8080
bind address already in use: 127.0.0.1:8080
address = ("127.0.0.1", 8080)
listening on [::]:9090
hostname: ip-10-0-3-7
private_key_path: /etc/ssl/private/server.key
ssl_certificate_key /etc/nginx/server.key;
public_key_fingerprint: ok
key_id: primary
kid: 2024-05
signature = inspect.signature(function)
signature: v1 normalised
Signature verification failed
sig: SIGTERM
last_error_signature: connection to N refused
code: ECONNREFUSED
state=pending code=E1234
access: read-only
access_key_enabled: true
use_token: false
token_bucket_size: 40
bucket_token_refill=12.5
is_password_protected = True
has_secret=yes
password_min_length = 12
password_changed_at: 2024-05-06T07:08:09Z
secret_version: 7
secret_rotation_days=90
csrf_enabled: true
tokens: 431
token: 0
"secrets": [],
"tokens": {},
git log --author="platform" --since=2.weeks
p4 -p perforce:1666 -u builder sync
p4 changes -m 5 //depot/main/...
ssh -p 2222 deploy@web-3 uptime
rsync -av -e "ssh -p 2222" build/ web-3:/srv/app
docker run -d -p 8080:80 nginx:1.27
kubectl -n shop logs -p checkout-0
mkdir -p /var/lib/app/secrets
cp -a --parents token.txt /tmp
tar -xpf archive.tar -C /opt
grep -a "password" app.log
redis-cli -h cache-2 -p 6379 PING
mosquitto_sub -h mq -p 1883 -t jobs
nc -w 3 db1 5432
python -u -m pytest -p no:cacheprovider -k "password or token"
'''.strip("\n")
