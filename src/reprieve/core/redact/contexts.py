"""Secrets that their surroundings give away: URLs, command lines, protocols, prose and key files."""

from __future__ import annotations

import base64
import binascii
import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reprieve.core.redact.judge import harmless, random_looking
from reprieve.core.redact.patterns import Span, compiled, gate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reprieve.core.redact.patterns import Gate


@dataclass(frozen=True, slots=True)
class Context:
    """A pattern whose first group holds what is to be taken out, and a check of what it holds."""

    rule: str
    pattern: bytes
    check: Callable[[bytes], bool]

    def spans(self, data: bytes) -> Iterator[Span]:
        """Every place where the pattern holds and the check agrees."""
        for match in compiled(self.pattern).finditer(data):
            start, end = match.start(1), match.end(1)
            while end > start and data[end - 1] in b".,;:!?)]}" and self.rule in _TRIMMED:
                end -= 1
            if end > start and self.check(data[start:end]):
                yield Span(start, end, self.rule)


_TRIMMED: Final = frozenset({"password", "credential", "command-line", "bearer-token"})
_STOP: Final = frozenset(
    b"a an the is are was were be been to for of in on at by with and or but not no must should can cannot could would may might "
    b"will has have had does did do too long short weak expired invalid incorrect wrong missing required mismatch "
    b"authentication auth reset policy hash hashes hashing field fields policies protected based manager provided supplied "
    b"given rejected accepted failed failure from user username login if when that which this your their its our my "
    b"verification validation check checks prompt input file database encryption string empty blank null none change "
    b"changed changes update updated does match matches matching only via using it as so because after before during "
    b"characters requirements complexity length entry attempt attempts recovery confirmation store storage vault grant "
    b"flow type types value values generator required. invalid. incorrect. then again once yes".split()
)


def _any(value: bytes) -> bool:
    return not harmless(value)


def _word(value: bytes) -> bool:
    lowered = value.lower().strip(b".,;:!?'\"()")
    return len(lowered) > 2 and lowered not in _STOP and not harmless(value) and not lowered.startswith(b"<")  # noqa: PLR2004


_CODE: Final = re.compile(rb"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\Z|(?:[a-z]+[_/.-])+[a-z]+\d?\Z")


def _token(value: bytes) -> bool:
    return not harmless(value) and random_looking(value) and _CODE.match(value) is None


def _digits_too(value: bytes) -> bool:
    return _any(value) and re.search(rb"\d", value) is not None and len(value) > 7  # noqa: PLR2004


def _made_up(value: bytes) -> bool:
    return (
        _any(value)
        and re.match(rb"\d+\Z|\d+\W", value) is None
        and re.search(rb"[A-Za-z][^\n]*\d|\d[^\n]*[A-Za-z]", value) is not None
    )


def _no_test(value: bytes) -> bool:
    """Whether the word after PASS is no test that passed."""
    return (
        _any(value)
        and re.match(rb"(?i)test|[\w./-]+\.(?:js|jsx|ts|tsx|py|go|rb|php|sh)$|[\w./-]*/|[\w.]+::", value) is None
    )


def _no_url(value: bytes) -> bool:
    return _any(value) and not value.startswith(b"//")


def _command_word(value: bytes) -> bool:
    """Whether this could be a password after AUTH: words in a sentence are not."""
    return _word(value) and value.upper() not in _MECHANISMS and re.fullmatch(rb"[a-z]{1,9}", value) is None


_ALGORITHMS: Final = re.compile(
    rb"(?i)(?:sha|md|aes|base|utf|pbkdf|argon|oauth|rc|des|rsa|ed|x|v|http|ipv|scram-sha-|id|no|step|page|line|attempt|py|python)-?\d+\w*\Z"
)


def _stated(value: bytes) -> bool:
    """Whether a word in a sentence about a password can only be one: letters and digits, and no algorithm."""
    return len(value) > 4 and _made_up(value) and _ALGORITHMS.match(value) is None and _CODE.match(value) is None  # noqa: PLR2004


