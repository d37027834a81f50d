/* SPDX-License-Identifier: MIT */
/*
 * Models that see or hear: their language model is one of a known family, whose numbers stand in
 * text_config and whose tensors have something before their names.
 */

#include <stdio.h>
#include <string.h>

#include "job/convert_parts.h"

/*
 * Classes of such models; the class of the language model, or NULL: text_config says it.  Where
 * the model is a part of a part, that part is the object `in` of config.json, and its tensors are
 * those whose names begin with `own`: others are not the language model's.
 */
static const struct {
    const char *class, *text, *in, *own;
} wrappers[] = {
    { "AudioFlamingo3ForConditionalGeneration", NULL, NULL, NULL },
    { "AyaVisionForConditionalGeneration", NULL, NULL, NULL },
    { "Cohere2VisionForConditionalGeneration", NULL, NULL, NULL },
    { "DotsOCRForCausalLM", "Qwen2ForCausalLM", NULL, NULL },
    { "Exaone4_5_ForConditionalGeneration", "Exaone4ForCausalLM", NULL, NULL },
    { "Gemma3ForConditionalGeneration", "Gemma3ForCausalLM", NULL, NULL },
    { "Gemma3nForConditionalGeneration", "Gemma3nForCausalLM", NULL, NULL },
    { "Gemma4ForConditionalGeneration", "Gemma4ForCausalLM", NULL, NULL },
    { "Gemma4UnifiedForConditionalGeneration", "Gemma4ForCausalLM", NULL, NULL },
    { "Glm4vForConditionalGeneration", "Glm4vForConditionalGeneration", NULL, NULL },
    { "Glm4vMoeForConditionalGeneration", "Glm4vMoeForConditionalGeneration", NULL, NULL },
    { "GlmOcrForConditionalGeneration", "GlmOcrForConditionalGeneration", NULL, NULL },
    { "Idefics3ForConditionalGeneration", NULL, NULL, NULL },
    { "InternVLForConditionalGeneration", NULL, NULL, NULL },
    { "JanusForConditionalGeneration", NULL, NULL, NULL },
    { "KimiK25ForConditionalGeneration", "DeepseekV3ForCausalLM", NULL, NULL },
    { "KimiVLForConditionalGeneration", "DeepseekV3ForCausalLM", NULL, NULL },
    { "Kimi_K25ForConditionalGeneration", "DeepseekV3ForCausalLM", NULL, NULL },
    { "Lfm2VlForConditionalGeneration", NULL, NULL, NULL },
    { "LightOnOCRForConditionalGeneration", NULL, NULL, NULL },
    { "LightOnOcrForConditionalGeneration", NULL, NULL, NULL },
    { "Llama4ForConditionalGeneration", "Llama4ForCausalLM", NULL, NULL },
    { "LlavaForConditionalGeneration", NULL, NULL, NULL },
    { "LlavaNextForConditionalGeneration", NULL, NULL, NULL },
    { "LlavaNextVideoForConditionalGeneration", NULL, NULL, NULL },
    { "LlavaOnevisionForConditionalGeneration", NULL, NULL, NULL },
    { "MiniCPMV4_6ForConditionalGeneration", "Qwen3_5ForCausalLM", NULL, NULL },
    { "Mistral3ForConditionalGeneration", NULL, NULL, NULL },
    { "Phi4ForCausalLMV", "Phi3ForCausalLM", NULL, NULL },
    { "Qwen2AudioForConditionalGeneration", NULL, NULL, NULL },
    { "Qwen2VLForConditionalGeneration", "Qwen2VLForConditionalGeneration", NULL, NULL },
    { "Qwen2VLModel", "Qwen2VLModel", NULL, NULL },
    { "Qwen2_5OmniForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration",
      "thinker_config", "thinker." },
    { "Qwen2_5OmniModel", "Qwen2_5_VLForConditionalGeneration", "thinker_config", "thinker." },
    { "Qwen2_5_VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration", NULL, NULL },
    { "Qwen3ASRForConditionalGeneration", "Qwen3VLForConditionalGeneration", "thinker_config",
      "thinker." },
    { "Qwen3OmniMoeForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration",
      "thinker_config", "thinker." },
    { "Qwen3VLForConditionalGeneration", "Qwen3VLForConditionalGeneration", NULL, NULL },
    { "Qwen3VLMoeForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration", NULL, NULL },
    { "Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM", NULL, NULL },
    { "Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM", NULL, NULL },
    { "Sarashina2VisionForCausalLM", NULL, NULL, "llm." },
    { "SmolVLMForConditionalGeneration", NULL, NULL, NULL },
    { "StepVLForConditionalGeneration", "Qwen3ForCausalLM", NULL, NULL },
    { "VideoLlavaForConditionalGeneration", NULL, NULL, NULL },
    { "VipLlavaForConditionalGeneration", NULL, NULL, NULL },
    { "VoxtralForConditionalGeneration", NULL, NULL, NULL },
    { "YoutuVLForConditionalGeneration", "YoutuForCausalLM", NULL, NULL },
};

