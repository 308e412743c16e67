"""Secrets that only their surroundings give away: commands, headers, files, transcripts, statements, messages."""

import base64
from collections.abc import Callable

from redaction_audit.draw import Draw

Snippet = tuple[str, str]
"""The text, and the secret inside it."""
Maker = Callable[[Draw], Snippet]


def _of(template: str, secret: Callable[[Draw], str]) -> Maker:
    """A template with `@S` for the secret, `@U` for a user, `@H` for a host and slots of `Draw.fill`."""

    def make(draw: Draw) -> Snippet:
        value = secret(draw)
        text = draw.fill(template).replace("@U", draw.word()).replace("@H", draw.host())
        return text.replace("@S", value), value

    return make


def _plain(draw: Draw) -> str:
    return draw.choice((draw.weak_password, draw.passphrase))().rstrip("!#$x")


def _ticket(draw: Draw) -> str:
    return draw.fill("{H32}")


def _hex(draw: Draw) -> str:
    return draw.fill("{h32}")


def _slashed(draw: Draw) -> str:
    return draw.fill("{b38}/{a1}")


def _password(draw: Draw) -> str:
    return draw.strong_password() if draw.random() < 0.4 else draw.weak_password().rstrip("#$x")


def _url_password(draw: Draw) -> str:
    return draw.choice((_plain, lambda it: it.fill("{a6}%40{a8}"), lambda it: it.fill("{a20}")))(draw)


def _access(draw: Draw) -> str:
    return draw.fill(draw.choice(("{a40}", "{h40}", "{u43}")))


def _azure(draw: Draw) -> str:
    return draw.fill("{b86}==")


COMMANDS: dict[str, Maker] = {
    "flag-password-space": _of("mongodump --host @H --username @U --password @S --out /tmp/dump", _plain),
    "flag-password-equals": _of("pg_restorer --user=@U --password=@S --jobs=4 nightly.dump", _plain),
    "flag-token": _of("deployctl rollout --token @S --region eu-west-1", Draw.opaque),
    "flag-api-key": _of("uploader --api-key=@S --retries 3 build/out.tar.gz", Draw.opaque),
    "mysql-p-glued": _of("mysql -u@U -p@S -h @H orders", _plain),
    "mysqldump-glued": _of("mysqldump --single-transaction -uroot -p@S orders", _plain),
    "docker-login-p": _of("docker login -u @U -p @S registry.example.com", _plain),
    "curl-u": _of("curl -sS -u @U:@S https://@H/v1/items", _plain),
    "curl-user": _of("curl --user @U:@S --retry 2 https://@H/v1/items", _plain),
    "curl-header-bearer": _of('curl -H "Authorization: Bearer @S" https://@H/v1/jobs', Draw.opaque),
    "curl-header-key": _of("curl -H 'X-Api-Key: @S' https://@H/v1/jobs", Draw.opaque),
    "curl-data": _of("curl -d 'grant_type=password&username=@U&password=@S' https://@H/oauth/token", _plain),
    "sshpass": _of("sshpass -p @S ssh -o StrictHostKeyChecking=no @U@@H uptime", _plain),
    "p4-ticket": _of("p4 -p @H:1666 -u @U -P @S sync //depot/main/...@4711", _ticket),
    "p4-password": _of("p4 -u @U -P @S changes -m 5", _plain),
    "redis-cli": _of("redis-cli -h @H -a @S PING", _plain),
    "env-prefix": _of("PGPASSWORD=@S psql -h @H -U @U -d orders -c 'select 1'", _plain),
    "export": _of("export DB_PASSWORD=@S", _plain),
    "az-login": _of("az login --service-principal -u {h8}-{h4}-{h4}-{h4}-{h12} -p @S --tenant contoso", Draw.opaque),
    "aws-configure": _of("aws configure set aws_secret_access_key @S --profile prod", _slashed),
    "helm-set": _of("helm upgrade shop ./chart --set postgresql.auth.password=@S --wait", _plain),
    "kubectl-literal": _of("kubectl create secret generic db --from-literal=password=@S -n shop", _plain),
    "docker-run-e": _of("docker run -d -e MYSQL_ROOT_PASSWORD=@S -p 3306:3306 mysql:8.4", _plain),
    "wget": _of("wget --user=@U --http-password=@S https://@H/export.csv", _plain),
    "openssl-passin": _of("openssl rsa -in server.key -passin pass:@S -out plain.key", _plain),
    "ldapsearch": _of("ldapsearch -x -H ldap://@H -D cn=admin,dc=example,dc=com -w @S '(uid=*)'", _plain),
    "gpg": _of("gpg --batch --passphrase @S -d backup.gpg", _plain),
    "smbclient": _of("smbclient //@H/share -U @U%@S -c ls", _plain),
    "twine": _of("twine upload -u __token__ -p @S dist/*", lambda d: d.fill("pypi-AgEIcHlwaS5vcmc{u85}")),
    "npm-config": _of("npm config set //npm.example.com/:_authToken=@S", Draw.opaque),
    "git-extraheader": _of(
        "git -c http.extraheader='AUTHORIZATION: basic @S' fetch --depth=1 origin main", lambda d: d.basic()
    ),
    "git-remote": _of("git clone https://@U:@S@@H/team/app.git", _access),
    "sqlcmd": _of("sqlcmd -S @H -U sa -P @S -Q 'select @@version'", _plain),
    "java-property": _of("java -Dspring.datasource.password=@S -jar app.jar", _plain),
    "keytool": _of("keytool -list -keystore app.jks -storepass @S", _plain),
    "terraform-var": _of("terraform apply -var db_password=@S -auto-approve", _plain),
    "mosquitto": _of("mosquitto_pub -h @H -u @U -P @S -t jobs -m done", _plain),
    "sqlplus": _of("sqlplus @U/@S@@H:1521/ORCL @report.sql", _plain),
}

