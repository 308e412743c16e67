"""What a person needs to find the failure again, and no redactor may take: ids, digests, times, places, codes."""

import json
from collections.abc import Callable, Iterator

from redaction_audit import frames, vendors
from redaction_audit.draw import Draw
from redaction_audit.plants import Plant

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def _not_luhn(draw: Draw, template: str) -> str:
    """Digits that are no card's number."""
    while True:
        number = draw.fill(template)
        reverse = [int(digit) for digit in reversed(number)]
        if sum(sum(divmod(digit * 2, 10)) if at % 2 else digit for at, digit in enumerate(reverse)) % 10:
            return number


def _ulid(draw: Draw) -> str:
    return "01J" + "".join(draw.choices(_CROCKFORD, k=23))


def _t(template: str) -> Callable[[Draw], str]:
    return lambda draw: draw.fill(template)


_UUID = "{h8}-{h4}-4{h3}-a{h3}-{h12}"

IDENTIFIERS: dict[str, tuple[Callable[[Draw], str], tuple[str, ...]]] = {
    "uuid": (_t(_UUID), ("job {}", "request_id={}", "correlation-id: {}", "{}")),
    "uuid-upper": (_t("{H8}-{H4}-4{H3}-A{H3}-{H12}"), ("Activity ID {}", "device {}")),
    "git-sha": (_t("{h40}"), ("commit {}", "HEAD is now at {}", "checked out {} on main", "sha={}", "https://git.example.com/a/b/commit/{}")),
    "git-short": (_t("{h7}"), ("index {}..3f2a91c 100644", "[main {}] Fix it")),
    "sha256": (_t("{h64}"), ("sha256:{}", "--hash=sha256:{}", "digest {} mismatch", "checksum={}", "SHA256 (a.tgz) = {}")),
    "md5": (_t("{h32}"), ("md5sum {}", "etag {}", "Content-MD5 of body is {}", "fingerprint={}", "{}  dist/app.tar.gz")),
    "sri": (_t("sha512-{b86}=="), ('"integrity": "{}"', "integrity {}")),
    "image-digest": (_t("registry.example.com/app@sha256:{h64}"), ("pulling {}", "image: {}")),
    "request-id-anthropic": (_t("req_011C{a20}"), ("request_id: {}", "(request id: {})", "request-id={}", "x-request-id: {}")),
    "request-id-openai": (_t("req_{h32}"), ("x-request-id: {}", "Please include the request ID {} in your message.")),
    "completion-id": (_t("chatcmpl-{a29}"), ('"id": "{}"', "completion {} stopped")),
    "message-id": (_t("msg_01{a22}"), ("id='{}'", "message {} overloaded")),
    "aws-request": (_t("{A16}"), ("RequestId: {}", "x-amz-request-id: {}")),
    "trace-id": (_t("{h32}"), ("trace_id={}", "traceparent: 00-{}-b7ad6b7169203331-01", "trace {} sampled", "X-B3-TraceId: {}")),
    "span-id": (_t("{h16}"), ("span_id={}", "dd.span_id={}")),
    "ulid": (_ulid, ("job {}", "event_id={}", "order {} is stuck")),
    "nanoid": (_t("job_{u21}"), ("{} failed", "retrying {}")),
    "objectid": (_t("{h24}"), ("ObjectId('{}')", "document {} not found")),
    "timestamp-iso": (lambda d: d.fill("2024-0{d1}-1{d1}T1{d1}:2{d1}:3{d1}.{d6}+02:00"), ("at {}", "next_retry_at={}", "{}")),
    "timestamp-ms": (lambda d: d.fill("17{d11}"), ("ts={}", "deadline {} passed")),
    "timestamp-http": (lambda d: d.fill("Mon, 1{d1} Jun 2024 1{d1}:2{d1}:00 GMT"), ("Retry-After: {}", "date: {}")),
    "duration": (lambda d: d.fill("1{d1}.{d3}s"), ("took {}", "Please retry in {}.")),
    "path": (lambda d: d.fill("/var/lib/app/{L6}/{L8}/part-{d5}.parquet"), ('File "{}", line 3', "no such file: {}", "open {}")),
    "windows-path": (lambda d: d.fill("C:\\builds\\agent{d2}\\{L7}.py"), ("in {}",)),
    "version": (lambda d: d.fill("{d1}.{d2}.{d1}+build.{h7}"), ("version {}", "requires >={}")),
    "port": (lambda d: d.fill("localhost:5{d4}"), ("connect {}", "dial tcp {}: refused")),
    "numeric-id": (lambda d: _not_luhn(d, "7{d9}"), ("order {} failed", "user_id={}", "changelist {}", "row id {}")),
    "long-number": (lambda d: _not_luhn(d, "9{d15}"), ("snowflake {}", "offset={}")),
    "order-number": (lambda d: d.fill("ORD-2024-{d8}"), ("order {}", "order_no={}")),
    "idempotency-key": (lambda d: d.fill("cl-{d5}@{d1}"), ("idempotency_key={}", "idempotency_key: {}", "job key {}")),
    "job-key": (lambda d: d.fill("import:tenant-{d3}:2024-05-06"), ("job_key={}", "unique key {}", "lock key {}")),
    "cache-key": (lambda d: d.fill("user:{d6}:profile:v2"), ("cache_key={}", "key={}", "WRONGTYPE for key {}")),
    "s3-key": (lambda d: d.fill("exports/2024/09/{h8}/part-0001.csv.gz"), ("<Key>{}</Key>", "object_key={}", "NoSuchKey: {}")),
    "s3-uri": (lambda d: d.fill("s3://data-{L5}/raw/dt=2024-05-06/{h12}.json"), ("reading {}", "uri={}")),
    "arn": (lambda d: d.fill("arn:aws:sqs:eu-west-1:{d12}:{L6}-dlq"), ("queue {}", "resource: {}")),
    "pod": (lambda d: d.fill("checkout-{h9}-{L5}"), ("pod/{}", 'pod "{}" evicted')),
    "host": (lambda d: d.fill("ip-10-{d2}-{d2}-{d2}.eu-west-1.compute.internal"), ("host={}", "node {}")),
    "etag": (lambda d: d.fill('"{h32}-12"'), ("ETag: {}", "If-None-Match: {}")),
    "sqlstate": (lambda d: d.choice(("23505", "40001", "57P01", "08006")), ("SQLSTATE[{}]", "(sqlstate {})", "ERROR {}: failed")),
    "errno": (lambda d: f"[Errno {d.randint(1, 130)}]", ("{} failed", "OSError: {} refused")),
    "error-code": (lambda d: d.fill("ORA-{d5}"), ("{}: bad", "code {}")),
    "address": (lambda d: d.fill("0x7f{h10}"), ("<Connection object at {}>", "segfault at {}")),
    "line-number": (lambda d: f"line {d.randint(1, 4000)}, in handle", ('File "/srv/a.py", {}',)),
    "pseudo-version": (lambda d: d.fill("v0.0.0-2024050612{d4}-{h12}"), ("golang.org/x/net {}", "module {}")),
    "kafka": (lambda d: d.fill("orders-{d1}@{d9}"), ("partition {}", "offset at {}")),
    "lsn": (lambda d: d.fill("{H1}/{H8}"), ("at LSN {}", "wal position {}")),
    "twilio-sid": (_t("SM{h32}"), ("message {} undelivered",)),
    "stripe-object": (_t("pi_3{a23}"), ("payment intent {} failed", "charge for {}")),
    "subscription": (_t(_UUID), ("/subscriptions/{}/resourceGroups/shop",)),
    "token-counts": (lambda d: f"prompt_tokens={d.randint(10, 9999)}", ("usage {}", "CompletionUsage({})")),
    "max-tokens": (lambda d: f"max_tokens={d.randint(10, 9999)}", ("create({}, n=1)",)),
}  # fmt: skip

