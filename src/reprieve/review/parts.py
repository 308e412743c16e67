"""What the pipeline is made with: the only place of the application that looks at settings and picks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reprieve import UsageError
from reprieve.models import model_at
from reprieve.review.critic.critic import Critic, FactsCritic
from reprieve.review.critic.model import ModelCritic, Words
from reprieve.review.diffs import Limits
from reprieve.review.fetching import Concern, Fetcher
from reprieve.review.git import Git
from reprieve.review.github import Hub
from reprieve.review.recipients import recipients_of
from reprieve.review.settings import EMBEDDED
from reprieve.senders import Maildir

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reprieve.models import Model
    from reprieve.review.settings import MailSettings, Settings
    from reprieve.senders import Sender

_TOY: Final = Words(
    part_characters=1_500, answer_tokens=80, characters=100, tells_schema=False, temperature=0.0, at_once=1, is_toy=True
)  # fmt: skip
"""For the embedded model, which shows what the pipeline does with the answers of a model, and no more."""

_CHAOS: Final = "reprieve.testing.chaos:troubled"
"""By its name: nothing that runs for users loads what is for tests unless it is asked to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything that the stages call; each can be replaced before the pipeline is made."""

    git: Git
    hub: Hub
    model: Model | None
    """None where the rules review alone."""
    routes: Mapping[str, Sender]
    """Who reaches recipients of which scheme."""

    @property
    def senders(self) -> tuple[Sender, ...]:
        """Each once."""
        return tuple({id(each): each for each in self.routes.values()}.values())

    async def close(self) -> None:
        """Close the model; senders are closed by their worker."""
        if self.model is not None:
            await self.model.close()


def parts_of(settings: Settings) -> Parts:
    """What the settings ask for, as what they name under `parts` leaves it."""
    if settings.parts is not None and settings.chaos is not None:
        raise UsageError("chaos puts parts of its own into the pipeline: set either chaos or parts")
    token = settings.github.token
    made = Parts(
        git=Git(settings.state / "mirrors", objects=settings.state / "objects", trusted=settings.trusted),
        hub=Hub(settings.github.url, token=None if token is None else token.get_secret_value()),
        model=_model_of(settings),
        routes=_routes(settings),
    )
    home = _CHAOS if settings.chaos is not None else settings.parts
    return made if home is None else _plugged(home, made, settings)


def fetcher_of(settings: Settings, parts: Parts) -> Fetcher:
    """Who fetches, by the settings."""
    notify = settings.notify
    concern = Concern(recipients=notify.recipients, people=notify.people, owners=notify.owners, authors=notify.authors)
    recipients_of(notify.recipients, (), people=notify.people, routes=parts.routes)  # wrong ones are told at once
    limits = Limits(**settings.limits.model_dump())
    return Fetcher(
        git=parts.git, hub=parts.hub, routes=parts.routes, concern=concern, limits=limits, forge=notify.forge
    )


def critic_of(settings: Settings, parts: Parts) -> Critic:
    """The critic that the settings ask for: the rules, a model, or both."""
    facts = FactsCritic(parts.git, parts.hub, settings.critic) if settings.facts else None
    return Critic(facts, None if parts.model is None else _model_critic(settings, parts.model))


def _model_critic(settings: Settings, model: Model) -> ModelCritic:
    asked, template = settings.model, None
    words = _TOY if asked.name == EMBEDDED else Words(at_once=asked.at_once)
    said: dict[str, Any] = {
        "answer_tokens": asked.answer_tokens,
        "findings": asked.findings,
        "part_characters": asked.part_characters,
        "characters": asked.characters,
    }
    words = replace(words, seconds=asked.seconds, **{name: value for name, value in said.items() if value is not None})
    if asked.prompt is not None:
        try:
            template = asked.prompt.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the prompt {str(asked.prompt)!r} cannot be read: {error}") from None
    return ModelCritic(model, template=template, words=words)


def _model_of(settings: Settings) -> Model | None:
    if settings.model.name is None:
        return None
    try:
        return model_at(address_of(settings.model.name))
    except ImportError as error:
        said = str(error).replace("'reprieve[", "'.[")  # there is no release: from a clone
        raise UsageError(f"{said}, in a clone of Reprieve") from None


def address_of(name: str) -> str:
    """The name of a model as `model_at` takes it: a URL speaks OpenAI's protocol, a path is a GGUF file."""
    if name.startswith(("http://", "https://")):
        return f"openai+{name}"
    return f"local:{name}" if name.endswith(".gguf") and ":" not in name else name


def _routes(settings: Settings) -> dict[str, Sender]:
    mail = _mail(settings.mail)
    routes: dict[str, Sender] = {"mailto": mail}
    if isinstance(mail, Maildir):
        routes["maildir"] = mail
    if settings.slack.token is not None:
        from reprieve.senders import Slack  # noqa: PLC0415 - an extra, only for those who use it

        routes["slack"] = Slack(settings.slack.token.get_secret_value())
    if settings.webhook.secret is not None:
        from reprieve.senders import Webhook  # noqa: PLC0415 - the same

        routes["https"] = Webhook(secret=settings.webhook.secret.get_secret_value())
    return routes


def _mail(mail: MailSettings) -> Sender:
    if (mail.journal is None) is not (mail.journal_password is None):
        raise UsageError(
            "doubts are settled in a journal with mail.journal and mail.journal_password: set both, or none"
        )
    if mail.journal is not None and mail.host is None:
        raise UsageError("mail.journal is for mail that goes through a server: set mail.host, or no journal")
    if mail.host is None:
        return Maildir(mail.folder or Path("mail"), sender=mail.sender)
    from reprieve.senders import SMTP, Imap  # noqa: PLC0415 - an extra, only for those who use it

    password = None if mail.password is None else mail.password.get_secret_value()
    journal = None
    if mail.journal is not None and mail.journal_password is not None:
        journal = Imap(
            mail.journal_host or mail.host, mail.journal_port, tls=mail.journal_security, username=mail.journal,
            password=mail.journal_password.get_secret_value(), lag=mail.journal_lag,
        )  # fmt: skip
    return SMTP(
        mail.host, mail.port, tls=mail.security, sender=mail.sender, username=mail.username, password=password,
        bcc_journal=mail.journal if mail.journal_copy else None, journal=journal,
    )  # fmt: skip


def _plugged(home: str, parts: Parts, settings: Settings) -> Parts:
    module, _, name = home.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"parts is module:function, and {home!r} cannot be used: {error}") from None
    made = found(parts, settings)
    if not isinstance(made, Parts):
        raise UsageError(f"{home} has to return the parts that it was given, or others")
    return made
