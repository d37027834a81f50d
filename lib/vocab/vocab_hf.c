/* SPDX-License-Identifier: MIT */
/* Vocabularies of checkpoints without a tokenizer.json: as gguf-convert would write them. */
#include <string.h>

#include "hf/hf_vocab.h"
#include "hf/rank_files.h"
#include "hf/source.h"
#include "vocab/tokenizer.h"

static struct lm_str str(const char *s)
{
    return (struct lm_str){ s, strlen(s) };
}

static int32_t id_of(const struct lm_hf_vocab *h, const char *key)
{
    for (size_t i = 0; i < h->n_ids; i++)
        if (strcmp(h->ids[i].key, key) == 0)
            return (int32_t)h->ids[i].id;
    return LM_UNSAID;
}

static int adds(const struct lm_hf_vocab *h, const char *key)
{
    for (size_t i = 0; i < h->n_adds; i++)
        if (strcmp(h->adds[i].key, key) == 0)
            return h->adds[i].add;
    return LM_UNSAID;
}

static int said(int flag)
{
    return flag < 0 ? LM_UNSAID : flag;
}

/* The piece of a type, and of a text if that is not NULL. */
static int32_t find(const struct lm_hf_vocab *h, int type, const char *text)
{
    for (uint32_t i = 0; i < h->n; i++)
        if (h->types[i] == type && (!text || (h->pieces[i].len == strlen(text) &&
                                              !memcmp(h->pieces[i].p, text, h->pieces[i].len))))
            return (int32_t)i;
    return LM_UNSAID;
}

/* No file beside a SentencePiece model names its special pieces: they have their usual names, or
 * those that it says. */
static void usual_ids(const struct lm_hf_vocab *h, struct lm_vocab_src *src)
{
    if (src->bos == LM_UNSAID)
        src->bos = find(h, LM_PIECE_CONTROL, "<s>");
    if (src->eos == LM_UNSAID)
        src->eos = find(h, LM_PIECE_CONTROL, "</s>");
    if (src->bos == LM_UNSAID)
        src->bos = h->usual_bos;
    if (src->eos == LM_UNSAID)
        src->eos = h->usual_eos;
    if (src->unk == LM_UNSAID)
        src->unk = find(h, LM_PIECE_UNKNOWN, NULL);
}

/* named: what files beside it name; NULL: it is a vocab.txt alone. */
static struct lm_vocab *load(const struct lm_hf_vocab *h, struct lm_hf_named *named,
                             const struct lm_env *env, struct lm_err *err)
{
    static const char *const txt_lacks[LM_N_NAMED] = {
        "no line is [CLS]", "no line is [SEP]", "no line is [SEP]",
    };
    struct lm_vocab_src src = LM_VOCAB_SRC;
    src.model = str(h->model);
    src.pre = str(h->pre ? h->pre : "");
    src.tokens = h->pieces;
    src.n = h->n;
    src.types = h->types;
    src.scores = h->scores;
    src.merges = h->merges;
    src.n_merges = h->n_merges;
    src.by_ranks = h->by_ranks;
    if (h->whole_words) {
        src.nfc = h->nfc;
        src.whole_words = 1;
    }
    src.bos = id_of(h, "bos_token_id");
    src.eos = id_of(h, "eos_token_id");
    src.unk = id_of(h, "unknown_token_id");
    src.sep = id_of(h, "seperator_token_id");
    src.eot = id_of(h, "eot_token_id");
    src.eom = id_of(h, "eom_token_id");
    memcpy(src.lacks, txt_lacks, sizeof src.lacks);
    if (h->scores)
        usual_ids(h, &src);
    if (named)
        lm_take_named(&src, named);
    src.bos = src.bos < 0 ? -1 : src.bos;
    src.eos = src.eos < 0 ? -1 : src.eos;
    src.add_bos = adds(h, "add_bos_token");
    src.add_eos = adds(h, "add_eos_token");
    if (h->by_ranks && src.bos < 0 && src.add_bos == LM_UNSAID)
        src.add_bos = 0;                    /* whatever others of the same rules do */
    src.space_prefix = said(h->add_space_prefix);
    src.extra_spaces = said(h->extra_spaces);
    src.charsmap = h->charsmap;
    src.lowercase = said(h->lowercase);
    src.strip_accents = said(h->strip_accents);
    return lm_vocab_load(&src, env, err);
}

struct lm_vocab *lm_vocab_from_txt(const char *data, size_t len, const struct lm_env *env,
                                   struct lm_err *err)
{
    struct lm_hf_vocab h;
    if (lm_hf_vocab_txt(&h, data, len, err) != LM_OK)
        return NULL;
    struct lm_vocab *v = load(&h, NULL, env, err);
    lm_hf_vocab_release(&h);
    return v;
}

/* Files of which one must be there.  None is as if the vocabulary could not be opened. */
static int find_any(const struct lm_hf_source *s, struct lm_err *err)
{
    static const char *const names[] = { "tokenizer.model", "spiece.model",
                                         "sentencepiece.bpe.model", "vocab.txt", "vocab.json" };
    lm_rank_reader *read;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (lm_hf_find(s, names[i]) >= 0)
            return LM_OK;
    if (lm_hf_rank_file(s, &read))
        return LM_OK;
    return lm_fail(err, LM_EIO, "no tokenizer.json, tokenizer.model, vocab.txt, vocab.json or "
                   "tekken.json");
}

struct lm_vocab *lm_vocab_from_hf(const char *path, const struct lm_env *env, struct lm_err *err)
{
    const struct lm_jval *config = NULL, *generation = NULL;
    struct lm_err broken;
    struct lm_arena arena = { 0 };
    struct lm_hf_named named = { .n_ends = 0 };
    struct lm_hf_vocab h;
    struct lm_vocab *v = NULL;
    struct lm_hf_source *s = lm_hf_open(path, NULL, env, err);
    if (s && find_any(s, err) == LM_OK &&
        lm_hf_load_object(s, &arena, "config.json", &config, err) == LM_OK) {
        /* one that is broken is known to occur, and not needed */
        lm_hf_load_object(s, &arena, "generation_config.json", &generation, &broken);
        int r = lm_hf_vocab_load(&h, s, config, generation, 0, NULL, env, err);
        if (r == LM_ENOSUP) {
            r = lm_hf_vocab_load(&h, s, config, generation, 0, "llama-bpe", env, err);
            if (r == LM_OK)
                lm_note(env, LM_WARN, "ranks of a number that is not known: words are cut as by "
                        "cl100k_base ('llama-bpe' in GGUF)");
        }
        if (r == LM_OK) {
            if (lm_hf_named_read(&named, path, env, err) == LM_OK)
                v = load(&h, &named, env, err);
            lm_hf_named_release(&named);
            lm_hf_vocab_release(&h);
        }
    }
    lm_hf_close(s);
    lm_arena_release(&arena);
    return v;
}
