from dataclasses import replace

import pytest

from reprieve.review.critic.changed_tests import (
    find_code_without_test,
    find_deleted_tests,
    find_lone_tests,
    find_skipped_tests,
)
from reprieve.review.critic.facts import check_change
from support.change_sets import change_between


def python_tests(*names):
    return "import shop\n\n" + "".join(f"\ndef test_{name}():\n    assert shop.{name}() == 1\n" for name in names)


class TestDeletedTests:
    def deleted(self, before, after, **options):
        return list(find_deleted_tests(change_between(before, after, **options)))

    def test_reports_a_deleted_test_at_the_nearest_line_that_is_left(self):
        before = python_tests("price", "refund", "total")
        (finding,) = self.deleted(
            {"tests/test_shop.py": before}, {"tests/test_shop.py": python_tests("price", "total")}
        )
        assert "1 test," in finding.comment
        assert "`test_refund`" in finding.comment
        assert python_tests("price", "total").split("\n")[finding.line - 1] == "def test_total():"

    def test_counts_the_tests_of_a_deleted_file_and_names_the_first(self):
        before = {"tests/test_shop.py": python_tests("one", "two", "three", "four"), "shop.py": "x = 1\n"}
        (finding,) = self.deleted(before, {"shop.py": "x = 1\n"})
        assert finding.line == 0
        assert "4 tests" in finding.comment
        assert "`test_three` and 1 more" in finding.comment

    @pytest.mark.parametrize(
        ("path", "test"),
        [
            ("src/shop.test.ts", "it('adds the prices', () => {\n  expect(add(1)).toBe(1)\n})\n"),
            ("shop_test.go", "func TestPrice(t *testing.T) {\n\tcheck(t)\n}\n"),
            ("src/ShopTest.java", "  @Test\n  public void addsPrices() {\n    check();\n  }\n"),
            ("src/ShopTest.kt", "  @Test\n  fun `adds prices`() {\n    check()\n  }\n"),
        ],
    )
    def test_reads_the_tests_of_several_languages(self, path, test):
        assert len(self.deleted({path: f"// one\n{test}// two\n"}, {path: "// one\n// two\n"})) == 1

    def test_accepts_a_test_that_moved_to_another_file(self):
        before = {"tests/test_shop.py": python_tests("price", "refund"), "tests/test_cash.py": "\n"}
        after = {"tests/test_shop.py": python_tests("price"), "tests/test_cash.py": python_tests("refund")}
        assert self.deleted(before, after) == []

    def test_accepts_a_test_that_has_a_new_name(self):
        before = {"tests/test_shop.py": python_tests("price", "refund_is_paid")}
        after = {
            "tests/test_shop.py": python_tests("price"),
            "tests/test_cash.py": python_tests("refund_was_paid"),
        }
        assert self.deleted(before, after) == []

    def test_accepts_a_file_that_was_renamed(self):
        text = python_tests("price", "refund")
        change = {"tests/test_shop.py": text}, {"tests/test_store.py": text}
        assert self.deleted(*change, renamed={"tests/test_shop.py": "tests/test_store.py"}) == []

    def test_accepts_tests_of_a_module_that_is_deleted_too(self):
        code = "def price(shop):\n    return shop\n"
        before = {"tests/test_shop.py": python_tests("price"), "src/shop.py": code}
        assert self.deleted(before, {"src/store.py": f"{code}\nassert price\n"}) == []

    def test_accepts_tests_of_a_case_that_the_code_does_not_have_any_more(self):
        code = "def price(shop):\n    if shop == 1:\n        return 1\n    return shop\n"
        before = {"tests/test_shop.py": python_tests("price", "shop"), "src/shop.py": code}
        after = {"tests/test_shop.py": python_tests("price"), "src/shop.py": "def price(shop):\n    return shop\n"}
        assert self.deleted(before, after) == []

    def test_accepts_tests_of_a_function_that_is_deleted_too(self):
        code = "def refund():\n    return 1\n\ndef price():\n    return 1\n"
        before = {"tests/test_shop.py": python_tests("price", "refund"), "src/shop.py": code}
        after = {
            "tests/test_shop.py": python_tests("price"),
            "src/shop.py": code.replace("refund", "give_back"),
        }
        assert self.deleted(before, after) == []

    def test_accepts_tests_that_became_cases_of_one_test(self):
        after = "import shop\n\n@pytest.mark.parametrize('name', ['a', 'b'])\ndef test_all(name):\n    pass\n"
        assert (
            self.deleted({"tests/test_shop.py": python_tests("price", "refund")}, {"tests/test_shop.py": after}) == []
        )


