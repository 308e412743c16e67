from dataclasses import replace

import pytest

from reprieve.review.critic import file_checks
from reprieve.review.critic.change_set import ChangedFile, ChangeSet, ParsedFile, UnknownTree
from reprieve.review.critic.file_checks import find_binary_files, find_large_files, find_unparsable_files
from reprieve.review.critic.findings import Severity
from support.change_sets import change_between

FINE = {"error": None}


def unparsable_in(path, text, *, error=(1, "invalid syntax"), before=None, was=FINE):
    change = change_between({} if before is None else {path: before}, {path: text})
    answer = ParsedFile(before=None if before is None else was, after={"error": list(error)})
    return list(find_unparsable_files(replace(change, parsed={path: answer})))


class TestDoesNotParse:
    @pytest.mark.parametrize(
        ("path", "text"),
        [
            ("src/a.py", "def f(:\n    pass\n"),
            ("data.json", '{"a": 1,}\n'),
            ("pyproject.toml", "[tool\n"),
            (".github/workflows/ci.yml", "run: ${{ a }}\n  b: [\n"),
        ],
    )
    def test_reports_a_new_file_that_does_not_parse(self, path, text):
        (finding,) = unparsable_in(path, text, error=(1, "it is wrong"))
        assert (finding.severity, finding.line) == (Severity.HIGH, 1)
        assert "it is wrong" in finding.comment

    def test_reports_a_file_that_parsed_before_at_the_line_of_the_error(self):
        (finding,) = unparsable_in("src/a.py", "x = 1\ny = (\n", error=(2, "'(' was never closed"), before="x = 1\n")
        assert finding.line == 2

    def test_accepts_a_file_that_did_not_parse_before(self):
        assert unparsable_in("src/a.py", "y = (\n", before="x = (\n", was={"error": [1, "the same"]}) == []

    def test_accepts_a_file_that_parses(self):
        change = replace(change_between({}, {"a.py": "x\n"}), parsed={"a.py": ParsedFile(after=FINE)})
        assert list(find_unparsable_files(change)) == []

    @pytest.mark.parametrize(
        "text",
        [
            "type Name = str\n",
            "class Box[T]:\n    pass\n",
            'print(f"{"a"}")\n',
            "try:\n    pass\nexcept A, B:\n    pass\n",
        ],
    )
    def test_accepts_syntax_of_a_newer_python(self, text):
        assert unparsable_in("src/a.py", text) == []

    def test_accepts_syntax_of_a_newer_python_where_ruff_is_not_installed(self, monkeypatch):
        monkeypatch.setattr(file_checks, "find_ruff", lambda: None)
        assert unparsable_in("src/a.py", "type Name = str\n") == []
        assert len(unparsable_in("src/a.py", "x = (\n")) == 1

    @pytest.mark.parametrize(
        ("path", "text", "message"),
        [
            ("charts/app/templates/a.yaml", "a: b: c\n", "wrong"),
            ("config.yaml", "a: {{ value }}\nb: {% if c %}\n", "wrong"),
            ("{{cookiecutter.name}}/setup.py", "import {{ x }}\n", "wrong"),
            ("tests/fixtures/broken.json", "{", "wrong"),
            ("tests/data/broken.yaml", "a: b: c\n", "wrong"),
            ("tslint.json", '// a comment\n{"a": 1}\n', "wrong"),
            ("events.json", '{"a": 1}\n{"a": 2}\n', "Extra data"),
            ("empty.json", "\n", "wrong"),
            (
                "old/script.py",
                'print "a"\n',
                "Missing parentheses in call to 'print'. Did you mean print(...)?",
            ),
        ],
    )
    def test_accepts_templates_inputs_of_tests_and_dialects(self, path, text, message):
        assert unparsable_in(path, text, error=(1, message)) == []

    def test_reports_a_template_language_that_the_old_version_had_too(self):
        before = '{"text": "{{name}}"}\n'
        assert len(unparsable_in("i18n.json", '{"text": "{{name}}",}\n', before=before)) == 1


def file_of(path, *, size=100, old_path="", before=None, is_binary=True, is_generated=False):
    return ChangedFile(
        path=path,
        old_path=old_path,
        mode="100644",
        size=size,
        before=before,
        is_binary=is_binary,
        is_generated=is_generated,
    )


def change_of(*files):
    return ChangeSet(files=files, tree=UnknownTree(), base=UnknownTree())


class TestLargeFile:
    def test_reports_a_large_new_file_with_its_size(self):
        (finding,) = find_large_files(change_of(file_of("models/weights.onnx", size=2_340_000)))
        assert "2.3 MB" in finding.comment

    def test_reports_a_file_that_grew_over_the_limit(self):
        grown = file_of("data.csv", size=1_200_000, old_path="data.csv", before="a,b\n", is_binary=False)
        assert len(list(find_large_files(change_of(grown)))) == 1

    @pytest.mark.parametrize(
        "file",
        [
            file_of("small.bin", size=900_000),
            file_of("docs/screen.png", size=2_500_000),
            file_of("package-lock.json", size=2_500_000, is_generated=True),
            file_of("was_large.bin", size=2_500_000, old_path="was_large.bin"),
        ],
    )
    def test_accepts_small_files_pictures_and_files_that_were_large(self, file):
        assert list(find_large_files(change_of(file))) == []


class TestBinaryFile:
    @pytest.mark.parametrize(
        "path", ["bin/tool.exe", "lib/a.so", "src/.DS_Store", "x/a.pyc", "data/app.sqlite3", "b.tar.gz"]
    )
    def test_reports_a_new_file_that_a_machine_made(self, path):
        assert [each.severity for each in find_binary_files(change_of(file_of(path)))] == [Severity.MEDIUM]

    def test_rates_a_key_store_higher(self):
        (finding,) = find_binary_files(change_of(file_of("certs/server.p12")))
        assert finding.severity is Severity.HIGH

    @pytest.mark.parametrize(
        "file",
        [
            file_of("docs/logo.png"),
            file_of("fonts/a.woff2"),
            file_of("tests/data/a.zip"),
            file_of("gradle/wrapper/gradle-wrapper.jar"),
            file_of("android/app/debug.keystore"),
            file_of("lib/a.so", old_path="lib/a.so"),
        ],
    )
    def test_accepts_pictures_inputs_of_tests_and_files_that_exist(self, file):
        assert list(find_binary_files(change_of(file))) == []

    def test_accepts_a_text_with_such_a_suffix(self):
        assert list(find_binary_files(change_between({}, {"db/schema.db": "a text\n"}))) == []
