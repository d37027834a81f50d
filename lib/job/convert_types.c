/* SPDX-License-Identifier: MIT */
/* Which type each tensor of the file gets. */

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/size.h"
#include "base/text.h"
#include "job/convert_parts.h"
#include "quant/mix.h"

/* Types that converting alone makes; file_type is general.file_type.  Others are mixes. */
static const struct {
    const char *name;
    int         type_id;
    uint32_t    file_type;
} outputs[] = {
    { "f32", LM_F32, 0 }, { "f16", LM_F16, 1 }, { "bf16", LM_BF16, 32 }, { "q8_0", LM_Q8_0, 7 },
};

/* Weights that stay F32 whatever the file's type, besides vectors and what is no ".weight". */
static const char *const always_f32[] = {
    "_norm.weight", "ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight", "position_embd.weight",
    "token_types.weight", "ssm_conv1d.weight", "ssm_conv1d_q.weight", "ssm_conv1d_k.weight",
    "ssm_conv1d_v.weight", "shortconv.conv.weight", "indexer.proj.weight",
    "altup_correct_coef.weight", "altup_predict_coef.weight",
};

/* The tensor's type in a file of type `main`. */
static const struct lm_type *tensor_type(const struct lm_convert_tensor *t,
                                         const struct lm_type *main)
{
    bool f32 = t->n_dims < 2 || !lm_ends_with(t->name, ".weight");
    for (size_t i = 0; i < sizeof always_f32 / sizeof *always_f32; i++)
        f32 = f32 || lm_ends_with(t->name, always_f32[i]);
    if (f32)
        return lm_type_by_id(LM_F32);
    return t->ne[0] % main->block ? lm_type_by_id(LM_F16) : main;
}

/* The first tensor with two axes and 16 bits decides what `auto` means; `none` if there is no
 * such tensor, NULL with *err filled if that one has not come yet. */
static const char *auto_type(const struct lm_convert *c, const char *none, struct lm_err *err)
{
    for (size_t i = 0; i < c->n_items; i++) {
        const struct lm_convert_item *it = &c->items[i];
        const struct lm_st_tensor *st = it->n_sources ? it->sources[0].st : NULL;
        if (!st && it->n_sources) {
            lm_fail(err, LM_ENOSUP, "%s decides the type and has not come through the pipe: give "
                    "-T TYPE", it->t.file);
            return NULL;
        }
        if (st && it->t.n_dims >= 2 && st->dtype->bytes == 2)
            return st->dtype->type_id == LM_BF16 ? "bf16" : "f16";
    }
    return none;
}

/* Bytes of every tensor, now that their types are known. */
static int set_sizes(struct lm_convert *c, struct lm_err *err)
{
    for (size_t i = 0; i < c->n_items; i++) {
        struct lm_convert_tensor *t = &c->items[i].t;
        bool ok = lm_type_row_bytes(t->type, t->ne[0], &t->bytes);
        for (uint32_t d = 1; ok && d < t->n_dims; d++)
            ok = lm_mul_u64(t->bytes, t->ne[d], &t->bytes);
        if (!ok)
            return lm_fail(err, LM_EDATA, "%s: more than 64 bits of bytes", t->name);
    }
    return LM_OK;
}

/* The type of weights that are blocks in the checkpoint and stay what they are, or NULL. */
const struct lm_type *lm_convert_kept_type(const struct lm_convert_item *it)
{
    const struct lm_st_tensor *st = it->n_sources ? it->sources[0].st : NULL;
    return st && st->packed && st->packed->type->block > 1 ? st->packed->type : NULL;
}

enum { FILE_TYPE_Q8_0 = 7, FILE_TYPE_MXFP4 = 38, FILE_TYPE_NVFP4 = 39 };

/* Are the weights floats of 8 bits in the checkpoint? */
static bool is_fp8(const struct lm_convert_item *it)
{
    const struct lm_st_tensor *st = it->n_sources ? it->sources[0].st : NULL;
    return st && st->packed && st->packed->kind == LM_PACKED_SCALED &&
           !strncmp(st->packed->part[LM_PART_DATA].st->dtype->name, "F8_", 3);
}

/* The types of a plain file of type c->type. */
static void set_plain_types(struct lm_convert *c, bool fp8_as_q8)
{
    const struct lm_convert_tensor *first = NULL;
    size_t kept = 0;
    for (size_t i = 0; i < c->n_items; i++) {
        struct lm_convert_tensor *t = &c->items[i].t;
        const struct lm_type *same = lm_convert_kept_type(&c->items[i]);
        if (same) {
            t->type = same;
            c->file_type = c->type->block > 1      ? c->file_type
                           : same->id == LM_MXFP4 ? FILE_TYPE_MXFP4 : FILE_TYPE_NVFP4;
            continue;
        }
        t->type = tensor_type(t, c->type);
        if (fp8_as_q8 && is_fp8(&c->items[i]) && t->type == c->type &&
            t->ne[0] % lm_type_by_id(LM_Q8_0)->block == 0) {
            t->type = lm_type_by_id(LM_Q8_0);
            c->file_type = FILE_TYPE_Q8_0;
            continue;
        }
        if (t->type != c->type && t->type->id == LM_F16 && !kept++)
            first = t;
    }
    if (kept)
        lm_note(c->env, LM_WARN, "%s%s: rows of %llu do not suit %s: f16 instead", first->name,
                kept > 1 ? " and others" : "", (unsigned long long)first->ne[0], c->type->name);
}