/* What text_config.model_type stands for, and what its class has where the file, which often says
 * only what is otherwise, is silent. */
static const struct {
    const char *type, *class, *defaults;
} families[] = {
    { "cohere2", "Cohere2ForCausalLM",
      "{\"max_position_embeddings\":8192,\"layer_norm_eps\":1e-5,\"sliding_window\":4096}" },
    { "deepseek_v3", "DeepseekV3ForCausalLM", NULL },
    { "kimi_k2", "DeepseekV3ForCausalLM", NULL },
    { "exaone4", "Exaone4ForCausalLM", NULL },
    { "gemma", "GemmaForCausalLM",
      "{\"max_position_embeddings\":8192,\"head_dim\":256,\"rms_norm_eps\":1e-6}" },
    { "gemma2", "Gemma2ForCausalLM",
      "{\"max_position_embeddings\":8192,\"head_dim\":256,\"rms_norm_eps\":1e-6,"
      "\"sliding_window\":4096,\"final_logit_softcapping\":30,\"attn_logit_softcapping\":50}" },
    { "gemma3_text", "Gemma3ForCausalLM",
      "{\"hidden_size\":2304,\"intermediate_size\":9216,\"num_hidden_layers\":26,"
      "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":256,"
      "\"vocab_size\":262208,\"max_position_embeddings\":131072,\"sliding_window\":4096}" },
    { "gemma3n_text", "Gemma3nForCausalLM", NULL },
    { "gemma4_text", "Gemma4ForCausalLM", NULL },
    { "granite", "GraniteForCausalLM", NULL },
    { "lfm2", "Lfm2ForCausalLM", NULL },
    { "llama", "LlamaForCausalLM",
      "{\"hidden_size\":4096,\"intermediate_size\":11008,\"num_hidden_layers\":32,"
      "\"num_attention_heads\":32,\"vocab_size\":32000,\"max_position_embeddings\":2048}" },
    { "llama4_text", "Llama4ForCausalLM", NULL },
    { "ministral3", "Ministral3ForCausalLM", NULL },
    { "mistral4", "Mistral4ForCausalLM", NULL },
    { "mistral", "MistralForCausalLM",
      "{\"hidden_size\":4096,\"intermediate_size\":14336,\"num_hidden_layers\":32,"
      "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"vocab_size\":32000,"
      "\"max_position_embeddings\":131072}" },
    { "mixtral", "MixtralForCausalLM", NULL },
    { "phi3", "Phi3ForCausalLM", NULL },
    { "qwen2", "Qwen2ForCausalLM",
      "{\"max_position_embeddings\":32768,\"num_attention_heads\":32}" },
    { "qwen2_moe", "Qwen2MoeForCausalLM", NULL },
    { "qwen3", "Qwen3ForCausalLM", "{\"max_position_embeddings\":32768}" },
    { "qwen3_5_text", "Qwen3_5ForCausalLM", NULL },
    { "qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", NULL },
    { "qwen3_moe", "Qwen3MoeForCausalLM", NULL },
    { "smollm3", "SmolLM3ForCausalLM", NULL },
};

enum { N_WRAPPERS = sizeof wrappers / sizeof *wrappers,
       N_FAMILIES = sizeof families / sizeof *families };

/* What stands before the language model's names, and what is put there instead. */
static const struct {
    const char *was, *is;
} renames[] = {
    { "model.language_model.", "model." },
    { "model.text_model.", "model." },
    { "language_model.model.", "model." },
    { "language_model.", "" },
};

/* Parts that are not the language model's, by the words that begin their names, "model." before
 * them or not. */
static const char *const others[] = {
    "aligner.", "audio_", "connector.", "embed_audio.", "embed_vision.", "generation_",
    "image_newline", "merger.", "mlp1.", "mm_projector.", "multi_modal_projector.",
    "multimodal_projector.", "siglip2.", "vision_", "visual.", "vit_", "vqmodel.",
};

