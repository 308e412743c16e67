"""The guide to alerts, typed in as its reader would, with a server that listens where the page says."""

import json
import tomllib

from reprieve.app.profiles import SHIPPED
from reprieve.core.alerts import DEFAULT_RULES, Watch
from reprieve.testing import FlakyHTTP


def test_every_command_of_the_page_runs_and_the_server_hears_of_it(page, reader, tmp_path):
    guide = page("docs/alerts.md")
    (tmp_path / "billing.py").write_text(guide.programs[0], encoding="utf-8")
    with FlakyHTTP() as server:
        there = server.url("/alerts", scheme="http")
        commands = [line.replace("http://localhost:8000/alerts", there) for line in guide.commands]
        said = reader.types_all([*commands, "reprieve alerts show 1 --json", "reprieve alerts send --json"])
        told = [request.json()["data"] for request in server.requests]
    alert = json.loads(said["reprieve alerts show 1 --json"])
    assert (alert["rule"], alert["key"], alert["count"]) == ("page", "billing/charge/BUG", 2)
    assert alert["why"] == "amounts are formatted now"
    assert [each["rule"] for each in told] == ["test", "page", "page"]
    assert [each["kind"] for each in told[1:]] == ["raise", "resolve"]
    assert there not in json.dumps(alert)


def test_the_page_names_every_rule_and_everything_that_can_be_watched(page):
    text = page("docs/alerts.md").text
    for name in (*DEFAULT_RULES, *Watch):
        assert f"`{name}`" in text, name


def test_the_profile_of_the_page_is_one(page):
    (text,) = page("docs/alerts.md").blocks("toml")
    assert tomllib.loads(text)
    rules = SHIPPED.extended(text, source="service.toml")["service"].alerts
    assert (rules["rate_limits"].more_than, rules["held"].off, rules["timeouts"].within) == (50, True, 600)
