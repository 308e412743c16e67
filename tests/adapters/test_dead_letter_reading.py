"""Dead letters one by one, their groups, their figures and campaigns, on both dialects."""

import random
from collections import Counter

import pytest

from reprieve.adapters.sql.dead_letters.reading import SqlDeadLetterReader
from reprieve.core.canary import CampaignState, MemberState
from reprieve.core.lifecycle import DEAD, JobStatus, LetterState
from reprieve.ports.dead_letters import GroupFilter, HistoryEntry, Verification

NOW = 1_700_000_000.0
HOUR = 3600
DAY = 24 * HOUR
O_CLOCK = 472_222 * HOUR  # on the hour, a little before NOW
MICROSECOND = 0.000001


@pytest.fixture
def reader(rows):
    found = SqlDeadLetterReader(rows.url)
    yield found
    found.close()


# --- one


def test_a_dead_letter_is_told_with_its_history_and_its_job(reader, rows):
    rows.ended(7, "dead_letter", stage="notify")
    rows.checkpoint(7, "llm", finished_at=NOW + 2)
    rows.checkpoint(7, "fetch", finished_at=NOW + 1)
    letter_id = rows.letter(7, "triaged", message="denied", last_stack="Traceback: x", sanitized_context='{"a": 1}')
    rows.entry(letter_id, "triage", "open", "triaged", at=NOW + 9, note="the key has expired", detail='{"b": 2}')
    rows.entry(letter_id, "note", "triaged", "triaged", at=NOW + 8, actor="eve")
    rows.entry(letter_id + 1, "note", "open", "open")
    letter = reader.letter(letter_id)
    assert (letter.row.letter_id, letter.row.job_id, letter.row.state) == (letter_id, 7, LetterState.TRIAGED)
    assert (letter.message, letter.last_stack, letter.sanitized_context) == ("denied", "Traceback: x", '{"a": 1}')
    assert (letter.reason, letter.policy, letter.summary) == ("non_retryable", "criticizer", None)
    assert letter.history == [
        HistoryEntry(at=NOW + 9, actor="ada", event="triage", before=LetterState.OPEN, after=LetterState.TRIAGED,
                     note="the key has expired", detail='{"b": 2}'),
        HistoryEntry(at=NOW + 8, actor="eve", event="note", before=LetterState.TRIAGED, after=LetterState.TRIAGED,
                     note="", detail="{}"),
    ]  # fmt: skip
    assert (letter.job_status, letter.payload_kept) == (JobStatus.DEAD_LETTER, True)
    assert list(letter.finished_stages) == ["fetch", "llm"]


def test_a_dead_letter_whose_payload_was_erased_says_so(reader, rows):
    rows.ended(7, "dead_letter", job={"payload": None})
    assert not reader.letter(rows.letter(7)).payload_kept


def test_a_pruned_dead_letter_is_told_by_its_summary(reader, rows):
    letter_id = rows.letter(7, "resolved", summary='{"cause": "data"}')
    rows.sql("DELETE FROM dead_letter_texts")
    letter = reader.letter(letter_id)
    assert letter.summary == '{"cause": "data"}'
    assert letter.message == letter.last_stack == letter.sanitized_context == letter.reason == letter.policy == ""
    assert (letter.job_status, letter.payload_kept) == (None, False)
    assert letter.history == letter.finished_stages == []


def test_the_dead_letter_of_a_job_is_found(reader, rows):
    rows.letter(1)
    letter_id = rows.letter(2)
    assert reader.letter_of(2) == letter_id
    assert reader.letter_of(3) is None
    assert reader.letter(letter_id + 1) is None


@pytest.mark.parametrize(
    ("status", "passed"), [("succeeded", True), ("dead_letter", False), ("skipped", False), ("cancelled", False)]
)
def test_a_replay_is_verified_by_how_its_job_ended(reader, rows, status, passed):
    rows.ended(1, status)
    letter_id = rows.letter(1, "replayed")
    assert reader.verification(letter_id) == Verification(job_status=JobStatus(status), undelivered=0)
    assert reader.verification(letter_id).passed is passed


