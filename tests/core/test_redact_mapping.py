"""Mappings: names decide, values are scanned, nothing odd gets through or breaks it."""

import dataclasses
import datetime as dt
import json
import uuid
from collections.abc import Mapping

import pytest

from reprieve.core.redact import RedactionReport, Secrets, redact_mapping

GITHUB = "gh" + "p_" + "aB3" * 12


def test_ids_stay_and_secrets_go():
    clean = redact_mapping(
        {
            "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy",
            "stage": "llm",
            "attempts": 3,
            "status": 503,
            "payload_hash": "9b2a28eb4754",
            "password": "hunter2",
            "headers": {"Authorization": "Bearer abc.def", "X-Request-Id": "42"},
            "message": f"push with {GITHUB} failed",
        }
    )
    assert clean == {
        "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy",
        "stage": "llm",
        "attempts": 3,
        "status": 503,
        "payload_hash": "9b2a28eb4754",
        "password": "[redacted:password]",
        "headers": {"Authorization": "[redacted:credential-header]", "X-Request-Id": "42"},
        "message": "push with [redacted:git-token] failed",
    }


def test_prompts_go_whatever_holds_them():
    clean = redact_mapping(
        {
            "model": "some-model",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "my zebra"}, "a zebra"]}],
            "system": "be a zebra",
            "tools": [{"name": "find", "input": {"q": "zebra"}}],
        }
    )
    assert "zebra" not in json.dumps(clean).replace("find", "")
    assert clean["model"] == "some-model"
    assert clean["messages"][0]["role"] == "user"


@dataclasses.dataclass
class Settings:
    host: str
    password: str


class Rude:
    def __repr__(self):
        raise RuntimeError("no")


class RudeMapping(Mapping):
    def __getitem__(self, key):
        raise RuntimeError("no")

    def __iter__(self):
        raise RuntimeError("no")

    def __len__(self):
        return 3


def test_odd_values_are_shown_as_text_and_never_raise():
    clean = redact_mapping(
        {
            1: "one",
            ("a", 2): b"password=hunter2",
            "settings": Settings("db", "hunter2"),
            "rude": Rude(),
            "rude mapping": RudeMapping(),
            "when": dt.date(2024, 5, 1),
            "id": uuid.UUID(int=7),
            "set": {"password=hunter2"},
            "bytes": bytearray(b"\xff\xfe token"),
            "none": None,
            "error": ValueError("password=hunter2"),
            "surrogate": "\ud800",
        }
    )
    shown = json.dumps(clean)
    assert "hunter2" not in shown
    assert clean["1"] == "one"
    assert "unreadable" in clean["rude"]
    assert clean["rude mapping"] == {"...": "[unreadable: RuntimeError]"}
    assert clean["none"] is None


def test_cycles_depth_width_and_length_are_bounded():
    cycle: dict[str, object] = {}
    cycle["self"] = cycle
    deep: dict[str, object] = {}
    inner = deep
    for _ in range(100):
        inner["x"] = inner = {}
    clean = redact_mapping(
        {"cycle": cycle, "deep": deep, "wide": dict.fromkeys(range(5000), 1), "long": "a b " * 50_000}
    )
    assert clean["cycle"] == {"self": "[cycle]"}
    assert "[too deep]" in json.dumps(clean["deep"])
    assert len(clean["wide"]) == 1001
    assert len(clean["long"]) < 11_000


def test_a_long_value_is_scanned_before_it_is_cut():
    text = "x" * 9_995 + " password=hunter2"
    assert "hunter" not in redact_mapping({"log": text})["log"]


def test_the_same_object_twice_is_no_cycle():
    shared = {"a": 1}
    assert redact_mapping({"x": shared, "y": [shared, shared]}) == {"x": {"a": 1}, "y": [{"a": 1}, {"a": 1}]}


def test_keys_are_scanned_too():
    assert GITHUB not in json.dumps(redact_mapping({GITHUB: 1, "password=hunter2": 2}))


def test_names_beside_values_decide():
    clean = redact_mapping({"env": [{"name": "DB_PASSWORD", "value": "letmein"}, {"name": "PORT", "value": "5432"}]})
    assert clean == {
        "env": [{"name": "DB_PASSWORD", "value": "[redacted:password]"}, {"name": "PORT", "value": "5432"}]
    }


def test_pairs_decide_like_names():
    assert redact_mapping({"h": [("authorization", "Basic eA=="), (b"accept", b"*/*")]}) == {
        "h": [["authorization", "[redacted:credential-header]"], ["accept", "*/*"]]
    }


def test_lists_under_a_telling_name_go_item_by_item():
    assert redact_mapping({"passwords": ["x"], "api_keys": [], "password": ["hunter2", "letmein"]})["password"] == [
        "[redacted:password]",
        "[redacted:password]",
    ]


def test_complaints_about_a_field_stay_readable():
    errors = {"password": ["This field is required."], "email": ["Enter a valid email address."]}
    assert redact_mapping(errors) == errors


def test_the_report_and_live_credentials_work_here_too():
    report = RedactionReport()
    clean = redact_mapping({"a": ["x correct-horse y"]}, secrets=Secrets.of(["correct-horse"]), report=report)
    assert clean == {"a": ["x [redacted:live-credential] y"]}
    assert report.counts == (("live-credential", 1),)


@pytest.mark.parametrize("name", ["password", "token", "api_key", "Authorization", "passphrase"])
@pytest.mark.parametrize("value", ["x", "abc", "none-of-your-business", "password"])
def test_one_word_under_a_sure_name_goes_however_weak_it_is(name, value):
    assert redact_mapping({name: value})[name].startswith("[redacted:")


def test_a_sentence_under_a_sure_name_may_be_about_it():
    errors = {"password": ["This field is required."], "token": None, "api_key": "", "secret": "********"}
    assert redact_mapping(errors) == errors
