/* SPDX-License-Identifier: MIT */
#ifndef LM_BASE_ERR_H
#define LM_BASE_ERR_H

/*
 * Failure as a value.  A function that can fail returns LM_OK or one of the
 * codes below and fills the caller's struct lm_err; it never prints or exits.
 *
 * The code says who can mend it, which is what a program's exit status says:
 * LM_EDATA is status 1 (the bytes that were read are wrong, or the answer is
 * no), every other code is status 2 (another command line, build, machine or
 * version could do it with the same input).
 */

#ifdef __cplusplus
extern "C" {
#endif

enum lm_code {
    LM_OK     = 0,
    LM_EDATA  = -1,   /* the bytes read are not acceptable, or the answer is no */
    LM_EUSE   = -2,   /* the caller asked for what makes no sense               */
    LM_EIO    = -3,   /* open, read, write, rename failed                       */
    LM_ENOMEM = -4,
    LM_ENOSUP = -5,   /* valid, but this version or build cannot do it          */
    LM_ESTOP  = -6,   /* the environment's stop request was seen                */
};

/* What went wrong, in words: no program name and no newline.  Each caller puts
 * what it knows in front with lm_err_at: tensor first, then file. */
struct lm_err {
    enum lm_code code;
    char         text[480];
};

/* Fill *e (may be NULL) and return code, so that callers can write
 * `return lm_fail(e, LM_EDATA, "...")`. */
int lm_fail(struct lm_err *e, enum lm_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* lm_fail with LM_ENOMEM and the words every caller would use. */
int lm_fail_nomem(struct lm_err *e);

/* lm_fail with LM_EIO, or LM_ENOMEM when errno says so: "fmt: strerror".  errno stays as it
 * is. */
int lm_fail_errno(struct lm_err *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Put "fmt: " in front of e->text (e may be NULL) and return e's code, or
 * `code` when e is NULL: `return lm_err_at(err, s, "%s", name)`. */
int lm_err_at(struct lm_err *e, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __cplusplus
}
#endif

#endif
