"""Which names give their values away, and what kind of value each one holds."""

from __future__ import annotations

import functools
import re
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """How a value is read and judged, by the name that it stands under."""

    PASSWORD = "password"
    """Anything that is not code: people choose weak ones."""
    TOKEN = "token"
    """Anything that is not code, a number or a word of two or three letters."""
    STRICT = "strict"
    """Only what looks random: the name alone does not say enough."""
    HEADER = "header"
    """A header's value, up to the end of its line."""
    PHRASE = "phrase"
    """Several words."""
    PERSON = "person"
    """A person's name, address, birth date or number."""
    SPACED = "spaced"
    """Only what is written like a name or an address: capitals, or a number and a street."""


_PASSWORD: Final = "password passwd passwort pwd pass pw psw passcode passw kennwort contrasena senha mot_de_passe wachtwoord pin pin_code cvv cvc cvv2 cvc2 security_code otp totp mfa_code otp_code verification_code one_time_code auth_code sms_code backup_code recovery_code login_code 2fa_code requirepass masterauth storepass keypass p4passwd userpass dbpass rootpass security_answer"
_PHRASE: Final = "passphrase pass_phrase seed_phrase mnemonic recovery_phrase seed_words secret_phrase"
_TOKEN: Final = "secret secrets token apikey api_key x_api_key access_key secret_key secret_access_key private_key privatekey signing_key signature_key encryption_key master_key account_key shared_key shared_access_key auth_key license_key licence_key service_key storage_key deploy_key session_key app_key application_key consumer_key subscription_key integration_key write_key ingest_key ssh_key pgp_key gpg_key tls_key ssl_key hmac_key aes_key rsa_key crypto_key root_key admin_key activation_key webhook_key function_key functions_key client_key client_key_data server_key registration_key credential credentials creds cred auth csrf xsrf csrf_token jwt bearer client_secret sas_token identitytoken registrytoken authtoken accesstoken refreshtoken sessiontoken csrfmiddlewaretoken authenticity_token client_assertion recovery_key backup_key connection_string connectionstring conn_str connstr conn_string ticket p4ticket encrypted_password password_hash passwd_hash basic_auth auth_header secret_value secret_string secretstring private_token job_token deploy_token id_token session_token vault_token bot_token user_token api_token api_secret app_secret shared_secret hmac_secret webhook_secret jwt_secret cookie_secret session_secret secret_key_base encryption_secret _authtoken _auth"
_STRICT: Final = "session session_id sessionid sid phpsessid jsessionid asp_net_sessionid connect_sid sessid sig signature x_amz_signature x_amz_credential x_amz_security_token x_goog_signature x_goog_credential hmac sas code nonce salt state assertion key dsn webhook webhook_url host_key public_token publishable_key anon_key device_token push_token"
_HEADER: Final = "authorization proxy_authorization cookie set_cookie cookies x_auth_token x_access_token x_amz_security_token x_csrf_token x_xsrf_token x_vault_token x_gitlab_token x_shopify_access_token x_goog_api_key x_functions_key ocp_apim_subscription_key private_token_header x_authorization x_forwarded_authorization api_key_header x_hub_signature x_hub_signature_256 x_slack_signature stripe_signature x_twilio_signature www_authenticate_token dd_api_key dd_application_key x_api_token x_token apikey_header set_cookie2"
_PERSON: Final = "full_name fullname first_name firstname last_name lastname middle_name given_name givenname family_name familyname maiden_name mothers_maiden_name surname forename vorname nachname customer_name patient_name legal_name real_name card_holder cardholder cardholder_name card_holder_name holder_name account_holder account_holder_name employee_name passenger_name guest_name beneficiary beneficiary_name contact_name contact_person recipient_name sender_name date_of_birth dob birth_date birthdate birthday birth_day geburtsdatum street street_address street_name street1 street2 address_line address_line1 address_line2 address_1 address_2 address1 address2 home_address postal_address mailing_address billing_address shipping_address residential_address delivery_address postal_code postcode zip_code zipcode passport passport_number passport_no national_id national_id_number national_insurance_number nino nin social_security_number social_security ssn tax_id taxid tax_number tin itin sin_number personal_id personal_number personnummer aadhaar aadhar cpf curp bsn dni nie id_card id_card_number identity_number identity_card drivers_license driver_license driving_licence driving_license license_plate medical_record_number mrn health_insurance_number insurance_number phone phone_number phonenumber phone_no telephone telephone_number tel mobile mobile_number mobile_phone cell cell_phone cellphone home_phone work_phone fax fax_number whatsapp msisdn contact_number caller_number to_number from_number iban bank_account account_number bank_account_number routing_number sort_code card_number cardnumber credit_card credit_card_number cc_number pan email email_address e_mail user_email customer_email contact_email"
_SPACED: Final = "display_name displayname client_name owner_name person_name person username_full address customer patient applicant attendee"