def _link_code(value: bytes) -> bool:
    """Whether a `code` in a link is more than a number or an error's name."""
    if _digits_too(value):
        return True
    least = 6 if _made_up(value) else 10
    return len(value) >= least and re.search(rb"[a-z]", value) is not None and not harmless(value)


def _key_like(value: bytes) -> bool:
    """Whether this is a key and no identifier: both cases and digits in one run."""
    return all(re.search(kind, value) for kind in (rb"[a-z]", rb"[A-Z]", rb"\d")) and _token(value)


def _ticket(value: bytes) -> bool:
    return re.search(rb"[A-F]", value) is not None


def _no_port(value: bytes) -> bool:
    return _any(value) and re.fullmatch(rb"[\d.:/-]+(?:tcp|udp)?", value) is None


def _basic(value: bytes) -> bool:
    """Whether this is base64 for `user:password`."""
    padded = value.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
    try:
        decoded = base64.b64decode(padded + b"=" * (-len(padded) % 4))
    except (binascii.Error, ValueError):
        return len(value) >= 24 and random_looking(value)  # noqa: PLR2004 - cut in the middle
    return b":" in decoded


_SMTP_WORDS: Final = frozenset((b"VXNlcm5hbWU6", b"UGFzc3dvcmQ6", b"dXNlcm5hbWU6", b"cGFzc3dvcmQ6"))


_MECHANISMS: Final = frozenset((b"PLAIN", b"LOGIN", b"XOAUTH2", b"OAUTHBEARER", b"CRAM", b"NTLM", b"DIGEST", b"GSSAPI"))


def _challenge(value: bytes) -> bool:
    if value in _SMTP_WORDS or value in _MECHANISMS or harmless(value):
        return False
    return len(value) % 4 == 0 and len(value) >= 8  # noqa: PLR2004 - base64 comes in fours


def _user_info(value: bytes) -> bool:
    return _any(value) and _any(value.strip(b"[]")) and re.fullmatch(rb"\[[\w-]+\]*", value) is None


# The gap between two arguments: of a shell, or of an argument list shown by repr or JSON.
_GAP: Final = rb"(?:[ \t]+|\\*['\"][ \t]*,[ \t]*\\*['\"])"
_ARGUMENT: Final = rb"\\*['\"]?([^\s'\"\\]+|[^\s'\"\\,|;&]+)"
_REST: Final = rb"[^\n|;]*?"


def _command(names: bytes, option: bytes, value: bytes = _ARGUMENT, check: Callable[[bytes], bool] = _any) -> Context:
    return Context(
        "command-line",
        rb"\b(?:" + names + rb")(?:\.exe)?\b" + _REST + _GAP + option + value,
        check,
    )


_FIRST: Final = rb"(?:^|[\s>'\":\]*-]|\\+[rn])"
_BREAK: Final = rb"(?:\r?\n|(?:\\+r)?\\+n)"
_STRING: Final = rb"[bru]{0,2}\\*['\"]([^'\"\\\n]+)\\*['\"]"
_SKIPPED: Final = rb"[bru]{0,2}\\*['\"][^'\"\n]*['\"]"
_PROSE_WORD: Final = (
    rb"(?:pass ?(?:word|wd|phrase|code)|\bpwd|\bPIN|\bpin|\bOTP|one-time code|access code|credentials?)"
)
_SECRET_WORD: Final = rb"(?:(?:api|access|secret|private|signing|license|auth|encryption)[ _-]?(?:key|token)|token|secret|password|passphrase|credential)s?"


_PASSWORD_WORD: Final = rb"(?:pass ?(?:word|wd|phrase|code)|\bpwd|\bPIN|\bOTP|one-time code|access code)"
_BEFORE: Final = rb"(?i)\b(?:with|using|bad|wrong|invalid|incorrect|tried|entered|old|new|current|temporary|initial|default|his|her|my|your|the) (?:the |a |temporary |new |old |initial |default )?"
# A word without digits is a password only where the sentence ends with it or goes on about its fate.
_AFTER: Final = rb"(?:[.,;)!]?(?:\s*$|\\|\n|['\"])|[.,;)]\s|\)| (?:for|failed|rejected|refused|denied|and|is|was)\b)"


