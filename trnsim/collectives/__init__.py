"""Collective operations as programs: who sends how many bytes to whom, in which order.

A program is data and has no clock: a fabric gives it a time, and a test runs it on arrays. Each algorithm is one
module in `trnsim.collectives.algorithms` and is found there by its name.
"""

from trnsim.collectives.algorithm import Algorithm
from trnsim.collectives.arrangement import Arrangement
from trnsim.collectives.counts import busbw_factor
from trnsim.collectives.cycles import disjoint_cycles
from trnsim.collectives.patterns import SWITCH, Everyone, Hops, Pattern, Shift, SwitchTransfers, Tour
from trnsim.collectives.program import Move, Phase, Program, Transfer
from trnsim.collectives.registry import algorithm, algorithm_names, op_names, program
from trnsim.collectives.rotation import Rotation
from trnsim.collectives.trees import TreeTransfers

__all__ = [
    "SWITCH",
    "Algorithm",
    "Arrangement",
    "Everyone",
    "Hops",
    "Move",
    "Pattern",
    "Phase",
    "Program",
    "Rotation",
    "Shift",
    "SwitchTransfers",
    "Tour",
    "Transfer",
    "TreeTransfers",
    "algorithm",
    "algorithm_names",
    "busbw_factor",
    "disjoint_cycles",
    "op_names",
    "program",
]