_BESIDE_SECRETS: tuple[str, ...] = (
    "{name}={value} api_key={secret} attempt=3",
    "api_key={secret} {name}={value}",
    "{name}={value} password='{secret}' retry=no",
    'refused "{secret}" ({name}: {value})',
    "{name} {value}: Incorrect API key provided: {secret}.",
    "https://api.example.com/v1/{value}/run?access_token={secret}&page=2",
    "Authorization: Bearer {secret}\nX-Request-Id: {value}",
)
_PER_SENTENCE = 4
_PER_PAIR = 5


def planted_identifiers(seed: int) -> Iterator[Plant]:
    """All of them; the same for the same seed."""
    draw = Draw(seed + 2)
    for kind, (make, sentences) in IDENTIFIERS.items():
        for sentence in sentences:
            for frame in ("raw", *draw.sample(sorted(frames.LINE_FRAMES), _PER_SENTENCE)):
                value = make(draw)
                text, keep = frames.LINE_FRAMES[frame](draw, sentence.format(value))
                if value in text:  # an escape may have changed a path's backslashes or an etag's quotes
                    yield Plant(kind, f"{frame} {sentence}", text, (), (value, *keep))
    yield from _beside_secrets(draw)
    yield from _fields(draw)


def _beside_secrets(draw: Draw) -> Iterator[Plant]:
    names = {"request_id": "uuid", "trace_id": "trace-id", "commit": "git-sha", "job": "ulid", "order_id": "numeric-id",
             "digest": "sha256", "pod": "pod"}  # fmt: skip
    for name, kind in names.items():
        for template in _BESIDE_SECRETS:
            for _ in range(_PER_PAIR):
                value = IDENTIFIERS[kind][0](draw)
                secret = vendors.vendor_key(draw, draw.choice(("github-token", "openai-key", "stripe-key", "sendgrid")))
                line = template.format(name=name, value=value, secret=secret)
                frame = draw.choice(sorted(frames.BLOCK_FRAMES))
                text, keep = frames.BLOCK_FRAMES[frame](draw, line)
                yield Plant(f"beside-secret:{kind}", f"{frame} {template}", text, (secret,), (value, *keep))


def _fields(draw: Draw) -> Iterator[Plant]:
    """Identifiers as fields of a record, with the names they usually have."""
    names = {
        "request_id": "uuid", "requestId": "request-id-anthropic", "traceId": "trace-id", "commit_sha": "git-sha",
        "sha256": "sha256", "etag": "md5", "job_id": "ulid", "imageDigest": "image-digest", "order_id": "numeric-id",
        "idempotency_key": "idempotency-key", "cacheKey": "cache-key", "object_key": "s3-key", "queue_arn": "arn",
        "payload_hash": "sha256", "created_at": "timestamp-iso", "primary_key": "numeric-id", "partition_key": "job-key",
        "fingerprint": "md5", "sort_key": "job-key", "routing_key": "job-key",
        "checkpoint": "ulid", "host_key_algorithm": "version",
    }  # fmt: skip
    for name, kind in names.items():
        for write in (
            json.dumps,
            repr,
            lambda record: json.dumps(json.dumps(record)),
            lambda record: f"Job({_kwargs(record)})",
        ):
            value = IDENTIFIERS[kind][0](draw)
            text = write({"attempt": 2, name: value, "stage": "llm"})
            yield Plant(f"field:{name}", "record", text, (), (value, "stage"))


def _kwargs(record: dict[str, object]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in record.items())
