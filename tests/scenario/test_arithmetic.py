import math

from hypothesis import given
from hypothesis import strategies as st

from trnsim.scenario.rules.rule import divisors, near, one_of


@given(st.integers(1, 10_000))
def test_divisors_are_all_and_only_those_that_divide(number: int) -> None:
    # d | n, ascending
    assert list(divisors(number)) == [d for d in range(1, number + 1) if number % d == 0]


@given(st.integers(1, 500), st.integers(1, 500))
def test_near_is_the_next_valid_number_on_either_side(value: int, number: int) -> None:
    # nothing valid lies strictly between the neighbours but the value itself
    valid = divisors(number)
    neighbours = near(value, valid)
    below = max((n for n in neighbours if n < value), default=0)
    above = min((n for n in neighbours if n > value), default=math.inf)
    assert set(neighbours) <= set(valid) - {value}
    assert not [n for n in valid if below < n < above and n != value]
    assert (below > 0) == any(n < value for n in valid)
    assert (above < math.inf) == any(n > value for n in valid)


def test_a_choice_in_words() -> None:
    # commas, and the word before the last
    assert (one_of([7]), one_of([7, 9], "and"), one_of([1, 4, 8000])) == ("7", "7 and 9", "1, 4 or 8,000")
