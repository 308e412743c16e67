"""Clouds and RPC: botocore, gRPC, Google's api-core and auth."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from reprieve.core import http, provider
from reprieve.core.facts import attribute, header, integer, item, text_of
from reprieve.core.failure import ErrorClass, Scope, Severity
from reprieve.core.finding import Finding, Rules, Weight, by_word
from reprieve.core.wire import retry_delay

_of = ErrorClass
_BUG = Finding(_of.BUG)
_CONFIG = Finding(_of.CONFIG_INVALID, severity=Severity.PERMANENT)
_AUTH = Finding(_of.AUTH_DENIED)
_BROKEN = Finding(_of.CONNECTION_RESET, outcome_unknown=True, weight=Weight.TRANSPORT)

_AWS: Final = by_word({
    _of.RATE_LIMITED: (
        "Throttling ThrottlingException ThrottledException RequestThrottled RequestThrottledException "
        "TooManyRequestsException ProvisionedThroughputExceededException "
        "RequestLimitExceeded BandwidthLimitExceeded LimitExceededException PriorRequestNotComplete "
        "EC2ThrottledException ThrottlingError TooManyRequests"
    ),
    _of.OVERLOADED: "SlowDown ServiceUnavailable ServiceUnavailableException ModelNotReadyException",
    _of.NETWORK_TIMEOUT: "RequestTimeout RequestTimeoutException ModelTimeoutException",
    _of.UPSTREAM_ERROR: (
        "InternalError InternalFailure InternalServerError InternalServerException InternalServiceError "
        "ServiceFailure ModelErrorException ModelStreamErrorException"
    ),
    _of.AUTH_DENIED: (
        "InvalidClientTokenId UnrecognizedClientException SignatureDoesNotMatch InvalidSignatureException "
        "AuthFailure ExpiredToken ExpiredTokenException RequestExpired InvalidAccessKeyId "
        "MissingAuthenticationToken TokenRefreshRequired InvalidToken IncompleteSignature "
        "RequestTimeTooSkewed NotAuthorizedException InvalidSecurity OptInRequired"
    ),
    _of.PERMISSION_DENIED: (
        "AccessDenied AccessDeniedException UnauthorizedOperation AllAccessDisabled AccountProblem "
        "UnauthorizedAccess KMS.AccessDeniedException ForbiddenException AuthorizationError "
        "AuthorizationErrorException"
    ),
    _of.NOT_FOUND: (
        "NoSuchKey NoSuchBucket NoSuchUpload NoSuchVersion NoSuchEntity ResourceNotFoundException "
        "ResourceNotFound NotFound NotFoundException QueueDoesNotExist "
        "AWS.SimpleQueueService.NonExistentQueue InvalidInstanceID.NotFound FileSystemNotFound "
        "TableNotFoundException 404"
    ),
    _of.WRITE_CONFLICT: (
        "ConditionalCheckFailedException TransactionInProgressException TransactionConflictException TransactionCanceledException "
        "ConflictException OptimisticLockException BucketAlreadyExists BucketAlreadyOwnedByYou "
        "ResourceInUseException OperationAborted ConcurrentModificationException ResourceConflictException "
        "EntityAlreadyExists PreconditionFailed IdempotentParameterMismatchException "
        "ReplicatedWriteConflictException"
    ),
    _of.REQUEST_REJECTED: (
        "ValidationException ValidationError InvalidParameterValue InvalidParameterException "
        "InvalidParameterCombination MissingParameter SerializationException InvalidRequest "
        "InvalidRequestException MalformedQueryString InvalidInput MalformedXML InvalidArgument "
        "ParameterNotFound InvalidAction InvalidQueryParameter"
    ),
    _of.PAYLOAD_TOO_LARGE: "EntityTooLarge RequestEntityTooLarge RequestTooLargeException",
    _of.QUOTA_EXHAUSTED: "ServiceQuotaExceededException QuotaExceededException",
    _of.POLICY_REJECTED: "MessageRejected",
    _of.CONFIG_INVALID: "MailFromDomainNotVerifiedException PermanentRedirect AuthorizationHeaderMalformed",
})  # fmt: skip


def of_aws(exc: BaseException, now: float) -> Finding:
    """Botocore's ClientError: the code beats the status."""
    response = attribute(exc, "response")
    error, meta = item(response, "Error"), item(response, "ResponseMetadata")
    status, code = integer(item(meta, "HTTPStatusCode")), text_of(item(error, "Code"))
    headers = item(meta, "HTTPHeaders")
    found = _AWS.get(code) if code else None
    by_status = None if status is None else http.of_status(status, headers, now)
    if found is None and code and ("Throttl" in code or "SlowDown" in code):
        found = _of.RATE_LIMITED
    if found is None and code and code.endswith(("NotFound", "NotFoundException", "NotFoundFault")):
        found = _of.NOT_FOUND
    if found is None and code and code.endswith(("AccessDenied", "AccessDeniedException")):
        found = _of.PERMISSION_DENIED
    if found is _of.REQUEST_REJECTED and (said := provider.of_sentence(text_of(item(error, "Message")) or "", status)):
        return said.but(code=code, status=status)
    if found is None:
        return by_status.but(code=code) if by_status is not None else Finding(_of.UPSTREAM_ERROR, code=code)
    return Finding(
        found, rule=f"aws.{code}", field="response.Error.Code", value=code or "", code=code, status=status,
        retry_after=http.retry_after(headers, now),
        outcome_unknown=found in (_of.UPSTREAM_ERROR, _of.NETWORK_TIMEOUT),
        severity=Severity.PERMANENT if found is _of.CONFIG_INVALID else None,
    )  # fmt: skip


