"""The walks reach their ends, and count the files whose functions run."""

import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import reprieve
from reprieve.senders import Maildir

ROOT = Path(__file__).parents[2]
PACKAGE = Path(reprieve.__file__).parent


def home(thing):
    """The file of a public name, as the tool prints it: it stays right when modules are renamed."""
    return Path(inspect.getsourcefile(thing)).relative_to(PACKAGE).as_posix()


@pytest.fixture(scope="module")
def walks():
    command = [sys.executable, str(ROOT / "tools" / "walk.py"), "--json", "--lists"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_from_submit_to_dead_letter_a_failure_is_classified_and_decided(walks):
    files = walks["dead-letter"]["lists"]
    assert {home(reprieve.App), home(reprieve.decide), home(reprieve.classify)} <= set(files)
    assert home(reprieve.deliver) not in files
    assert home(Maildir) not in files


def test_from_replay_to_verified_nothing_has_to_be_decided(walks):
    files = walks["replay"]["lists"]
    assert home(reprieve.App) in files
    assert any("operations" in file for file in files)
    assert home(reprieve.decide) not in files


def test_from_deliver_to_finish_the_sender_is_asked(walks):
    files = walks["deliver"]["lists"]
    assert {home(reprieve.deliver), home(Maildir)} <= set(files)
    assert home(reprieve.decide) not in files


@pytest.mark.parametrize("name", ["dead-letter", "replay", "deliver"])
def test_the_counts_of_a_walk_agree_with_its_list(name, walks):
    found = walks[name]
    in_core = [file for file in found["lists"] if file.startswith("core/")]
    assert found["files"] == len(set(found["lists"])) == sum(found["folders"].values())
    assert (found["core"], found["others"]) == (len(in_core), found["files"] - len(in_core))
    assert 10 < found["others"] < 200
    assert all((PACKAGE / file).is_file() for file in found["lists"])


def test_a_walk_counts_the_folder_that_is_named_apart(walk):
    found = walk.Walk("w", ["a.py", "core/a.py", "store/jobs/b.py", "store/c.py"], "store")
    assert found.as_dict(lists=False) == {
        "files": 4, "store": 2, "others": 2, "folders": {".": 1, "core": 1, "store": 2}
    }  # fmt: skip
    assert found.as_text(lists=True).splitlines()[0] == "w: 4 files, 2 of them store, 2 others"


FILES = {
    "function.py": "def run(): ...",
    "lambda_.py": "run = lambda: None",
    "generator.py": "def run():\n    yield\n    yield",
    "imported.py": "def helper(): ...\nclass Body:\n    value = helper()\nvalues = [helper() for _ in 'ab']",
    "importing.py": "def run():\n    from walked import imported",
    "classes.py": "import json\nrun = json.JSONEncoder\nclass Body:\n    def never_called(self): ...",
    "thread.py": "import threading\nfrom walked import function\n"
    "def run():\n    each = threading.Thread(target=function.run)\n    each.start()\n    each.join()",
}


@pytest.fixture
def walked(tree, monkeypatch):
    """Imports modules of a package that is written for the test."""
    root = tree({f"walked/{name}": text for name, text in FILES.items()})
    monkeypatch.syspath_prepend(root)
    yield root, lambda name: importlib.import_module(f"walked.{name}")
    for name in [name for name in sys.modules if name.partition(".")[0] == "walked"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("module", "files"),
    [
        ("function", ["function.py"]),
        ("lambda_", ["lambda_.py"]),
        ("importing", ["importing.py"]),
        ("classes", []),
        ("thread", ["function.py", "thread.py"]),
    ],
)
def test_a_file_counts_when_a_function_of_it_runs_in_any_thread(module, files, walk, walked):
    root, load = walked
    recorder = walk.Recorder(root)
    with recorder.installed():
        recorder.start()
        load(module).run()
        recorder.stop()
    assert sorted(recorder.files) == [f"walked/{file}" for file in files]


def test_only_what_runs_between_start_and_stop_counts(walk, walked):
    root, load = walked
    recorder = walk.Recorder(root)
    with recorder.installed():
        running = load("generator").run()
        next(running)
        load("lambda_").run()
        assert recorder.files == set()
        recorder.start()
        next(running)
        recorder.stop()
        load("function").run()
    assert recorder.files == {"walked/generator.py"}


def test_a_walk_that_does_not_reach_its_end_is_an_error_with_the_reason(walk, tmp_path):
    with pytest.raises(walk.WalkError, match="it is closed, not open"):
        walk.require(condition=False, why="it is closed, not open")
    (tmp_path / "reprieve.py").write_text("Pipeline = None")
    with pytest.raises(walk.WalkError, match=r"the walk deliver failed:(?s:.*)'reprieve' is not a package"):
        walk.run("deliver", tmp_path, "core")


def test_a_walk_that_there_is_none_of_is_refused(walk, capsys):
    with pytest.raises(SystemExit) as end:
        walk.main(["home"])
    assert end.value.code == 2
    assert "there is no walk 'home': choose from dead-letter, replay, deliver" in capsys.readouterr().err
