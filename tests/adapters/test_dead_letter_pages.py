"""Pages of dead letters on both dialects, beside what plain Python makes of the same rows."""

import itertools
import random
from dataclasses import replace

import pytest
from sqlalchemy import event, func, select

from reprieve.adapters.sql.dead_letters import pages
from reprieve.adapters.sql.dead_letters.reading import SqlDeadLetterReader
from reprieve.adapters.sql.tables import dead_letters
from reprieve.core.lifecycle import LetterState
from reprieve.errors import StoreRefusedError, UsageError
from reprieve.ports.dead_letters import LetterFilter, Sort

NOW = 1_700_000_000.0
LETTERS = 300
KINDS = ("pipeline", "stage", "error_class", "category", "fingerprint")
MESSAGES = (
    "Connection Reset by peer",
    "quota 100% used",
    "quota 100 times used",
    "no column under_score",
    "no column underXscore",
    r"C:\temp is full",
    "Ошибка сервера",
    "ÜBER die Grenze",
)
TEXTS = (
    "connection reset",
    "RESET",
    "100%",
    "under_score",
    "C:\\TEMP",
    "Ошибка сервера".upper(),
    "über",
    "frame 7\n",
    "nowhere",
)


def drawn(source, job_id):
    """The values of one dead letter; many die at the same time, and groups are of very different sizes."""
    state = source.choice(list(LetterState))
    kind = min(source.randrange(12), source.randrange(12))
    died = NOW + source.randrange(60) * 100
    return {
        "job_id": job_id,
        "state": state.value,
        "pipeline": source.choice(("review", "mail")),
        "stage": ("fetch", "llm", "notify")[kind % 3],
        "error_class": ("AUTH_DENIED", "NETWORK_TIMEOUT", "UPSTREAM_5XX", "OVERLOADED")[kind % 4],
        "category": ("auth", "network", "upstream", "upstream")[kind % 4],
        "fingerprint": f"v1:{kind}",
        "message": source.choice(MESSAGES),
        "last_stack": f"Traceback\n frame {source.randrange(9)}\n",
        "sanitized_context": f'{{"request": "R-{job_id}"}}',
        "first_failure_at": died - 50,
        "last_failure_at": died,
        "opened_at": died,
        "closed_at": died + 10 if state.closed else None,
    }


@pytest.fixture
def reader(rows):
    found = SqlDeadLetterReader(rows.url)
    yield found
    found.close()


@pytest.fixture
def model(rows):
    """Some hundred dead letters: their values by id."""
    source = random.Random(7)
    values = [drawn(source, job_id) for job_id in range(1, LETTERS + 1)]
    return dict(zip(rows.letters(values), values, strict=True))


@pytest.fixture(params=["as it is", "with small bounds"])
def bounds(request, monkeypatch):
    """Bounds that some hundred rows do not reach are tried too: looks ahead, windows of a search."""
    if request.param == "with small bounds":
        for name, size in {"_MANY": 3, "_LOOK": 2, "_FIRST_WINDOW": 3, "_WINDOW": 20}.items():
            monkeypatch.setattr(pages, name, size)


def fits(wanted, values):
    texts = "\n".join(values[name] for name in ("message", "last_stack", "sanitized_context"))
    return (
        (not wanted.states or values["state"] in wanted.states)
        and all(getattr(wanted, name) in (None, values[name]) for name in KINDS)
        and (wanted.text is None or wanted.text.casefold() in texts.casefold())
        and (wanted.since is None or values["last_failure_at"] >= wanted.since)
        and (wanted.before is None or values["last_failure_at"] < wanted.before)
    )


def expected(wanted, model):
    """The ids of all that fit, in order."""
    found = [(values["last_failure_at"], letter_id) for letter_id, values in model.items() if fits(wanted, values)]
    return [letter_id for _, letter_id in sorted(found, reverse=wanted.sort is Sort.NEWEST)]


def all_pages(reader, wanted, between=lambda: None):
    """Page by page, each full but for the last."""
    while page := reader.letters(wanted):
        yield page
        if len(page) < wanted.limit:
            return
        wanted = replace(wanted, after=page[-1].cursor)
        between()


def ids(found):
    return [row.letter_id for row in itertools.chain.from_iterable(found)]


