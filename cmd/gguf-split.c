/* SPDX-License-Identifier: MIT */
/* gguf-split - cut a GGUF file into shards, or join them. */

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/size.h"
#include "cli/cli.h"
#include "gguf/split.h"

static const char usage[] =
    "usage: gguf-split [-hqvV] [-o prefix] [option ...] in [prefix | out]\n";

static const char help[] =
    "\n"
    "Cut the model IN into files PREFIX-00001-of-00003.gguf and so on; or, with\n"
    "--merge, join the files whose first is IN to OUT, default standard output.\n"
    "\n"
    "      --dry-run                only list the files that would be written\n"
    "      --force                  write to a terminal\n"
    "      --long                   allow zstd input with windows above 128 MiB\n"
    "      --max-size=N             no file larger than N bytes (K, M, G, Ki, ...)\n"
    "      --max-tensors=N          no more than N tensors in a file [128]\n"
    "      --merge                  join\n"
    "      --no-tensor-first-split  only metadata in the first file\n"
    "  -o, --output=PREFIX          instead of the operand PREFIX or OUT\n"
    "      --progress               show progress even if not on a terminal\n"
    "      --provenance             add a key that names this program and its options\n"
    "  -q, --quiet                  no warnings, no progress\n"
    "  -v, --verbose                say which file is written\n"
    "  -h, --help                   show this help\n"
    "  -V, --version                show the version\n";

enum { OPT_DRY_RUN = 256, OPT_FORCE, OPT_LONG, OPT_MAX_SIZE, OPT_MAX_TENSORS, OPT_MERGE,
       OPT_NO_TENSOR, OPT_PROGRESS, OPT_PROVENANCE };

static const struct option options[] = {
    { "dry-run",               no_argument,       NULL, OPT_DRY_RUN },
    { "force",                 no_argument,       NULL, OPT_FORCE },
    { "help",                  no_argument,       NULL, 'h' },
    { "long",                  no_argument,       NULL, OPT_LONG },
    { "max-size",              required_argument, NULL, OPT_MAX_SIZE },
    { "max-tensors",           required_argument, NULL, OPT_MAX_TENSORS },
    { "merge",                 no_argument,       NULL, OPT_MERGE },
    { "no-tensor-first-split", no_argument,       NULL, OPT_NO_TENSOR },
    { "output",                required_argument, NULL, 'o' },
    { "progress",              no_argument,       NULL, OPT_PROGRESS },
    { "provenance",            no_argument,       NULL, OPT_PROVENANCE },
    { "quiet",                 no_argument,       NULL, 'q' },
    { "verbose",               no_argument,       NULL, 'v' },
    { "version",               no_argument,       NULL, 'V' },
    { 0 }
};

#define DEFAULT_TENSORS 128

static struct lm_split_options o;
static struct cli_env_options env_options;
static struct lm_gguf_kv origin;
static const char *in_path, *out_path;
static bool dry_run, force, long_window, provenance;

/* The entry to add, and the text it points to, which is the caller's to free. */
static char *add_provenance(char *const argv[])
{
    char *text = cli_provenance(argv);
    origin = (struct lm_gguf_kv){
        .key = { CLI_PROVENANCE_KEY, sizeof CLI_PROVENANCE_KEY - 1 }, .kind = LM_GGUF_STR,
        .str = { text, strlen(text) },
    };
    o.extra = &origin;
    return text;
}

static void read_options(int argc, char *argv[])
{
    int c;
    while ((c = getopt_long(argc, argv, "ho:qvV", options, NULL)) != -1)
        switch (c) {
        case 'h':             exit(cli_help(usage, help));
        case 'o':             out_path = optarg; break;
        case 'q':             env_options.quiet = true; break;
        case 'v':             env_options.verbose = true; break;
        case 'V':             exit(cli_version());
        case OPT_DRY_RUN:     dry_run = true; break;
        case OPT_FORCE:       force = true; break;
        case OPT_LONG:        long_window = true; break;
        case OPT_MAX_SIZE:    o.max_size = cli_u64("max-size", optarg, 1, INT64_MAX); break;
        case OPT_MAX_TENSORS:
            o.max_tensors = cli_u64("max-tensors", optarg, 1, INT32_MAX);
            break;
        case OPT_MERGE:       o.merge = true; break;
        case OPT_NO_TENSOR:   o.no_tensor_first = true; break;
        case OPT_PROGRESS:    env_options.progress = true; break;
        case OPT_PROVENANCE:  provenance = true; break;
        default:              cli_try_help();
        }
    if (o.max_size && o.max_tensors)
        cli_bad_usage("--max-size and --max-tensors exclude each other");
    if (o.merge && (o.max_size || o.max_tensors || o.no_tensor_first))
        cli_bad_usage("--merge makes one file: no --max-size, --max-tensors or "
                      "--no-tensor-first-split");
    if (!o.merge && !o.max_size && !o.max_tensors)
        o.max_tensors = DEFAULT_TENSORS;
}

