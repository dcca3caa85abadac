"""Compare-and-set: a lost race is tried again, and is never taken for a success."""

import pytest

from wa_orchestrator.errors import Unavailable
from wa_orchestrator.store.engine.compare_and_set import ATTEMPTS, Changed, compare_and_set


class Register:
    """A value with a version, and other writers who win the first races."""

    def __init__(self, others: int) -> None:
        self.value, self.version, self._others = 0, 0, others

    async def add_ten(self) -> int | Changed:
        seen, version = self.value, self.version
        if self._others:
            self._others -= 1
            self.value, self.version = self.value + 1, self.version + 1
        if self.version != version:
            return Changed()
        self.value, self.version = seen + 10, version + 1
        return self.value


@pytest.mark.parametrize("others", [0, 1, ATTEMPTS - 1])
async def test_a_lost_race_is_tried_again_with_what_the_winner_wrote(others: int) -> None:
    register = Register(others)
    assert await compare_and_set("the register")(register.add_ten)() == others + 10
    assert register.value == others + 10


async def test_a_race_that_is_always_lost_is_an_error_and_writes_nothing() -> None:
    register = Register(ATTEMPTS)
    with pytest.raises(Unavailable) as raised:
        await compare_and_set("the register")(register.add_ten)()
    assert (raised.value.code, register.value) == ("WRITE_CONFLICT", ATTEMPTS)


async def test_none_is_a_result_and_not_a_lost_race() -> None:
    async def nothing_to_do() -> Changed | int | None:
        return None

    assert await compare_and_set("nothing")(nothing_to_do)() is None
