"""Nested values made safe to show: names decide, then what the values hold; bounded in depth, width and length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from reprieve.core.redact.chat import Near, Voice, ordinary, voice_of
from reprieve.core.redact.engine import scan
from reprieve.core.redact.judge import harmless, telling
from reprieve.core.redact.keys import Kind, kind_of
from reprieve.core.redact.names import words
from reprieve.core.redact.report import RedactionReport
from reprieve.core.redact.secrets import NONE
from reprieve.core.redact.structure import RULES
from reprieve.core.redact.values import Value

if TYPE_CHECKING:
    from reprieve.core.redact.secrets import Secrets

DEPTH: Final = 16
WIDTH: Final = 1000
LENGTH: Final = 10_000

_SURE: Final = (Kind.PASSWORD, Kind.TOKEN, Kind.HEADER, Kind.PHRASE)
_CHAT_SIGNS: Final = frozenset(("role", "messages", "choices", "candidates", "parts"))
_HINTS: Final = frozenset(
    ("model", "finish_reason", "stop_reason", "max_tokens", "prompt", "tool_calls", "instructions")
)
_CHAT_FACTS: Final = frozenset(
    words("""
    type role id name model index finish_reason stop_reason object created created_at status tool_call_id tool_use_id
    media_type call_id usage logprobs temperature max_tokens stream
    """)
)


class _Place(StrEnum):
    """Where in a payload a value stands."""

    ELSEWHERE = "elsewhere"
    HINTED = "hinted"
    """Near a model or a limit of tokens: weak names count, unless what they hold is a file or a state."""
    CHAT = "chat"
    """Near a role or messages: weak names count."""
    SAID = "said"
    """Under a prompt or a content: every string counts."""


@dataclass(slots=True)
class _Walk:
    """One call: what is known, what was found, and the containers that are open."""

    secrets: Secrets
    report: RedactionReport
    addresses: bool
    open: set[int] = field(default_factory=set)

    def text(self, text: str) -> str:
        """A string, scanned and then cut."""
        clean, counts = scan(text, self.secrets, addresses=self.addresses)
        self.report.add(counts)
        return clean if len(clean) <= LENGTH else f"{clean[:LENGTH]}... [{len(clean) - LENGTH} more characters]"

    def marker(self, rule: str) -> str:
        """Say that a value was taken out whole."""
        self.report.add(((rule, 1),))
        return f"[redacted:{rule}]"


def redact_mapping(
    mapping: Mapping[object, object],
    *,
    secrets: Secrets = NONE,
    report: RedactionReport | None = None,
    addresses: bool = False,
) -> dict[str, object]:
    """The same mapping in plain values, without secrets, people's data and prompts; odd values are shown as text."""
    walk = _Walk(secrets, RedactionReport() if report is None else report, addresses)
    return _mapping(walk, mapping, 0, _Place.ELSEWHERE)


def _mapping(walk: _Walk, mapping: Mapping[object, object], depth: int, place: _Place) -> dict[str, object]:
    result: dict[str, object] = {}
    walk.open.add(id(mapping))
    try:
        place = _raised(place, frozenset(key for key in mapping if isinstance(key, str)))
        described = _described(mapping)
        for count, (key, value) in enumerate(mapping.items()):
            if count >= WIDTH:
                result["..."] = f"[{len(mapping) - WIDTH} more]"
                break
            name = _shown(walk, key) if not isinstance(key, str) else key
            under = described if described is not None and name == "value" else name
            result[walk.text(name)] = _member(walk, under, value, depth, place)
    except Exception as exc:  # noqa: BLE001 - a mapping of someone's own may raise anything at all
        result["..."] = f"[unreadable: {type(exc).__name__}]"
    finally:
        walk.open.discard(id(mapping))
    return result


def _raised(place: _Place, keys: frozenset[str]) -> _Place:
    """What the names of a mapping say about the place that it is."""
    if place in (_Place.ELSEWHERE, _Place.HINTED) and not _CHAT_SIGNS.isdisjoint(keys):
        return _Place.CHAT
    return _Place.HINTED if place is _Place.ELSEWHERE and not _HINTS.isdisjoint(keys) else place


def _described(mapping: Mapping[object, object]) -> str | None:
    """The name that `{"name": ..., "value": ...}` gives to its value."""
    for field_name in ("name", "key", "header"):
        name = mapping.get(field_name)
        if isinstance(name, str) and "value" in mapping:
            return name
    return None


