/* SPDX-License-Identifier: MIT */
/* The keys that people meet most, in words.  One of an architecture stands without its name. */
#include "gguf/key_meaning.h"

#include <stddef.h>
#include <string.h>

struct meaning {
    const char *key;         /* a * at its end stands for anything */
    const char *text;
};

static const struct meaning common[] = {
    { "general.architecture", "kind of model: says which keys and tensors belong to it" },
    { "general.type", "what the file is: model, adapter, imatrix, mmproj" },
    { "general.name", "name of the model" },
    { "general.author", "who made it" },
    { "general.version", "version of the model" },
    { "general.organization", "who published it" },
    { "general.basename", "name of the family, without size and version" },
    { "general.finetune", "what it was tuned for" },
    { "general.description", "about the model, for people" },
    { "general.size_label", "size as people call it: 7B is 7e9 parameters, 8x7B eight experts" },
    { "general.license", "licence, by its SPDX identifier" },
    { "general.license.name", "licence, its name" },
    { "general.license.link", "licence, where to read it" },
    { "general.url", "page of this file" },
    { "general.doi", "digital object identifier" },
    { "general.uuid", "unique identifier" },
    { "general.repo_url", "repository of this file" },
    { "general.source.*", "what it was made from" },
    { "general.quantized_by", "who made the smaller types" },
    { "general.alignment", "tensors begin at multiples of so many bytes (32 if not said)" },
    { "general.file_type", "number of the recipe for types that was asked for" },
    { "general.quantization_version", "version of the block layouts; 2 is today's" },
    { "general.base_model.count", "models it was tuned from" },
    { "general.base_model.*", "a model it was tuned from" },
    { "general.dataset.count", "data sets it was trained on" },
    { "general.dataset.*", "a data set it was trained on" },
    { "general.tags", "words to find it by" },
    { "general.languages", "languages it speaks" },
    { "general.sampling.sequence", "samplers, in the order the makers advise" },
    { "general.sampling.temp", "temperature the makers advise" },
    { "general.sampling.top_k", "top-k the makers advise" },
    { "general.sampling.top_p", "top-p the makers advise" },
    { "general.sampling.min_p", "min-p the makers advise" },
    { "general.sampling.*", "setting for sampling the makers advise" },
    { "split.no", "number of this shard, from 0" },
    { "split.count", "number of shards" },
    { "split.tensors.count", "tensors in all shards" },
    { "adapter.type", "kind of adapter" },
    { "adapter.lora.alpha", "LoRA: scale, divided by the rank" },
    { "adapter.alora.invocation_tokens", "aLoRA: ids that the adapter begins with" },
    { "adapter.*", "about the adapter" },
    { "imatrix.chunk_count", "chunks of text that were evaluated" },
    { "imatrix.chunk_size", "tokens of a chunk" },
    { "imatrix.datasets", "texts that were evaluated" },
    { "quantize.imatrix.*", "importance matrix the types were made with" },
    { "tokenizer.ggml.model", "how text is cut: llama (SentencePiece BPE), gpt2 (byte-level BPE), "
                              "bert (WordPiece), t5 (Unigram)" },
    { "tokenizer.ggml.pre", "rules by which text is cut in words first" },
    { "tokenizer.ggml.tokens", "text of each token; its place is its id" },
    { "tokenizer.ggml.scores", "score of each token: higher merges first" },
    { "tokenizer.ggml.token_type", "kind of each token: 1 normal, 2 unknown, 3 control, 4 user "
                                   "defined, 5 unused, 6 byte" },
    { "tokenizer.ggml.token_type_count", "kinds of segments a text can have" },
    { "tokenizer.ggml.merges", "pairs that are joined, the first first" },
    { "tokenizer.ggml.added_tokens", "tokens added to the vocabulary" },
    { "tokenizer.ggml.bos_token_id", "token that begins a text" },
    { "tokenizer.ggml.eos_token_id", "token that ends a text" },
    { "tokenizer.ggml.eot_token_id", "token that ends a turn of a chat" },
    { "tokenizer.ggml.eom_token_id", "token that ends a message" },
    { "tokenizer.ggml.unknown_token_id", "token for what no other says" },
    { "tokenizer.ggml.seperator_token_id", "token between texts" },
    { "tokenizer.ggml.padding_token_id", "token that fills up batches" },
    { "tokenizer.ggml.cls_token_id", "token that stands for the whole text" },
    { "tokenizer.ggml.mask_token_id", "token in the place of one to be guessed" },
    { "tokenizer.ggml.fim_*", "token for filling a gap in a text" },
    { "tokenizer.ggml.prefix_token_id", "token before the part before a gap" },
    { "tokenizer.ggml.suffix_token_id", "token before the part after a gap" },
    { "tokenizer.ggml.middle_token_id", "token before what fills a gap" },
    { "tokenizer.ggml.add_bos_token", "whether text gets the token that begins one" },
    { "tokenizer.ggml.add_eos_token", "whether text gets the token that ends one" },
    { "tokenizer.ggml.add_sep_token", "whether text gets a separator" },
    { "tokenizer.ggml.add_space_prefix", "whether a space is put before text" },
    { "tokenizer.ggml.remove_extra_whitespaces", "whether runs of spaces become one" },
    { "tokenizer.ggml.precompiled_charsmap", "characters replaced before text is cut" },
    { "tokenizer.huggingface.json", "the whole tokenizer, as Hugging Face's library has it" },
    { "tokenizer.chat_template", "template that makes a text of a chat (Jinja)" },
    { "tokenizer.chat_templates", "names of further chat templates" },
    { "tokenizer.chat_template.*", "another chat template" },
    { "lmpipe.provenance", "program and options that made the file" },
    { "xielu.*", "numbers of each layer's activation" },
    { NULL, NULL }
};

