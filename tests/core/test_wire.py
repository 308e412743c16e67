"""A RetryInfo out of a gRPC status, read without protobuf."""

from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

from reprieve.core.wire import retry_delay


def packed(*details):
    status = status_pb2.Status(code=8, message="slow down")
    for detail in details:
        wrapped = any_pb2.Any()
        wrapped.Pack(detail)
        status.details.append(wrapped)
    return status.SerializeToString()


@given(st.integers(0, 10_000), st.integers(0, 999_999_999))
def test_the_delay_is_what_protobuf_wrote(whole, nanos):
    info = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=whole, nanos=nanos))
    other = error_details_pb2.ErrorInfo(reason="RATE")
    assert retry_delay(packed(other, info)) == whole + nanos / 1e9


def test_a_status_without_one_asks_for_nothing():
    assert retry_delay(packed(error_details_pb2.ErrorInfo(reason="RATE"))) is None
    assert retry_delay(b"") is None


@given(st.binary(max_size=200))
def test_any_bytes_are_survived(data):
    assert retry_delay(data) is None or retry_delay(data) >= 0
