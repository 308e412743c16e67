"""The comparison of two checkouts, on a small repository whose bench is a stub with the sample protocol."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support import programs

BENCH = Path(__file__).parents[2] / "bench"
EFFORT = ("--pairs", "6", "--max-pairs", "6", "--seconds", "0.01")
STUB = """
import json, os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
HERE = pathlib.Path(__file__).parent
costs = json.loads((HERE / "costs.json").read_text())
if "--protocol" in sys.argv:
    print(json.dumps({"protocol": costs.get("protocol", 1), "groups": list(costs["groups"])}))
    sys.exit()
asked = dict(zip(sys.argv[1::2], sys.argv[2::2]))
with open(os.environ["STUB_LOG"], "a") as log:
    log.write(f"{HERE.parent.name} {os.environ['PYTHONHASHSEED']} {asked['--seconds']}\\n")
pathlib.Path(asked["--fixture"], "left").touch()
group = costs["groups"][asked["--sample"]]
if group == "fail":
    sys.exit("the disk is full")
if group == "hang":
    try:
        print("hanging", file=open(os.environ["STUB_LOG"], "a", 1))
        time.sleep(60)
    finally:
        print("stopped in order", file=open(os.environ["STUB_LOG"], "a", 1))
print(json.dumps({"protocol": 1, "group": asked["--sample"], "costs": group}))
"""
MAKEFILE = """
VENV := .venv
%/.stamps/bench: requirements/bench.txt
\t@mkdir -p $(VENV)/bin $(VENV)/.stamps
\t@ln -sf $(PYTHON) $(VENV)/bin/python
\t@echo built >> "$(STUB_LOG).built"
\t@touch $@
"""
COSTS = {"retry": {"a call": 100.0, "a block": 50.0}, "redact": {"clean text": 7.0}}


class Repository:
    """A repository whose bench prints the costs of `costs.json`, and a folder for temporary files."""

    def __init__(self, folder):
        self.folder, self.log, self.temporary = folder / "repository", folder / "log", folder / "tmp"
        self.temporary.mkdir()
        (self.folder / "bench").mkdir(parents=True)
        (self.folder / "requirements").mkdir()
        (self.folder / "requirements" / "bench.txt").write_text("nothing==1\n")
        (self.folder / "pyproject.toml").touch()
        (self.folder / ".gitignore").write_text(".run/\n.reports/\n")
        (self.folder / "Makefile").write_text(MAKEFILE)
        (self.folder / "bench" / "run.py").write_text(STUB)
        self.environment = {
            **os.environ, "STUB_LOG": str(self.log), "TMPDIR": str(self.temporary),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
        }  # fmt: skip
        self.git("init", "--quiet")
        self.cost(COSTS)
        self.commit()

    def git(self, *arguments):
        command = [programs.require("git"), *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, check=True, capture_output=True, text=True
        )
        return done.stdout

    def cost(self, groups, **more):
        (self.folder / "bench" / "costs.json").write_text(json.dumps({"groups": groups, **more}))

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Change the costs", "--allow-empty")

    def start(self, *arguments):
        code = f"import sys, pathlib; sys.path.insert(0, {str(BENCH)!r}); import compare; "
        code += f"sys.exit(compare.main(sys.argv[1:], repository=pathlib.Path({str(self.folder)!r})))"
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments], env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def compare(self, *arguments):
        process = self.start(*arguments)
        output, errors = process.communicate(timeout=60)
        return process.returncode, output, errors

    def samples(self):
        return self.log.read_text().splitlines()

    def report(self):
        (path,) = (self.folder / ".reports" / "bench-compare").glob("*.json")
        return json.loads(path.read_text())

    def is_clean(self):
        unchanged = self.git("status", "--porcelain") == "" and self.git("worktree", "list").count("\n") == 1
        return unchanged and not list(self.temporary.iterdir())


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path)


def test_equal_checkouts_show_no_difference(repository):
    code, output, errors = repository.compare("HEAD", *EFFORT)  # of all groups
    assert code == 0, errors
    assert "slower: none" in output
    assert "a call   1.000  [1.000, 1.000]  no difference" in output
    assert "== redact: 6 pairs of 0.01 s" in output
    assert "not to be quoted" in output
    assert "retry: pair 6 of about 6" in errors
    assert repository.is_clean()


def test_an_uncommitted_slowdown_is_found_in_its_group_and_figure(repository):
    repository.cost({**COSTS, "retry": {"a call": 108.0, "a block": 50.0}})
    code, output, _ = repository.compare("HEAD", "retry", *EFFORT)
    assert code == 1
    assert "slower: retry\n  retry: a call 1.080 [1.080, 1.080]\n" in output
    assert "a block  1.000  [1.000, 1.000]  no difference" in output


def test_too_few_pairs_decide_nothing_and_do_not_pass(repository):
    code, output, _ = repository.compare("HEAD", "retry", "--pairs", "2", "--max-pairs", "2", "--seconds", "0.01")
    assert code == 3
    assert "slower: none" in output
    assert "undecided: retry" in output


def test_a_later_commit_is_compared_with_an_older_one(repository):
    repository.cost({"retry": {"a call": 80.0}})
    repository.commit()
    code, output, _ = repository.compare("HEAD~1", "retry", *EFFORT)
    assert code == 0
    assert "faster: retry\n  retry: a call 0.800 [0.800, 0.800]\n" in output
    assert "a block  not compared: a sample lacks it" in output
    assert "redact" not in output


def test_pairs_alternate_the_order_and_share_a_hash_seed(repository):
    repository.compare("HEAD", "retry", *EFFORT)
    warm, pairs = repository.samples()[:2], repository.samples()[2:]
    assert warm == ["base 0 0.01", "head 0 0.01"]
    assert pairs == [
        f"{side} {pair} 0.01"
        for pair in range(1, 7)
        for side in (("base", "head") if pair % 2 else ("head", "base"))
    ]  # fmt: skip


def test_the_raw_samples_are_written(repository):
    repository.cost({**COSTS, "retry": {"a call": 110.0}})
    repository.compare("HEAD", "retry", *EFFORT)
    report = repository.report()
    (group,) = report["groups"]
    assert (group["group"], len(group["base"]), len(group["head"])) == ("retry", 6, 6)
    assert (group["base"][0]["a call"], group["head"][5]["a call"]) == (100.0, 110.0)
    assert report["ratios"]["retry"]["a call"]["median"] == pytest.approx(1.1)
    assert report["plan"]["pairs"] == 6


def test_an_environment_is_built_once_for_the_same_pins(repository):
    for _ in range(2):
        repository.compare("HEAD", "redact", *EFFORT)
    built = Path(f"{repository.log}.built")
    assert built.read_text().count("built") == 1
    (repository.folder / "requirements" / "bench.txt").write_text("nothing==2\n")
    repository.compare("HEAD", "redact", *EFFORT)
    assert built.read_text().count("built") == 2, "the head pins something else"


def without_a_protocol(repository):
    (repository.folder / "bench" / "run.py").write_text("import sys; sys.exit('unrecognized arguments')")
    repository.commit()
    (repository.folder / "bench" / "run.py").write_text(STUB)
    return "HEAD"


def with_another_protocol(repository):
    repository.cost(COSTS, protocol=2)
    repository.commit()
    repository.cost(COSTS)
    return "HEAD"


def that_fails(repository):
    repository.cost({**COSTS, "retry": "fail"})
    return "HEAD"


@pytest.mark.parametrize(
    ("prepare", "arguments", "message"),
    [
        (without_a_protocol, [], "the bench of base HEAD cannot be sampled"),
        (with_another_protocol, [], "speaks protocol 2, this program 1"),
        (that_fails, ["retry"], "head: the sample of retry failed:\nthe disk is full"),
        (lambda _: "nowhere", [], "'nowhere' is no commit of this repository"),
        (lambda _: "", [], "no base: make bench-compare BASE=<commit>"),
        (lambda _: "HEAD", ["engine"], "no group engine on both sides: ONLY takes retry redact"),
        (lambda _: "HEAD", ["--pairs", "9", "--max-pairs", "8"], "--pairs must be at least 1 and at most"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_comparison_that_cannot_be_made_says_why(repository, prepare, arguments, message):
    base = prepare(repository)
    code, output, errors = repository.compare(base, *arguments)
    assert code == 2
    assert message in errors
    assert output == ""
    assert not list(repository.temporary.iterdir())


def test_an_interrupt_stops_the_sample_and_keeps_the_raw_samples(repository):
    repository.cost({"redact": COSTS["redact"], "retry": "hang"})
    process = repository.start("HEAD", "redact", "retry", *EFFORT)
    until = time.monotonic() + 30
    while not (repository.log.exists() and "hanging" in repository.samples()) and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in errors
    assert repository.samples()[-1] == "stopped in order"
    assert [len(group["base"]) for group in repository.report()["groups"]] == [6, 0]
    assert not list(repository.temporary.iterdir())
