/* SPDX-License-Identifier: MIT */
/* The listing: header, totals, metadata, tensors; and single values. */
#include "cli/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/json.h"
#include "cli/cli.h"
#include "gguf/gguf_text.h"
#include "gguf/key_meaning.h"
#include "hf/safetensors.h"
#include "job/totals.h"
#include "quant/mix.h"

#define SHORT_VALUE     64  /* bytes of a value that a listing shows                */
#define EXPLAINED_VALUE 24  /* the same when there is something to say beside it    */

/* A file of a listing. */
struct listed {
    const struct cli_inspect *o;
    const struct lm_gguf     *g;
    const char               *name;
    struct lm_str             arch;
    struct lm_totals          totals;
};

static bool wants_all(const struct cli_inspect *o)
{
    return !o->kv && !o->tensors && !o->totals;
}

/* ---- rows ----------------------------------------------------------------- */

static const char *const entry_heads[] = { "KEY", "TYPE", "VALUE", "MEANING" };

/* Programs get values whole. */
static size_t value_limit(const struct cli_inspect *o)
{
    if (o->full || o->form == CLI_TSV)
        return 0;
    return o->explain ? EXPLAINED_VALUE : SHORT_VALUE;
}

static void fill_entry(void *arg, uint64_t row, struct lm_buf *cells)
{
    const struct listed *l = arg;
    const struct lm_gguf_kv *kv = &l->g->kv[row];
    const char *meaning = l->o->explain ? lm_key_meaning(kv->key.p, l->arch.p) : NULL;
    lm_buf_escape(&cells[0], kv->key.p, kv->key.len);
    lm_gguf_kind_text(&cells[1], kv);
    lm_gguf_value_text(&cells[2], kv, value_limit(l->o));
    if (l->o->explain)
        lm_buf_str(&cells[3], meaning ? meaning : "-");
}

static const char *const tensor_heads[] = { "TENSOR", "TYPE", "SHAPE", "OFFSET", "BYTES",
                                            "PARAMETERS", "BITS" };

/* Bits a parameter takes; whole numbers without a fraction. */
static void put_bits(struct lm_buf *out, double bits)
{
    lm_buf_printf(out, "%.6g", bits);
}

static void fill_tensor(void *arg, uint64_t row, struct lm_buf *cells)
{
    const struct listed *l = arg;
    const struct lm_gguf_tensor *t = &l->g->tensors[row];
    uint64_t n;
    lm_buf_escape(&cells[0], t->name.p, t->name.len);
    cli_put_type(&cells[1], t);
    cli_put_shape(&cells[2], t);
    lm_buf_u64(&cells[3], t->offset);
    lm_buf_u64(&cells[4], t->bytes);
    if (lm_totals_weights(t, &n))
        lm_buf_u64(&cells[5], n);
    else
        lm_buf_byte(&cells[5], '-');
    if (t->type)
        put_bits(&cells[6], lm_totals_bits(t->type->block, t->type->bytes));
    else
        lm_buf_byte(&cells[6], '-');
}

static const char *const type_heads[] = { "TYPE", "TENSORS", "PARAMETERS", "BYTES", "BITS" };

static void fill_type(void *arg, uint64_t row, struct lm_buf *cells)
{
    const struct lm_totals_type *t = &((const struct listed *)arg)->totals.types[row];
    lm_buf_str(&cells[0], t->type->name);
    lm_buf_u64(&cells[1], t->n_tensors);
    lm_buf_u64(&cells[2], t->n_weights);
    lm_buf_u64(&cells[3], t->bytes);
    put_bits(&cells[4], lm_totals_bits(t->n_weights, t->bytes));
}

/* ---- text, TSV, Markdown --------------------------------------------------- */

/* A line of the head: its name, padded or followed by a tab, or as an item of a list. */
static void head_line(const struct cli_inspect *o, struct lm_buf *out, const char *name)
{
    if (o->form == CLI_TEXT)
        lm_buf_printf(out, "%-13s", name);
    else
        lm_buf_printf(out, o->form == CLI_TSV ? "%s\t" : "- %s: ", name);
}