def _member(walk: _Walk, name: str, value: object, depth: int, place: _Place) -> object:
    kind = kind_of(name.encode("utf-8", "surrogatepass")[-200:])
    if kind is not None:
        rule = _taken_out(name, kind, value)
        if rule is not None:
            return walk.marker(rule)
    voice = voice_of(name.encode("utf-8", "surrogatepass")[-200:])
    weak = place is not _Place.ELSEWHERE and voice is Voice.WEAK
    if weak and place is _Place.HINTED and isinstance(value, str | bytes | bytearray):
        weak = not ordinary(_bytes(value), voice, Near.HINT, name.encode("utf-8", "surrogatepass"))
    spoken = voice in (Voice.SURE, Voice.PLAIN) or weak or (place is _Place.SAID and name not in _CHAT_FACTS)
    if spoken and isinstance(value, str | bytes | bytearray):
        return walk.marker("chat") if value and not harmless(_bytes(value)) else walk.text(_text(value))
    listed = kind in (Kind.PASSWORD, Kind.TOKEN, Kind.PHRASE, Kind.HEADER) and isinstance(value, list | tuple | set)
    if listed and isinstance(value, list | tuple | set):
        return [_member(walk, name, item, depth + 1, place) for item in list(value)[:WIDTH]]
    below = _Place.CHAT if place is _Place.SAID else place
    return _value(walk, value, depth + 1, _Place.SAID if spoken else below)


def _taken_out(name: str, kind: Kind, value: object) -> str | None:
    """The rule by which a value under this name goes whole."""
    match value:
        case bool() | None:
            return None
        case int() | float():
            if kind in (Kind.PASSWORD, Kind.PERSON) and len(str(value)) > 2:  # noqa: PLR2004 - no pin is shorter
                return RULES[kind]
            return None
        case str() | bytes() | bytearray():
            return RULES[kind] if _is_secret(name, kind, _bytes(value)) else None
        case _:
            return None


def _is_secret(name: str, kind: Kind, raw: bytes) -> bool:
    if kind in _SURE and _is_word(raw):
        return True
    if kind in (Kind.HEADER, Kind.PHRASE):
        return not harmless(raw)
    return telling(raw, 0, name.encode(errors="replace"), kind, Value(0, len(raw), quoted=True))


def _is_word(raw: bytes) -> bool:
    """Whether a value is one word: under a sure name that is a secret, however weak; a sentence may be about one."""
    return bool(raw.strip(b"*.")) and not raw.startswith(b"[redacted:") and len(raw.split()) == 1


def _bytes(value: str | bytes | bytearray) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)


def _text(value: str | bytes | bytearray) -> str:
    return value if isinstance(value, str) else bytes(value).decode("utf-8", "replace")


def _value(walk: _Walk, value: object, depth: int, place: _Place) -> object:  # noqa: PLR0911 - one a type
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return walk.marker("chat") if place is _Place.SAID and not harmless(_bytes(value)) else walk.text(value)
        case bytes() | bytearray():
            return _value(walk, _text(value), depth, place)
        case Mapping() | Sequence() | AbstractSet() if id(value) in walk.open:
            return "[cycle]"
        case Mapping() | Sequence() | AbstractSet() if depth >= DEPTH:
            return "[too deep]"
        case Mapping():
            return _mapping(walk, value, depth, place)
        case Sequence() | AbstractSet():
            return _items(walk, value, depth, place)
        case _:
            return _shown(walk, value)


def _items(walk: _Walk, items: Sequence[object] | AbstractSet[object], depth: int, place: _Place) -> list[object]:
    result: list[object] = []
    walk.open.add(id(items))
    try:
        pair = _pair(items)
        if pair is not None:
            return [walk.text(pair[0]), _member(walk, pair[0], pair[1], depth, place)]
        for count, item in enumerate(items):
            if count >= WIDTH:
                result.append(f"[{len(items) - WIDTH} more]")
                break
            result.append(_value(walk, item, depth + 1, place))
    except Exception as exc:  # noqa: BLE001 - a sequence of someone's own may raise anything at all
        result.append(f"[unreadable: {type(exc).__name__}]")
    finally:
        walk.open.discard(id(items))
    return result


_PAIR_LENGTH: Final = 2


def _pair(items: Sequence[object] | AbstractSet[object]) -> tuple[str, object] | None:
    """A header or parameter as a pair: `("Authorization", "Bearer ...")`."""
    if not isinstance(items, list | tuple) or len(items) != _PAIR_LENGTH:
        return None
    name, value = items
    if not isinstance(name, str | bytes) or not isinstance(value, str | bytes) or kind_of(_bytes(name)[-200:]) is None:
        return None
    return _text(name), value


def _shown(walk: _Walk, value: object) -> str:
    """Anything else as its repr, scanned; what cannot even be shown is named by its type."""
    try:
        text = str(value) if isinstance(value, str) else repr(value)
    except Exception as exc:  # noqa: BLE001 - a repr of someone's own may raise anything at all
        return f"[{type(value).__name__}: unreadable, {type(exc).__name__}]"
    return walk.text(text)