TERMS: Final[dict[str, Kind]] = {
    **dict.fromkeys(_SPACED.split(), Kind.SPACED),
    **dict.fromkeys(_PERSON.split(), Kind.PERSON),
    **dict.fromkeys(_STRICT.split(), Kind.STRICT),
    **dict.fromkeys(_TOKEN.split(), Kind.TOKEN),
    **dict.fromkeys(_PASSWORD.split(), Kind.PASSWORD),
    **dict.fromkeys(_PHRASE.split(), Kind.PHRASE),
    **dict.fromkeys(_HEADER.split(), Kind.HEADER),
}

# Written together with what they belong to: `dbpassword`, `authtoken`, `mysecret`.
_COMPOUND: Final = (
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "apikey",
    "secretkey",
    "accesskey",
    "privatekey",
    "authkey",
)
_IGNORED_TAILS: Final = frozenset(
    [
        "value",
        "raw",
        "plain",
        "plaintext",
        "b64",
        "base64",
        "old",
        "new",
        "current",
        "prod",
        "production",
        "dev",
        "test",
        "testing",
        "staging",
        "live",
        "str",
        "string",
        "env",
        "confirm",
        "confirmation",
        "repeat",
        "again",
        "primary",
        "secondary",
        "main",
        "default",
        "data",
        "bytes",
        "hex",
        "text",
        "param",
        "ref1",
        "arg",
        "x",
        "y",
    ]
)
_STRONG: Final = frozenset(
    ["password", "passwd", "pwd", "passphrase", "secret", "apikey", "token", "credential", "credentials"]
)
_HARMLESS_TAILS: Final = frozenset(
    [
        "count",
        "counts",
        "type",
        "types",
        "id",
        "ids",
        "name",
        "names",
        "file",
        "filename",
        "path",
        "url",
        "uri",
        "endpoint",
        "len",
        "length",
        "size",
        "limit",
        "limits",
        "budget",
        "usage",
        "used",
        "expires",
        "expiry",
        "expiration",
        "expired",
        "ttl",
        "at",
        "age",
        "arn",
        "hint",
        "policy",
        "policies",
        "field",
        "fields",
        "format",
        "class",
        "error",
        "errors",
        "exception",
        "required",
        "enabled",
        "disabled",
        "version",
        "provider",
        "manager",
        "method",
        "methods",
        "index",
        "position",
        "pos",
        "idx",
        "scope",
        "scopes",
        "issuer",
        "audience",
        "algorithm",
        "alg",
        "kind",
        "status",
        "state",
        "valid",
        "invalid",
        "verified",
        "set",
        "unset",
        "present",
        "missing",
        "exists",
        "reset",
        "attempts",
        "tries",
        "min",
        "max",
        "rate",
        "per",
        "seconds",
        "ms",
        "time",
        "timeout",
        "date",
        "created",
        "updated",
        "rotation",
        "label",
        "description",
        "title",
        "prompt",
        "input",
        "output",
        "cache",
        "store",
        "storage",
        "backend",
        "handler",
        "factory",
        "service",
        "client",
        "server",
        "loader",
        "parser",
        "getter",
        "callback",
        "func",
        "fn",
        "cls",
        "module",
        "pattern",
        "regex",
        "re",
        "validator",
        "validators",
        "strength",
        "score",
        "char",
        "chars",
        "ratio",
        "usage",
        "total",
        "remaining",
        "tokens",
        "tokenizer",
        "stream",
        "it",
        "engine",
        "config",
        "settings",
        "options",
        "opts",
        "dir",
        "folder",
        "list",
        "map",
        "dict",
        "schema",
        "model",
        "serializer",
        "view",
        "form",
        "section",
        "group",
        "user",
        "users",
        "owner",
        "email",
        "mail",
        "host",
        "port",
        "family",
        "env_name",
        "var",
        "variable",
        "key_id",
        "keyid",
        "header_name",
        "param_name",
        "helper",
        "utils",
        "util",
        "mixin",
        "base",
        "meta",
        "info",
    ]
)
_RUN_TOGETHER: Final[dict[str, Kind]] = {
    term.replace("_", ""): kind
    for term, kind in TERMS.items()
    if "_" in term and kind in (Kind.TOKEN, Kind.PHRASE) and term.endswith(("key", "secret", "token", "phrase"))
}
_KEYS_TO_NOTHING: Final = frozenset(
    "primary foreign partition sort cache routing idempotency public lookup object bucket row hash group dedup dedupe "
    "deduplication translation message delivery job shard index map dict config option order range candidate natural unique "
    "composite s3 blob file path entity item record state context parent child node tree event metric tag label hot arrow "
    "enter return delete escape control shift alt meta home end up down left right on any press next prev first last min max "
    "by get set no is has of the for sorting grouping join merge search filter query param header field column attr attribute "
    "property env variable name id type kind data json yaml value result task queue topic stream redis memo registry class "
    "module locale template settings default extra other another new old key dictionary mapping expected unknown missing "
    "invalid required bad wrong same".split()
)
_ONE_WORD: Final[dict[str, Kind]] = {term.replace("_", ""): kind for term, kind in TERMS.items() if "_" in term}
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATOR: Final = re.compile(r"[^A-Za-z0-9]+")


