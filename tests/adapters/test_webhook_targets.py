"""Where a webhook may go: one normal form of a URL, and no way to an address that is not everybody's."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import reprieve
from reprieve.adapters.webhook.targets import is_public
from reprieve.core.delivery import Phase
from reprieve.errors import UsageError
from reprieve.ports.sending import Message, Outgoing
from reprieve.senders import Webhook
from reprieve.testing import FlakyHTTP, trusting_context


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("https://example.org", "https://example.org/"),
        ("HTTPS://Example.ORG:443/Hook", "https://example.org/Hook"),
        ("https://example.org:8443/a", "https://example.org:8443/a"),
        ("https://example.org./a", "https://example.org/a"),
        ("https://example.org/a#part", "https://example.org/a"),
        ("https://example.org/a?b=c%20d&e", "https://example.org/a?b=c%20d&e"),
        ("https://example.org/a?", "https://example.org/a"),
        ("https://example.org/ä?ö=ü", "https://example.org/%C3%A4?%C3%B6=%C3%BC"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://BÜCHER.example/", "https://xn--bcher-kva.example/"),
        ("https://8.8.8.8/", "https://8.8.8.8/"),
        ("https://[2001:4860:4860:0:0:0:0:8888]/", "https://[2001:4860:4860::8888]/"),
        ("https://under_score.example/", "https://under_score.example/"),
    ],
)
def test_a_url_has_one_normal_form(url, normal):
    sender = Webhook()
    assert sender.address(url) == normal
    assert sender.address(normal) == normal


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "a URL such as"),
        ("example.org/hook", "a URL such as"),
        ("mailto:ada@example.org", "a URL such as"),
        ("https:///hook", "a URL such as"),
        ("file:///etc/passwd", "a URL such as"),
        ("gopher://example.org/", "a URL such as"),
        ("http://example.org/", "begins with https"),
        ("https://user:word@example.org/", "no user or password"),
        ("https://user@example.org/", "no user or password"),
        ("https://@example.org/", "no user or password"),
        ("https://example.org:99999/", "cannot be read"),
        ("https://example.org:x/", "cannot be read"),
        ("https://[::1/", "cannot be read"),
        ("https://example.org/a\r\nX: y", "visible characters"),
        ("https://example.org/a b", "visible characters"),
        ("https://example.org\t.evil.example/", "visible characters"),
        ("https://example.org\\@evil.example/", "visible characters"),
        ("https://example.org/\x00", "visible characters"),
        ("https://example.org/\ud800", "visible characters"),
        ("https://example.org/" + "a" * 2000, "at most 2000"),
        ("https://exa mple.org/", "visible characters"),
        ("https://-a.example/", "no name"),
        ("https://a..example/", "no name"),
        ("https://" + "a" * 64 + ".example/", "no name"),
        ("https://%31%32%37.0.0.1/", "no name|no IP address"),
    ],
)
def test_what_is_no_safe_url_is_refused_without_showing_it(url, message):
    with pytest.raises(UsageError, match=message) as caught:
        Webhook().address(url)
    assert "word" not in str(caught.value).replace("password", "")


PRIVATE = [
    "127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
    "169.254.170.2", "100.64.0.1", "100.100.100.200", "0.0.0.0", "0.1.2.3", "255.255.255.255", "224.0.0.1", "239.1.2.3",
    "240.0.0.1", "192.0.0.192", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "168.63.129.16", "192.88.99.1",
    "::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "ff0e::1", "::ffff:127.0.0.1",
    "::ffff:8.8.8.8", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1",
    "64:ff9b:1::8.8.8.8", "2002:7f00:1::", "2002:808:808::", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1",
    "3fff::1", "100::1", "5f00::1",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "1.1.1.1", "172.32.0.1", "192.167.255.255", "2001:4860:4860::8888", "2606:4700::1111", "64:ff9b::8.8.8.8"]  # fmt: skip


def url_of(address):
    return f"https://[{address}]/hook" if ":" in address else f"https://{address}/hook"


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_everybodys_is_refused(address):
    assert not is_public(ip_address(address))
    with pytest.raises(UsageError, match=r"not a public address.*allow_private=True"):
        Webhook().address(url_of(address))
    assert Webhook(allow_private=True).address(url_of(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_that_is_everybodys_is_taken(address):
    assert is_public(ip_address(address))
    assert ip_address(Webhook().address(url_of(address)).removeprefix("https://")[:-5].strip("[]")) == ip_address(
        address
    )


@pytest.mark.parametrize(
    "host",
    [
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "127.0.0.1.",
        "[fe80::1%25eth0]",
        "[::ffff:7f00:1]",
    ],
)
def test_an_address_in_another_spelling_is_refused_too(host):
    with pytest.raises(UsageError, match=r"not a public address|no IP address|network interface|no name"):
        Webhook().address(f"https://{host}/")


PIECES = st.sampled_from(
    ["example", "org", ".", "/", ":", "443", "@", "?", "#", "%", "%2f", "[", "]", "::1", "127", "0x7f", "ä", "ß", "。", "-", "_", "=", "&", "\\", "\n"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=30))
@example("\ufeffexample.org")
@example("127。0。0。1/")
@example("①②⑦.0.0.1")
def test_whatever_is_typed_is_refused_or_has_one_normal_form_that_is_ascii(text):
    sender = Webhook()
    try:
        normal = sender.address(f"https://{text}")
    except UsageError:
        return
    assert sender.address(normal) == normal
    assert normal.isascii()
    assert "@" not in urlsplit(normal).netloc
    host = urlsplit(normal).hostname
    assert host
    assert not host.replace(".", "").isdigit() or is_public(ip_address(host))


def test_plain_http_is_for_networks_of_ones_own():
    assert Webhook(allow_private=True).address("HTTP://LocalHost:80/x") == "http://localhost/x"


class Names:
    """A resolver whose answers are scripted, one list of addresses a call; it tells what was asked."""

    def __init__(self, monkeypatch, *answers):
        self.answers, self.asked = list(answers), []
        monkeypatch.setattr(socket, "getaddrinfo", self)

    def __call__(self, host, port, *_, **__):
        self.asked.append((host, port))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [
            (socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in answer
        ]


def try_to_send(sender, recipient):
    phases = []
    message = Message(recipient=recipient, subject="s", text="t")
    outgoing = Outgoing(message=message, token="a" * 40, timeout=10.0, prepared_at=1.0, reached=phases.append)

    async def run():
        try:
            return await sender.send(outgoing)
        finally:
            await sender.close()

    try:
        return asyncio.run(run()), phases
    except Exception as error:  # noqa: BLE001 - what it raised is what is looked at
        return error, phases


@pytest.mark.parametrize("address", [each for each in PRIVATE if "%" not in each])
def test_a_name_that_leads_to_such_an_address_is_refused_before_anything_leaves(monkeypatch, address):
    Names(monkeypatch, [address])
    error, phases = try_to_send(Webhook(), "https://hooks.example/secret-path")
    assert phases == [Phase.BEFORE]
    failure = reprieve.classify(error)
    assert (failure.error_class, failure.retryable) == ("POLICY_REJECTED", False)
    assert "hooks.example" in str(error)
    assert "secret-path" not in str(error)


def test_one_such_address_among_others_is_enough(monkeypatch, flaky_https):
    Names(monkeypatch, ["8.8.8.8", "127.0.0.1"])
    error, phases = try_to_send(Webhook(), f"https://hooks.example:{flaky_https.port}/")
    assert (type(error), phases) == (reprieve.Permanent, [Phase.BEFORE])
    assert flaky_https.connections == 0


def test_a_name_is_resolved_once_and_what_was_checked_is_what_is_connected_to(monkeypatch, flaky_http):
    names = Names(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
    sent, _ = try_to_send(Webhook(allow_private=True), f"http://hooks.example:{flaky_http.port}/hook")
    assert sent == "a" * 40
    assert names.asked == [("hooks.example", flaky_http.port)]
    assert flaky_http.requests[0].headers["host"] == f"hooks.example:{flaky_http.port}"


def test_a_certificate_is_held_against_the_name_and_not_against_the_address(monkeypatch, flaky_https):
    Names(monkeypatch, ["127.0.0.1"])
    sender = Webhook(allow_private=True, ssl_context=trusting_context())
    error, phases = try_to_send(sender, f"https://hooks.example:{flaky_https.port}/")
    assert (reprieve.classify(error).error_class, phases) == ("TLS_INVALID", [Phase.BEFORE])
    sent, _ = try_to_send(sender, f"https://localhost:{flaky_https.port}/")
    assert sent == "a" * 40


def test_two_names_at_one_address_never_share_a_connection(monkeypatch):
    Names(monkeypatch, ["127.0.0.1"])
    with FlakyHTTP() as upstream:
        sender = Webhook(allow_private=True, takes_key=60.0)

        async def run():
            for host in ("one.example", "two.example", "one.example"):
                message = Message(recipient=f"http://{host}:{upstream.port}/", subject="s", text="t")
                await sender.send(
                    Outgoing(message=message, token="a", timeout=10.0, prepared_at=1.0, reached=lambda _: None)
                )
            await sender.close()

        asyncio.run(run())
        assert upstream.connections == 2


def test_an_address_that_does_not_answer_gives_way_to_the_next(monkeypatch, flaky_http):
    Names(monkeypatch, ["127.0.0.2", "127.0.0.1"])
    sent, phases = try_to_send(Webhook(allow_private=True), f"http://hooks.example:{flaky_http.port}/hook")
    assert (sent, phases) == ("a" * 40, [Phase.BEFORE, Phase.DURING])


def test_a_row_that_was_written_when_private_targets_were_allowed_is_refused_once_they_are_not(flaky_http):
    error, phases = try_to_send(Webhook(), flaky_http.url("/hook"))
    assert (type(error), phases) == (UsageError, [Phase.BEFORE])
    assert not reprieve.classify(error).retryable
    assert flaky_http.connections == 0
