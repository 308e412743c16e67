"""Messages as they travel: whole, the same every time, and with nothing in their head that came from outside."""

from __future__ import annotations

import random
import re
from email import message_from_bytes, policy
from email.header import decode_header, make_header
from email.utils import parseaddr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprieve.core.addresses import mailbox, one_line
from reprieve.core.mail import compose, message_id

OURS = [
    "From", "To", "Subject", "Date", "Message-ID", "MIME-Version", "Auto-Submitted", "Content-Type",
    "Content-Transfer-Encoding",
]  # fmt: skip


def composed(**changes):
    settings = {
        "sender": mailbox("Reviews <reviews@example.org>"), "recipient": "ada@example.org", "subject": "A review",
        "text": "All is well.", "html": None, "token": "0f" * 20, "prepared_at": 1_700_000_000.5,
    }  # fmt: skip
    return compose(**(settings | changes))


def read(content):
    return message_from_bytes(content, policy=policy.default)


def lines_of(text):
    return re.sub("\r\n|\r", "\n", text).removesuffix("\n")


def test_a_message_reads_as_it_was_written():
    message = read(composed(subject="Grüße aus Köln", text="Zeile eins\nZeile zwei\n", html="<p>eins</p>"))
    assert message["Subject"] == "Grüße aus Köln"
    assert message["From"].addresses[0].display_name == "Reviews"
    assert message["From"].addresses[0].addr_spec == "reviews@example.org"
    assert message["To"].addresses[0].addr_spec == "ada@example.org"
    assert message["Message-ID"] == f"<{'0f' * 20}@example.org>" == message_id("0f" * 20, mailbox("x@example.org"))
    assert message["Date"].datetime.timestamp() == 1_700_000_000
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "text/html"]
    assert lines_of(message.get_body(("plain",)).get_content()) == "Zeile eins\nZeile zwei"
    assert lines_of(message.get_body(("html",)).get_content()) == "<p>eins</p>"


def test_the_head_is_ours_alone():
    assert read(composed()).keys() == OURS


def test_plain_text_travels_as_it_is():
    assert composed(text="one\n.two\nFrom three").endswith(b"\r\n\r\none\r\n.two\r\nFrom three\r\n")


@pytest.mark.parametrize(
    "sender",
    [
        "reviews@example.org",
        '"Doe, Jane (QA) \\ <x>" <reviews@example.org>',
        "Jörg Müller <reviews@example.org>",
        f"{'漢' * 90} <reviews@example.org>",
        f"{'long name ' * 9} <reviews@{'sub.' * 40}example.org>",
        "=?utf-8?q?x?= <reviews@example.org>",
    ],
)
def test_a_senders_name_arrives_whole(sender):
    ours = mailbox(sender)
    # The older of the two readers: the newer keeps the gaps between encoded words of a name, which are no part of it.
    name, address = parseaddr(message_from_bytes(composed(sender=ours))["From"])
    assert (str(make_header(decode_header(name))), address) == (ours.name, ours.address)


@pytest.mark.parametrize(
    "hostile",
    [
        "x\r\nBcc: eve@example.org",
        "x\nBcc: eve@example.org",
        "x\rBcc: eve@example.org",
        "x\r\n\r\n<script>",
        "x\0y",
        "x\u2028Bcc: eve@example.org",
        "=?utf-8?q?x=0D=0ABcc:_eve@example.org?=",
        "=?utf-8?b?eA0KQmNjOiBldmVAZXhhbXBsZS5vcmc=?=",
        "\r\n" * 50 + "Bcc: eve@example.org",
        "x" * 5000,
        "é" * 5000,
        " " * 5000 + "x",
        "\ud800\udfff",
    ],
)
def test_nothing_from_outside_gets_out_of_its_place(hostile):
    content = composed(
        subject=hostile,
        text=hostile,
        html=hostile,
        token=hostile[:40],
        sender=mailbox(f"{hostile[:200]} <r@example.org>"),
    )
    head = content.partition(b"\r\n\r\n")[0]
    assert [line.partition(b":")[0].decode() for line in head.split(b"\r\n") if not line.startswith(b" ")] == OURS[:-1]
    message = read(content)
    assert message["Subject"] == one_line(hostile, longest=250)
    assert message["Bcc"] is None
    assert len(message["Subject"]) <= 250
    assert b"\0" not in content
    assert not re.search(rb"\r(?!\n)|(?<!\r)\n", content)


def test_a_text_cannot_end_its_own_part():
    boundary = read(composed(html="<p>")).get_boundary()
    text = f"--{boundary}--\n\n--{boundary}\nContent-Type: text/html\n\n<script>"
    message = read(composed(text=text, html="<p>"))
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "text/html"]
    assert lines_of(message.get_body(("plain",)).get_content()) == text


def texts(draw):
    blocks = [(32, 126), (0xA0, 0x24F), (0x300, 0x36F), (0x400, 0x4FF), (0x2000, 0x206F), (0x4E00, 0x9FFF), (0x1F300, 0x1F9FF), (1, 31)]  # fmt: skip
    chosen = [draw.choice(blocks) for _ in range(3)]
    return "".join(chr(draw.randint(*draw.choice(chosen))) for _ in range(draw.randrange(300)))


def test_a_thousand_random_subjects_and_bodies_arrive_as_they_were():
    draw = random.Random(20)
    for _ in range(1000):
        subject, text = texts(draw), texts(draw) + "\n" * draw.randrange(3) + texts(draw)
        content = composed(subject=subject, text=text)
        message = read(content)
        assert message["Subject"] == one_line(subject, longest=250)
        assert lines_of(message.get_content()) == lines_of(text)
        head, _, body = content.partition(b"\r\n\r\n")
        assert max(map(len, head.split(b"\r\n"))) <= 78
        assert max(map(len, body.split(b"\r\n"))) <= 990
        assert content.isascii()
        assert not re.search(rb"\r(?!\n)|(?<!\r)\n|\0", content)


@given(st.text(max_size=60), st.text(max_size=60), st.none() | st.text(max_size=60), st.text(min_size=1, max_size=50))
def test_any_text_makes_a_message_and_always_the_same(subject, text, html, token):
    first = composed(subject=subject, text=text, html=html, token=token)
    assert first == composed(subject=subject, text=text, html=html, token=token)
    assert not read(first).defects
    assert read(first)["Message-ID"].isascii()


def test_a_long_line_does_not_stay_one():
    content = composed(text="word " * 1000)
    assert max(map(len, content.split(b"\r\n"))) <= 78
    assert lines_of(read(content).get_content()) == "word " * 1000
