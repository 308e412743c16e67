"""`reprieve classify`, as a process."""

import json
import subprocess
import sys

import pytest


def reprieve(*arguments, text=""):
    command = [sys.executable, "-m", "reprieve.faces.cli", *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)


def verdict(*arguments, text=""):
    done = reprieve("classify", *arguments, "--json", text=text)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_status_with_headers_gives_a_verdict_and_a_schedule_under_each_profile():
    found = verdict("--status", "429", "-H", "Retry-After: 20")
    assert found["failure"]["error_class"] == "RATE_LIMITED"
    assert found["failure"]["retry_after"] == 20.0
    assert set(found["profiles"]) == {"analysis", "criticizer", "ingestion", "orchestrator"}
    assert [wait["shortest"] for wait in found["profiles"]["criticizer"]["waits"]] == [20.0] * 4


def test_a_traceback_on_standard_input_is_judged():
    text = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nConnectionResetError: [Errno 104] Connection reset by peer\n'
    assert verdict(text=text)["failure"]["error_class"] == "CONNECTION_RESET"


def test_a_providers_body_or_the_facts_of_an_answer_are_judged(tmp_path):
    assert verdict(text='{"error": {"type": "overloaded_error"}}')["failure"]["error_class"] == "OVERLOADED"
    facts = tmp_path / "facts.json"
    facts.write_text('{"statusCode": 503, "message": "down", "headers": {"Retry-After": "4"}}')
    assert verdict(str(facts))["failure"]["retry_after"] == 4.0


def test_a_record_of_ours_is_read_back():
    record = verdict("-m", "connection reset")["failure"]
    assert verdict(text=json.dumps(record))["failure"] == record


def test_each_profile_judges_by_its_own_rules():
    found = verdict("--status", "501")["profiles"]
    assert found["criticizer"]["waits"] == []
    assert len(found["ingestion"]["waits"]) == 2


def test_people_see_the_remedy_the_evidence_and_the_waits():
    done = reprieve("classify", "--status", "503")
    assert done.returncode == 0
    for expected in ("UPSTREAM_UNAVAILABLE", "worth another try", "remedy", "http.503", "criticizer", "dead letter"):
        assert expected in done.stdout


def test_a_secret_in_the_message_is_not_shown():
    secret = "hunter" + "2secret"
    done = reprieve("classify", "-m", f"login failed: password={secret}")
    assert secret not in done.stdout


def test_a_profile_of_ones_own_is_used(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text('[hasty]\nextends = "criticizer"\nmax_attempts = 2\n')
    found = verdict("--status", "503", "--profiles", str(own), "--profile", "hasty")
    assert len(found["profiles"]["hasty"]["waits"]) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["classify", "-p", "nope", "-m", "x"], "no profile or policy is named 'nope'"),
        (["classify", "--status", "400", "-H", "bad"], "'Retry-After: 3' would be right"),
        (["classify", "no-such-file.txt"], "cannot read no-such-file.txt"),
        (["classify"], "nothing to classify"),
        (["classify", "--status", "9000"], "--status"),
        (["classfy"], "classfy"),
    ],
)
def test_what_a_person_got_wrong_is_told_in_a_sentence(arguments, says):
    done = reprieve(*arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_the_help_shows_examples():
    done = reprieve("classify", "--help")
    assert done.returncode == 0
    assert "--json" in done.stdout
    assert "Retry-After" in done.stdout


def test_the_taxonomy_can_be_listed():
    assert "NETWORK_TIMEOUT" in reprieve("taxonomy").stdout
    assert {"error_class", "remedy", "pages"} <= set(json.loads(reprieve("taxonomy", "--json").stdout)[0])


def test_what_json_printed_can_be_read_again():
    found = verdict("--status", "503")
    assert verdict(text=json.dumps(found))["failure"] == found["failure"]


def test_a_line_of_a_structured_log_is_judged_by_the_traceback_in_it():
    stack = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nTimeoutError: slow'
    assert (
        verdict(text=json.dumps({"level": "error", "exc_info": stack}))["failure"]["error_class"] == "NETWORK_TIMEOUT"
    )


@pytest.mark.parametrize(
    ("arguments", "text", "says"),
    [
        (["--status", "503", "some.txt"], "", "not a file beside"),
        (["-m", "x", "-H", "A: b"], "", "give its --status too"),
        (["no such file"], "", "given with -m"),
        ([], '{"error_class": "X", "evidence": 1, "fingerprint": "x"}', "no record of a failure"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments, text, says):
    done = reprieve("classify", *arguments, text=text)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_json_nested_beyond_reason_is_survived():
    assert reprieve("classify", text='{"a":' * 20_000).returncode == 0


def test_the_version_is_told():
    assert reprieve("--version").stdout.startswith("reprieve 0.")
