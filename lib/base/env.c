/* SPDX-License-Identifier: MIT */
#include "base/env.h"

#include <stdarg.h>
#include <stdio.h>

void lm_note(const struct lm_env *env, enum lm_level level, const char *fmt, ...)
{
    if (!env || !env->note)
        return;
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    env->note(env->user, level, text);
}

void lm_progress(const struct lm_env *env, const char *what, uint64_t done, uint64_t total)
{
    if (env && env->progress)
        env->progress(env->user, what, done, total);
}

bool lm_stopped(const struct lm_env *env)
{
    return env && env->stop && env->stop(env->user);
}

int lm_env_threads(const struct lm_env *env)
{
    return env && env->n_threads > 0 ? env->n_threads : 1;
}
