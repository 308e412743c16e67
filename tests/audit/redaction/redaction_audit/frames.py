"""The texts that carry a line: tracebacks, logs, transcripts, manifests; each sprinkled with identifiers that must stay."""

import json
from collections.abc import Callable
from html import escape

from redaction_audit.draw import Draw

Framed = tuple[str, tuple[str, ...]]
"""The text, and the identifiers in it that have to survive."""
Frame = Callable[[Draw, str], Framed]


def _request_id(draw: Draw) -> str:
    return draw.fill(draw.choice(("req_{l24}", "req_011C{a20}", "{h8}-{h4}-4{h3}-9{h3}-{h12}")))


def _trace_id(draw: Draw) -> str:
    return draw.some("h", 32)


def _time(draw: Draw) -> str:
    return f"2024-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}T{draw.randint(0, 23):02}:{draw.randint(0, 59):02}:07.{draw.some('d', 3)}Z"


def raw(draw: Draw, line: str) -> Framed:
    """Nothing around it."""
    return line, ()


def log_line(draw: Draw, line: str) -> Framed:
    """A worker's plain log."""
    time, request = _time(draw), _request_id(draw)
    return f"{time} ERROR [worker-{draw.randint(1, 9)}] app.jobs request_id={request} failed: {line}", (time, request)


def comma_log(draw: Draw, line: str) -> Framed:
    """Python's default asctime and a logger's name."""
    number = draw.some("d", 3)
    return f"2024-05-06 07:08:09,{number} - billing.sync - WARNING - {line}", (f"07:08:09,{number}",)


def traceback_message(draw: Draw, line: str) -> Framed:
    """As the message of an exception."""
    number, request = str(draw.randint(40, 900)), _request_id(draw)
    text = (
        f'Traceback (most recent call last):\n  File "/srv/app/jobs/sync.py", line {number}, in run\n    client.call()\n'
        f'  File "/srv/app/lib/client.py", line 88, in call\n    raise UpstreamError(f"{{reason}}")\n'
        f"app.lib.client.UpstreamError: {line}\nDuring request {request}"
    )
    return text, (f"line {number}, in run", "/srv/app/lib/client.py", request)


def traceback_source(draw: Draw, line: str) -> Framed:
    """As a literal in a quoted line of source."""
    number = str(draw.randint(40, 900))
    text = (
        f'Traceback (most recent call last):\n  File "/srv/app/jobs/run.py", line {number}, in main\n    execute({line!r})\n'
        "    ~~~~~~~^^^^^^^^^\nRuntimeError: exited with status 1"
    )
    return text, ("/srv/app/jobs/run.py", f"line {number}, in main", "exited with status 1")


def escaped(depth: int) -> Frame:
    """As a string in JSON that was put as a string into JSON, so many times."""

    def frame(draw: Draw, line: str) -> Framed:
        request, trace = _request_id(draw), _trace_id(draw)
        text = line
        for level in range(depth):
            text = json.dumps(
                {"level": "error", "request_id": request, "message": text, "attempt": level, "trace_id": trace}
            )
        return text, (request, trace)

    return frame


def bytes_repr(draw: Draw, line: str) -> Framed:
    """As bytes that were printed."""
    return f"unexpected response body: {line.encode()!r}", ("unexpected response body",)


def tuple_repr(draw: Draw, line: str) -> Framed:
    """As an argument of an exception."""
    number = draw.some("d", 5)
    return f"OSError({number}, {line!r}, 'job-{number}')", (f"job-{number}",)


def dataclass_repr(draw: Draw, line: str) -> Framed:
    """As a field of a record that was printed."""
    job = draw.some("h", 12)
    return f"Task(id='{job}', body={line!r}, attempts=3, state=<State.FAILED: 'failed'>)", (job, "attempts=3")


def ci_log(draw: Draw, line: str) -> Framed:
    """A build's log, coloured."""
    sha = draw.some("h", 40)
    return (
        f"2024-09-01T10:11:12.1234567Z HEAD is now at {sha}\n2024-09-01T10:11:13.7654321Z \x1b[36;1m{line}\x1b[0m\n"
        "2024-09-01T10:11:14.0000000Z ##[error]Process completed with exit code 1."
    ), (sha, "exit code 1")


