/* SPDX-License-Identifier: MIT */
/* Arguments by place or name. */
#include <string.h>

#include "template/jinja.h"

void lm_jtake(struct jrun *r, const char *what, struct jargs *a, const char *names,
              struct jv *out[])
{
    size_t i = 0, named = 0;
    for (const char *p = names; *p; i++) {
        size_t n = strcspn(p, " ");
        out[i] = i < a->n ? &a->pos[i] : NULL;
        for (size_t k = 0; k < a->kw.n; k++) {
            const struct jpair *e = &a->kw.e[k];
            if (e->key.kind != J_STR || e->key.s->len != n || memcmp(e->key.s->p, p, n) != 0)
                continue;
            if (out[i])
                lm_jfail(r, "%s() got multiple values for argument '%.*s'", what, (int)n, p);
            out[i] = &a->kw.e[k].value;
            named++;
        }
        p += n + (p[n] == ' ');
    }
    if (a->n > i)
        lm_jfail(r, "%s() takes at most %zu arguments (%zu given)", what, i, a->n);
    if (named < a->kw.n)
        lm_jfail(r, "%s() got an unexpected keyword argument", what);
}
