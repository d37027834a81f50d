/* SPDX-License-Identifier: MIT */
#include "io/map.h"

#include <sys/mman.h>
#include <sys/stat.h>

int lm_map_fd(struct lm_map *m, int fd, struct lm_err *err)
{
    struct stat st;
    *m = (struct lm_map){ 0 };
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return lm_fail(err, LM_EUSE, "not a regular file, so it cannot be mapped");
    if (st.st_size == 0)
        return lm_fail(err, LM_EDATA, "is empty");
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return lm_fail_errno(err, "cannot map");
    *m = (struct lm_map){ p, (uint64_t)st.st_size };
    return LM_OK;
}

void lm_map_close(struct lm_map *m)
{
    if (m->data)
        munmap((void *)m->data, (size_t)m->size);
    *m = (struct lm_map){ 0 };
}
