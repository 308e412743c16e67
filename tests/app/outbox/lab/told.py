"""A sender of a user's, whose provider does as a test says."""

from __future__ import annotations

from desk import QUICK

import reprieve
from reprieve.senders import Answer, Capability, Found


def alerts(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "reprieve.alerts"]


class Told:
    """A sender that hands its messages to the test, and whose provider answers as it is told to."""

    def __init__(self, *answers, sends=(), **can):
        self.name = "told"
        self.capability = Capability(**({"looks_up": True, "send_timeout": 5.0} | can))
        self.answers, self.sends = list(answers), list(sends)
        self.sent, self.asked = [], []

    def address(self, recipient):
        return recipient

    async def send(self, outgoing):
        self.sent.append(outgoing.message.recipient)
        act = self.sends.pop(0) if self.sends else None
        if isinstance(act, BaseException):
            raise act
        return f"told-{len(self.sent)}"

    async def look_up(self, question):
        self.asked.append(question)
        answer = self.answers.pop(0) if self.answers else Found.UNKNOWN
        if isinstance(answer, BaseException):
            raise answer
        return Answer(found=answer, evidence=f"the provider says {answer}")

    async def close(self):
        pass


def telling(sender, *names, optional=(), pipeline="notices"):
    made = reprieve.Pipeline(pipeline, profile=QUICK, senders=[sender], breaker=None)

    @made.stage(delivers=True)
    async def notify(job: reprieve.Job[str]) -> int:
        messages = [
            reprieve.Message(recipient=name, subject="s", text="t", required=name not in optional) for name in names
        ]
        return len((await reprieve.deliver(job, messages, via=sender.name)).sent)

    return made


BROKE = ConnectionResetError("the connection broke")
