"""Settings: nothing has to be set, and what is set wrongly is refused with its place and without its value."""

import re
import subprocess
import tomllib
from importlib.resources import files

import pytest

from reprieve import UsageError
from reprieve.review.critic.suppression import CriticSettings
from reprieve.review.parts import address_of, critic_of, parts_of
from reprieve.review.settings import Settings, load


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_anything_the_state_of_a_repository_is_in_its_git_directory(folder):
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    (folder / "inner").mkdir()
    found = load(repository="inner")
    state = folder / ".git" / "reprieve"
    assert (found.database, found.mail.folder) == (f"sqlite:///{state / 'reviews.db'}", state / "mail")
    assert (found.model.name, found.notify.is_on) == (None, False)


def test_the_state_of_a_repository_that_is_elsewhere_is_in_the_home_for_state(folder, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    assert load(repository="https://git.example.org/a.git").state == folder / "state" / "reprieve"
    assert load(repository="/no/such/place").state == folder / "state" / "reprieve"


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("openai:x", "openai:x"),
        ("http://127.0.0.1:1/v1#x", "openai+http://127.0.0.1:1/v1#x"),
        ("/a/b.gguf", "local:/a/b.gguf"),
    ],
)
def test_a_model_is_one_setting(name, made):
    assert address_of(load(model=name).model.name) == made


def test_a_settings_file_of_this_folder_cannot_switch_the_rules_off_or_replace_parts(folder, monkeypatch):
    path, rules = folder / "reprieve.toml", 'model = "local"\n[critic]\nexclude = ["*.py"]\n'
    path.write_text(rules)
    assert (load().critic, load().model.name) == (None, "local")
    for line in ("facts = false", 'parts = "evil:run"', "chaos = 1", 'trusted = ["/"]'):
        path.write_text(f"{line}\n{rules}")
        with pytest.raises(UsageError, match=r"--settings reprieve\.toml"):
            load()
    path.write_text(f'facts = false\nparts = "evil:run"\n{rules}')
    named = load(path)
    assert (named.critic.exclude, named.facts, named.parts) == (("*.py",), False, "evil:run")
    path.write_text(rules)
    monkeypatch.setenv("REPRIEVE_REVIEW_CRITIC", '{"off": ["secret"]}')
    assert load().critic.off == ("secret",)


def test_the_environment_comes_before_the_file_and_the_call_before_both(folder, monkeypatch):
    (folder / "reprieve.toml").write_text('database = "sqlite:///file.db"\n[model]\nname = "openai:a"\nseconds = 9\n')
    assert (load().database, load().model.name) == ("sqlite:///file.db", "openai:a")
    monkeypatch.setenv("REPRIEVE_REVIEW_MODEL__NAME", "openai:b")
    assert (load().model.name, load().model.seconds) == ("openai:b", 9.0)
    assert load(database="sqlite:///said.db").database == "sqlite:///said.db"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[mail]\npasswort = "hunter2-hunter2"\n', "mail.passwort.*no such setting"),
        ('[mail]\nport = "hunter2-hunter2"\n', "mail.port, in .* or as REPRIEVE_REVIEW_MAIL__PORT"),
        ("nonsense", "is not TOML"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place_and_without_its_value(folder, text, why):
    (folder / "reprieve.toml").write_text(text)
    with pytest.raises(UsageError, match=why) as caught:
        load()
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_named_has_to_be_there(folder):
    with pytest.raises(UsageError, match="reprieve init"):
        load(folder / "other.toml")


def test_the_file_that_init_writes_sets_nothing_and_shows_everything():
    text = (files("reprieve.review") / "reprieve.toml").read_text()
    assert not [value for value in tomllib.loads(text).values() if value not in ({}, {"people": {}}, {"severity": {}})]
    shown = tomllib.loads(_opened(text))
    for name, field in Settings.model_fields.items():
        assert name in shown, name
        section = CriticSettings if name == "critic" else field.annotation
        for inner in getattr(section, "model_fields", {}):
            assert inner in shown[name], f"{name}.{inner}"


def test_what_the_file_shows_is_what_holds_without_it(folder):
    """But for examples, which would do something."""
    text = (files("reprieve.review") / "reprieve.toml").read_text()
    shown, found = tomllib.loads(_opened(text)), load().model_dump(mode="json")
    for section in ("limits", "notify"):
        values = {name: value for name, value in shown[section].items() if name != "people"}
        assert values == {name: found[section][name] for name in values}
    assert shown["facts"] == found["facts"]


def _opened(text):
    """Each setting as if it were set, the first where one is shown twice."""
    seen, lines, section = set(), [], ""
    for line in text.splitlines():
        setting = re.fullmatch(r'# (("[^"]+"|\w+) = .*)', line)
        section = line if line.startswith("[") else section
        if setting and (section, setting[2]) not in seen:
            seen.add((section, setting[2]))
            lines.append(setting[1])
        elif line.startswith("["):
            lines.append(line)
    return "\n".join(lines)


def test_a_mail_server_takes_the_place_of_the_folder(monkeypatch):
    monkeypatch.setenv("REPRIEVE_REVIEW_MAIL__PASSWORD", "hunter2-hunter2")
    found = load(
        mail={
            "host": "127.0.0.1",
            "port": 25,
            "security": "none",
            "username": "us",
            "journal": "j@example.org",
            "journal_password": "x",
        }
    )
    parts = parts_of(found)
    assert [sender.name for sender in parts.senders] == ["smtp"]
    assert "hunter2" not in repr(found)
    assert sorted(parts.routes) == ["mailto"]


def test_parts_can_be_replaced_by_a_function_of_ones_own(folder, monkeypatch):
    (folder / "my_parts.py").write_text(
        "def mine(parts, settings):\n    return parts\ndef wrong(parts, settings):\n    return 1\n"
    )
    monkeypatch.syspath_prepend(folder)
    assert parts_of(load(parts="my_parts:mine")).routes
    for home, why in (
        ("my_parts:wrong", "has to return"),
        ("no_such_module:x", "cannot be used"),
        ("my_parts:no", "cannot be used"),
    ):
        with pytest.raises(UsageError, match=why):
            parts_of(load(parts=home))


def test_a_prompt_of_ones_own_is_read_and_one_that_is_not_there_is_refused(folder):
    (folder / "mine.txt").write_text("Look at $diff")
    local = {"name": "local"}
    assert critic_of(load(model={**local, "prompt": "mine.txt"}), parts_of(load(model=local)))
    with pytest.raises(UsageError, match="cannot be read"):
        critic_of(load(model={**local, "prompt": "other.txt"}), parts_of(load(model=local)))


def test_a_review_without_rules_and_without_a_model_is_refused():
    with pytest.raises(UsageError, match="needs a critic"):
        critic_of(load(facts=False), parts_of(load()))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"mail": {"host": "mail.example.org", "journal": "j@example.org"}}, "mail.journal_password"),
        ({"mail": {"host": "mail.example.org", "journal_password": "hunter2-hunter2"}}, "mail.journal"),
        ({"mail": {"journal": "j@example.org", "journal_password": "hunter2-hunter2"}}, "mail.host"),
        ({"chaos": 7, "parts": "module:function"}, "chaos"),
    ],
)
def test_what_would_do_nothing_without_something_else_is_refused(said, why):
    with pytest.raises(UsageError, match=why) as caught:
        parts_of(load(**said))
    assert "hunter2" not in str(caught.value)
