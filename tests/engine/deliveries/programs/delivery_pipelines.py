"""Pipelines that tell people, by real senders of every kind of provider; what is tried with one is told apart by its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import delivery_gates

import reprieve
from reprieve import Backoff, Cause, Policy, Profile
from reprieve.senders import SMTP, Imap, Maildir, Webhook

# More crashes than any budget allows for; what the budgets do is tested apart.
QUICK = Profile(
    name="quick",
    policy=Policy(max_attempts=50, backoff=Backoff(initial=0.01, maximum=0.04)),
    budgets=dict.fromkeys((Cause.CRASH, Cause.OUT_OF_MEMORY, Cause.LOST_LEASE, Cause.DEPLOY), 32_767),
)
KINDS = ("mail", "blind-mail", "asked-hook", "keyed-hook", "blind-hook", "maildir")
BLIND = frozenset({"blind-mail", "blind-hook"})
"""Whose providers can neither be asked nor drop a second one."""
WORDS = "All is well, as far as can be told from here.\n" * 40
SECONDS = 6.0
"""How long a send or a look-up may take: the mail server of these tests is slow to answer many at once."""


@dataclass
class Notice:
    """Who is told, and by which kind of sender."""

    kind: str
    recipients: list[str]


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where the providers are."""

    smtp_port: int
    imap_port: int
    username: str
    password: str
    office: str
    keyed_office: str
    maildir: str

    def recipient(self, kind: str, name: str) -> str:
        match kind:
            case "mail" | "blind-mail":
                return f"mailto:{name}@example.org"
            case "maildir":
                return f"maildir:{name}"
            case _:
                return f"{self.keyed_office if kind == 'keyed-hook' else self.office}/inbox/{name}"

    def sender(self, kind: str, name: str) -> Any:
        match kind:
            case "mail" | "blind-mail":
                journal = Imap(
                    "127.0.0.1", self.imap_port, username=self.username, password=self.password, tls="none", lag=0.2
                )
                return SMTP(
                    "127.0.0.1", self.smtp_port, sender="Reviews <reviews@example.org>", tls="none", name=name,
                    journal=journal if kind == "mail" else None, timeout=SECONDS, connections=60,
                )  # fmt: skip
            case "maildir":
                return Maildir(self.maildir, name=name, timeout=SECONDS)
            case "asked-hook":
                status_url = f"{self.office}/status/{{token}}"
                return Webhook(name, status_url=status_url, lag=0.2, timeout=SECONDS, allow_private=True)
            case "keyed-hook":
                return Webhook(name, takes_key=3600.0, timeout=SECONDS, allow_private=True)
            case _:
                return Webhook(name, timeout=SECONDS, allow_private=True)


def telling(name: str, places: Places) -> reprieve.Pipeline:
    """A pipeline of this name, with senders of its own: nobody else's sweep looks at their rows."""
    senders = [places.sender(kind, f"{kind}.{name}") for kind in KINDS]
    pipeline = reprieve.Pipeline(name, profile=QUICK, senders=senders, breaker=None)

    @pipeline.stage(delivers=True)
    async def notify(job: reprieve.Job[Notice]) -> int:
        await delivery_gates.at_job("claimed", job.id)
        messages = [
            reprieve.Message(recipient=each, subject=f"For {each}", text=WORDS) for each in job.payload.recipients
        ]
        done = await reprieve.deliver(job, messages, via=f"{job.payload.kind}.{name}")
        return len(done.sent)

    return pipeline
