/* SPDX-License-Identifier: MIT */
#include "job/check_text.h"

#include <inttypes.h>
#include <stdlib.h>

struct place {
    uint64_t byte, line, column;
};

static void pass(struct place *at, unsigned char c)
{
    at->byte++;
    if (c == '\n') {
        at->line++;
        at->column = 1;
    } else if ((c & 0xC0) != 0x80) {
        at->column++;
    }
}

/* Say what is wrong at a place, and what state s would have taken there. */
static int refuse(struct lm_machine *m, lm_state s, const struct place *at, const char *what,
                  struct lm_err *err)
{
    char *expected = lm_machine_expected(m, s, err);
    if (!expected)
        return LM_ENOMEM;
    int r = lm_fail(err, LM_EDATA, "byte %" PRIu64 ", line %" PRIu64 ", column %" PRIu64 ": %s, "
                    "expected %s", at->byte, at->line, at->column, what, expected);
    free(expected);
    return r;
}

/* How far a text was followed. */
struct walk {
    struct lm_machine *m;
    struct place       at;
    lm_state           s;
    bool               spare;   /* the last byte is a newline after a text that is complete */
    bool               over;    /* and it cannot follow: s and at are those before it       */
};

static int step(struct walk *w, unsigned char c, struct lm_err *err)
{
    lm_state next = w->s;
    int r = w->over ? LM_OK : lm_machine_byte(w->m, &next, c, err);
    if (r < 0)
        return r;
    w->spare = !w->over && c == '\n' && lm_machine_complete(w->m, w->s);
    if (w->over || (next == LM_STATE_DEAD && !w->spare))
        return refuse(w->m, w->s, &w->at, "this cannot follow", err);
    if (next == LM_STATE_DEAD) {
        w->over = true;
        return LM_OK;
    }
    pass(&w->at, c);
    w->s = next;
    return LM_OK;
}

static int follow(struct lm_machine *m, struct lm_in *in, struct lm_err *err)
{
    struct walk w = { .m = m, .at = { .line = 1, .column = 1 } };
    unsigned char buf[1 << 16];
    size_t got;
    int r = lm_machine_start(m, &w.s, err);
    while (r == LM_OK && (r = lm_in_read(in, buf, sizeof buf, &got, err)) == LM_OK && got)
        for (size_t i = 0; r == LM_OK && i < got; i++)
            r = step(&w, buf[i], err);
    if (r == LM_OK && !w.spare && !lm_machine_complete(m, w.s))
        r = refuse(m, w.s, &w.at, "the text ends too early", err);
    return r;
}

int lm_check_text(const struct lm_grammar *g, struct lm_in *in, struct lm_err *err)
{
    struct lm_machine *m = lm_machine_new(g, NULL, 0, NULL, 0, err);
    int r = m ? follow(m, in, err) : LM_ENOMEM;
    lm_machine_free(m);
    return r < 0 ? lm_err_at(err, r, "%s", lm_in_name(in)) : r;
}
