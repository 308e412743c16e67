"""The sender of Slack messages: one try a send, and a look-up that reads the channel for its own mark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from reprieve.core.delivery import Capability, Found, Phase
from reprieve.errors import UsageError
from reprieve.ports.sending import Answer

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable

    from reprieve.ports.sending import Outgoing, Question

_EVENT: Final = "reprieve_delivery"
_PLACE: Final = re.compile(r"(?P<channel>[CGD][A-Z0-9]{2,30})(?:/(?P<thread>[0-9]{1,12}\.[0-9]{1,9}))?")
_MAY_HAVE_POSTED: Final = frozenset({
    "fatal_error", "internal_error", "service_unavailable", "request_timeout", "team_added_to_org",
})  # fmt: skip
"""What Slack says where it broke off, perhaps after the message was posted."""
_PAGE: Final = 200
_MOST_PAGES: Final = 15
_CLOCKS_DIFFER: Final = 3600.0
"""Seconds before the first send from which on a channel is read: our clock is not Slack's."""
_REQUEST_TIMEOUT: Final = 408


class Slack:
    """Posts messages to channels, `slack:C024BE91L`, or to a thread of one, `slack:C024BE91L/1700000000.000100`.

    Slack(token)
    """

    def __init__(
        self,
        token: str,
        *,
        name: str = "slack",
        base_url: str = "https://slack.com/api/",
        lag: float = 10.0,
        retention: float | timedelta | None = timedelta(days=90),
        timeout: float = 30.0,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Take a bot's token (scopes chat:write, and channels:history or its like), and how long messages are kept."""
        self.name = name
        self.secrets = (token,)
        """What no text may hold."""
        self._token, self._base_url, self._ssl_context = token, base_url, ssl_context
        kept = retention.total_seconds() if isinstance(retention, timedelta) else retention
        self.capability = Capability(looks_up=True, lag=lag, retention=kept, send_timeout=timeout)

    def address(self, recipient: str) -> str:
        """The channel's id, and the thread if there is one."""
        scheme, _, place = recipient.partition(":")
        if scheme.lower() != "slack" or _PLACE.fullmatch(place) is None:
            raise UsageError("a recipient in Slack is slack: and a channel's id, such as slack:C024BE91L, not its name")
        return f"slack:{place}"

    async def send(self, outgoing: Outgoing) -> str:
        """Post it, once, and return its channel and time, which is what Slack knows a message by."""
        outgoing.reached(Phase.BEFORE)
        channel, thread = self._place(outgoing.message.recipient)
        async with self._client(outgoing.timeout, lambda: outgoing.reached(Phase.DURING)) as client:
            try:
                posted = await client.chat_postMessage(
                    channel=channel,
                    text=_text(outgoing),
                    thread_ts=thread,
                    metadata={"event_type": _EVENT, "event_payload": {"token": outgoing.token}},
                    unfurl_links=False,
                    unfurl_media=False,
                )
            except SlackApiError as error:
                if _is_refusal(error.response):
                    outgoing.reached(Phase.REJECTED)
                raise
        return f"{posted.get('channel') or channel}/{posted.get('ts') or outgoing.token}"

    async def look_up(self, question: Question) -> Answer:
        """Read the channel, or the thread, since before the first send, for messages that bear the token."""
        channel, thread = self._place(question.recipient)
        since = f"{max(0.0, question.since - _CLOCKS_DIFFER):.6f}"
        seen = _Seen()
        async with self._client(question.timeout) as client:
            for _ in range(_MOST_PAGES):
                page = await _page(client, channel, thread, since, seen.cursor)
                seen.take(page, question.token)
                if seen.whole or not seen.cursor:
                    break
        return _answer(channel, seen)

    async def close(self) -> None:
        """Nothing is kept open between calls: Slack takes about one message a second for a channel."""

    def _place(self, recipient: str) -> tuple[str, str | None]:
        channel, _, thread = self.address(recipient).removeprefix("slack:").partition("/")
        return channel, thread or None

    @asynccontextmanager
    async def _client(
        self,
        timeout: float,  # noqa: ASYNC109 - aiohttp's own, for all of one request
        connected: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[AsyncWebClient]:
        """A client that tries once; `connected` is called before a request leaves."""

        async def leaving(*_: object) -> None:
            connected()

        trace = aiohttp.TraceConfig()
        trace.on_connection_create_end.append(leaving)
        trace.on_connection_reuseconn.append(leaving)
        limit = aiohttp.ClientTimeout(total=timeout)
        jar = aiohttp.DummyCookieJar()
        async with aiohttp.ClientSession(timeout=limit, trace_configs=[trace], cookie_jar=jar) as session:
            try:
                yield AsyncWebClient(
                    self._token, self._base_url, ssl=self._ssl_context, session=session, retry_handlers=[]
                )
            except TimeoutError:
                raise TimeoutError(f"Slack did not answer within {timeout:g} s") from None


def _text(outgoing: Outgoing) -> str:
    """Subject and text, with nothing in them that Slack takes for a mention or a link."""
    subject = " ".join(outgoing.message.subject.split())
    text = f"*{subject}*\n{outgoing.message.text}" if subject else outgoing.message.text
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _is_refusal(response: object) -> bool:
    """Whether Slack says that it did not post it: most of its words for it, some with 200."""
    status = getattr(response, "status_code", None)
    if not isinstance(status, int) or status >= 500 or status == _REQUEST_TIMEOUT:  # noqa: PLR2004 - RFC 9110
        return False
    data = getattr(response, "data", None)
    word = data.get("error") if isinstance(data, Mapping) else None
    if isinstance(word, str):
        return word not in _MAY_HAVE_POSTED
    return 400 <= status < 500  # noqa: PLR2004 - as above


@dataclass(slots=True)
class _Seen:
    """What was read so far of a channel."""

    stamps: list[str] = field(default_factory=list)
    """Of the messages that bear the token."""
    veiled: int = 0
    """Messages of ours whose payload Slack did not show."""
    read: int = 0
    whole: bool = False
    cursor: str = ""

    def take(self, page: Mapping[str, Any], token: str) -> None:
        """Look through one page."""
        for message in page.get("messages") or ():
            self.read += 1
            metadata = message.get("metadata") or {}
            if metadata.get("event_type") != _EVENT:
                continue
            marked = (metadata.get("event_payload") or {}).get("token")
            self.veiled += marked is None
            if marked == token:
                self.stamps.append(str(message.get("ts")))
        self.whole = page.get("has_more") is False
        self.cursor = (page.get("response_metadata") or {}).get("next_cursor") or ""


async def _page(client: AsyncWebClient, channel: str, thread: str | None, since: str, cursor: str) -> Mapping[str, Any]:
    if thread is None:
        found = await client.conversations_history(
            channel=channel, oldest=since, include_all_metadata=True, limit=_PAGE, cursor=cursor or None
        )
    else:
        found = await client.conversations_replies(
            channel=channel, ts=thread, oldest=since, include_all_metadata=True, limit=_PAGE, cursor=cursor or None
        )
    return found.data if isinstance(found.data, Mapping) else {}


def _answer(channel: str, seen: _Seen) -> Answer:
    """Absent only where all was read and nothing was hidden."""
    if seen.stamps:
        found = Found.FOUND if len(set(seen.stamps)) == 1 else Found.DUPLICATE
        first = min(seen.stamps)
        times = ", ".join(sorted(set(seen.stamps)))
        return Answer(
            found=found, notification_id=f"{channel}/{first}", sent_at=_moment(first),
            evidence=f"Slack has it in {channel} at {times}",
        )  # fmt: skip
    if seen.veiled:
        return Answer.unknown(f"Slack shows messages of ours in {channel} without their tokens")
    if not seen.whole:
        return Answer.unknown(f"the first {seen.read} messages in {channel} do not have it, and there are more")
    return Answer(found=Found.ABSENT, evidence=f"none of the {seen.read} messages in {channel} since then has it")


def _moment(stamp: str) -> float | None:
    try:
        return float(stamp)
    except ValueError:
        return None
