"""How the layers of a model are split over pipeline stages."""

from __future__ import annotations


def split_layers(layers: int, stages: int) -> tuple[int, ...]:
    """Split layers over stages as evenly as possible; the last stages take one layer more.

    This is the split of NeuronX Distributed, which never leaves a stage empty.

    Parameters
    ----------
    layers
        Number of layers. >= `stages`.
    stages
        Number of pipeline stages. >= 1.

    Raises
    ------
    ValueError
        If there are fewer layers than stages, or no stage.

    Examples
    --------
    >>> split_layers(126, 9)
    (14, 14, 14, 14, 14, 14, 14, 14, 14)
    >>> split = split_layers(126, 32)
    >>> split[:3], sum(split), split.count(4)
    ((3, 3, 4), 126, 30)
    """
    if not 1 <= stages <= layers:
        raise ValueError(f"{layers} layers cannot be split over {stages} stages without leaving one empty")
    base, longer = divmod(layers, stages)
    return (base,) * (stages - longer) + (base + 1,) * longer
