"""What the arguments of Megatron-LM mean here.

References
----------
NVIDIA/Megatron-LM, megatron/training/arguments.py at 000c4ac2, read 2026-11-30.
"""

from __future__ import annotations

from typing import Any, Final

from trnsim.scenario.imports.keys import Key, Vocabulary, by_key, count, flag, fraction, one_of, text, words

__all__ = ["LISTS", "SAME", "VOCABULARY"]

SAME: Final[dict[str, tuple[str, Any]]] = {
    "disable_bias_linear": ("add_bias_linear", False),
    "fp8_format": ("fp8", None),
    "no_overlap_p2p_communication": ("overlap_p2p_comm", False),
    "recompute_activations": ("recompute_granularity", "selective"),
    "torch_fsdp2_no_reshard_after_forward": ("torch_fsdp2_reshard_after_forward", False),
    "use_custom_fsdp": ("use_megatron_fsdp", True),
    "use_rotary_position_embeddings": ("position_embedding_type", "rope"),
}
"""Options that set the argument of another name, and to which value; ``None`` for the one that is written."""

LISTS: Final = frozenset({"recompute_modules"})
"""Arguments that take several words."""

VOCABULARY: Final = Vocabulary(
    keys={
        "nproc_per_node": Key(count),
        "nnodes": Key(count),
        "world_size": Key(count),
        "tensor_model_parallel_size": Key(count, "layout.tp"),
        "pipeline_model_parallel_size": Key(count, "layout.pp"),
        "context_parallel_size": Key(count, "layout.cp"),
        "expert_model_parallel_size": Key(count, "layout.ep"),
        "overlap_p2p_comm": Key(flag),
        "num_layers_per_virtual_pipeline_stage": Key(count),
        "num_virtual_stages_per_pipeline_rank": Key(count),
        "virtual_pipeline_model_parallel_size": Key(count),
        "decoder_first_pipeline_num_layers": Key(count),
        "decoder_last_pipeline_num_layers": Key(count),
        "account_for_embedding_in_pipeline_split": Key(flag),
        "account_for_loss_in_pipeline_split": Key(flag),
        "sequence_parallel": Key(flag),
        "use_tp_pp_dp_mapping": Key(flag),
        "use_distributed_optimizer": Key(flag),
        "use_megatron_fsdp": Key(flag),
        "optimizer_cpu_offload": Key(flag),
        "data_parallel_sharding_strategy": Key(one_of("no_shard", "optim", "optim_grads", "optim_grads_params")),
        "use_torch_fsdp2": Key(flag),
        "torch_fsdp2_reshard_after_forward": Key(flag),
        "overlap_grad_reduce": Key(flag),
        "overlap_param_gather": Key(flag),
        "ddp_bucket_size": Key(count, "training.bucket_parameters"),
        "micro_batch_size": Key(count, "training.micro_batch"),
        "global_batch_size": Key(count, "training.global_batch"),
        "seq_length": Key(count, "training.sequence_length"),
        "recompute_granularity": Key(one_of("full", "selective")),
        "recompute_method": Key(one_of("uniform", "block")),
        "recompute_num_layers": Key(count),
        "recompute_modules": Key(words),
        "bf16": Key(flag),
        "fp16": Key(flag),
        "fp8": Key(text),
        "grad_reduce_in_bf16": Key(flag),
        "accumulate_allreduce_grads_in_fp32": Key(flag),
        "num_layers": Key(count, "model.layers"),
        "hidden_size": Key(count, "model.hidden_size"),
        "ffn_hidden_size": Key(count, "model.ffn_size"),
        "num_attention_heads": Key(count, "model.attention_heads"),
        "kv_channels": Key(count, "model.head_dim"),
        "group_query_attention": Key(flag),
        "num_query_groups": Key(count),
        "vocab_size": Key(count, "model.vocabulary"),
        "padded_vocab_size": Key(count),
        "max_position_embeddings": Key(count),
        "position_embedding_type": Key(one_of("learned_absolute", "rope", "mrope", "relative", "none")),
        "normalization": Key(one_of("LayerNorm", "RMSNorm")),
        "swiglu": Key(flag),
        "quick_geglu": Key(flag),
        "add_bias_linear": Key(flag),
        "add_qkv_bias": Key(flag),
        "qk_layernorm": Key(flag),
        "untie_embeddings_and_output_weights": Key(flag),
        "hidden_dropout": Key(fraction),
        "num_experts": Key(count),
        "moe_router_topk": Key(count),
        "moe_ffn_hidden_size": Key(count),
        "moe_shared_expert_intermediate_size": Key(count),
        "moe_layer_freq": Key(text),
        "multi_latent_attention": Key(flag),
    },
    not_modelled={
        "attention_dropout": "dropout in the attention",
        "cpu_offloading_num_layers": "activations moved to the host",
        "ddp_num_buckets": "number of gradient buckets",
        "defer_embedding_wgrad_compute": "when the gradient of the output projection is computed",
        "distribute_saved_activations": "saved activations split over the tensor-parallel ranks",
        "fp4": "fp4",
        "fp8_param_gather": "weights travel in fp8",
        "heterogeneous_layers_config": "layers that differ",
        "make_vocab_size_divisible_by": "padding of the vocabulary; layout.rules megatron pads to 128 x tp",
        "moe": "settings of the mixture of experts",
        "mtp_num_layers": "layers that predict further tokens",
        "num_distributed_optimizer_instances": "copies of the sharded optimizer",
        "optimizer": "kind of the optimizer; Adam is what runs",
        "pipeline_model_parallel_layout": "layers of each stage in a notation of its own; write layout.stages by hand",
        "rampup_batch_size": "growing batch; the full one is simulated",
        "tp_comm_overlap": "overlap of tensor-parallel communication with matmuls",
        "use_precision_aware_optimizer": "number formats of the optimizer",
        "window_size": "sliding window; attention is counted in full",
    },
    without_effect=by_key(
        {
            "the optimizer's settings": "adam clip_grad optimizer_offload_fraction weight_decay start_weight_decay "
            "end_weight_decay",
            "the learning rate": "lr decoupled min_lr warmup",
            "length of the training": "train exit skip_train iteration",
            "validation": "eval full_validation test_mode",
            "where the data comes from": "data dataloader mock_data num_dataset_builder_threads num_workers split "
            "valid_data reset eod create_attention_mask_in_dataloader no_create_attention_mask_in_dataloader "
            "mmap_bin_files no_mmap_bin_files",
            "the tokenizer": "tokenizer vocab_file merge_file tiktoken vocab_extra_ids hf_tokenizer",
            "logs and profiles": "log tensorboard timing wandb one_logger no_one_logger profile use_pytorch_profiler "
            "record_memory_history memory_snapshot_path app_tag barrier_with_L1_time",
            "checkpoints": "save load ckpt dist_ckpt use_dist_ckpt async_save no_load no_save finetune non_persistent "
            "use_checkpoint auto_detect_ckpt_format",
            "initial weights": "seed init_method embedding_init_method data_parallel_random_init use_cpu_initialization",
            "values, not sizes": "norm_epsilon layernorm_epsilon rotary use_rope_scaling rope_scaling_factor loss_scale "
            "initial_loss_scale min_loss_scale loss_scale_window hysteresis calculate_per_token_loss apply_layernorm_1p "
            "attention_softmax_in_fp32 apply_query_key_layer_scaling fp8 check_for_nan_in_loss_and_grad "
            "no_check_for_nan_in_loss_and_grad",
            "choice of kernels; attention is one that never writes its scores": "attention_backend use_flash_attn "
            "transformer_impl use_mcore_models spec bias no_bias masked_softmax_fusion no_masked_softmax_fusion "
            "cross_entropy apply_rope_fusion no_rope_fusion gradient_accumulation_fusion persist_layer_norm "
            "no_gradient_accumulation_fusion no_persist_layer_norm cuda_graph enable_cuda_graph external_cuda_graph "
            "manual_gc empty_unused_memory_level deterministic_mode",
            "how processes are started": "master_addr master_port node_rank rdzv max_restarts rank local_rank local_size "
            "distributed lazy_mpu_init nccl tee log_dir redirects",
            "follows from other arguments": "data_parallel_size transformer_pipeline_model_parallel_size params_dtype "
            "encoder_num_layers encoder_seq_length expert_tensor_parallel_size use_custom_fsdp",
        }
    ),
)
