"""Apprise as a sink, over real sockets: what it posts, what it never shows, and that it blocks nobody."""

from __future__ import annotations

import asyncio
import logging

import pytest

from reprieve.adapters.apprise import AppriseSink
from reprieve.core.alerts import Level
from reprieve.errors import UsageError
from reprieve.ports.alerting import Notice
from reprieve.testing import FlakyHTTP, Stall

NOTICE = Notice(
    kind="raise", dedup_key="reprieve/page/review/1", level=Level.PAGE, title="[PAGE] page: review", text="review/llm: BUG",
    data={}, at=1_700_000_000.0,
)  # fmt: skip
PASSWORD = "hunter2" + "hunter2"


def at(server, path="/hook", login=""):
    return f"json://{login}127.0.0.1:{server.port}{path}"


def test_it_posts_title_text_level_and_dedup_key():
    with FlakyHTTP() as server:
        asyncio.run(AppriseSink(at(server)).tell(NOTICE))
        (request,) = server.requests
    body = request.json()
    assert (body["title"], body["type"]) == ("[PAGE] page: review", "failure")
    assert "review/llm: BUG" in body["message"]
    assert "reprieve/page/review/1" in body["message"]


def test_what_the_service_does_not_take_is_an_error_without_the_url(caplog):
    caplog.set_level(logging.DEBUG)
    with FlakyHTTP() as server:
        server.always(500)
        sink = AppriseSink(at(server, login=f"user:{PASSWORD}@"))
        with pytest.raises(ConnectionError) as caught:
            asyncio.run(sink.tell(NOTICE))
    assert PASSWORD not in str(caught.value) + caplog.text + sink.name
    assert any(each == PASSWORD for each in sink.secrets)


TOKENS = ("T1JJ3T3L2", "A1BRTD4JD", "TIiajkdnlazkcOXrIdevi7FQ")


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        (f"json://ops:{PASSWORD}@example.org/production/alerts?format=markdown&overflow=truncate", {PASSWORD}),
        (f"slack://{'/'.join(TOKENS)}/#channel", set(TOKENS)),
        (f"json://127.0.0.1/hook?token={PASSWORD}&from=reprieve", {PASSWORD}),
        ("mailtos://ops:short@example.org?to=people@company-mail.com", {"short"}),
    ],
)
def test_what_is_a_credential_is_a_secret_and_no_word_is(url, secret):
    assert set(AppriseSink(url).secrets) == {url, *secret}


def test_a_service_that_hangs_keeps_nobody_waiting_and_the_process_can_end():
    async def run():
        with FlakyHTTP() as server:
            server.always(Stall())
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await AppriseSink(at(server)).tell(NOTICE)

    asyncio.run(run())


def test_its_name_is_the_same_after_a_restart_and_has_nothing_of_the_password():
    names = {
        AppriseSink(f"json://user:{password}@example.org/hook").name for password in (PASSWORD, PASSWORD, "another")
    }
    assert len(names) == 1
    assert AppriseSink("json://example.org/a").name != AppriseSink("json://example.org/b").name


@pytest.mark.parametrize("url", ["nonsense://x", f"jsn://user:{PASSWORD}@host", "no url at all", ""])
def test_what_apprise_does_not_know_is_refused_without_showing_it(url, caplog):
    with pytest.raises(UsageError, match="Apprise does not know") as caught:
        AppriseSink(url)
    assert PASSWORD not in str(caught.value) + caplog.text