static void read_operands(int argc, char *argv[])
{
    const int n = argc - optind, most = out_path ? 1 : 2;
    if (n < 1 || n > most || (!o.merge && !out_path && n < 2))
        cli_bad_usage("operands wanted: IN%s", out_path ? "" : o.merge ? " [OUT]" : " PREFIX");
    in_path = argv[optind];
    if (n == 2)
        out_path = argv[optind + 1];
    if (!o.merge && !strcmp(out_path, "-"))
        cli_bad_usage("several files cannot go to standard output");
}

/* The name of output k; NULL is standard output. */
static char *out_name(const struct lm_split *s, size_t k)
{
    char *name = o.merge && out_path ? strdup(out_path)
               : o.merge ? strdup("-") : lm_split_path(out_path, k, s->n_shards);
    if (!name)
        cli_die(CLI_TROUBLE, "out of memory");
    return name;
}

/* TSV: file, tensors, bytes; a last line for all. */
static int list(const struct lm_split *s)
{
    struct lm_buf b = { 0 };
    uint64_t total = 0;
    lm_buf_str(&b, "file\ttensors\tbytes\n");
    for (size_t k = 0; k < s->n_shards; k++) {
        char *name = out_name(s, k);
        lm_buf_escape(&b, name, strlen(name));
        lm_buf_printf(&b, "\t%" PRIu64 "\t%" PRIu64 "\n", s->shards[k].g.n_tensors,
                      s->shards[k].size);
        total += s->shards[k].size;
        free(name);
    }
    lm_buf_printf(&b, "total\t%" PRIu64 "\t%" PRIu64 "\n", s->n_tensors, total);
    if (b.failed)
        cli_die(CLI_TROUBLE, "out of memory");
    fwrite(b.data, 1, b.len, stdout);
    lm_buf_release(&b);
    return CLI_OK;
}

/* No output may be a file of the input. */
static void refuse_same(const struct lm_split *s)
{
    for (size_t k = 0; k < s->n_shards; k++) {
        char *name = out_name(s, k);
        for (size_t i = 0; i < s->n_inputs; i++)
            cli_refuse_same(i ? s->inputs[i].path : in_path, name);
        free(name);
    }
}

/* All files, or none. */
static int write_all(struct lm_split *s, const struct lm_env *env)
{
    struct lm_err err;
    struct lm_out **outs = lm_malloc_array(s->n_shards, sizeof *outs);
    size_t n = 0;
    int r = LM_OK;
    if (!outs)
        cli_die(CLI_TROUBLE, "out of memory");
    while (n < s->n_shards && r == LM_OK) {
        char *name = out_name(s, n);
        outs[n] = cli_out_open(name, true, force);
        lm_note(env, LM_INFO, "%s: %" PRIu64 " tensors, %" PRIu64 " bytes", lm_out_name(outs[n]),
                s->shards[n].g.n_tensors, s->shards[n].size);
        r = lm_split_write(s, n, outs[n], env, &err);
        if (r == LM_OK && (r = lm_out_complete(outs[n], &err)) != LM_OK)
            lm_err_at(&err, r, "%s", name);
        free(name);
        n++;
    }
    if (r != LM_OK)
        while (n)
            cli_out_abort(outs[--n]);
    const int status = r == LM_OK ? cli_out_commit_all(outs, n) : cli_report(NULL, &err);
    free(outs);
    return status;
}

int main(int argc, char *argv[])
{
    struct lm_err err;
    const char *name;
    char *text = NULL;
    cli_start(argv);
    read_options(argc, argv);
    read_operands(argc, argv);
    if (provenance)
        text = add_provenance(argv);
    name = strcmp(in_path, "-") ? in_path : "<stdin>";
    struct lm_env env = cli_env(env_options);
    const int flags = long_window ? LM_IN_LONG : 0;
    struct lm_in *in = lm_in_open(in_path, flags, &err);
    if (!in)
        cli_die_err(name, &err);
    struct lm_split *s = lm_split_open(in, flags, &env, &err);
    if (!s)
        cli_die_err(NULL, &err);
    if (o.merge && !lm_split_is_shard(s))
        cli_die(CLI_NO, "%s: is no shard: it has no key split.count", name);
    if (lm_split_plan(s, &o, &env, &err) != LM_OK)
        cli_die_err(NULL, &err);
    if (!dry_run)
        refuse_same(s);
    const int status = dry_run ? list(s) : write_all(s, &env);
    lm_split_free(s);
    lm_in_close(in);
    free(text);
    return cli_finish(status);
}
