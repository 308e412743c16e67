"""`make run`: its summary, the commands that it prints, and what it must not show. The tour runs once for this file."""

import asyncio
import json
import mailbox
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from reprieve.testing.sample import HISTORY, make_repository
from reprieve.wiring import open_operations

SHOWN = {1: "shop/orders.py:72", 3: "shop/payments.py:10", 6: "shop/cli.py:33"}
"""The places of the planted faults in the summary, by job."""
LEFT = {4: "shop/orders.py:74", 5: "shop/cli.py:23"}
"""The places in the two reviews that are made after the printed commands."""
HARMLESS = 2


def run(command, folder, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("REPRIEVE_", "COLUMNS"))}
    done = subprocess.run(
        command, cwd=folder, env=environment | variables, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def mails(folder):
    """The texts of all mails by the title of the commit, their first line: (recipient, text)."""
    found = {}
    for box in sorted((folder / "mail").iterdir()):
        for message in mailbox.Maildir(box, create=False):
            text = message.get_payload()[0].get_payload(decode=True).decode()
            found.setdefault(text.splitlines()[0], []).append((box.name, text))
    return found


@pytest.fixture(scope="module")
def tour(tmp_path_factory):
    """One run of the tour: its folder, its summary, and the commands at the end of it."""
    folder = tmp_path_factory.mktemp("tour") / "run"
    picture = folder.parent / "run.svg"
    command = [sys.executable, "-m", "reprieve.testing.tour", "--once", "--folder", folder, "--picture", picture]
    output = run(command, folder.parent)
    steps, _, summary = output.partition("\n\n")
    lines = summary.rstrip("\n").split("\n")
    commands = [line.strip() for line in lines[lines.index("Try next") :] if line.startswith("  ")]
    return SimpleNamespace(
        folder=folder, steps=steps.split("\n"), lines=lines, commands=commands, picture=picture.read_text()
    )


@pytest.fixture(scope="module")
def solved(tour, tmp_path_factory):
    """A copy of the run in which all printed commands were typed, and what each printed."""
    folder = shutil.copytree(tour.folder, tmp_path_factory.mktemp("solved") / "run")
    said = {}
    path, variables = os.environ["PATH"], {}
    for line in tour.commands:
        if line.startswith("cd "):
            assert Path(line.removeprefix("cd ")) == tour.folder
        elif line.startswith("export PATH="):
            path = line.removeprefix("export PATH=").replace("$PATH", path)
        elif line.startswith("export "):
            variables |= dict([line.removeprefix("export ").split("=", 1)])
        else:
            said[line] = run(["bash", "-e", "-c", line], folder, PATH=path, **variables)
    return SimpleNamespace(folder=folder, said=said, **asyncio.run(rows_of(folder)))


async def rows_of(folder):
    """What the database of a run has about its jobs, its dead letter and its review."""
    async with open_operations(f"sqlite:///{folder / 'reprieve.db'}") as operations:
        return {
            "jobs": {job.job_id: job.status for job in await operations.jobs.list()},
            "letter": (await operations.dead_letters.show(1)).row.state,
            "answers": json.loads((await operations.reviews.show(1)).answers),
        }


def of_job(lines, job):
    """The lines of the summary about a job."""
    first = next(place for place, line in enumerate(lines) if line.startswith(f"job {job} "))
    return [lines[first], *(line for line in lines[first + 1 : first + 2] if line.startswith("   "))]


def test_the_summary_fits_on_40_lines_of_100_columns_and_the_folder_has_the_same_in_a_picture(tour):
    assert len(tour.lines) <= 40
    assert max(len(line) for line in tour.lines) <= 100
    assert "<svg" in tour.picture
    assert "dead&#160;letter&#160;1" in tour.picture


@pytest.mark.parametrize(("job", "place"), SHOWN.items())
def test_a_planted_fault_is_found_at_its_place(tour, job, place):
    head, finding = of_job(tour.lines, job)
    assert re.search(r"  \d+ findings?$", head)
    assert finding.split()[0] == place


def test_the_harmless_commit_has_no_finding(tour):
    (head,) = of_job(tour.lines, HARMLESS)
    assert head.endswith("  no findings")


def test_every_fault_on_the_way_is_told_as_it_happens_and_in_the_summary(tour):
    steps, summary = "\n".join(tour.steps), "\n".join(tour.lines)
    for kind in ("503 UPSTREAM_UNAVAILABLE", "429 RATE_LIMITED", "CONNECTION_RESET", "CONNECTION_REFUSED"):
        assert re.search(rf"failed, {kind}, will be retried", steps)
        assert re.search(rf"\d x {kind} .*retried, stage done", summary)
    assert "killed with SIGKILL" in steps
    assert re.search(r"\d x worker process killed .*another worker took over, stage done", summary)
    assert re.search(r"1 x 403 PERMISSION_DENIED .*dead letter 1, open", summary)
    assert re.search(r"1 x OUTPUT_INVALID .*review 1 waits for a person", summary)


def test_one_dead_letter_and_one_answer_are_left_and_each_recipient_got_each_review_once(tour):
    assert re.fullmatch(
        r"6 commits in \d+ s: 4 reviewed and sent, 1 in the dead-letter queue, 1 waiting for a person", tour.lines[0]
    )
    found = mails(tour.folder)
    assert set(found) == {HISTORY[job].subject for job in (1, 2, 3, 6)}
    for sent in found.values():
        assert len({recipient for recipient, _ in sent}) == len(sent)
    number = sum(len(sent) for sent in found.values())
    assert any(line.startswith(f"  {number} messages in mail/: ") for line in tour.lines)
    assert any("a look-up found 1 of 1 delivered" in line for line in tour.lines)


def test_the_printed_commands_replay_the_dead_letter_and_close_it(solved):
    assert solved.jobs == dict.fromkeys(range(1, 7), "succeeded")
    assert any("403 Forbidden" in text for text in solved.said.values())
    assert solved.letter == "resolved"
    ((_, text), *_) = mails(solved.folder)[HISTORY[4].subject]
    assert LEFT[4] in text


def test_the_printed_command_answers_for_the_model_and_the_mail_has_the_facts_too(solved):
    ((_, text), *_) = mails(solved.folder)[HISTORY[5].subject]
    assert "Take it out." in text
    assert "Opinion of a person." in text
    assert LEFT[5] in text


def test_both_answers_of_the_toy_model_are_in_the_queue_under_its_name_and_nowhere_else(tour, solved):
    assert [answer["model"] for answer in solved.answers] == ["toy model", "toy model"]
    assert all(answer["errors"] for answer in solved.answers)
    assert any("answer 2 of toy model" in text for text in solved.said.values())
    outside = ["\n".join(tour.lines), *(text for sent in mails(solved.folder).values() for _, text in sent)]
    for answer in solved.answers:
        words = " ".join(answer["text"].split())[:40]
        assert words
        assert not any(words in " ".join(text.split()) for text in outside)
    assert not any("one short sentence" in text for text in outside)  # which the toy repeats from its prompt


@pytest.mark.parametrize("planted", [True, False], ids=["with the breakpoint", "without it"])
def test_a_commit_without_its_planted_fault_is_reviewed_without_that_finding(tmp_path, planted):
    commit = HISTORY[5]
    if not planted:
        files = {**commit.files, "shop/cli.py": commit.files["shop/cli.py"].replace("    breakpoint()\n", "")}
        commit = replace(commit, files=files)
    make_repository(tmp_path / "shop", (*HISTORY[:5], commit))
    said = run([sys.executable, "-m", "reprieve", "review", "HEAD", "--repository", "shop"], tmp_path)
    assert ("shop/cli.py:23" in said) is planted
