"""A small SMTP server whose answers are scripted by the command's argument."""

from __future__ import annotations

import re
import socketserver
import threading
from dataclasses import dataclass
from typing import Final

REPLIES: Final = {
    "greylisted": "450 4.2.0 greylisted, please try again later",
    "busy": "451 4.3.0 local error in processing",
    "full": "452 4.2.2 the mailbox is full",
    "unknown": "550 5.1.1 no such user here",
    "relay": "551 5.7.1 relaying denied",
    "policy": "554 5.7.1 message rejected as spam by content policy",
    "syntax": "501 5.1.3 bad recipient address syntax",
    "toobig": "552 5.3.4 message size exceeds fixed limit",
    "moved": "553 5.1.3 mailbox name not allowed",
    "unavailable": "421 4.3.2 service shutting down",
    "needauth": "530 5.7.0 authentication required",
    "unimplemented": "502 5.5.1 command not implemented",
}
PLEASANT: Final = {"EHLO": "250 lab", "HELO": "250 lab", "RSET": "250 ok", "NOOP": "250 ok", "QUIT": "221 bye"}


@dataclass(slots=True)
class MailLab:
    """Speaks just enough SMTP to refuse things."""

    port: int = 0
    _server: socketserver.ThreadingTCPServer | None = None

    def start(self) -> None:
        """Listen on a free loopback port."""

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, *_: object) -> None:
                """A client that left in the middle is what the lab is for."""

        self._server = Server(("127.0.0.1", 0), Conversation)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


class Conversation(socketserver.StreamRequestHandler):
    """One client: a local part such as `busy@` picks the reply, EHLO's name picks the greeting's mood."""

    timeout = 10

    def handle(self) -> None:
        """Talk until the client leaves."""
        self.say("220 lab ready")
        mood = ""
        while line := self.rfile.readline().decode("latin-1").strip():
            verb, _, argument = line.partition(" ")
            match verb.upper():
                case "EHLO" | "HELO":
                    mood = argument
                    greeting = "250 lab" if mood == "plain" else "250-lab\r\n250-AUTH PLAIN LOGIN\r\n250 SIZE 1000000"
                    self.say(greeting if mood != "closed" else REPLIES["unavailable"])
                case "AUTH":
                    self.say(
                        "454 4.7.0 temporary authentication failure" if mood == "later" else "535 5.7.8 bad credentials"
                    )
                case "MAIL" | "RCPT":
                    self.say(self.reply_to(argument))
                case "DATA":
                    self.take_message()
                case "STARTTLS":
                    self.say("454 4.7.0 TLS not available")
                case "QUIT":
                    self.say("221 bye")
                    return
                case other:
                    self.say(PLEASANT.get(other, "500 5.5.2 what?"))

    def reply_to(self, argument: str) -> str:
        """What the address asks for."""
        found = re.search(r"<([a-z]+)[^@]*@", argument)
        return REPLIES.get(found.group(1), "250 ok") if found else "250 ok"

    def take_message(self) -> None:
        """Take the body; its subject picks the reply."""
        self.say("354 go on")
        reply = "250 2.0.0 queued as 42"
        while (line := self.rfile.readline().decode("latin-1").rstrip("\r\n")) != ".":
            if line.startswith("Subject: ") and line[9:] in REPLIES:
                reply = REPLIES[line[9:]]
        self.say(reply)

    def say(self, text: str) -> None:
        """Send one reply."""
        self.wfile.write(f"{text}\r\n".encode())