HEADERS: dict[str, Maker] = {
    "basic": _of("Authorization: Basic @S", lambda d: d.basic()),
    "bearer": _of("Authorization: Bearer @S", Draw.opaque),
    "bearer-jwt": _of("authorization: Bearer @S", lambda d: d.jwt()),
    "proxy-basic": _of("Proxy-Authorization: Basic @S", lambda d: d.basic()),
    "token-scheme": _of("Authorization: Token @S", Draw.opaque),
    "sswsc": _of("Authorization: SSWS 00@S", lambda d: d.fill("{u40}")),
    "x-api-key": _of("X-API-Key: @S", Draw.opaque),
    "private-token": _of("PRIVATE-TOKEN: @S", lambda d: d.fill("{a20}")),
    "vault-token": _of("X-Vault-Token: @S", lambda d: d.fill("s.{a24}")),
    "x-auth-token": _of("X-Auth-Token: @S", Draw.opaque),
    "azure-subscription": _of("Ocp-Apim-Subscription-Key: @S", _hex),
    "cookie": _of("Cookie: theme=dark; sessionid=@S; lang=en", lambda d: d.fill("{l32}")),
    "set-cookie": _of("Set-Cookie: session=@S; Path=/; HttpOnly; SameSite=Lax", lambda d: d.fill("{u60}.{u6}.{u27}")),
    "security-token": _of("X-Amz-Security-Token: @S", lambda d: d.fill("IQoJb3JpZ2luX2Vj{b180}")),
}

