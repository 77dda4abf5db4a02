"""Every rule that an input must keep, and the tests that hold it: no rule without one."""

import ast
from functools import cache
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).resolve().parents[1]

HOLDS: Final = {
    1: (
        "scenario/test_rules.py::test_dp_is_derived_and_the_degrees_multiply_to_the_ranks",
        "scenario/test_rules.py::test_degrees_that_do_not_divide_name_the_nearest_that_do",
        "scenario/test_rules.py::test_more_ranks_than_the_cluster_has_is_a_matter_of_capacity",
        "scenario/test_rules.py::test_groups_that_share_fill_the_data_parallel_ranks",
    ),
    2: (
        "scenario/test_rules.py::test_idle_chips_only_where_they_are_allowed",
        "scenario/test_rules.py::test_dp_auto_leaves_the_rest_idle_where_that_is_allowed",
    ),
    3: ("scenario/test_rules.py::test_a_batch_is_never_rounded",),
    4: (
        "scenario/test_rules.py::test_no_more_stages_than_layers",
        "scenario/test_rules.py::test_layers_that_do_not_divide",
        "scenario/test_rules.py::test_a_stated_split_has_every_stage_and_every_layer",
        "training/test_story.py::test_one_slow_stage_sets_the_beat",
    ),
    5: (
        "scenario/test_pipeline_rules.py::test_layers_are_a_multiple_of_pp_and_virtual_stages",
        "scenario/test_pipeline_rules.py::test_microbatches_are_whole_rounds",
        "scenario/test_pipeline_rules.py::test_interleaving_needs_a_pipeline",
        "schedules/test_schedules.py::test_shapes_that_a_schedule_cannot_have",
    ),
    6: (
        "scenario/test_rules.py::test_fewer_microbatches_than_stages_are_warned_about",
        "scenario/test_pipeline_rules.py::test_fewer_microbatches_than_stages_wait_at_each_virtual_stage",
        "training/test_story.py::test_the_bubble_of_equal_stages_with_free_transfers",
    ),
    7: (
        "scenario/test_rules.py::test_heads_are_a_multiple_of_tp",
        "scenario/test_rules.py::test_kv_heads_are_copied_until_they_divide",
        "scenario/test_rules.py::test_kv_heads_from_tp_on_are_a_multiple_of_it",
    ),
    8: ("scenario/test_rules.py::test_vocabulary_is_padded_as_the_rules_have_it",),
    9: ("scenario/test_rules.py::test_sequence_parallelism_splits_the_sequence",),
    10: ("scenario/test_rules.py::test_keys_without_effect_are_warned_about",),
    11: ("simulation/test_laws.py::test_a_group_of_one_sends_nothing",),
    12: ("scenario/test_loading.py::test_models_that_can_only_be_counted_are_refused",),
    13: ("scenario/test_loading.py::test_later_work_is_refused_by_name",),
    14: ("scenario/test_loading.py::test_later_work_is_refused_by_name",),
    15: (
        "scenario/test_rules.py::test_chips_in_use_on_one_trn2_instance",
        "scenario/test_rules.py::test_neuron_cores_in_use_on_one_trn1_instance",
        "scenario/test_rules.py::test_only_the_last_instance_of_many_may_be_used_in_part",
    ),
    16: (
        "scenario/test_rules.py::test_logical_core_configurations",
        "scenario/test_rules.py::test_ranks_of_one_trn2_instance",
        "scenario/test_other_machines.py::test_what_belongs_to_trainium_is_refused_elsewhere",
    ),
    17: ("scenario/test_rules.py::test_a_server_without_efa_is_alone",),
    18: (
        "simulation/test_check.py::test_memory_is_labelled_per_rank_and_per_chip",
        "simulation/test_check.py::test_what_does_not_fit_is_a_matter_of_capacity",
    ),
    19: (
        "fabric/test_closed_forms.py::test_half_a_torus_is_one_ring_and_pays_its_hops",
        "fabric/test_closed_forms.py::test_every_second_chip_of_a_ring_pays_two_hops",
    ),
    20: (
        "documents/test_validation.py::test_physical_values_need_their_unit",
        "hardware/test_files.py::test_a_broken_chip_file_is_reported_under_its_own_name",
    ),
    21: (
        "scenario/test_rules.py::test_a_chip_without_a_peak_for_the_precision",
        "hardware/test_files.py::test_an_unknown_chip_is_a_problem_of_the_key_that_names_it",
        "hardware/test_files.py::test_contradictions_are_refused",
        "simulation/test_laws.py::test_mfu_is_the_palm_rule",
    ),
    22: (
        "scenario/test_loading.py::test_bad_values",
        "scenario/test_rules.py::test_sizes_that_no_model_has",
        "scenario/test_rules.py::test_more_passes_than_can_be_simulated",
        "simulation/test_chunk.py::test_more_ranks_than_can_be_followed_are_refused",
        "scenario/test_rules.py::test_a_run_that_does_not_end",
        "hardware/test_files.py::test_contradictions_are_refused",
    ),
    23: ("results/test_summary.py::test_summary_says", "simulation/test_laws.py::test_mfu_is_the_palm_rule"),
    24: (
        "topology/test_server_template.py::test_chips_without_a_path_are_named",
        "topology/test_cluster_graph.py::test_several_servers_without_a_fabric_name_two_chips_without_a_path",
        "scenario/test_rules.py::test_several_servers_need_a_fabric",
    ),
    25: (
        "fabric/test_definition.py::test_prices_equal_the_definition",
        "topology/test_server_template.py::test_a_single_chip_has_no_links",
    ),
    26: (
        "scenario/test_rules.py::test_what_was_read_into_a_model_is_shown",
        "workload/test_huggingface.py::test_head_dim_beats_hidden_size_over_heads",
        "workload/test_huggingface.py::test_a_null_head_dim_falls_back_with_a_note",
    ),
    27: (
        "workload/test_huggingface.py::test_a_decoder_nested_in_text_config_is_read",
        "workload/test_huggingface.py::test_what_is_not_understood_is_refused_by_name",
        "workload/test_huggingface.py::test_a_mixture_is_never_read_as_dense",
    ),
    28: (
        "documents/test_reading.py::test_scalars_follow_the_core_schema_of_yaml_1_2",
        "documents/test_reading.py::test_what_cannot_be_read_gives_line_and_reason",
        "documents/test_reading.py::test_every_duplicate_key_is_named_with_both_lines",
        "documents/test_reading.py::test_lines_are_those_of_the_file_with_bom_and_crlf",
        "scenario/test_loading.py::test_json_scenarios_are_equal_to_yaml",
    ),
    29: (
        "scenario/test_loading.py::test_names_are_read_without_regard_to_case_and_dashes",
        "scenario/test_loading.py::test_bad_values",
    ),
    30: (
        "scenario/test_rules.py::test_keys_without_effect_are_warned_about",
        "scenario/test_pipeline_rules.py::test_interleaving_needs_a_pipeline",
    ),
    31: ("scenario/test_loading.py::test_bad_values",),
}
"""Tests by the number of the rule they hold; rules about what is not modelled yet are held by its refusal."""


@cache
def functions_of(file: str) -> frozenset[str]:
    nodes = ast.parse((TESTS / file).read_text(encoding="utf-8")).body
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef))


def test_no_rule_lacks_a_test() -> None:
    # the rules are numbered 1 to 31
    assert list(HOLDS) == list(range(1, 32))
    assert all(HOLDS.values())


@pytest.mark.parametrize("test", sorted({test for held in HOLDS.values() for test in held}))
def test_what_holds_a_rule_exists(test: str) -> None:
    # a test that is renamed or deleted takes its rule with it
    file, _, name = test.partition("::")
    assert name in functions_of(file)
