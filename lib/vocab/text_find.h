/* SPDX-License-Identifier: MIT */
#ifndef LM_VOCAB_TEXT_FIND_H
#define LM_VOCAB_TEXT_FIND_H

/*
 * Finding pieces by their text, in steps, for who looks many up at once: loading is little
 * else.  What takes the time is waiting for memory and branches that go either way; so places
 * are asked for before they are needed, and a text of up to 16 bytes is two numbers.
 */

#include "vocab/tokenizer.h"

/* The last len <= 16 bytes of a text, zeros behind them. */
struct lm_text_key {
    uint64_t low, high;
};

static inline uint64_t lm_load_8(const char *p)
{
    uint64_t x;
    memcpy(&x, p, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

/* len <= 16 bytes at p, behind which LM_SLACK bytes may be read. */
static inline struct lm_text_key lm_key_slack(const char *p, size_t len)
{
    const size_t l = len < 8 ? len : 8, h = len - l;
    const uint64_t low = lm_load_8(p), high = lm_load_8(p + 8);
    return (struct lm_text_key){ l ? low << (64 - 8 * l) >> (64 - 8 * l) : 0,
                                 h ? high << (64 - 8 * h) >> (64 - 8 * h) : 0 };
}

/* The same where that is not so. */
static inline struct lm_text_key lm_key(const char *p, size_t len)
{
    char copy[LM_SLACK] = { 0 };
    if (len >= 8)
        return (struct lm_text_key){ lm_load_8(p), len > 8 ? lm_load_8(p + len - 8)
                                                             >> (128 - 8 * len) : 0 };
    for (size_t i = 0; i < len; i++)
        copy[i] = p[i];
    return (struct lm_text_key){ lm_load_8(copy), 0 };
}

static inline bool lm_same_key(struct lm_text_key a, struct lm_text_key b)
{
    return ((a.low ^ b.low) | (a.high ^ b.high)) == 0;
}

/* Two texts of 16 bytes in all, or fewer, the first of `len` > 0. */
static inline struct lm_text_key lm_join_keys(struct lm_text_key a, size_t len,
                                              struct lm_text_key b)
{
    const size_t shift = 8 * len;
    if (len >= 8)
        return (struct lm_text_key){ a.low, len == 16 ? a.high
                                                      : a.high | b.low << (shift - 64) };
    return (struct lm_text_key){ a.low | b.low << shift, b.low >> (64 - shift) | b.high << shift };
}

static inline uint64_t lm_mix_text(uint64_t h, struct lm_text_key k)
{
    h = (h ^ k.low) * 0xD6E8FEB86659FD93u;
    h = (h ^ h >> 32 ^ k.high) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
}

/* The hash of a text of len bytes that ends in key, what is before that at p. */
static inline uint32_t lm_hash_text(const char *p, size_t len, struct lm_text_key key)
{
    uint64_t h = len * 0x9E3779B97F4A7C15u;
    for (; len > 16; p += 16, len -= 16)
        h = lm_mix_text(h, (struct lm_text_key){ lm_load_8(p), lm_load_8(p + 8) });
    return (uint32_t)lm_mix_text(h, key);
}

/* A text that is looked up. */
struct lm_asked {
    const char        *p;
    size_t             len;
    struct lm_text_key key;
    uint32_t           hash, slot;               /* where to look from               */
};

/* What to look up, with its place on the way from memory.  slack: LM_SLACK bytes behind it may
 * be read. */
static inline struct lm_asked lm_ask(const struct lm_vocab *v, const char *p, size_t len,
                                     bool slack)
{
    const size_t before = len > 16 ? (len - 1) & ~(size_t)15 : 0;
    struct lm_asked a = { .p = p, .len = len };
    a.key = slack ? lm_key_slack(p + before, len - before) : lm_key(p + before, len - before);
    a.hash = lm_hash_text(p, len, a.key);
    a.slot = a.hash & v->slot_mask;
    __builtin_prefetch(&v->slots[a.slot]);
    return a;
}

static inline bool lm_is_asked(const struct lm_vocab *v, uint32_t id, const struct lm_asked *a)
{
    const uint32_t at = v->text.at[id], n = v->text.at[id + 1] - at;
    const char *t = v->text.data + at;
    if (a->len > 16)
        return n == a->len && memcmp(t, a->p, n) == 0;
    return n == a->len && lm_same_key(lm_key_slack(t, a->len), a->key);
}

/* The first slot from i on that may be that of its piece, or is empty. */
static inline uint32_t lm_likely_slot(const struct lm_vocab *v, const struct lm_asked *a,
                                      uint32_t i)
{
    for (uint32_t s;; i++)
        if (!(s = v->slots[i &= v->slot_mask]) || !((s ^ a->hash) & ~v->slot_id))
            return i;
}

/* Between asking and finding: when that place is there, fetch the text of the piece in it. */
static inline void lm_ask_text(const struct lm_vocab *v, struct lm_asked *a)
{
    a->slot = lm_likely_slot(v, a, a->slot);
    const uint32_t id_1 = v->slots[a->slot] & v->slot_id;
    __builtin_prefetch(v->text.data + v->text.at[id_1 - (id_1 > 0)]);
}

/* The slot of its piece, or the empty one where that would be. */
static inline uint32_t lm_asked_slot(const struct lm_vocab *v, const struct lm_asked *a)
{
    uint32_t i = lm_likely_slot(v, a, a->slot);
    while (v->slots[i] && !lm_is_asked(v, (v->slots[i] & v->slot_id) - 1, a))
        i = lm_likely_slot(v, a, i + 1);
    return i;
}

/* The id, or -1. */
static inline int32_t lm_find_asked(const struct lm_vocab *v, const struct lm_asked *a)
{
    return (int32_t)(v->slots[lm_asked_slot(v, a)] & v->slot_id) - 1;
}

#endif
