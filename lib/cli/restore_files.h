/* SPDX-License-Identifier: MIT */
#ifndef LM_CLI_RESTORE_FILES_H
#define LM_CLI_RESTORE_FILES_H

#include <stdbool.h>

#include "base/env.h"

/*
 * What gguf-convert --to-safetensors does: the model in file `in` becomes config.json and
 * model.safetensors in folder `out`, which is made if need be; both appear, or neither.  out "-"
 * or NULL: the weights alone, on standard output.  type as lm_restore_new takes it; force: to a
 * terminal too.  Returns the exit status; what is wrong before the first output ends the program.
 */
int cli_restore(const char *in, const char *out, const char *type, bool force,
                const struct lm_env *env);

#endif
