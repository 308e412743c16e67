"""Python itself and its standard library."""

from __future__ import annotations

import errno
from typing import Final

from reprieve.core import provider
from reprieve.core.facts import attribute, headers_of, integer, text_of, words_of
from reprieve.core.failure import ErrorClass, Scope, Severity
from reprieve.core.finding import Finding, Rules, Weight

_of = ErrorClass
_BUG = Finding(_of.BUG)
_DATA = Finding(_of.SCHEMA_INVALID)
_RESET = Finding(_of.CONNECTION_RESET, outcome_unknown=True)
_REFUSED = Finding(_of.CONNECTION_REFUSED)
_TIMEOUT = Finding(_of.NETWORK_TIMEOUT, outcome_unknown=True)
_RESOURCE = Finding(_of.RESOURCE_EXHAUSTED)
_CONFIG = Finding(_of.CONFIG_INVALID, severity=Severity.PERMANENT)
_MISSING = Finding(_of.NOT_FOUND)
_DENIED = Finding(_of.PERMISSION_DENIED)

_ERRNOS: Final = (
    (_RESET, "ECONNRESET EPIPE ESHUTDOWN ECONNABORTED ENETRESET ENOTCONN EPROTO EINPROGRESS EALREADY"),
    (_REFUSED, "ECONNREFUSED EHOSTUNREACH ENETUNREACH ENETDOWN EHOSTDOWN"),
    (_TIMEOUT, "ETIMEDOUT EAGAIN"),
    (Finding(_of.CONNECTION_RESET), "EINTR ESTALE"),
    (Finding(_of.LOCK_TIMEOUT), "EBUSY ETXTBSY EDEADLK"),
    (_RESOURCE, "ENOLCK ENOSPC EDQUOT EMFILE ENFILE ENOMEM ENOBUFS EADDRNOTAVAIL"),
    (Finding(_of.UPSTREAM_ERROR, outcome_unknown=True), "EIO"),
    (_CONFIG, "EADDRINUSE ENOTSUP EOPNOTSUPP ENOSYS EAFNOSUPPORT EPROTONOSUPPORT ENOEXEC EROFS EXDEV ELOOP EISDIR"),
    (_MISSING, "ENOENT ENOTDIR ENXIO ENODEV ESRCH ECHILD"),
    (_DENIED, "EACCES EPERM"),
    (Finding(_of.WRITE_CONFLICT), "EEXIST ENOTEMPTY"),
    (_DATA, "ENAMETOOLONG"),
    (Finding(_of.PAYLOAD_TOO_LARGE), "EFBIG EMSGSIZE E2BIG"),
    (_BUG, "EINVAL EBADF ENOTSOCK EDESTADDRREQ"),
)
_BY_NUMBER: Final = {
    getattr(errno, name): (name, row) for row, names in _ERRNOS for name in names.split() if hasattr(errno, name)
}
_DNS: Final = {-2: "EAI_NONAME", -3: "EAI_AGAIN", -4: "EAI_FAIL", -5: "EAI_NODATA", -8: "EAI_SERVICE", -6: "EAI_FAMILY"}
_BAD_CERTIFICATE_REASONS = (
    "CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER", "UNSUPPORTED_PROTOCOL", "NO_SHARED_CIPHER",
    "HTTP_REQUEST", "TLSV1_ALERT_UNKNOWN_CA", "SSLV3_ALERT_CERTIFICATE_UNKNOWN", "SSLV3_ALERT_BAD_CERTIFICATE",
    "TLSV1_ALERT_PROTOCOL_VERSION", "SSLV3_ALERT_HANDSHAKE_FAILURE", "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    "KEY_VALUES_MISMATCH", "UNKNOWN_PROTOCOL", "UNSAFE_LEGACY_RENEGOTIATION_DISABLED", "RECORD_LAYER_FAILURE",
    "CERTIFICATE_UNKNOWN", "UNRECOGNIZED_NAME", "DH_KEY_TOO_SMALL", "CA_MD_TOO_WEAK", "PEM_LIB", "NO_START_LINE",
    "no start line", "does not contain a certificate",
)  # fmt: skip


