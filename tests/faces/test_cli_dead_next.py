"""What a person is told about a dead letter is true, and the command under it does what it says."""

import json
import signal
import subprocess
import sys

import pytest

GATES = ["--cause", "code", "--evidence", "deployed 1.2", "--safe"]


@pytest.fixture
def dead(worked):
    """Runs `reprieve dead ...` where dead letter 1 is of job 2, and nothing is left to do."""
    worked("jobs", "cancel", 4)
    return lambda *arguments, **options: worked("dead", *arguments, **options)


def run(worked):
    assert worked("work", "--until-idle", "--log-level", "error").code == 0


def fail_again(worked, dead):
    assert dead("replay", 1, *GATES).code == 0
    run(worked)
    assert dead("show", 1, "--json").json["state"] == "escalated"


def test_after_a_relapse_the_next_step_and_the_way_in_one_go_name_the_same_cause_and_say_that_all_gates_count_anew(
    worked, dead
):
    fail_again(worked, dead)
    shown = dead("show", 1).out
    step = next(line for line in shown.splitlines() if "reprieve dead triage 1 --cause " in line)
    whole = next(line for line in shown.splitlines() if "reprieve dead replay 1 --cause " in line)
    assert step.split("--cause ")[1].split()[0] == whole.split("--cause ")[1].split()[0]
    assert "it came back after a replay: cause, evidence and safety are asked for anew" in shown
    refused = dead("replay", 1)
    assert refused.code == 1
    assert "the cause has to be named anew, as it came back after a replay" in refused.err


def test_a_verification_says_whether_it_closed_the_item_and_what_is_left_to_do(worked, dead):
    dead("replay", 1, *GATES, "--set", "n=5")
    run(worked)
    done = dead("verify", 1)
    assert done.out.splitlines() == [
        "dead letter 1: verified", "  next: close it with a note", "  reprieve dead resolve 1 --note '...'",
    ]  # fmt: skip
    assert dead("verify", 1, "--note", "fine").out.splitlines()[0] == "dead letter 1: verified and resolved"


def test_what_is_counted_of_a_group_adds_up_and_each_state_has_its_step(worked, dead):
    for n in (13, 13, 13):
        worked("submit", "review", json.dumps({"n": n}))
    run(worked)
    dead("discard", 2, "--reason", "no")
    dead("replay", 3, *GATES, "--set", "n=5")
    run(worked)
    (group,) = dead("groups", "--json").json["groups"]
    shown = dead("groups").out.splitlines()
    assert shown[1].startswith("3      open 2, replayed 1 (and discarded 1)  review.llm")
    steps = [line.strip() for line in shown if "next: " in line]
    assert steps == [
        f"next: reprieve dead triage --group {group['fingerprint']} --cause data    # 2 open",
        f"next: reprieve dead verify --group {group['fingerprint']} --note '...'    # 1 replayed",
    ]
    assert "2 that wait for a remedy; besides 1 replayed and to be verified" in dead("stats").out


def test_a_page_says_where_the_payload_can_be_seen_and_how_it_is_corrected(dead):
    shown = dead("show", 1).out
    assert "kept: reprieve jobs show 2 --payload" in shown
    assert "with --set PATH=JSON or --payload FILE" in shown


def test_members_of_a_campaign_wait_for_it_and_it_names_those_that_it_left_out(worked, dead):
    for n in (13, 13):
        worked("submit", "review", json.dumps({"n": n}))
    run(worked)
    (group,) = dead("groups", "--json").json["groups"]
    dead("replay", "--group", group["fingerprint"], *GATES, "--detach", "--yes", "--rate", "1/h")
    assert "next: wait: campaign 1 will replay it\n  reprieve dead campaigns show 1" in dead("show", 3).out
    assert "in one go" not in dead("show", 3).out
    assert dead("list").out.count("next: reprieve dead campaigns show 1") == 3
    assert dead("list", "--json").json["dead_letters"][0]["waits_in"] == 1
    assert "campaign 1, in which it waited for its turn, will leave it out" in dead("discard", 3, "--reason", "no").out
    done = dead("replay", 2, "--override", "urgent")
    assert "campaign 1, in which it waited for its turn, will leave it out" in done.out
    dead("campaigns", "cancel", 1)
    assert "reprieve dead triage 1" in dead("list").out


def test_a_campaign_names_members_that_came_back_and_that_it_left_out(worked, dead):
    worked("submit", "review", '{"n": 13}')
    run(worked)
    (group,) = dead("groups", "--json").json["groups"]
    dead("replay", "--group", group["fingerprint"], *GATES, "--detach", "--yes", "--all-at-once")
    dead("discard", 1, "--reason", "no", "--actor", "ada")
    run(worked)
    shown = dead("campaigns", "show", 1)
    assert shown.code == 0, shown.err
    rows = [line.split() for line in shown.out.splitlines()]
    assert ["1", "left", "out", "discarded", "discard", "by", "ada"] in rows
    assert ["2", "came", "back", "escalated", "relapse", "by", "reprieve"] in rows
    found = dead("campaigns", "show", 1, "--json").json["notable"]
    assert [(each["letter_id"], each["state"], each["letter_state"]) for each in found] == [
        (1, "left_out", "discarded"), (2, "returned", "escalated"),
    ]  # fmt: skip
    dead("campaigns", "cancel", 1)
    assert f"reprieve dead list --group {group['fingerprint']}" not in shown.out  # it was stopped, not cancelled


def test_a_replay_says_that_nobody_works_where_nobody_does(dead):
    assert "no worker runs: reprieve work starts one" in dead("replay", 1, *GATES).err


def test_whoever_stops_waiting_for_a_replay_is_told_that_it_goes_on(dead, tmp_path):
    waiting = subprocess.Popen(
        [sys.executable, "-m", "reprieve", "dead", "replay", "1", *GATES, "--wait"], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert waiting.stderr is not None
    assert "no worker runs" in waiting.stderr.readline()
    waiting.send_signal(signal.SIGINT)
    _, said = waiting.communicate(timeout=60)
    assert waiting.returncode == 130
    assert "the jobs go on without you" in said
    assert dead("show", 1, "--json").json["state"] == "replaying"
