import json
from dataclasses import replace

import pytest

from reprieve.review.critic.change_set import ChangedFile, ChangeSet, ParsedFile, UnknownTree
from reprieve.review.critic.dependencies import find_dependencies, find_moving_sources
from reprieve.review.critic.facts import check_change
from reprieve.review.critic.findings import Severity
from reprieve.review.critic.migrations import find_migrations
from reprieve.review.critic.permissions import find_permissions
from reprieve.review.critic.workflows import (
    find_ignored_steps,
    find_script_injections,
    find_unpinned_actions,
    find_workflow_rights,
)
from support.change_sets import change_between

WORKFLOW = ".github/workflows/ci.yml"
FINE = {"error": None}


def dependencies(path, before, after, *, answer=FINE):
    change = change_between({} if before is None else {path: before}, {path: after})
    parsed = {path: ParsedFile(before=None if before is None else answer, after=answer)}
    return [
        (each.rule, each.line, each.comment.split("`")[1]) for each in find_dependencies(replace(change, parsed=parsed))
    ]


def package(**sections):
    return json.dumps(sections, indent=1)


class TestDependencies:
    @pytest.mark.parametrize(
        ("path", "before", "after"),
        [
            ("requirements.txt", "flask==3.0\n", "flask==3.0\nhttpx>=0.27  # calls\n"),
            ("requirements/base.in", "flask\n", "flask\nhttpx[http2]\n"),
            (
                "pyproject.toml",
                '[project]\ndependencies = ["a"]\n',
                '[project]\ndependencies = ["a", "httpx"]\n',
            ),
            (
                "pyproject.toml",
                '[tool.poetry.dependencies]\npython = "^3.11"\n',
                '[tool.poetry.dependencies]\npython = "^3.11"\nhttpx = "^1"\n',
            ),
            ("setup.py", 'setup(install_requires=["a"])\n', 'setup(install_requires=["a", "httpx"])\n'),
            (
                "setup.cfg",
                "[options]\ninstall_requires =\n    a\n",
                "[options]\ninstall_requires =\n    a\n    httpx>1\n",
            ),
            (
                "package.json",
                package(dependencies={"a": "1"}),
                package(dependencies={"a": "1", "httpx": "^1"}),
            ),
            (
                "Cargo.toml",
                '[dependencies]\na = "1"\n',
                '[dependencies]\na = "1"\nhttpx = { version = "1" }\n',
            ),
            ("Gemfile", "gem 'a'\n", "gem 'a'\ngem 'httpx', '~> 1'\n"),
        ],
    )
    def test_names_a_new_dependency(self, path, before, after):
        ((rule, line, name),) = dependencies(path, before, after)
        assert (rule, name) == ("dependency-added", "httpx")
        assert "httpx" in after.split("\n")[line - 1]

    def test_names_a_new_module_of_go_and_no_indirect_one(self):
        before = "module a\n\nrequire (\n\tgithub.com/x/old v1.0.0\n)\n"
        after = before.replace(")", "\tgithub.com/x/new v1.2.0\n\tgithub.com/x/deep v1.0.0 // indirect\n)")
        assert dependencies("go.mod", before, after) == [("dependency-added", 5, "github.com/x/new")]

    @pytest.mark.parametrize(
        ("path", "before", "after"),
        [
            ("requirements.txt", "flask==3.0\n", "flask==3.1\n"),
            ("requirements.txt", "flask\n", "Flask>=3\n"),
            ("requirements.txt", "a\n", "a\n-r other.txt\n# httpx\n"),
            ("requirements.txt", "a\n", "# pip-compile\na\nhttpx==1  # via flask\n    # via flask\n"),
            ("requirements-dev.txt", "a\n", "a\nhttpx\n"),
            ("requirements.txt", "a\n", "a\npytest\n"),
            (
                "package.json",
                package(dependencies={"a": "1"}),
                package(dependencies={"a": "1"}, devDependencies={"b": "1"}),
            ),
            ("package.json", package(devDependencies={"b": "1"}), package(dependencies={"b": "1"})),
            (
                "package.json",
                package(dependencies={"a": "1"}),
                package(dependencies={"a": "1", "b": "workspace:*"}),
            ),
            ("Cargo.toml", "[dependencies]\n", '[dependencies]\nlocal = { path = "../local" }\n'),
            ("package.json", None, package(dependencies={"a": "1"})),
            ("notes.txt", "a\n", "a\nhttpx\n"),
        ],
    )
    def test_accepts_new_versions_tools_of_developers_and_new_projects(self, path, before, after):
        assert dependencies(path, before, after) == []

    def test_accepts_a_dependency_that_moved_between_files(self):
        change = change_between(
            {"requirements.txt": "httpx\na\n", "b/requirements.txt": "b\n"},
            {"requirements.txt": "a\n", "b/requirements.txt": "b\nhttpx\n"},
        )
        assert list(find_dependencies(change)) == []

    def test_reads_no_document_that_the_parser_gave_up(self):
        answer = {"error": None, "gave_up": "parsing it took too long"}
        assert dependencies("Cargo.toml", "[dependencies]\n", '[dependencies]\na = "*"\n', answer=answer) == []

    @pytest.mark.parametrize(
        ("path", "before", "after", "name"),
        [
            ("requirements.txt", "httpx\n", "git+https://github.com/encode/httpx.git@master\n", "httpx"),
            ("requirements.txt", "a\n", "a\nhttpx @ https://files.example.com/httpx.zip\n", "httpx"),
            ("package.json", package(dependencies={"a": "^1"}), package(dependencies={"a": "latest"}), "a"),
            (
                "package.json",
                package(dependencies={"a": "^1"}),
                package(dependencies={"a": "github:x/a"}),
                "a",
            ),
            ("Cargo.toml", '[dependencies]\na = "1"\n', '[dependencies]\na = "*"\n', "a"),
            (
                "Cargo.toml",
                '[dependencies]\na = "1"\n',
                '[dependencies]\na = { git = "https://github.com/x/a", branch = "main" }\n',
                "a",
            ),
            ("Gemfile", "gem 'a'\n", "gem 'a', git: 'https://github.com/x/a'\n", "a"),
        ],
    )
    def test_reports_a_source_that_can_change(self, path, before, after, name):
        assert ("dependency-not-pinned", name) in [
            (rule, named) for rule, _, named in dependencies(path, before, after)
        ]

    @pytest.mark.parametrize(
        ("path", "before", "after"),
        [
            ("requirements.txt", "httpx\n", f"git+https://github.com/encode/httpx.git@{'0a' * 20}\n"),
            ("requirements.txt", "httpx\n", "httpx @ https://files.example.com/httpx.zip#sha256=0a0a0a\n"),
            ("requirements.txt", "httpx==1\n", "httpx\n"),
            (
                "package.json",
                package(dependencies={"a": "^1"}),
                package(dependencies={"a": f"github:x/a#{'0a' * 20}"}),
            ),
            (
                "Cargo.toml",
                '[dependencies]\na = "1"\n',
                '[dependencies]\na = { git = "https://github.com/x/a", tag = "v1" }\n',
            ),
        ],
    )
    def test_accepts_a_commit_a_tag_and_a_checksum(self, path, before, after):
        assert "dependency-not-pinned" not in [rule for rule, _, _ in dependencies(path, before, after)]


