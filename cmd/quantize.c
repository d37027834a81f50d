/* SPDX-License-Identifier: MIT */
/* quantize - write a GGUF model again with its tensors in smaller types. */

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/size.h"
#include "cli/cli.h"
#include "gguf/kv_arg.h"
#include "job/quant_job.h"

static const char usage[] =
    "usage: quantize [-hqvV] [-o out] [-t n] [option ...] in [out] type [threads]\n";

static const char help[] =
    "\n"
    "Write the model IN to OUT with its tensors in the types of the mix TYPE, such\n"
    "as Q4_K_M.  IN and OUT may be -, for standard input and output.\n"
    "\n"
    "      --allow-requantize       also from tensors that are quantized already\n"
    "      --dry-run                print what would be done, a line a tensor\n"
    "      --exclude-weights=NAME   without importance of tensors with NAME in theirs\n"
    "      --force                  write to a terminal\n"
    "      --imatrix=FILE           importance of weights, as imatrix writes it\n"
    "      --include-weights=NAME   importance only of tensors with NAME in theirs\n"
    "      --leave-output-tensor    keep output.weight as it is\n"
    "      --long                   allow zstd input with windows above 128 MiB\n"
    "  -o, --output=OUT             instead of the operand OUT\n"
    "      --output-tensor-type=T   T for output.weight\n"
    "      --override-kv=KEY=TYPE:VALUE\n"
    "                               set metadata\n"
    "      --progress               show progress even if stderr is no terminal\n"
    "      --provenance             add a key that names this program and its options\n"
    "      --pure                   the default type of TYPE for all, no mix\n"
    "  -q, --quiet                  no warnings, no progress\n"
    "      --sort                   tensors in llama.cpp's order (IN not a pipe)\n"
    "      --tensor-type=REGEX=T    T for the tensors whose name matches\n"
    "      --tensor-type-file=FILE  such REGEX=T, separated by blanks\n"
    "  -t, --threads=N              threads [the CPUs there are]\n"
    "      --token-embedding-type=T T for the token embeddings\n"
    "  -v, --verbose                say what each tensor becomes\n"
    "  -h, --help                   show this help and the types\n"
    "  -V, --version                show the version\n"
    "\n";

enum {
    OPT_REQUANT = 256, OPT_DRY_RUN, OPT_EXCLUDE, OPT_FORCE, OPT_IMATRIX, OPT_INCLUDE, OPT_LEAVE,
    OPT_LONG, OPT_OUTPUT_TYPE, OPT_OVERRIDE, OPT_PROGRESS, OPT_PROVENANCE, OPT_PURE, OPT_SORT,
    OPT_TENSOR_TYPE, OPT_TYPE_FILE, OPT_EMBEDDING_TYPE
};

static const struct option options[] = {
    { "allow-requantize",     no_argument,       NULL, OPT_REQUANT },
    { "dry-run",              no_argument,       NULL, OPT_DRY_RUN },
    { "exclude-weights",      required_argument, NULL, OPT_EXCLUDE },
    { "force",                no_argument,       NULL, OPT_FORCE },
    { "help",                 no_argument,       NULL, 'h' },
    { "imatrix",              required_argument, NULL, OPT_IMATRIX },
    { "include-weights",      required_argument, NULL, OPT_INCLUDE },
    { "leave-output-tensor",  no_argument,       NULL, OPT_LEAVE },
    { "long",                 no_argument,       NULL, OPT_LONG },
    { "output",               required_argument, NULL, 'o' },
    { "output-tensor-type",   required_argument, NULL, OPT_OUTPUT_TYPE },
    { "override-kv",          required_argument, NULL, OPT_OVERRIDE },
    { "progress",             no_argument,       NULL, OPT_PROGRESS },
    { "provenance",           no_argument,       NULL, OPT_PROVENANCE },
    { "pure",                 no_argument,       NULL, OPT_PURE },
    { "quiet",                no_argument,       NULL, 'q' },
    { "sort",                 no_argument,       NULL, OPT_SORT },
    { "tensor-type",          required_argument, NULL, OPT_TENSOR_TYPE },
    { "tensor-type-file",     required_argument, NULL, OPT_TYPE_FILE },
    { "threads",              required_argument, NULL, 't' },
    { "token-embedding-type", required_argument, NULL, OPT_EMBEDDING_TYPE },
    { "verbose",              no_argument,       NULL, 'v' },
    { "version",              no_argument,       NULL, 'V' },
    { 0 }
};

/* Lists that options add to; each string list ends with NULL once it is used. */
static struct lm_quantize_options o;
static struct cli_env_options env_options;
static struct lm_arena arena;
static struct lm_quantize_wish *wishes;
static struct lm_gguf_kv *overrides;
static const char **include, **exclude;
static size_t wishes_cap, overrides_cap, include_cap, exclude_cap, n_include, n_exclude;
static const char *in_path, *out_path, *imatrix_path, *type_file;
static bool force, long_window, provenance;

static void must_grow(void *array, size_t *cap, size_t need, size_t size)
{
    if (!lm_grow(array, cap, need, size))
        cli_die(CLI_TROUBLE, "out of memory");
}

