"""One training step: blocks priced into passes, ranks folded into cohorts, the story that each rank lives."""

from trnsim.training.blemishes import slow_ranks
from trnsim.training.bodies import Bodies, counterparts
from trnsim.training.cohorts import Member, Planner, populate
from trnsim.training.communication import Communication, RankPrices, UnservedGroupError, collective_skew_s
from trnsim.training.contraction import Contraction, contract
from trnsim.training.critical_path import Leg, critical_path
from trnsim.training.data_parallel import COPIES, GRADIENTS, WEIGHTS, Exchanges, Launch
from trnsim.training.folding import Folding, Node, fold
from trnsim.training.passes import EXPOSED_TP, Bucket, StagePasses, gradient_buckets, priced_blocks, stage_passes
from trnsim.training.rates import Rates
from trnsim.training.sharing_groups import like_the_first, sharing_groups
from trnsim.training.spec import StepSpec
from trnsim.training.stages import Stage, VirtualStage
from trnsim.training.steady import Steady
from trnsim.training.story import (
    RECEIVE_ACTIVATION,
    RECEIVE_GRADIENT,
    SEND_ACTIVATION,
    SEND_GRADIENT,
    TIED_EMBEDDING,
    Neighbourhood,
    RankPlan,
    train,
)
from trnsim.training.teams import Teams

__all__ = [
    "COPIES",
    "EXPOSED_TP",
    "GRADIENTS",
    "RECEIVE_ACTIVATION",
    "RECEIVE_GRADIENT",
    "SEND_ACTIVATION",
    "SEND_GRADIENT",
    "TIED_EMBEDDING",
    "WEIGHTS",
    "Bodies",
    "Bucket",
    "Communication",
    "Contraction",
    "Exchanges",
    "Folding",
    "Launch",
    "Leg",
    "Member",
    "Neighbourhood",
    "Node",
    "Planner",
    "RankPlan",
    "RankPrices",
    "Rates",
    "Stage",
    "StagePasses",
    "Steady",
    "StepSpec",
    "Teams",
    "UnservedGroupError",
    "VirtualStage",
    "collective_skew_s",
    "contract",
    "counterparts",
    "critical_path",
    "fold",
    "gradient_buckets",
    "like_the_first",
    "populate",
    "priced_blocks",
    "sharing_groups",
    "slow_ranks",
    "stage_passes",
    "train",
]
