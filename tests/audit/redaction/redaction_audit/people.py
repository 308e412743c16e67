"""People: addresses, numbers and names of nobody, planted in the texts that carry failures."""

import json
from collections.abc import Callable, Iterator
from functools import partial

from redaction_audit import frames
from redaction_audit.draw import Draw
from redaction_audit.plants import Plant, settled

Maker = Callable[[Draw], str]

_FIRST = (
    "Marguerite", "Dmitri", "Siobhan", "Yusuf", "Annelise", "Takeshi", "Beatriz", "Oluwaseun", "Francesca",
    "Bartholomew", "Ingrid", "Rajesh",
)  # fmt: skip
_LAST = (
    "Oxenford", "Kowalczyk", "Featherstone", "Nakamura", "Villanueva", "Abernathy", "Lindqvist", "Okonkwo",
    "Castellanos", "Whitcombe",
)  # fmt: skip
_STREETS = ("Rosewood Avenue", "Bahnhofstrasse", "Kingsbridge Road", "Juniper Hill Lane", "Magnolia Boulevard")
_CITIES = ("Cheltenham", "Winterthur", "Sacramento", "Valladolid", "Groningen")
_IBAN_SHAPES = {
    "DE": "{d18}",
    "GB": "WEST{d14}",
    "FR": "{d21}27",
    "NL": "ABNA{d10}",
    "ES": "{d20}",
    "CH": "{d17}",
    "AT": "{d16}",
}


def email(draw: Draw) -> str:
    """An address: with dots, a plus, digits."""
    first, last = draw.choice(_FIRST).lower(), draw.choice(_LAST).lower()
    local = draw.choice(
        (f"{first}.{last}", f"{first[0]}{last}{draw.some('d', 2)}", f"{first}_{last}", f"{last}+billing")
    )
    return f"{local}@{draw.choice(('gmail.com', 'example.org', 'mail.example.co.uk', 'firma-gmbh.de', 'sub.domain.example.com'))}"


def phone(draw: Draw) -> str:
    """A number that says by its form that it is a telephone's."""
    digits = draw.some
    area = str(draw.randint(201, 989))
    return draw.choice(
        (
            f"+1 ({area}) 555-{digits('d', 4)}",
            f"+1-{area}-555-{digits('d', 4)}",
            f"({area}) 555-{digits('d', 4)}",
            f"+1{area}555{digits('d', 4)}",
            f"+44 20 7946 {digits('d', 4)}",
            f"+447700900{digits('d', 3)}",
            f"+49 30 {digits('d', 4)} {digits('d', 4)}",
            f"+49 171 {draw.randint(1000000, 9999999)}",
            f"+33 6 {digits('d', 2)} {digits('d', 2)} {digits('d', 2)} {digits('d', 2)}",
            f"+91 98{digits('d', 3)} {digits('d', 5)}",
            f"+81-90-{digits('d', 4)}-{digits('d', 4)}",
            f"+41 44 {digits('d', 3)} {digits('d', 2)} {digits('d', 2)}",
            f"+55 11 9{digits('d', 4)}-{digits('d', 4)}",
        )
    )


def _luhn(body: str) -> str:
    total = sum(
        sum(divmod(int(digit) * 2, 10)) if at % 2 == 0 else int(digit) for at, digit in enumerate(reversed(body))
    )
    return body + str(-total % 10)


def card(draw: Draw) -> str:
    """A card's number with a right check digit."""
    if draw.random() < 0.2:
        number = _luhn(draw.fill("37{d12}"))
        return draw.choice((number, f"{number[:4]} {number[4:10]} {number[10:]}"))
    number = _luhn(draw.fill(draw.choice(("4{d14}", "51{d13}", "55{d13}", "6011{d11}"))))
    separator = draw.choice(("", " ", "-"))
    return separator.join(number[at : at + 4] for at in range(0, 16, 4))


def iban(draw: Draw) -> str:
    """An account's number with right check digits."""
    country = draw.choice(sorted(_IBAN_SHAPES))
    account = draw.fill(_IBAN_SHAPES[country])
    number = "".join(str(int(sign, 36)) for sign in f"{account}{country}00")
    whole = f"{country}{98 - int(number) % 97:02}{account}"
    return whole if draw.random() < 0.5 else " ".join(whole[at : at + 4] for at in range(0, len(whole), 4))


def social_security(draw: Draw) -> str:
    """An American social security number of an area that was given out."""
    return f"{draw.randint(100, 665)}-{draw.randint(10, 99)}-{draw.randint(1000, 9999)}"


