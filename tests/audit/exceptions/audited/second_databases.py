"""A second draw, written after the first was judged: databases, queues and clouds."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import asyncpg
import botocore.exceptions
import google.api_core.exceptions
import grpc
import psycopg
import redis
import sqlalchemy
import sqlalchemy.orm

from audited.case import (
    AUTH,
    AWAY,
    CONFIGURATION,
    CONFLICT,
    NETWORK,
    NOT_FOUND,
    POLICY,
    RATE_LIMIT,
    UNKNOWN,
    UPSTREAM,
    VALIDATION,
    Case,
    retry,
    stop,
)
from audited.cloud_aws import client
from audited.databases_embedded import Page, in_session
from audited.databases_postgres import DRIVERS, raising

if TYPE_CHECKING:
    from collections.abc import Iterator

    from audited.lab import Lab

CODE: Final = CONFIGURATION | VALIDATION

SQLSTATES: Final[tuple[tuple[str, bool, Any, str, bool], ...]] = (
    ("08001", True, NETWORK, "notes: 08* retry", False),
    ("08004", True, NETWORK, "notes: 08* retry", True),
    ("22003", False, VALIDATION, "notes: 22* permanent", False),
    ("22008", False, VALIDATION, "notes: 22* permanent", False),
    ("22023", False, VALIDATION | CONFIGURATION, "notes: 22* permanent", False),
    ("22P05", False, VALIDATION, "notes: 22* permanent", False),
    ("23000", False, VALIDATION, "notes: other 23* permanent", False),
    ("23001", False, VALIDATION, "notes: other 23* permanent", False),
    ("26000", False, CODE | UPSTREAM | NETWORK, "a prepared statement behind a pooler", True),
    ("3F000", False, CODE | NOT_FOUND, "a schema that is not there", False),
    ("42710", False, CODE | CONFLICT, "notes: 42* permanent", False),
    ("42P07", False, CODE | CONFLICT, "notes: 42* permanent", False),
    ("42804", False, CODE, "notes: 42* permanent", False),
    ("42P02", False, CODE, "notes: 42* permanent", False),
    ("53000", True, AWAY, "notes: 53* retry", False),
    ("53400", True, AWAY | CONFIGURATION, "notes: 53* retry", False),
    ("54000", False, CODE | UPSTREAM, "a limit of the program", True),
    ("55006", True, UPSTREAM | CONFLICT, "in use", True),
    ("57P05", True, AWAY, "an idle session was ended", True),
    ("58030", True, UPSTREAM | CONFIGURATION, "a sick disk", True),
    ("F0000", False, CONFIGURATION, "a broken configuration file", True),
    ("P0004", False, CONFIGURATION | VALIDATION, "an assertion: CRIT-1.9", True),
    ("XX002", False, CONFIGURATION, "a corrupted index", False),
)
AWS: Final[tuple[tuple[int, str, bool, Any, str, bool], ...]] = (
    (400, "AWS.SimpleQueueService.NonExistentQueue", False, NOT_FOUND | CONFIGURATION, "CRIT-1.7", False),
    (400, "MessageRejected", False, POLICY | VALIDATION, "SES refused the content", False),
    (400, "EndpointDisabled", False, NOT_FOUND | POLICY | VALIDATION, "a device that is gone", True),
    (409, "ResourceConflictException", True, CONFLICT, "decision 4", False),
    (500, "InsufficientInstanceCapacity", True, UPSTREAM, "CRIT-1.3", False),
    (400, "ThrottledException", True, RATE_LIMIT, "notes: the code beats the status", False),
    (400, "BandwidthLimitExceeded", True, RATE_LIMIT, "notes: the code beats the status", False),
    (400, "InvalidParameterValueException", False, VALIDATION, "CRIT-1.5", False),
    (403, "AccessDeniedException", False, AUTH, "CRIT-1.6", False),
    (401, "UnauthorizedException", False, AUTH, "CRIT-1.6", False),
    (504, "GatewayTimeout", True, AWAY, "CRIT-1.1", False),
    (400, "ACodeOfNextYear", False, VALIDATION, "a 400 is a 400", False),
    (503, "ACodeOfNextYear", True, AWAY, "a 503 is a 503", False),
    (400, "LimitExceeded", True, RATE_LIMIT | VALIDATION, "a limit", True),
)


def cases() -> Iterator[Case]:
    """All of them."""
    names = list(DRIVERS)
    for number, (code, retryable, categories, reason, arguable) in enumerate(SQLSTATES):
        for name in (names[number % 4], names[(number + 1) % 4]):
            library, run = DRIVERS[name]
            yield Case(
                label=f"{name} {code}, second draw",
                library=library,
                provoke=lambda lab, run=run, code=code: run(lab, raising(code)),
                retryable=retryable,
                categories=categories,
                reason=reason,
                arguable=arguable,
            )
    for status, code, retryable, categories, reason, arguable in AWS:
        yield Case(
            label=f"botocore {status} {code}, second draw",
            library="botocore",
            provoke=lambda lab, status=status, code=code: _queue(lab, status, code),
            retryable=retryable,
            categories=categories,
            reason=reason,
            arguable=arguable,
        )
    yield from _natural()
    yield from _aws_side()
    yield from _rest()


def _queue(lab: Lab, status: int, code: str) -> object:
    queue = client("sqs", lab.http.url(status, {}, {"__type": f"com.amazonaws.sqs#{code}", "message": "as asked"}))
    try:
        return queue.send_message(QueueUrl="http://127.0.0.1/q", MessageBody="x")
    finally:
        queue.close()


def _lock_timeout(lab: Lab) -> object:
    with psycopg.connect(lab.postgres) as one, psycopg.connect(lab.postgres) as two:
        one.execute("SELECT pg_advisory_xact_lock(77)")
        two.execute("SET lock_timeout = 20")
        return two.execute("SELECT pg_advisory_xact_lock(77)")


def _no_wait(lab: Lab) -> object:
    with psycopg.connect(lab.postgres) as one, psycopg.connect(lab.postgres) as two:
        one.execute("LOCK TABLE pg_catalog.pg_class IN SHARE ROW EXCLUSIVE MODE")
        return two.execute("LOCK TABLE pg_catalog.pg_class IN SHARE ROW EXCLUSIVE MODE NOWAIT")


def _deadlock(lab: Lab) -> object:
    caught: list[BaseException] = []
    first = threading.Barrier(2)

    def work(mine: int, other: int) -> None:
        try:
            with psycopg.connect(lab.postgres) as connection:
                connection.execute("SET deadlock_timeout = 20")
                connection.execute(f"SELECT pg_advisory_xact_lock({mine})")
                first.wait(5)
                connection.execute(f"SELECT pg_advisory_xact_lock({other})")
        except psycopg.Error as exc:
            caught.append(exc)

    threads = [threading.Thread(target=work, args=pair) for pair in ((1, 2), (2, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return caught[0]


def _serialization(lab: Lab) -> object:
    with psycopg.connect(lab.postgres, autocommit=True) as setup:
        setup.execute("CREATE TABLE IF NOT EXISTS tally (id int PRIMARY KEY, n int)")
        setup.execute("INSERT INTO tally VALUES (1, 0) ON CONFLICT DO NOTHING")
    with psycopg.connect(lab.postgres) as one, psycopg.connect(lab.postgres, autocommit=True) as two:
        one.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        one.execute("SELECT n FROM tally")
        two.execute("UPDATE tally SET n = n + 1")
        return one.execute("UPDATE tally SET n = n + 1")


def _pool_of_asyncpg(lab: Lab) -> object:
    async def run() -> object:
        async with asyncpg.create_pool(lab.postgres, min_size=1, max_size=1) as pool, pool.acquire():
            return await pool.acquire(timeout=0.05)

    return run()


def _natural() -> Iterator[Case]:
    locked = UPSTREAM | CONFLICT | NETWORK
    yield retry("psycopg", "psycopg really lock_timeout", _lock_timeout, locked, "55P03")
    yield retry("psycopg", "psycopg really NOWAIT", _no_wait, locked, "55P03")
    yield retry("psycopg", "psycopg really deadlocked", _deadlock, CONFLICT, "40P01")
    yield retry("psycopg", "psycopg really not serializable", _serialization, CONFLICT, "40001")
    yield retry("asyncpg", "asyncpg pool is empty", _pool_of_asyncpg, AWAY, "a timeout")
    yield stop(
        "sqlalchemy", "SQLAlchemy PendingRollbackError", in_session(_pending), CONFIGURATION | CONFLICT, "an illegal state: CRIT-1.9",
        arguable=True,
    )  # fmt: skip
    yield stop(
        "sqlalchemy", "SQLAlchemy CompileError", in_session(lambda session: session.execute(sqlalchemy.insert(Page).values(nope=1))),
        CODE, "a bug",
    )  # fmt: skip
    yield stop(
        "sqlalchemy",
        "SQLAlchemy UnmappedInstanceError",
        in_session(lambda session: session.add(object())),
        CONFIGURATION,
        "a bug",
    )
    yield stop("sqlalchemy", "SQLAlchemy ResourceClosedError", in_session(_closed_result), CONFIGURATION, "a bug")
    yield stop(
        "sqlalchemy",
        "SQLAlchemy IntegrityError of the mapper",
        in_session(_missing_text),
        VALIDATION,
        "a NOT NULL: CRIT-1.5",
    )


def _pending(session: sqlalchemy.orm.Session) -> object:
    session.add_all([Page(id=1), Page(id=1, text="b")])
    try:
        session.flush()
    except sqlalchemy.exc.SQLAlchemyError:
        return session.execute(sqlalchemy.text("SELECT 1"))
    return None


def _closed_result(session: sqlalchemy.orm.Session) -> object:
    result = session.execute(sqlalchemy.text("SELECT 1"))
    result.close()
    return result.fetchall()


def _missing_text(session: sqlalchemy.orm.Session) -> object:
    session.add(Page(id=9))
    return session.flush()


def _aws_side() -> Iterator[Case]:
    of = botocore.exceptions
    url = "http://127.0.0.1/"
    yield retry(
        "botocore",
        "botocore ConnectTimeoutError",
        lambda _: of.ConnectTimeoutError(endpoint_url=url),
        NETWORK,
        "CRIT-1.1",
    )
    yield retry(
        "botocore",
        "botocore ProxyConnectionError",
        lambda _: of.ProxyConnectionError(proxy_url=url),
        NETWORK,
        "CRIT-1.1",
    )
    yield retry(
        "botocore",
        "botocore IncompleteReadError",
        lambda _: of.IncompleteReadError(actual_bytes=1, expected_bytes=2),
        AWAY,
        "a lost answer",
    )
    yield retry(
        "botocore",
        "botocore ResponseStreamingError",
        lambda _: of.ResponseStreamingError(error="reset"),
        AWAY,
        "a lost answer",
    )
    yield stop(
        "botocore",
        "botocore PartialCredentialsError",
        lambda _: of.PartialCredentialsError(provider="env", cred_var="x"),
        AUTH | CONFIGURATION,
        "ORC-1.4",
    )
    yield stop(
        "botocore",
        "botocore TokenRetrievalError",
        lambda _: of.TokenRetrievalError(provider="sso", error_msg="expired"),
        AUTH | CONFIGURATION,
        "CRIT-1.6",
        arguable=True,
    )
    yield stop(
        "botocore",
        "botocore UnauthorizedSSOTokenError",
        lambda _: of.UnauthorizedSSOTokenError(),
        AUTH | CONFIGURATION,
        "CRIT-1.6",
    )
    yield stop(
        "botocore", "botocore InvalidRegionError", lambda _: of.InvalidRegionError(region_name="mars"), CODE, "ORC-1.4"
    )
    yield stop("botocore", "botocore really ParamValidationError", _parameters, CODE, "CRIT-1.5")


def _parameters(lab: Lab) -> object:
    queue = client("sqs", lab.refused)
    try:
        return queue.send_message(QueueUrl="http://127.0.0.1/q")
    finally:
        queue.close()


def _rest() -> Iterator[Case]:
    of = redis.exceptions
    yield stop(
        "redis",
        "redis PubSubError",
        lambda _: of.PubSubError("pubsub connection not set"),
        CONFIGURATION,
        "an illegal state",
        arguable=True,
    )
    yield stop("redis", "redis AuthorizationError", lambda _: of.AuthorizationError("denied"), AUTH, "CRIT-1.6")
    yield stop(
        "redis",
        "redis AuthenticationWrongNumberOfArgsError",
        lambda _: of.AuthenticationWrongNumberOfArgsError("AUTH"),
        AUTH | CONFIGURATION,
        "notes: auth first",
    )
    yield retry(
        "redis",
        "redis InvalidResponse",
        lambda _: of.InvalidResponse("Protocol Error: b'x'"),
        AWAY | VALIDATION | CONFIGURATION,
        "a garbled line",
        arguable=True,
    )
    yield retry(
        "redis",
        "redis SlotNotCoveredError",
        lambda _: of.SlotNotCoveredError("Slot 7 is not covered"),
        AWAY,
        "a failover",
        arguable=True,
    )
    api = google.api_core.exceptions
    yield retry(
        "google.api_core",
        "api_core Aborted",
        lambda _: api.Aborted("concurrent change"),
        CONFLICT,
        "notes: ABORTED retry",
    )
    yield retry(
        "google.api_core",
        "api_core RetryError over a permanent cause",
        _permanent_cause,
        AUTH | AWAY,
        "the cause is a 403",
        arguable=True,
    )
    yield stop(
        "google.api_core",
        "api_core FailedPrecondition",
        lambda _: api.FailedPrecondition("not empty"),
        CODE | CONFLICT,
        "not before it is mended",
    )
    yield retry("grpc", "a bare RpcError", lambda _: grpc.RpcError("broken"), AWAY | UNKNOWN, "nothing is known of it")


def _permanent_cause(_: Lab) -> object:
    api = google.api_core.exceptions
    return api.RetryError("Timeout of 1s exceeded", cause=api.PermissionDenied("no"))
