/* SPDX-License-Identifier: MIT */
/*
 * SentencePiece model files: a protocol buffer (https://protobuf.dev, "Encoding").
 * A message is a run of fields, each a varint number << 3 | wire type and a value: type 0 a
 * varint, 1 eight bytes, 2 a length and that many bytes, 5 four bytes.
 *   ModelProto      1 pieces (repeated)  2 trainer_spec  3 normalizer_spec
 *   SentencePiece   1 piece  2 score (float)  3 type
 *   TrainerSpec     3 model_type  4 vocab_size  24 treat_whitespace_as_suffix  35 byte_fallback
 *                   46 bos_piece  47 eos_piece
 *   NormalizerSpec  2 precompiled_charsmap  3 add_dummy_prefix  4 remove_extra_whitespaces
 */

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "hf/hf_vocab.h"

struct cursor {
    const uint8_t *p, *end;
};

struct field {
    uint32_t      number, wire;
    uint64_t      value;        /* varint, or the bits of a fixed number */
    struct cursor bytes;        /* wire type 2                           */
};

static bool varint(struct cursor *c, uint64_t *out)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 64 && c->p < c->end; shift += 7) {
        const uint8_t b = *c->p++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80) {
            *out = v;
            return true;
        }
    }
    return false;
}

static bool fixed(struct cursor *c, size_t n, uint64_t *out)
{
    if ((size_t)(c->end - c->p) < n)
        return false;
    *out = 0;
    for (size_t i = 0; i < n; i++)
        *out |= (uint64_t)*c->p++ << 8 * i;
    return true;
}

/* The next field; false when the bytes are no field. */
static bool next_field(struct cursor *c, struct field *f)
{
    uint64_t tag, len;
    if (!varint(c, &tag) || tag >> 32)
        return false;
    f->number = (uint32_t)(tag >> 3);
    f->wire = tag & 7;
    switch (f->wire) {
    case 0: return varint(c, &f->value);
    case 1: return fixed(c, 8, &f->value);
    case 5: return fixed(c, 4, &f->value);
    case 2:
        if (!varint(c, &len) || len > (uint64_t)(c->end - c->p))
            return false;
        f->bytes = (struct cursor){ c->p, c->p + len };
        c->p += len;
        return true;
    default:
        return false;
    }
}

static bool read_piece(struct cursor c, struct lm_spm_piece *piece)
{
    struct field f;
    *piece = (struct lm_spm_piece){ .text = "", .type = LM_PIECE_NORMAL };
    while (c.p < c.end) {
        if (!next_field(&c, &f))
            return false;
        if (f.number == 1 && f.wire == 2) {
            piece->text = (const char *)f.bytes.p;
            piece->len = (size_t)(f.bytes.end - f.bytes.p);
        } else if (f.number == 2 && f.wire == 5) {
            const uint32_t bits = (uint32_t)f.value;
            memcpy(&piece->score, &bits, 4);
        } else if (f.number == 3 && f.wire == 0) {
            /* The numbers are GGUF's, 1 to 6. */
            if (f.value < LM_PIECE_NORMAL || f.value > LM_PIECE_BYTE)
                return false;
            piece->type = (int)f.value;
        }
    }
    return true;
}

/* A name of a special piece; one that is too long is none. */
static void read_name(const struct field *f, char name[64])
{
    const size_t n = (size_t)(f->bytes.end - f->bytes.p);
    name[0] = 0;
    if (n >= 64 || memchr(f->bytes.p, 0, n))
        return;
    memcpy(name, f->bytes.p, n);
    name[n] = 0;
}

static bool read_trainer(struct cursor c, struct lm_spm_model *m, uint64_t *n_pieces)
{
    struct field f;
    while (c.p < c.end) {
        if (!next_field(&c, &f))
            return false;
        if (f.wire == 2 && f.number == 46)
            read_name(&f, m->bos);
        else if (f.wire == 2 && f.number == 47)
            read_name(&f, m->eos);
        if (f.wire != 0)
            continue;
        if (f.number == 3)
            m->kind = f.value <= 4 ? (int)f.value : 0;
        else if (f.number == 4)
            *n_pieces = f.value;
        else if (f.number == 24)
            m->suffix = f.value != 0;
        else if (f.number == 35)
            m->byte_fallback = f.value != 0;
    }
    return true;
}

static bool read_normalizer(struct cursor c, struct lm_spm_model *m)
{
    struct field f;
    while (c.p < c.end) {
        if (!next_field(&c, &f))
            return false;
        if (f.number == 2 && f.wire == 2)
            m->charsmap = (struct lm_str){ (const char *)f.bytes.p,
                                           (size_t)(f.bytes.end - f.bytes.p) };
        else if (f.number == 3 && f.wire == 0)
            m->add_prefix = f.value != 0;
        else if (f.number == 4 && f.wire == 0)
            m->extra_spaces = f.value != 0;
    }
    return true;
}

int lm_spm_model_parse(struct lm_spm_model *m, const char *data, size_t len, struct lm_err *err)
{
    struct cursor c = { (const uint8_t *)data, (const uint8_t *)data + len };
    struct field f;
    uint64_t n_pieces = 0;
    bool trained = false;
    /* the defaults of the format */
    *m = (struct lm_spm_model){ .kind = 1, .add_prefix = true, .extra_spaces = true,
                                .bos = "<s>", .eos = "</s>" };
    while (c.p < c.end) {
        const size_t at = (size_t)(c.p - (const uint8_t *)data);
        bool ok = next_field(&c, &f);
        if (ok && f.number == 1 && f.wire == 2) {
            if (!lm_grow(&m->pieces, &m->cap, m->n + 1, sizeof *m->pieces))
                return lm_fail_nomem(err);
            ok = read_piece(f.bytes, &m->pieces[m->n++]);
        } else if (ok && f.number == 2 && f.wire == 2) {
            trained = true;
            ok = read_trainer(f.bytes, m, &n_pieces);
        } else if (ok && f.number == 3 && f.wire == 2) {
            ok = read_normalizer(f.bytes, m);
        }
        if (!ok)
            return lm_fail(err, LM_EDATA, "not a SentencePiece model, or damaged at byte %zu", at);
    }
    if (!m->n)
        return lm_fail(err, LM_EDATA, "has no pieces: not a SentencePiece model");
    /* The trainer's part comes behind the pieces, and says how many it made; some were added. */
    if (!trained || m->n < n_pieces)
        return lm_fail(err, LM_EDATA, trained ? "has fewer pieces than it says: damaged"
                       : "ends behind the pieces: cut short");
    return LM_OK;
}

void lm_spm_model_release(struct lm_spm_model *m)
{
    free(m->pieces);
    *m = (struct lm_spm_model){0};
}