static void add_name(const char ***list, size_t *n, size_t *cap, const char *name)
{
    must_grow(list, cap, *n + 2, sizeof **list);
    (*list)[(*n)++] = name;
    (*list)[*n] = NULL;
}

/* A type that tensors of weights can have. */
static const struct lm_type *tensor_type(const char *opt, const char *name)
{
    const struct lm_type *t = lm_type_by_name(name);
    if (t && t->in_files && t->decode && t->id != LM_F64)
        return t;
    struct lm_buf all = { 0 };
    for (int i = 0; lm_types[i]; i++)
        if (lm_types[i]->in_files && lm_types[i]->decode && lm_types[i]->id != LM_F64)
            lm_buf_printf(&all, "%s%s", all.len ? " " : "", lm_types[i]->name);
    cli_bad_usage("--%s: '%s' is not one of %s", opt, name, all.data ? all.data : "");
}

static void add_wish(const char *opt, const char *arg)
{
    struct lm_err err;
    const char *eq = strchr(arg, '=');
    if (!eq)
        cli_bad_usage("--%s: '%s' is not REGEX=TYPE", opt, arg);
    must_grow(&wishes, &wishes_cap, o.n_wishes + 1, sizeof *wishes);
    struct lm_quantize_wish *w = &wishes[o.n_wishes++];
    w->type = tensor_type(opt, eq + 1);
    w->pattern = lm_pattern_new(arg, (size_t)(eq - arg), &err);
    if (!w->pattern)
        cli_bad_usage("--%s: '%s': %s", opt, arg, err.text);
}

static void add_wishes(const char *path)
{
    struct lm_err err;
    char *text;
    size_t len;
    if (lm_read_file(path, 1 << 24, &text, &len, &err) != LM_OK)
        cli_die_err(path, &err);
    for (char *word = strtok(text, " \t\r\n\v\f"); word; word = strtok(NULL, " \t\r\n\v\f"))
        add_wish("tensor-type-file", word);
    free(text);
    type_file = path;
}

static void add_override(const char *arg)
{
    struct lm_err err;
    must_grow(&overrides, &overrides_cap, o.n_overrides + 1, sizeof *overrides);
    if (lm_kv_arg(arg, &arena, &overrides[o.n_overrides++], &err) != LM_OK)
        cli_bad_usage("--override-kv: %s", err.text);
}

/* getopt moves operands behind options, which leaves the meaning. */
static void add_provenance(char *const argv[])
{
    char *text = cli_provenance(argv);
    must_grow(&overrides, &overrides_cap, o.n_overrides + 1, sizeof *overrides);
    overrides[o.n_overrides++] = (struct lm_gguf_kv){
        .key = { CLI_PROVENANCE_KEY, sizeof CLI_PROVENANCE_KEY - 1 }, .kind = LM_GGUF_STR,
        .str = { lm_arena_copy(&arena, text, strlen(text)), strlen(text) },
    };
    free(text);
    if (!overrides[o.n_overrides - 1].str.p)
        cli_die(CLI_TROUBLE, "out of memory");
}

static int show_help(void)
{
    printf("%s%sTypes:", usage, help);
    int column = 80;
    for (const struct lm_file_type *f = lm_file_types; f->name; f++) {
        int width = (int)strlen(f->name) + 1;
        if (column + width > 78) {
            fputs("\n ", stdout);
            column = 1;
        }
        column += printf(" %s", f->name);
    }
    puts("");
    return cli_finish(CLI_OK);
}

static void read_options(int argc, char *argv[])
{
    int c;
    while ((c = getopt_long(argc, argv, "ho:qt:vV", options, NULL)) != -1)
        switch (c) {
        case 'h':                exit(show_help());
        case 'o':                out_path = optarg; break;
        case 'q':                env_options.quiet = true; break;
        case 't':                env_options.n_threads = cli_threads(optarg); break;
        case 'v':                env_options.verbose = true; break;
        case 'V':                exit(cli_version());
        case OPT_REQUANT:        o.allow_requantize = true; break;
        case OPT_DRY_RUN:        o.dry_run = true; break;
        case OPT_EXCLUDE:        add_name(&exclude, &n_exclude, &exclude_cap, optarg); break;
        case OPT_FORCE:          force = true; break;
        case OPT_IMATRIX:        imatrix_path = optarg; break;
        case OPT_INCLUDE:        add_name(&include, &n_include, &include_cap, optarg); break;
        case OPT_LEAVE:          o.leave_output = true; break;
        case OPT_LONG:           long_window = true; break;
        case OPT_OUTPUT_TYPE:    o.output_type = tensor_type("output-tensor-type", optarg); break;
        case OPT_OVERRIDE:       add_override(optarg); break;
        case OPT_PROGRESS:       env_options.progress = true; break;
        case OPT_PROVENANCE:     provenance = true; break;
        case OPT_PURE:           o.pure = true; break;
        case OPT_SORT:           o.sort = true; break;
        case OPT_TENSOR_TYPE:    add_wish("tensor-type", optarg); break;
        case OPT_TYPE_FILE:      add_wishes(optarg); break;
        case OPT_EMBEDDING_TYPE:
            o.embedding_type = tensor_type("token-embedding-type", optarg);
            break;
        default:                 cli_try_help();
        }
    if (include && exclude)
        cli_bad_usage("--include-weights and --exclude-weights exclude each other");
    if ((include || exclude) && !imatrix_path)
        cli_bad_usage("--include-weights and --exclude-weights need --imatrix");
    if (provenance)
        add_provenance(argv);
    o.wishes = wishes;
    o.overrides = overrides;
    o.include = include;
    o.exclude = exclude;
}