_SENTENCES: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "email": (
        email,
        (
            "550 5.1.1 <{}>: Recipient address rejected: User unknown",
            "could not notify {}",
            "User {} not found.",
            "duplicate key value: Key (email)=({}) already exists.",
            "From: Billing <{}>",
            "mailto:{}",
            "GET /users/{}/orders 404",
            "recipients: {}, ops",
            "refused: {{'{}': (550, b'no such user')}}",
            "email={} attempt=3",
        ),
    ),
    "phone": (
        phone,
        ("The 'To' number {} is not valid.", "sms to {} failed", "phone: {}", "caller {}, queue 7", "tel={} attempt=2", "call me at {}."),
    ),
    "card": (
        card,
        ("card {} was declined", "card_number={}", "charge failed for {}: do_not_honor", "pan: {}", "number '{}' is expired", "Your card ({}) expired."),
    ),
    "iban": (iban, ("iban: {}", "account {} is closed", "IBAN {} fails its check", "debit from {} bounced", "creditor_iban={}")),
    "ssn": (social_security, ("ssn: {}", "SSN {} does not match", "ssn={} attempt=1", "applicant {} was rejected (SSN mismatch)", "social security number {}")),
}  # fmt: skip

_PER_SENTENCE = 12


def _name(draw: Draw) -> str:
    return f"{draw.choice(_FIRST)} {draw.choice(_LAST)}"


def _address(draw: Draw) -> str:
    return f"{draw.choice(_STREETS)} {draw.randint(2, 190)}, {draw.choice(_CITIES)}"


def _birth(draw: Draw) -> str:
    year, month, day = draw.randint(1940, 2006), draw.randint(1, 12), draw.randint(1, 28)
    return draw.choice((f"{year}-{month:02}-{day:02}", f"{day:02}/{month:02}/{year}", f"{day:02}.{month:02}.{year}"))


_KEYED: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "name": (_name, ("full_name", "fullName", "customer_name", "patient_name", "cardholder_name")),
    "first-name": (lambda d: d.choice(_FIRST), ("first_name", "firstName", "given_name")),
    "last-name": (lambda d: d.choice(_LAST), ("last_name", "lastName", "surname", "family_name")),
    "address": (_address, ("street_address", "streetAddress", "home_address", "billing_address", "shippingAddress")),
    "birth": (_birth, ("date_of_birth", "dateOfBirth", "dob", "birth_date", "birthDate", "birthday", "dateofbirth")),
    "email-keyed": (email, ("email", "userEmail", "to")),
    "phone-keyed": (lambda d: d.fill("0{d4} {d6}"), ("phone", "phone_number", "phoneNumber", "mobile", "telephone")),
    "ssn-keyed": (lambda d: d.fill("4{d8}"), ("ssn", "social_security_number")),
}

_NOTATIONS: dict[str, Callable[[Draw, str, str], str]] = {
    "json": lambda d, n, v: json.dumps({"id": 4711, n: v, "state": "failed"}),
    "json-pretty": lambda d, n, v: json.dumps({"customer": {"id": 4711, n: v, "tier": 2}}, indent=2),
    "dict-repr": lambda d, n, v: repr({"id": 4711, n: v, "state": "failed"}),
    "kwargs-repr": lambda d, n, v: f"Customer(id=4711, {n}={v!r}, tier=2)",
    "yaml": lambda d, n, v: f"customer:\n  id: 4711\n  {n}: {v}\n  tier: 2",
    "input-value": lambda d, n, v: (
        f"Input should be a valid integer [type=int_parsing, input_value={{'{n}': {v!r}}}, input_type=dict]"
    ),
    "logfmt": lambda d, n, v: f'level=error customer_id=4711 {n}="{v}" attempt=2',
}


def planted_people(seed: int) -> Iterator[Plant]:
    """All of them; the same for the same seed."""
    draw = Draw(seed + 1)
    for kind, (make, sentences) in _SENTENCES.items():
        for sentence in sentences:
            for frame in draw.sample(sorted(frames.LINE_FRAMES), _PER_SENTENCE):
                yield settled(partial(_in_sentence, draw, kind, make, sentence, frame))
    for kind, (make, names) in _KEYED.items():
        for notation in _NOTATIONS:
            for name in draw.sample(names, min(3, len(names))):
                yield settled(partial(_in_key, draw, kind, make, name, notation))


def _in_sentence(draw: Draw, kind: str, make: Maker, sentence: str, frame: str) -> Plant:
    value = make(draw)
    text, keep = frames.LINE_FRAMES[frame](draw, sentence.format(value))
    return Plant(kind, f"{frame} {sentence}", text, _traces(kind, value), keep)


def _in_key(draw: Draw, kind: str, make: Maker, name: str, notation: str) -> Plant:
    value = make(draw)
    line = _NOTATIONS[notation](draw, name, value)
    choices = frames.BLOCK_FRAMES if "\n" in line else frames.LINE_FRAMES
    frame = draw.choice(sorted(choices)) if draw.random() < 0.5 else "raw"
    text, keep = choices[frame](draw, line)
    return Plant(kind, f"{frame} {notation} {name}", text, _traces(kind, value), keep)


def _traces(kind: str, value: str) -> tuple[str, ...]:
    """What of it tells who it is: the local part of an address, the words of a name, the digits of a number."""
    if kind.startswith("email"):
        return (value.split("@", maxsplit=1)[0],)
    if kind in {"name", "address"}:
        return tuple(word for word in value.replace(",", "").split() if len(word) > 3)
    return (value,)