def of_timeout(exc: BaseException, _now: float) -> Finding:
    """Too long; during a handshake nothing was sent yet."""
    return _TIMEOUT.but(outcome_unknown="handshake" not in words_of(exc))


def of_connection(exc: BaseException, _now: float) -> Finding:
    """A connection that broke; or a server that will never speak TLS, as asyncpg tells it."""
    if "rejected SSL upgrade" in words_of(exc):
        return _CONFIG.but(rule="tls.refused", field="args", value="rejected SSL upgrade")
    return Finding(_of.CONNECTION_RESET, outcome_unknown=True, weight=Weight.TRANSPORT)


def of_errno(exc: BaseException, _now: float) -> Finding | None:
    """An OSError by its number; one without a number says nothing."""
    number = integer(attribute(exc, "errno"))
    if number is None and "CA certificate bundle" in words_of(exc):  # requests, when `verify` names no file
        return Finding(_of.TLS_INVALID, rule="tls.bundle", field="args", value="CA certificate bundle")
    if number is None or number not in _BY_NUMBER:
        return None
    name, row = _BY_NUMBER[number]
    return row.but(rule=f"errno.{name}", field="errno", value=name, code=name)


def of_name_resolution(exc: BaseException, _now: float) -> Finding:
    """A name that did not resolve: for now, or for good."""
    number = attribute(exc, "errno")
    name = _DNS.get(number, "EAI") if isinstance(number, int) else "EAI"
    found = Finding(_of.DNS_FAILURE, rule=f"dns.{name}", field="errno", value=name, code=name)
    if name in ("EAI_SERVICE", "EAI_FAMILY"):
        return found.but(error_class=_of.CONFIG_INVALID, severity=Severity.PERMANENT)
    return found


def of_tls(exc: BaseException, _now: float) -> Finding:
    """A TLS failure: a matter of certificates and versions, unless the connection just broke."""
    reason = str(attribute(exc, "reason") or "")
    text = words_of(exc)
    if "timed out" in text:
        return Finding(_of.NETWORK_TIMEOUT, rule="tls.timeout", field="args", value="timed out")
    if text_of(attribute(exc, "library")) in ("X509", "PEM", "ASN1") or any(
        name in reason or name in text for name in _BAD_CERTIFICATE_REASONS
    ):
        return Finding(_of.TLS_INVALID, rule="tls.invalid", field="reason", value=reason[:60] or "certificate")
    return Finding(
        _of.CONNECTION_RESET, rule="tls.broken", field="reason", value=reason[:60], outcome_unknown=True,
        weight=Weight.TRANSPORT,
    )  # fmt: skip


def of_url_error(exc: BaseException, _now: float) -> Finding:
    """Urllib's wrapping: what it wraps decides; what it only says in words is a bad URL."""
    reason = attribute(exc, "reason")
    if isinstance(reason, str) and ("unknown url type" in reason or "no host given" in reason):
        return _CONFIG.but(field="reason", value="url")
    return Finding(_of.CONNECTION_RESET, weight=Weight.WRAPPER)


def of_http_error(exc: BaseException, now: float) -> Finding | None:
    """An answer with an error status, as urllib raises it."""
    status = integer(attribute(exc, "code"))
    return None if status is None else provider.of_response(status, headers_of(exc), None, now)


def of_called_process(exc: BaseException, _now: float) -> Finding:
    """A program that ended badly: killed by the system, or by its own will."""
    number = attribute(exc, "returncode")
    if number in (-9, 137):
        return Finding(_of.WORKER_LOST, field="returncode", value=str(number), rule="process.killed")
    return Finding(_of.UNKNOWN, field="returncode", value=str(number), rule="process.failed")


def of_imap(exc: BaseException, _now: float) -> Finding:
    """An IMAP refusal; a failed log-in is only told by its words."""
    if "AUTHENTICATIONFAILED" in words_of(exc).upper() or "LOGIN FAILED" in words_of(exc).upper():
        return Finding(_of.AUTH_DENIED, rule="imap.login", field="args", value="login")
    return Finding(_of.REQUEST_REJECTED)