def skipped(path, before, after):
    return [
        (each.line, each.comment.split("`")[1])
        for each in find_skipped_tests(change_between({path: before}, {path: after}))
    ]


PYTHON_TEST = "def test_price():\n    assert price() == 1\n"


class TestDeletedTestsBesideOtherChanges:
    def deleted(self, before, after, **options):
        return list(find_deleted_tests(change_between(before, after, **options)))

    def test_reports_a_test_whose_name_begins_like_another_where_no_test_is_edited(self):
        before = {"tests/test_shop.py": python_tests("price", "price_of_a_gift"), "shop.py": "RATE = 1\n"}
        after = {"tests/test_shop.py": python_tests("price"), "shop.py": "RATE = 1\nLIMIT = 2\n"}
        assert len(self.deleted(before, after, title="refactor: name the limit")) == 1

    def test_accepts_tests_whose_removal_the_message_explains(self):
        before = {"tests/test_shop.py": python_tests("price", "refund")}
        change = change_between(before, {"tests/test_shop.py": python_tests("price")})
        said = replace(change, message="Pay at once\n\nRemove `test_refund`, the state cannot be reached.\n")
        unsaid = replace(change, message="Pay at once\n\nReplace mocks to avoid failures of tests.\n")
        assert [len(list(find_deleted_tests(each))) for each in (said, unsaid)] == [0, 1]

    def test_accepts_a_test_that_a_base_class_runs_now(self):
        base = "class Checks:\n    def test_price(self):\n        assert 1\n"
        own = "from checks import Checks\n\n\nclass TestShop({}):\n    def test_total(self):\n        assert 1\n"
        lost = "\n    def test_price(self):\n        assert 2\n"
        for bases, found in (("Checks", 0), ("TestCase", 1)):
            before = {"tests/checks.py": base, "tests/test_shop.py": own.format(bases) + lost}
            assert len(self.deleted(before, {**before, "tests/test_shop.py": own.format(bases)})) == found


class TestSkippedTests:
    @pytest.mark.parametrize(
        "mark",
        [
            "@pytest.mark.skip",
            '@pytest.mark.skip(reason="flaky")',
            "@pytest.mark.xfail",
            '@unittest.skip("later")',
        ],
    )
    def test_reports_a_python_test_that_ran_before(self, mark):
        assert [line for line, _ in skipped("tests/test_shop.py", PYTHON_TEST, f"{mark}\n{PYTHON_TEST}")] == [1]

    @pytest.mark.parametrize(
        ("path", "before", "after"),
        [
            ("a.test.js", "it('adds', () => {})\n", "it.skip('adds', () => {})\n"),
            ("a.spec.ts", "describe('shop', () => {})\n", "xdescribe('shop', () => {})\n"),
            (
                "a_test.go",
                "func TestA(t *testing.T) {\n\trun()\n}\n",
                'func TestA(t *testing.T) {\n\tt.Skip("later")\n\trun()\n}\n',
            ),
            ("ATest.java", "  @Test\n  void adds() {\n  }\n", "  @Disabled\n  @Test\n  void adds() {\n  }\n"),
            ("a_spec.rb", 'it "adds" do\nend\n', 'xit "adds" do\nend\n'),
            ("src/lib.rs", "#[test]\nfn adds() {\n}\n", "#[test]\n#[ignore]\nfn adds() {\n}\n"),
        ],
    )
    def test_reports_a_test_of_another_language_that_ran_before(self, path, before, after):
        assert len(skipped(path, before, after)) == 1

    @pytest.mark.parametrize(
        "mark",
        [
            '@pytest.mark.skipif(sys.platform == "win32", reason="no fork")',
            '@pytest.mark.xfail(sys.version_info < (3, 12), reason="slow")',
            '@unittest.skipUnless(has_ssl, "no ssl")',
            "@skip.unless_has_ssl()",
        ],
    )
    def test_accepts_a_skip_with_a_condition(self, mark):
        assert skipped("tests/test_shop.py", PYTHON_TEST, f"{mark}\n{PYTHON_TEST}") == []

    def test_accepts_a_new_test_that_is_skipped(self):
        after = f"{PYTHON_TEST}\n@pytest.mark.skip\ndef test_refund():\n    pass\n"
        assert skipped("tests/test_shop.py", PYTHON_TEST, after) == []

    def test_accepts_a_changed_reason(self):
        before = f'@pytest.mark.skip(reason="a")\n{PYTHON_TEST}'
        assert skipped("tests/test_shop.py", before, before.replace('"a"', '"b"')) == []

    def test_accepts_a_skip_under_a_condition_in_go(self):
        before = "func TestA(t *testing.T) {\n\trun()\n}\n"
        after = 'func TestA(t *testing.T) {\n\tif testing.Short() {\n\t\tt.Skip("slow")\n\t}\n\trun()\n}\n'
        assert skipped("a_test.go", before, after) == []