/* The recipe by which types were chosen, if its number has a name. */
static void put_file_type(struct lm_buf *out, uint32_t id)
{
    char number[16];
    snprintf(number, sizeof number, "%" PRIu32, id & ~(uint32_t)LM_FT_GUESSED);
    const struct lm_file_type *t = lm_file_type_by_name(number);
    if (t)
        lm_buf_printf(out, ", made as %s", t->name);
}

/* What the file is for, as its metadata say. */
static void put_kind(const struct listed *l, struct lm_buf *out)
{
    struct lm_str type = { 0 };
    uint32_t id, no, count;
    const bool said = lm_gguf_str(l->g, "general.type", &type, NULL) == LM_OK;
    head_line(l->o, out, "kind");
    if (said)
        lm_buf_escape(out, type.p, type.len);
    else if (l->arch.len == 13 && !memcmp(l->arch.p, "controlvector", 13))
        lm_buf_str(out, "control vector");
    else
        lm_buf_str(out, l->arch.len ? "model" : "tensors");
    if (l->arch.len) {
        lm_buf_str(out, ", architecture ");
        lm_buf_escape(out, l->arch.p, l->arch.len);
    }
    if (lm_gguf_u32(l->g, "general.file_type", &id, NULL) == LM_OK)
        put_file_type(out, id);
    if (lm_gguf_u32(l->g, "split.no", &no, NULL) == LM_OK &&
        lm_gguf_u32(l->g, "split.count", &count, NULL) == LM_OK && count > 1)
        lm_buf_printf(out, ", shard %" PRIu64 " of %" PRIu32, (uint64_t)no + 1, count);
    else if (!l->g->n_tensors && lm_gguf_kv(l->g, "tokenizer.ggml.tokens"))
        lm_buf_str(out, ", a vocabulary only");
    else if (lm_gguf_tensor(l->g, "token_embd.weight") && !lm_gguf_tensor(l->g, "output.weight"))
        lm_buf_str(out, ", output shared with token_embd.weight");
    lm_buf_byte(out, '\n');
}

static void put_parameters(const struct listed *l, struct lm_buf *out)
{
    const struct lm_totals *t = &l->totals;
    head_line(l->o, out, "parameters");
    lm_buf_printf(out, "%" PRIu64, t->n_weights);
    if (t->n_weights)
        lm_buf_printf(out, ", %.3f bits each", lm_totals_bits(t->n_weights, t->bytes));
    if (t->n_unknown)
        lm_buf_printf(out, ", without %" PRIu64 " tensors that cannot be counted", t->n_unknown);
    lm_buf_byte(out, '\n');
    if (!t->n_expert_weights)
        return;
    head_line(l->o, out, "experts");
    lm_buf_printf(out, "%" PRIu64 " parameters", t->n_expert_weights);
    if (t->n_experts && t->n_used)
        lm_buf_printf(out, ", a token uses %" PRIu32 " of %" PRIu32 ": %" PRIu64
                      " parameters in all", t->n_used, t->n_experts, t->n_active);
    lm_buf_byte(out, '\n');
}

static void put_head(const struct listed *l, struct lm_buf *out)
{
    const struct lm_gguf *g = l->g;
    if (l->o->form == CLI_MARKDOWN) {
        lm_buf_str(out, "# ");
        lm_buf_escape(out, l->name, strlen(l->name));
        lm_buf_str(out, "\n\n");
    } else {
        head_line(l->o, out, "file");
        lm_buf_escape(out, l->name, strlen(l->name));
        lm_buf_byte(out, '\n');
    }
    put_kind(l, out);
    head_line(l->o, out, "version");
    lm_buf_printf(out, "%" PRIu32 ", %s-endian\n", g->version, g->big_endian ? "big" : "little");
    head_line(l->o, out, "metadata");
    lm_buf_printf(out, "%" PRIu64 " entries\n", g->n_kv);
    head_line(l->o, out, "tensors");
    lm_buf_printf(out, "%" PRIu64 ", %" PRIu64 " bytes\n", g->n_tensors, l->totals.bytes);
    put_parameters(l, out);
    head_line(l->o, out, "alignment");
    lm_buf_printf(out, "%" PRIu64 "\n", g->alignment);
    head_line(l->o, out, "data offset");
    lm_buf_printf(out, "%" PRIu64 "\n", g->data_offset);
}