def of_ftp(exc: BaseException, _now: float) -> Finding:
    """A permanent FTP reply, by its code: 530 is a log-in, 550 a file."""
    code = words_of(exc)[:3]
    table = {"530": _of.AUTH_DENIED, "532": _of.AUTH_DENIED, "550": _of.NOT_FOUND, "552": _of.RESOURCE_EXHAUSTED}
    return Finding(table.get(code, _of.REQUEST_REJECTED), rule=f"ftp.{code}", field="args", value=code, code=code)


_BUGS = (
    "AttributeError", "TypeError", "KeyError", "IndexError", "LookupError", "ValueError", "ZeroDivisionError",
    "ArithmeticError", "OverflowError", "FloatingPointError", "AssertionError", "RecursionError",
    "NotImplementedError", "NameError", "UnboundLocalError", "SyntaxError", "StopIteration", "StopAsyncIteration",
    "BufferError", "SystemError", "ReferenceError", "Warning",
)  # fmt: skip

RULES: Rules = {
    **{f"builtins.{name}": _BUG for name in _BUGS},
    "builtins.ImportError": _CONFIG,
    "builtins.ModuleNotFoundError": _CONFIG,
    "builtins.EOFError": Finding(_of.CONNECTION_RESET, outcome_unknown=True),
    "builtins.MemoryError": Finding(_of.OUT_OF_MEMORY),
    "builtins.UnicodeError": _DATA,
    "builtins.OSError": of_errno,
    "builtins.TimeoutError": of_timeout,
    "builtins.ConnectionRefusedError": _REFUSED,
    "builtins.ConnectionResetError": _RESET,
    "builtins.ConnectionAbortedError": _RESET,
    "builtins.BrokenPipeError": _RESET,
    "builtins.ConnectionError": of_connection,
    "builtins.FileNotFoundError": _MISSING,
    "builtins.NotADirectoryError": _MISSING,
    "builtins.IsADirectoryError": _CONFIG,
    "builtins.PermissionError": _DENIED,
    "builtins.FileExistsError": Finding(_of.WRITE_CONFLICT),
    "builtins.ProcessLookupError": _MISSING,
    "builtins.ChildProcessError": _MISSING,
    "builtins.InterruptedError": Finding(_of.CONNECTION_RESET),
    "builtins.BlockingIOError": Finding(_of.NETWORK_TIMEOUT),
    "socket.gaierror": of_name_resolution,
    "socket.herror": of_name_resolution,
    "ssl.SSLCertVerificationError": Finding(_of.TLS_INVALID),
    "ssl.CertificateError": Finding(_of.TLS_INVALID),
    "ssl.SSLError": of_tls,
    "ssl.SSLEOFError": Finding(_of.CONNECTION_RESET, outcome_unknown=True),
    "ssl.SSLZeroReturnError": Finding(_of.CONNECTION_RESET, outcome_unknown=True),
    "ssl.SSLSyscallError": Finding(_of.CONNECTION_RESET, outcome_unknown=True),
    "ssl.SSLWantReadError": Finding(_of.NETWORK_TIMEOUT),
    "ssl.SSLWantWriteError": Finding(_of.NETWORK_TIMEOUT),
    "asyncio.IncompleteReadError": _RESET,
    "asyncio.LimitOverrunError": Finding(_of.PAYLOAD_TOO_LARGE),
    "asyncio.InvalidStateError": _BUG,
    "asyncio.SendfileNotAvailableError": _CONFIG,
    "asyncio.QueueFull": _RESOURCE,
    "asyncio.QueueEmpty": _RESOURCE,
    "asyncio.BrokenBarrierError": Finding(_of.UPSTREAM_ERROR),
    "queue.Full": _RESOURCE,
    "queue.Empty": Finding(_of.NETWORK_TIMEOUT),
    "_queue.Empty": Finding(_of.NETWORK_TIMEOUT),
    "threading.BrokenBarrierError": Finding(_of.UPSTREAM_ERROR),
    "concurrent.InvalidStateError": _BUG,
    "concurrent.BrokenExecutor": Finding(_of.WORKER_LOST, outcome_unknown=True),
    "concurrent.BrokenProcessPool": Finding(_of.WORKER_LOST, outcome_unknown=True),
    "multiprocessing.BufferTooShort": Finding(_of.PAYLOAD_TOO_LARGE),
    "multiprocessing.AuthenticationError": Finding(_of.AUTH_DENIED),
    "multiprocessing.TimeoutError": _TIMEOUT,
    "subprocess.CalledProcessError": of_called_process,
    "subprocess.TimeoutExpired": _TIMEOUT,
    "shutil.SameFileError": _CONFIG,
    "json.JSONDecodeError": _DATA,
    "tomllib.TOMLDecodeError": _DATA,
    "csv.Error": _DATA,
    "_csv.Error": _DATA,
    "struct.error": _DATA,
    "zlib.error": _DATA,
    "binascii.Error": _DATA,
    "binascii.Incomplete": _DATA,
    "gzip.BadGzipFile": _DATA,
    "lzma.LZMAError": _DATA,
    "_lzma.LZMAError": _DATA,
    "zipfile.BadZipFile": _DATA,
    "zipfile.LargeZipFile": Finding(_of.PAYLOAD_TOO_LARGE),
    "tarfile.TarError": _DATA,
    "xml.ParseError": _DATA,
    "xml.ExpatError": _DATA,
    "pyexpat.ExpatError": _DATA,
    "html.HTMLParseError": _DATA,
    "email.MessageError": _DATA,
    "plistlib.InvalidFileException": _DATA,
    "wave.Error": _DATA,
    "ipaddress.AddressValueError": _DATA,
    "ipaddress.NetmaskValueError": _DATA,
    "zoneinfo.ZoneInfoNotFoundError": _DATA,
    "configparser.Error": _CONFIG,
    "pickle.PickleError": _BUG,
    "pickle.UnpicklingError": _DATA,
    "_pickle.PickleError": _BUG,
    "_pickle.UnpicklingError": _DATA,
    "decimal.InvalidOperation": _DATA,
    "dataclasses.FrozenInstanceError": _BUG,
    "copy.Error": _BUG,
    "re.error": _BUG,
    "re._constants.error": _BUG,
    "locale.Error": _CONFIG,
    "getopt.GetoptError": _CONFIG,
    "argparse.ArgumentError": _CONFIG,
    "argparse.ArgumentTypeError": _DATA,
    "http.RemoteDisconnected": _RESET,
    "http.IncompleteRead": _RESET,
    "http.BadStatusLine": _RESET,
    "http.ResponseNotReady": _BUG,
    "http.CannotSendRequest": _BUG,
    "http.CannotSendHeader": _BUG,
    "http.ImproperConnectionState": _BUG,
    "http.NotConnected": _RESET,
    "http.InvalidURL": _CONFIG,
    "http.UnknownProtocol": _CONFIG,
    "http.UnknownTransferEncoding": Finding(_of.UPSTREAM_ERROR),
    "http.LineTooLong": Finding(_of.UPSTREAM_ERROR),
    "http.HTTPException": Finding(_of.UPSTREAM_ERROR, outcome_unknown=True),
    "urllib.HTTPError": of_http_error,
    "urllib.ContentTooShortError": _RESET,
    "urllib.URLError": of_url_error,
    "ftplib.error_temp": Finding(_of.UPSTREAM_ERROR, scope=Scope.NEW_CONNECTION),
    "ftplib.error_perm": of_ftp,
    "ftplib.error_reply": Finding(_of.UPSTREAM_ERROR),
    "ftplib.error_proto": Finding(_of.UPSTREAM_ERROR),
    "imaplib.abort": Finding(_of.CONNECTION_RESET, outcome_unknown=True),
    "imaplib.readonly": Finding(_of.PERMISSION_DENIED),
    "imaplib.error": of_imap,
    "poplib.error_proto": Finding(_of.REQUEST_REJECTED),
}
