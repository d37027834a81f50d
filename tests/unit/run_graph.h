/* SPDX-License-Identifier: MIT */
#ifndef LM_TEST_RUN_GRAPH_H
#define LM_TEST_RUN_GRAPH_H

/* For tests of operations: graphs on the CPU.  Included behind cmocka.h. */

#include <stdlib.h>

#include "backend/backend.h"

/* Results of the graph that ran last; free it at the end. */
static char *graph_memory;

/* A leaf whose data are the caller's. */
static inline struct lm_tensor *with_data(struct lm_graph *g, uint32_t type, uint32_t n_dims,
                                          const size_t *ne, void *data)
{
    struct lm_tensor *t = lm_new_tensor(g, lm_type_by_id(type), n_dims, ne);
    t->data = data;
    return t;
}

/* Evaluate `out` (NULL: the graph has failed, and so does the test) with that many threads, twice,
 * since graphs may run again.  Its values stay where they are until another graph runs. */
static inline const float *run_graph(struct lm_graph *g, struct lm_tensor *out, int threads)
{
    struct lm_err err;
    struct lm_env env = { .n_threads = threads };
    const struct lm_device *d = lm_device_by_name("cpu");
    if (!out)
        fail_msg("%s", g->err.text);
    out->flags |= LM_TENSOR_OUTPUT;
    if (lm_graph_expand(g, out) || lm_graph_plan(g, 64))
        fail_msg("%s", g->err.text);
    free(graph_memory);
    assert_non_null(graph_memory = malloc(g->planned[0] + 64));
    lm_graph_place(g, 0, graph_memory, NULL);
    struct lm_backend *b = d->ops->open(d, &env, &err);
    assert_non_null(b);
    struct lm_exec *e = b->ops->compile(b, g, &err);
    if (!e)
        fail_msg("%s", err.text);
    for (int i = 0; i < 2; i++)
        assert_int_equal(b->ops->run(b, e, NULL, NULL, &err), LM_OK);
    b->ops->release(b, e);
    b->ops->free(b);
    return out->data;
}

#endif