_GRPC: Final[dict[str, Finding]] = {
    "CANCELLED": Finding(_of.CONNECTION_RESET, outcome_unknown=True),
    "UNKNOWN": Finding(_of.UPSTREAM_ERROR, outcome_unknown=True),
    "INVALID_ARGUMENT": Finding(_of.REQUEST_REJECTED),
    "DEADLINE_EXCEEDED": Finding(_of.NETWORK_TIMEOUT, outcome_unknown=True, requires_idempotent=True),
    "NOT_FOUND": Finding(_of.NOT_FOUND),
    "ALREADY_EXISTS": Finding(_of.WRITE_CONFLICT),
    "PERMISSION_DENIED": Finding(_of.PERMISSION_DENIED),
    "RESOURCE_EXHAUSTED": Finding(_of.RATE_LIMITED),
    "FAILED_PRECONDITION": Finding(_of.REQUEST_REJECTED),
    "ABORTED": Finding(_of.WRITE_CONFLICT, scope=Scope.WHOLE_TRANSACTION),
    "OUT_OF_RANGE": Finding(_of.REQUEST_REJECTED),
    "UNIMPLEMENTED": _CONFIG,
    "INTERNAL": Finding(_of.UPSTREAM_ERROR, outcome_unknown=True),
    "UNAVAILABLE": Finding(_of.UPSTREAM_UNAVAILABLE),
    "DATA_LOSS": Finding(_of.STORAGE_CORRUPT, severity=Severity.PERMANENT),
    "UNAUTHENTICATED": Finding(_of.AUTH_DENIED),
}
_PUSHBACK = "grpc-retry-pushback-ms"


def of_grpc(exc: BaseException, now: float) -> Finding | None:
    """An RPC that failed, by its status code; the server's pushback is its Retry-After."""
    getter = attribute(exc, "code")
    try:
        code = getter() if callable(getter) else getter
    except Exception:  # noqa: BLE001 - a foreign method
        return None
    name = text_of(attribute(code, "name"))
    row = _GRPC.get(name or "")
    if name is None or row is None:
        return None
    said = _details(exc)
    if name == "UNAVAILABLE" and "CERTIFICATE_VERIFY_FAILED" in said:
        return Finding(
            _of.TLS_INVALID, rule="grpc.certificate", field="details", value="CERTIFICATE_VERIFY_FAILED", code=name
        )
    if name == "RESOURCE_EXHAUSTED" and "message larger than max" in said:
        return Finding(_of.PAYLOAD_TOO_LARGE, rule="grpc.size", field="details", value="larger than max", code=name)
    return row.but(rule=f"grpc.{name}", field="code", value=name, code=name, retry_after=_pushback(exc, now))


def _details(exc: BaseException) -> str:
    getter = attribute(exc, "details")
    try:
        return text_of(getter()) or "" if callable(getter) else ""
    except Exception:  # noqa: BLE001 - a foreign method
        return ""


def _pushback(exc: BaseException, now: float) -> float | None:
    getter = attribute(exc, "trailing_metadata")
    try:
        metadata = getter() if callable(getter) else None
        pairs = [(str(key), value) for key, value in metadata or ()]
    except Exception:  # noqa: BLE001 - a foreign method
        return None
    milliseconds = integer(header(pairs, _PUSHBACK))
    if milliseconds is not None:
        return http.bounded(milliseconds / 1000)
    status = next((value for key, value in pairs if key == "grpc-status-details-bin"), None)
    delay = retry_delay(status) if isinstance(status, bytes) else None
    return http.retry_after(pairs, now) if delay is None else http.bounded(delay)


def of_api_core(exc: BaseException, now: float) -> Finding | None:
    """Google's api-core: the gRPC status if there is one, else the HTTP one, with the delay that its details hold."""
    name = text_of(attribute(attribute(exc, "grpc_status_code"), "name"))
    status = integer(attribute(exc, "code"))
    if name in _GRPC:
        finding: Finding | None = _GRPC[name].but(
            rule=f"grpc.{name}", field="grpc_status_code", value=name, code=name, status=status
        )
    else:
        headers = attribute(attribute(exc, "response"), "headers")
        finding = provider.of_response(status, headers, {"errors": attribute(exc, "errors")}, now)
    if finding is None:
        return None
    return finding.but(retry_after=finding.retry_after if finding.retry_after is not None else _detail_delay(exc, now))


