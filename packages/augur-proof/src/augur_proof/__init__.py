"""The referee: whether a Qwen network, or an op of one, computes what transformers computes."""

from augur_proof.answer import Answer, GreedyRun
from augur_proof.broken_twins import DECODE_TWINS, LOW_BIT_TWINS, PREFILL_TWINS, check_both_fail
from augur_proof.candidate import Candidate, NewSteps
from augur_proof.checks import Outputs, check_close, check_same_bits, check_within_budget
from augur_proof.compare import Comparison, compare
from augur_proof.demand import Demand, one_op_demand, whole_model_demand
from augur_proof.difference import Difference, difference
from augur_proof.errors import ComparisonError, OpFailedError, ProofError
from augur_proof.ground_truth import GroundTruth, read_ground_truth, write_ground_truth
from augur_proof.made_with import MadeWith
from augur_proof.module_outputs import (
    attention_outputs,
    block_outputs,
    hidden_states,
    mlp_outputs,
    norm_outputs,
    rotary_tables,
    rotated_heads,
)
from augur_proof.op_budget import OpBudget, judge_ops, worst_calls
from augur_proof.ops_table import load_ops
from augur_proof.parity import check, check_fits, record_truth
from augur_proof.points import Pass, Point
from augur_proof.prompts import read_prompts
from augur_proof.published_sizes import PUBLISHED, published_config, scaled_down_config
from augur_proof.random_weights import fill_randomly
from augur_proof.referee import Referee
from augur_proof.tiny_checkpoint import write_tiny_checkpoint
from augur_proof.tiny_models import (
    KINDS,
    LONG_KINDS,
    Pair,
    pair_of,
    random_token_ids,
    tiny_config,
    tiny_pair,
)
from augur_proof.tolerance import DTYPES, EXACT, ONE_OP, WHOLE_MODEL, Tolerance
from augur_proof.trace import Finding, trace

# fmt: off
__all__ = [
    "DECODE_TWINS", "DTYPES", "EXACT", "KINDS", "LONG_KINDS", "LOW_BIT_TWINS", "ONE_OP",
    "PREFILL_TWINS", "PUBLISHED", "WHOLE_MODEL", "Answer", "Candidate", "Comparison",
    "ComparisonError", "Demand", "Difference", "Finding", "GreedyRun", "GroundTruth", "MadeWith",
    "NewSteps", "OpBudget", "OpFailedError", "Outputs", "Pair", "Pass", "Point", "ProofError",
    "Referee", "Tolerance", "attention_outputs", "block_outputs", "check", "check_both_fail",
    "check_close", "check_fits", "check_same_bits", "check_within_budget", "compare", "difference",
    "fill_randomly", "hidden_states", "judge_ops", "load_ops", "mlp_outputs", "norm_outputs",
    "one_op_demand", "pair_of", "published_config", "random_token_ids", "read_ground_truth",
    "read_prompts", "record_truth", "rotary_tables", "rotated_heads", "scaled_down_config",
    "tiny_config", "tiny_pair", "trace", "whole_model_demand", "worst_calls", "write_ground_truth",
    "write_tiny_checkpoint",
]
# fmt: on