def workflow(*steps, on="pull_request", head=""):
    return f"on: {on}\n{head}jobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n" + "".join(
        f"      {each}\n" for each in steps
    )


def findings_of(check, before, after, path=WORKFLOW):
    return list(check(change_between({} if before is None else {path: before}, {path: after})))


class TestWorkflowRights:
    @pytest.mark.parametrize(
        ("after", "severity"),
        [
            (workflow(head="permissions: write-all\n"), Severity.HIGH),
            (workflow(on="pull_request_target"), Severity.MEDIUM),
            (workflow(on="[push, pull_request_target]"), Severity.MEDIUM),
            (workflow(head="permissions:\n  contents: write\n"), Severity.MEDIUM),
            ("on: push\njobs:\n  a:\n    uses: ./a.yml\n    secrets: inherit\n", Severity.MEDIUM),
        ],
    )
    def test_reports_rights_of_a_new_workflow(self, after, severity):
        assert [each.severity for each in findings_of(find_workflow_rights, None, after)] == [severity]

    def test_reports_a_scope_that_an_old_workflow_did_not_have(self):
        before = workflow(head="permissions:\n  contents: read\n")
        (finding,) = findings_of(find_workflow_rights, before, before.replace("read", "write"))
        assert finding.line == 3

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (workflow(), workflow(head="permissions:\n  contents: write\n")),
            (None, workflow(head="permissions:\n  contents: read\n  id-token: write\n")),
            (None, workflow("# pull_request_target is dangerous")),
        ],
        ids=["rights that were unlimited before", "small rights", "a comment"],
    )
    def test_accepts_fewer_rights(self, before, after):
        assert findings_of(find_workflow_rights, before, after) == []

    def test_accepts_write_access_of_a_workflow_that_publishes(self):
        after = workflow(head="permissions:\n  contents: write\n")
        assert findings_of(find_workflow_rights, None, after, ".github/workflows/release.yml") == []

    def test_accepts_the_same_words_elsewhere(self):
        assert findings_of(find_workflow_rights, None, "permissions: write-all\n", "config/app.yml") == []