def test_a_replay_whose_job_stands_in_the_queue_or_is_gone_has_not_passed(reader, rows):
    rows.queued(1)
    running, gone = rows.letter(1, "replaying"), rows.letter(2, "replaying")
    assert reader.verification(running).job_status is JobStatus.PENDING
    assert not reader.verification(running).passed
    assert reader.verification(gone) == reader.verification(99) == Verification(job_status=None)
    assert not reader.verification(gone).passed


# --- groups


def drawn(source, job_id):
    state = source.choice(list(LetterState))
    kind = min(source.randrange(9), source.randrange(9))
    return {
        "job_id": job_id,
        "state": state.value,
        "pipeline": source.choice(("review", "mail")),
        "stage": ("fetch", "llm", "notify")[kind % 3],
        "error_class": ("AUTH_DENIED", "NETWORK_TIMEOUT")[kind % 2],
        "category": ("auth", "network")[kind % 2],
        "fingerprint": f"v1:{kind}",
        "signature": f"signature {job_id}",
        "first_failure_at": NOW - 3 * DAY,
        "last_failure_at": NOW - source.randrange(30 * HOUR),
        "closed_at": NOW if state.closed else None,
    }


@pytest.fixture
def model(rows):
    source = random.Random(7)
    values = [drawn(source, job_id) for job_id in range(1, 201)]
    return dict(zip(rows.deaths(values), values, strict=True))


def of_kind(wanted, values):
    return all(
        getattr(wanted, name) in (None, values[name]) for name in ("pipeline", "stage", "error_class", "category")
    )


def groups_of(model, wanted):
    """By fingerprint: the members of the kinds that are wanted, those of a wanted state among them."""
    found = {}
    for letter_id, values in model.items():
        if of_kind(wanted, values):
            members = found.setdefault(values["fingerprint"], [])
            members.append((values["last_failure_at"], letter_id, values))
    wanted_states = wanted.states or set(LetterState)
    counts = {key: sum(each[2]["state"] in wanted_states for each in members) for key, members in found.items()}
    return {
        key: (counts[key], sorted(members, key=lambda each: each[:2])) for key, members in found.items() if counts[key]
    }


GROUP_FILTERS = [
    {},
    {"by_count": False},
    {"states": frozenset({LetterState.OPEN, LetterState.ESCALATED})},
    {"states": frozenset({LetterState.REPLAYING}), "by_count": False},
    {"pipeline": "mail"},
    {"stage": "llm"},
    {"error_class": "AUTH_DENIED", "pipeline": "review"},
    {"category": "network", "states": frozenset({LetterState.RESOLVED})},
]


def test_groups_are_what_their_members_say(reader, model):
    for given in GROUP_FILTERS:
        wanted = GroupFilter(**given)
        expected = groups_of(model, wanted)
        found = reader.groups(wanted, now=NOW)
        assert {group.fingerprint for group in found} == set(expected), given
        for group in found:
            count, members = expected[group.fingerprint]
            values = [each[2] for each in members]
            assert group.count == count
            assert group.by_state == {state: sum(each["state"] == state for each in values) for state in LetterState}
            assert (group.first_seen, group.last_seen) == (members[0][0], members[-1][0])
            assert group.sample_id == members[-1][1]
            assert group.pipelines == sorted({each["pipeline"] for each in values})
            assert group.stages == sorted({each["stage"] for each in values})
            assert (group.error_class, group.category) == (values[0]["error_class"], values[0]["category"])
            assert group.trend == naive_trend(values)