def _listed(details: object) -> list[object]:
    """The details as a list, whatever kind of sequence the library keeps them in."""
    if isinstance(details, str | bytes | dict) or not isinstance(details, Iterable):
        return []
    return list(details)


def _detail_delay(exc: BaseException, now: float) -> float | None:
    """RetryInfo among the details, as a protobuf or as JSON."""
    for detail in _listed(attribute(exc, "details")):
        delay = attribute(detail, "retry_delay")
        seconds, nanos = attribute(delay, "seconds"), attribute(delay, "nanos")
        if isinstance(seconds, int):
            return http.bounded(seconds + (nanos if isinstance(nanos, int) else 0) / 1e9)
        if isinstance(detail, dict) and (found := provider.delay_in(detail)) is not None:
            return found
    return http.retry_after(attribute(attribute(exc, "response"), "headers"), now)


RULES: Rules = {
    "botocore.ClientError": of_aws,
    "botocore.SSLError": Finding(_of.TLS_INVALID, weight=Weight.TRANSPORT),
    "botocore.ConnectTimeoutError": Finding(_of.NETWORK_TIMEOUT),
    "botocore.ReadTimeoutError": Finding(_of.NETWORK_TIMEOUT, outcome_unknown=True),
    "botocore.EndpointConnectionError": Finding(_of.CONNECTION_REFUSED, weight=Weight.TRANSPORT),
    "botocore.ProxyConnectionError": Finding(_of.CONNECTION_REFUSED, weight=Weight.TRANSPORT),
    "botocore.ConnectionClosedError": Finding(_of.CONNECTION_RESET, outcome_unknown=True),
    "botocore.ResponseStreamingError": _BROKEN,
    "botocore.IncompleteReadError": _BROKEN,
    "botocore.ConnectionError": _BROKEN,
    "botocore.HTTPClientError": _BROKEN,
    "botocore.ChecksumError": Finding(_of.UPSTREAM_ERROR),
    "botocore.FlexibleChecksumError": Finding(_of.UPSTREAM_ERROR),
    "botocore.MetadataRetrievalError": Finding(_of.UPSTREAM_UNAVAILABLE),
    "botocore.CapacityNotAvailableError": Finding(_of.OVERLOADED),
    "botocore.WaiterError": Finding(_of.NETWORK_TIMEOUT, outcome_unknown=True),
    "botocore.NoCredentialsError": _AUTH,
    "botocore.PartialCredentialsError": _AUTH,
    "botocore.CredentialRetrievalError": _AUTH,
    "botocore.NoAuthTokenError": _AUTH,
    "botocore.TokenRetrievalError": _AUTH,
    "botocore.SSOError": _AUTH,
    "botocore.LoginError": _AUTH,
    "botocore.RefreshWithMFAUnsupportedError": _AUTH,
    "botocore.ParamValidationError": Finding(_of.SCHEMA_INVALID),
    "botocore.InvalidRegionError": _CONFIG,
    "botocore.ValidationError": Finding(_of.SCHEMA_INVALID),
    "botocore.MissingParametersError": Finding(_of.SCHEMA_INVALID),
    "botocore.StubResponseError": _BUG,
    "botocore.UnknownClientMethodError": _BUG,
    "botocore.OperationNotPageableError": _BUG,
    "botocore.UnseekableStreamError": _BUG,
    "botocore.BotoCoreError": _CONFIG,
    "boto3.Boto3Error": Finding(_of.UPSTREAM_ERROR, weight=Weight.WRAPPER),
    "s3transfer.RetriesExceededError": Finding(_of.CONNECTION_RESET, weight=Weight.WRAPPER),
    "grpc.RpcError": of_grpc,
    "grpc.AbortError": _BUG,
    "grpc.UsageError": _BUG,
    "grpc.InternalError": Finding(_of.UPSTREAM_ERROR),
    "grpc.BaseError": _BUG,
    "grpc.FutureTimeoutError": Finding(_of.NETWORK_TIMEOUT),
    "google.GoogleAPICallError": of_api_core,
    "google.RetryError": Finding(_of.NETWORK_TIMEOUT, outcome_unknown=True, weight=Weight.WRAPPER),
    "google.DuplicateCredentialArgs": _CONFIG,
    "google.GoogleAPIError": Finding(_of.UPSTREAM_ERROR, weight=Weight.WRAPPER),
    "google.TransportError": _BROKEN,
    "google.RefreshError": _AUTH,
    "google.DefaultCredentialsError": _AUTH,
    "google.TimeoutError": Finding(_of.NETWORK_TIMEOUT),
    "google.GoogleAuthError": _AUTH,
    "azure.ClientAuthenticationError": _AUTH,
    "azure.ServiceRequestError": Finding(_of.CONNECTION_REFUSED, weight=Weight.TRANSPORT),
    "azure.ServiceResponseError": _BROKEN,
}