class TestUnpinnedActions:
    @pytest.mark.parametrize(
        "after",
        [
            workflow("- uses: someone/tool@master"),
            workflow("- uses: someone/tool@v1", f"- uses: other/tool@{'0a' * 20}"),
        ],
        ids=["a branch", "a repository that pins others"],
    )
    def test_reports_a_new_action(self, after):
        before = workflow(f"- uses: other/tool@{'0a' * 20}") if "0a" in after else workflow()
        assert [each.line for each in findings_of(find_unpinned_actions, before, after)] == [6]

    @pytest.mark.parametrize(
        "step",
        [
            "- uses: actions/checkout@main",
            f"- uses: someone/tool@{'0a' * 20}  # v1",
            "- uses: ./.github/actions/build",
            "- uses: someone/tool@v1",
            "- uses: me/repo/.github/workflows/build.yml@main",
        ],
    )
    def test_accepts_own_actions_commits_and_tags_without_rights(self, step):
        assert findings_of(find_unpinned_actions, workflow(), workflow(step)) == []

    def test_accepts_an_action_that_another_workflow_uses(self):
        before = {WORKFLOW: workflow(), ".github/workflows/b.yml": workflow("- uses: someone/tool@main")}
        after = {**before, WORKFLOW: workflow("- uses: someone/tool@main")}
        assert list(find_unpinned_actions(change_between(before, after))) == []


class TestScriptInjection:
    @pytest.mark.parametrize(
        "steps",
        [
            ('- run: echo "${{ github.event.pull_request.title }}"',),
            ("- run: |", "    make", "    git checkout ${{ github.head_ref }}"),
            ("- name: x", "  run: echo ${{ github.event.issue.body }}"),
            ("- run: git switch ${{ github.event.pull_request.head.ref }}",),
            (
                "- uses: actions/github-script@v7",
                "  with:",
                "    script: |",
                "      f(`${{ github.event.comment.body }}`)",
            ),
        ],
    )
    def test_reports_text_of_a_pull_request_in_a_script(self, steps):
        (finding,) = findings_of(find_script_injections, None, workflow(*steps))
        assert finding.severity is Severity.HIGH

    @pytest.mark.parametrize(
        "steps",
        [
            ("- env:", "    TITLE: ${{ github.event.pull_request.title }}", '  run: echo "$TITLE"'),
            ("- run: echo ${{ github.event.pull_request.number }}",),
            ("- run: echo ${{ github.event.repository.default_branch }}",),
            ("- if: github.head_ref == 'main'", "  run: make"),
            ("- uses: x/y@v1", "  with:", "    title: ${{ github.event.pull_request.title }}"),
            ("- run: |", "    make", "- name: ${{ github.event.pull_request.title }}"),
        ],
    )
    def test_accepts_variables_numbers_and_settings_of_steps(self, steps):
        assert findings_of(find_script_injections, None, workflow(*steps)) == []

    def test_accepts_a_workflow_that_outsiders_cannot_start(self):
        text = workflow("- run: echo ${{ github.event.head_commit.message }}", on="push")
        assert findings_of(find_script_injections, None, text) == []


class TestIgnoredSteps:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (workflow("- run: pytest"), workflow("- run: pytest || true")),
            (workflow("- run: ruff check ."), workflow("- run: ruff check .", "  continue-on-error: true")),
            (
                workflow("- name: x", "  run: npm test"),
                workflow("- name: x", "  continue-on-error: true", "  run: npm test"),
            ),
        ],
    )
    def test_reports_a_test_that_can_fail_unseen(self, before, after):
        assert len(findings_of(find_ignored_steps, before, after)) == 1

    def test_reports_a_test_step_that_is_removed(self):
        before = workflow("- run: make", "- run: mypy src")
        (finding,) = findings_of(find_ignored_steps, before, workflow("- run: make"))
        assert "`mypy` is removed" in finding.comment

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (workflow("- run: pytest"), workflow("- run: pytest", "- run: rm -f core || true")),
            (
                workflow("- run: pytest"),
                workflow("- run: pytest", "- run: upload", "  continue-on-error: true"),
            ),
            (workflow("- run: pytest"), workflow("- run: make verify")),
            (workflow("- run: pytest -q"), workflow("- run: pytest")),
            (workflow("- run: pip install pytest"), workflow()),
        ],
        ids=["cleaning up", "an upload", "another command", "other options", "an installation"],
    )
    def test_accepts_other_steps_and_replaced_commands(self, before, after):
        assert findings_of(find_ignored_steps, before, after) == []

    def test_accepts_a_step_that_moved_to_another_workflow(self):
        before = {
            WORKFLOW: workflow("- run: mypy src"),
            ".github/workflows/b.yml": workflow("- run: mypy src"),
        }
        after = {**before, WORKFLOW: workflow()}
        assert list(find_ignored_steps(change_between(before, after))) == []


def modes(path, text, *, mode, old_mode="100644"):
    file = ChangedFile(
        path=path, old_path=path, old_mode=old_mode, mode=mode, after=text, diff=f"@@ -0,0 +1,1 @@\n+{text}"
    )
    return [each.rule for each in find_permissions(ChangeSet(files=(file,), tree=UnknownTree(), base=UnknownTree()))]