@functools.lru_cache(maxsize=4096)
def kind_of(name: bytes) -> Kind | None:
    """What stands under this name; None for a name that gives nothing away."""
    segments = [part for part in _SEPARATOR.split(_CAMEL.sub("_", name.decode("latin-1"))) if part]
    words = [part.lower() for part in segments]
    whole = "_".join(words)
    if whole in TERMS:
        return TERMS[whole]
    if len(words) == 1 and whole in _ONE_WORD:
        return _ONE_WORD[whole]
    while len(words) > 1 and (words[-1] in _IGNORED_TAILS or words[-1].isdigit()):
        words.pop()
    if not words:
        return None
    for length in (4, 3, 2, 1):
        kind = TERMS.get("_".join(words[-length:])) if len(words) >= length else None
        if kind is not None:
            return _weighed(kind, words, length)
    last = words[-1]
    for term, kind in _RUN_TOGETHER.items():
        if last.endswith(term):
            return kind
    if any(last.endswith(word) for word in _COMPOUND):
        return Kind.PASSWORD if last.endswith(("password", "passwd", "pwd")) else Kind.TOKEN
    if last in _HARMLESS_TAILS:
        return None
    return Kind.STRICT if _STRONG.intersection(words) else None


_PLAIN_ALONE: Final = frozenset(
    [
        "code",
        "state",
        "nonce",
        "salt",
        "sig",
        "cell",
        "tel",
        "pan",
        "tin",
        "street",
        "person",
        "address",
        "customer",
        "patient",
    ]
)


def _weighed(kind: Kind, words: list[str], length: int) -> Kind | None:
    """What a term says at the end of a longer name: `primary_key` and `error_code` say nothing."""
    term = "_".join(words[-length:])
    if len(words) > length and term in _PLAIN_ALONE:
        return None
    if len(words) > length and term == "key":
        return None if words[-2] in _KEYS_TO_NOTHING else Kind.STRICT
    if len(words) > length and words[-length - 1] in (
        "public",
        "no",
        "num",
        "max",
        "min",
        "n",
        "total",
        "is",
        "has",
        "next",
        "per",
        "cost",
        "page",
    ):
        return None
    if (
        term == "pass"
        and len(words) > length
        and words[-2] in ("render", "first", "second", "low", "high", "band", "by")
    ):
        return None
    return kind


MULTIPLE: Final = re.compile(rb"(?i)tokens\Z")
