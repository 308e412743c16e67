"""Reads profiles from TOML text; what is wrong is refused with its line and what would be right.

[service]                               a new profile says `extends` or `judge`; a known one is changed
extends = "criticizer"                  only what is given here differs
judge = "criticizer"                    whose rules classify
max_attempts = 5                        and the other values of a policy, for all policies of the profile
backoff = { initial = 1.0, multiplier = 2.0, maximum = 60.0, jitter = "full" }
backoff_by_category.rate_limit = { initial = 10.0 }     what is not given is as in `backoff`
park.AUTH_DENIED = { state = "skipped", alert = true }
budgets.crash = 3
expects_denials = true                  deny policies are configured: a refused content is no surprise

timeouts.redis_command = { seconds = 5, action = "retry" }     or "fail", "cancel", "kill"

alerts.rate_limits = { more_than = 50, within = 60 }    a rule that there is, or a new one that says what it `watches`

[service.policies.upstream]             a named policy: starts as the profile's own values
severity = "upstream"                   the failures that follow it; one or a list
backoff = { schedule = [5, 10, 20, 60] }
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from reprieve.core.alerts import By, Level, Rule, Until, Watch
from reprieve.core.backoff import Backoff, Jitter, JitterKind, shown
from reprieve.core.failure import TAXONOMY, Category, Severity
from reprieve.core.policy import DEFAULT_BUDGETS, Cause, Judge, Parking, ParkState, Policy, Profile
from reprieve.core.timeouts import OperationTimeout, TimeoutAction
from reprieve.core.toml_lines import lines_of_keys
from reprieve.errors import ProfileError, UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from reprieve.core.toml_lines import Path

_Name = TypeVar("_Name", bound=StrEnum)
_Made = TypeVar("_Made")

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_PLACE: Final = re.compile(r" \((?:at line (\d+), column \d+|at end of document)\)$")

_GROWTH: Final = ("initial", "multiplier", "maximum")
_BACKOFF_KEYS: Final = (*_GROWTH, "schedule", "jitter")
_PLAIN_KEYS: Final = ("max_attempts", "retry_after_ceiling", "retry_after_floor", "deadline", "pages_when_spent")
_POLICY_KEYS: Final = (*_PLAIN_KEYS, "backoff", "backoff_by_category")
_PROFILE_TABLES: Final = ("park", "budgets", "policies", "alerts", "timeouts")
_PROFILE_KEYS: Final = ("extends", "judge", "expects_denials", *_POLICY_KEYS, *_PROFILE_TABLES)
_TIMEOUT_KEYS: Final = ("seconds", "action", "retry")
_RULE_PLAIN: Final = ("more_than", "within", "share", "at_least", "quiet", "off")
_RULE_NAMES: Final = {"watches": Watch, "level": Level, "by": By, "until": Until}
_RULE_KEYS: Final = (*_RULE_NAMES, "error_class", *_RULE_PLAIN)


def read_profiles(text: str, *, source: str, known: Mapping[str, Profile]) -> dict[str, Profile]:
    """The profiles that a text defines or changes, by name; `known` are those it may build on."""
    return _File(text, source, known).profiles()


class _File:
    """One text being read: its tables, where they stand, and what is built of them so far."""

    def __init__(self, text: str, source: str, known: Mapping[str, Profile]) -> None:
        self.source, self.known = source, known
        try:
            self.tables: dict[str, Any] = tomllib.loads(text)
            self.lines = lines_of_keys(text)
        except RecursionError:
            raise ProfileError("nested too deeply; a profile needs no more than four levels", source=source) from None
        except ValueError as error:
            raise _syntax_error(str(error), text, source) from None
        self.built: dict[str, Profile] = {}
        self.building: list[str] = []

    def profiles(self) -> dict[str, Profile]:
        for name in self.tables:
            if _NAME.fullmatch(name) is None:
                raise self.refuse((name,), f"a profile's name is letters, digits, `-` and `_`, not {name!r}")
            self.build(name)
        return self.built

    def build(self, name: str) -> Profile:
        """Build a profile on the one it extends, whatever their order in the text."""
        if name not in self.built:
            table = self.table((name,), self.tables[name], _PROFILE_KEYS)
            self.building.append(name)
            self.built[name] = self.profile((name,), table, self.base(name, table))
            self.building.pop()
        return self.built[name]

    def base(self, name: str, table: dict[str, Any]) -> Profile:
        if "extends" not in table:
            if name in self.known:
                return self.known[name]
            if "judge" in table:
                return Profile(name=name)
            raise self.refuse(
                (name,),
                f"no profile is named {name!r}{did_you_mean(name, self.known)}; a new one says `extends` or `judge`",
            )
        path, parent = (name, "extends"), table["extends"]
        if not isinstance(parent, str):
            raise self.refuse(path, f"extends must be the name of a profile, not {shown(parent)}")
        if parent == name and name in self.known:
            return self.known[name]
        if parent in self.building:
            raise self.refuse(path, f"{' extends '.join([*self.building, parent])}: none of them comes first")
        if parent in self.tables:
            return self.build(parent).renamed(name)
        if parent in self.known:
            return self.known[parent].renamed(name)
        choices = sorted({*self.known, *self.tables})
        raise self.refuse(path, f"no profile is named {parent!r}{did_you_mean(parent, choices)}; {_among(choices)}")

    def profile(self, path: Path, table: dict[str, Any], base: Profile) -> Profile:
        judge, parks, budgets = base.judge, dict(base.parks), dict(base.budgets)
        if "judge" in table:
            judge = self.name_of(Judge, (*path, "judge"), table["judge"])
        for error_class, value in self.entries(path, table, "park"):
            self.refuse_near_miss((*path, "park", error_class), "error class", error_class, TAXONOMY)
            parks[error_class] = self.parking((*path, "park", error_class), value)
        for key, value in self.entries(path, table, "budgets"):
            budgets[self.name_of(Cause, (*path, "budgets", key), key, tuple(DEFAULT_BUDGETS))] = value
        default = self.policy(path, table, base.policy)
        inherited = {short: self.policy(path, table, policy) for short, policy in base.policies.items()}
        policies, by_severity = self.named_policies(path, table, default, inherited, base.by_severity)
        changes: dict[str, Any] = {"judge": judge, "parks": parks, "budgets": budgets, "policy": default}
        changes |= {"policies": policies, "by_severity": by_severity, "alerts": self.alerts(path, table, base.alerts)}
        changes["timeouts"] = self.timeouts(path, table, base.timeouts)
        if "expects_denials" in table:
            flag = {"expects_denials": table["expects_denials"]}
            base = self.made(path, flag, lambda: replace(base, **flag))
        return self.made((*path, "budgets"), budgets, lambda: replace(base, **changes))

    def named_policies(
        self,
        path: Path,
        table: dict[str, Any],
        default: Policy,
        inherited: dict[str, Policy],
        by_severity: Mapping[Severity, str],
    ) -> tuple[dict[str, Policy], dict[Severity, str]]:
        policies, chosen = dict(inherited), dict(by_severity)
        for short, value in self.entries(path, table, "policies"):
            where = (*path, "policies", short)
            if _NAME.fullmatch(short) is None:
                raise self.refuse(where, f"a policy's name is letters, digits, `-` and `_`, not {short!r}")
            self.refuse_near_miss(where, "policy", short, inherited)
            own = self.table(where, value, ("severity", *_POLICY_KEYS))
            policies[short] = self.policy(where, own, policies.get(short, replace(default, name="")))
            if "severity" in own:
                claimed = self.severities((*where, "severity"), own["severity"])
                kept = {severity: other for severity, other in chosen.items() if other != short}
                chosen = {**kept, **dict.fromkeys(claimed, short)}
        return policies, chosen

    def policy(self, path: Path, table: dict[str, Any], base: Policy) -> Policy:
        values: dict[str, Any] = {key: table[key] for key in _PLAIN_KEYS if key in table}
        backoff = base.backoff
        if "backoff" in table:
            backoff = self.backoff((*path, "backoff"), table["backoff"], backoff)
        categories = dict(base.backoff_by_category)
        for key, value in self.entries(path, table, "backoff_by_category"):
            where = (*path, "backoff_by_category", key)
            category = self.name_of(Category, where, key)
            categories[category] = self.backoff(where, value, categories.get(category, backoff))
        changes: dict[str, Any] = {**values, "backoff": backoff, "backoff_by_category": categories}
        return self.made(path, values, lambda: replace(base, **changes))

    def backoff(self, path: Path, value: object, base: Backoff) -> Backoff:
        table = self.table(path, value, _BACKOFF_KEYS)
        growth: dict[str, Any] = {key: table[key] for key in _GROWTH if key in table}
        changes = dict(growth)
        if "schedule" in table:
            if growth:
                raise self.refuse((*path, "schedule"), f"schedule takes the place of {', '.join(growth)}: give one")
            changes["schedule"] = table["schedule"]
        elif growth:
            changes["schedule"] = None
        if "jitter" in table:
            changes["jitter"] = self.jitter((*path, "jitter"), table["jitter"])
        return self.made(path, changes, lambda: replace(base, **changes))

    def jitter(self, path: Path, value: object) -> Jitter:
        right = '"none", "full", { proportional = 0.2 } or { additive = [-0.1, 0.1] }'
        match value:
            case "none":
                return Jitter.none()
            case "full":
                return Jitter.full()
            case {"proportional": fraction, **rest} if not rest:
                return self.made(path, (), lambda: Jitter.proportional(fraction))
            case {"additive": [low, high], **rest} if not rest:
                return self.made(path, (), lambda: Jitter.additive(low, high))
            case str(word):
                raise self.refuse(path, f"no jitter is named {word!r}{did_you_mean(word, JitterKind)}; it is {right}")
            case _:
                raise self.refuse(path, f"jitter must be {right}, not {shown(value)}")

    def refuse_near_miss(self, path: Path, kind: str, name: str, known: Iterable[str]) -> None:
        """Names may be new, but one that is almost a known one is a slip."""
        meant = "" if name in known else did_you_mean(name, known)
        if meant:
            raise self.refuse(path, f"no {kind} is named {name!r}{meant}")

    def parking(self, path: Path, value: object) -> Parking:
        if isinstance(value, str):
            return Parking(self.name_of(ParkState, path, value))
        table = self.table(path, value, ("state", "alert", "investigate"))
        if "state" not in table:
            raise self.refuse(path, f"state is missing; {_among(ParkState)}")
        flags = {key: table[key] for key in ("alert", "investigate") if key in table}
        for key, flag in flags.items():
            if not isinstance(flag, bool):
                raise self.refuse((*path, key), f"{key} must be true or false, not {shown(flag)}")
        return Parking(self.name_of(ParkState, (*path, "state"), table["state"]), **flags)

    def alerts(self, path: Path, table: dict[str, Any], base: Mapping[str, Rule]) -> dict[str, Rule]:
        rules = dict(base)
        for name, value in self.entries(path, table, "alerts"):
            where = (*path, "alerts", name)
            if _NAME.fullmatch(name) is None:
                raise self.refuse(where, f"a rule's name is letters, digits, `-` and `_`, not {name!r}")
            own = self.table(where, value, _RULE_KEYS)
            if name not in rules and "watches" not in own:
                meant = did_you_mean(name, rules)
                raise self.refuse(where, f"no rule is named {name!r}{meant}; a new one says what it `watches`")
            rules[name] = self.rule(where, name, own, rules.get(name))
        return rules

    def timeouts(
        self, path: Path, table: dict[str, Any], base: Mapping[str, OperationTimeout]
    ) -> dict[str, OperationTimeout]:
        timeouts = dict(base)
        for name, value in self.entries(path, table, "timeouts"):
            where = (*path, "timeouts", name)
            if _NAME.fullmatch(name) is None:
                raise self.refuse(where, f"an operation's name is letters, digits, `-` and `_`, not {name!r}")
            self.refuse_near_miss(where, "operation", name, base)
            timeouts[name] = self.timeout(where, self.table(where, value, _TIMEOUT_KEYS), base.get(name))
        return timeouts

    def timeout(self, path: Path, table: dict[str, Any], base: OperationTimeout | None) -> OperationTimeout:
        changes = dict(table)
        if "action" in table:
            changes["action"] = self.name_of(TimeoutAction, (*path, "action"), table["action"])
        if base is not None:
            return self.made(path, changes, lambda: replace(base, **changes))
        for key in ("seconds", "action"):
            if key not in table:
                raise self.refuse(path, f"{key} is missing: a timeout says `seconds` and `action`")
        return self.made(path, changes, lambda: OperationTimeout(**changes))

    def rule(self, path: Path, name: str, table: dict[str, Any], base: Rule | None) -> Rule:
        changes: dict[str, Any] = {key: table[key] for key in _RULE_PLAIN if key in table}
        for key, kind in _RULE_NAMES.items():
            if key in table:
                changes[key] = self.name_of(kind, (*path, key), table[key])
        if "error_class" in table:
            changes["error_classes"] = self.error_classes((*path, "error_class"), table["error_class"])
        if base is None:
            return self.made(path, changes, lambda: Rule(name=name, **changes))
        return self.made(path, changes, lambda: replace(base, **changes))

    def error_classes(self, path: Path, value: object) -> tuple[str, ...]:
        many = value if isinstance(value, list) else [value]
        for each in many:
            if not isinstance(each, str):
                raise self.refuse(path, f"error_class must be a name or a list of names, not {shown(value)}")
            self.refuse_near_miss(path, "error class", each, TAXONOMY)
        return tuple(many)

    def severities(self, path: Path, value: object) -> list[Severity]:
        many = value if isinstance(value, list) else [value]
        return [self.name_of(Severity, path, each) for each in many]

    def entries(self, path: Path, table: dict[str, Any], key: str) -> Iterable[tuple[str, Any]]:
        """What a table of free names holds; nothing where it is not given."""
        return self.table((*path, key), table.get(key, {}), None).items()

    def table(self, path: Path, value: object, keys: tuple[str, ...] | None) -> dict[str, Any]:
        """Refuse what is no table, or has keys that are not among these."""
        if not isinstance(value, dict):
            raise self.refuse(path, f"{path[-1]} must be a table, not {shown(value)}")
        for key in value:
            if keys is not None and key not in keys:
                raise self.refuse((*path, key), f"unknown key {key!r}{did_you_mean(key, keys)}; {_among(keys)}")
        return value

    def name_of(self, kind: type[_Name], path: Path, value: object, among: tuple[_Name, ...] | None = None) -> _Name:
        choices = tuple(kind) if among is None else among
        if isinstance(value, str) and value in choices:
            return kind(value)
        noun = path[-1] if value != path[-1] else kind.__name__.lower()
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise self.refuse(path, f"{noun} cannot be {shown(value)}{hint}; {_among(choices)}")

    def made(self, path: Path, given: Iterable[str], make: Callable[[], _Made]) -> _Made:
        """Build a value; what its own checks refuse is reported at the key they name."""
        try:
            return make()
        except UsageError as error:
            problem = str(error)
            culprit = next((key for key in given if re.match(rf"(?:budgets\.)?{key}\b", problem)), None)
            raise self.refuse(path if culprit is None else (*path, culprit), problem) from None

    def refuse(self, path: Path, problem: str) -> ProfileError:
        """Name the line of the key, or of the nearest table around it."""
        line = next((self.lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.lines), None)
        return ProfileError(problem, source=self.source, line=line)


def _among(choices: Iterable[str]) -> str:
    return f"there are: {', '.join(choices)}"


def _syntax_error(problem: str, text: str, source: str) -> ProfileError:
    found = _PLACE.search(problem)
    if found is None:
        return ProfileError(f"not valid TOML: {problem}", source=source)
    line = int(found[1]) if found[1] else text.count("\n") + 1
    return ProfileError(f"not valid TOML: {problem[: found.start()]}", source=source, line=line)
