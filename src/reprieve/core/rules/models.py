"""Model providers' SDKs and what is built on them: openai, anthropic, google-genai, litellm, instructor, and others."""

from __future__ import annotations

from reprieve.core import provider
from reprieve.core.facts import attribute, body_of, headers_of, integer, status_of, text_of, words_of
from reprieve.core.failure import ErrorClass, Severity
from reprieve.core.finding import Finding, Rules, Weight

_of = ErrorClass
_BUG = Finding(_of.BUG)
_CONFIG = Finding(_of.CONFIG_INVALID, severity=Severity.PERMANENT)
_BROKEN = Finding(_of.CONNECTION_RESET, outcome_unknown=True, weight=Weight.TRANSPORT)
_TIMEOUT = Finding(_of.NETWORK_TIMEOUT, outcome_unknown=True)
_OUTPUT = Finding(_of.OUTPUT_INVALID)
_POLICY = Finding(_of.POLICY_REJECTED)


def of_model_api(exc: BaseException, now: float) -> Finding | None:
    """An SDK's API error: status, provider's code, and the sentences that have no code."""
    found = status_of(exc)
    status, field = found if found is not None else (None, "")
    body = body_of(exc)
    own = {name: text_of(attribute(exc, name)) for name in ("code", "type")}
    if body is None or not any(provider.codes_in(body)):
        body = {name: value for name, value in own.items() if value} | {"message": str(attribute(exc, "message") or "")}
    finding = provider.of_response(status, headers_of(exc), body, now, message=words_of(exc))
    if finding is not None and finding.field == "status":
        finding = finding.but(field=field)
    return finding


def of_stream_error(exc: BaseException, now: float) -> Finding:
    """An error inside a stream: no status, only the provider's words; without those the upstream failed."""
    return of_model_api(exc, now) or Finding(_of.UPSTREAM_ERROR, outcome_unknown=True)


def of_missing_key(exc: BaseException, _now: float) -> Finding | None:
    """The SDK's root class, raised as such when no key is configured."""
    words = words_of(exc).lower()
    if "api_key" in words or "api key" in words or "credentials" in words:
        return Finding(_of.AUTH_DENIED, rule="model.no-key", field="args", value="api_key")
    return _CONFIG


def of_google(exc: BaseException, now: float) -> Finding | None:
    """google-genai: the status is in `code`, the word in `status`, reason and delay in the body."""
    status = integer(attribute(exc, "code"))
    body = attribute(exc, "details")
    body = (
        body if isinstance(body, dict) else {"status": attribute(exc, "status"), "message": attribute(exc, "message")}
    )
    message = str(attribute(exc, "message") or "")
    finding = provider.of_response(status, headers_of(exc), body, now, message=message)
    return finding or Finding(_of.UPSTREAM_ERROR)


def of_gateway(exc: BaseException, now: float) -> Finding | None:
    """litellm: its class is its own guess; the provider's answer, where the chain has it, is heard first."""
    finding = of_model_api(exc, now)
    if finding is None:
        return None
    return finding.but(weight=Weight.GATEWAY)


def of_gateway_connection(exc: BaseException, now: float) -> Finding:
    """Litellm's APIConnectionError: a connection, or whatever it did not understand."""
    del exc, now
    return _BROKEN.but(weight=Weight.GATEWAY)


def of_instructor_retry(_exc: BaseException, _now: float) -> Finding:
    """Instructor gave up: the last attempt decides, or the model's output did not fit."""
    return _OUTPUT.but(weight=Weight.WRAPPER)


def of_huggingface(exc: BaseException, now: float) -> Finding | None:
    """An answer of the hub or an inference endpoint."""
    return provider.of_exception(exc, now)


def _stainless(package: str) -> Rules:
    """The SDKs that are generated alike: openai, anthropic and their kin."""
    return {
        f"{package}.APITimeoutError": _TIMEOUT.but(weight=Weight.TRANSPORT),
        f"{package}.APIConnectionError": _BROKEN,
        f"{package}.APIResponseValidationError": Finding(_of.UPSTREAM_ERROR, outcome_unknown=True),
        f"{package}.APIStatusError": of_model_api,
        f"{package}.APIError": of_stream_error,
    }


