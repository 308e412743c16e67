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
        ("https://a.example/s?b=2&a=1&b=3&=x&utm_source=q", "a.example/s?a&b"),
        ("https://a.example/de%2Fcaf%C3%A9", "a.example/de/café"),
        ("https://a.example//double///slash/", "a.example/double/slash"),
        ("https://a.example/deadbeefcafe", "a.example/deadbeefcafe"),
        ("https://[::1]:8000/x", "::1:8000/x"),
        ("https://a.example/p/blue-shoes-B08N5WRWNW", "a.example/p/blue-shoes-ID"),
        ("https://a.example/iphone-15-pro", "a.example/iphone-N-pro"),
        ("https://a.example/Windows-11-Release-Notes", "a.example/Windows-N-Release-Notes"),
        ("https://a.example/customers/cus_NffrFeUfNV2Hib", "a.example/customers/cus_ID"),
        ("https://a.example/static/app.3f2a9c1b.js", "a.example/static/app.ID.js"),
        ("https://a.example/docs/v3.2.1/install.html", "a.example/docs/vN.N.N/install.html"),
        ("https://a.example/img/IMG_20240517_101500.jpg", "a.example/img/IMG_DATE_N.jpg"),
        ("https://a.example/user/ada%40example.org/edit", "a.example/user/EMAIL/edit"),
        ("https://a.example/s?ada%40example.org", "a.example/s?EMAIL"),
        ("https://a.example/react@18.2.0/react.js", "a.example/react@N.N.N/react.js"),
        ("https://a.example/package/@babel/core", "a.example/package/@babel/core"),
        ("https://a.example/show.jsp;jsessionid=1A2B3C4D5E6F;view=x", "a.example/show.jsp;view"),
        ("https://xn--bcher-kva.example/a", "bücher.example/a"),
        ("https://xn--a-\u00fc.example/a", "xn--a-ü.example/a"),
    ],
)
def test_a_url_has_the_shape_of_its_kind(url, signature):
    assert url_signature(url) == signature