def kubernetes_event(draw: Draw, line: str) -> Framed:
    """What `kubectl describe` says of a pod."""
    pod = draw.fill("shop-worker-{h10}-{L5}")
    return (
        f"Events:\n  Type     Reason   Age   From     Message\n"
        f"  Warning  Failed   3m    kubelet  pod {pod}: Error: {line}"
    ), (pod,)


def java_trace(draw: Draw, line: str) -> Framed:
    """A Java exception with its cause."""
    number = str(draw.randint(10, 900))
    return (
        f"java.lang.IllegalStateException: {line}\n\tat com.example.shop.Client.call(Client.java:{number})\n"
        "\tat java.base/java.lang.Thread.run(Thread.java:1583)\n\t... 12 more"
    ), (f"Client.java:{number}", "Thread.java:1583")


def node_trace(draw: Draw, line: str) -> Framed:
    """An error of Node's."""
    number = str(draw.randint(10, 900))
    return (
        f"Error: {line}\n    at Client.request (/srv/app/dist/client.js:{number}:17)\n"
        "    at process.processTicksAndRejections (node:internal/process/task_queues:95:5) {\n  code: 'ERR_BAD_REQUEST'\n}"
    ), (f"client.js:{number}:17", "ERR_BAD_REQUEST")


def go_panic(draw: Draw, line: str) -> Framed:
    """A panic of Go's."""
    address = "0x" + draw.some("h", 8)
    return (
        f"panic: {line}\n\ngoroutine 17 [running]:\nmain.connect({address}, 0x4)\n\t/srv/app/main.go:42 +0x1d\nexit status 2"
    ), (address, "/srv/app/main.go:42")


def markdown(draw: Draw, line: str) -> Framed:
    """A report with a fenced block."""
    issue = draw.some("d", 5)
    return f"## What happened\n\nJob {issue} failed:\n\n```\n{line}\n```\n\nSee the runbook.", (
        issue,
        "See the runbook",
    )


def shell(draw: Draw, line: str) -> Framed:
    """A terminal's transcript."""
    pid = draw.some("d", 5)
    return f"deploy@web-3:~$ {line}\nerror: connection refused (pid {pid})\ndeploy@web-3:~$ ", (f"pid {pid}",)


def sql_insert(draw: Draw, line: str) -> Framed:
    """A statement that failed, with its values."""
    job = draw.some("d", 6)
    doubled = line.replace("'", "''")
    return (
        f"psycopg.errors.UniqueViolation: duplicate key\n[SQL: INSERT INTO job_errors (job_id, detail) VALUES ({job}, '{doubled}')]"
    ), (job, "INSERT INTO job_errors")


def xml_message(draw: Draw, line: str) -> Framed:
    """A SOAP fault."""
    request = _request_id(draw)
    return (
        f'<soap:Fault><faultcode>soap:Server</faultcode><detail requestId="{request}">{escape(line)}</detail></soap:Fault>'
    ), (request,)


def logfmt(draw: Draw, line: str) -> Framed:
    """One line of logfmt."""
    trace = _trace_id(draw)
    return f"ts={_time(draw)} level=error trace_id={trace} msg={json.dumps(line)} attempt=3 span_id={trace[:16]}", (
        trace,
    )


def yaml_block(draw: Draw, line: str) -> Framed:
    """A manifest's block scalar."""
    indented = line.replace("\n", "\n    ")
    uid = draw.fill("{h8}-{h4}-4{h3}-8{h3}-{h12}")
    return f"status:\n  uid: {uid}\n  message: |\n    {indented}\n  phase: Failed", (uid, "phase: Failed")


def pytest_output(draw: Draw, line: str) -> Framed:
    """A failed assertion."""
    number = str(draw.randint(10, 400))
    return f"E       AssertionError: {line}\n\ntests/test_sync.py:{number}: AssertionError", (f"test_sync.py:{number}",)


def junit_attribute(draw: Draw, line: str) -> Framed:
    """A failed test's report, with the message in an attribute."""
    number = str(draw.randint(10, 400))
    return (
        f'<testcase classname="sync" name="test_run"><failure message="{escape(line)}">tests/test_sync.py:{number}</failure>'
    ), (f"tests/test_sync.py:{number}",)


def tracker_event(draw: Draw, line: str) -> Framed:
    """An event of an error tracker, with the repr of a local beside the message."""
    event = draw.some("h", 32)
    frame = {"lineno": 71, "function": "llm", "vars": {"line": repr(line)}}
    return json.dumps(
        {"event_id": event, "exception": {"type": "E", "value": line, "frames": [frame]}, "level": "error"}
    ), (
        event,
        "lineno",
    )


