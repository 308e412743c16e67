"""Mail, chat, payments: smtplib, aiosmtplib, Slack, Stripe, Twilio, SendGrid."""

from __future__ import annotations

import re
from typing import Final

from reprieve.core import http, provider
from reprieve.core.facts import attribute, body_of, headers_of, integer, item, status_of, text_of, words_of
from reprieve.core.failure import ErrorClass, Severity
from reprieve.core.finding import Finding, Reader, Rules, Weight, by_word

_of = ErrorClass
_BUG = Finding(_of.BUG)
_CONFIG = Finding(_of.CONFIG_INVALID, severity=Severity.PERMANENT)
_BROKEN = Finding(_of.CONNECTION_RESET, outcome_unknown=True, weight=Weight.TRANSPORT)

_SMTP: Final[dict[int, ErrorClass]] = {
    421: _of.UPSTREAM_UNAVAILABLE, 450: _of.UPSTREAM_ERROR, 451: _of.UPSTREAM_ERROR, 452: _of.RESOURCE_EXHAUSTED,
    454: _of.UPSTREAM_ERROR, 432: _of.UPSTREAM_ERROR, 455: _of.UPSTREAM_ERROR, 500: _of.REQUEST_REJECTED,
    501: _of.REQUEST_REJECTED, 502: _of.CONFIG_INVALID, 503: _of.BUG, 504: _of.CONFIG_INVALID, 521: _of.CONFIG_INVALID,
    523: _of.PAYLOAD_TOO_LARGE, 530: _of.AUTH_DENIED, 534: _of.AUTH_DENIED, 535: _of.AUTH_DENIED, 538: _of.AUTH_DENIED,
    550: _of.RECIPIENT_INVALID, 551: _of.RECIPIENT_INVALID, 552: _of.PAYLOAD_TOO_LARGE, 553: _of.RECIPIENT_INVALID,
    554: _of.POLICY_REJECTED, 555: _of.REQUEST_REJECTED, 556: _of.RECIPIENT_INVALID, 571: _of.POLICY_REJECTED,
}  # fmt: skip
_ENHANCED = re.compile(r"\b([45])\.(\d{1,3})\.(\d{1,3})\b")


def of_reply(code: int | None, words: object) -> Finding:
    """One SMTP reply: 4xx may pass, 5xx will not; the enhanced code tells a policy from a mailbox."""
    if code is None or not 400 <= code < 600:  # noqa: PLR2004 - the reply classes of RFC 5321
        return Finding(_of.CONNECTION_RESET, outcome_unknown=True) if code == -1 else Finding(_of.UPSTREAM_ERROR)
    temporary = code < 500  # noqa: PLR2004
    found = _SMTP.get(code, _of.UPSTREAM_ERROR if temporary else _of.REQUEST_REJECTED)
    text = (text_of(words) or "")[:500]
    enhanced = _ENHANCED.search(text)
    if enhanced is not None and not temporary:
        match enhanced.group(2), enhanced.group(3):
            case "7", detail if found != _of.AUTH_DENIED:
                found = _of.AUTH_DENIED if detail in ("8", "9", "11", "14") else _of.POLICY_REJECTED
            case "1", _:
                found = _of.RECIPIENT_INVALID
            case "3", "4":
                found = _of.PAYLOAD_TOO_LARGE
            case _:
                pass
    if temporary and ("rate" in text.lower() or "too many" in text.lower() or "throttl" in text.lower()):
        found = _of.RATE_LIMITED
    return Finding(
        found, rule=f"smtp.{code}", field="smtp_code", value=str(code), code=str(code), status=None, retryable=temporary,
        severity=Severity.PERMANENT if found is _of.CONFIG_INVALID else None,
    )  # fmt: skip


def of_smtp(exc: BaseException, _now: float) -> Finding:
    """A refusal by reply code, as smtplib or aiosmtplib tells it."""
    number = attribute(exc, "smtp_code")
    number = attribute(exc, "code") if number is None else number
    words = attribute(exc, "smtp_error") or attribute(exc, "message")
    return of_reply(number if isinstance(number, int) else None, words)


