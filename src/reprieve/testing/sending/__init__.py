"""A suite for senders: what the outbox relies on, tried against a provider that fails as it is told to.

    from reprieve.testing import Rig, SenderSuite, Trouble

    class TestPager(SenderSuite):
        @contextmanager
        def provider(self, trouble: Trouble) -> Iterator[Rig]:
            with FlakyHTTP() as upstream:
                ...                                        # make it fail in that way
                yield Rig(sender=lambda: Pager(upstream.url("/")), recipient="pager:ada", arrived=...)

`check_sender(provider)` does the same without pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import SkipTest

from reprieve.testing.sending import checks
from reprieve.testing.sending.rig import Rig, Trouble

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from reprieve.testing.sending.rig import Provider

__all__ = ["Rig", "SenderSuite", "Trouble", "check_sender"]


class SenderSuite:
    """What the outbox relies on, as tests; derive a class `Test...` and say what the provider is."""

    def provider(self, trouble: Trouble) -> AbstractContextManager[Rig]:
        """A provider that fails in that way; raise NotImplementedError where it cannot be made to, and that is skipped."""
        raise NotImplementedError

    def test_its_record_can_be_relied_on(self) -> None:
        """Name and capability."""
        checks.check_record(self.provider)

    def test_it_has_the_methods_of_a_sender(self) -> None:
        """Two that matter, and two beside them."""
        checks.check_methods(self.provider)

    def test_a_recipient_has_one_normal_form(self) -> None:
        """And what is no recipient is refused."""
        checks.check_address(self.provider)

    def test_a_message_arrives_once_and_has_an_id(self) -> None:
        """Under its token."""
        checks.check_send(self.provider)

    def test_every_try_sends_the_same_bytes(self) -> None:
        """Also after a restart."""
        checks.check_same_bytes(self.provider)

    def test_messages_on_their_way_together_are_kept_apart(self) -> None:
        """By their tokens."""
        checks.check_together(self.provider)

    def test_a_look_up_answers_found_and_absent(self) -> None:
        """Where there is one."""
        checks.check_look_up(self.provider)

    def test_a_look_up_that_fails_says_nothing(self) -> None:
        """Neither found nor absent."""
        checks.check_failing_look_up(self.provider)

    def test_a_provider_that_is_away_is_a_failure(self) -> None:
        """Of a send and of a look-up."""
        checks.check_unreachable(self.provider)

    def test_a_refusal_is_a_failure(self) -> None:
        """It is not taken for an acceptance."""
        checks.check_refusal(self.provider)

    def test_what_broke_after_the_message_was_taken_is_in_doubt(self) -> None:
        """Never said to be known."""
        checks.check_drop(self.provider)

    def test_a_provider_that_never_answers_is_given_up_and_in_doubt(self) -> None:
        """Within its time, and without holding up others."""
        checks.check_timeout(self.provider)

    def test_it_can_be_cancelled(self) -> None:
        """And used again after."""
        checks.check_cancellation(self.provider)

    def test_it_can_be_closed_twice_and_used_again(self) -> None:
        """In another event loop too."""
        checks.check_close(self.provider)

    def test_its_errors_and_logs_hold_no_secret(self) -> None:
        """Whatever the trouble."""
        checks.check_secrets(self.provider)


def check_sender(provider: Provider) -> tuple[str, ...]:
    """Try everything; raises an AssertionError that says all that is wrong, returns what could not be tried."""
    wrong: list[str] = []
    skipped: list[str] = []
    for check in checks.CHECKS:
        try:
            check(provider)
        except SkipTest as why:
            skipped.append(f"{check.__name__}: {why}")
        except Exception as error:  # noqa: BLE001 - a sender may raise anything; it is told with the rest
            what = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            wrong.append(f"{check.__name__}: {what}{error}")
    if wrong:
        raise AssertionError("\n".join(wrong))
    return tuple(skipped)