def structured_log(draw: Draw, line: str) -> Framed:
    """One line of structlog's console."""
    job = draw.some("h", 12)
    return f"2024-05-06 07:08:09 [error    ] call failed      [app.jobs] job={job} reason={line!r} stage=llm", (
        job,
        "stage=llm",
    )


LINE_FRAMES: dict[str, Frame] = {
    "raw": raw,
    "log": log_line,
    "comma-log": comma_log,
    "traceback-message": traceback_message,
    "traceback-source": traceback_source,
    "json-1": escaped(1),
    "json-2": escaped(2),
    "json-3": escaped(3),
    "bytes-repr": bytes_repr,
    "tuple-repr": tuple_repr,
    "dataclass-repr": dataclass_repr,
    "ci-log": ci_log,
    "k8s-event": kubernetes_event,
    "java-trace": java_trace,
    "node-trace": node_trace,
    "go-panic": go_panic,
    "markdown": markdown,
    "shell": shell,
    "sql-insert": sql_insert,
    "xml": xml_message,
    "logfmt": logfmt,
    "yaml-block": yaml_block,
    "pytest": pytest_output,
    "junit": junit_attribute,
    "tracker": tracker_event,
    "structlog": structured_log,
}

BLOCK_FRAMES: dict[str, Frame] = {
    name: LINE_FRAMES[name]
    for name in (
        "raw", "traceback-message", "traceback-source", "json-1", "json-2", "json-3", "bytes-repr", "tuple-repr",
        "dataclass-repr", "markdown", "logfmt", "yaml-block", "tracker", "structlog",
    )
}  # fmt: skip
"""Frames that carry several lines."""


def argv_error(draw: Draw, line: str) -> Framed:
    """What subprocess says of a command that failed; only for commands without quotes."""
    return f"subprocess.CalledProcessError: Command '{line.split()!r}' returned non-zero exit status 1.", (
        "exit status 1",
    )


def curl_verbose(draw: Draw, line: str) -> Framed:
    """What curl -v shows of a request."""
    host = draw.host()
    return f"* Connected to {host} port 443\n> GET /v1/jobs HTTP/2\n> Host: {host}\n> {line}\n> Accept: */*\n>\n< HTTP/2 401", (
        "HTTP/2 401", "Accept: */*",
    )  # fmt: skip


def header_dict(draw: Draw, line: str) -> Framed:
    """The headers of a request, as a client prints them."""
    name, value = line.split(": ", 1)
    request = _request_id(draw)
    headers = {"Host": draw.host(), name: value, "X-Request-Id": request}
    return draw.choice((repr(headers), json.dumps(headers), f"Headers({list(headers.items())!r})")), (request,)


def pool_error(draw: Draw, line: str) -> Framed:
    """What requests says when the host of an address does not answer."""
    path = "/" + line.split("/", 3)[3]
    return (
        f"requests.exceptions.ConnectionError: HTTPSConnectionPool(host='api.example.com', port=443): Max retries exceeded "
        f"with url: {path} (Caused by NewConnectionError('failed: [Errno 111] Connection refused'))"
    ), ("[Errno 111]", "port=443")


def access_log(draw: Draw, line: str) -> Framed:
    """A web server's log of a request to that address."""
    path = "/" + line.split("/", 3)[3]
    return f'203.0.113.7 - - [10/Oct/2024:13:55:36 +0000] "GET {path} HTTP/1.1" 401 512 "-" "python-requests/2.32.3"', (
        "10/Oct/2024:13:55:36", "401 512",
    )  # fmt: skip


def client_error(draw: Draw, line: str) -> Framed:
    """What httpx says of a refused request."""
    return f"httpx.HTTPStatusError: Client error '403 Forbidden' for url '{line}'\nFor more information check: MDN", (
        "403 Forbidden",
    )


COMMAND_FRAMES: dict[str, Frame] = {**LINE_FRAMES, "argv": argv_error}
HEADER_FRAMES: dict[str, Frame] = {**LINE_FRAMES, "curl-verbose": curl_verbose, "headers": header_dict}
ADDRESS_FRAMES: dict[str, Frame] = {**LINE_FRAMES, "client-error": client_error}
QUERY_FRAMES: dict[str, Frame] = {**ADDRESS_FRAMES, "pool-error": pool_error, "access-log": access_log}
