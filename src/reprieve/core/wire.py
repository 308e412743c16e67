"""As much of the protobuf wire format as it takes to read a RetryInfo out of a gRPC status, without protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_RETRY_INFO = b"google.rpc.RetryInfo"
_DETAILS, _TYPE_URL, _VALUE, _RETRY_DELAY, _SECONDS, _NANOS = 3, 1, 2, 1, 1, 2


def retry_delay(status: bytes) -> float | None:
    """The delay in seconds that a serialized `google.rpc.Status` asks for; None where it asks for none."""
    try:
        return next(_delays(status), None)
    except (IndexError, ValueError):  # not what it claims to be
        return None


def _delays(status: bytes) -> Iterator[float]:
    for number, detail in _fields(status):
        if number != _DETAILS or not isinstance(detail, bytes):
            continue
        packed = dict(_fields(detail))
        kind, value = packed.get(_TYPE_URL), packed.get(_VALUE)
        if isinstance(kind, bytes) and kind.endswith(_RETRY_INFO) and isinstance(value, bytes):
            duration = dict(_fields(value)).get(_RETRY_DELAY)
            parts = dict(_fields(duration)) if isinstance(duration, bytes) else {}
            whole, nanos = parts.get(_SECONDS, 0), parts.get(_NANOS, 0)
            if isinstance(whole, int) and isinstance(nanos, int):
                yield whole + nanos / 1e9


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: numbers and byte strings; fixed-width ones are passed over."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        match key & 7:
            case 0:
                value, at = _varint(data, at)
                yield key >> 3, value
            case 2:
                length, at = _varint(data, at)
                if at + length > len(data):
                    raise ValueError("cut short")
                yield key >> 3, data[at : at + length]
                at += length
            case 1:
                at += 8
            case 5:
                at += 4
            case _:
                raise ValueError("no such wire type")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:  # noqa: PLR2004 - the continuation bit
            return value, at
        if shift > 63:  # noqa: PLR2004 - 64 bits are all there are
            raise ValueError("too long")