static const struct meaning of_arch[] = {
    { "vocab_size", "tokens of the vocabulary" },
    { "context_length", "positions it was trained for: the longest text, in tokens" },
    { "embedding_length", "width: numbers that stand for one token" },
    { "block_count", "layers, each with tensors blk.0, blk.1, ..." },
    { "decoder_block_count", "layers of the decoder" },
    { "feed_forward_length", "inner width of the feed-forward part of a layer" },
    { "leading_dense_block_count", "first layers that have no experts" },
    { "expert_count", "experts of a layer" },
    { "expert_used_count", "experts that a token goes through" },
    { "expert_shared_count", "experts that every token goes through" },
    { "expert_feed_forward_length", "inner width of an expert" },
    { "expert_shared_feed_forward_length", "inner width of the shared experts" },
    { "expert_weights_scale", "factor of what experts say" },
    { "expert_weights_norm", "whether the weights of the experts used sum to 1" },
    { "expert_gating_func", "how experts are weighed: 1 softmax, 2 sigmoid, 3 softmax of the "
                            "chosen, 4 sqrt(softplus)" },
    { "expert_group_count", "groups that experts are in" },
    { "expert_group_used_count", "groups that a token's experts are from" },
    { "use_parallel_residual", "whether attention and feed-forward have the same input" },
    { "logit_scale", "factor of the logits" },
    { "embedding_scale", "factor of the embeddings" },
    { "residual_scale", "factor of what each part of a layer adds" },
    { "hidden_activation", "function between the products of a feed-forward" },
    { "attn_logit_softcapping", "limit of attention scores" },
    { "final_logit_softcapping", "limit of the logits" },
    { "decoder_start_token_id", "token that the decoder begins with" },
    { "pooling_type", "how one vector is made of all: 1 mean, 2 first, 3 last, 4 rank" },
    { "full_attention_interval", "every so many layers have attention, others a state" },
    { "attention.head_count", "heads of attention" },
    { "attention.head_count_kv", "heads that keys and values have: fewer take less memory" },
    { "attention.key_length", "numbers of a key, for one head" },
    { "attention.value_length", "numbers of a value, for one head" },
    { "attention.key_length_mla", "numbers of a key, once unfolded" },
    { "attention.value_length_mla", "numbers of a value, once unfolded" },
    { "attention.q_lora_rank", "numbers that queries are folded to" },
    { "attention.kv_lora_rank", "numbers that keys and values are folded to" },
    { "attention.layer_norm_epsilon", "what normalization adds, to divide by no 0" },
    { "attention.layer_norm_rms_epsilon", "what normalization adds, to divide by no 0" },
    { "attention.causal", "whether a token sees only those before it" },
    { "attention.sliding_window", "positions back that layers with a window see" },
    { "attention.sliding_window_pattern", "which layers have a window" },
    { "attention.recurrent_layers", "which layers have a state instead of attention" },
    { "attention.scale", "factor of attention scores" },
    { "attention.clamp_kqv", "limit of queries, keys and values" },
    { "attention.max_alibi_bias", "slope of the bias for distance" },
    { "rope.dimension_count", "numbers of a head that are turned by position" },
    { "rope.dimension_sections", "numbers of a head turned by each kind of position" },
    { "rope.freq_base", "base of the frequencies that positions turn with" },
    { "rope.freq_base_swa", "the same in layers with a window" },
    { "rope.scaling.type", "how positions are stretched beyond training" },
    { "rope.scaling.factor", "by how much positions are stretched" },
    { "rope.scaling.original_context_length", "positions before they were stretched" },
    { "rope.scaling.attn_factor", "factor of attention with stretched positions" },
    { "rope.scaling.*", "how positions are stretched beyond training" },
    { "ssm.conv_kernel", "recurrent layers: tokens that the convolution sees" },
    { "ssm.inner_size", "recurrent layers: inner width" },
    { "ssm.state_size", "recurrent layers: numbers remembered for each of the width" },
    { "ssm.time_step_rank", "recurrent layers: heads, or rank of the time step" },
    { "ssm.group_count", "recurrent layers: groups that share numbers" },
    { "shortconv.l_cache", "tokens that the short convolution sees" },
    { "wkv.head_size", "recurrent layers: numbers of a head" },
    { "token_shift_count", "recurrent layers: earlier inputs kept" },
    { NULL, NULL }
};

static const char *look_up(const struct meaning *list, const char *key)
{
    for (; list->key; list++) {
        size_t n = strlen(list->key);
        if (list->key[n - 1] == '*' ? !strncmp(key, list->key, n - 1) : !strcmp(key, list->key))
            return list->text;
    }
    return NULL;
}

const char *lm_key_meaning(const char *key, const char *arch)
{
    size_t n = strlen(arch);
    const char *text = look_up(common, key);
    if (!text && n && !strncmp(key, arch, n) && key[n] == '.')
        text = look_up(of_arch, key + n + 1);
    return text;
}