class TestPermissions:
    def test_reports_a_document_that_became_executable(self):
        assert modes("README.md", "text", mode="100755") == ["file-permission"]

    @pytest.mark.parametrize(
        ("path", "text"),
        [("run.py", "#!/usr/bin/env python3"), ("a.sh", "x"), ("gradlew", "x"), ("tool", "x")],
    )
    def test_accepts_programs(self, path, text):
        assert modes(path, text, mode="100755") == []

    def test_accepts_a_file_that_was_executable(self):
        assert modes("README.md", "text", mode="100755", old_mode="100755") == []

    @pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "../a/../../b"])
    def test_reports_a_link_out_of_the_repository(self, target):
        assert modes("docs/link", target, mode="120000") == ["link-outside-repository"]

    @pytest.mark.parametrize("target", ["other", "../README.md", "./a/../b"])
    def test_accepts_a_link_inside_the_repository(self, target):
        assert modes("docs/link", target, mode="120000") == []

    @pytest.mark.parametrize(
        "line", ["RUN chmod 777 /data", "chmod -R 0777 /var/app", "chmod a+w log.txt", "chmod a+rwx log"]
    )
    def test_reports_a_command_that_lets_every_user_write(self, line):
        assert [each.rule for each in findings_of(find_permissions, None, f"{line}\n", "Dockerfile")] == [
            "world-writable"
        ]

    @pytest.mark.parametrize(
        "line", ["chmod 755 run", "chmod a+x run", "chmod 1777 /tmp", "chmod u+w a", "# chmod 777 x"]
    )
    def test_accepts_usual_modes(self, line):
        assert findings_of(find_permissions, None, f"{line}\n", "install.sh") == []


DJANGO = "class Migration(migrations.Migration):\n    operations = [\n{}    ]\n"
ALEMBIC = 'down_revision = "a"\n\n\ndef upgrade():\n    {}\n\n\ndef downgrade():\n    {}\n'


def migrations(path, text, before=None):
    return [(each.rule, each.comment) for each in findings_of(find_migrations, before, text, path)]


class TestMigrations:
    @pytest.mark.parametrize(
        ("path", "text", "what"),
        [
            (
                "shop/migrations/0002_a.py",
                DJANGO.format("        migrations.DeleteModel(name='Cart'),\n"),
                "drops the table of `Cart`",
            ),
            (
                "shop/migrations/0002_a.py",
                DJANGO.format(
                    "        migrations.RemoveField(\n            model_name='a',\n            name='price'\n        ),\n"
                ),
                "drops the column of `price`",
            ),
            (
                "alembic/versions/a.py",
                ALEMBIC.format('op.drop_table("cart")', "pass"),
                "drops the table `cart`",
            ),
            (
                "alembic/versions/a.py",
                ALEMBIC.format('op.drop_column("cart", "price")', "pass"),
                "drops the column `price`",
            ),
            (
                "alembic/versions/a.py",
                ALEMBIC.format(
                    'op.add_column(\n        "cart",\n        sa.Column("price", sa.Integer(), nullable=False),\n    )',
                    "pass",
                ),
                "adds the required column `price` without a default",
            ),
            ("db/migrations/2.sql", "ALTER TABLE cart DROP COLUMN price;\n", "drops the column `price`"),
            ("db/migrations/2.sql", "ALTER TABLE cart RENAME COLUMN a TO b;\n", "renames the column `a`"),
            ("db/migrations/2.sql", "DELETE FROM cart;\n", "deletes all rows of `cart`"),
            (
                "db/migrations/2.sql",
                "ALTER TABLE cart ADD COLUMN price INT NOT NULL;\n",
                "adds the required column `price`",
            ),
            (
                "db/migrate/2_a.rb",
                "class A\n  def change\n    remove_column :cart, :price\n  end\nend\n",
                "drops the column `price`",
            ),
        ],
    )
    def test_reports_what_loses_data_or_breaks_the_old_version(self, path, text, what):
        ((rule, comment),) = migrations(path, text)
        assert rule == "migration"
        assert f"The migration {what}" in comment

    @pytest.mark.parametrize(
        ("path", "text"),
        [
            ("alembic/versions/a.py", ALEMBIC.format('op.create_table("cart")', 'op.drop_table("cart")')),
            (
                "alembic/versions/a.py",
                ALEMBIC.format(
                    'op.add_column(\n        "c", sa.Column("p", sa.Text(), nullable=False, server_default="")\n    )',
                    "pass",
                ),
            ),
            ("db/migrations/2.sql", "DROP TABLE IF EXISTS cart;\nCREATE TABLE cart (id INT NOT NULL);\n"),
            ("db/migrations/2.sql", "ALTER TABLE cart ADD COLUMN price INT NOT NULL DEFAULT 0;\n"),
            ("db/migrations/2.sql", "DELETE FROM cart WHERE price = 0;\n"),
            ("db/migrations/2.sql", "-- +goose Up\nCREATE TABLE a (x INT);\n-- +goose Down\nDROP TABLE b;\n"),
            ("db/migrations/2.down.sql", "DROP TABLE cart;\n"),
            ("reports/cleanup.sql", "DROP TABLE cart;\n"),
            ("shop/migrations/helpers.py", "op.drop_table('cart')\n"),
        ],
    )
    def test_accepts_additions_ways_back_and_other_files(self, path, text):
        assert migrations(path, text) == []

    def test_reports_a_migration_that_existed_and_changed(self):
        before = ALEMBIC.format('op.create_table("cart")', "pass")
        assert [rule for rule, _ in migrations("alembic/versions/a.py", before.replace("cart", "basket"), before)] == [
            "migration-edited"
        ]

    @pytest.mark.parametrize(
        "edit",
        [
            ("pass", "pass  "),
            ('"a"', "'a'"),
            ("down_revision", "import sqlalchemy as sa\n\ndown_revision"),
            ("\n\n\ndef up", "\n# x\n\ndef up"),
        ],
    )
    def test_accepts_formatting_imports_and_comments_of_a_migration(self, edit):
        before = ALEMBIC.format('op.create_table("cart")', "pass")
        assert migrations("alembic/versions/a.py", before.replace(*edit), before) == []


