"""Profiles by name: those that come with Reprieve, and a user's own.

There is no global configuration. `load_profiles` returns a `ProfileBook`, a value that is handed to whoever takes names:

    book = load_profiles("service.toml")        # the shipped ones, with what the file adds and changes
    book["orchestrator.transient"].override(max_attempts=7)

Where no book is given, `SHIPPED` answers; nothing ever changes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from reprieve.core.policy import Policy, Profile
from reprieve.errors import ProfileError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SHIPPED_NAMES: Final = ("analysis", "criticizer", "ingestion", "orchestrator")

ProfileLike = str | Policy | Profile
"""What everything that takes a profile takes: a name, a policy or a profile."""


@dataclass(frozen=True, slots=True)
class ProfileBook:
    """The shipped profiles, read when first asked for, under a user's own."""

    own: Mapping[str, Profile] = field(default_factory=dict, hash=False)

    def names(self) -> tuple[str, ...]:
        """The names of all profiles and, behind a dot, of their policies."""
        profiles = self._all()
        policies = (policy.name for profile in profiles.values() for policy in profile.policies.values())
        return tuple(sorted((*profiles, *policies)))

    def resolve(self, target: ProfileLike) -> Profile:
        """Find a profile, or wrap a policy into one that uses it for everything.

        A name is a profile's (`criticizer`), a policy's (`orchestrator.transient`), or a policy's alone (`transient`) where
        only one profile has it.
        """
        match target:
            case Profile():
                return target
            case Policy():
                return Profile.of(target)
            case str():
                return self._named(target)
            case _:
                raise UsageError(f"a profile is a name, a Policy or a Profile, not {type(target).__name__}")

    def __getitem__(self, name: str) -> Profile:
        return self.resolve(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __len__(self) -> int:
        return len(self.names())

    def extended(self, text: str, *, source: str) -> ProfileBook:
        """This book with what a TOML text defines or changes; this one stays as it is."""
        from reprieve.core.profile_file import read_profiles  # noqa: PLC0415 - tomllib, only where a file is read

        return replace(self, own={**self.own, **read_profiles(text, source=source, known=self._all())})

    def _all(self) -> dict[str, Profile]:
        shipped = {name: _shipped(name) for name in SHIPPED_NAMES if name not in self.own}
        return {**shipped, **self.own}

    def _named(self, name: str) -> Profile:
        if name in self.own:
            return self.own[name]
        if name in SHIPPED_NAMES:
            return _shipped(name)
        owner, _, short = name.rpartition(".")
        holders = [
            profile for profile in self._all().values() if short in profile.policies and owner in {"", profile.name}
        ]
        match holders:
            case [profile]:
                return profile.only(short)
            case []:
                raise UnknownNameError("profile or policy", name, self.names())
            case _:
                full = ", ".join(sorted(f"{profile.name}.{short}" for profile in holders))
                raise UsageError(f"more than one policy is named {name!r}: say which of {full}")


SHIPPED: Final = ProfileBook()


def load_profiles(path: str | Path | None = None, *, book: ProfileBook = SHIPPED) -> ProfileBook:
    """Read a TOML file that defines profiles of its own or changes values of known ones (ORC-2.3); none: the shipped."""
    if path is None:
        return book
    import pathlib  # noqa: PLC0415 - `import reprieve` stays light

    source = str(path)
    try:
        text = pathlib.Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ProfileError(f"cannot be read: {error.strerror or error}", source=source) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ProfileError("is not UTF-8 text; save it as UTF-8", source=source, line=line) from None
    return book.extended(text, source=source)


def resolve(target: ProfileLike, *, book: ProfileBook = SHIPPED) -> Profile:
    """Find a profile by name, or wrap a policy; the shipped ones unless a book is given."""
    return book.resolve(target)


@cache
def _shipped(name: str) -> Profile:
    from importlib.resources import files  # noqa: PLC0415 - the same

    from reprieve.core.profile_file import read_profiles  # noqa: PLC0415 - the same

    source = f"{name}.toml"
    text = files("reprieve.profiles").joinpath(source).read_text(encoding="utf-8")
    return read_profiles(text, source=source, known={})[name]
