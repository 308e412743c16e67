"""A server of SQS's shape on a loopback port: visibility, counts of deliveries, groups."""

import itertools
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ACTIONS = {
    "SendMessage": "send",
    "ReceiveMessage": "receive",
    "DeleteMessage": "delete",
    "ChangeMessageVisibility": "hide",
}
MAX_MESSAGE_BYTES = 262_144


class SqsServer:
    """Queues by name; a received message is hidden for the visibility timeout."""

    def __init__(self, visibility=1.0):
        self.visibility = visibility
        self.queues, self.lock = {}, threading.Lock()
        self._ids = itertools.count(1)
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                action = self.headers["X-Amz-Target"].rpartition(".")[2]
                status, answer = server.answer(action, body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/x-amz-json-1.0")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_): ...

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def url(self, name):
        return f"{self.endpoint}/000000000000/{name}"

    def messages(self, name):
        with self.lock:
            return list(self.queues.get(name, []))

    def stop(self):
        self._http.shutdown()
        self._http.server_close()

    def answer(self, action, body):
        with self.lock:
            queue = self.queues.setdefault(body["QueueUrl"].rpartition("/")[2], [])
            if action == "SendMessage" and _size(body) > MAX_MESSAGE_BYTES:
                return 400, {"__type": "InvalidParameterValue", "message": "Message must be shorter"}
            return 200, getattr(self, ACTIONS[action])(queue, body)

    def send(self, queue, body):
        message = {
            "id": f"m-{next(self._ids)}",
            "body": body["MessageBody"],
            "count": 0,
            "visible": time.time(),
        }
        queue.append(message | {"attributes": body.get("MessageAttributes", {}), "receipt": ""})
        queue[-1]["group"] = body.get("MessageGroupId")
        return {"MessageId": message["id"]}

    def receive(self, queue, body):
        due = [each for each in queue if each["visible"] <= time.time()][: body.get("MaxNumberOfMessages", 1)]
        for each in due:
            each["count"] += 1
            each["receipt"] = f"{each['id']}-{each['count']}"
            each["visible"] = time.time() + self.visibility
        return {"Messages": [_received(each) for each in due]}

    def delete(self, queue, body):
        queue[:] = [each for each in queue if each["receipt"] != body["ReceiptHandle"]]
        return {}

    def hide(self, queue, body):
        for each in queue:
            if each["receipt"] == body["ReceiptHandle"]:
                each["visible"] = time.time() + body["VisibilityTimeout"]
        return {}


def _size(body):
    """The body with its attributes: names, types and values."""
    attributes = body.get("MessageAttributes", {}).items()
    return len(body["MessageBody"].encode()) + sum(
        len(name) + len(each["DataType"]) + len(each["StringValue"].encode()) for name, each in attributes
    )


def _received(message):
    attributes = {"ApproximateReceiveCount": str(message["count"])}
    if message["group"]:
        attributes["MessageGroupId"] = message["group"]
    names = {"MessageId": "id", "ReceiptHandle": "receipt", "Body": "body"}
    return {name: message[key] for name, key in names.items()} | {"Attributes": attributes}
