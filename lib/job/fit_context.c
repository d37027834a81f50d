/* SPDX-License-Identifier: MIT */
#include "job/fit_context.h"

#include "base/size.h"

#define LEAST_UBATCH 32

uint64_t lm_fit_bytes(const struct lm_footprint *f, bool keep_all)
{
    const uint64_t kv = f->kv_latent ? f->kv_latent : keep_all ? f->kv : f->kv_window;
    return f->together - f->kv + kv;            /* the sum fits 64 bits, and kv is not more */
}

/* Does it fit with n_ctx positions and n_ubatch at once?  1, 0, or a code. */
static int fits(const struct lm_gguf *const *files, size_t n, const struct lm_fit *fit,
                uint64_t n_ctx, uint32_t n_ubatch, struct lm_footprint *out, struct lm_err *err)
{
    struct lm_footprint_options o = fit->most;
    o.n_ctx = n_ctx;
    o.n_ubatch = n_ubatch;
    uint64_t more, all;
    const int r = lm_footprint_of(files, n, &o, out, err);
    return r ? r : lm_mul_u64(n_ctx, fit->position, &more) &&
                       lm_add_u64(lm_fit_bytes(out, fit->keep_all), more, &all) &&
                       all <= fit->room;
}

int lm_fit_context(const struct lm_gguf *const *files, size_t n, const struct lm_fit *fit,
                   struct lm_footprint *out, struct lm_err *err)
{
    const uint64_t most = fit->most.n_ctx;
    uint64_t least = fit->least < 1 ? 1 : fit->least < most ? fit->least : most, above;
    uint32_t u = fit->most.n_ubatch;
    int r = fits(files, n, fit, most, u, out, err);
    if (r)
        return r < 0 ? r : LM_OK;
    while (!(r = fits(files, n, fit, least, u, out, err)) && !fit->keep_ubatch &&
           u > LEAST_UBATCH)
        u = u / 2 > LEAST_UBATCH ? u / 2 : LEAST_UBATCH;
    if (r == 0)
        return lm_fail(err, LM_ENOMEM, "a context of %llu takes %llu bytes of memory, and there "
                       "are %llu for it", (unsigned long long)least,
                       (unsigned long long)lm_fit_bytes(out, fit->keep_all),
                       (unsigned long long)fit->room);
    above = u == fit->most.n_ubatch ? most : most + 1;
    while (r > 0 && above - least > 1) {        /* least fits, above does not */
        const uint64_t middle = least + (above - least) / 2;
        r = fits(files, n, fit, middle, u, out, err);
        if (r > 0)
            least = middle;
        else if (r == 0)
            above = middle;
        r = r < 0 ? r : 1;
    }
    return r < 0 ? r : (r = fits(files, n, fit, least, u, out, err)) < 0 ? r : LM_OK;
}