class TestLoneTests:
    @pytest.mark.parametrize(
        "line", ["it.only('adds', () => {})", "describe.only('shop', () => {})", "fit('adds', () => {})"]
    )
    def test_reports_a_test_that_keeps_the_others_from_running(self, line):
        assert [each.line for each in find_lone_tests(change_between({}, {"a.spec.ts": f"{line}\n"}))] == [1]

    @pytest.mark.parametrize(
        ("path", "line"),
        [
            ("a.spec.ts", "it('only adds', () => {})"),
            ("src/a.ts", "fit('x')"),
            ("a.spec.ts", "fit(model, data)"),
        ],
    )
    def test_accepts_other_calls(self, path, line):
        assert list(find_lone_tests(change_between({}, {path: f"{line}\n"}))) == []


CODE = "".join(f"def step_{number}():\n    return {number}\n" for number in range(25))


def without_test(before, after):
    return list(find_code_without_test(change_between(before, after)))


class TestCodeWithoutTest:
    def test_names_the_file_and_its_test(self):
        before = {"src/shop/cart.py": "x = 1\n", "tests/shop/test_cart.py": PYTHON_TEST}
        (finding,) = without_test(before, {**before, "src/shop/cart.py": CODE})
        assert (finding.file, finding.line) == ("src/shop/cart.py", 0)
        assert "50 lines" in finding.comment
        assert "`tests/shop/test_cart.py`" in finding.comment

    @pytest.mark.parametrize(
        ("path", "test"),
        [
            ("pkg/cart.go", "pkg/cart_test.go"),
            ("src/cart.ts", "src/cart.test.ts"),
            ("lib/cart.js", "test/lib/cart.spec.js"),
        ],
    )
    def test_knows_the_names_of_tests_in_other_languages(self, path, test):
        before = {path: "x\n", test: "y\n"}
        after = {**before, path: "".join(f"call{number}()\n" for number in range(50))}
        assert len(without_test(before, after)) == 1

    def test_makes_one_finding_for_several_files(self):
        before = {
            "a/cart.py": "\n",
            "a/cash.py": "\n",
            "tests/test_cart.py": "\n",
            "tests/test_cash.py": "\n",
        }
        (finding,) = without_test(before, {**before, "a/cart.py": CODE, "a/cash.py": CODE})
        assert "`a/cart.py` and `a/cash.py`" in finding.comment

    @pytest.mark.parametrize(
        "after",
        [
            {"src/cart.py": CODE, "tests/test_cart.py": "x = 2\n"},
            {"src/cart.py": CODE, "tests/test_other.py": "x = 2\n", "tests/test_cart.py": "\n"},
            {"src/cart.py": CODE[:150], "tests/test_cart.py": "\n"},
            {"src/cart.py": "".join(f"# comment {n}\n\n" for n in range(90)), "tests/test_cart.py": "\n"},
            {"src/cart.py": "\n", "scripts/cart.py": CODE, "tests/test_cart.py": "\n"},
        ],
        ids=["its test", "another test", "few lines", "comments", "a script"],
    )
    def test_accepts_changes_with_tests_small_changes_and_scripts(self, after):
        assert without_test({"src/cart.py": "\n", "tests/test_cart.py": "\n"}, after) == []

    def test_accepts_code_without_a_test_of_its_own(self):
        before = {"src/cart.py": "\n", "tests/test_other.py": "\n"}
        assert without_test(before, {**before, "src/cart.py": CODE}) == []

    def test_accepts_code_that_is_only_formatted(self):
        before = {"src/cart.py": CODE, "tests/test_cart.py": "\n"}
        assert without_test(before, {**before, "src/cart.py": CODE.replace("    ", "  ")}) == []


@pytest.mark.parametrize("title", ["Remove a flaky test", "test: move carts to node:test", 'Revert "Add carts"'])
def test_a_title_that_announces_the_loss_of_tests_makes_it_no_finding(title):
    before = {
        "cart.py": "x = 1\n",
        "tests/test_cart.py": "def test_total():\n    assert total([1]) == 1\n\n\ndef test_empty():\n    assert total([]) == 0\n",
    }
    after = {"cart.py": "x = 2\n", "tests/test_cart.py": "def test_total():\n    assert total([1]) == 1\n"}
    rules = [each.rule for each in check_change(change_between(before, after, title="Count carts")).findings]
    assert rules == ["test-deleted"]
    assert check_change(change_between(before, after, title=title)).findings == ()