static bool begins(const char *s, const char *with)
{
    return !strncmp(s, with, strlen(with));
}

const char *lm_convert_text_name(const struct lm_convert *c, const char *name, char *dst,
                                 size_t size)
{
    if (!c->cfg.wrapped)
        return name;
    const size_t own = c->cfg.own_names ? strlen(c->cfg.own_names) : 0;
    if (own && !begins(name, c->cfg.own_names))
        return NULL;
    name += own;
    const char *bare = begins(name, "model.") ? name + 6 : name;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (begins(bare, others[i]))
            return NULL;
    for (size_t i = 0; i < sizeof renames / sizeof *renames; i++)
        if (begins(name, renames[i].was)) {
            snprintf(dst, size, "%s%s", renames[i].is, name + strlen(renames[i].was));
            return dst;
        }
    return name;
}

const char *lm_convert_wrapper(size_t i, const char **arch)
{
    if (i >= N_WRAPPERS)
        return NULL;
    *arch = wrappers[i].text ? lm_arch_by_class(wrappers[i].text)->name : "text_config";
    return wrappers[i].class;
}

/* The members of an object that are not null, in front of `then`; all of it is the arena's. */
static bool put_before(struct lm_arena *a, const struct lm_jval *object,
                       const struct lm_jval **then)
{
    const struct lm_jval *first = NULL;
    struct lm_jval *last = NULL;
    for (const struct lm_jval *m = object ? object->first : NULL; m; m = m->next) {
        if (m->kind == LM_JSON_NULL)
            continue;
        struct lm_jval *copy = lm_arena_array(a, 1, sizeof *copy);
        if (!copy)
            return false;
        *copy = *m;
        copy->next = *then;
        if (last)
            last->next = copy;
        else
            first = copy;
        last = copy;
    }
    *then = first ? first : *then;
    return true;
}

/* Of members of the same name the last counts: a class's defaults, what the file says of the
 * whole, of a part of it (or NULL), of the text, and whether the part or whole ties its ends. */
static int merge(struct lm_convert *c, const struct lm_jval *part, const struct lm_jval *text,
                 const char *defaults, struct lm_err *err)
{
    const struct lm_jval *outer = c->cfg.json, *first = NULL, *base = NULL;
    const struct lm_jval *tied = lm_jval_get(part ? part : outer, "tie_word_embeddings");
    struct lm_jval *all = lm_arena_array(&c->arena, 1, sizeof *all);
    struct lm_jval own = { .kind = LM_JSON_OBJECT };
    if (defaults && !(base = lm_json_tree(&c->arena, defaults, strlen(defaults), err)))
        return err->code;
    struct lm_jval flag = tied ? *tied : own;
    flag.next = NULL;
    own.first = tied ? &flag : NULL;
    if (!all || !put_before(&c->arena, &own, &first) || !put_before(&c->arena, text, &first) ||
        !put_before(&c->arena, part, &first) || !put_before(&c->arena, outer, &first) ||
        !put_before(&c->arena, base, &first))
        return lm_fail_nomem(err);
    *all = (struct lm_jval){ .kind = LM_JSON_OBJECT, .first = first };
    for (const struct lm_jval *m = first; m; m = m->next)
        all->len++;
    c->cfg.json = all;
    return LM_OK;
}

int lm_convert_unwrap(struct lm_convert *c, struct lm_err *err)
{
    size_t w = 0, f = 0;
    while (w < N_WRAPPERS && strcmp(wrappers[w].class, c->cfg.class))
        w++;
    if (w == N_WRAPPERS)
        return LM_OK;
    const char *in = wrappers[w].in;
    const struct lm_jval *part = in ? lm_jval_get(c->cfg.json, in) : NULL;
    const struct lm_jval *text = lm_jval_get(part ? part : c->cfg.json, "text_config");
    const char *type = lm_jval_str(lm_jval_get(text, "model_type"));
    while (f < N_FAMILIES && (!type || strcmp(families[f].type, type)))
        f++;
    c->cfg.wrapped = true;
    c->cfg.own_names = part || !in ? wrappers[w].own : NULL;
    if (f == N_FAMILIES && !wrappers[w].text)
        return lm_fail(err, LM_ENOSUP, "config.json: %.60s with a language model of type %.60s "
                       "cannot be converted", c->cfg.class, type ? type : "not said");
    c->cfg.class = wrappers[w].text ? wrappers[w].text : families[f].class;
    return text ? merge(c, part, text, f < N_FAMILIES ? families[f].defaults : NULL, err) : LM_OK;
}