ONE_KIND = [
    ["a.example/dp/B08N5WRWNW", "a.example/dp/B0CHX1W1XY", "a.example/dp/B000FA64PK", "a.example/dp/B00ABCDEFG"],
    ["a.example/watch/dQw4w9WgXcQ", "a.example/watch/jNQXAC9IVRw", "a.example/watch/oHg5SJYRHA0"],
    ["a.example/p/CxYzAbCdEfG/", "a.example/p/BqRsTuVwXyZ"],
    ["a.example/3xYz9Ab", "a.example/7kLm2Np"],
    ["a.example/d/1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms", "a.example/d/Ab3dE-xY9_kLmN2opQrStuV7wX-1z"],
    ["a.example/01ARZ3NDEKTSV4RRFFQ69G5FAV", "a.example/01BX5ZZKBKACTAV9WEVGEMMVRZ"],
    ["a.example/commit/a1b2c3d", "a.example/commit/9f8e7d6", "a.example/commit/3f2a9c1b"],
    ["a.example/blob/da39a3ee5e6b4b0d3255bfef95601890afd80709", "a.example/blob/ab20240517cd34ef"],
    ["a.example/status/17", "a.example/status/1234567890123456789"],
    ["a.example/u/ada@example.org", "a.example/u/grace.hopper%2Bx%40mail.example.co.uk", "a.example/u/x%2540b%C3%BCcher.example"],
    ["a.example/q8m3z7k1w5/" + "x" * 60, "a.example/k3j9x2ab4c/" + "y" * 900],
    ["a.example/reset/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N", "a.example/reset/eyJ0eXAi.e30.a-b_c"],
    ["a.example/confirm/IjEiAb9.ZkQ3xw.x8fJ29aLmQ0", "a.example/confirm/IjIiXy7.ZkR4yz.b7Tq31kPwE5"],
    ["a.example/p?page=1", "a.example/p?page=2&utm_source=x&UTM_Medium=y&gclid=1&fbclid=2&msclkid=3&mc_eid=4&_ga=5"],
    ["a.example/p", "a.example/p?utm_campaign=x", "a.example/p;jsessionid=0A1B2C3D"],
    ["b\u00fccher.example/a", "xn--bcher-kva.example/a", "XN--BCHER-KVA.example/a", "B\u00dcCHER\u3002example/a"],
    ["stra\u00dfe.example/", "xn--strae-oqa.example/"],
    ["a.example/blue-shoes-42", "a.example/blue-shoes-7"],
    ["a.example/items/0193e4c8-7a3b-7c1d-8e9f-0a1b2c3d4e5f", "a.example/items/123E4567-E89B-12D3-A456-426614174000"],
    ["a.example/2024/05/17/x", "a.example/2023/11/2/x"],
]  # fmt: skip
SEVERAL_KINDS = [
    ["a.example/cart", "a.example/login", "a.example/about-us", "a.example/"],
    ["a.example/dp/B08N5WRWNW", "a.example/reviews/B08N5WRWNW", "a.example/dp/B08N5WRWNW/reviews"],
    ["a.example/en-US/docs", "a.example/pt-BR/docs", "a.example/pt_BR/docs", "a.example/zh-Hans/docs", "a.example/de/docs"],
    ["a.example/wiki/JavaScript", "a.example/wiki/LaTeX", "a.example/wiki/PostgreSQL", "a.example/wiki/McDonaldsUSA"],
    ["a.example/api/getUserByIDAndName", "a.example/api/listUsersByTeam"],
    ["a.example/MacBookPro16", "a.example/iPhone15ProMax", "a.example/GalaxyS23Ultra", "a.example/Windows10Update"],
    ["a.example/iphone-15-pro", "a.example/iphone-15", "a.example/pixel-8-pro"],
    ["a.example/mp4tomp3", "a.example/win32x64", "a.example/utf8mb4", "a.example/log4j2", "a.example/i18n", "a.example/h264"],
    ["a.example/COVID19VACCINE", "a.example/ISO27001AUDIT", "a.example/RFC2616", "a.example/SKU12345"],
    ["a.example/covid19vaccine2021update", "a.example/web2print4business"],
    ["a.example/Donaudampfschifffahrtsgesellschaft", "a.example/Rindfleischetikettierung"],
    ["a.example/index.html", "a.example/index.php", "a.example/feed.xml", "a.example/robots.txt", "a.example/song.mp3"],
    ["a.example/B08N5WRWNW.html", "a.example/B08N5WRWNW.jpg", "a.example/B08N5WRWNW"],
    ["a.example/v2/users", "a.example/v2/orders", "a.example/users"],
    ["a.example/My-2-Cents-On-V-8-Engines", "a.example/My-9-Tips-For-V-8-Owners"],
    ["a.example/how-to-read-a-very-long-title-that-has-more-than-forty-eight-letters", "a.example/how-to-write-one"],
    ["a.example/u/ada@example.org", "a.example/u/settings", "a.example/u/@ada"],
    ["a.example/p?page=1", "a.example/p?q=x", "a.example/p?page=1&q=x", "a.example/p"],
    ["a.example/p?ref=x", "a.example/p?id=1", "a.example/p?source=x", "a.example/p?sid=1"],
    ["a.example/", "b.example/", "www.a.example/", "a.example:8080/", "\u00e4.example/"],
    ["a.example/caf%C3%A9", "a.example/th%C3%A9"],
]  # fmt: skip


@pytest.mark.parametrize("urls", ONE_KIND, ids=lambda urls: urls[0][:40])
def test_pages_of_one_kind_have_one_signature(urls):
    assert len({url_signature(f"https://{url}") for url in urls}) == 1


@pytest.mark.parametrize("urls", SEVERAL_KINDS, ids=lambda urls: urls[0][:40])
def test_pages_of_several_kinds_have_several(urls):
    assert len({url_signature(f"https://{url}") for url in urls}) == len(urls)


def test_what_was_masked_is_masked_again_to_the_same():
    for url in (url for urls in (*ONE_KIND, *SEVERAL_KINDS) for url in urls):
        signature = url_signature(f"https://{url}")
        assert url_signature(f"https://{signature}") == signature


@pytest.mark.parametrize(
    "piece",
    ["a", "A", "aA", "1a", "a-", "@", "@a.", "a@", ".", "eyJ.", "f", "0f", "%", "xn--", ";", ";a=", "2024/", "T1:", "&a", "/"],
)  # fmt: skip
@pytest.mark.parametrize("before", ["https://", "https://a.example/", "https://a.example/?"])
def test_the_work_grows_with_the_length_alone(piece, before):
    """What a backtracking pattern would take hours for is over; how fast does not matter."""
    try:
        assert len(url_signature(before + "x." + piece * (400_000 // len(piece)))) <= 500
    except reprieve.UsageError:
        assert before == "https://", "only a host can be none"


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
