"""Checks of migrations of databases."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from reprieve.review.critic.findings import Severity
from reprieve.review.critic.line_checks import MAX_LINE, readable_lines
from reprieve.review.critic.rules import CriticCheck, CriticRule
from reprieve.review.critic.source_text import is_comment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reprieve.review.critic.change_set import ChangedFile, ChangeSet
    from reprieve.review.critic.findings import Finding

MIGRATION: Final = CriticRule(
    id="migration",
    depends_on_place=True,
    severity=Severity.MEDIUM,
    suffixes=(".py", ".sql", ".rb"),
    finds="migrations (Alembic, Django, Rails, SQL in a folder of migrations) that drop or rename a table or column, delete all rows, or add a required "
    "column without a default, or make one required without filling it; not seen: ways back, what the same file or an earlier migration of the change "
    "creates, and what the title says that it drops from the database",
    advice="The migration {what}. {effect}",
)
MIGRATION_EDITED: Final = CriticRule(
    id="migration-edited",
    depends_on_place=True,
    severity=Severity.MEDIUM,
    suffixes=(".py", ".sql", ".rb"),
    finds="changes of statements in migrations that exist already; not seen: validators, help texts, formatting, `replaces`, and other attributes without "
    "an effect on the schema",
    advice="Databases that ran this migration do not run it again and keep the old schema. Add a new "
    "migration instead.",
)

_Value = TypeVar("_Value")
_SHOWN_NAMES: Final = 6
_MIGRATION_PATH: Final = re.compile(
    r"(?:^|/)(?:migrations?|db/migrate|db/migrations|migrate)/(?:[\w.-]+/){0,3}[\w.-]+\.(?:py|sql|rb)$|(?:^"
    r"|/)versions/[\w.-]+\.py$|(?:^|/)V\d[\w.]*__[\w.-]+\.sql$"
)
_NO_MIGRATION: Final = re.compile(
    r"(?:^|/)(?:__init__|env|utils?|helpers?|base)(?:\.py$|/)|[._-]down\.sql$|(?:^|/)(?:down"
    r"|rollback)[\w.-]*\.sql$",
    re.IGNORECASE,
)
_DOWN: Final = re.compile(
    r"\s*(?:async\s+)?def\s+(?:self\.)?(?:downgrade|down|backwards?|reverse\w*)\b|--\s*(?:\+goose Down"
    r"|migrate:down|\+migrate Down|rollback|!Downs)"
)
_UP: Final = re.compile(
    r"\s*(?:async\s+)?def\s+(?:self\.)?(?:upgrade|up|forwards?|change)\b|--\s*(?:\+goose Up|migrate:up"
    r"|\+migrate Up)|class\s+Migration\b"
)
_OLD_CODE: Final = "The code of the old version, which runs until the deployment ends, still reads it."
_NO_WAY_BACK: Final = (
    "The data is lost, and a rollback does not bring it back. Take a backup, and release code without it first."
)
_FAILS: Final = "It fails where the table has rows. Add a default, or fill the column first."
_MADE_REQUIRED: Final = "makes the column `{}` required"
_FAILS_ON_NULL: Final = "It fails where a row has no value. Fill the column first."
_FILLS: Final = re.compile(
    r"\bUPDATE\b|\bop\.execute\(|\.update\(|\bexisting_nullable\s*=\s*False|server_default", re.IGNORECASE
)
_NAME: Final = r"[\s\"'`(\[]{0,4}([\w.]{1,80})"
_SQL: Final = (".sql", ".py")


def _word(pattern: str) -> re.Pattern[str]:
    """A statement, in any case, and the name that follows it."""
    return re.compile(rf"\b{pattern}{_NAME}", re.IGNORECASE)


_STATEMENTS: Final = (
    (_SQL, _word(r"DROP\s+TABLE\s+(?:IF\s+EXISTS\s+)?"), "drops the table `{}`", _NO_WAY_BACK),
    (_SQL, _word(r"DROP\s+COLUMN\s+(?:IF\s+EXISTS\s+)?"), "drops the column `{}`", _NO_WAY_BACK),
    (_SQL, _word(r"TRUNCATE\s+(?:TABLE\s+)?"), "deletes all rows of `{}`", _NO_WAY_BACK),
    (_SQL, _word(r"DELETE\s+FROM\s+"), "deletes all rows of `{}`", _NO_WAY_BACK),
    (_SQL, _word(r"RENAME\s+COLUMN\s+"), "renames the column `{}`", _OLD_CODE),
    (
        _SQL,
        re.compile(rf"\bALTER\s+TABLE\s+(?:IF\s+EXISTS\s+)?{_NAME}[\"'`]?\s+RENAME\s+TO\b", re.IGNORECASE),
        "renames the table `{}`",
        _OLD_CODE,
    ),
    (_SQL, _word(r"ALTER\s+COLUMN\s+(?=\S{1,80}\s+SET\s+NOT\s+NULL)"), _MADE_REQUIRED, _FAILS_ON_NULL),
    (
        (".py",),
        re.compile(
            r"\balter_column\((?:[^,()]{1,80},)?\s*[\"'](\w{1,80})[\"'][^()]*(?:\([^()]*\)[^()]*)*\bnullable\s*=\s*False"
        ),
        _MADE_REQUIRED,
        _FAILS_ON_NULL,
    ),
    ((".py",), _word(r"op\.drop_table\("), "drops the table `{}`", _NO_WAY_BACK),
    (
        (".py",),
        _word(r"(?:op|batch_op|batch)\.drop_column\((?:[^,()]{1,80},)?"),
        "drops the column `{}`",
        _NO_WAY_BACK,
    ),
    ((".py",), _word(r"op\.rename_table\("), "renames the table `{}`", _OLD_CODE),
    ((".py",), _word(r"new_column_name\s*="), "renames a column to `{}`", _OLD_CODE),
    ((".rb",), _word(r"drop_table[\s(]+:?"), "drops the table `{}`", _NO_WAY_BACK),
    ((".rb",), _word(r"remove_columns?[\s(]+:?[\w\"']{1,80},\s*:?"), "drops the column `{}`", _NO_WAY_BACK),
    ((".rb",), _word(r"rename_(?:column|table)[\s(]+:?"), "renames a part of `{}`", _OLD_CODE),
)
_DJANGO: Final = {
    "DeleteModel": ("drops the table of `{}`", _NO_WAY_BACK),
    "RemoveField": ("drops the column of `{}`", _NO_WAY_BACK),
    "RenameModel": ("renames the table of `{}`", _OLD_CODE),
    "RenameField": ("renames the column of `{}`", _OLD_CODE),
}
_DJANGO_OPERATION: Final = re.compile(r"migrations\.(RemoveField|RenameModel|RenameField|DeleteModel)\(")
_DJANGO_NAME: Final = re.compile(r"(?:^|[\s(,])(?:name|old_name)\s*=\s*[\"'](\w{1,80})")
_REQUIRED: Final = (
    (
        _SQL,
        re.compile(
            rf"\bADD\s+(?:COLUMN\s+)?(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}[^;]{{1,200}}?\bNOT\s+NULL\b",
            re.IGNORECASE,
        ),
    ),
    (
        (".py",),
        re.compile(
            rf"\b(?:op|batch_op|batch)\.add_column\(.{{0,400}}?\bColumn\({_NAME}"
            r".{0,400}?\bnullable\s*=\s*False\b",
            re.DOTALL,
        ),
    ),
    (
        (".py",),
        re.compile(
            r"\bmigrations\.AddField\((?![^;]{0,800}?(?:\bnull\s*=\s*True|ManyToMany|GenericRelation|\bblank\s*=\s*True|auto_now|AutoField))"
            r"[^;]{0,400}?\bname\s*=\s*[\"'](\w{1,80})[\"'][^;]{0,200}?\bfield\s*=",
        ),
    ),
    (
        (".rb",),
        re.compile(rf"\badd_(?:column|reference)[\s(]+:?[\w\"']{{1,80}},\s*:?{_NAME}.{{0,200}}\bnull:\s*false\b"),
    ),
)
_FILLED: Final = re.compile(
    r"default|\bgenerated\b|\bserial\b|\bidentity\b|\bconstraint\b|\bcheck\b|\bunique\s*\(", re.IGNORECASE
)
_LIMITED: Final = re.compile(r"\b(?:WHERE|USING)\b", re.IGNORECASE)
_SQL_ALONE: Final = re.compile(r"\s*(?:DELETE|UPDATE|ALTER|INSERT|SELECT)\b[^\"']*$")
"""A line of a text that began further up."""
_STATEMENT_LINES: Final = 12
_CREATED: Final = re.compile(
    r"(?:\bCREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMP\w*\s+|UNLOGGED\s+)?(?:TABLE|(?:MATERIALIZED\s+)?VIEW)\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    r"|\bRENAME\s+TO\s+|\bRENAME\s+TABLE\s+[\w.`\"]{1,80}\s+TO\s+|create_table\(?\s*:?)" + _NAME,
    re.IGNORECASE,
)
"""What the same migration makes: to drop it loses nothing."""
_IMPORT: Final = re.compile(
    r"\s*(?:import\b|from\s+\S+\s+import\b|#|--|\"\"\"|'''|dependencies\b"
    r"|\(?[\"']\w+[\"'], [\"']\d{4}_\w+[\"'])"
)
_FORMATTING: Final = re.compile(r"[\s'\"(),]")


@dataclass(frozen=True, slots=True)
class _Created:
    """What the migrations of a change create, in lower case; to change it loses nothing."""

    tables: frozenset[str]
    columns: frozenset[tuple[str, str]]
    """Each with its table first."""

    def has(self, table: str, column: str) -> bool:
        """Whether a table, or a column of an older table, is new; an empty name is not known."""
        return table.lower() in self.tables or (table.lower(), column.lower()) in self.columns


_MODEL_CREATED: Final = re.compile(r"\bCreateModel\(\s*name\s*=\s*[\"'](\w{1,80})[\"']")
_FIELD_CREATED: Final = re.compile(
    r"\bAddField\(\s*model_name\s*=\s*[\"'](\w{1,80})[\"'],\s*name\s*=\s*[\"'](\w{1,80})[\"']"
    r"|\badd_column\(\s*[\"'](\w{1,80})[\"'],\s*(?:\w+\.)?Column\(\s*[\"'](\w{1,80})[\"']"
    r"|\bALTER\s+TABLE\s+(?:IF\s+EXISTS\s+|ONLY\s+)*[\"`]?([\w.]{1,80})[\"`]?\s+ADD\s+COLUMN\s+(?:IF\s+NOT\s+EXISTS\s+)?[\"`]?(\w{1,80})",
    re.IGNORECASE,
)
_TABLE_CHANGED: Final = re.compile(
    r"\bmodel_name\s*=\s*[\"'](\w{1,80})[\"']|\b(?:op|batch_op)\.\w+_column\(\s*[\"'](\w{1,80})[\"'],"
    r"|\bALTER\s+TABLE\s+(?:IF\s+EXISTS\s+|ONLY\s+)*[\"`]?([\w.]{1,80})",
    re.IGNORECASE,
)
_DOWN_REVISION: Final = re.compile(r"^down_revision\b[^=\n]*=\s*[\"']([\w-]{1,80})[\"']", re.MULTILINE)
_OWN_REVISION: Final = re.compile(r"^revision\b[^=\n]*=\s*[\"']([\w-]{1,80})[\"']", re.MULTILINE)
_MAX_EARLIER: Final = 50


def _created_in(texts: Iterable[str]) -> _Created:
    """What migrations create on their way forwards."""
    forwards = [_forwards(text) for text in texts]
    tables = {found for text in forwards for pattern in (_CREATED, _MODEL_CREATED) for found in pattern.findall(text)}
    columns = {
        (found[1] or found[3] or found[5], found[2] or found[4] or found[6])
        for text in forwards
        for found in _FIELD_CREATED.finditer(text)
    }
    return _Created(
        frozenset(map(_last_part, tables)),
        frozenset((_last_part(table), column.lower()) for table, column in columns),
    )


def _forwards(text: str) -> str:
    """A migration without the lines that undo it."""
    backwards = _lines_backwards(text)
    return "\n".join(line for number, line in enumerate(text.split("\n"), 1) if number not in backwards)


def _last_part(name: str) -> str:
    """A name without its schema, in lower case."""
    return name.lower().rpartition(".")[2]


def _migrations_before(change: ChangeSet, file: ChangedFile) -> list[ChangedFile]:
    """The new migrations that run before a file: by the chain of revisions, else by their names in one folder."""
    new = [each for each in change.files if each.is_new and each.path != file.path and _is_migration(each)]
    found: list[ChangedFile] = []
    if down := _DOWN_REVISION.search(file.after or ""):
        by_revision = {own[1]: each for each in new if (own := _OWN_REVISION.search(each.after or ""))}
        while down is not None and (earlier := by_revision.pop(down[1], None)) and len(found) < _MAX_EARLIER:
            found.append(earlier)
            down = _DOWN_REVISION.search(earlier.after or "")
        return found
    folder = file.path.rpartition("/")[0]
    return [each for each in new if each.path.rpartition("/")[0] == folder and each.path < file.path][:_MAX_EARLIER]


_SAID: Final = re.compile(r"\b(?:drop|delet|remov)\w*\b[^.;:]{0,40}\b(?:table|column)s?\b", re.IGNORECASE)
"""A title that says what the database loses. One that removes a field may be about the code alone."""


def find_migrations(change: ChangeSet) -> Iterator[Finding]:
    """Migrations that lose data, break the running version, or were applied before they changed."""
    for file in change.files:
        if file.is_deleted or file.is_generated or file.is_test or file.after is None or not _is_migration(file):
            continue
        if (edited := _edited_line(file)) and not change.title.startswith("Revert"):
            yield MIGRATION_EDITED.at(file.path, edited)
        is_said = _SAID.search(change.title) is not None
        found = [each for each in _changes_of_file(change, file) if not (is_said and each[1].startswith("drops"))]
        if found:
            facts = [
                _fact(what, [name for _, each, name, _ in found if each == what])
                for what in _unique(each[1] for each in found)
            ]
            effect = " ".join(_unique(each[3] for each in found))
            numbers = list(_unique(each[0] for each in found))
            finding = MIGRATION.at(file.path, numbers[0], what=_and(facts), effect=effect)
            yield finding.model_copy(update={"also": tuple(f"{file.path}:{number}" for number in numbers[1:])})


def _changes_of_file(change: ChangeSet, file: ChangedFile) -> Iterator[tuple[int, str, str, str]]:
    """What the added lines of a migration do: the line, a sentence with a gap, the name for the gap, and the effect."""
    text = file.after or ""
    lines = text.split("\n")
    code = "\n".join(line for line in lines if not is_comment(line, file.suffix))
    made = {_last_part(found) for found in _CREATED.findall(_forwards(code))}
    earlier = _created_in(each.after or "" for each in _migrations_before(change, file))
    backwards = _lines_backwards(text)
    for number, line in readable_lines(file):
        if number in backwards or is_comment(line, file.suffix):
            continue
        for what, name, effect in _changes_of_schema(file.suffix, lines, number, line):
            is_filled = what == _MADE_REQUIRED and _FILLS.search(text)
            above = _created_in(["\n".join(lines[: number - 1])])
            is_new = _last_part(name) in made or any(
                _is_change_of(created, what, _last_part(name), _table_changed(file.suffix, lines, number))
                for created in (earlier, above)
            )
            if not (is_new or is_filled):
                yield number, what, name, effect


def _is_change_of(created: _Created, what: str, name: str, table: str) -> bool:
    """Whether a change takes only what was created before it, or is one of an empty table."""
    if "table" in what and created.has(name, ""):
        return True
    column = name if what.startswith(("drops", "renames")) else ""  # a required column needs its values
    return created.has(table, column)


def _table_changed(suffix: str, lines: list[str], number: int) -> str:
    """The table, or the model, whose column a statement changes; empty where it does not say."""
    found = _TABLE_CHANGED.search(_statement(suffix, lines, number))
    return "" if found is None else _last_part(found[1] or found[2] or found[3])


def _unique(values: Iterable[_Value]) -> Iterable[_Value]:
    return dict.fromkeys(values)


def _fact(what: str, names: list[str]) -> str:
    """One sentence for the names that it is true of: `drops the column `a`, `b``."""
    shown = [f"`{name}`" for name in dict.fromkeys(names)]
    return what.replace(
        "`{}`",
        _and(shown)
        if len(shown) <= _SHOWN_NAMES
        else f"{', '.join(shown[:_SHOWN_NAMES])} and {len(shown) - _SHOWN_NAMES} more",
    )


def _and(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _is_migration(file: ChangedFile) -> bool:
    if not _MIGRATION_PATH.search(file.path) or _NO_MIGRATION.search(file.path):
        return False
    if file.suffix != ".py":
        return True
    text = file.after or ""
    return "migrations.Migration" in text or "down_revision" in text or "class Migration(" in text


_NOT_STORED: Final = re.compile(
    r"validators?\b|help_text|verbose_name|choices\b|constraint=|^\s*[\])},]+\s*$|\.objects\b"
)
"""Parts of a migration that leave the schema as it is."""


_ANY_TEXT: Final = r"(?:[bru]{0,2}(?:\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')\s*)"
_WITHOUT_EFFECT: Final = (
    re.compile(
        r"^(?:from[ \t]+\S+[ \t]+import[ \t]*(?:\([^()]*\)|[^(\n]*)|import[ \t][^\n]*)$|^[ \t]*#[^\n]*$", re.MULTILINE
    ),
    re.compile(
        rf"\b(?:help_text|verbose_name|verbose_name_plural|populate_from)\s*=\s*(?:{_ANY_TEXT}+|\w*\(\s*{_ANY_TEXT}+,?\s*\))"
    ),
)
_BARE_EXCEPT: Final = re.compile(r"\bexcept\s*:")
_ATTRIBUTE: Final = re.compile(
    r"^ {4}(?!operations\b|dependencies\b|run_before\b|initial\b|atomic\b)\w+[ \t]*=[ \t]*(?:\[[^\[\]]*\]|[^\[\n][^\n]*)$",
    re.MULTILINE,
)
_DJANGO_CLASS: Final = re.compile(r"^class Migration\(", re.MULTILINE)


def _effect_of(text: str) -> str:
    """A migration without the parts that change neither the schema nor the data."""
    for pattern in _WITHOUT_EFFECT:
        text = pattern.sub("", text)
    if found := _DJANGO_CLASS.search(text):
        text = text[: found.start()] + _ATTRIBUTE.sub("", text[found.start() :])
    return _FORMATTING.sub("", _BARE_EXCEPT.sub("except Exception:", text))


def _edited_line(file: ChangedFile) -> int:
    """The first line of code that changed in a migration that existed; 0 where only its form changed."""
    if file.before is None or file.old_path != file.path:
        return 0
    if _effect_of(file.before) == _effect_of(file.after or ""):
        return 0
    changed = [line[:MAX_LINE] for line in [*file.added.values(), *file.removed.values()]]
    if not any(line.strip() and not _IMPORT.match(line) and not _NOT_STORED.search(line) for line in changed):
        return 0
    return next(
        (number for number, line in readable_lines(file) if not _IMPORT.match(line)),
        min(file.added, default=1),
    )


def _lines_backwards(text: str) -> frozenset[int]:
    """The lines that undo a migration."""
    inside: set[int] = set()
    is_down = False
    for number, line in enumerate(text.split("\n"), 1):
        if _DOWN.match(line[:MAX_LINE]):
            is_down = True
        elif _UP.match(line[:MAX_LINE]):
            is_down = False
        if is_down:
            inside.add(number)
    return frozenset(inside | _lines_of_state(text))


def _lines_of_state(text: str) -> set[int]:
    """The lines of operations that change what Django knows, and not the database."""
    inside: set[int] = set()
    depth = 0
    for number, line in enumerate(text.split("\n"), 1):
        if depth or "state_operations" in line:
            inside.add(number)
            depth = max(0, depth + sum(line.count(sign) for sign in "([{") - sum(line.count(sign) for sign in ")]}"))
    return inside


def _changes_of_schema(suffix: str, lines: list[str], number: int, line: str) -> Iterator[tuple[str, str, str]]:
    """What a line does to a schema: a sentence with a gap for the name, the name, and the effect."""
    statement = _statement(suffix, lines, number)
    for suffixes, pattern, what, effect in _STATEMENTS:
        if suffix in suffixes and (found := pattern.search(line)):
            if "deletes" not in what or not _LIMITED.search(statement, pos=statement.find(found[0])):
                yield what, found[1], effect
            return
    if (
        suffix == ".py"
        and (operation := _DJANGO_OPERATION.match(line.strip()))
        and (name := _DJANGO_NAME.search(statement))
    ):
        what, effect = _DJANGO[operation[1]]
        yield what, name[1], effect
    if "add" not in line.lower() or _FILLED.search(statement):
        return
    for suffixes, pattern in _REQUIRED:
        found = pattern.search(statement) if suffix in suffixes else None
        if found and found.start() <= len(line):
            yield "adds the required column `{}` without a default", found[1], _FAILS
            return


def _statement(suffix: str, lines: list[str], number: int) -> str:
    """A line and those below it, up to the end of its statement."""
    taken: list[str] = []
    depth = 0
    for line in lines[number - 1 : number - 1 + _STATEMENT_LINES]:
        text = line[:MAX_LINE]
        taken.append(text)
        depth += text.count("(") - text.count(")")
        is_text = "\n".join(taken).count('"""') % 2 == 1 or (suffix == ".py" and _SQL_ALONE.match(text))
        if (";" in text) if suffix == ".sql" else depth <= 0 and not is_text:
            break
    return "\n".join(taken).partition(";")[0][: 2 * MAX_LINE]


CHECKS: Final[tuple[CriticCheck, ...]] = (CriticCheck(rules=(MIGRATION, MIGRATION_EDITED), run=find_migrations),)
