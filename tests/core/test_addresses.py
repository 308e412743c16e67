"""Mail addresses in their one normal form, and header values that stay in their header."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprieve.core.addresses import Mailbox, address_of, mailbox, mailto, one_line
from reprieve.errors import UsageError


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("ada@example.org", "ada@example.org"),
        ("mailto:ada@example.org", "ada@example.org"),
        ("MAILTO:Ada@EXAMPLE.Org", "ada@example.org"),
        (" mailto:ada@example.org ", "ada@example.org"),
        ("mailto:ada%2Breviews@example.org", "ada+reviews@example.org"),
        ("mailto:ada+reviews@example.org", "ada+reviews@example.org"),
        ("mailto:50%25@example.org", "50%@example.org"),
        ("root@localhost", "root@localhost"),
        ("o'brien/x=y@example.org", "o'brien/x=y@example.org"),
        ("ada@EXÄMPLE.de", "ada@xn--exmple-cua.de"),
        ("ada@xn--exmple-cua.de", "ada@xn--exmple-cua.de"),
        ("ada@\uff45xample\u3002org", "ada@example.org"),
        ("Jörg@example.org", "jörg@example.org"),
        ("jo\u0308rg@example.org", "jörg@example.org"),
    ],
)
def test_an_address_has_one_normal_form(given, normal):
    assert address_of(given) == normal


@pytest.mark.parametrize(
    "address",
    [
        "",
        "@",
        "ada",
        "ada@",
        "@example.org",
        "ada@@example.org",
        "ada lovelace@example.org",
        '"ada lovelace"@example.org',
        "Ada <ada@example.org>",
        "ada@example.org, eve@example.org",
        "ada@example.org;eve@example.org",
        "ada..l@example.org",
        ".ada@example.org",
        "ada.@example.org",
        "ada@example..org",
        "ada@example.org.",
        "ada@-example.org",
        "ada@exa_mple.org",
        "ada@127.0.0.1",
        "ada@[127.0.0.1]",
        "ada@[IPv6:::1]",
        "ada@exa mple.org",
        "ada@example.org/../etc",
        "ada@faß.de",
        "ada@\u2100.org",
        f"{'a' * 65}@example.org",
        f"ada@{'a' * 64}.org",
        f"ada@{'a.' * 130}org",
        f"{'ä' * 40}@example.org",
        "mailto:ada@example.org?bcc=eve@example.org",
        "mailto:ada@example.org?subject=x",
        "https://example.org/@ada",
        "slack:ada@example.org?",
        "ada@example.org\r\nBcc: eve@example.org",
        "ada@example.org\n",
        "ada\r\nDATA\r\n@example.org",
        "mailto:ada%0d%0aBcc:eve@example.org",
        "mailto:ada%00@example.org",
        "ada\0@example.org",
        "ada> SIZE=1@example.org",
        "<ada@example.org>",
        "ada\u200b@example.org",
        "ada\u202e@example.org",
        "ada@exam\u00adple.org",
        "ada\u2028@example.org",
        "ada\ud800@example.org",
        "mailto:%ff@example.org",
    ],
)
def test_what_is_no_address_is_refused_and_not_repeated(address):
    with pytest.raises(UsageError) as refused:
        address_of(address)
    assert len(address) < 12 or address not in str(refused.value)
    assert "\r" not in str(refused.value)


@given(st.text(max_size=40))
def test_any_text_is_an_address_that_stays_what_it_is_or_a_usage_error(text):
    for candidate in (text, f"{text}@example.org", f"ada@{text}", f"mailto:{text}@{text}"):
        try:
            address = address_of(candidate)
        except UsageError:
            continue
        assert address_of(address) == address
        assert address_of(mailto(address)) == address
        assert address.count("@") == 1
        assert not set(address) & set('\r\n\0 <>"(),:;[]\\')
        address.rpartition("@")[2].encode("ascii")


@pytest.mark.parametrize(
    ("address", "uri"),
    [
        ("ada@example.org", "mailto:ada@example.org"),
        ("ada+x@example.org", "mailto:ada+x@example.org"),
        ("50%@example.org", "mailto:50%25@example.org"),
        ("a/b?c#d&e=f@example.org", "mailto:a%2Fb%3Fc%23d%26e%3Df@example.org"),
        ("jörg@example.org", "mailto:jörg@example.org"),
    ],
)
def test_an_address_is_kept_as_a_uri(address, uri):
    assert mailto(address) == uri
    assert address_of(uri) == address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("reviews@example.org", Mailbox("reviews@example.org")),
        ("Reviews <Reviews@Example.org>", Mailbox("reviews@example.org", "Reviews")),
        ('"Doe, Jane" <jane@example.org>', Mailbox("jane@example.org", "Doe, Jane")),
        ("Jörg\r\nBcc: eve@example.org <j@example.org>", Mailbox("j@example.org", "Jörg Bcc: eve@example.org")),
    ],
)
def test_a_sender_has_a_name_and_an_address(text, expected):
    assert mailbox(text) == expected


@pytest.mark.parametrize(
    "text", ["Reviews", "Reviews <reviews@example.org", "Reviews <>", "Reviews <a@b> x", "<a@b\n>"]
)
def test_a_sender_that_is_none_is_refused(text):
    with pytest.raises(UsageError):
        mailbox(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain", "plain"),
        ("  padded  ", "padded"),
        ("two\r\nlines", "two lines"),
        ("a\0b\x1fc\x7fd\x85e\u2028f\u2029g", "a b c d e f g"),
        ("\ud83d\ude00 whole", "😀 whole"),
        ("half \ud83d of one", "half \ufffd of one"),
        ("x" * 30, "x" * 9 + "…"),
    ],
)
def test_a_header_value_is_one_line(text, line):
    assert one_line(text, longest=10 if len(text) == 30 else 100) == line
