/* SPDX-License-Identifier: MIT */
/* The texts of a model's encoder: a token stream beside the decoder's, line for line. */
#include <inttypes.h>
#include <stdlib.h>

#include "job/answers.h"
#include "stream/tokens.h"

int lm_eval_set_encoder(struct lm_eval *e, struct lm_in *in, struct lm_err *err)
{
    e->encoder_in = in;
    e->encoder = lm_token_reader_new(in, err);
    if (!e->encoder)
        return LM_ENOMEM;
    lm_token_set_vocab(e->encoder, e->head.n_vocab);
    return LM_OK;
}

/* The next line for sequence seq, which may have a text already; `skip`: its tokens are not
 * needed. */
static int take(struct lm_eval *e, uint64_t line, uint32_t seq, bool skip, struct lm_err *err)
{
    const bool had = lm_ctx_encoder_len(e->ctx, seq);
    int32_t *ids = NULL;
    size_t n = 0, cap = 0;
    int s = lm_token_read_line(e->encoder, &ids, &n, &cap, err);
    if (s == 0)
        s = lm_fail(err, LM_EDATA, "no line %" PRIu64 " for the encoder", line + 1);
    else if (s == 1 && n > e->n_train)
        s = lm_fail(err, LM_EDATA, "line %" PRIu64 ": %zu tokens, and the model was trained for %"
                    PRIu32, line + 1, n, e->n_train);
    else if (s == 1 && n > e->n_ctx)
        s = lm_fail(err, LM_EUSE, "line %" PRIu64 ": %zu tokens, and the context has %" PRIu32,
                    line + 1, n, e->n_ctx);
    else if (s == 1 && n && had)
        s = lm_fail(err, LM_EDATA, "line %" PRIu64 ": its sequence has a text already", line + 1);
    else if (s == 1 && n == 0 && !skip && !had)
        s = lm_fail(err, LM_EDATA, "line %" PRIu64 ": no tokens for the encoder", line + 1);
    else if (s == 1)
        s = skip || had ? LM_OK : lm_ctx_encode(e->ctx, seq, ids, n, err);
    free(ids);
    return s;
}

int lm_eval_encoder_end(struct lm_eval *e, uint64_t n, struct lm_err *err)
{
    int32_t *ids = NULL;
    size_t len = 0, cap = 0;
    int s = lm_token_read_line(e->encoder, &ids, &len, &cap, err);
    free(ids);
    if (s == 1)
        s = lm_fail(err, LM_EDATA, "more lines than the %" PRIu64 " of the decoder", n);
    return s ? lm_err_at(err, s, "%s", lm_in_name(e->encoder_in)) : LM_OK;
}

int lm_eval_encode_line(struct lm_eval *e, uint64_t line, uint32_t seq, bool skip,
                        struct lm_err *err)
{
    if (!e->encoder && (skip || !lm_ctx_has_encoder(e->ctx) || lm_ctx_encoder_len(e->ctx, seq)))
        return LM_OK;
    if (!e->encoder)
        return lm_fail(err, LM_EDATA, "line %" PRIu64 ": no text of the encoder was saved for it",
                       line + 1);
    int s = take(e, line, seq, skip, err);
    return s ? lm_err_at(err, s, "%s", lm_in_name(e->encoder_in)) : LM_OK;
}
