"""Seeded draws: every secret is assembled here, at run time, so that none stands in the source."""

import base64
import json
import os
import random
import re
import string

DEFAULT_SEED = 20_241

_ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "A": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "L": string.ascii_lowercase,
    "U": string.ascii_uppercase,
    "h": "0123456789abcdef",
    "H": "0123456789ABCDEF",
    "d": string.digits,
    "u": string.ascii_letters + string.digits + "-_",
    "b": string.ascii_letters + string.digits + "+/",
    "B": string.ascii_uppercase + "234567",
}
_SLOT = re.compile(r"\{([a-zA-Z])(\d+)\}")
_WEAK = (
    "winter summer falcon tiger dragon monkey shadow master orange purple silver hunter welcome rocket banana cookie"
)
_PHRASES = ("correct", "horse", "staple", "marble", "velvet", "canyon", "pickle", "saddle", "thunder", "walnut")


def audit_seed() -> int:
    """The seed of this run: fixed, unless REPRIEVE_AUDIT_SEED asks for a fresh sample."""
    return int(os.environ.get("REPRIEVE_AUDIT_SEED", str(DEFAULT_SEED)))


class Draw(random.Random):
    """A random source that knows what credentials are made of."""

    def fill(self, template: str) -> str:
        """Replace each slot such as `{h32}` (32 hex digits) by random characters of that alphabet."""
        return _SLOT.sub(lambda slot: self.some(slot[1], int(slot[2])), template)

    def some(self, alphabet: str, count: int) -> str:
        """So many characters of the alphabet, mixed enough to look like a credential."""
        letters = _ALPHABETS[alphabet]
        text = "".join(self.choices(letters, k=count))
        if count >= 8 and len(letters) > 16 and not (re.search(r"\d", text) and re.search("[A-Za-z]", text)):
            # A key without a single digit is possible and rare; the audit asks for the usual.
            return text if alphabet in "LU" else self.some(alphabet, count)
        return text

    def weak_password(self) -> str:
        """What people choose: a word, digits, perhaps a sign."""
        word = self.choice(_WEAK.split())
        word = self.choice((word, word.capitalize(), word.replace("o", "0").replace("e", "3")))
        return word + self.some("d", self.choice((2, 3, 4))) + self.choice(("", "", "!", "#", "$x"))

    def strong_password(self) -> str:
        """What a password manager makes: letters, digits and signs that need no quoting in a URL."""
        signs = "".join(self.choices("!*-_.~", k=2))
        body = list(self.some("a", 14) + signs)
        self.shuffle(body)
        return self.some("a", 2) + "".join(body) + self.some("a", 2)

    def passphrase(self) -> str:
        """Four words and a number, with dashes."""
        return "-".join(self.sample(_PHRASES, 4)) + "-" + self.some("d", 2)

    def quoted_password(self) -> str:
        """A password that has to be escaped wherever it is quoted."""
        return f'{self.weak_password().rstrip("!#$x")}"{self.some("a", 4)}\\{self.some("a", 7)}'

    def password(self) -> str:
        """Any of the plain ones."""
        return self.choice((self.weak_password, self.strong_password, self.weak_password, self.passphrase))()

    def opaque(self) -> str:
        """A generic secret: random, of no known vendor."""
        return self.fill(
            self.choice(("{a32}", "{a24}", "{h40}", "{h64}", "{u43}", "{h32}", "{b43}=", "{a48}", "{A28}"))
        )

    def basic(self) -> str:
        """The value of HTTP's basic authentication."""
        return base64.b64encode(f"{self.word()}:{self.password()}".encode()).decode()

    def jwt(self) -> str:
        """A signed web token with a real header and payload."""

        def part(value: object) -> str:
            return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

        header = {"alg": self.choice(("HS256", "RS256", "ES256")), "typ": "JWT"}
        payload = {"sub": self.fill("user-{d6}"), "iat": 1_700_000_000 + self.randrange(10**7), "scope": "read write"}
        return f"{part(header)}.{part(payload)}.{self.some('u', 43)}"

    def word(self) -> str:
        """A user, host or service name."""
        return self.choice(
            [
                "alice",
                "bob",
                "deploy",
                "svc-mail",
                "ingest",
                "billing-api",
                "root",
                "app",
                "reporting",
                "carol",
                "jenkins",
            ]
        )

    def host(self) -> str:
        """A host name."""
        return self.choice(("db1", "mail", "cache-2", "api", "queue", "p4")) + self.choice(
            (".internal", ".example.com", ".prod.example.net", ".svc.cluster.local")
        )
