/* SPDX-License-Identifier: MIT */
#include "cli/restore_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "io/input.h"
#include "job/restore.h"

/* A file's path in a folder; the caller's. */
static char *path_in(const char *folder, const char *name)
{
    struct lm_buf b = {0};
    lm_buf_printf(&b, "%s/%s", folder, name);
    if (b.failed)
        cli_die(CLI_TROUBLE, "out of memory");
    return b.data;
}

static int to_stdout(struct lm_restore *r, bool force)
{
    struct lm_err err = {0};
    struct lm_out *out = cli_out_open("-", true, force);
    if (lm_restore_write(r, out, &err) == LM_OK)
        return cli_out_commit(out);
    cli_out_abort(out);
    return cli_report(NULL, &err);
}

/* The folder is there, or made (*made), and no list in it names other files. */
static void make_folder(const char *folder, bool *made)
{
    struct stat st;
    *made = mkdir(folder, 0777) == 0;
    if (!*made && (errno != EEXIST || stat(folder, &st)))
        cli_die(CLI_TROUBLE, "%s: %s", folder, strerror(errno));
    if (!*made && !S_ISDIR(st.st_mode))
        cli_die(CLI_TROUBLE, "%s: is no folder", folder);
    char *list = path_in(folder, "model.safetensors.index.json");
    if (access(list, F_OK) == 0)
        cli_die(CLI_TROUBLE, "%s: says that the weights are in other files", list);
    free(list);
}

/* Both files, or neither. */
static int to_folder(struct lm_restore *r, const char *in, const char *folder)
{
    char *paths[2] = { path_in(folder, "config.json"), path_in(folder, "model.safetensors") };
    struct lm_out *outs[2];
    struct lm_err err = {0};
    size_t len;
    bool made;
    int status;
    const char *config = lm_restore_config(r, &len);
    cli_refuse_same(in, paths[0]);
    cli_refuse_same(in, paths[1]);
    make_folder(folder, &made);
    for (int i = 0; i < 2; i++)
        outs[i] = cli_out_open(paths[i], true, true);
    int s = lm_out_write(outs[0], config, len, &err);
    if (s)
        lm_err_at(&err, s, "%s", lm_out_name(outs[0]));
    else
        s = lm_restore_write(r, outs[1], &err);
    if (s) {
        cli_out_abort(outs[0]);
        cli_out_abort(outs[1]);
        status = cli_report(NULL, &err);
    } else {
        status = cli_out_commit_all(outs, 2);
    }
    if (status && made)
        rmdir(folder);                          /* which is empty */
    free(paths[0]);
    free(paths[1]);
    return status;
}

int cli_restore(const char *in, const char *out, const char *type, bool force,
                const struct lm_env *env)
{
    struct lm_err err = {0};
    struct lm_in *file = lm_in_open(in, 0, &err);
    if (!file)
        cli_die_err(in, &err);
    struct lm_restore *r = lm_restore_new(file, type, env, &err);
    if (!r)
        cli_die_err(lm_in_name(file), &err);
    const int status = out && strcmp(out, "-") ? to_folder(r, in, out) : to_stdout(r, force);
    lm_restore_free(r);
    lm_in_close(file);
    return status;
}
