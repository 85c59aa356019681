"""Tiny configurations of many architectures, by their names in transformers."""

from __future__ import annotations

from typing import Any

from tests.tiny import DEPTH, FAMILIES, OTHER_FAMILIES, POSITIONS, WIDTH, WORDS

_SIZE: dict[str, Any] = {"vocab_size": len(WORDS) + 4}
_BERT = FAMILIES["bert"]
_WIDE = {"embedding_size": WIDTH}
_ROBERTA = FAMILIES["roberta"]
_BART, _T5, _GPT2 = (OTHER_FAMILIES[name] for name in ("bart", "t5", "gpt2"))
_LONG = {"max_position_embeddings": 64}
_ENDS = {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}
_LLAMA = OTHER_FAMILIES["llama"] | _ENDS | {"head_dim": 8}
_BLOCKS = {"attention_type": "block_sparse", "block_size": 2, "num_random_blocks": 1, "pad_token_id": 1}
_CHUNKS = {
    "hidden_size": WIDTH, "num_attention_heads": 2, "attention_head_size": 8, "feed_forward_size": 24,
    "axial_pos_shape": [8, 8], "axial_pos_embds_dim": [8, 8], "is_decoder": False, "num_buckets": 2,
    "local_attn_chunk_length": 4, "lsh_attn_chunk_length": 4, **_SIZE, **_LONG, **_ENDS,
}  # fmt: skip
_GROUPS = ["q", "k", "v", "post_attention", "intermediate", "output"]

ARCHITECTURES: dict[str, dict[str, Any]] = {
    **FAMILIES,
    **OTHER_FAMILIES,
    "roberta-prelayernorm": _ROBERTA,
    "xmod": _ROBERTA | {"languages": ["en_XX"], "default_language": "en_XX"},
    "deberta": _BERT | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "rembert": _BERT | {"input_embedding_size": 8},
    "roformer": _BERT | _WIDE,
    "esm": _BERT | {"pad_token_id": 1, "mask_token_id": 3, "position_embedding_type": "rotary"},
    "luke": _BERT | {"entity_vocab_size": 5, "entity_emb_size": 8, "pad_token_id": 1},
    "mobilebert": _BERT
    | {"embedding_size": 8, "intra_bottleneck_size": 8, "true_hidden_size": 8, "num_feedforward_networks": 1},
    "squeezebert": _BERT | _WIDE | {f"{part}_groups": 1 for part in _GROUPS},
    "convbert": _BERT | _WIDE | {"head_ratio": 1, "conv_kernel_size": 3},
    "nystromformer": _BERT | {"segment_means_seq_len": 4, "num_landmarks": 4, "conv_kernel_size": 3},
    "yoso": _BERT | {"use_expectation": True, "max_position_embeddings": POSITIONS + 2},
    "fnet": _BERT,
    "mra": _BERT | _LONG,
    "big_bird": _BERT | _BLOCKS | _LONG,
    "longformer": _ROBERTA | {"attention_window": [4] * DEPTH, "max_position_embeddings": 66},
    "reformer": _CHUNKS | {"attn_layers": ["local"] * DEPTH},
    "xlnet": _SIZE | {"d_model": WIDTH, "n_layer": DEPTH, "n_head": 2, "d_inner": 24, "pad_token_id": 1},
    "xlm": _SIZE
    | {"emb_dim": WIDTH, "n_layers": DEPTH, "n_heads": 2, "max_position_embeddings": POSITIONS, "pad_index": 1},
    "mt5": _T5,
    "switch_transformers": _T5 | {"num_experts": 2, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1},
    "longt5": _T5 | {"local_radius": 2, "global_block_size": 2, "encoder_attention_type": "transient-global"},
    "mbart": _BART,
    "pegasus": _BART,
    "led": {name: value for name, value in _BART.items() if name != "max_position_embeddings"}
    | {"attention_window": [4] * DEPTH, "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64},
    "pegasus_x": _BART | _LONG | {"num_global_tokens": 2, "block_size": 4},
    "bigbird_pegasus": _BART | _BLOCKS | _LONG,
    "opt": _BERT | _ENDS | {"ffn_dim": 24, "word_embed_proj_dim": WIDTH},
    "bloom": _SIZE | _ENDS | {"hidden_size": WIDTH, "n_layer": DEPTH, "n_head": 2},
    "gpt_neox": _BERT | _ENDS,
    "gemma2": _LLAMA | {"sliding_window": 4},
    "mamba": _SIZE | _ENDS | {"hidden_size": WIDTH, "num_hidden_layers": DEPTH, "state_size": 4},
}
UNPADDED = {"mobilebert", "convbert", "nystromformer", "yoso", "fnet", "big_bird", "bigbird_pegasus", "reformer"}
"""Architectures whose vectors depend on padding."""
_PERCEIVER = {"d_model": WIDTH, "d_latents": WIDTH, "num_latents": 4, "num_self_attends_per_block": DEPTH}
REFUSED: dict[str, dict[str, dict[str, Any]]] = {
    "at random": {"reformer": _CHUNKS | {"attn_layers": ["local", "lsh", "local"]}},
    "no table of token embeddings": {
        "canine": {name: value for name, value in _BERT.items() if name != "vocab_size"},
        "perceiver": _SIZE | _PERCEIVER | {"num_self_attention_heads": 2, "num_cross_attention_heads": 2},
    },
    "depend on the text alone": {  # the capacity of its experts is a share of a batch's tokens
        "nllb-moe": _BART
        | {"num_experts": 4, "encoder_sparse_step": 1, "expert_capacity": 2, "moe_eval_capacity_token_fraction": 0.3},
    },
    "cannot read a short text": {"nystromformer": _BERT | {"segment_means_seq_len": 8, "num_landmarks": 4}},
}
"""Refused architectures, by a part of the error."""