def _rows() -> tuple[Context, ...]:
    # fmt: off
    return (
        # URLs
        Context("url-credentials", rb"[A-Za-z][\w+.-]*://[^\s/:@\"'<>\\]*:([^\s\"'<>/\\]+)@", _user_info),
        Context("url-credentials", rb"[A-Za-z][\w+.-]*://[^\s/:@\"'<>\\]+:((?:\d*[^\s\"'<>@:\d/])[^\s\"'<>@]*)@[\w.-]+", _user_info),
        Context("url-credentials", rb"[\w.-]+:([^\s\"'<>@/\\]+)@(?:tcp|unix|udp)\(", _user_info),
        Context("url-credentials", rb"://([A-Za-z0-9_~.-]{16,})(?::[^\s/@\"'<>\\]*)?@", _token),
        Context("url-credentials", rb"(?:thin:|oci:|\bsqlplus[ \t]+(?:-\w+[ \t]+)*|\b(?:imp|exp|expdp|impdp|rman|sqlldr)[ \t]+(?:userid=)?)[\w$#.-]+/([^\s@'\"\\]+)@", _any),
        Context("url-credentials", rb"%3A%2F%2F[^\s%&]*%3A([^\s&\"']+?)%40", _any),
        Context("url-parameter", rb"[?&;](?i:key|sig|auth|hmac|ticket|state|hash|X-Amz-Signature|X-Amz-Credential|X-Amz-Security-Token|X-Goog-Signature|X-Goog-Credential|Signature|Policy|k)=([^\s&\"'<>\\#;,)\]}]+)", _digits_too),
        Context("url-parameter", rb"[?&;]code=([^\s&\"'<>\\#;,)\]}]+)", _link_code),
        Context("url-parameter", rb"[?&;](?i:pass|pw|pwd)=([^\s&\"'<>\\#;]+)", _any),
        # headers and schemes without their name
        Context("basic-credentials", rb"(?i)\bbasic[ \t]+([A-Za-z0-9+/_-]{6,}={0,2})", _basic),
        Context("bearer-token", rb"(?i)\bbearer[ \t:]+([A-Za-z0-9._~+/-]{8,}=*)", _digits_too),
        Context("aws-signature", rb"Signature=([0-9a-f]{16,})", _any),
        Context("aws-signature", rb"Credential=(A[A-Z0-9]{8,})", _any),
        # command lines
        _command(rb"mysql|mysqldump|mysqladmin|mariadb|mariadb-dump|mysqlimport|mysqlsh|mycli", rb"-p"),
        _command(rb"sshpass|7z|7za|7zz|rar|unrar", rb"-p(?:" + _GAP + rb")?"),
        _command(rb"docker login|podman login|buildah login|skopeo login|nerdctl login|helm registry|oras|crane|az|mongosh?|mongodump|mongorestore|mongoexport|mongoimport|evil-winrm|crackmapexec|nxc|twine|cqlsh|sqlplus|impala-shell|beeline|ipmitool login|xfreerdp|cf login|oc login|argocd login|rabbitmqadmin",
                 rb"(?:-p)" + _GAP),
        _command(rb"p4|mosquitto_pub|mosquitto_sub|mosquitto_rr|sqlcmd|bcp|osql|isql|zip|unzip|zipcloak|ipmitool|ldapmodify -P|nuget", rb"-P(?:" + _GAP + rb")?"),
        _command(rb"redis-cli|keydb-cli|valkey-cli", rb"(?:-a|--pass|--askpass)" + _GAP),
        _command(rb"ldap(?:search|add|modify|delete|passwd|whoami)", rb"-w" + _GAP),
        _command(rb"twine|cadaver|lftp", rb"-p" + _GAP),
        _command(rb"curl|wget|http|https|xh|lftp|ncftp|grpcurl|ab|hey|siege", rb"(?:-u|--user|-a|--auth|--proxy-user|-U|-A|--proxy-auth)(?:" + _GAP + rb"|=)?", rb"\\*['\"]?[^\s:'\"\\]{0,80}:([^\s'\"\\]+)", _no_url),
        _command(rb"lftp|ncftp|mirror", rb"(?:-u|--user)" + _GAP, rb"\\*['\"]?[^\s,:'\"\\]+,([^\s'\"\\]+)"),
        _command(rb"smbclient|rpcclient|net|winexe|mount\.cifs|smbmap", rb"-U" + _GAP, rb"\\*['\"]?[^\s%'\"]{1,80}%([^\s'\"\\]+)"),
        _command(rb"openssl|keytool|jarsigner", rb"(?:-passin|-passout|-pass|-password)" + _GAP, rb"\\*['\"]?pass:([^\s'\"\\]+)"),
        _command(rb"openssl|keytool|jarsigner", rb"(?:-storepass|-keypass|-srcstorepass|-deststorepass|-k|-K)" + _GAP),
        _command(rb"htpasswd", rb"-[a-zA-Z]*b[a-zA-Z]*" + _GAP + rb"(?:-\S+" + _GAP + rb")*[^\s-]\S*" + _GAP + rb"\S+" + _GAP),
        _command(rb"ldappasswd", rb"-[sa]" + _GAP),
        _command(rb"ssh-keygen", rb"-[NP]" + _GAP),
        _command(rb"swaks", rb"-ap" + _GAP),
        _command(rb"(?:doctl|snyk|flyctl|netlify|vercel|railway|render) auth(?: init)?|vercel|netlify|kubeseal", rb"-t" + _GAP, check=_stated),
        _command(rb"add-?auth-?token|ngrok authtoken|snyk auth|set-token|login-token", rb"", check=_stated),
        _command(rb"rabbitmqctl|rabbitmqadmin|add_user|change_password|authenticate_user", rb"(?:add_user|change_password|authenticate_user)" + _GAP + rb"[^\s'\"]+" + _GAP),
        _command(rb"config", rb"(?:--secret" + _GAP + rb"[\w:.-]+|http-basic\.[\w.-]+" + _GAP + rb"[^\s'\"]+)" + _GAP),
        _command(rb"gh secret set|gh variable set|wrangler secret put", rb"(?:--body|-b)" + _GAP),
        _command(rb"net use|net user|cmdkey", rb"(?i:/user:)\S+" + _GAP, check=_stated),
        Context("command-line", rb"-D[\w.]*(?i:login|password|passwd|pwd|passphrase|secret|token|api_?key)=\\*['\"]?([^\s'\"\\]+)", _any),
        Context("command-line", rb"\becho[ \t]+(?:-n[ \t]+)?\\*['\"]?[\w.-]+:([^\s'\"\\|]+)\\*['\"]?[ \t]*\|[ \t]*(?:sudo[ \t]+)?chpasswd", _any),
        Context("command-line", rb"(?i)\bset (?:-[a-z]+ )+\w*(?:PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|PWD|PASS)\w* \\*[\"']?([^\s\"'\\=]+)", _any),
        Context("command-line", rb"(?i)\bname=[\w.-]*(?:password|passwd|secret|token|api_?key)[\w.-]*::([^\s'\"\\]+)", _any),
        Context("command-line", rb"\bsecret_id\\*['\"]?[:=] ?\\*['\"]?([0-9a-f]{8}-[0-9a-f-]{27})", _any),
        _command(rb"snmp(?:walk|get|set|bulkwalk)", rb"-(?:c|A|X)" + _GAP),
        _command(rb"aws configure set|npm config set|pip config set|git config|gcloud config set|conda config|heroku config:set|vault login",
                 rb"[^\s=]*(?i:secret|token|password|_auth|key)[\w.-]*" + _GAP, check=_word),
        _command(rb"vault login|op signin|bw unlock|infisical login", rb"(?:token=)?", check=_token),
        _command(rb"xfreerdp|winrs|rdesktop|cmdkey|mstsc|net use|schtasks|psexec", rb"(?i:/p:|/pass:|/rp |-p |-p:)"),
        Context("command-line", rb"\becho[ \t]+(?:-n[ \t]+)?\\*['\"]?([^\s'\"\\|]+)\\*['\"]?[ \t]*\|[ \t]*(?:sudo[ \t]+-S|docker login|podman login|sudo -\w*S|passwd|chpasswd|gpg|helm registry|crane|gh auth|vault)", _any),
        Context("command-line", _GAP + rb"(?:-u|-U|--user|--username|-l)(?:" + _GAP + rb"|=)?[^\s'\",|;]+" + _GAP + rb"(?:-p|-P|-w|--pass)" + _GAP + _ARGUMENT, _no_port),
        Context("command-line", rb"\bPASSWORD ?\(\\*['\"]([^'\"\\)]+)", _any),
        Context("command-line", rb"(?i)(?:user|role|login|grant)\b[^\n;]*? identified (?:with \S+ )?by (?:password )?\\*['\"]([^'\"\\]+)", _any),
        Context("command-line", rb"(?i)(?:user|role|login|grant)\b[^\n;'\"]*? identified by (?:values )?([^\s;'\"\\,<$&:]+)", _word),
        Context("command-line", rb"(?i)\bset password(?: for [^=\n;]+)? ?= ?(?:password ?\()?\\*['\"]([^'\"\\]+)", _any),
        Context("command-line", rb"(?i)(?:requirepass|masterauth)" + _GAP + rb"\\*['\"]?([^\s'\"\\]+)", _any),
        Context("command-line", rb"--from-literal[= ]\\*['\"]?[\w.-]+=([^\s'\"\\]+)", _any),
        # protocols
        Context("password", _FIRST + rb"PASS ([^\s'\"\\]+)(?:\s*$|\r?\n|\\|['\"])", _no_test),
        Context("password", rb"\bHELLO [23] AUTH \S+ ([^\s'\"\\]+)", _any),
        Context("password", rb"(?i)\bACL SETUSER [^\n]*?[ '\"]> *([^\s'\"\\]+)", _any),
        Context("password", rb"(?:\b|\\n)AUTH" + _BREAK + rb"(?:\$\d+" + _BREAK + rb"[\w.@-]+" + _BREAK + rb")?\$\d+" + _BREAK + rb"([^\s'\"\\$]+)", _any),
        Context("password", rb":\d{3,5} \(\S+\) ([0-9A-F]{32})\b", _any),
        Context("password", rb"\bp4\b[^\n]*? login\b[^\n]*?\b([0-9A-F]{32})\b", _ticket),
        Context("password", rb"(?:^|[\s>'\":\]*-])(?i:AUTH) (?:PLAIN|LOGIN|XOAUTH2|OAUTHBEARER|CRAM-MD5|NTLM)[ =]+([A-Za-z0-9+/=]{4,})", _challenge),
        Context("password", rb"\bAUTHENTICATE (?:PLAIN|LOGIN|XOAUTH2|OAUTHBEARER)[ =]+([A-Za-z0-9+/=]{4,})", _challenge),
        Context("password", rb"\d> AUTH (?:[\w.-]+ )??([^\s'\"\\]{4,})", _command_word),
        Context("password", rb"(?:^|[>\"'\n]|\\n) *\\*\"?AUTH\\*\"? \\*\"?([^\s'\"\\]{4,})(?:\\|['\"]|\s*$|\r?\n)", _command_word),
        Context("password", rb"(?:^|[>\"'\n] *)\\*\"?AUTH\\*\"? \\*\"?[\w.-]+\\*\"? \\*\"?([^\s'\"\\=]{4,})(?:\\|['\"]|\s*$|\r?\n)", _word),
        Context("password", rb"\b334 [A-Za-z0-9+/= :]*(?:\\+r|\\+n|['\"]|\s|b'|[CS<>-]+:? |send: |=> |-> )*([A-Za-z0-9+/]{4,}={0,2})(?:[\\'\"\s]|$)", _challenge),
        Context("password", rb"(?:VXNlcm5hbWU6|UGFzc3dvcmQ6)[^A-Za-z0-9+/]{0,12}(?:\\+[rn]|['\"]|\s|\w+:[ '\"]*|[<>] )*([A-Za-z0-9+/]{4,}={0,2})", _challenge),
        Context("password", rb"\b[A-Za-z]*\d+ LOGIN \\*\"?[^\s\"]+?\\*\"? \\*\"?([^\s\"'\\]+)", _any),
        Context("password", rb"\blogin[ \t\r\n]+\S+[ \t\r\n]+password[ \t]+\\*['\"]?([^\s'\"\\]+)", _any),
        Context("password", rb"(?m)^\s*[\w.*-]+:(?:\d{2,5}|\*):[^:\s/]+:[^:\s/]+:([^\s:]+)\s*$", _any),
        Context("password", rb"[\w.*-]+:(?:5432|5433|6432|6543|\*):[\w*.-]+:[\w@.-]+:([^\s:'\"\\,]+)", _any),
        Context("password", rb":\d{3,5}=[\w.@-]+:([0-9A-F]{32})\b", _any),
        Context("command-line", rb"(?i)(?:\b|\\n)(?:(?-i:ENV|ARG)|setenv|setx)[ \t]+\w*(?:PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|PWD)\w*[ \t]+\\*[\"']?([^\s\"'\\=]+)", _any),
        Context("password", rb"(?i)\b(?:(?:verification|security|one[- ]time|mfa|2fa|sms|log-?in|authentication|confirmation|access)[ -](?:code|pin|passcode|password)|otp(?: code)?)(?: (?:is|was|of))?:? (\d{4,8})\b", _any),
        # prose
        Context("password", rb"(?i)" + _PROSE_WORD + rb"s?(?: (?:is|was|of|set to|changed to|reset to|entered|provided|supplied|given|value|attempt|attempted|used|tried))?:?[ \t]+\\*[\"'`\x91\x92]([^\"'`\\\n]{2,200})\\*[\"'`]", _word),
        Context("password", _BEFORE + _PASSWORD_WORD + rb":? \(?([^\s'\"\\,;()]*[0-9!@#$%^&*+_][^\s'\"\\,;()]*)", _word),
        Context("password", _BEFORE + _PASSWORD_WORD + rb":? \(?([A-Za-z-]{4,60})" + _AFTER, _word),
        Context("password", rb"(?i)" + _PASSWORD_WORD + rb"(?: (?:for|of) \S+)? (?:is|was|set to|changed to|reset to)(?: now)?:? ([^\s'\"\\,;]*[0-9!@#$%^&*+_][^\s'\"\\,;]*)", _word),
        Context("password", rb"(?i)" + _PASSWORD_WORD + rb"(?: (?:for|of) \S+)? (?:is|was|set to|changed to|reset to)(?: now)?:? ([A-Za-z-]{4,60})" + _AFTER, _word),
        Context("password", rb"(?i)\b" + _PROSE_WORD + rb" (?:for|of) \S+: ([^\s'\"\\,;]+)", _stated),
        Context("password", rb"(?i)\b" + _PROSE_WORD + rb" ([A-Za-z0-9!@#$%^&*+_-]*[A-Za-z][0-9!@#$%^&*+_]+[A-Za-z0-9!@#$%^&*+_-]*)", _stated),
        Context("password", rb"(?i)" + _SECRET_WORD + rb"\\*['\"]?,?(?::? (?:with|has|invalid|mismatch|incorrect|value|got|received|provided|given|for|is|was|rejected|expected|option|argument|bad|wrong))+:? \\*['\"]([^\s'\"\\]{5,})\\*['\"]", _stated),
        Context("secret", rb"(?i)" + _SECRET_WORD + rb"(?: (?:for|of) \S+)? (?:is|was|set to|changed to)(?: now)?:? ([^\s'\"\\,;]+)", _stated),
        Context("secret", rb"(?i)\b(?:(?:using|revoked|rejected) key:?|key (?:rejected|refused|revoked):?) ((?-i:[A-Za-z0-9_-]{16,}))", _key_like),
        Context("password", rb"[\"']((?-i:[a-z]{4}(?: [a-z]{4}){3}))\\*[\"'][^\n]*(?i:app[ -]password)", _any),
        Context("password", rb"(?i)(?:^|[\s\"'>]|\\n)(?:password|passwd|pwd|secret|api_?key|token)(?:\t|\\+t)([^\s\"'\\]+)(?:\s*$|\r?\n|\\|[\"'])", _stated),
        Context("password", rb"(?i)\b(?:password|secret) [0-9] ([^\s'\"\\]+)", _stated),
        Context("secret", rb"--key(?:" + _GAP + rb"|=)\\*['\"]?([A-Za-z0-9_-]{16,})", _key_like),
        Context("credential", rb"(?i)(?:credentials?|log ?in|\bauth|authenticat\w+)(?: (?:failed|rejected|for|as|with|user|failure))*:?[ (]+['\"]?[A-Za-z][\w.@+-]{1,60}[:/]([^\s'\"\\/,;)]{4,})", _made_up),
        Context("secret", rb"(?i)" + _SECRET_WORD + rb"(?: for \S+:|(?: (?:is|was|of|set to|provided|supplied|given|value|used|received|found|sent|starting with|named?))*[:=]?)[ \t]+\\*[\"'`(<]?([A-Za-z0-9+/_-][A-Za-z0-9_.~+/=-]{9,})", _token),
        # files of keys and pairs
        Context("token-pair", rb"(?:AC|SK)[0-9a-f]{32}\\*['\"]?[ \t]*[,:/][ \t]*\\*['\"]?([^\s'\",;)\\]{4,})", _any),
        Context("token-pair", rb"(?i)basic_?auth\w*\([^()'\"]*\\*['\"][^'\"]*['\"][ \t]*,[ \t]*(?:password=)?\\*['\"]([^'\"\\]+)", _any),
        Context("password", rb"(?i)SecureString[ \t]+(?:-String[ \t]+)?\\*['\"]([^'\"\\]+)", _any),
        Context("password", rb"(?i)SecureString[ \t]+(?:-String[ \t]+)?([^\s'\"\\$(-][^\s'\"\\]*)", _any),
        Context("secret", rb"\bkey=(?:bytearray|bytes|bytes\.fromhex)\(" + _STRING, _any),
        Context("password", rb"\bSecret(?:Str|Bytes|String)?\(" + _STRING, _any),
        Context("password", rb"(?i)\b(?:[sg]et|check|verify|change|reset|validate|compare)_?password\(" + _STRING + rb"[ \t]*\)", _any),
        Context("token-pair", rb"(?i)(?:log_?in|log_?on|sign_?in|authenticate|ldap_bind|simple_bind(?:_s)?|ftp_login|basic_?auth|NetworkCredential|PasswordCredential|DigestAuth|NTLMAuth|proxy_?auth|add_password)\((?:[\w.]+[ \t]*,[ \t]*)?" + _SKIPPED + rb"[ \t]*,[ \t]*(?:password=)?" + _STRING, _any),
        Context("token-pair", rb"(?i)(?:__construct|mysqli?_connect|mysqli|pg_connect|oci_connect|getConnection|pymysql\.connect|create_connection)\(" + _SKIPPED + rb"[ \t]*,[ \t]*" + _SKIPPED + rb"[ \t]*,[ \t]*" + _STRING, _any),
        Context("password", rb"(?i)\b(?:crypt|hashpw|hash_password|make_password|password_hash|password_verify)\(" + _STRING, _any),
        Context("password", rb"chpasswd:(?:\s|\\+[nr])*(?:[\w-]+: ?[\w|>-]+(?:\s|\\+[nr])+)*[\w.-]+:([^\s\"'\\<]+)", _any),
        Context("token-pair", rb"AKIA[A-Z0-9]{12,}[^A-Za-z0-9]{1,8}([A-Za-z0-9+/]{40})\b", _any),
        Context("aws-secret", rb"(?i)aws\w{0,30}[^\w\n]{1,12}([A-Za-z0-9+/]{40})(?:[^A-Za-z0-9+/]|$)", _token),
        Context("sas-signature", rb"[?&;]sig=([A-Za-z0-9%+/=_-]{16,})", _any),
        Context("wifi-password", rb"(?i)(?:(?:\b|_)psk[ \t]*=[ \t]*\\*\"?|WIFI:[^\n]*?P:)([^\s\";\\]+)", _any),
    )
    # fmt: on


