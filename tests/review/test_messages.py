"""What people get to read: nothing from outside is trusted in it."""

import asyncio
from email import policy
from email.parser import BytesParser

from reprieve.review.asking import Finding, Review, Severity

from reprieve.review.diffs import LeftOut
from reprieve.review.fetching import Diff
from reprieve.review.messages import clean, messages_of
from reprieve.senders import Maildir, Outgoing

EVIL = "<script>alert(1)</script>\"'&\r\nBcc: all@example.org\x1b[31m\u202egnp.exe\0"


def messages(**values):
    diff = Diff(
        title=values.get("title", "A change"),
        files=(),
        left_out=LeftOut(binary=1, generated=2),
        recipients=("mailto:ada@example.org",),
        unknown=0,
    )
    review = Review(
        summary=values.get("summary", "Fine."), severity=values.get("severity", Severity.NONE), findings=values.get("findings", ()),
        dropped=values.get("dropped", 0), parts=1, model=values.get("model", "openai:gpt"),
    )  # fmt: skip
    return messages_of("shop:1", 3, diff, review)


def test_everything_from_outside_is_escaped_and_without_signs_that_nobody_sees(tmp_path):
    finding = Finding(file=EVIL, line=3, comment=EVIL)
    (message,) = messages(title=EVIL, summary=EVIL, findings=(finding,), severity=Severity.HIGH, model=EVIL)
    assert "<script" not in message.html
    assert "&lt;script&gt;" in message.html
    for text in (message.subject, message.text, message.html):
        assert not set("\x1b\u202e\0\r") & set(text)
    assert "\n" not in message.subject
    outgoing = Outgoing(message=message, token="a" * 40, timeout=10.0, prepared_at=0.0, reached=lambda _: None)
    asyncio.run(Maildir(tmp_path).send(outgoing))
    (file,) = tmp_path.glob("*/new/*")
    mail = BytesParser(policy=policy.default).parsebytes(file.read_bytes())
    assert mail["bcc"] is None
    assert mail["to"] == "ada@example.org"
    assert {part.get_content_type() for part in mail.walk()} >= {"text/plain", "text/html"}


def test_a_mail_says_what_was_found_where_and_how_it_came_about():
    finding = Finding(file="shop/cart.py", line=2, comment="Shared by all.")
    (message,) = messages(findings=(finding,), severity=Severity.HIGH, dropped=2, model="local:small.gguf")
    assert message.subject == "Review of A change: 1 finding, high"
    assert "shop/cart.py:2\n    Shared by all." in message.text
    for note in ("checked by nobody", "try the pipeline", "1 binary, 2 generated", "2 findings that point outside"):
        assert note in message.text
    assert message.data["findings"] == [{"file": "shop/cart.py", "line": 2, "comment": "Shared by all."}]
    assert (message.data["changelist_id"], message.data["review_version"]) == ("shop:1", 3)


def test_the_same_review_is_the_same_message():
    assert messages() == messages()
    assert clean("a\u200b\tb\n c") == "a b c"
