/* SPDX-License-Identifier: MIT */
#ifndef LM_TENSOR_DEVICE_H
#define LM_TENSOR_DEVICE_H

/*
 * Rules REGEX=DEVICE that say where the weights of some tensors go, for struct lm_placement.
 *
 *   struct lm_tensor_devices *d = NULL;
 *   lm_tensor_devices_add(&d, "exps=cpu", &err);
 *   placement.choose = lm_tensor_devices_choose;  placement.choose_arg = d;
 */

#include "base/err.h"

struct lm_tensor_devices;

/* Add a rule behind those of *list, which is made when it is NULL.  LM_EUSE when it has no '=',
 * no device, or no pattern (job/pattern.h); LM_ENOMEM.  The text is borrowed. */
int lm_tensor_devices_add(struct lm_tensor_devices **list, const char *rule, struct lm_err *err);
void lm_tensor_devices_free(struct lm_tensor_devices *list);

/* The device that the first rule whose pattern occurs in the name gives, the list's; or NULL.
 * arg is the list. */
const char *lm_tensor_devices_choose(void *arg, const char *tensor);

/* The first rule that has given no tensor's device, or NULL. */
const char *lm_tensor_devices_unused(const struct lm_tensor_devices *list);

#endif
