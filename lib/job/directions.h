/* SPDX-License-Identifier: MIT */
#ifndef LM_DIRECTIONS_H
#define LM_DIRECTIONS_H

/*
 * Making control vectors: what sets the results of layers after one kind of texts apart from those
 * after another.
 *
 * Texts come in pairs.  Row i of the differences D_l of layer l is its result after the last token
 * of the first text of pair i, less that of the second.  The direction of a layer, of length 1, is
 *
 *   mean   the mean of the rows
 *   pca    the first principal component of the rows, through the origin: the v of length 1 for
 *          which |D_l v| is greatest, by power iteration on D_l^T D_l, pointing to the side of the
 *          mean (Zou et al., "Representation Engineering", 2023)
 *
 * The file is GGUF of the architecture controlvector with a tensor direction.l, F32 [n_embd], for
 * each layer l but the first, counted from 0.
 */

#include "io/input.h"
#include "io/output.h"
#include "model/model.h"

enum lm_directions_by { LM_DIRECTIONS_MEAN, LM_DIRECTIONS_PCA };

/*
 * lm_directions_write - the control vector of token streams, line k of both being pair k.
 *
 * LM_EDATA when a stream is faulty, one has fewer lines, a line is empty or longer than the model
 * allows, or the pairs do not differ in some layer; LM_EUSE for one longer than the context;
 * LM_ENOSUP for models whose layers' results cannot be seen.
 */
int lm_directions_write(struct lm_model *m, struct lm_ctx *c, struct lm_in *first,
                        struct lm_in *second, enum lm_directions_by by, struct lm_out *out,
                        const struct lm_env *env, struct lm_err *err);

#endif