/* What a mix makes of a tensor must be something that can be made here. */
static int take_target(const struct lm_convert *c, struct lm_convert_tensor *t,
                       const struct lm_mix_tensor *m, struct lm_err *err)
{
    if (m->target != m->source && m->source->block > 1)
        return lm_fail(err, LM_EUSE, "tensor %s is %s in the checkpoint and would be %s: convert "
                       "first, then use quantize --allow-requantize", t->name, m->source->name,
                       m->target->name);
    if (m->target != m->source && !m->target->encode)
        return lm_fail(err, LM_ENOSUP, "tensor %s would be %s, a type that this version cannot "
                       "produce", t->name, m->target->name);
    if (m->target != m->wanted)
        lm_note(c->env, LM_INFO, "%s: rows of %llu do not suit %s: %s instead", t->name,
                (unsigned long long)t->ne[0], m->wanted->name, m->target->name);
    t->type = m->target;
    return LM_OK;
}

/* The types that quantize gives the tensors of the plain file; weights in float32 are not
 * rounded to 16 bits on the way. */
static int set_mix_types(struct lm_convert *c, const struct lm_file_type *ft,
                         const struct lm_convert_options *o, struct lm_err *err)
{
    const struct lm_hparams *h = &c->cfg.h;
    const struct lm_mix mix = {
        .file_type = ft, .arch = c->cfg.arch->name, .n_layers = h->n_layer,
        .n_experts = h->n_expert, .n_heads = h->n_head, .n_heads_kv = h->n_head_kv,
        .have_weights = o->weights.importance != NULL,
    };
    struct lm_mix_tensor *m = lm_malloc_array(c->n_items + 1, sizeof *m);
    int r = LM_OK;
    if (!m)
        return lm_fail_nomem(err);
    for (size_t i = 0; i < c->n_items; i++) {
        const struct lm_convert_tensor *t = &c->items[i].t;
        const struct lm_type *kept = lm_convert_kept_type(&c->items[i]);
        m[i] = (struct lm_mix_tensor){ .name = t->name,
                                       .source = kept ? kept : tensor_type(t, c->type) };
        for (uint32_t d = 0; d < 4; d++)
            m[i].ne[d] = t->ne[d];
    }
    r = lm_mix_choose(&mix, m, c->n_items, err);
    if (!r)
        r = lm_weights_check(&o->weights, m, c->n_items, c->env, err);
    for (size_t i = 0; !r && i < c->n_items; i++) {
        bool wrong;
        r = take_target(c, &c->items[i].t, &m[i], err);
        if (m[i].target != m[i].source)
            c->items[i].weights = lm_weights_of(&o->weights, &m[i], &wrong);
    }
    free(m);
    c->file_type = (uint32_t)ft->id;
    c->mixed = true;
    return r;
}

bool lm_convert_knows_type(const char *name)
{
    const struct lm_file_type *ft = lm_file_type_by_name(name);
    return !strcasecmp(name, "auto") || (ft && ft->id != LM_FT_COPY);
}

const char *lm_convert_type_name(const struct lm_convert *c)
{
    const struct lm_file_type *f = lm_file_types;
    while (f->name && f->id != (int)c->file_type)
        f++;
    return f->name ? f->name : c->type->name;
}

int lm_convert_types(struct lm_convert *c, const struct lm_convert_options *o, struct lm_err *err)
{
    const char *type = o->type;
    const bool automatic = !type || !strcasecmp(type, "auto");
    const struct lm_file_type *ft = automatic ? NULL : lm_file_type_by_name(type);
    const char *plain = ft ? ft->name : NULL;
    if (!automatic && !lm_convert_knows_type(type))
        return lm_fail(err, LM_EUSE, "unknown type %.40s", type);
    bool mixed = !automatic;
    for (size_t i = 0; plain && i < sizeof outputs / sizeof *outputs; i++)
        mixed = mixed && strcasecmp(plain, outputs[i].name);
    if (automatic || mixed)
        plain = auto_type(c, mixed ? "f32" : "f16", err);
    if (!plain)
        return LM_ENOSUP;
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        if (!strcasecmp(outputs[i].name, plain)) {
            c->type = lm_type_by_id((uint32_t)outputs[i].type_id);
            c->file_type = outputs[i].file_type;
        }
    int r = LM_OK;
    if (o->weights.importance && !mixed)
        return lm_fail(err, LM_EUSE, "--imatrix: %s needs none: give -T with a type of quantize",
                       plain);
    if (o->fp8_as_q8 && mixed)
        return lm_fail(err, LM_EUSE, "--fp8-as-q8: %s says what all weights become",
                       ft->name);
    if (mixed)
        r = set_mix_types(c, ft, o, err);
    else
        set_plain_types(c, o->fp8_as_q8);
    return r ? r : set_sizes(c, err);
}

int lm_convert_pair_types(struct lm_convert *c, const char *type, struct lm_err *err)
{
    const bool automatic = !type || !strcasecmp(type, "auto");
    c->type = automatic && c->n_items ? lm_convert_value_type(c->items[0].sources[0].st) : NULL;
    for (size_t i = 0; !automatic && i < sizeof outputs / sizeof *outputs; i++)
        if (!strcasecmp(outputs[i].name, type))
            c->type = lm_type_by_id((uint32_t)outputs[i].type_id);
    if (!c->type || c->type->block > 1 || c->type->bytes > 4)
        return lm_fail(err, LM_EUSE, "an adapter can be made f32, f16 or bf16, not %.40s",
                       automatic ? c->type ? c->type->name : "nothing" : type);
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        if (outputs[i].type_id == (int)c->type->id)
            c->file_type = outputs[i].file_type;
    for (size_t i = 0; i < c->n_items; i++)
        c->items[i].t.type = c->type;
    return set_sizes(c, err);
}
