"""The counters of the OOM killer, in the words of real kernels."""

from pathlib import Path, PurePosixPath

import pytest

from reprieve.processes.oom import OomWatch, counter_files, oom_kills

EVENTS = "low 0\nhigh 0\nmax 2131\noom 17\noom_kill 5\noom_group_kill 1\n"
EVENTS_OF_AN_OLD_KERNEL = "low 0\nhigh 0\nmax 0\noom 0\n"
OOM_CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"
OOM_CONTROL_OF_AN_OLD_KERNEL = "oom_kill_disable 0\nunder_oom 0\n"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (EVENTS, 5),
        (OOM_CONTROL, 3),
        (EVENTS_OF_AN_OLD_KERNEL, None),
        (OOM_CONTROL_OF_AN_OLD_KERNEL, None),
        ("", None),
        ("oom_kill\n", None),
        ("oom_kill many\n", None),
        ("oom_kill -1\n", None),
        ("oom_kill 0", 0),
    ],
)
def test_the_counter_is_read_from_both_versions_or_not_at_all(text, count):
    assert oom_kills(text) == count


VERSION_2 = "0::/system.slice/reviews.service\n"
VERSION_2_IN_A_CONTAINER = "0::/\n"
VERSION_1 = "12:cpu,cpuacct:/docker/abc\n9:name=systemd:/docker/abc\n4:memory:/docker/abc\n1:cpu:/\n"
HYBRID = "3:memory:/user.slice\n0::/user.slice/with:colon\n"


@pytest.mark.parametrize(
    ("cgroup", "files"),
    [
        (
            VERSION_2,
            [
                "/sys/fs/cgroup/system.slice/reviews.service/memory.events.local",
                "/sys/fs/cgroup/system.slice/reviews.service/memory.events",
            ],
        ),
        (VERSION_2_IN_A_CONTAINER, ["/sys/fs/cgroup/memory.events.local", "/sys/fs/cgroup/memory.events"]),
        (
            VERSION_1,
            ["/sys/fs/cgroup/memory/docker/abc/memory.oom_control", "/sys/fs/cgroup/memory/memory.oom_control"],
        ),
        (
            HYBRID,
            [
                "/sys/fs/cgroup/memory/user.slice/memory.oom_control",
                "/sys/fs/cgroup/memory/memory.oom_control",
                "/sys/fs/cgroup/user.slice/with:colon/memory.events.local",
            ],
        ),
        ("", []),
        ("nonsense\n", []),
    ],
)
def test_the_most_exact_file_of_a_group_is_looked_for_first(cgroup, files):
    found = counter_files(cgroup)
    assert found[: len(files)] == [PurePosixPath(file) for file in files]
    assert bool(found) == bool(files)


def test_a_watch_takes_the_first_file_that_has_the_counter_and_sees_it_rise(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text(EVENTS_OF_AN_OLD_KERNEL)
    new.write_text(EVENTS)
    watch = OomWatch([tmp_path / "missing", tmp_path, old, new])
    before = watch.count()
    assert before == 5
    assert not watch.rose(before)
    new.write_text(EVENTS.replace("oom_kill 5", "oom_kill 6"))
    assert watch.rose(before)


def test_where_no_counter_can_be_read_nothing_is_ever_out_of_memory(tmp_path):
    watch = OomWatch([tmp_path / "missing"])
    assert watch.count() is None
    assert not watch.rose(None)
    gone = tmp_path / "gone"
    gone.write_text(EVENTS)
    watch = OomWatch([gone])
    gone.unlink()
    assert not watch.rose(5)
    assert not watch.rose(None)


def test_the_counter_of_this_very_process_is_a_number_or_none():
    count = OomWatch().count()
    assert count is None or count >= 0
    assert Path("/proc/self/cgroup").exists() or count is None
