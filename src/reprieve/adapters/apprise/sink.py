"""A sink over one of Apprise's URLs, which hold secrets: nobody sees them, in no log and no row."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import threading
import warnings
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import apprise

from reprieve.core.alerts import Level
from reprieve.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from reprieve.ports.alerting import Notice

_SCHEME: Final = re.compile(r"([a-zA-Z0-9]{2,20})://")
_TOKEN: Final = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[^/?&=@,]{8,}|[^/?&=@,]{24,}")
"""Letters with digits, or longer than any word."""
_NAMES: Final = re.compile(r"pass|token|secret|key|auth|sign", re.IGNORECASE)


class AppriseSink:
    """Tells whom an Apprise URL names: `AppriseSink("mailtos://user:password@example.org?to=ops@example.org")`."""

    def __init__(self, url: str, *, name: str | None = None, timeout: float = 30.0) -> None:
        """Refuse a URL that Apprise does not know; it is not shown, since it holds secrets."""
        scheme = _SCHEME.match(url)
        # Apprise writes what it cannot read into its log, secrets and all.
        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
        plugin = None if scheme is None else _plugin(url)
        if scheme is None or plugin is None:
            shown = "what was given" if scheme is None else f"the {scheme[1]}:// URL"
            raise UsageError(f"Apprise does not know {shown}: see https://github.com/caronc/apprise for what it takes")
        self._plugin = plugin
        self.timeout = timeout
        self.secrets = tuple(sorted(_secrets_in(url)))
        """What no text may hold."""
        hidden = str(plugin.url(privacy=True))  # type: ignore[no-untyped-call]  # Apprise is half typed
        self.name = f"{scheme[1].lower()}-{hashlib.sha256(hidden.encode()).hexdigest()[:12]}" if name is None else name

    async def tell(self, notice: Notice) -> None:
        """Hand it over in a thread of its own, which nobody waits for longer than asked."""
        if not await _in_thread(lambda: self._notify(notice)):
            raise ConnectionError("the service did not take it")

    def _notify(self, notice: Notice) -> bool:
        kinds = {Level.PAGE: apprise.NotifyType.FAILURE, Level.WARNING: apprise.NotifyType.WARNING}
        kind = apprise.NotifyType.SUCCESS if notice.kind == "resolve" else kinds[notice.level]
        body = f"{notice.text}\n({notice.dedup_key})"
        return bool(self._plugin.notify(title=notice.title, body=body, notify_type=kind))

    async def close(self) -> None:
        """It holds no connections."""


def _plugin(url: str) -> apprise.NotifyBase | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of what its plugins import, which it loads all at once
        found = apprise.Apprise.instantiate(url, suppress_exceptions=True)
    return found if isinstance(found, apprise.NotifyBase) else None


async def _in_thread(work: Callable[[], bool]) -> bool:
    """A thread that does not keep the process from ending, however long its call hangs."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[bool] = loop.create_future()

    def settle(value: object, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(bool(value))

    def run() -> None:
        value, error = None, None
        try:
            value = work()
        except Exception as exc:  # noqa: BLE001 - told to whoever waits
            error = exc
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:  # the event loop has been closed: nobody waits any more
            return

    threading.Thread(target=run, name="reprieve-apprise", daemon=True).start()
    return await done


def _secrets_in(url: str) -> set[str]:
    """What of it may be a credential: the password, what looks like a token, and options whose names say so.

    Never a word: redaction would take it out of every text.
    """
    try:
        parts = urlsplit(url)
        password, user, host = parts.password or "", parts.username or "", parts.hostname or ""
    except ValueError:
        return {url}
    options = [value for name, value in parse_qsl(parts.query) if _NAMES.search(name)]
    # Some services have their tokens where others have their host.
    place = parts.netloc.rpartition("@")[2].partition(":")[0]
    guessed = [user, *parts.path.split("/"), *([] if "." in host else [place])]
    found = {url, password, *options, *(piece for piece in guessed if _TOKEN.fullmatch(piece))}
    return {each for piece in found for each in (piece, unquote(piece)) if each}