static void show_tables(struct listed *l, bool first, struct lm_buf *out)
{
    const struct cli_inspect *o = l->o;
    const struct cli_table types = { 5, type_heads, l->totals.n_types, fill_type, l };
    const struct cli_table entries = { o->explain ? 4 : 3, entry_heads, l->g->n_kv, fill_entry, l };
    const struct cli_table tensors = { 7, tensor_heads, l->g->n_tensors, fill_tensor, l };
    const bool all = wants_all(o);
    if (!first)
        lm_buf_byte(out, '\n');
    if (all || o->totals) {
        put_head(l, out);
        lm_buf_byte(out, '\n');
        cli_table(out, &types, o->form);
    }
    if (o->totals && (o->kv || o->tensors))
        lm_buf_byte(out, '\n');
    if (all)
        lm_buf_byte(out, '\n');
    if (all || o->kv)
        cli_table(out, &entries, o->form);
    if (all || (o->kv && o->tensors))
        lm_buf_byte(out, '\n');
    if (all || o->tensors)
        cli_table(out, &tensors, o->form);
}

/* ---- JSON ------------------------------------------------------------------ */

static void json_totals(const struct listed *l, struct lm_buf *out)
{
    const struct lm_totals *t = &l->totals;
    lm_buf_printf(out, ",\"totals\":{\"tensors\":%" PRIu64 ",\"parameters\":%" PRIu64
                  ",\"bytes\":%" PRIu64 ",\"bits\":", t->n_tensors, t->n_weights, t->bytes);
    lm_json_f64(out, lm_totals_bits(t->n_weights, t->bytes));
    lm_buf_printf(out, ",\"unknown\":%" PRIu64 ",\"expert_parameters\":%" PRIu64
                  ",\"active_parameters\":%" PRIu64 ",\"types\":[", t->n_unknown,
                  t->n_expert_weights, t->n_active);
    for (size_t i = 0; i < t->n_types; i++)
        lm_buf_printf(out, "%s{\"type\":\"%s\",\"tensors\":%" PRIu64 ",\"parameters\":%" PRIu64
                      ",\"bytes\":%" PRIu64 "}", i ? "," : "", t->types[i].type->name,
                      t->types[i].n_tensors, t->types[i].n_weights, t->types[i].bytes);
    lm_buf_str(out, "]}");
}

static void json_entries(const struct listed *l, struct lm_buf *out)
{
    lm_buf_str(out, ",\"metadata\":[");
    for (uint64_t i = 0; i < l->g->n_kv; i++) {
        const char *meaning = l->o->explain ? lm_key_meaning(l->g->kv[i].key.p, l->arch.p) : NULL;
        lm_buf_str(out, i ? "," : "");
        lm_gguf_entry_json(out, &l->g->kv[i]);
        if (meaning) {
            out->len--;                                   /* the object's end */
            cli_json_text(out, "meaning", meaning, strlen(meaning));
            lm_buf_byte(out, '}');
        }
        cli_print(out, false);
    }
    lm_buf_byte(out, ']');
}

static void json_tensors(const struct listed *l, struct lm_buf *out)
{
    lm_buf_str(out, ",\"tensors\":[");
    for (uint64_t i = 0; i < l->g->n_tensors; i++) {
        lm_buf_str(out, i ? "," : "");
        lm_gguf_tensor_json(out, &l->g->tensors[i]);
        cli_print(out, false);
    }
    lm_buf_byte(out, ']');
}

static void show_json(const struct listed *l, struct lm_buf *out)
{
    const struct cli_inspect *o = l->o;
    const struct lm_gguf *g = l->g;
    cli_json_file(out, l->name);
    lm_buf_printf(out, ",\"version\":%" PRIu32 ",\"byte_order\":\"%s\"", g->version,
                  g->big_endian ? "big" : "little");
    cli_json_u64(out, "alignment", g->alignment);
    cli_json_u64(out, "data_offset", g->data_offset);
    if (o->totals)
        json_totals(l, out);
    if (wants_all(o) || o->kv)
        json_entries(l, out);
    if (wants_all(o) || o->tensors)
        json_tensors(l, out);
    lm_buf_str(out, "}\n");
}

/* ---- the listing ----------------------------------------------------------- */

