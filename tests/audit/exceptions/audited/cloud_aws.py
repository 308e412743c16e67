"""botocore's errors as a real client raises them against a loopback endpoint, its retries off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import boto3
import botocore.exceptions
from botocore.config import Config

from audited.case import (
    AUTH,
    AWAY,
    CONFIGURATION,
    CONFLICT,
    NETWORK,
    NOT_FOUND,
    RATE_LIMIT,
    UNKNOWN,
    UPSTREAM,
    VALIDATION,
    Case,
    retry,
    secret,
    stop,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from audited.lab import Lab

KEY_ID: Final = secret("AK", "IA", "IOSF", "ODNN7", "AUDIT77")
KEY: Final = secret("wJalrXUtn", "FEMI/K7MDENG/", "bPxRfiCYAUDITKEY77")
CODE: Final = CONFIGURATION | VALIDATION
OFF: Final = {"total_max_attempts": 1, "mode": "standard"}


def client(name: str, url: str, **options: Any) -> Any:
    """A client of this service that does not retry by itself."""
    return boto3.client(
        name,
        endpoint_url=url,
        region_name="eu-west-1",
        aws_access_key_id=KEY_ID,
        aws_secret_access_key=KEY,
        config=Config(retries=OFF, connect_timeout=2, read_timeout=options.pop("read_timeout", 5), **options),
    )


def by_json(lab: Lab, status: int, code: str, headers: dict[str, str] | None = None) -> object:
    """DynamoDB answers in JSON."""
    body = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "as asked"}
    dynamo = client("dynamodb", lab.http.url(status, headers, body))
    try:
        return dynamo.get_item(TableName="table", Key={"id": {"S": "1"}})
    finally:
        dynamo.close()


def by_xml(lab: Lab, status: int, code: str, headers: dict[str, str] | None = None) -> object:
    """S3 answers in XML."""
    body = f"<Error><Code>{code}</Code><Message>as asked</Message><RequestId>R1</RequestId></Error>".encode()
    storage = client("s3", lab.http.url(status, headers, body), s3={"addressing_style": "path"})
    try:
        return storage.get_object(Bucket="bucket", Key="key")
    finally:
        storage.close()


THROTTLE: Final = "notes: the code beats the status; throttles come as 400, 403, 503, 509"
JSON_ROWS: Final[tuple[tuple[int, str, bool, Any, str], ...]] = (
    (400, "ThrottlingException", True, RATE_LIMIT, THROTTLE),
    (400, "ProvisionedThroughputExceededException", True, RATE_LIMIT, THROTTLE),
    (400, "RequestLimitExceeded", True, RATE_LIMIT, THROTTLE),
    (400, "TooManyRequestsException", True, RATE_LIMIT, THROTTLE),
    (429, "TooManyRequestsException", True, RATE_LIMIT, THROTTLE),
    (403, "Throttling", True, RATE_LIMIT, THROTTLE),
    (400, "LimitExceededException", True, RATE_LIMIT, "a limit of the account, most often"),
    (400, "ValidationException", False, VALIDATION, "CRIT-1.5"),
    (400, "SerializationException", False, VALIDATION, "CRIT-1.5"),
    (400, "ConditionalCheckFailedException", True, CONFLICT, "an optimistic lock: CRIT-1.4"),
    (400, "TransactionConflictException", True, CONFLICT, "CRIT-1.4"),
    (400, "ResourceNotFoundException", False, NOT_FOUND | CONFIGURATION, "CRIT-1.7"),
    (400, "AccessDeniedException", False, AUTH, "CRIT-1.6"),
    (400, "UnrecognizedClientException", False, AUTH, "CRIT-1.6"),
    (400, "ExpiredTokenException", False, AUTH, "CRIT-1.6: no refresh path here"),
    (403, "InvalidSignatureException", False, AUTH, "CRIT-1.6"),
    (403, "RequestTimeTooSkewed", False, AUTH | CONFIGURATION, "the clock is wrong"),
    (400, "MissingAuthenticationToken", False, AUTH, "CRIT-1.6"),
    (500, "InternalServerError", True, UPSTREAM, "CRIT-1.3"),
    (503, "ServiceUnavailable", True, AWAY, "CRIT-1.1"),
    (400, "RequestTimeout", True, AWAY, "a timeout in a 400's clothes"),
    (400, "UnknownOperationException", False, CODE | NOT_FOUND, "a wrong call"),
    (400, "RequestThrottled", True, RATE_LIMIT, THROTTLE),
    (503, "EC2ThrottledException", True, RATE_LIMIT | UPSTREAM, THROTTLE),
    (400, "PriorRequestNotComplete", True, RATE_LIMIT | CONFLICT, THROTTLE),
    (400, "TransactionInProgressException", True, RATE_LIMIT | CONFLICT, "as botocore's own retries hold"),
    (429, "ModelNotReadyException", True, RATE_LIMIT | AWAY, "Bedrock warms up"),
    (408, "ModelTimeoutException", True, AWAY, "Bedrock is late"),
    (424, "ModelErrorException", True, UPSTREAM | VALIDATION, "the model failed inside"),
    (400, "ConcurrentModificationException", True, CONFLICT, "an optimistic lock: CRIT-1.4"),
    (400, "IdempotentParameterMismatchException", False, VALIDATION | CONFLICT, "the same token, other parameters"),
    (403, "UnauthorizedOperation", False, AUTH, "CRIT-1.6"),
    (403, "InvalidClientTokenId", False, AUTH, "CRIT-1.6"),
    (500, "InternalFailure", True, UPSTREAM, "CRIT-1.3"),
    (503, "ServiceUnavailableException", True, AWAY, "CRIT-1.1"),
    (402, "ServiceQuotaExceededException", False, VALIDATION | RATE_LIMIT | AUTH, "a quota that no waiting raises"),
)
XML_ROWS: Final[tuple[tuple[int, str, bool, Any, str], ...]] = (
    (503, "SlowDown", True, RATE_LIMIT | UPSTREAM, THROTTLE),
    (509, "BandwidthLimitExceeded", True, RATE_LIMIT | UPSTREAM, THROTTLE),
    (503, "ServiceUnavailable", True, AWAY, "CRIT-1.1"),
    (500, "InternalError", True, UPSTREAM, "CRIT-1.3"),
    (404, "NoSuchKey", False, NOT_FOUND, "CRIT-1.7"),
    (404, "NoSuchBucket", False, NOT_FOUND | CONFIGURATION, "CRIT-1.7"),
    (403, "AccessDenied", False, AUTH, "CRIT-1.6"),
    (403, "InvalidAccessKeyId", False, AUTH, "CRIT-1.6"),
    (403, "SignatureDoesNotMatch", False, AUTH, "CRIT-1.6"),
    (400, "ExpiredToken", False, AUTH, "CRIT-1.6"),
    (409, "OperationAborted", True, CONFLICT, "CRIT-1.4"),
    (412, "PreconditionFailed", True, CONFLICT, "an If-Match that lost is an optimistic lock"),
    (400, "EntityTooLarge", False, VALIDATION, "CRIT-1.5"),
    (400, "RequestTimeout", True, AWAY, "a timeout in a 400's clothes"),
    (400, "InvalidRequest", False, VALIDATION, "CRIT-1.5"),
    (416, "InvalidRange", False, VALIDATION, "CRIT-1.5"),
)
OPEN: Final = {
    "LimitExceededException",
    "PreconditionFailed",
    "ModelErrorException",
    "ServiceQuotaExceededException",
    "IdempotentParameterMismatchException",
}


def cases() -> Iterator[Case]:
    """All of them."""
    for service, rows, run in (("dynamodb", JSON_ROWS, by_json), ("s3", XML_ROWS, by_xml)):
        for status, code, retryable, categories, reason in rows:
            yield Case(
                label=f"botocore {service} {status} {code}",
                library="botocore",
                provoke=lambda lab, run=run, status=status, code=code: run(lab, status, code),
                retryable=retryable,
                categories=categories,
                reason=reason,
                arguable=code in OPEN,
            )
    yield from _waits()
    yield from _transport()
    yield from _client_side()


def _waits() -> Iterator[Case]:
    yield retry(
        "botocore", "botocore throttle with Retry-After",
        lambda lab: by_json(lab, 400, "ThrottlingException", {"Retry-After": "3"}), RATE_LIMIT, "CRIT-2.2", retry_after=3.0,
    )  # fmt: skip
    yield retry(
        "botocore", "botocore 503 with Retry-After", lambda lab: by_xml(lab, 503, "SlowDown", {"Retry-After": "17"}),
        RATE_LIMIT | UPSTREAM, "CRIT-2.2", retry_after=17.0,
    )  # fmt: skip


def _list(url: str, **options: Any) -> object:
    storage = client("s3", url, **options)
    try:
        return storage.list_buckets()
    finally:
        storage.close()


def _transport() -> Iterator[Case]:
    yield retry("botocore", "botocore EndpointConnectionError", lambda lab: _list(lab.refused), NETWORK, "CRIT-1.1")
    yield retry(
        "botocore", "botocore ReadTimeoutError", lambda lab: _list(lab.http.broken("silent"), read_timeout=0.05), NETWORK,
        "CRIT-1.1", error_class="NETWORK_TIMEOUT",
    )  # fmt: skip
    yield retry(
        "botocore", "botocore ConnectionClosedError", lambda lab: _list(lab.http.broken("hang-up")), AWAY, "CRIT-1.1"
    )
    yield retry("botocore", "botocore reset", lambda lab: _list(lab.http.broken("reset")), NETWORK, "CRIT-1.1")
    yield stop(
        "botocore", "botocore SSLError", lambda lab: _list(lab.untrusted), CONFIGURATION, "notes: permanent",
        error_class="TLS_INVALID",
    )  # fmt: skip
    yield retry(
        "botocore",
        "botocore 502 that is an HTML page",
        lambda lab: _list(lab.http.url(502, {}, b"<html>bad gateway</html>")),
        AWAY,
        "CRIT-1.1",
    )
    yield stop("botocore", "botocore 404 without a body", _head, NOT_FOUND, "HEAD: the code is '404'")


def _head(lab: Lab) -> object:
    storage = client("s3", lab.http.url(404), s3={"addressing_style": "path"})
    try:
        return storage.head_object(Bucket="bucket", Key="key")
    finally:
        storage.close()


def _without_credentials(lab: Lab) -> object:
    session = boto3.session.Session()
    storage = session.client(
        "s3", endpoint_url=lab.refused, region_name="eu-west-1", config=Config(retries=OFF, connect_timeout=1)
    )
    storage._request_signer._credentials = None  # no machine's own credentials may be found here
    try:
        return storage.list_buckets()
    finally:
        storage.close()


def _bad_parameter(lab: Lab) -> object:
    dynamo = client("dynamodb", lab.refused)
    try:
        return dynamo.get_item(TableName="table", Key=7)
    finally:
        dynamo.close()


def _client_side() -> Iterator[Case]:
    yield stop("botocore", "botocore NoCredentialsError", _without_credentials, AUTH | CONFIGURATION, "ORC-1.4")
    yield stop("botocore", "botocore ParamValidationError", _bad_parameter, VALIDATION | CONFIGURATION, "CRIT-1.5")
    yield stop(
        "botocore", "botocore UnknownServiceError", lambda _: boto3.client("teleport", region_name="x"), CODE, "a bug"
    )
    yield stop(
        "botocore", "botocore NoRegionError", lambda _: botocore.exceptions.NoRegionError(), CONFIGURATION, "ORC-1.4"
    )
    yield stop(
        "botocore", "botocore ProfileNotFound", lambda _: botocore.exceptions.ProfileNotFound(profile="staging"),
        CONFIGURATION | NOT_FOUND | AUTH, "ORC-1.4",
    )  # fmt: skip
    yield retry(
        "botocore", "botocore WaiterError that ran out of tries",
        lambda _: botocore.exceptions.WaiterError(name="BucketExists", reason="Max attempts exceeded", last_response={}),
        AWAY | NOT_FOUND | UNKNOWN, "it may come to be", arguable=True,
    )  # fmt: skip
