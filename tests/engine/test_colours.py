"""The partition that folding rests on."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from trnsim.engine import Meeting, refine


def test_a_multiset_is_finer_than_a_set() -> None:
    # Groups {a, a, b} and {a, b, b} hold the same colours, but not the same number of each.
    meetings = [Meeting("dp", ((0, 2), (1, 1))), Meeting("dp", ((2, 1), (3, 2)))]
    assert refine(["a", "b", "a", "b"], meetings, [()] * 4).classes == 4


def test_a_split_travels_along_the_pipeline() -> None:
    # Two pipelines of three stages; one odd rank in the last stage splits all stages of its pipeline.
    neighbours = [(-1, 1), (0, 2), (1, -1), (-1, 4), (3, 5), (4, -1)]
    alike = refine([0, 1, 2, 0, 1, 2], [], neighbours)
    odd = refine([0, 1, 2, 0, 1, "slow"], [], neighbours)
    assert (alike.classes, odd.classes) == (3, 6)


@st.composite
def machines(draw: st.DrawFn) -> tuple[list[int], list[Meeting], list[tuple[int, ...]]]:
    nodes = draw(st.integers(1, 12))
    initial = draw(st.lists(st.integers(0, 2), min_size=nodes, max_size=nodes))
    order = draw(st.permutations(range(nodes)))
    size = draw(st.integers(1, 4))
    groups = [order[start : start + size] for start in range(0, nodes, size)]
    meetings = [Meeting("tp", tuple((node, draw(st.integers(1, 3))) for node in group)) for group in groups]
    neighbours: list[tuple[int, ...]] = [(draw(st.integers(-1, nodes - 1)),) for _ in range(nodes)]
    return initial, meetings, neighbours


@given(machines())
def test_the_partition_is_equitable_and_respects_the_initial_colours(
    machine: tuple[list[int], list[Meeting], list[tuple[int, ...]]],
) -> None:
    # Law: two nodes of one colour had one initial colour, meet the same multiset of colours in their
    # groups, and have neighbours of the same colours.
    initial, meetings, neighbours = machine
    colours = refine(initial, meetings, neighbours).colours
    met: dict[int, tuple[object, ...]] = {}
    for node, colour in enumerate(colours):
        groups = []
        for meeting in meetings:
            if any(member == node for member, _ in meeting.members):
                found: Counter[int] = Counter()
                for member, count in meeting.members:
                    found[colours[member]] += count
                groups.append(tuple(sorted(found.items())))
        seen = (initial[node], groups, [colours[other] if other >= 0 else -1 for other in neighbours[node]])
        assert met.setdefault(colour, seen) == seen