/* What the shards of a model come to. */
static void show_whole(const struct cli_inspect *o, const struct cli_model *m, struct lm_buf *out)
{
    const struct lm_gguf **all = cli_model_files(m);
    struct lm_totals t;
    struct listed l = { .o = o };
    lm_totals_of(all, m->n, all[0], &t);
    l.totals = t;
    lm_buf_byte(out, '\n');
    head_line(o, out, "together");
    lm_buf_printf(out, "%zu shards, %" PRIu64 " tensors, %" PRIu64 " bytes\n", m->n, t.n_tensors,
                  t.bytes);
    put_parameters(&l, out);
    free(all);
}

int cli_show_list(const struct cli_inspect *o, const struct cli_model *m)
{
    struct lm_buf out = { 0 };
    int status = CLI_OK;
    for (size_t i = 0; i < m->n; i++) {
        const struct lm_gguf *g = m->files[i].g;
        struct listed l = { .o = o, .g = g, .name = lm_in_name(m->files[i].in) };
        if (lm_gguf_str(m->files[0].g, "general.architecture", &l.arch, NULL) != LM_OK)
            l.arch = (struct lm_str){ "", 0 };
        lm_totals_of(&(const struct lm_gguf *){ g }, 1, m->files[0].g, &l.totals);
        if (o->form == CLI_JSON)
            show_json(&l, &out);
        else
            show_tables(&l, !o->n_shown && !i, &out);
        cli_print(&out, true);
        int s = cli_unsound(g, l.name);
        status = s > status ? s : status;
    }
    if (m->n > 1 && o->form != CLI_JSON && (wants_all(o) || o->totals))
        show_whole(o, m, &out);
    cli_print(&out, true);
    lm_buf_release(&out);
    return status;
}

/* ---- single values --------------------------------------------------------- */

/* A terminal gets text without control characters other than newline and tab. */
static void put_raw(const struct cli_inspect *o, const struct lm_buf *value, struct lm_buf *out)
{
    if (o->null || !isatty(STDOUT_FILENO)) {
        lm_buf_add(out, value->data, value->len);
        return;
    }
    for (size_t i = 0, n; i < value->len; i += n) {
        n = strcspn(value->data + i, "\n\t\\");
        lm_buf_escape(out, value->data + i, n);
        if (i + n < value->len && value->data[i + n])
            lm_buf_byte(out, value->data[i + n++]);
    }
}

static void put_array(const struct cli_inspect *o, const struct lm_gguf_arr *a, struct lm_buf *out)
{
    for (uint64_t i = 0; i < a->n; i++) {
        if (o->null && a->kind != LM_GGUF_ARR)
            lm_gguf_element_raw(out, a, i);
        else
            lm_gguf_element_json(out, a, i);
        lm_buf_byte(out, o->null ? '\0' : '\n');
        cli_print(out, false);
    }
}

static void put_value(const struct cli_inspect *o, const struct lm_gguf_kv *kv, struct lm_buf *out)
{
    struct lm_buf value = { 0 };
    if (o->form == CLI_JSON) {
        lm_gguf_entry_json(out, kv);
        lm_buf_byte(out, '\n');
        return;
    }
    if (kv->kind == LM_GGUF_ARR) {
        put_array(o, &kv->arr, out);
        return;
    }
    lm_gguf_value_raw(&value, kv);
    put_raw(o, &value, out);
    out->failed |= value.failed;
    lm_buf_release(&value);
    if (o->null || !o->no_newline)
        lm_buf_byte(out, o->null ? '\0' : '\n');
}

/* A key that was asked for without its first part, as what lists keys often says it. */
static void warn_no_key(const struct cli_model *m, const char *key)
{
    const struct lm_gguf *g = m->files[0].g;
    const size_t len = strlen(key);
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const struct lm_str *k = &g->kv[i].key;
        if (len && k->len > len && k->p[k->len - len - 1] == '.' &&
            !memcmp(k->p + k->len - len, key, len)) {
            cli_warn("%s: no key %s, but %s", cli_model_name(m), key, k->p);
            return;
        }
    }
    cli_warn("%s: no key %s", cli_model_name(m), key);
}

