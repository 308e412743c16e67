"""An audit of redaction that knows nothing of its rules: what was planted is gone, what was clean is whole.

`REPRIEVE_AUDIT_SEED` draws a fresh sample; `-s` prints the figures and the misses by kind and embedding.
"""

import functools
import sys
import traceback

import pytest
from redaction_audit.chat_texts import planted_chat_texts
from redaction_audit.chats import planted_chats
from redaction_audit.clean import clean_texts
from redaction_audit.damage import damage
from redaction_audit.draw import Draw, audit_seed
from redaction_audit.identifiers import planted_identifiers
from redaction_audit.people import planted_people
from redaction_audit.planted_secrets import planted_secrets
from redaction_audit.plants import Plant, frame_of, heard, hushed, left_of, removed, survived, tell_tale
from redaction_audit.vendors import TEMPLATES, secret_part, vendor_key

from reprieve.app import redaction

redact = functools.cache(redaction.redact)


@pytest.fixture(scope="module")
def secrets() -> list[Plant]:
    return list(planted_secrets(audit_seed()))


@pytest.fixture(scope="module")
def people() -> list[Plant]:
    return list(planted_people(audit_seed()))


@pytest.fixture(scope="module")
def chats():
    return [*planted_chats(audit_seed()), *planted_chat_texts(audit_seed())]


@pytest.fixture(scope="module")
def identifiers() -> list[Plant]:
    return list(planted_identifiers(audit_seed()))


@pytest.fixture(scope="module")
def clean() -> list[tuple[str, str]]:
    return list(clean_texts(audit_seed()))


def show(report: str) -> None:
    sys.stdout.write(f"\n{report}\n")


def test_the_corpus_is_as_large_as_it_claims_and_every_plant_is_there_to_see(
    secrets, people, chats, identifiers, clean
):
    assert len(secrets) >= 1500
    assert len({plant.kind for plant in secrets}) >= 60
    assert len(people) >= 400
    assert len(chats) >= 400
    assert sum(len(plant.keep) for plant in identifiers) >= 500
    assert sum(len(text) for _, text in clean) >= 2_000_000
    assert all(
        left_of(secret, plant.text, frame_of(plant)) for plant in [*secrets, *people] for secret in plant.secrets
    )
    assert all(heard(chat, chat.plant.text) for chat in chats)
    assert all(word in plant.text for plant in identifiers for word in plant.keep)


def test_of_planted_secrets_at_least_98_percent_are_removed(secrets):
    tally = removed(secrets, redact)
    show(tally.report("secrets removed"))
    assert tally.rate >= 0.98, tally.report("secrets removed")


def test_of_planted_personal_data_at_least_95_percent_is_removed(people):
    tally = removed(people, redact)
    show(tally.report("personal data removed"))
    assert tally.rate >= 0.95, tally.report("personal data removed")


def test_nothing_that_was_said_in_a_chat_survives(chats):
    tally = hushed(chats, redact)
    show(tally.report("chats hushed"))
    assert tally.misses == 0, tally.report("chats hushed")


def test_clean_text_loses_less_than_a_thousandth_of_its_characters(clean):
    found = damage(clean, redact)
    show(found.report())
    assert found.rate < 0.001, found.report()


def test_text_that_talks_about_secrets_and_holds_none_stays_readable(clean):
    found = damage([(source, text) for source, text in clean if source == "talk"], redact)
    assert found.rate < 0.005, found.report(examples=40)


def test_no_identifier_is_lost_alone_or_beside_what_has_to_go(secrets, people, chats, identifiers):
    tally = survived([*identifiers, *secrets, *people, *(chat.plant for chat in chats)], redact)
    show(tally.report("identifiers kept"))
    assert tally.misses == 0, tally.report("identifiers kept")


def test_redacting_again_changes_nothing(secrets, people, chats, identifiers, clean):
    texts = [plant.text for plant in [*secrets, *people, *identifiers]]
    texts += [chat.plant.text for chat in chats] + [text for _, text in clean]
    restless = [text for text in texts if redact(once := redact(text)) != once]
    assert not restless, f"{len(restless)} texts change again, such as {restless[0][:400]!r}"


def test_markers_say_which_rule_acted_and_nothing_of_the_secret(secrets):
    telling = [(plant.kind, found) for plant in secrets if (found := tell_tale(plant, redact(plant.text)))]
    assert not telling, telling[:20]


@pytest.mark.spec("CRIT-4.5")
@pytest.mark.parametrize("kind", sorted(TEMPLATES))
def test_a_real_traceback_shows_no_literal_of_its_message_or_its_cause(kind):
    key = vendor_key(Draw(f"{audit_seed()} {kind}"), kind)
    with pytest.raises(RuntimeError) as caught:
        call_an_upstream_that_quotes(key)
    stack = "".join(traceback.format_exception(caught.value))
    assert key in stack
    output = redact(stack)
    assert left_of(secret_part(kind, key), output, stack.replace(key, "")) is None
    assert "in call_an_upstream_that_quotes" in output


def call_an_upstream_that_quotes(key: str) -> None:
    try:
        refuse(key)
    except ConnectionError as error:
        raise RuntimeError({"attempt": 3, "value": key}) from error


def refuse(key: str) -> None:
    raise ConnectionError(f"refused by upstream: {key}.")
