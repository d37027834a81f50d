/* SPDX-License-Identifier: MIT */
#ifndef LM_HF_TORCH_FILE_H
#define LM_HF_TORCH_FILE_H

/*
 * Checkpoints as torch.save writes them since PyTorch 1.6 (pytorch_model.bin): a zip without
 * compression, with
 *
 *   NAME/data.pkl    a pickle, which says what tensors there are (pickle.h)
 *   NAME/data/KEY    the bytes of a storage; several tensors may be parts of one
 *   NAME/byteorder   "little" or "big"; files without it are little-endian
 */

#include "base/arena.h"
#include "base/err.h"
#include "hf/safetensors.h"
#include "io/archive_index.h"

/*
 * lm_torch_read - the tensors of such a file, as a safetensors header would describe them:
 * offsets count from the beginning of the file.
 *
 *   file    its bytes
 *   number  what readers of packed weights know the file by (packed.h): tensors whose axes do
 *           not lie in order, or whose bytes do not, are packed
 *
 * Every tensor lies within its storage, and that in the file.  LM_ENOSUP for PyTorch's form
 * before 1.6 and for a dictionary of other things; LM_EDATA for a pickle that names functions.
 */
int lm_torch_read(struct lm_safetensors *st, struct lm_arena *a, const struct lm_zip_bytes *file,
                  size_t number, struct lm_err *err);

#endif