URLS: dict[str, Maker] = {
    "postgres": _of("postgresql://@U:@S@@H:5432/orders", _url_password),
    "mysql": _of("mysql+pymysql://@U:@S@@H:3306/shop?charset=utf8mb4", _url_password),
    "mongodb": _of("mongodb+srv://@U:@S@@H/crm?retryWrites=true", _url_password),
    "redis-empty-user": _of("redis://:@S@@H:6379/0", _url_password),
    "amqp": _of("amqp://@U:@S@@H:5672/%2F", _url_password),
    "smtp": _of("smtps://@U:@S@@H:465", _url_password),
    "ftp": _of("ftp://@U:@S@@H/outgoing/report.csv", _url_password),
    "https-userinfo": _of("https://@U:@S@@H/index/", _url_password),
    "git-token": _of("https://oauth2:@S@@H/group/repo.git", _access),
    "old-sentry": _of("https://{h32}:@S@sentry.example.com/42", _hex),
    "query-api-key": _of("https://@H/v1/geo?city=Bern&api_key=@S&format=json", Draw.opaque),
    "query-access-token": _of("https://@H/me?fields=id&access_token=@S", Draw.opaque),
    "query-token": _of("https://@H/hooks/run?token=@S", lambda d: d.fill("{a32}")),
    "query-password": _of("https://@H/login?user=@U&password=@S&next=%2F", _url_password),
    "query-client-secret": _of("https://@H/token?client_id=web&client_secret=@S", Draw.opaque),
    "s3-presigned": _of(
        "https://reports.s3.amazonaws.com/2024/q3.pdf?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date=20240901T120000Z"
        "&X-Amz-Expires=3600&X-Amz-SignedHeaders=host&X-Amz-Signature=@S",
        lambda d: d.fill("{h64}"),
    ),
    "gcs-signed": _of(
        "https://storage.googleapis.com/reports/q3.pdf?X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Expires=900&X-Goog-Signature=@S",
        lambda d: d.fill("{h256}"),
    ),
    "azure-sas": _of(
        "https://shop.blob.core.windows.net/in/a.csv?sv=2023-11-03&se=2024-10-01T00%3A00Z&sr=b&sp=r&sig=@S",
        lambda d: d.fill("{a20}%2F{a21}%3D"),
    ),
    "cloudfront": _of(
        "https://d111111abcdef8.cloudfront.net/v.mp4?Expires=1727000000&Signature=@S&Key-Pair-Id=APKAEXAMPLE",
        lambda d: d.fill("{u170}__"),
    ),
    "otpauth": _of("otpauth://totp/Example:@U?secret=@S&issuer=Example", lambda d: d.fill("{B32}")),
    "jdbc-query": _of("jdbc:postgresql://@H:5432/app?user=@U&password=@S", _url_password),
    "jdbc-oracle": _of("jdbc:oracle:thin:@U/@S@//@H:1521/ORCL", _plain),
    "ado-net": _of("Server=tcp:@H,1433;Database=crm;User ID=@U;Password=@S;Encrypt=True", _plain),
    "odbc": _of("DRIVER={ODBC Driver 18};SERVER=@H;UID=@U;PWD=@S;Encrypt=yes", _plain),
    "libpq": _of("host=@H port=5432 dbname=app user=@U password=@S sslmode=require", _plain),
    "azure-storage": _of(
        "DefaultEndpointsProtocol=https;AccountName=shopdata;AccountKey=@S;EndpointSuffix=core.windows.net", _azure
    ),
    "service-bus": _of(
        "Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=@S",
        lambda d: d.fill("{b43}="),
    ),
}

MESSAGES: dict[str, Maker] = {
    "smtp-reply-quoted": _of('535 5.7.8 authentication failed: password "@S" rejected for @U', _plain),
    "smtp-reply-keyed": _of("535 5.7.8 Error: authentication failed (user=@U, password=@S)", _plain),
    "smtp-error-tuple": _of(
        "smtplib.SMTPAuthenticationError: (535, b'5.7.8 Username and Password not accepted: @U / password: @S')", _plain
    ),
    "invalid-password": _of("login failed for user '@U': invalid password '@S'", _plain),
    "wrong-password-colon": _of("Wrong password: @S", _plain),
    "password-is": _of("the password for @U is @S", _plain),
    "bad-passphrase": _of('could not decrypt id_rsa with passphrase "@S"', _plain),
    "incorrect-api-key": _of("Incorrect API key provided: @S", Draw.opaque),
    "api-key-invalid": _of('the API key "@S" is not valid for this project', Draw.opaque),
    "token-expired": _of("access token @S has expired", lambda d: d.fill("{a40}")),
    "sid-token-tuple": _of("Client('AC{h32}', '@S')", _hex),
    "sid-token-auth": _of("requests.post(url, auth=('AC{h32}', '@S'), timeout=10)", _hex),
    "auth-tuple": _of("session.auth = ('@U', '@S')", _plain),
    "http-basic-auth": _of("HTTPBasicAuth('@U', '@S')", _plain),
    "ftp-pass": _of("*cmd* 'PASS @S'", _plain),
    "imap-login": _of("a001 LOGIN @U @S", _plain),
    "redis-auth": _of("127.0.0.1:6379> AUTH @S", _plain),
    "requirepass": _of("CONFIG SET requirepass @S", _plain),
    "sql-alter-user": _of("ALTER USER @U WITH PASSWORD '@S'", _plain),
    "sql-identified": _of("CREATE USER '@U'@'%' IDENTIFIED BY '@S'", _plain),
    "sql-set-password": _of("SET PASSWORD FOR '@U'@'localhost' = PASSWORD('@S')", _plain),
    "sql-update": _of("UPDATE users SET password = '@S', locked = false WHERE id = 42", _plain),
    "sql-insert-columns": _of("INSERT INTO users (name, password) VALUES ('@U', '@S')", _plain),
    "powershell-secure": _of('$p = ConvertTo-SecureString "@S" -AsPlainText -Force', _plain),
    "env-object": _of('{"name": "DB_PASSWORD", "value": "@S"}', _plain),
    "php-frame": _of("#0 /srv/db.php(12): PDO->__construct('mysql:host=@H;dbname=shop', '@U', '@S')", _plain),
    "xml-element": _of("<user>@U</user><password>@S</password>", _plain),
    "xml-attribute": _of('<add key="ApiKey" value="@S" />', Draw.opaque),
    "wsse": _of('<wsse:Password Type="wsse:PasswordText">@S</wsse:Password>', _plain),
}