def test_a_right_to_read_that_becomes_a_right_to_write_is_reported_in_every_workflow():
    before = "on: push\njobs:\n  build:\n    permissions:\n      contents: read\n    runs-on: ubuntu-latest\n"
    after = before.replace("contents: read", "contents: write")
    path = ".github/workflows/publish.yml"
    change = change_between({path: before}, {path: after})
    assert [each.rule for each in check_change(change).findings] == ["ci-permission"]


# Migrations: what one file does is one finding


MIGRATION_HEAD = "from alembic import op\n\ndown_revision = 'a'\n\n\ndef upgrade():\n"


ADD_FIELD = """class Migration(migrations.Migration):
    operations = [
        migrations.AddField(
            model_name="a",
            name="b",
            field=models.IntegerField(),
        ),
    ]
"""


def migration_findings(path, text):
    return list(find_migrations(change_between({}, {path: text})))


def test_all_that_a_migration_takes_away_is_one_finding():
    body = "".join(f'    op.drop_column("shop", "{name}")\n' for name in ("a", "b", "c"))
    (found,) = migration_findings("migrations/versions/1_a.py", MIGRATION_HEAD + body)
    assert "drops the column `a`, `b` and `c`" in found.comment
    assert (found.line, len(found.also)) == (7, 2)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("db/migrations/2.sql", "DELETE FROM \"report\" WHERE type = 'old';\n"),
        ("db/migrations/2.sql", "DELETE FROM roles\nWHERE id IN (1, 2);\n"),
        (
            "migrations/versions/1_a.py",
            MIGRATION_HEAD + '    op.execute("""\n        DELETE FROM roles\n        WHERE id = 1\n    """)\n',
        ),
        (
            "db/migrations/2.sql",
            "CREATE MATERIALIZED VIEW shop.sums_new TO shop.hours AS SELECT 1;\nDROP TABLE shop.sums_new;\n",
        ),
        (
            "shop/migrations/0002_a.py",
            ADD_FIELD.replace("IntegerField()", "IntegerField(default=0)"),
        ),
    ],
)
def test_a_migration_that_loses_nothing_unsaid_is_not_reported(path, text):
    assert migration_findings(path, text) == []


def test_a_required_field_of_django_without_a_default_is_reported():
    (found,) = migration_findings("shop/migrations/0002_a.py", ADD_FIELD)
    assert "the required column `b`" in found.comment


# Modes


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("packaging/postinst", "chmod u=rw,go+rw /etc/shop.conf"),
        ("packaging/postinst", 'chmod 666 "${file}"'),
        ("setup.sh", "chmod -R a+rwX /srv"),
        ("setup.sh", "install -d -m 0777 /srv"),
        ("setup.sh", "umask 000"),
        ("Dockerfile", "COPY --chmod=777 app /app"),
        ("site.yml", '    mode: "0666"'),
        ("src/a.ts", "await fs.chmod(path, 0o777);"),
        ("src/a.go", "os.Chmod(path, 0666)"),
    ],
)
def test_a_mode_that_lets_everyone_write_is_found(path, line):
    (found,) = find_permissions(change_between({}, {path: f"#!/bin/sh\n{line}\n"}))
    assert (found.rule, found.line) == ("world-writable", 2)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("setup.sh", "chmod u=rw,go=r /etc/shop.conf"),
        ("setup.sh", "chmod 1777 /tmp/shop"),
        ("setup.sh", "chmod g+w,o-w /srv"),
        ("setup.sh", "# chmod 777 /srv"),
        ("setup.sh", "umask 022"),
        ("src/a.go", "os.MkdirAll(path, 0777)"),
        ("notes.txt", "chmod 777 /srv"),
    ],
)
def test_other_modes_are_not_reported(path, line):
    assert (
        list(
            find_permissions(change_between({}, {path: f"#!/bin/sh\n{line}\n" if path == "setup.sh" else f"{line}\n"}))
        )
        == []
    )


# Dependencies: sources in git, and names that are known already


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("tox.ini", "    shop @ git+https://git.example/shop/shop.git@master"),
        ("pnpm-workspace.yaml", "  shop: github:shop/shop#main"),
        ("Dockerfile", "RUN pip install git+https://git.example/shop/shop"),
        ("setup.cfg", "    shop @ https://github.com/shop/shop/archive/refs/heads/main.zip"),
    ],
)
def test_a_source_in_git_without_a_version_is_found(path, line):
    (found,) = find_moving_sources(change_between({path: "x\n"}, {path: f"x\n{line}\n"}))
    assert (found.rule, found.line) == ("dependency-not-pinned", 2)
    assert "`shop`" in found.comment