def any_filter(source, model):
    some = source.choice(list(model.values()))
    several = frozenset(source.sample(list(LetterState), source.randrange(1, 4)))
    times = sorted(NOW + source.randrange(60) * 100 for _ in range(2))
    return LetterFilter(
        states=source.choice([frozenset(), several]),
        **{name: source.choice([None, None, some[name]]) for name in KINDS},
        text=source.choice([None, None, *TEXTS]),
        since=source.choice([None, times[0]]),
        before=source.choice([None, times[1]]),
        sort=source.choice(list(Sort)),
        limit=source.choice([1, 7, 50, 1000]),
    )


def test_any_filter_finds_what_fits_and_each_once_over_all_pages(reader, model, bounds):
    source = random.Random(11)
    for _ in range(60):
        wanted = any_filter(source, model)
        wanted = replace(wanted, limit=max(wanted.limit, len(expected(wanted, model)) // 9))
        assert ids(all_pages(reader, wanted)) == expected(wanted, model), wanted


def test_each_filter_alone_is_kept_in_both_orders(reader, model, bounds):
    some = model[min(model)]
    alone = {name: some[name] for name in KINDS}
    alone |= {
        "states": frozenset({LetterState(some["state"])}),
        "since": NOW + 2000,
        "before": NOW + 2000,
        "text": "reset",
    }
    for (name, value), sort in itertools.product(alone.items(), Sort):
        wanted = LetterFilter(sort=sort, limit=20, **{name: value})
        found = expected(wanted, model)
        assert 0 < len(found) < LETTERS
        assert ids(all_pages(reader, wanted)) == found, wanted


@pytest.mark.parametrize("kinds", [{}, {"stage": "llm"}])
def test_each_text_is_found_whatever_its_case_and_nothing_that_only_looks_like_it(reader, model, bounds, kinds):
    for text in TEXTS:
        wanted = LetterFilter(text=text, limit=50, **kinds)
        assert bool(expected(wanted, model)) is (text != "nowhere")
        assert ids(all_pages(reader, wanted)) == expected(wanted, model), text


def test_a_row_tells_all_there_is_to_tell(reader, rows):
    letter_id = rows.letter(7, "replaying", status_code=403, pages=True, escalated=True, cause="data", replays=2,
                            campaign_id=5, attempts=3, budget=4, first_failure_at=NOW, last_failure_at=NOW + 0.123456,
                            opened_at=NOW + 9)  # fmt: skip
    (row,) = reader.letters(LetterFilter())
    assert (row.letter_id, row.job_id, row.state) == (letter_id, 7, LetterState.REPLAYING)
    assert (row.pipeline, row.stage, row.error_class, row.category) == ("review", "notify", "AUTH_DENIED", "auth")
    assert (row.fingerprint, row.signature, row.status_code) == ("v1:2", "denied", 403)
    assert (row.attempts, row.budget, row.pages, row.escalated, row.cause) == (3, 4, True, True, "data")
    assert (row.replays, row.campaign_id) == (2, 5)
    assert (row.first_failure_at, row.last_failure_at) == (NOW, NOW + 0.123456)
    assert (row.opened_at, row.closed_at) == (NOW + 9, None)


@pytest.mark.parametrize("wanted", [{}, {"category": "auth"}, {"text": "denied"}])
def test_the_newest_first_shows_each_once_while_new_ones_arrive(reader, rows, bounds, wanted):
    there = rows.letters(
        {"job_id": number, "state": "open", "last_failure_at": NOW + number // 3} for number in range(1, 40)
    )
    numbers = itertools.count(1000)
    found = ids(
        all_pages(
            reader,
            LetterFilter(limit=4, **wanted),
            lambda: rows.letter(next(numbers), last_failure_at=NOW + 5000),
        )
    )
    assert found == there[::-1]


@pytest.mark.parametrize("wanted", [{}, {"category": "auth"}, {"text": "denied"}])
def test_the_oldest_first_shows_each_once_while_new_ones_arrive(reader, rows, bounds, wanted):
    there = rows.letters(
        {"job_id": number, "state": "open", "last_failure_at": NOW + number // 3} for number in range(1, 40)
    )
    arrived = []

    def arrive():
        if len(arrived) < 5:
            arrived.append(rows.letter(1000 + len(arrived), last_failure_at=NOW + 5000))

    found = ids(all_pages(reader, LetterFilter(limit=4, sort=Sort.OLDEST, **wanted), arrive))
    assert found == [*there, *arrived]


def test_many_groups_that_begin_at_the_same_time_are_told_apart_by_their_ids(reader, rows, bounds):
    there = rows.letters(
        {"job_id": number, "state": "open", "fingerprint": f"v1:{number % 20}", "last_failure_at": NOW + 5}
        for number in range(1, 61)
    )
    for sort in Sort:
        wanted = LetterFilter(pipeline="review", limit=7, sort=sort)
        assert ids(all_pages(reader, wanted)) == (there[::-1] if sort is Sort.NEWEST else there)


def test_a_group_whose_letters_are_all_in_other_states_costs_no_row(reader, rows):
    rows.letter(1, "open")
    rows.sql(
        "INSERT INTO dead_letter_counts (group_id, state, letters) SELECT id, 'resolved', 0 FROM dead_letter_groups"
    )
    assert reader.letters(LetterFilter(states=frozenset({LetterState.RESOLVED}), error_class="AUTH_DENIED")) == []


def test_a_bound_of_time_holds_to_the_microsecond(reader, rows):
    died = NOW + 0.000002
    letter_id = rows.letter(1, last_failure_at=died)
    assert ids([reader.letters(LetterFilter(since=died))]) == [letter_id]
    assert reader.letters(LetterFilter(since=died + 0.000001)) == []
    assert reader.letters(LetterFilter(before=died)) == []
    assert ids([reader.letters(LetterFilter(before=died + 0.000001))]) == [letter_id]


def test_a_cursor_of_another_time_does_not_lead_out_of_the_bounds(reader, rows):
    early, late = rows.letters(
        {"job_id": number, "state": "open", "last_failure_at": NOW + number} for number in (1, 5)
    )
    past_the_end, before_the_start = f"{NOW + 9}:1", f"{NOW}:1"
    assert ids([reader.letters(LetterFilter(before=NOW + 5, after=past_the_end))]) == [early]
    assert ids([reader.letters(LetterFilter(since=NOW + 2, after=before_the_start, sort=Sort.OLDEST))]) == [late]


@pytest.mark.parametrize(
    "after", ["", "7", "x:1", f"{NOW}:x", "nan:1", "inf:1", "1e300:1", f"{NOW}:{2**63}", f"{NOW}:-1"]
)
def test_what_is_no_cursor_is_refused(reader, after):
    with pytest.raises(UsageError, match="cursor of the last row"):
        reader.letters(LetterFilter(after=after))


@pytest.mark.parametrize("wanted", [{"pipeline": "a\0b"}, {"fingerprint": "\udcff"}, {"text": "a\0b"}])
def test_values_that_databases_do_not_take_find_nothing_or_are_refused(reader, rows, wanted):
    rows.letter(1)
    try:
        assert reader.letters(LetterFilter(**wanted)) == []
    except (UsageError, StoreRefusedError) as error:
        assert "Traceback" not in str(error)


def test_pruned_texts_are_not_found_and_do_not_hide_others(reader, rows):
    kept, pruned = rows.letters({"job_id": number, "state": "resolved", "message": "needle"} for number in (1, 2))
    rows.sql(f"DELETE FROM dead_letter_texts WHERE letter_id = {pruned}")
    assert ids([reader.letters(LetterFilter(text="NEEDLE"))]) == [kept]
    assert ids([reader.letters(LetterFilter(text="NEEDLE", stage="notify"))]) == [kept]


def test_a_look_up_is_of_one_moment(reader, rows):
    rows.letter(1)
    with reader._database.transaction() as connection:
        counting = select(func.count()).select_from(dead_letters)
        assert connection.scalar(counting) == 1
        rows.letter(2)
        assert connection.scalar(counting) == 1
    assert len(reader.letters(LetterFilter())) == 2


@pytest.mark.parametrize("rows", ["sqlite"], indirect=True)  # PostgreSQL rightly reads small tables whole
def test_no_page_reads_all_letters(model, reader, bounds):
    asked = []
    event.listen(reader._database.engine, "before_cursor_execute", lambda *given: asked.append(given[2:4]))
    for wanted in ({}, {"pipeline": "review"}, {"text": "reset"}, {"text": "reset", "stage": "llm"}):
        reader.letters(LetterFilter(limit=5, **wanted))
    plans = []
    with reader._database.transaction() as connection:
        for statement, parameters in [each for each in asked if each[0].startswith(("SELECT", "WITH"))]:
            plans += [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]
    assert any("dead_letters" in plan for plan in plans)
    assert not [plan for plan in plans if "SCAN dead_letters" in plan or "SCAN dead_letter_texts" in plan]
