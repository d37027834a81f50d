/* SPDX-License-Identifier: MIT */
/* lmpipe - run one of the programs by name, for systems where its name is taken. */

#define _DEFAULT_SOURCE           /* scandir, alphasort, execv path lookups */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static const char usage[] = "usage: lmpipe [-hV] program [argument ...]\n";

static const char help[] =
    "\n"
    "Run one of the lmpipe programs, wherever they are installed and whatever\n"
    "else has taken its name: 'lmpipe sample ...' is 'sample ...'.\n"
    "\n"
    "  -h, --help     show this help and the programs there are\n"
    "  -V, --version  show the version\n"
    "\n";

/* Is there a program of ours in dir? */
static bool holds_programs(const char *dir)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/gguf-inspect", dir) < (int)sizeof path &&
           access(path, X_OK) == 0;
}

/* The folder of the programs: the one this program lies in (a build), else the libexec
 * folder beside it (installed, wherever that was moved to), else where make put it. */
static const char *folder(void)
{
    static const char *const beside[] = { "", "/../libexec/lmpipe" };
    static char path[PATH_MAX];
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = n > 0 ? (self[n] = 0, strrchr(self, '/')) : NULL;
    for (size_t i = 0; slash && i < sizeof beside / sizeof *beside; i++) {
        *slash = 0;
        if (snprintf(path, sizeof path, "%s%s", self, beside[i]) < (int)sizeof path &&
            holds_programs(path))
            return path;
    }
    return LM_LIBEXECDIR;
}

static void list(const char *dir)
{
    struct dirent **names;
    int n = scandir(dir, &names, NULL, alphasort);
    int column = printf("Programs:");
    for (int i = 0; i < n; i++) {
        const char *name = names[i]->d_name;
        if (name[0] != '.' && strcmp(name, "lmpipe")) {
            if (column + 1 + (int)strlen(name) > 78)
                column = printf("\n ") - 1;
            column += printf(" %s", name);
        }
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    putchar('\n');
}

int main(int argc, char *argv[])
{
    cli_start(argv);
    const char *dir = folder(), *name = argc > 1 ? argv[1] : "";
    if (!strcmp(name, "-h") || !strcmp(name, "--help")) {
        printf("%s%s", usage, help);
        list(dir);
        return cli_finish(CLI_OK);
    }
    if (!strcmp(name, "-V") || !strcmp(name, "--version"))
        return cli_version();
    if (argc < 2)
        cli_bad_usage("a program's name is missing");
    if (*name == '-')
        cli_bad_usage("%s: no such option", name);

    char path[PATH_MAX];
    if (strchr(name, '/') || !strcmp(name, "lmpipe") ||
        snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        cli_bad_usage("%s: no such program", name);
    execv(path, argv + 1);
    if (errno == ENOENT)
        cli_bad_usage("%s: no such program", name);
    cli_die(CLI_TROUBLE, "%s: cannot run: %s", path, strerror(errno));
}
