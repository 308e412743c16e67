"""`reprieve classify`."""

import json
import subprocess
import sys

import pytest


@pytest.fixture
def verdict(command):
    """Runs `reprieve classify --json` and returns what it printed."""

    def run(*arguments, text=""):
        return command("classify", *arguments, "--json", text=text).json

    return run


def test_a_status_with_headers_gives_a_verdict_and_a_schedule_under_each_profile(verdict):
    found = verdict("--status", "429", "-H", "Retry-After: 20")
    assert found["failure"]["error_class"] == "RATE_LIMITED"
    assert found["failure"]["retry_after"] == 20.0
    assert set(found["profiles"]) == {"analysis", "criticizer", "ingestion", "orchestrator"}
    assert [wait["shortest"] for wait in found["profiles"]["criticizer"]["waits"]] == [20.0] * 4


def test_a_traceback_on_standard_input_is_judged(verdict):
    text = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nConnectionResetError: [Errno 104] Connection reset by peer\n'
    assert verdict(text=text)["failure"]["error_class"] == "CONNECTION_RESET"


def test_a_providers_body_or_the_facts_of_an_answer_are_judged(verdict, tmp_path):
    assert verdict(text='{"error": {"type": "overloaded_error"}}')["failure"]["error_class"] == "OVERLOADED"
    facts = tmp_path / "facts.json"
    facts.write_text('{"statusCode": 503, "message": "down", "headers": {"Retry-After": "4"}}')
    assert verdict(str(facts))["failure"]["retry_after"] == 4.0


def test_a_record_of_ours_is_read_back(verdict):
    record = verdict("-m", "connection reset")["failure"]
    assert verdict(text=json.dumps(record))["failure"] == record


def test_each_profile_judges_by_its_own_rules(verdict):
    found = verdict("--status", "501")["profiles"]
    assert found["criticizer"]["waits"] == []
    assert len(found["ingestion"]["waits"]) == 2


def test_people_see_the_remedy_the_evidence_and_the_waits(command):
    done = command("classify", "--status", "503")
    assert done.code == 0
    for expected in ("UPSTREAM_UNAVAILABLE", "worth another try", "remedy", "http.503", "criticizer", "dead letter"):
        assert expected in done.out


def test_a_secret_in_the_message_is_not_shown(command):
    secret = "hunter" + "2secret"
    done = command("classify", "-m", f"login failed: password={secret}")
    assert done.code == 0
    assert "login failed" in done.out
    assert secret not in done.out


def test_a_profile_of_ones_own_is_used(verdict, tmp_path):
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
def test_what_a_person_got_wrong_is_told_in_a_sentence(command, arguments, says):
    done = command(*arguments)
    assert done.code == 2
    assert says in done.err
    assert "Traceback" not in done.err


def test_the_help_shows_examples(command):
    done = command("classify", "--help")
    assert done.code == 0
    assert "--json" in done.out
    assert "Retry-After" in done.out


def test_the_taxonomy_can_be_listed(command):
    assert "NETWORK_TIMEOUT" in command("taxonomy").out
    assert {"error_class", "remedy", "pages"} <= set(json.loads(command("taxonomy", "--json").out)[0])


def test_what_json_printed_can_be_read_again(verdict):
    found = verdict("--status", "503")
    assert verdict(text=json.dumps(found))["failure"] == found["failure"]


def test_a_line_of_a_structured_log_is_judged_by_the_traceback_in_it(verdict):
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
def test_what_does_not_go_together_is_refused(command, arguments, text, says):
    done = command("classify", *arguments, text=text)
    assert done.code == 2
    assert says in done.err
    assert "Traceback" not in done.err


def test_json_nested_beyond_reason_is_survived(command):
    assert command("classify", text='{"a":' * 20_000).code == 0


def test_the_version_is_told(command):
    assert command("--version").out.startswith("reprieve 0.")


def test_the_command_reads_standard_input_as_a_process():
    said = "ConnectionResetError: [Errno 104] Connection reset by peer"
    process = [sys.executable, "-m", "reprieve", "classify", "--json"]
    done = subprocess.run(process, input=said, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["failure"]["error_class"] == "CONNECTION_RESET"
