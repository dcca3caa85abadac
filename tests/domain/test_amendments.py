"""What later messages do to an earlier one."""

from wa_orchestrator.domain.amendments import Amended, Amendment, fold


def test_of_one_person_the_last_reaction_counts_and_an_empty_one_takes_it_back() -> None:
    said = [Amendment("reaction", "a", 1, "👍"), Amendment("reaction", "b", 2, "❤"), Amendment("reaction", "a", 3, "")]
    assert fold(said).reactions == {"b": "❤"}


def test_of_one_person_the_last_vote_counts() -> None:
    said = [Amendment("vote", "a", 1, options=("x", "y")), Amendment("vote", "b", 2, options=("x",))]
    assert fold(said).votes == {"x": 2, "y": 1}
    assert fold([*said, Amendment("vote", "a", 3)]).votes == {"x": 1}


def test_the_last_edit_is_the_text_and_a_deletion_is_known() -> None:
    said = [Amendment("edit", "a", 1, "one"), Amendment("edit", "a", 2, "two"), Amendment("deletion", "a", 3)]
    assert fold(said) == Amended(text="two", edited_at_ms=2, deleted_at_ms=3)
    assert fold([Amendment("of a newer worker", "a", 1)]) == Amended()
