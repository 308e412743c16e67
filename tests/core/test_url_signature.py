"""Pages of one kind have one signature, and pages of two kinds have two."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reprieve
from reprieve.core.url_signature import url_signature


@pytest.mark.parametrize(
    ("url", "signature"),
    [
        ("https://Shop.example:443/items/4711/reviews?page=2&sort=new", "shop.example/items/N/reviews?page&sort"),
        ("http://shop.example", "shop.example/"),
        ("http://shop.example/", "shop.example/"),
        ("http://shop.example:8080/a", "shop.example:8080/a"),
        ("https://user:secret@shop.example/a#top", "shop.example/a"),
        ("https://a.example/o/123e4567-e89b-12d3-a456-426614174000/edit", "a.example/o/UUID/edit"),
        ("https://a.example/blob/da39a3ee5e6b4b0d3255bfef95601890afd80709", "a.example/blob/HASH"),
        ("https://a.example/2024/05/17/some-title", "a.example/DATE/some-title"),
        ("https://a.example/2024/05/some-title", "a.example/DATE/some-title"),
        ("https://a.example/archive/2024-05-17", "a.example/archive/DATE"),
        ("https://a.example/watch/dQw4w9WgXcQaB12345", "a.example/watch/ID"),
        ("https://a.example/p/blue-shoes-42", "a.example/p/blue-shoes-N"),
        ("https://a.example/v2/users/7", "a.example/vN/users/N"),
        ("https://a.example/s?b=2&a=1&b=3&=x&utm_source=q", "a.example/s?a&b&utm_source"),
        ("https://a.example/de%2Fcaf%C3%A9", "a.example/de/café"),
        ("https://a.example//double///slash/", "a.example/double/slash"),
        ("https://a.example/deadbeefcafe", "a.example/deadbeefcafe"),
        ("https://[::1]:8000/x", "::1:8000/x"),
    ],
)
def test_a_url_has_the_shape_of_its_kind(url, signature):
    assert url_signature(url) == signature


@pytest.mark.parametrize("text", ["", "no url", "/only/a/path", "http://", "https://[broken", "http://a:port/"])
def test_what_is_no_url_is_refused(text):
    with pytest.raises(reprieve.UsageError):
        reprieve.url_signature(text)


@given(st.text(max_size=80), st.text(max_size=40))
def test_any_path_and_query_give_a_text_that_can_be_stored_and_holds_no_value(path, query):
    signature = url_signature(f"https://a.example/{path.replace('?', '').replace('#', '')}?q={query}")
    assert signature.startswith("a.example/")
    assert signature.isprintable()
    signature.encode()
    assert not any(each in "0123456789" for each in signature)
