"""Restarts: a process that ends is started again after growing delays, and not without end where a limit is set."""

from reprieve.core.restart import GiveUp, Restart, RestartHistory, RestartPolicy, StayEnded, decide_restart

NO_LIMIT = RestartPolicy()


def delays(lives, policy=NO_LIMIT):
    """The delays after processes that lived so long and crashed, until one is not started again."""
    history, found = RestartHistory(), []
    for lived in lives:
        decision = decide_restart(history, 1, lived, policy, stopping=False)
        if not isinstance(decision, Restart):
            return [*found, decision]
        found.append(decision.delay_seconds)
        history = decision.history
    return found


def test_delays_double_up_to_the_ceiling():
    assert delays([0.0] * 9) == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_ten_thousand_quick_ends_still_have_a_delay():
    decision = decide_restart(RestartHistory(10_000, 10_000), 1, 0.0, RestartPolicy(), stopping=False)
    assert decision == Restart(30.0, RestartHistory(10_001, 10_001))


def test_a_long_life_lets_the_delays_begin_anew():
    assert delays([0.0, 0.0, 60.0, 59.9]) == [0.5, 1.0, 0.5, 1.0]


def test_a_limit_counts_quick_ends_in_a_row():
    policy = RestartPolicy(max_quick_ends=3)
    assert delays([0.0, 0.0, 60.0, 1.0, 1.0], policy) == [0.5, 1.0, 0.5, 1.0, GiveUp(3)]


def test_a_long_life_is_never_given_up():
    assert delays([60.0] * 3, RestartPolicy(max_quick_ends=1)) == [0.5] * 3


def test_a_process_that_left_or_was_stopped_stays_ended():
    history, policy = RestartHistory(), RestartPolicy()
    assert decide_restart(history, 0, 0.0, policy, stopping=False) == StayEnded()
    assert decide_restart(history, -15, 0.0, policy, stopping=True) == StayEnded()


def test_a_wrong_command_is_recognized_at_its_first_start_only():
    policy = RestartPolicy()
    assert decide_restart(RestartHistory(), 2, 0.1, policy, stopping=False) == StayEnded()
    assert isinstance(decide_restart(RestartHistory(1, 1), 2, 0.1, policy, stopping=False), Restart)