def of_disconnect(exc: BaseException, _now: float) -> Finding:
    """A connection that went away; or one that never was, which is a bug."""
    return _BUG if "run connect() first" in words_of(exc).lower() else _BROKEN


def of_other_smtp(exc: BaseException, _now: float) -> Finding:
    """The root class: raised as such for what the server cannot do."""
    return _CONFIG if "not supported" in words_of(exc) else _BROKEN


def of_sender(exc: BaseException, now: float) -> Finding:
    """A sender that was refused: ours is wrong, so it is no matter of the recipient."""
    found = of_smtp(exc, now)
    return found.but(error_class=_of.POLICY_REJECTED) if found.error_class is _of.RECIPIENT_INVALID else found


def of_recipients(exc: BaseException, _now: float) -> Finding:
    """Every recipient was refused: worth another try only if each of the replies is temporary."""
    replies = list(_replies(attribute(exc, "recipients")))
    findings = [of_reply(code, words) for code, words in replies]
    for finding in findings:
        if not finding.retryable:
            return finding.but(field="recipients", value=f"{finding.code}, {len(findings)} recipients")
    if not findings:
        return Finding(_of.RECIPIENT_INVALID)
    return findings[0].but(field="recipients", value=f"{findings[0].code}, {len(findings)} recipients")


def _replies(recipients: object) -> list[tuple[int | None, object]]:
    if isinstance(recipients, dict):
        return [(integer(item(reply, 0)), item(reply, 1)) for reply in recipients.values()]
    if isinstance(recipients, list | tuple):
        return [(integer(attribute(one, "code")), attribute(one, "message")) for one in recipients]
    return []


_SLACK: Final = by_word({
    _of.RATE_LIMITED: "ratelimited rate_limited accesslimited message_limit_exceeded",
    _of.UPSTREAM_ERROR: "internal_error fatal_error",
    _of.UPSTREAM_UNAVAILABLE: "service_unavailable team_added_to_org",
    _of.NETWORK_TIMEOUT: "request_timeout",
    _of.AUTH_DENIED: "invalid_auth not_authed token_revoked token_expired account_inactive invalid_token no_token",
    _of.PERMISSION_DENIED: (
        "missing_scope no_permission ekm_access_denied access_denied not_in_channel restricted_action "
        "org_login_required not_allowed_token_type cannot_dm_bot enterprise_is_restricted "
        "team_access_not_granted"
    ),
    _of.RECIPIENT_INVALID: (
        "channel_not_found user_not_found is_archived users_not_found channel_is_archived user_disabled "
        "no_service messages_tab_disabled"
    ),
    _of.NOT_FOUND: "message_not_found thread_not_found file_not_found team_not_found",
    _of.PAYLOAD_TOO_LARGE: "msg_too_long too_many_attachments msg_blocks_too_long",
    _of.REQUEST_REJECTED: (
        "invalid_arguments invalid_blocks invalid_arg_name no_text invalid_form_data invalid_json "
        "missing_post_type"
    ),
    _of.CONFIG_INVALID: "method_deprecated unknown_method deprecated_endpoint",
    _of.POLICY_REJECTED: "posting_to_general_channel_denied action_prohibited is_bot",
})  # fmt: skip


def of_slack(exc: BaseException, now: float) -> Finding:
    """A Slack answer: its word decides, also where HTTP says 200."""
    response = attribute(exc, "response")
    word = text_of(item(response, "error"))
    status = integer(attribute(response, "status_code"))
    headers = attribute(response, "headers")
    found = _SLACK.get(word or "")
    by_status = None if status is None else http.of_status(status, headers, now)
    if found is None:
        return by_status.but(code=word) if by_status is not None else Finding(
            _of.REQUEST_REJECTED, rule="slack.refused", field="response.error", value=word or "", code=word, status=status
        )  # fmt: skip
    return Finding(
        found, rule=f"slack.{word}", field="response.error", value=word or "", code=word, status=status,
        retry_after=http.retry_after(headers, now),
        severity=Severity.PERMANENT if found is _of.CONFIG_INVALID else None,
    )  # fmt: skip


def of_answer(exc: BaseException, now: float) -> Finding | None:
    """An SDK that carries the answer: status, headers and body."""
    found = status_of(exc)
    return None if found is None else provider.of_response(found[0], headers_of(exc), body_of(exc), now)


