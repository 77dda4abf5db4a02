"""Collective operations as programs: who sends how many bytes to whom, in which order.

A program is data and has no clock: a fabric gives it a time, and a test runs it on arrays. Each algorithm is one
module in `trnsim.collectives.algorithms` and is found there by its name.
"""

from trnsim.collectives.counts import busbw_factor
from trnsim.collectives.cycles import disjoint_cycles
from trnsim.collectives.patterns import Everyone, Pattern, Shift, Tour
from trnsim.collectives.program import Algorithm, Arrangement, Phase, Program, Transfer
from trnsim.collectives.registry import algorithm_names, op_names, program

__all__ = [
    "Algorithm",
    "Arrangement",
    "Everyone",
    "Pattern",
    "Phase",
    "Program",
    "Shift",
    "Tour",
    "Transfer",
    "algorithm_names",
    "busbw_factor",
    "disjoint_cycles",
    "op_names",
    "program",
]
