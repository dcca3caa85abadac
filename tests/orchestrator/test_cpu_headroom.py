"""How much of the machine is idle, by the kernel's own count."""

from wa_orchestrator.orchestrator.workers.cpu_headroom import CpuHeadroom


def _told(*lines: str) -> CpuHeadroom:
    told = iter(lines)
    return CpuHeadroom(lambda: f"cpu  {next(told)} 0 0\ncpu0 1 2 3\n")


def test_the_idle_share_counts_from_the_last_look_and_waiting_for_a_disk_is_idle() -> None:
    headroom = _told("100 0 100 1000 0 0 0 0", "130 0 110 1040 10 5 5 0", "230 0 110 1040 10 5 5 0")
    assert headroom.idle_share() == 0.5
    assert headroom.idle_share() == 0.0


def test_a_machine_that_does_not_tell_counts_as_idle() -> None:
    def refuse() -> str:
        raise FileNotFoundError("/proc/stat")

    assert CpuHeadroom(refuse).idle_share() == 1.0


def test_two_looks_within_one_tick_find_an_idle_machine() -> None:
    assert _told(*["1 1 1 1 1 1 1 1"] * 2).idle_share() == 1.0


def test_the_kernels_own_file_can_be_read() -> None:
    assert 0.0 <= CpuHeadroom().idle_share() <= 1.0
