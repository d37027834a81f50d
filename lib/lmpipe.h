/* SPDX-License-Identifier: MIT */
#ifndef LMPIPE_H
#define LMPIPE_H

/*
 * liblmpipe - what a C program includes.
 *
 *   struct lm_err err;
 *   struct lm_env env = { .n_threads = lm_cpu_count() };
 *   struct lm_model *m = lm_model_load("m.gguf", NULL, &env, &err);
 *   struct lm_ctx *c = m ? lm_ctx_new(m, NULL, &env, &err) : NULL;
 *   struct lm_batch_token t = { .id = 1, .seq = 0, .pos = 0, .want = true };
 *   if (c && lm_ctx_decode(c, &t, 1, &err) == LM_OK)
 *       use(lm_ctx_logits(c, 0), lm_model_n_vocab(m));
 *   lm_ctx_free(c);
 *   lm_model_free(m);
 *
 * Compile with -I for the folder this file is in.  Functions return LM_OK or a code below
 * zero, or NULL, and fill the struct lm_err with words; nothing prints or exits.  What a
 * function named _open, _new or _load returns is given back to _close or _free.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* C++ may include this header, though none of the others alone. */
#ifdef __cplusplus
extern "C" {
#endif

#include "base/cpu.h"
#include "base/env.h"
#include "base/err.h"
#include "base/json.h"
#include "base/version.h"
#include "gguf/gguf.h"
#include "io/input.h"
#include "io/output.h"
#include "job/chat.h"
#include "model/model.h"
#include "quant/quant.h"
#include "sample/chain.h"
#include "stream/logits.h"
#include "stream/loop.h"
#include "stream/tokens.h"
#include "vocab/vocab.h"

#ifdef __cplusplus
}
#endif

#endif
