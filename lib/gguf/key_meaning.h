/* SPDX-License-Identifier: MIT */
#ifndef LM_KEY_MEANING_H
#define LM_KEY_MEANING_H

/*
 * lm_key_meaning - what a metadata key means, in a few words, or NULL.
 *
 *   arch  general.architecture, whose own keys begin with it and a dot; may be ""
 */
const char *lm_key_meaning(const char *key, const char *arch);

#endif
