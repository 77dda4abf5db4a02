"""Which rank sits on which chip."""

from __future__ import annotations

from typing import NamedTuple

from trnsim.record import Record


class Slot(NamedTuple):
    """A place for one rank: server of the cluster, chip of the server, logical core of the chip."""

    server: int
    chip: int
    core: int


class Placement(Record):
    """Ranks fill the logical cores of a chip, the chips of a server, the servers of the cluster.

    Parameters
    ----------
    ranks_per_chip
        1 when a chip is one rank, else the logical cores of a chip.
    chips
        Chips of one server.
    chip_order
        Chips of a server in the order in which ranks fill them; a shorter order repeats itself
        (it then describes one instance of an UltraServer). Empty: ascending.

    Examples
    --------
    >>> Placement(ranks_per_chip=4, chips=16).slot(70)
    Slot(server=1, chip=1, core=2)
    >>> Placement(ranks_per_chip=1, chips=4, chip_order=(0, 1, 3, 2)).slot(6)
    Slot(server=1, chip=3, core=0)
    """

    ranks_per_chip: int
    chips: int
    chip_order: tuple[int, ...] = ()

    @property
    def ranks_per_server(self) -> int:
        """Ranks that one server holds."""
        return self.ranks_per_chip * self.chips

    def slot(self, rank: int) -> Slot:
        """Return the place of a rank."""
        position, core = divmod(rank, self.ranks_per_chip)
        server, chip = divmod(position, self.chips)
        if self.chip_order:
            block, offset = divmod(chip, len(self.chip_order))
            chip = block * len(self.chip_order) + self.chip_order[offset]
        return Slot(server, chip, core)

    def endpoint(self, rank: int) -> int:
        """Return the number of a rank's chip in the whole cluster: server x chips + chip."""
        slot = self.slot(rank)
        return slot.server * self.chips + slot.chip

    def ranks_on(self, endpoint: int) -> range:
        """Return the ranks on a chip of the cluster.

        Examples
        --------
        >>> Placement(ranks_per_chip=2, chips=4, chip_order=(0, 1, 3, 2)).ranks_on(6)
        range(14, 16)
        """
        server, chip = divmod(endpoint, self.chips)
        if self.chip_order:
            block, place = divmod(chip, len(self.chip_order))
            chip = block * len(self.chip_order) + self.chip_order.index(place)
        first = (server * self.chips + chip) * self.ranks_per_chip
        return range(first, first + self.ranks_per_chip)