@pytest.mark.parametrize(
    "line",
    [
        "    shop @ git+https://git.example/shop/shop.git@v1.2",
        f"    shop @ git+https://git.example/shop/shop.git@{'a' * 40}",
        "    # shop @ git+https://git.example/shop/shop.git",
        "    shop >= 2",
    ],
)
def test_a_source_in_git_with_a_version_is_not_reported(line):
    assert list(find_moving_sources(change_between({"tox.ini": "x\n"}, {"tox.ini": f"x\n{line}\n"}))) == []


@pytest.mark.parametrize(
    ("old", "new", "title"),
    [
        ('{"dependencies": {"babel-core": "6"}}', '{"dependencies": {"@babel/core": "7"}}', "a change"),
        ('{"dependencies": {}}', '{"dependencies": {"cloud-file-storage": "7"}}', "Write to the cloud (file storage)"),
        ('{"dependencies": {}}', '{"dependencies": {"other": "7"}}', "Add a missing package"),
    ],
)
def test_a_dependency_that_is_no_news_is_not_reported(old, new, title):
    change = change_between({"package.json": old}, {"package.json": new}, title=title)
    parsed = {"package.json": ParsedFile(before=FINE, after=FINE)}
    assert list(find_dependencies(replace(change, parsed=parsed))) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("pre-commit run --all", "pre-commit run --all > log || true"),
        ("pytest \\\n            --cov", "pytest \\\n            --cov || true"),
        ("ruff check src", "ruff check src --exit-zero"),
        ("pnpm exec stylelint src", "pnpm exec stylelint src; true"),
    ],
)
def test_a_tool_whose_result_the_change_drops_is_found(before, after):
    text = "jobs:\n  a:\n    steps:\n      - run: |\n          {}\n      - run: done\n"
    (found,) = find_ignored_steps(change_between({WORKFLOW: text.format(before)}, {WORKFLOW: text.format(after)}))
    assert found.rule == "ci-step-ignored"


def test_a_workflow_that_loses_its_permissions_is_found():
    before = "on: push\npermissions:\n  contents: read\njobs:\n"
    (found,) = find_workflow_rights(change_between({WORKFLOW: before}, {WORKFLOW: "on: push\njobs:\n"}))
    assert "default rights" in found.comment


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("db/migrations/2.sql", 'ALTER TABLE "a" ALTER COLUMN "b" SET NOT NULL;\n'),
        ("migrations/versions/1_a.py", MIGRATION_HEAD + '    op.alter_column("a", "b", nullable=False)\n'),
    ],
)
def test_a_column_that_becomes_required_is_found_unless_it_is_filled(path, text):
    (found,) = migration_findings(path, text)
    assert "makes the column `b` required" in found.comment
    fill = (
        "UPDATE a SET b = 1;\n" if path.endswith(".sql") else MIGRATION_HEAD + '    op.execute("UPDATE a SET b = 1")\n'
    )
    assert migration_findings(path, fill + text.removeprefix(MIGRATION_HEAD)) == []


def test_operations_on_the_state_of_django_are_no_changes_of_the_schema():
    operation = '                migrations.RemoveField(model_name="a", name="b"),\n'
    text = f"class Migration(migrations.Migration):\n    operations = [\n        X(\n            {{}}=[\n{operation}            ],\n        ),\n    ]\n"
    assert migration_findings("shop/migrations/0002_a.py", text.format("state_operations")) == []
    assert len(migration_findings("shop/migrations/0002_a.py", text.format("database_operations"))) == 1


LOCKS = {
    "yarn.lock": '"httpx@npm:^1.0, httpx@npm:^1.2":\n  version: 1.2.0\n',
    "package-lock.json": '{"packages": {\n  "node_modules/a/node_modules/httpx": {\n}}}\n',
    "pnpm-lock.yaml": "packages:\n\n  httpx@1.2.0:\n    resolution: {}\n",
}


def news_of(path, before, after, others, title="a change"):
    change = change_between(others | {path: before}, others | {path: after}, title=title)
    parsed = {path: ParsedFile(before=FINE, after=FINE)}
    return [each.comment.split("`")[1] for each in find_dependencies(replace(change, parsed=parsed))]


@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize("folder", ["", "ui/"])
def test_a_package_that_the_lock_file_holds_already_is_no_new_dependency(lock, folder):
    before, after = package(dependencies={"a": "1"}), package(dependencies={"a": "1", "httpx": "1", "other": "2"})
    assert news_of(f"{folder}package.json", before, after, {lock: LOCKS[lock]}) == ["other"]
    assert news_of("package.json", before, after, {f"lib/{lock}": LOCKS[lock]}) == ["httpx"]


