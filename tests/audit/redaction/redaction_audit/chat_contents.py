"""What people and models say to each other: the strings that must vanish wherever a chat is quoted."""

import json

from redaction_audit.draw import Draw

_SUBJECTS = (
    "patient Oxenford", "our Rotterdam warehouse", "the Lindqvist account", "grandmother's recipe", "candidate Villanueva",
    "the unannounced merger", "my neighbour Featherstone", "the Helsinki subsidiary", "Professor Abernathy", "the plaintiff",
)  # fmt: skip
_VERBS = (
    "complained bitterly about", "secretly negotiated", "repeatedly misplaced", "strongly recommended", "quietly abandoned",
    "has never disclosed", "urgently requires", "accidentally published", "was diagnosed with", "inherited",
)  # fmt: skip
_OBJECTS = (
    "chronic migraines and insomnia", "seventeen unpaid invoices", "the turquoise bicycle", "a severance package of 48,200 euros",
    "confidential turbine blueprints", "rheumatoid arthritis medication", "the cinnamon marmalade", "three offshore trusts",
    "an embarrassing photograph", "the quarterly layoffs", "encrypted submarine schematics", "gluten-free dumplings",
)  # fmt: skip
_CODE = (
    "def settle_{word}(ledger):\n    for voucher in ledger.pending:\n        if voucher.amount > {number}:\n"
    '            raise ValueError(f"oversized {{voucher}}")\n    return ledger'
)
_UNICODE = (
    "Überweisung für Jürgen Müller über 5.000 € bitte stornieren",
    "Le café brûlé a été refusé par Geneviève Lefèvre 😡",
    "日本語の患者記録を要約してください、田中さんの診断について",
    "Пожалуйста, проверьте договор Дмитрия Соколова",
    "naïve façade 🙂🚀 coöperation requested by Zoë",
)


def sentence(draw: Draw) -> str:
    """One plain sentence."""
    return f"{draw.choice(_SUBJECTS)} {draw.choice(_VERBS)} {draw.choice(_OBJECTS)}"


def content(draw: Draw) -> str:
    """A message: plain, or with what breaks naive readers: quotes, lines, code, JSON, other scripts, escapes."""
    plain = sentence(draw)
    other = sentence(draw)
    return draw.choice(
        (
            f"{plain}.",
            f"Please summarise: {plain}, and {other}.",
            f"She said \"{plain}\" and then '{other}' to everyone.",
            f"{plain}\n\n- {other}\n- {sentence(draw)}\n",
            f"Review this:\n```python\n{_CODE.format(word=draw.some('L', 7), number=draw.randint(100, 9999))}\n```\n{plain}",
            f"{draw.choice(_UNICODE)}; {plain}",
            json.dumps({"subject": plain, "items": [other, 3, None], "nested": {"quote": 'it"s'}}),
            f"C:\\Users\\nakamura\\Documents\\{draw.some('L', 9)}.docx says {plain}\\n literally",
            f"It's {plain}; don't tell. {{braces}} [brackets] (parens) <tags> {other}",
            f'He wrote: "role": "user", "content": "{plain}"}}]}} and more: {other}',
            f"{plain}\t{other}\r\n{draw.choice(_UNICODE)}",
            f"Subject: {plain}\nFrom: the desk\n\nmodel: none, {other}",
        )
    )


def fragment(draw: Draw) -> str:
    """What one chunk of a stream holds: a few words."""
    words = [word for word in sentence(draw).split() if len(word) >= 6 and word.isalpha()]
    return " " + " ".join(words[: draw.randint(1, 2)])


def image(draw: Draw) -> str:
    """The data of a picture."""
    return draw.fill("iVBORw0KGgo{b200}==")
