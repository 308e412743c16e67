"""Validation, serialisation, tokens, and libraries that only wrap what happened elsewhere."""

from __future__ import annotations

from reprieve.core.failure import ErrorClass, Severity
from reprieve.core.finding import Finding, Rules, Weight

_of = ErrorClass
_DATA = Finding(_of.SCHEMA_INVALID)
_BUG = Finding(_of.BUG)
_CONFIG = Finding(_of.CONFIG_INVALID, severity=Severity.PERMANENT)
_AUTH = Finding(_of.AUTH_DENIED, severity=Severity.PERMANENT)
_WRAPPER = Finding(_of.UNKNOWN, weight=Weight.WRAPPER)

RULES: Rules = {
    "pydantic.ValidationError": _DATA,
    "pydantic_core.ValidationError": _DATA,
    "pydantic_core.SchemaError": _BUG,
    "pydantic.PydanticUserError": _BUG,
    "pydantic.PydanticSchemaGenerationError": _BUG,
    "pydantic_settings.SettingsError": _CONFIG,
    "jsonschema.ValidationError": _DATA,
    "jsonschema.SchemaError": _CONFIG,
    "jsonschema.FormatError": _DATA,
    "jsonschema.UnknownType": _CONFIG,
    "jsonschema._RefResolutionError": _CONFIG,
    "referencing.Unresolvable": _CONFIG,
    "marshmallow.ValidationError": _DATA,
    "cattrs.BaseValidationError": _DATA,
    "attr.FrozenInstanceError": _BUG,
    "msgspec.DecodeError": _DATA,
    "msgspec.ValidationError": _DATA,
    "orjson.JSONDecodeError": _DATA,
    "simplejson.JSONDecodeError": _DATA,
    "simplejson.errors.JSONDecodeError": _DATA,
    "yaml.YAMLError": _DATA,
    "toml.TomlDecodeError": _DATA,
    "google.DecodeError": _DATA,
    "google.EncodeError": _DATA,
    "google.ParseError": _DATA,
    "lxml.LxmlError": _DATA,
    "jinja2.TemplateError": _BUG,
    "jwt.ExpiredSignatureError": _AUTH,
    "jwt.PyJWTError": _AUTH,
    "jwt.PyJWKClientConnectionError": Finding(_of.CONNECTION_RESET, weight=Weight.TRANSPORT),
    "cryptography.InvalidToken": _AUTH,
    "cryptography.InvalidSignature": _AUTH,
    "cryptography.InvalidTag": _DATA,
    "cryptography.InvalidKey": _AUTH,
    "cryptography.UnsupportedAlgorithm": _CONFIG,
    "django.ImproperlyConfigured": _CONFIG,
    "django.ObjectDoesNotExist": Finding(_of.NOT_FOUND),
    "django.ValidationError": _DATA,
    "tenacity.RetryError": _WRAPPER,
    "tenacity.TryAgain": Finding(_of.DECLARED_RETRYABLE),
    "celery.Retry": Finding(_of.DECLARED_RETRYABLE),
    "celery.SoftTimeLimitExceeded": Finding(_of.NETWORK_TIMEOUT, outcome_unknown=True),
    "billiard.SoftTimeLimitExceeded": Finding(_of.NETWORK_TIMEOUT, outcome_unknown=True),
    "billiard.WorkerLostError": Finding(_of.WORKER_LOST, outcome_unknown=True),
    "kombu.OperationalError": Finding(_of.CONNECTION_RESET, outcome_unknown=True, weight=Weight.TRANSPORT),
    "amqp.AccessRefused": Finding(_of.AUTH_DENIED),
    "amqp.ConnectionError": Finding(_of.CONNECTION_RESET, outcome_unknown=True, weight=Weight.TRANSPORT),
    "dramatiq.RateLimitExceeded": Finding(_of.RATE_LIMITED),
}
