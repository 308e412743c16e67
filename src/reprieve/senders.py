"""Who tells people, and what a sender of your own is made of; each is loaded when it is first used.

from reprieve.senders import SMTP, Maildir, Slack, Webhook
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from reprieve.adapters.maildir import Maildir
    from reprieve.adapters.slack import Slack
    from reprieve.adapters.smtp import SMTP, Imap
    from reprieve.adapters.webhook import Webhook
    from reprieve.app.alerts.sinks import SenderSink
    from reprieve.core.delivery import Capability, Found, Phase
    from reprieve.ports.sending import Answer, Message, Outgoing, Question, Sender

_HOMES: Final = {
    "adapters.maildir": "Maildir",
    "adapters.slack": "Slack",
    "adapters.smtp": "Imap SMTP",
    "adapters.webhook": "Webhook",
    "app.alerts.sinks": "SenderSink",
    "core.delivery": "Capability Found Phase",
    "ports.sending": "Answer Message Outgoing Question Sender",
}
_HOME_OF: Final = {name: f"reprieve.{home}" for home, names in _HOMES.items() for name in names.split()}
_EXTRA_OF: Final = {"Slack": "slack", "SMTP": "mail", "Imap": "mail", "Webhook": "webhook"}
_HOLD_KEYS: Final = frozenset({"SMTP", "Slack", "Webhook"})

__all__ = [  # written out for type checkers and readers; a test keeps it equal to the homes above
    "SMTP",
    "Answer",
    "Capability",
    "Found",
    "Imap",
    "Maildir",
    "Message",
    "Outgoing",
    "Phase",
    "Question",
    "Sender",
    "SenderSink",
    "Slack",
    "Webhook",
]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'reprieve.senders' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only when a name is first used

    try:
        value: object = getattr(import_module(home), name)
    except ModuleNotFoundError as error:
        if name not in _EXTRA_OF or str(error.name).partition(".")[0] == "reprieve":
            raise
        raise ImportError(
            f"{name} needs {error.name}: pip install 'reprieve[{_EXTRA_OF[name]}]'", name=error.name
        ) from error
    if name in _HOLD_KEYS:
        from reprieve.app.secrecy import keeping_secrets  # noqa: PLC0415 - the same

        value = keeping_secrets(cast("type", value), "sender")
    return globals().setdefault(name, value)  # another thread may have been here at the same time


def __dir__() -> list[str]:
    return sorted(__all__)
