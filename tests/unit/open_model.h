/* SPDX-License-Identifier: MIT */
#ifndef LM_TEST_OPEN_MODEL_H
#define LM_TEST_OPEN_MODEL_H

/* Models and contexts without which a test cannot go on, for tests that include cmocka.h and
 * model/model.h.  The caller frees them. */

static struct lm_model *open_model(const char *file, const struct lm_model_options *o)
{
    struct lm_err why;
    struct lm_model *m = lm_model_load(file, o, NULL, &why);
    if (!m)
        fail_msg("%s", why.text);
    return m;
}

static struct lm_ctx *open_context(struct lm_model *m, const struct lm_ctx_options *o)
{
    struct lm_err why;
    struct lm_ctx *c = lm_ctx_new(m, o, NULL, &why);
    if (!c)
        fail_msg("%s", why.text);
    return c;
}

#endif