@pytest.mark.parametrize(
    ("path", "before", "added", "lock", "text"),
    [
        ("Cargo.toml", '[dependencies]\na = "1"\n', 'httpx = "1"\n', "Cargo.lock", '[[package]]\nname = "httpx"\n'),
        (
            "pyproject.toml",
            '[project]\ndependencies = [\n  "a",\n',
            '  "httpx",\n]\n',
            "uv.lock",
            '[[package]]\nname = "httpx"\n',
        ),
        (
            "requirements/prod.in",
            "a==1\n",
            "httpx==1.0\n",
            "requirements/prod.txt",
            "httpx[http2]==1.0 \\\n    --hash=sha256:00\n",
        ),
        (
            "go.mod",
            "require x.org/alpha v1.0.0\n",
            "require x.org/beta v1.0.0\n",
            "go.sum",
            "x.org/beta v1.0.0 h1:00=\n",
        ),
    ],
)
def test_every_kind_of_lock_file_is_read(path, before, added, lock, text):
    whole = before + ("]\n" if path == "pyproject.toml" else "")
    assert news_of(path, whole, before + added, {lock: "\n"}) != []
    assert news_of(path, whole, before + added, {lock: text}) == []


def test_a_module_of_which_go_holds_the_list_of_requirements_only_is_new():
    sums = {"go.sum": "x.org/beta v1.0.0/go.mod h1:00=\n"}
    assert news_of("go.mod", "require x.org/alpha v1.0.0\n", "require x.org/beta v1.0.0\n", sums) == ["x.org/beta"]


def test_a_package_of_a_scope_that_the_project_uses_is_no_new_vendor():
    before = package(dependencies={"@radix-ui/react-popover": "1"})
    after = package(dependencies={"@radix-ui/react-popover": "1", "@radix-ui/react-slot": "1", "@other/slot": "1"})
    assert news_of("package.json", before, after, {}) == ["@other/slot"]


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("git+https://github.com/x/tool.git", "github:x/tool", 0),
        ("github:x/tool", "git+https://github.com/x/tool.git", 0),
        ("github:x/tool", "github:y/tool", 1),
        ("1.0.0", "github:x/tool", 1),
    ],
)
def test_another_notation_of_the_same_source_is_no_finding(old, new, count):
    before, after = package(dependencies={"tool": old}), package(dependencies={"tool": new})
    assert len(news_of("package.json", before, after, {})) == count


def test_an_archive_that_the_compiled_requirements_pin_by_hash_is_pinned():
    url = "https://example.org/tool/main.tar.gz#egg=tool"
    locked = {"requirements/prod.txt": f"tool @ {url} \\\n    --hash=sha256:00\n"}
    title = "Update a package"
    assert news_of("requirements/prod.in", "a==1\n", f"a==1\n{url}\n", {}, title) == ["tool"]
    assert news_of("requirements/prod.in", "a==1\n", f"a==1\n{url}\n", locked, title) == []
    tag = "https://github.com/x/tool/archive/refs/tags/v-a.tar.gz#egg=tool"
    assert news_of("requirements/prod.in", "a==1\n", f"a==1\n{tag}\n", {}, title) == []


CREATES = "        migrations.CreateModel(\n            name='Cart',\n            fields=[\n                ('price', X()),\n            ],\n        ),\n"


@pytest.mark.parametrize(
    "operation",
    [
        "migrations.RenameModel(old_name='Cart', new_name='Basket'),",
        "migrations.RemoveField(model_name='cart', name='price'),",
        "migrations.AddField(model_name='cart', name='size', field=models.IntegerField()),",
        "migrations.DeleteModel(name='Cart'),",
    ],
)
def test_what_an_earlier_migration_of_the_change_created_is_no_loss(operation):
    first, second = "shop/migrations/0002_a.py", "shop/migrations/0003_b.py"
    texts = {first: DJANGO.format(CREATES), second: DJANGO.format(f"        {operation}\n")}
    assert len(list(find_migrations(change_between({}, {second: texts[second]})))) == 1
    assert list(find_migrations(change_between({}, texts))) == []
    in_one = DJANGO.format(f"{CREATES}        {operation}\n")
    assert list(find_migrations(change_between({}, {first: in_one}))) == []
    later = {second: texts[first], first: texts[second]}
    assert len(list(find_migrations(change_between({}, later)))) == 1


def test_a_column_that_an_earlier_migration_of_the_change_added_is_no_loss():
    adds = "        migrations.AddField(model_name='cart', name='size', field=models.IntegerField(null=True)),\n"
    removes = "        migrations.RemoveField(model_name='{}', name='size'),\n"
    first, second = "shop/migrations/0002_a.py", "shop/migrations/0003_b.py"
    for model, count in (("cart", 0), ("basket", 1)):
        texts = {first: DJANGO.format(adds), second: DJANGO.format(removes.format(model))}
        assert len(list(find_migrations(change_between({}, texts)))) == count


def test_a_table_whose_creation_is_a_migration_of_the_same_change_is_empty():
    texts = {
        "db/migrations/2.sql": "CREATE TABLE cart (id INT);\n",
        "db/migrations/3.sql": "ALTER TABLE cart ADD COLUMN price INT NOT NULL;\nALTER TABLE shop DROP COLUMN a;\n",
    }
    (found,) = find_migrations(change_between({}, texts))
    assert (found.line, "price" in found.comment) == (2, False)


