"""Puts every kind of secret into every kind of text that can carry it."""

import re
from collections.abc import Iterator

from redaction_audit import frames, keyed, snippets, vendors
from redaction_audit.draw import Draw
from redaction_audit.plants import Plant, settled

_CARRIERS = (
    "{}",
    "the upstream refused {}",
    "Incorrect API key provided: {}.",
    "retrying with {} after 401",
    "leaked ({}), rotate it",
    "value={}",
    "using '{}' for project 42",
    'found "{}" in config',
    "<{}>",
    "[{}]",
    "token {}, scope repo",
    "https://api.example.com/v1/run?key={}&x=1",
    "Bearer {}",
    "auth: {}",
    "The key is {}. Try again.",
)
_PER_VENDOR = 8
_PER_SNIPPET = 9
_PER_NOTATION = 22
_PER_PEM = 6
_PLAIN = re.compile(r"[\w.~/+=!-]+")


def planted_secrets(seed: int) -> Iterator[Plant]:
    """All of them; the same for the same seed."""
    draw = Draw(seed)
    yield from _vendor_plants(draw)
    for group, makers, choices in (
        ("command", snippets.COMMANDS, frames.COMMAND_FRAMES),
        ("header", snippets.HEADERS, frames.HEADER_FRAMES),
        ("address", snippets.URLS, frames.ADDRESS_FRAMES),
        ("message", snippets.MESSAGES, frames.LINE_FRAMES),
        ("file", snippets.FILES, frames.BLOCK_FRAMES),
    ):
        for name, make in makers.items():
            yield from _snippet_plants(draw, f"{group}:{name}", make, choices)
    yield from _keyed_plants(draw)
    yield from _escaped_passwords(draw)
    yield from _pem_plants(draw)
    yield from _jwt_plants(draw)


def _vendor_plants(draw: Draw) -> Iterator[Plant]:
    for kind in vendors.TEMPLATES:
        choices = draw.sample(sorted(frames.LINE_FRAMES.items()), _PER_VENDOR)
        for name, frame in choices:
            key = vendors.vendor_key(draw, kind)
            carrier = draw.choice(_CARRIERS[:10] if key.startswith("https:") or " " in key else _CARRIERS)
            text, keep = frame(draw, carrier.format(key))
            yield Plant(f"vendor:{kind}", f"{name} {carrier}", text, (vendors.secret_part(kind, key),), keep)


def _snippet_plants(draw: Draw, kind: str, make: snippets.Maker, choices: dict[str, frames.Frame]) -> Iterator[Plant]:
    quoted = any(sign in make(draw)[0] for sign in "'\"")
    if kind.startswith("address:query") or kind.endswith(("presigned", "signed", "sas")):
        choices = frames.QUERY_FRAMES
    usable = [(name, frame) for name, frame in sorted(choices.items()) if not (quoted and name == "argv")]
    for name, frame in draw.sample(usable, min(_PER_SNIPPET, len(usable))):

        def plant(name: str = name, frame: frames.Frame = frame) -> Plant:
            line, secret = make(draw)
            text, keep = frame(draw, line)
            return Plant(kind, name, text, (secret,), keep)

        yield settled(plant)


def _keyed_plants(draw: Draw) -> Iterator[Plant]:
    bare = keyed.PLAIN_VALUE_ONLY | {"query", "form"}
    for notation, write in keyed.NOTATIONS.items():
        for name in draw.sample(keyed.NAMES, _PER_NOTATION):

            def plant(notation: str = notation, name: str = name, write: keyed.Notation = write) -> Plant:
                value = keyed.value_for(draw, name)
                while notation in bare and not _PLAIN.fullmatch(value):
                    value = keyed.value_for(draw, name)
                line = write(draw, name, value)
                choices = frames.BLOCK_FRAMES if "\n" in line else frames.LINE_FRAMES
                frame = draw.choice(sorted(choices)) if draw.random() < 0.6 else "raw"
                text, keep = choices[frame](draw, line)
                return Plant(f"keyed:{notation}", f"{frame} {name}", text, (value,), keep)

            yield settled(plant)


def _escaped_passwords(draw: Draw) -> Iterator[Plant]:
    for notation in ("json", "dict-repr", "dataclass-repr", "python-call", "json-nested", "python-assign"):
        for frame in ("raw", "json-1", "json-2", "json-3", "traceback-source", "bytes-repr", "log"):

            def plant(notation: str = notation, frame: str = frame) -> Plant:
                name, value = draw.choice(("password", "dbPassword", "client_secret")), draw.quoted_password()
                line = keyed.NOTATIONS[notation](draw, name, value)
                text, keep = frames.LINE_FRAMES[frame](draw, line)
                return Plant(f"escaped:{notation}", frame, text, (value,), keep)

            yield settled(plant)


def _pem_plants(draw: Draw) -> Iterator[Plant]:
    for label in ("RSA PRIVATE", "PRIVATE", "EC PRIVATE", "OPENSSH PRIVATE", "ENCRYPTED PRIVATE"):
        for form in ("block", "json-field", "truncated", "truncated-field"):
            for name, frame in draw.sample(sorted(frames.BLOCK_FRAMES.items()), _PER_PEM):
                lines = [
                    "MIIE" + draw.some("b", 60),
                    *(draw.some("b", 64) for _ in range(5)),
                    draw.some("b", 30) + "==",
                ]
                start, end = (f"-----{word} {label} KEY-----" for word in ("BEGIN", "END"))
                if form.startswith("truncated"):
                    lines = [*lines[:3], lines[3][:40]]
                    end = "..." if draw.random() < 0.5 else ""
                block = "\n".join([start, *lines, end]).rstrip("\n")
                if form.endswith("field"):
                    escaped = block.replace("\n", "\\n")
                    block = f'{{"type": "service_account", "private_key": "{escaped}'
                    block += "" if form == "truncated-field" else '\\n", "client_id": "1234"}'
                text, keep = frame(draw, block)
                # What follows a key that never ends cannot be told from the key.
                keep = tuple(word for word in keep if text.index(word) < text.index(lines[0]))
                yield Plant(f"pem:{form}", f"{name} {label}", text, tuple(lines), keep)


def _jwt_plants(draw: Draw) -> Iterator[Plant]:
    for name, frame in sorted(frames.LINE_FRAMES.items()):
        for carrier in draw.sample(_CARRIERS, 2):
            token = draw.jwt()
            text, keep = frame(draw, carrier.format(token))
            yield Plant("jwt", f"{name} {carrier}", text, (token,), keep)
