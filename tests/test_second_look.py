"""What the second look lets pass, and what it does not."""

from tests import second_look


def test_a_test_that_passes_alone_is_named_as_unstable() -> None:
    assert second_look.judge(["a::b"], {"a::b": True}) == (0, ["unstable, passes alone: a::b"])


def test_one_that_fails_again_fails_the_run() -> None:
    code, lines = second_look.judge(["a::b", "a::c"], {"a::b": True, "a::c": False})
    assert (code, lines) == (1, ["unstable, passes alone: a::b", "fails alone too: a::c"])


def test_many_failures_get_no_second_look() -> None:
    failed = [f"a::{number}" for number in range(second_look.MOST + 1)]
    assert second_look.judge(failed, {}) == (1, ["4 failed: a second look is for 1 to 3"])


def test_a_run_that_ended_without_a_failed_test_stays_failed() -> None:
    assert second_look.judge([], {})[0] == 1