def naive_trend(values):
    deaths = Counter(int(each["last_failure_at"] // HOUR) for each in values)
    return [deaths[int(NOW // HOUR) - ago] for ago in range(23, -1, -1)]


def test_the_largest_groups_come_first_or_those_that_were_seen_last(reader, model):
    largest = reader.groups(GroupFilter(), now=NOW)
    assert [group.count for group in largest] == sorted((group.count for group in largest), reverse=True)
    latest = reader.groups(GroupFilter(by_count=False), now=NOW)
    assert [group.last_seen for group in latest] == sorted((group.last_seen for group in latest), reverse=True)
    assert {group.fingerprint for group in latest} == {group.fingerprint for group in largest}


@pytest.mark.parametrize("by_count", [True, False])
def test_groups_come_in_pages(reader, model, by_count):
    whole = reader.groups(GroupFilter(by_count=by_count), now=NOW)
    pages = [reader.groups(GroupFilter(by_count=by_count, offset=start, limit=2), now=NOW) for start in range(0, 12, 2)]
    assert [group for page in pages for group in page] == whole


def test_a_groups_signature_is_that_of_its_sample(reader, rows):
    rows.letter(1, pipeline="mail", signature="later", last_failure_at=NOW + 5, fingerprint="v1:a")
    rows.letter(2, pipeline="review", signature="first", last_failure_at=NOW + 1, fingerprint="v1:a")
    group = reader.group("v1:a", now=NOW)
    assert group.signature == reader.letter(group.sample_id).row.signature == "later"


def test_one_group_counts_all_of_its_members(reader, model):
    for fingerprint, (count, members) in groups_of(model, GroupFilter()).items():
        group = reader.group(fingerprint, now=NOW)
        assert (group.count, group.sample_id) == (count, members[-1][1])
    assert reader.group("v1:none", now=NOW) is None


def test_a_group_that_all_members_have_left_is_no_group(reader, rows):
    rows.letter(1, fingerprint="v1:a")
    rows.sql("DELETE FROM dead_letters")
    rows.sql("UPDATE dead_letter_counts SET letters = 0")
    assert reader.group("v1:a", now=NOW) is None
    assert reader.groups(GroupFilter(), now=NOW) == []


def test_a_group_whose_last_member_has_left_a_state_is_not_told_for_it(reader, rows):
    rows.letter(1, "resolved")
    rows.sql("INSERT INTO dead_letter_counts (group_id, state, letters) SELECT id, 'open', 0 FROM dead_letter_groups")
    assert reader.groups(GroupFilter(states=frozenset({LetterState.OPEN})), now=NOW) == []
    assert len(reader.groups(GroupFilter(states=frozenset({LetterState.RESOLVED})), now=NOW)) == 1


def test_fingerprints_are_found_by_how_they_begin(reader, rows):
    for job_id, fingerprint in enumerate(("v1:ab", "v1:abc", "v1:AB", "v1:b", "v1:a%"), 1):
        rows.letter(job_id, fingerprint=fingerprint)
    rows.letter(9, fingerprint="v1:ab", pipeline="mail")
    assert reader.fingerprints("v1:ab", limit=9) == ["v1:ab", "v1:abc"]
    assert reader.fingerprints("v1:a%", limit=9) == ["v1:a%"]
    assert len(reader.fingerprints("", limit=9)) == 5
    assert reader.fingerprints("v1:", limit=2) == sorted(reader.fingerprints("v1:", limit=9))[:2]
    assert reader.fingerprints("v2:", limit=9) == []


# --- figures


def stats(reader, *, now=NOW, window=DAY, **values):
    return reader.stats(now=now, window=window, **values)


@pytest.mark.spec("ING-7.1")
def test_the_queues_size_is_how_many_wait_for_somebody(reader, rows):
    states = [*list(LetterState), LetterState.OPEN, LetterState.ESCALATED]
    rows.letters({"job_id": number, "state": state.value} for number, state in enumerate(states, 1))
    found = stats(reader)
    assert found.size == 7
    assert found.by_state == {**dict.fromkeys(LetterState, 1), LetterState.OPEN: 2, LetterState.ESCALATED: 2}
    assert found.size == sum(found.by_state[state] for state in DEAD)


@pytest.mark.spec("ING-7.1")
def test_the_inflow_of_the_last_hour_is_exact_at_both_ends(reader, rows):
    died = [NOW - HOUR, NOW - HOUR + MICROSECOND, NOW - 1800, NOW, NOW + MICROSECOND]
    rows.deaths(
        {"job_id": number, "state": state, "first_failure_at": NOW - DAY, "last_failure_at": at}
        for number, (at, state) in enumerate(zip(died, ("open", "open", "replaying", "escalated", "open"), strict=True))
    )
    assert stats(reader).inflow_last_hour == 3
    assert stats(reader, now=NOW + MICROSECOND).inflow_last_hour == 3  # one has left, one has come


@pytest.mark.spec("ING-7.1")
@pytest.mark.parametrize("window", [HOUR / 2, HOUR, 90 * 60, DAY, 2 * DAY])
@pytest.mark.parametrize("now", [float(O_CLOCK), O_CLOCK + 1234.5])
def test_the_inflow_per_hour_is_exact_at_both_ends(reader, rows, now, window):
    within = [now, now - 1, now - window / 2, now - window + MICROSECOND * 4, O_CLOCK - HOUR, O_CLOCK - 2 * HOUR]
    without = [now - window, now + MICROSECOND * 4, now - window - 1, now + HOUR]
    within = [at for at in within if now - window < at <= now]
    rows.deaths(
        {"job_id": number, "state": "open", "first_failure_at": NOW - 9 * DAY, "last_failure_at": at}
        for number, at in enumerate(within + without)
    )
    found = stats(reader, now=now, window=window)
    assert found.inflow_per_hour == pytest.approx(len(within) / (window / HOUR))


@pytest.mark.spec("ING-7.1")
def test_the_terminal_error_rate_is_the_share_of_failed_attempts_in_the_window(reader, rows):
    assert stats(reader).terminal_error_rate is None
    kinds = {"terminal": ["terminal", "terminal"], "retryable": ["retryable"], "rate_limit": ["rate_limit"] * 2}
    for number, error_type in enumerate(each for several in kinds.values() for each in several):
        rows.attempt(number, error_type=error_type, ended_at=NOW - number)
    rows.attempt(90, error_type="terminal", ended_at=NOW - DAY + MICROSECOND)
    rows.attempt(91, error_type="terminal", ended_at=NOW - DAY)
    rows.attempt(92, error_type="terminal", ended_at=NOW + MICROSECOND)
    found = stats(reader)
    assert (found.errors, found.terminal_error_rate) == (6, 3 / 6)


@pytest.mark.spec("ING-7.1")
def test_the_retry_success_rate_is_the_share_of_later_attempts_that_succeeded(reader, rows):
    assert stats(reader).retry_success_rate is None
    rows.attempt(1, number=1, ended_at=NOW)
    rows.attempt(1, number=2, ended_at=NOW)
    rows.attempt(1, number=3, ended_at=NOW - DAY + MICROSECOND)
    rows.attempt(1, number=4, ended_at=NOW - DAY)
    rows.ended(2, attempt=2, finished_at=NOW)
    rows.ended(3, attempt=1, finished_at=NOW)
    rows.ended(4, "dead_letter", attempt=5, finished_at=NOW)
    rows.ended(5, attempt=3, finished_at=NOW - DAY)
    rows.checkpoint(6, "fetch", attempt=2, finished_at=NOW - DAY + MICROSECOND)
    rows.checkpoint(6, "llm", attempt=4, finished_at=NOW)
    rows.checkpoint(6, "notify", attempt=1, finished_at=NOW)
    rows.checkpoint(7, "fetch", attempt=2, finished_at=NOW - DAY)
    rows.checkpoint(8, "fetch", attempt=2, finished_at=NOW + MICROSECOND)
    found = stats(reader)
    assert (found.retries, found.retry_success_rate) == (5, 3 / 5)


def test_the_oldest_is_the_one_that_has_waited_longest_and_still_does(reader, rows):
    assert stats(reader).oldest_at is None
    rows.letters(
        {"job_id": number, "state": state, "first_failure_at": NOW - DAY, "last_failure_at": NOW - 10 + number}
        for number, state in enumerate(("resolved", "discarded", "replaying", "replayed", "approved", "open"), 1)
    )
    assert stats(reader).oldest_at == NOW - 5


def test_the_time_to_resolution_is_the_median_from_the_first_death_to_the_end(reader, rows):
    assert (stats(reader).resolved, stats(reader).median_resolution) == (0, None)
    closed = [(NOW, 100), (NOW - 5, 10), (NOW - DAY + MICROSECOND, 1000), (NOW - DAY, 7), (NOW + MICROSECOND, 8)]
    rows.letters(
        {"job_id": number, "state": "resolved", "opened_at": at - took, "closed_at": at}
        for number, (at, took) in enumerate(closed)
    )
    rows.letter(90, "discarded", opened_at=NOW - 3, closed_at=NOW - 1)
    found = stats(reader)
    assert found.resolved == 3
    assert found.median_resolution == pytest.approx(100, abs=0.001)


def test_the_figures_on_letters_can_be_of_one_pipeline(reader, model):
    whole, parts = stats(reader), [stats(reader, pipeline=each) for each in ("review", "mail")]
    for name in ("size", "inflow_last_hour", "resolved"):
        assert getattr(whole, name) == sum(getattr(each, name) for each in parts)
    assert whole.inflow_per_hour == pytest.approx(sum(each.inflow_per_hour for each in parts))
    assert whole.trend == [sum(each) for each in zip(*(part.trend for part in parts), strict=True)]
    assert whole.by_state == {state: sum(each.by_state[state] for each in parts) for state in LetterState}
    assert whole.oldest_at == min(each.oldest_at for each in parts)
    assert parts[0].size != parts[1].size
    died = [each["last_failure_at"] for each in model.values()]
    assert {each.errors for each in (whole, *parts)} == {sum(NOW - DAY < at <= NOW for at in died)}
    assert stats(reader, pipeline="none").size == 0


def test_the_figures_are_what_the_rows_say(reader, model):
    for window in (HOUR, 5 * HOUR, DAY, 7 * DAY):
        found = stats(reader, window=window)
        values = list(model.values())
        died = [each["last_failure_at"] for each in values]
        assert found.inflow_last_hour == sum(NOW - HOUR < at <= NOW for at in died)
        assert found.inflow_per_hour == pytest.approx(sum(NOW - window < at <= NOW for at in died) / (window / HOUR))
        assert found.trend == naive_trend(values)
        assert found.oldest_at == min(each["last_failure_at"] for each in values if LetterState(each["state"]).dead)
        assert found.resolved == sum(each["state"] == "resolved" for each in values)
        assert found.window == window


# --- campaigns


def campaign(rows, number, state="running", **values):
    defaults = {
        "id": number, "state": state, "selection": '{"fingerprint": "v1:a"}', "fingerprint": "v1:a", "created_by": "ada",
        "created_at": NOW, "changed_by": "eve", "changed_at": NOW + 1, "reason": "why", "steps": "[]", "waves": "[1, 2, 5]",
        "rate": 2.5, "restart": False, "wave": 1, "launched": 2, "wave_at": NOW + 2,
    }  # fmt: skip
    rows.add("campaigns", **(defaults | values))


def members(rows, number, *told):
    for place, (state, wave) in enumerate(told):
        rows.add("campaign_members", campaign_id=number, letter_id=place, place=place, state=state, wave=wave)
    for (state, wave), count in Counter(told).items():
        rows.add("campaign_counts", campaign_id=number, wave=-1 if wave is None else wave, state=state, members=count)


def test_a_campaign_is_told_with_what_became_of_its_members(reader, rows):
    campaign(rows, 1)
    members(rows, 1, ("confirmed", 0), ("replaying", 1), ("returned", 1), ("waiting", None), ("waiting", None))
    campaign(rows, 2, fingerprint="v1:b")
    members(rows, 2, ("failed", 1))
    found = reader.campaign(1)
    assert (found.campaign_id, found.state, found.fingerprint) == (1, CampaignState.RUNNING, "v1:a")
    assert (found.created_by, found.created_at, found.changed_by, found.changed_at) == ("ada", NOW, "eve", NOW + 1)
    assert (found.reason, found.waves, found.wave, found.launched) == ("why", (1, 2, 5), 1, 2)
    assert (found.wave_at, found.rate, found.selection) == (NOW + 2, 2.5, '{"fingerprint": "v1:a"}')
    none = dict.fromkeys(MemberState, 0)
    assert found.members == none | {
        MemberState.CONFIRMED: 1, MemberState.REPLAYING: 1, MemberState.RETURNED: 1, MemberState.WAITING: 2,
    }  # fmt: skip
    assert found.in_wave == none | {MemberState.REPLAYING: 1, MemberState.RETURNED: 1}


def test_campaigns_come_the_newest_first_and_by_state(reader, rows):
    for number, state in enumerate(("done", "running", "paused", "running"), 1):
        campaign(rows, number, state, fingerprint=f"v1:{number}")
    assert [each.campaign_id for each in reader.campaigns()] == [4, 3, 2, 1]
    running = reader.campaigns(states=frozenset({CampaignState.RUNNING}))
    assert [each.campaign_id for each in running] == [4, 2]
    assert sum(running[0].members.values()) == 0
    either = frozenset({CampaignState.DONE, CampaignState.PAUSED})
    assert [each.campaign_id for each in reader.campaigns(states=either, limit=1)] == [3]
    assert reader.campaign(9) is None
