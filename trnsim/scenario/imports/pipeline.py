"""The pipeline of an imported scenario: its schedule, and the layers of each stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trnsim.scenario.imports.translation import Translation

__all__ = ["write_virtual_stages"]


def write_virtual_stages(translation: Translation, stages: int, origin: str) -> None:
    """Write the schedule that the other tool runs: 1F1B, interleaved where a rank has several virtual stages."""
    if stages > 1:
        translation.write("schedule.kind", "interleaved-1f1b", origin)
        translation.write("schedule.virtual_stages", stages, origin)
    elif translation.entries.get("layout.pp", 1) > 1:
        translation.choose("schedule.kind", "1f1b", "one stage on each rank, and the tool's schedule for it")


def write_stages(
    translation: Translation, layers: int, ends: tuple[int | None, int | None], less: tuple[int, int]
) -> None:
    """Write uneven stages as Megatron splits them.

    Parameters
    ----------
    translation
        With pp, and virtual stages where there are any.
    layers
        Layers of the model.
    ends
        Layers of the first and the last stage, where they are given.
    less
        By how many layers the first and the last stage are shorter than the others, for embedding and loss.
    """
    origins = {
        "decoder_first_pipeline_num_layers": ends[0],
        "decoder_last_pipeline_num_layers": ends[1],
        "account_for_embedding_in_pipeline_split": less[0],
        "account_for_loss_in_pipeline_split": less[1],
    }
    used = [key for key, value in origins.items() if value]
    pp = translation.entries.get("layout.pp", 1)
    if translation.entries.get("schedule.virtual_stages", 1) > 1 or pp == 1:
        for key in used:
            translation.leave_out(key, "uneven stages, with several virtual stages on a rank or one stage in all")
        return
    inner = pp - sum(end is not None for end in ends)
    left = layers - sum(end or 0 for end in ends) + sum(less)
    each, rest = divmod(left, inner) if inner else (0, left)
    stages = [each] * pp
    stages[0], stages[-1] = ends[0] or each - less[0], ends[1] or each - less[1]
    if rest or min(stages) < 1:
        translation.refuse(used[0], f"the other {left} layers cannot be split evenly over {inner} stages")
    else:
        translation.write("layout.stages", stages, ", ".join(used))
