"""Where alerts go: what a notice says, and a sink over any sender, so that webhooks, mail and Slack are one class."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from reprieve.app.judging import classify
from reprieve.app.redaction import redact, register_secret
from reprieve.app.secrecy import keep_secrets
from reprieve.core.alerts import Level
from reprieve.ports.alerting import Notice
from reprieve.ports.sending import Message, Outgoing

if TYPE_CHECKING:
    from reprieve.ports.alerting import Sink
    from reprieve.ports.intents import NoticeRecord
    from reprieve.ports.sending import Sender

RAISE: Final = "raise"
RESOLVE: Final = "resolve"
_DIGEST_LENGTH: Final = 12
_MARK_LENGTH: Final = 8
_LONGEST_ERROR: Final = 500


class SenderSink:
    """Tells through a sender of `reprieve.senders` or of your own: `SenderSink(Slack(token), "slack:C024BE91L")`."""

    def __init__(self, sender: Sender, recipient: str, *, name: str | None = None) -> None:
        self._sender, self._recipient = sender, sender.address(recipient)
        keep_secrets(sender, "sender")
        # A hook's URL is a secret too: whoever has it can post there.
        if self._recipient.startswith("http"):
            register_secret(self._recipient, name=f"recipient of the sender {sender.name}")
        self.name = f"{sender.name}-{_digest(self._recipient)}" if name is None else name
        self.timeout = sender.capability.send_timeout

    async def tell(self, notice: Notice) -> None:
        """Send it; the token is the same on every try."""
        message = Message(
            recipient=self._recipient, subject=notice.title, text=notice.text,
            data={**notice.data, "kind": notice.kind, "dedup_key": notice.dedup_key},
        )  # fmt: skip
        token = hashlib.sha256(f"{self.name}\n{notice.kind}\n{notice.dedup_key}".encode()).hexdigest()[:32]
        outgoing = Outgoing(
            message=message, token=token, timeout=self.timeout, prepared_at=notice.at, reached=lambda _: None
        )
        await self._sender.send(outgoing)

    async def close(self) -> None:
        """Let go of the sender's connections."""
        await self._sender.close()


def _digest(recipient: str) -> str:
    """A short name for what may not be shown; nothing that may be a password goes into it."""
    place, _, _ = recipient.partition("?")
    scheme, _, rest = place.rpartition("://")
    return hashlib.sha256(f"{scheme}:{rest.rpartition('@')[2]}".encode()).hexdigest()[:_DIGEST_LENGTH]


def mark_of(digest_key: bytes) -> str:
    """By what alerts of one database are told from those of another: their numbers begin alike."""
    return hashlib.sha256(b"alerts\n" + digest_key).hexdigest()[:_MARK_LENGTH]


def notice_of(row: NoticeRecord, mark: str) -> Notice:
    """What a sink is told, in words and in fields; `mark` says by which database."""
    ended = row.kind == RESOLVE
    loud = "resolved" if ended else {Level.PAGE: "PAGE", Level.WARNING: "warning"}[row.level]
    times = "" if row.count == 1 else f", {row.count:,} times"
    lines = [
        row.summary,
        f"rule {row.rule}, {row.key}{times}, first {_moment(row.first_at)}, last {_moment(row.last_at)}",
    ]
    if ended:
        lines.append(f"resolved by {row.resolved_by}: {row.why}")
    else:
        lines.append(f"reprieve alerts show {row.alert_id}")
    return Notice(
        kind=row.kind,
        dedup_key=f"reprieve/{mark}/{row.rule}/{row.key}/{row.alert_id}",
        level=row.level,
        title=f"[{loud}] {row.rule}: {row.key}",
        text="\n".join(lines),
        data={
            "alert_id": row.alert_id, "rule": row.rule, "key": row.key, "level": row.level.value, "summary": row.summary,
            "source": row.source, "stage": row.stage, "error_class": row.error_class, "count": row.count,
            "first_at": row.first_at, "last_at": row.last_at, "resolved_at": row.resolved_at,
            "resolved_by": row.resolved_by, "why": row.why,
        },
        at=row.first_at if row.resolved_at is None else row.resolved_at,
    )  # fmt: skip


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(sep=" ", timespec="seconds")


async def told_or_why(sink: Sink, notice: Notice) -> str | None:
    """Tell it; why that did not work, sanitized, or None where it did."""
    try:
        async with asyncio.timeout(sink.timeout):
            await sink.tell(notice)
    except TimeoutError:
        return f"no answer within {sink.timeout:g} s"
    except Exception as exc:  # noqa: BLE001 - the caller tries again, whatever a sink raises
        failure = classify(exc, stage="alert")
        return redact(f"{failure.error_class}: {failure.message}")[:_LONGEST_ERROR]
    return None
