/* SPDX-License-Identifier: MIT */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int lm_fail(struct lm_err *e, enum lm_code code, const char *fmt, ...)
{
    if (e) {
        va_list ap;
        va_start(ap, fmt);
        e->code = code;
        vsnprintf(e->text, sizeof e->text, fmt, ap);
        va_end(ap);
    }
    return code;
}

int lm_fail_nomem(struct lm_err *e)
{
    return lm_fail(e, LM_ENOMEM, "out of memory");
}

int lm_fail_errno(struct lm_err *e, const char *fmt, ...)
{
    int saved = errno;
    enum lm_code code = saved == ENOMEM ? LM_ENOMEM : LM_EIO;
    if (e) {
        char what[sizeof e->text / 2];
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(what, sizeof what, fmt, ap);
        va_end(ap);
        lm_fail(e, code, "%s: %s", what, strerror(saved));
    }
    errno = saved;
    return code;
}

int lm_err_at(struct lm_err *e, int code, const char *fmt, ...)
{
    if (!e)
        return code;

    char front[sizeof e->text], all[2 * sizeof e->text + 2];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(front, sizeof front, fmt, ap);
    va_end(ap);
    int n = snprintf(all, sizeof all, "%s: %s", front, e->text);
    size_t keep = (size_t)n < sizeof e->text ? (size_t)n : sizeof e->text - 1;
    memcpy(e->text, all, keep);
    e->text[keep] = 0;
    return e->code;
}