def _auth_plain(draw: Draw) -> Snippet:
    secret = base64.b64encode(f"\0{draw.word()}\0{draw.password()}".encode()).decode()
    return f"AUTH PLAIN {secret}", secret


def _auth_login(draw: Draw) -> Snippet:
    secret = base64.b64encode(draw.password().encode()).decode()
    user = base64.b64encode(draw.word().encode()).decode()
    return f"C: AUTH LOGIN\nS: 334 VXNlcm5hbWU6\nC: {user}\nS: 334 UGFzc3dvcmQ6\nC: {secret}\nS: 535 5.7.8 no", secret


def _docker_config(draw: Draw) -> Snippet:
    secret = draw.basic()
    return f'{{"auths": {{"registry.example.com": {{"auth": "{secret}"}}}}}}', secret


FILES: dict[str, Maker] = {
    "netrc": _of("machine @H\n  login @U\n  password @S\n", _password),
    "netrc-line": _of("machine @H login @U password @S", _password),
    "pgpass": _of("@H:5432:orders:@U:@S", _plain),
    "dotenv": _of("APP_ENV=production\nSECRET_KEY=@S\nDEBUG=0\n", Draw.opaque),
    "dotenv-quoted": _of('DB_HOST=@H\nDB_PASSWORD="@S"\n', _password),
    "npmrc": _of("registry=https://npm.example.com/\n//npm.example.com/:_authToken=@S\n", Draw.opaque),
    "npmrc-auth": _of("//npm.example.com/:_auth=@S\nalways-auth=true\n", lambda d: d.basic()),
    "kubeconfig-token": _of("users:\n- name: @U\n  user:\n    token: @S\n", Draw.opaque),
    "kubeconfig-key": _of("  user:\n    client-key-data: @S\n", lambda d: "LS0tLS1CRUdJTi" + d.fill("{b300}")),
    "docker-config": _docker_config,
    "my-cnf": _of("[client]\nuser=@U\npassword=@S\nhost=@H\n", _plain),
    "aws-credentials": _of("[default]\naws_secret_access_key = @S\nregion = eu-west-1\n", _slashed),
    "git-credentials": _of("https://@U:@S@github.example.com\n", _access),
    "pypirc": _of("[pypi]\nusername = __token__\npassword = @S\n", _password),
    "wireguard": _of("[Interface]\nPrivateKey = @S\nAddress = 10.0.0.2/32\n", lambda d: d.fill("{b43}=")),
    "wpa": _of('network={\n  ssid="office"\n  psk="@S"\n}\n', _plain),
    "p4tickets": _of("@H:1666=@U:@S", _ticket),
    "pip-conf": _of("[global]\nindex-url = https://@U:@S@@H/index\n", _url_password),
    "k8s-secret": _of(
        "kind: Secret\ndata:\n  password: @S\n", lambda d: base64.b64encode(d.password().encode()).decode()
    ),
    "smtp-auth-plain": _auth_plain,
    "smtp-auth-login": _auth_login,
}