CONTEXTS: Final[tuple[Context, ...]] = _rows()


def _relaxed(pattern: bytes) -> bytes:
    """The same without upper bounds, which cost the gate a state for each number below them."""
    return re.sub(rb"\{(\d+),\d{2,}\}", rb"{\1,}", pattern)


TRIGGER: Final = b"|".join(b"(?:" + _relaxed(context.pattern) + b")" for context in CONTEXTS)


@functools.cache
def _gate() -> Gate:
    return gate(_relaxed(context.pattern) for context in CONTEXTS)


def spans(data: bytes) -> Iterator[Span]:
    """Every secret that its surroundings give away."""
    for hit in sorted(_gate().Match(data) or ()):
        yield from CONTEXTS[hit].spans(data)


KEY_TRIGGER: Final = rb"-----BEGIN[A-Z ]{0,40} PRIVATE KEY|-----END[A-Z ]{0,40} PRIVATE KEY|BEGIN SSH2 ENCRYPTED PRIVATE|PRIVATE KEY BLOCK"
_BEGIN: Final = rb"-----BEGIN[A-Z0-9 ]{0,40} PRIVATE KEY(?: BLOCK)?-{0,5}"
_END: Final = rb"-----END[A-Z0-9 ]{0,40} PRIVATE KEY(?: BLOCK)?-{0,5}"
_BODY: Final = re.compile(
    rb"""(?:(?:\s|\\++[nrt]|["'+>|,]|(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset)[^\n\\]*+)*+[A-Za-z0-9+/=_-]{12,}+)*+"""
    rb"""(?:(?:\s|\\++[nr]|["'+>|,])*+[A-Za-z0-9+/=]{1,76}(?=[\s."'\\]|\Z))?"""
)
_BODY_BACK: Final = re.compile(rb"(?:[A-Za-z0-9+/=]|\s|\\[nr])*\Z")