/* IN [OUT] TYPE [THREADS]; OUT is an operand unless -o or --dry-run say otherwise. */
static void read_operands(int argc, char *argv[])
{
    char **arg = argv + optind, **end = argv + argc;
    bool has_out = !out_path && !(o.dry_run && end - arg == 2);
    if (end - arg < 2 + has_out || end - arg > 3 + has_out)
        cli_bad_usage("operands wanted: IN %sTYPE [THREADS]", out_path ? "" : "OUT ");
    in_path = *arg++;
    if (has_out)
        out_path = *arg++;
    o.file_type = lm_file_type_by_name(*arg);
    if (!o.file_type) {
        struct lm_buf all = { 0 };
        for (const struct lm_file_type *f = lm_file_types; f->name; f++)
            lm_buf_printf(&all, " %s", f->name);
        cli_bad_usage("'%s' is not one of the types%s", *arg, all.data ? all.data : "");
    }
    if (++arg < end)
        env_options.n_threads = cli_threads(*arg);
}

/* The matrix lives until the end of the program. */
static void load_importance(void)
{
    struct lm_err err;
    struct lm_in *in = lm_in_open(imatrix_path, long_window ? LM_IN_LONG : 0, &err);
    o.importance = in ? lm_importance_read(in, &err) : NULL;
    if (!o.importance)
        cli_die_err(imatrix_path, &err);
    o.importance_name = imatrix_path;
    lm_in_close(in);
}

/* TSV: name, types, bytes; a last line for all. */
static void print_plan(const struct lm_quantize *q)
{
    struct lm_buf b = { 0 };
    uint64_t from = 0, to = 0;
    puts("tensor\tshape\tfrom\tto\tbytes_from\tbytes_to\timportance");
    for (size_t i = 0; i < q->n_rows; i++) {
        const struct lm_quantize_row *r = &q->rows[i];
        lm_buf_clear(&b);
        lm_buf_escape(&b, r->in->name.p, r->in->name.len);
        lm_buf_byte(&b, '\t');
        for (uint32_t k = 0; k < r->in->n_dims; k++)
            lm_buf_printf(&b, "%s%" PRIu64, k ? "x" : "", r->in->ne[k]);
        lm_buf_printf(&b, "\t%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%s\n", r->in->type->name,
                      r->target->name, r->in->bytes, r->bytes, r->weights ? "yes" : "no");
        if (b.failed)
            cli_die(CLI_TROUBLE, "out of memory");
        cli_write(b.data, b.len);
        from += r->in->bytes;
        to += r->bytes;
    }
    printf("total\t\t\t\t%" PRIu64 "\t%" PRIu64 "\t\n", from, to);
    lm_buf_release(&b);
}

static int write_model(const struct lm_quantize *q, const struct lm_env *env)
{
    struct lm_err err;
    struct lm_out *out = cli_out_open(out_path, true, force);
    if (lm_quantize_run(q, out, env, &err) != LM_OK) {
        cli_out_abort(out);
        return cli_report(NULL, &err);
    }
    return cli_out_commit(out);
}

int main(int argc, char *argv[])
{
    struct lm_err err;
    int status = CLI_OK;

    cli_start(argv);
    read_options(argc, argv);
    read_operands(argc, argv);
    struct lm_env env = cli_env(env_options);
    if (!o.dry_run) {
        cli_refuse_same(in_path, out_path);
        if (imatrix_path)
            cli_refuse_same(imatrix_path, out_path);
        if (type_file)
            cli_refuse_same(type_file, out_path);
    }
    struct lm_in *in = lm_in_open(in_path, long_window ? LM_IN_LONG : 0, &err);
    if (!in)
        cli_die_err(strcmp(in_path, "-") ? in_path : "<stdin>", &err);
    if (imatrix_path)
        load_importance();
    struct lm_quantize *q = lm_quantize_plan(in, &o, &env, &err);
    if (!q)
        cli_die_err(lm_in_name(in), &err);
    for (size_t k = 1; k < q->n_shards && !o.dry_run; k++)
        cli_refuse_same(lm_in_name(q->shards[k].in), out_path);
    if (o.dry_run)
        print_plan(q);
    else
        status = write_model(q, &env);
    lm_quantize_free(q);
    lm_in_close(in);
    for (size_t i = 0; i < o.n_wishes; i++)
        lm_pattern_free(wishes[i].pattern);
    lm_importance_free((struct lm_importance *)o.importance);
    lm_arena_release(&arena);
    free(wishes);
    free(overrides);
    free(include);
    free(exclude);
    return cli_finish(status);
}
