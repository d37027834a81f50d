/* SPDX-License-Identifier: MIT */
#ifndef LM_KV_ARG_H
#define LM_KV_ARG_H

/* Metadata entries from words of a command line. */

#include "base/arena.h"
#include "gguf/gguf.h"

/*
 * lm_kv_arg - a metadata entry from the KEY=TYPE:VALUE of a command line.
 *
 * TYPE is u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool str, or json for an array of
 * strings, bools, integers (i32, or i64 if one needs it) or numbers (f32); int and
 * float are what llama.cpp writes for them: u32 of the absolute value, and f32.
 *
 * What the entry points to lives in the arena.  LM_OK, or LM_EUSE with words that
 * say what is wrong with arg.
 */
int lm_kv_arg(const char *arg, struct lm_arena *a, struct lm_gguf_kv *kv, struct lm_err *err);

/* A number or bool of that kind from its text; what it fills is kv's value alone.  False
 * if it is none, or does not fit. */
bool lm_kv_scalar(const char *text, enum lm_gguf_kind kind, struct lm_gguf_kv *kv);

#endif