def private_keys(data: bytes) -> Iterator[Span]:
    """The body of every private key, cut-off ones too."""
    begin, end = compiled(_BEGIN), compiled(_END)
    pos = 0
    while (match := begin.search(data, pos)) is not None:
        following = begin.search(data, match.end(), match.end() + (1 << 15))
        limit = min(match.end() + (1 << 15), len(data)) if following is None else following.start()
        closing = end.search(data, match.end(), limit)
        if closing is not None:
            stop = closing.start()
        else:
            body = _BODY.match(data, match.end(), limit)
            stop = match.end() if body is None else body.end()
        pos = max(stop, match.end())
        if data[match.end() : stop].strip() and not harmless(data[match.end() : stop].strip(b" \r\n\t\\nr\"'")):
            yield Span(match.end(), stop, "private-key")
    first = end.search(data)
    opening = begin.search(data)
    if first is not None and (opening is None or opening.start() > first.start()):
        low = max(0, first.start() - (1 << 13))
        tail = data[low : first.start()]
        kept = len(tail) - len(_tail_of_key(tail))
        if kept < len(tail):
            yield Span(low + kept, first.start(), "private-key")


def _tail_of_key(text: bytes) -> bytes:
    """The lines of base64 right before a key's end, where its beginning was cut off."""
    lines = text.split(b"\n")
    kept: list[bytes] = []
    for line in reversed(lines):
        if line and re.fullmatch(rb"[\s>|]*[A-Za-z0-9+/=\\]+\s*", line) is None:
            break
        kept.append(line)
    return b"\n".join(reversed(kept)).lstrip()