RULES: Rules = {
    **{
        key: row
        for package in ("openai", "anthropic", "groq", "together", "cohere", "mistralai")
        for key, row in _stainless(package).items()
    },
    "openai.LengthFinishReasonError": _OUTPUT.but(rule="finish.length"),
    "openai.ContentFilterFinishReasonError": _POLICY,
    "openai.InvalidWebhookSignatureError": Finding(_of.AUTH_DENIED, severity=Severity.PERMANENT),
    "openai.WebSocketConnectionClosedError": _BROKEN,
    "openai.WebSocketQueueFullError": Finding(_of.RESOURCE_EXHAUSTED),
    "openai.OpenAIError": of_missing_key,
    "anthropic.RetryableError": Finding(_of.DECLARED_RETRYABLE),
    "anthropic.CredentialsError": Finding(_of.AUTH_DENIED),
    "anthropic.AnthropicError": of_missing_key,
    "google.APIError": of_google,
    "google.UnknownFunctionCallArgumentError": _OUTPUT,
    "google.FunctionInvocationError": _BUG,
    "google.UnsupportedFunctionError": _BUG,
    "litellm.Timeout": _TIMEOUT,
    "litellm.ContextWindowExceededError": Finding(_of.CONTEXT_LENGTH_EXCEEDED, status=400),
    "litellm.ContentPolicyViolationError": Finding(_of.POLICY_REJECTED, status=400),
    "litellm.RejectedRequestError": Finding(_of.POLICY_REJECTED, status=400),
    "litellm.GuardrailRaisedException": _POLICY,
    "litellm.GuardrailInterventionNormalStringError": _POLICY,
    "litellm.BlockedPiiEntityError": _POLICY,
    "litellm.BudgetExceededError": Finding(_of.QUOTA_EXHAUSTED),
    "litellm.JSONSchemaValidationError": _OUTPUT,
    "litellm.APIResponseValidationError": _OUTPUT,
    "litellm.LiteLLMUnknownProvider": _CONFIG,
    "litellm.UnsupportedParamsError": Finding(_of.REQUEST_REJECTED, status=400),
    "litellm.APIConnectionError": of_gateway_connection,
    "litellm.APIError": of_gateway,
    "litellm.OpenAIError": of_gateway,
    "litellm.BaseLLMException": of_gateway,
    **{
        f"litellm.{name}": of_gateway
        for name in [
            "AuthenticationError",
            "NotFoundError",
            "BadRequestError",
            "UnprocessableEntityError",
            "PermissionDeniedError",
            "RateLimitError",
            "ServiceUnavailableError",
            "BadGatewayError",
            "InternalServerError",
            "InvalidRequestError",
            "MidStreamFallbackError",
        ]
    },
    "instructor.InstructorRetryException": of_instructor_retry,
    "instructor.IncompleteOutputException": _OUTPUT,
    "instructor.ResponseParsingError": _OUTPUT,
    "instructor.ValidationError": _OUTPUT,
    "instructor.AsyncValidationError": _OUTPUT,
    "instructor.TokenBudgetError": Finding(_of.QUOTA_EXHAUSTED, severity=Severity.PERMANENT),
    "instructor.ConfigurationError": _CONFIG,
    "instructor.ModeError": _CONFIG,
    "instructor.ClientError": _CONFIG,
    "instructor.MultimodalError": Finding(_of.REQUEST_REJECTED),
    "instructor.ProviderError": Finding(_of.UPSTREAM_ERROR, weight=Weight.WRAPPER),
    "instructor.InstructorError": _OUTPUT.but(weight=Weight.WRAPPER),
    "huggingface_hub.HfHubHTTPError": of_huggingface,
    "huggingface_hub.InferenceTimeoutError": _TIMEOUT,
    "langchain_core.OutputParserException": _OUTPUT,
    "pydantic_ai.UnexpectedModelBehavior": _OUTPUT,
    "pydantic_ai.ModelHTTPError": of_huggingface,
    "cohere.ApiError": of_huggingface,
    "mistralai.SDKError": of_huggingface,
    "ollama.ResponseError": of_huggingface,
}
