"""A message of a stream: what the handler may take, how its body is parsed, and its byte-exact encoding.

Redis gives the fields of an entry as a flat list `[name, value, name, value, ...]` of bytes. A name can occur twice and
a value can be any bytes. The list is kept as it is.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any, Final

from reprieve.errors import PayloadError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reprieve.streams.history import MessageHistory

Fields = list[bytes]
"""The fields of an entry: name, value, name, value, ..."""
_BASE64: Final = "base64"


class StreamMessage:
    """One delivery of a message.

    `key` is the same for every delivery and every replay: use it to make the handler's effects idempotent.
    """

    __slots__ = ("deliveries", "fields", "group", "history", "message_id", "queue")

    def __init__(
        self,
        queue: str,
        group: str,
        message_id: bytes,
        fields: Fields,
        deliveries: int = 1,
        history: MessageHistory | None = None,
    ) -> None:
        self.queue, self.group = queue, group
        self.message_id = message_id
        """The entry's id as Redis sent it."""
        self.fields = fields
        """The entry's fields as Redis sent them."""
        self.deliveries = deliveries
        """How often Redis has delivered it to this group: the fence of every decision about it."""
        self.history = history
        """What is known of earlier failures; None if it was not read or never failed."""

    @property
    def id(self) -> str:
        """The id of the stream entry, as `1795030522774-0`."""
        return self.message_id.decode()

    @property
    def attempt(self) -> int:
        """The number of this attempt within the handler's budget, from 1."""
        return 1 if self.history is None else self.history.handler + 1

    @property
    def key(self) -> str:
        """`queue:id` of the original entry."""
        if self.history is not None and self.history.original_id:
            return f"{self.queue}:{self.history.original_id}"
        return f"{self.queue}:{self.id}"

    def __repr__(self) -> str:
        return f"StreamMessage(queue={self.queue!r}, id={self.id!r}, attempt={self.attempt})"


def encode_fields(fields: Sequence[bytes]) -> str:
    """Return the fields as JSON from which `decode_fields` makes the same bytes.

    An object where all names are unique and everything is UTF-8, which is the usual case. Otherwise a list of pairs,
    in which `{"base64": ...}` stands for bytes that are not UTF-8.
    """
    pairs = [(fields[index], fields[index + 1]) for index in range(0, len(fields), 2)]
    try:
        texts = {name.decode(): value.decode() for name, value in pairs}
    except UnicodeDecodeError:
        texts = {}
    if len(texts) == len(pairs):
        return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))
    return json.dumps([[_shown(name), _shown(value)] for name, value in pairs], separators=(",", ":"))


def decode_fields(text: str | bytes) -> Fields:
    """Return the fields that `encode_fields` encoded; raise UsageError for other text."""
    try:
        decoded = json.loads(text)
        pairs = decoded.items() if isinstance(decoded, dict) else [(name, value) for name, value in decoded]
        return [_bytes(each) for pair in pairs for each in pair]
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f"this is no original_message: {type(error).__name__}") from None


def _shown(value: bytes) -> str | dict[str, str]:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {_BASE64: base64.b64encode(value).decode()}


def _bytes(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, dict):
        raise TypeError("neither a text nor base64")
    try:
        return base64.b64decode(value[_BASE64], validate=True)
    except binascii.Error as error:
        raise TypeError("not base64") from error


def build_parser(model: Any, body: str | None) -> Callable[[Fields], Any]:  # noqa: ANN401 - any type pydantic knows
    """Return a function that makes the handler's argument of an entry's fields.

    With `body` the field of that name holds JSON. Without it the fields are a mapping of texts. A model is validated
    by pydantic; without one the argument is the mapping, or what the JSON holds. The function raises pydantic's
    ValidationError, or PayloadError, for what does not fit.
    """
    if body is None:
        return _mapping_parser(model)
    name = body.encode()
    validate: Callable[[bytes], Any] = json.loads if model is None else _validator(model).validate_json

    def parse_body(fields: Fields) -> Any:  # noqa: ANN401 - what the model is
        if fields[0] == name and len(fields) == 2:  # noqa: PLR2004 - the usual case: a name and a value
            return validate(fields[1])
        return validate(_only_value(fields, name))

    return parse_body


def _mapping_parser(model: Any) -> Callable[[Fields], Any]:  # noqa: ANN401 - as above
    if model is None:
        return _mapping
    validate: Callable[[object], Any] = _validator(model).validate_python

    def parse_mapping(fields: Fields) -> Any:  # noqa: ANN401 - as above
        return validate(_mapping(fields))

    return parse_mapping


def _validator(model: Any) -> Any:  # noqa: ANN401 - pydantic-core's class, for a model or any other type
    own = getattr(model, "__pydantic_validator__", None)
    if own is not None and hasattr(own, "validate_json"):
        return own
    from pydantic import PydanticUserError, TypeAdapter  # noqa: PLC0415 - only for other types than models

    try:
        return TypeAdapter(model).validator
    except PydanticUserError as error:
        raise UsageError(f"model must be a pydantic model or a type that pydantic knows, not {model!r}") from error


def _only_value(fields: Fields, name: bytes) -> bytes:
    values = [fields[index + 1] for index in range(0, len(fields), 2) if fields[index] == name]
    if len(values) != 1:
        raise PayloadError(f"the message has {len(values)} fields named {name.decode()!r}; its body is in exactly one")
    return values[0]


def _mapping(fields: Fields) -> dict[str, str]:
    names = fields[::2]
    try:
        mapping = {name.decode(): value.decode() for name, value in zip(names, fields[1::2], strict=True)}
    except UnicodeDecodeError:
        raise PayloadError("a field of the message is not UTF-8 text") from None
    if len(mapping) != len(names):
        raise PayloadError("a field occurs more than once in the message")
    return mapping
