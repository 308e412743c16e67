"""What must hold of the rows about dead letters, whatever was done: recomputed from the letters and their history."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from reprieve.core.lifecycle import LETTER_TRANSITIONS, LetterEvent, LetterState

DEATHS = ("fail", "relapse")


def audit(rows: dict[str, list[dict[str, Any]]]) -> None:
    """Counts, hours, groups, histories, texts, members and jobs agree with the letters."""
    entries: dict[int, list[dict[str, Any]]] = {letter["id"]: [] for letter in rows["dead_letters"]}
    for entry in rows["dead_letter_history"]:
        entries[entry["letter_id"]].append(entry)
    counted = {(row["group_id"], row["state"]): row["letters"] for row in rows["dead_letter_counts"] if row["letters"]}
    assert counted == Counter((letter["group_id"], letter["state"]) for letter in rows["dead_letters"])
    audit_deaths(rows, entries)
    for letter in rows["dead_letters"]:
        audit_history(letter, entries[letter["id"]])
    assert {row["letter_id"] for row in rows["dead_letter_texts"]} == set(entries)
    audit_jobs(rows)
    audit_members(rows)


def audit_deaths(rows: dict[str, list[dict[str, Any]]], entries: dict[int, list[dict[str, Any]]]) -> None:
    """Each death stands in its hour and group, and the groups know the first and the last."""
    groups = {row["id"]: row for row in rows["dead_letter_groups"]}
    names = ("fingerprint", "stage", "error_class")
    deaths: list[tuple[tuple[str, ...], float]] = []
    for letter in rows["dead_letters"]:
        again = [entry for entry in entries[letter["id"]] if entry["event"] in DEATHS]
        kinds = [json.loads(entry["detail"]) for entry in again]
        kinds = [kinds[0]["before"], *kinds] if kinds else [groups[letter["group_id"]]]
        assert [kinds[-1][name] for name in names] == [groups[letter["group_id"]][name] for name in names]
        pipeline = groups[letter["group_id"]]["pipeline"]
        times = [letter["opened_at"], *(entry["at"] for entry in again)]
        deaths += [((pipeline, *(kind[name] for name in names)), at) for kind, at in zip(kinds, times, strict=True)]
    keys = {row["id"]: (row["pipeline"], *(row[name] for name in names)) for row in groups.values()}
    hours: Counter[tuple[int, tuple[str, ...]]] = Counter()
    for row in rows["dead_letter_hours"]:
        hours[row["hour"], keys[row["group_id"]]] += row["deaths"]
    assert hours == Counter((int(at // 3600), key) for key, at in deaths)
    for key in keys.values():
        kin = [row for row in groups.values() if keys[row["id"]] == key]
        times = [at for found, at in deaths if found == key]
        assert (min(row["first_seen"] for row in kin), max(row["last_seen"] for row in kin)) == (min(times), max(times))


def audit_history(letter: dict[str, Any], entries: list[dict[str, Any]]) -> None:
    """The entries lead from `open` to where the letter is, each by a transition that there is."""
    state = LetterState.OPEN
    for entry in entries:
        assert entry["before"] == state
        state = LETTER_TRANSITIONS[state, LetterEvent(entry["event"])]
        assert entry["after"] == state
    assert letter["state"] == state
    assert letter["replays"] == sum(entry["event"] in {"replay", "override"} for entry in entries)
    assert (letter["closed_at"] is not None) == state.closed
    assert letter["cause"] is None or state is not LetterState.OPEN


def audit_jobs(rows: dict[str, list[dict[str, Any]]]) -> None:
    """A job is in the dead-letter queue exactly while its letter is."""
    status = {row["job_id"]: row["status"] for row in rows["outcomes"]}
    for letter in rows["dead_letters"]:
        state, found = LetterState(letter["state"]), status.get(letter["job_id"])
        if state is LetterState.REPLAYING:
            assert found != "dead_letter"
        elif state is LetterState.REPLAYED:
            assert found == "succeeded"
        elif letter["replays"] == 0:
            assert found == "dead_letter"
        if found == "dead_letter":
            assert state.dead or state.closed
    assert set(status) >= {row["job_id"] for row in rows["dead_letters"] if row["state"] != "replaying"}


def audit_members(rows: dict[str, list[dict[str, Any]]]) -> None:
    """A member is being replayed exactly while its letter is, by that campaign; and they are counted."""
    campaigns = {row["id"]: (row["state"], row["campaign_id"]) for row in rows["dead_letters"]}
    for member in rows["campaign_members"]:
        replaying = campaigns.get(member["letter_id"]) == ("replaying", member["campaign_id"])
        assert (member["state"] == "replaying") == replaying
    keys = [
        (row["campaign_id"], -1 if row["wave"] is None else row["wave"], row["state"])
        for row in rows["campaign_members"]
    ]
    counted = {(row["campaign_id"], row["wave"], row["state"]): row["members"] for row in rows["campaign_counts"]}
    assert {key: count for key, count in counted.items() if count} == Counter(keys)