def test_tests_that_became_subtests_are_not_deleted():
    before = {"a.test.js": "test('one', (t) => {})\ntest('two', (t) => {})\n", "a.js": "1\n"}
    after = {
        "a.test.js": "test('all', async (t) => {\n  await t.test('first', () => {})\n  await t.test('second', () => {})\n})\n",
        "a.js": "2\n",
    }
    assert check_change(change_between(before, after)).findings == ()


def test_a_test_that_an_option_skips_is_reported():
    before = "await test('wrong object', async (t) => {})\n"
    after = "await test('wrong object', { skip: 'later' }, async (t) => {})\n"
    change = change_between({"a.test.js": before}, {"a.test.js": after})
    assert [each.rule for each in check_change(change).findings] == ["test-skipped"]


GO_TEST = "package shop\n\nfunc TestPrice(t *testing.T) {\n\tcheck(t)\n}\n"


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        (
            "shop_test.go",
            GO_TEST,
            GO_TEST.replace("{\n", '{\n\tif settings == nil {\n\t\tt.Skip("no settings")\n\t}\n'),
        ),
        ("shop_test.go", GO_TEST, GO_TEST.replace("{\n", "{\n\tsetup()\n\tt.SkipNow()\n")),
        ("tests/test_a.py", "def test_a():\n    f()\n", "def test_a():\n    pytest.skip('later')\n    f()\n"),
        ("tests/test_a.py", "def test_a():\n    f()\n", "@mark.skip\ndef test_a():\n    f()\n"),
        ("a.test.ts", "it('adds prices', () => {\n  f();\n});\n", "it.todo('adds prices', () => {\n  f();\n});\n"),
        ("a_spec.rb", "it 'adds prices' do\n  f\nend\n", "it 'adds prices' do\n  skip 'later'\n  f\nend\n"),
    ],
)
def test_a_test_that_skips_itself_is_found(path, before, after):
    assert len(skipped(path, before, after)) == 1


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("shop_test.go", GO_TEST, GO_TEST.replace("{\n", "{\n\tif testing.Short() {\n\t\tt.Skip()\n\t}\n")),
        ("shop_test.go", GO_TEST, GO_TEST.replace("{\n", '{\n\tif runtime.GOOS == "windows" {\n\t\tt.Skip()\n\t}\n')),
        (
            "tests/test_a.py",
            "def test_a():\n    f()\n",
            "def test_a():\n    try:\n        import x\n    except ImportError:\n        pytest.skip('no x')\n    f()\n",
        ),
        ("tests/test_a.py", "@mark.xfail\ndef test_a():\n    f()\n", "@pytest.mark.xfail\ndef test_a():\n    f()\n"),
    ],
)
def test_a_test_that_still_runs_somewhere_is_not_reported(path, before, after):
    assert not skipped(path, before, after)


def test_all_deleted_tests_of_a_change_are_one_finding():
    before = {f"tests/test_{name}.py": python_tests("price", "refund") for name in "ab"}
    after = {f"tests/test_{name}.py": python_tests("price") for name in "ab"}
    (found,) = find_deleted_tests(change_between(before, after))
    assert "2 tests" in found.comment
    assert len(found.also) == 1


def test_a_module_of_tests_that_a_mark_skips_is_found():
    before = "import pytest\n\n\ndef test_a():\n    f()\n"
    assert (
        len(skipped("tests/test_a.py", before, before.replace("pytest\n", "pytest\n\npytestmark = pytest.mark.skip\n")))
        == 1
    )


def test_a_test_of_go_beside_one_with_the_beginning_of_its_name_is_reported():
    text = "package a\n\nfunc TestGet(t *testing.T) {\n\t// a comment\n\tget(1)\n}\n\n"
    both = "func TestDelete(t *testing.T) {\n\tremove(1)\n}\n\n"
    lost = "func TestDeleteIsolation(t *testing.T) {\n\tremove(1)\n\tget(2)\n}\n"
    before = {"a.go": "package a\n\nvar x = 1\n", "a_test.go": text + both + lost}
    after = {"a.go": "package a\n\nvar x = 2\n", "a_test.go": text.replace("a comment", "the comment") + both}
    assert [each.rule for each in check_change(change_between(before, after)).findings] == ["test-deleted"]
    merged = after | {"a_test.go": text + both.replace("remove(1)", "remove(1)\n\tremove(2)")}
    assert check_change(change_between(before, merged)).findings == ()