@pytest.mark.parametrize(
    ("title", "count"),
    [("Delete `Cart` model and drop table via migration", 0), ("Drop the price column", 0), ("Remove Cart", 1)],
)
def test_a_title_that_names_the_loss_in_the_database_makes_it_no_finding(title, count):
    text = DJANGO.format("        migrations.DeleteModel(name='Cart'),\n")
    change = change_between({}, {"shop/migrations/0002_a.py": text}, title=title)
    assert len(list(find_migrations(change))) == count


EDITED = """from django.db import migrations, models


def fill(apps, schema_editor):
    try:
        Cart = apps.get_model("shop", "Cart")
    except:
        pass


class Migration(migrations.Migration):
    replaces = [
        ("shop", "0001_a"),
        ("shop", "0002_b"),
    ]
    dependencies = []
    operations = [
        migrations.AddField(
            model_name="cart",
            name="slug",
            field=models.SlugField(
                populate_from=b"name", help_text="Two "
                "texts", max_length=9
            ),
        ),
    ]
"""


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ('    replaces = [\n        ("shop", "0001_a"),\n        ("shop", "0002_b"),\n    ]\n', "", 0),
        ('populate_from=b"name", ', "", 0),
        ('help_text="Two "\n                "texts", ', 'help_text="One",', 0),
        ("    dependencies", "    safe = Safe.always()\n    dependencies", 0),
        ("models.SlugField(\n                ", "models.SlugField(", 0),
        ("import migrations, models", "import migrations\nfrom django.db import models", 0),
        ("max_length=9", "max_length=10", 1),
        ("    dependencies", "    run_before = [('a', '1')]\n    dependencies", 1),
        ("except:", "except Exception:", 0),
        ('"Cart")', '"Basket")', 1),
    ],
)
def test_only_an_edit_that_can_change_the_schema_or_the_data_is_reported(old, new, count):
    assert old in EDITED
    assert len(migrations("shop/migrations/0003_c.py", EDITED.replace(old, new), EDITED)) == count


PERMITTED = "on: push\njobs:\n  {}:\n    permissions:\n      contents: read\n    steps: []\n  test:\n    steps: []\n"


def test_a_job_that_goes_with_its_permissions_is_no_finding():
    before = PERMITTED.format("build")
    without_job = "on: push\njobs:\n  test:\n    steps: []\n"
    assert list(find_workflow_rights(change_between({WORKFLOW: before}, {WORKFLOW: without_job}))) == []
    without_limit = before.replace("    permissions:\n      contents: read\n", "")
    assert len(list(find_workflow_rights(change_between({WORKFLOW: before}, {WORKFLOW: without_limit})))) == 1


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ("      # Needed to upload the cache\n      packages: write\n", 0),
        ("      packages: write  # needed to upload the cache\n", 0),
        ("      packages: write\n", 1),
        ("      # TODO\n      packages: write\n", 1),
    ],
)
def test_a_right_whose_need_a_comment_explains_is_no_finding(lines, count):
    text = f"on: push\njobs:\n  build:\n    permissions:\n{lines}    steps: []\n"
    assert len(list(find_workflow_rights(change_between({}, {WORKFLOW: text})))) == count


@pytest.mark.parametrize(("before", "count"), [("npm run test || exit 0", 0), ("npm run test", 1)])
def test_a_step_that_was_ignored_before_is_no_finding(before, count):
    text = "jobs:\n  a:\n    steps:\n      - run: {}\n"
    change = change_between({WORKFLOW: text.format(before)}, {WORKFLOW: text.format("pnpm run test || exit 0")})
    assert len(list(find_ignored_steps(change))) == count


def test_a_table_that_only_the_way_back_creates_is_lost():
    text = ALEMBIC.format('op.drop_table("cart")', 'op.create_table("cart")')
    assert [rule for rule, _ in migrations("alembic/versions/a.py", text)] == ["migration"]


def test_a_column_that_is_made_again_after_it_is_dropped_is_lost():
    body = 'op.drop_column("cart", "price")\n    op.add_column("cart", sa.Column("price", sa.Text()))'
    assert [rule for rule, _ in migrations("alembic/versions/a.py", ALEMBIC.format(body, "pass"))] == ["migration"]


def test_the_chain_of_revisions_says_which_migration_is_earlier():
    revision = 'revision = "{}"\ndown_revision = "{}"\n\n\ndef upgrade():\n    {}\n'
    creates = revision.format("b", "a", 'op.create_table("cart")')
    drops = revision.format("c", "b", 'op.drop_column("cart", "price")')
    paths = "alembic/versions/2.py", "alembic/versions/1.py"
    assert list(find_migrations(change_between({}, dict(zip(paths, (creates, drops), strict=True))))) == []
    unchained = drops.replace('"b"', '"x"')
    assert len(list(find_migrations(change_between({}, dict(zip(paths, (creates, unchained), strict=True)))))) == 1