def _answer_or(error_class: ErrorClass) -> Reader:
    def read(exc: BaseException, now: float) -> Finding:
        return of_answer(exc, now) or Finding(error_class)

    return read


def of_twilio(exc: BaseException, now: float) -> Finding:
    """Twilio: HTTP status in `status`, its own number in `code`."""
    status, number = integer(attribute(exc, "status")), integer(attribute(exc, "code"))
    table = {
        20429: _of.RATE_LIMITED, 20003: _of.AUTH_DENIED, 20404: _of.NOT_FOUND, 21211: _of.RECIPIENT_INVALID,
        21610: _of.POLICY_REJECTED, 21614: _of.RECIPIENT_INVALID, 30003: _of.RECIPIENT_INVALID, 20500: _of.UPSTREAM_ERROR,
        20503: _of.UPSTREAM_UNAVAILABLE, 63038: _of.QUOTA_EXHAUSTED,
    }  # fmt: skip
    if number in table:
        return Finding(
            table[number], rule=f"twilio.{number}", field="code", value=str(number), code=str(number), status=status
        )
    found = None if status is None else http.of_status(status, headers_of(exc), now)
    return (found or Finding(_of.UPSTREAM_ERROR)).but(code=None if number is None else str(number))


RULES: Rules = {
    "smtplib.SMTPAuthenticationError": of_smtp,
    "smtplib.SMTPSenderRefused": of_sender,
    "smtplib.SMTPRecipientsRefused": of_recipients,
    "smtplib.SMTPResponseException": of_smtp,
    "smtplib.SMTPServerDisconnected": of_disconnect,
    "smtplib.SMTPNotSupportedError": _CONFIG,
    "smtplib.SMTPException": _BROKEN,
    "aiosmtplib.SMTPRecipientsRefused": of_recipients,
    "aiosmtplib.SMTPSenderRefused": of_sender,
    "aiosmtplib.SMTPConnectTimeoutError": Finding(_of.NETWORK_TIMEOUT),
    "aiosmtplib.SMTPTimeoutError": Finding(_of.NETWORK_TIMEOUT, outcome_unknown=True),
    "aiosmtplib.SMTPResponseException": of_smtp,
    "aiosmtplib.SMTPServerDisconnected": of_disconnect,
    "aiosmtplib.SMTPConnectError": Finding(_of.CONNECTION_REFUSED, weight=Weight.TRANSPORT),
    "aiosmtplib.SMTPNotSupported": _CONFIG,
    "aiosmtplib.SMTPException": of_other_smtp,
    "slack_sdk.SlackApiError": of_slack,
    "slack_sdk.SlackTokenRotationError": Finding(_of.AUTH_DENIED),
    "slack_sdk.BotUserAccessError": Finding(_of.PERMISSION_DENIED),
    "slack_sdk.SlackClientNotConnectedError": _BROKEN,
    "slack_sdk.SlackObjectFormationError": Finding(_of.SCHEMA_INVALID),
    "slack_sdk.SlackRequestError": _BUG,
    "slack_sdk.SlackClientConfigurationError": _CONFIG,
    "stripe.APIConnectionError": _BROKEN,
    "stripe.CardError": Finding(_of.POLICY_REJECTED),
    "stripe.SignatureVerificationError": Finding(_of.AUTH_DENIED, severity=Severity.PERMANENT),
    "stripe.RateLimitError": _answer_or(_of.RATE_LIMITED),
    "stripe.AuthenticationError": _answer_or(_of.AUTH_DENIED),
    "stripe.PermissionError": _answer_or(_of.PERMISSION_DENIED),
    "stripe.InvalidRequestError": _answer_or(_of.REQUEST_REJECTED),
    "stripe.IdempotencyError": _answer_or(_of.REQUEST_REJECTED),
    "stripe.StripeError": _answer_or(_of.UPSTREAM_ERROR),
    "twilio.TwilioRestException": of_twilio,
    "twilio.TwilioServiceException": of_twilio,
    "twilio.TwilioException": _CONFIG,
    "python_http_client.HTTPError": of_answer,
    "discord.HTTPException": of_answer,
    "telegram.NetworkError": _BROKEN,
}