int cli_show_values(const struct cli_inspect *o, const struct cli_model *m)
{
    struct lm_buf out = { 0 };
    int status = CLI_OK;
    for (size_t i = 0; i < o->n_keys; i++) {
        const struct lm_gguf_kv *kv = lm_gguf_kv(m->files[0].g, o->keys[i]);
        if (kv)
            put_value(o, kv, &out);
        else {
            cli_print(&out, true);
            warn_no_key(m, o->keys[i]);
            status = CLI_NO;
        }
    }
    cli_print(&out, true);
    lm_buf_release(&out);
    return status;
}

/* ---- safetensors ----------------------------------------------------------- */

/* Does a safetensors file begin here: the length of a header, and that it is an object? */
static bool is_safetensors(struct lm_in *in)
{
    uint8_t p[9];
    size_t n;
    struct lm_err err;
    return lm_in_peek(in, p, sizeof p, &n, &err) == LM_OK && n == sizeof p && p[8] == '{' &&
           !p[5] && !p[6] && !p[7];
}

static void fill_st(void *arg, uint64_t row, struct lm_buf *cells)
{
    const struct lm_st_tensor *t = (const struct lm_st_tensor *)arg + row;
    lm_buf_escape(&cells[0], t->name, strlen(t->name));
    lm_buf_str(&cells[1], t->dtype->name);
    for (uint32_t k = 0; k < t->n_dims; k++)
        lm_buf_printf(&cells[2], "%s%" PRIu64, k ? "x" : "", t->shape[k]);
    lm_buf_u64(&cells[3], t->begin);
    lm_buf_u64(&cells[4], t->bytes);
}

static void json_safetensors(const struct lm_safetensors *st, const char *name,
                             struct lm_buf *out)
{
    cli_json_file(out, name);
    lm_buf_str(out, ",\"format\":\"safetensors\"");
    cli_json_u64(out, "data_offset", st->data_offset);
    lm_buf_str(out, ",\"tensors\":[");
    for (size_t i = 0; i < st->n_tensors; i++) {
        const struct lm_st_tensor *t = &st->tensors[i];
        lm_buf_str(out, i ? ",{\"name\":" : "{\"name\":");
        lm_gguf_str_json(out, &(struct lm_str){ t->name, strlen(t->name) });
        lm_buf_printf(out, ",\"type\":\"%s\",\"shape\":[", t->dtype->name);
        for (uint32_t k = 0; k < t->n_dims; k++)
            lm_buf_printf(out, "%s%" PRIu64, k ? "," : "", t->shape[k]);
        lm_buf_printf(out, "],\"offset\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", t->begin, t->bytes);
        cli_print(out, false);
    }
    lm_buf_str(out, "]}\n");
}

static void text_safetensors(const struct cli_inspect *o, struct lm_safetensors *st,
                             const char *name, struct lm_buf *out)
{
    if (o->n_shown)
        lm_buf_byte(out, '\n');
    if (!o->tensors || o->totals) {
        head_line(o, out, "file");
        lm_buf_escape(out, name, strlen(name));
        lm_buf_byte(out, '\n');
        head_line(o, out, "format");
        lm_buf_str(out, "safetensors\n");
        head_line(o, out, "tensors");
        lm_buf_printf(out, "%zu\n", st->n_tensors);
        head_line(o, out, "data offset");
        lm_buf_printf(out, "%" PRIu64 "\n", st->data_offset);
    }
    if (wants_all(o))
        lm_buf_byte(out, '\n');
    if (wants_all(o) || o->tensors)
        cli_table(out, &(struct cli_table){ 5, tensor_heads, st->n_tensors, fill_st, st->tensors },
                  o->form);
}

bool cli_show_safetensors(const struct cli_inspect *o, struct lm_in *in, int *status)
{
    struct lm_buf out = { 0 };
    struct lm_arena arena = { 0 };
    struct lm_safetensors st;
    struct lm_err err;
    if (o->kv || !is_safetensors(in))
        return false;
    int r = lm_safetensors_read(&st, &arena, in, &err);
    if (r == LM_OK && o->form == CLI_JSON)
        json_safetensors(&st, lm_in_name(in), &out);
    else if (r == LM_OK)
        text_safetensors(o, &st, lm_in_name(in), &out);
    cli_print(&out, true);
    lm_buf_release(&out);
    *status = r == LM_OK ? CLI_OK : cli_report(lm_in_name(in), &err);
    lm_arena_release(&arena);
    return true;
}
