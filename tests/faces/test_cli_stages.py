"""`reprieve stages`."""


def test_stages_are_listed_with_what_stands_at_each(worked):
    done = worked("stages", "list")
    assert done.code == 0
    (fetch,) = [line for line in done.out.splitlines() if "fetch" in line]
    assert fetch.split() == ["review", "fetch", "open", "1"]
    fetch, llm = worked("stages", "list", "-p", "review", "--json").json
    assert (fetch["stage"], fetch["scheduled"], llm["stage"], llm["waiting"]) == ("fetch", 1, "llm", 1)


def test_before_anybody_was_there_no_stage_is_known(command):
    command("db", "upgrade")
    done = command("stages", "list")
    assert (done.code, done.out) == (0, "no stages: no worker has been here yet, and no job\n")


def test_a_stage_is_paused_and_resumed(worked):
    pause = ("stages", "pause", "review", "llm", "--actor", "ada", "--reason", "the provider is down")
    assert worked(*pause).out == "review.llm paused\n"
    assert worked(*pause).out == "nothing to do: it was paused before\n"
    shown = worked("stages", "list").out
    assert "paused by ada" in shown
    assert "the provider is down" in shown
    assert worked("stages", "resume", "review").out == "review.llm resumed\n"
    assert worked("stages", "resume", "review").out == "nothing to do: it was neither paused nor held\n"
    assert "paused" not in worked("stages", "list").out


def test_a_whole_pipeline_is_paused(worked):
    assert worked("stages", "pause", "review").out == "review.fetch paused\nreview.llm paused\n"


def test_names_that_are_misspelt_end_with_one_and_the_nearest(worked):
    for arguments, near in ((["revew"], "review"), (["review", "lm"], "llm")):
        for verb in ("pause", "resume"):
            done = worked("stages", verb, *arguments)
            assert done.code == 1
            assert f"did you mean '{near}'" in done.err


def test_a_stage_that_no_worker_has_run_is_paused_by_its_declaration(command, monkeypatch):
    command("db", "upgrade")
    done = command("stages", "pause", "review", "lm")
    assert done.code == 1
    assert "did you mean 'llm'" in done.err
    assert command("stages", "pause", "review", "llm").out == "review.llm paused\n"
    monkeypatch.delenv("REPRIEVE_APP")
    done = command("stages", "pause", "other", "llm")
    assert done.code == 1
    assert "stages are known once a worker has run, or by --app" in done.err
