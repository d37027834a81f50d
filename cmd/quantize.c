/* SPDX-License-Identifier: MIT */
/* quantize - write a GGUF model again with its tensors in smaller types. */

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/size.h"
#include "cli/cli.h"
#include "gguf/kv_arg.h"
#include "gguf/split.h"
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
    "  -h, --help                   show this help and the types\n"
    "      --imatrix=FILE           importance of weights, as imatrix writes it\n"
    "      --include-weights=NAME   importance only of tensors with NAME in theirs\n"
    "      --keep-split             a file for each shard of IN, OUT-00001-of-...\n"
    "      --leave-output-tensor    keep output.weight as it is\n"
    "      --long                   allow zstd input with windows above 128 MiB\n"
    "      --max-buffer-size=N      bytes of a tensor read at a time [4Mi]\n"
    "  -o, --output=OUT             instead of the operand OUT\n"
    "      --output-tensor-type=T   T for output.weight\n"
    "      --override-kv=KEY=TYPE:VALUE\n"
    "                               set metadata\n"
    "      --plan-only              print the types, as --tensor-type lines\n"
    "      --progress               show progress even if stderr is no terminal\n"
    "      --provenance             add a key that names this program and its options\n"
    "      --prune-layers=L[,L...]  leave out these layers\n"
    "      --pure                   the default type of TYPE for all, no mix\n"
    "  -q, --quiet                  no warnings, no progress\n"
    "      --report=FILE            write what each tensor lost to FILE, as TSV\n"
    "      --resume                 keep an unfinished OUT, and go on with one\n"
    "      --sort                   tensors in llama.cpp's order (IN not a pipe)\n"
    "      --strict                 refuse a --tensor-type that no tensor matches\n"
    "      --target-bpw=X           types that lose least at X bits a weight\n"
    "      --target-size=N          types that lose least in a file of N bytes\n"
    "      --tensor-type=REGEX=T    T for the tensors whose name matches\n"
    "      --tensor-type-file=FILE  such REGEX=T, separated by blanks\n"
    "  -t, --threads=N              threads [the CPUs there are]\n"
    "      --token-embedding-type=T T for the token embeddings\n"
    "  -v, --verbose                say what each tensor becomes\n"
    "  -V, --version                show the version\n"
    "\n";

enum {
    OPT_REQUANT = 256, OPT_DRY_RUN, OPT_EXCLUDE, OPT_FORCE, OPT_IMATRIX, OPT_INCLUDE, OPT_LEAVE,
    OPT_KEEP_SPLIT, OPT_LONG, OPT_BUFFER, OPT_OUTPUT_TYPE, OPT_OVERRIDE, OPT_PLAN_ONLY,
    OPT_PROGRESS, OPT_PROVENANCE, OPT_PRUNE, OPT_PURE, OPT_REPORT, OPT_RESUME, OPT_SORT,
    OPT_STRICT, OPT_TARGET_BPW, OPT_TARGET_SIZE, OPT_TENSOR_TYPE, OPT_TYPE_FILE, OPT_EMBEDDING_TYPE
};

static const struct option options[] = {
    { "allow-requantize",     no_argument,       NULL, OPT_REQUANT },
    { "dry-run",              no_argument,       NULL, OPT_DRY_RUN },
    { "exclude-weights",      required_argument, NULL, OPT_EXCLUDE },
    { "force",                no_argument,       NULL, OPT_FORCE },
    { "help",                 no_argument,       NULL, 'h' },
    { "imatrix",              required_argument, NULL, OPT_IMATRIX },
    { "include-weights",      required_argument, NULL, OPT_INCLUDE },
    { "keep-split",           no_argument,       NULL, OPT_KEEP_SPLIT },
    { "leave-output-tensor",  no_argument,       NULL, OPT_LEAVE },
    { "long",                 no_argument,       NULL, OPT_LONG },
    { "max-buffer-size",      required_argument, NULL, OPT_BUFFER },
    { "output",               required_argument, NULL, 'o' },
    { "output-tensor-type",   required_argument, NULL, OPT_OUTPUT_TYPE },
    { "override-kv",          required_argument, NULL, OPT_OVERRIDE },
    { "plan-only",            no_argument,       NULL, OPT_PLAN_ONLY },
    { "progress",             no_argument,       NULL, OPT_PROGRESS },
    { "provenance",           no_argument,       NULL, OPT_PROVENANCE },
    { "prune-layers",         required_argument, NULL, OPT_PRUNE },
    { "pure",                 no_argument,       NULL, OPT_PURE },
    { "quiet",                no_argument,       NULL, 'q' },
    { "report",               required_argument, NULL, OPT_REPORT },
    { "resume",               no_argument,       NULL, OPT_RESUME },
    { "sort",                 no_argument,       NULL, OPT_SORT },
    { "strict",               no_argument,       NULL, OPT_STRICT },
    { "target-bpw",           required_argument, NULL, OPT_TARGET_BPW },
    { "target-size",          required_argument, NULL, OPT_TARGET_SIZE },
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
static const char *report_path;
static uint32_t *prune;
static size_t prune_cap;
static uint64_t buffer;
static bool force, long_window, plan_only, provenance, resume, strict;

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
        if (strcmp(word, "--tensor-type"))             /* as --plan-only prints them */
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

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* A list of numbers; it may be given in parts. */
static void add_layers(const char *arg)
{
    char *list = strdup(arg), *end;
    if (!list)
        cli_die(CLI_TROUBLE, "out of memory");
    for (char *word = list; word; word = end) {
        if ((end = strchr(word, ',')))
            *end++ = 0;
        must_grow(&prune, &prune_cap, o.n_prune + 1, sizeof *prune);
        prune[o.n_prune++] = (uint32_t)cli_u64("prune-layers", word, 0, UINT32_MAX - 1);
    }
    free(list);
    qsort(prune, o.n_prune, sizeof *prune, by_number);
    size_t n = 0;
    for (size_t i = 0; i < o.n_prune; i++)
        if (!n || prune[i] != prune[n - 1])
            prune[n++] = prune[i];
    o.n_prune = n;
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

static void check_options(void)
{
    const bool target = o.target_size || o.target_bpw > 0;
    if (include && exclude)
        cli_bad_usage("--include-weights and --exclude-weights exclude each other");
    if ((include || exclude) && !imatrix_path)
        cli_bad_usage("--include-weights and --exclude-weights need --imatrix");
    if (o.target_size && o.target_bpw > 0)
        cli_bad_usage("--target-size and --target-bpw exclude each other");
    if (target && o.pure)
        cli_bad_usage("--pure and a target exclude each other");
    if (report_path && (o.dry_run || plan_only))
        cli_bad_usage("--report needs tensors to be written");
    if (resume && (report_path || o.keep_split))
        cli_bad_usage("--resume excludes --report and --keep-split");
}

static void read_options(int argc, char *argv[])
{
    int c;
    while ((c = getopt_long(argc, argv, "ho:qt:vV", options, NULL)) != -1)
        switch (c) {
        case 'h':                exit(show_help());
        case 'o':                out_path = optarg; break;
        case 'q':                env_options.quiet = true; break;
        case 't':                env_options.n_threads = cli_threads("threads", optarg); break;
        case 'v':                env_options.verbose = true; break;
        case 'V':                exit(cli_version());
        case OPT_REQUANT:        o.allow_requantize = true; break;
        case OPT_DRY_RUN:        o.dry_run = true; break;
        case OPT_EXCLUDE:        add_name(&exclude, &n_exclude, &exclude_cap, optarg); break;
        case OPT_FORCE:          force = true; break;
        case OPT_IMATRIX:        imatrix_path = optarg; break;
        case OPT_INCLUDE:        add_name(&include, &n_include, &include_cap, optarg); break;
        case OPT_KEEP_SPLIT:     o.keep_split = true; break;
        case OPT_LEAVE:          o.leave_output = true; break;
        case OPT_LONG:           long_window = true; break;
        case OPT_BUFFER:         buffer = cli_u64("max-buffer-size", optarg, 1, 1u << 30); break;
        case OPT_OUTPUT_TYPE:    o.output_type = tensor_type("output-tensor-type", optarg); break;
        case OPT_OVERRIDE:       add_override(optarg); break;
        case OPT_PLAN_ONLY:      plan_only = true; break;
        case OPT_PROGRESS:       env_options.progress = true; break;
        case OPT_PROVENANCE:     provenance = true; break;
        case OPT_PRUNE:          add_layers(optarg); break;
        case OPT_PURE:           o.pure = true; break;
        case OPT_REPORT:         report_path = optarg; break;
        case OPT_RESUME:         resume = true; break;
        case OPT_SORT:           o.sort = true; break;
        case OPT_STRICT:         strict = true; break;
        case OPT_TARGET_BPW:     o.target_bpw = cli_f64("target-bpw", optarg, 0.001, 64); break;
        case OPT_TARGET_SIZE:
            o.target_size = cli_u64("target-size", optarg, 1, UINT64_MAX);
            break;
        case OPT_TENSOR_TYPE:    add_wish("tensor-type", optarg); break;
        case OPT_TYPE_FILE:      add_wishes(optarg); break;
        case OPT_EMBEDDING_TYPE:
            o.embedding_type = tensor_type("token-embedding-type", optarg);
            break;
        default:                 cli_try_help();
        }
    check_options();
    if (provenance)
        add_provenance(argv);
    o.wishes = wishes;
    o.overrides = overrides;
    o.include = include;
    o.exclude = exclude;
    o.prune = prune;
}

static const struct lm_file_type *file_type(const char *name)
{
    const struct lm_file_type *t = lm_file_type_by_name(name);
    struct lm_buf all = { 0 };
    if (t)
        return t;
    for (const struct lm_file_type *f = lm_file_types; f->name; f++)
        lm_buf_printf(&all, " %s", f->name);
    cli_bad_usage("'%s' is not one of the types%s", name, all.data ? all.data : "");
}

/* ggml-model-TYPE.gguf beside the input, for who names no output. */
static const char *default_out(const char *type)
{
    const char *slash = strrchr(in_path, '/');
    struct lm_buf b = { 0 };
    if (!strcmp(in_path, "-"))
        cli_bad_usage("operands wanted: IN OUT TYPE [THREADS]");
    lm_buf_add(&b, in_path, slash ? (size_t)(slash + 1 - in_path) : 0);
    lm_buf_printf(&b, "ggml-model-%s%s", file_type(type)->name, o.keep_split ? "" : ".gguf");
    const char *path = b.failed ? NULL : lm_arena_copy(&arena, b.data, b.len);
    if (!path)
        cli_die(CLI_TROUBLE, "out of memory");
    lm_buf_release(&b);
    return path;
}

/* Without a type, one that quantizes everything, so that the target decides about everything. */
static void target_type(void)
{
    if (!o.file_type) {
        o.file_type = lm_file_type_by_name("Q4_K_M");
        o.guess_file_type = true;
    }
    if (lm_type_by_id(o.file_type->type)->block == 1 || o.file_type->id == LM_FT_COPY)
        cli_bad_usage("a target needs a type that quantizes, not %s", o.file_type->name);
}

/*
 * IN [OUT] TYPE [THREADS].  OUT is an operand unless -o, --dry-run or --plan-only say
 * otherwise, or a type stands in its place; with a target TYPE may be missing after OUT.
 */
static void read_operands(int argc, char *argv[])
{
    char **arg = argv + optind, **end = argv + argc;
    const bool target = o.target_size || o.target_bpw > 0, looks = o.dry_run || plan_only;
    bool has_out = !out_path && !(looks && end - arg == 2 - target) &&
                   !(end - arg > 1 && lm_file_type_by_name(arg[1]));
    if (end - arg < 1 + !target + has_out || end - arg > 3 + has_out)
        cli_bad_usage("operands wanted: IN %s%s [THREADS]",
                      out_path ? "" : target && !looks ? "OUT " : "[OUT] ",
                      target ? "[TYPE]" : "TYPE");
    in_path = *arg++;
    if (has_out)
        out_path = *arg++;
    if (arg < end) {
        o.file_type = file_type(*arg);
        if (!out_path && !looks)
            out_path = default_out(*arg);
        arg++;
    }
    if (target)
        target_type();
    if (arg < end)
        env_options.n_threads = cli_threads("threads", *arg);
    if (resume && !looks && !strcmp(out_path, "-"))
        cli_bad_usage("--resume needs the name of the output");
}

/* The matrix; its sums stay in the file, which is returned and to be closed after it. */
static struct lm_in *load_importance(void)
{
    struct lm_err err;
    struct lm_in *in = lm_in_open(imatrix_path, long_window ? LM_IN_LONG : 0, &err);
    o.importance = in ? lm_importance_open(in, &err) : NULL;
    if (!o.importance)
        cli_die_err(imatrix_path, &err);
    o.importance_name = imatrix_path;
    return in;
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
        lm_buf_escape(&b, r->name.p, r->name.len);
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

/* What the types would be: lines that give the same again, as options or in a file. */
static void print_types(const struct lm_quantize *q)
{
    struct lm_buf b = { 0 };
    for (size_t i = 0; i < q->n_rows; i++) {
        const struct lm_quantize_row *r = &q->rows[i];
        if (!r->chosen)
            continue;
        lm_buf_clear(&b);
        lm_buf_str(&b, "--tensor-type ^");
        for (size_t k = 0; k < r->name.len; k++) {
            const char c = r->name.p[k];
            if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
                c != '_' && c != '-')
                lm_buf_byte(&b, '\\');
            lm_buf_byte(&b, c);
        }
        lm_buf_printf(&b, "$=%s\n", r->target->name);
        if (b.failed)
            cli_die(CLI_TROUBLE, "out of memory");
        cli_write(b.data, b.len);
    }
    lm_buf_release(&b);
}

/* A line a tensor; RMSE is the root of the mean square of differences. */
static int write_report(const struct lm_quantize *q, const struct lm_quantize_error *errors)
{
    struct lm_err err;
    struct lm_out *out = cli_out_open(report_path, false, force);
    struct lm_buf b = { 0 };
    double weights = 0, squares = 0, weighted = 0;
    uint64_t bytes = 0;
    lm_buf_str(&b, "tensor\ttype\tbytes\trmse\tweighted_error\n");
    for (size_t i = 0; i < q->n_rows; i++) {
        const struct lm_quantize_row *r = &q->rows[i];
        const uint64_t *ne = r->in->ne;
        const double n = (double)ne[0] * (double)ne[1] * (double)ne[2] * (double)ne[3];
        lm_buf_escape(&b, r->name.p, r->name.len);
        lm_buf_printf(&b, "\t%s\t%" PRIu64 "\t", r->target->name, r->bytes);
        lm_json_f64(&b, n > 0 ? sqrt(errors[i].squares / n) : 0);
        lm_buf_byte(&b, '\t');
        lm_json_f64(&b, errors[i].weighted);
        lm_buf_byte(&b, '\n');
        weights += r->chosen ? n : 0;
        squares += errors[i].squares;
        weighted += errors[i].weighted;
        bytes += r->bytes;
    }
    lm_buf_printf(&b, "total\t\t%" PRIu64 "\t", bytes);
    lm_json_f64(&b, weights > 0 ? sqrt(squares / weights) : 0);
    lm_buf_byte(&b, '\t');
    lm_json_f64(&b, weighted);
    lm_buf_byte(&b, '\n');
    const int s = b.failed ? lm_fail_nomem(&err) : lm_out_write(out, b.data, b.len, &err);
    lm_buf_release(&b);
    if (s == LM_OK)
        return cli_out_commit(out);
    cli_out_abort(out);
    return cli_report(report_path, &err);
}

/* The output's files: out, or OUT-00001-of-0000N.gguf and so on. */
static char *part_path(const struct lm_quantize *q, size_t k)
{
    const size_t n = strlen(out_path);
    char *prefix = q->n_parts > 1 ? strndup(out_path, n > 5 && !strcmp(out_path + n - 5, ".gguf")
                                                          ? n - 5 : n) : strdup(out_path);
    char *path = q->n_parts > 1 && prefix ? lm_split_path(prefix, k, q->n_parts) : prefix;
    if (!path)
        cli_die(CLI_TROUBLE, "out of memory");
    if (path != prefix)
        free(prefix);
    return path;
}

static int write_model(const struct lm_quantize *q, const struct lm_env *env)
{
    struct lm_err err;
    struct lm_out **outs = lm_malloc_array(q->n_parts, sizeof *outs);
    struct lm_quantize_error *errors =
        report_path ? lm_malloc_array(q->n_rows + 1, sizeof *errors) : NULL;
    size_t n = 0;
    int s = LM_OK, status;
    if (!outs || (report_path && !errors))
        cli_die(CLI_TROUBLE, "out of memory");
    for (size_t i = 0; errors && i < q->n_rows; i++)
        errors[i] = (struct lm_quantize_error){ 0 };
    while (n < q->n_parts && s == LM_OK) {
        char *path = part_path(q, n);
        outs[n] = resume ? lm_out_open_kept(path, &err) : cli_out_open(path, true, force);
        if (!outs[n])
            cli_die_err(path, &err);
        free(path);
        const struct lm_quantize_output output = { outs[n], errors, resume, buffer };
        s = lm_quantize_run(q, n++, &output, env, &err);
    }
    for (size_t i = 0; i < n && s != LM_OK; i++)
        cli_out_abort(outs[i]);
    status = s != LM_OK ? cli_report(NULL, &err) : n == 1 ? cli_out_commit(outs[0])
                                                         : cli_out_commit_all(outs, n);
    if (status == CLI_OK && report_path)
        status = write_report(q, errors);
    free(errors);
    free(outs);
    return status;
}

/* Larger than before is not what quantizing is for, unless the type is one of floats. */
static void tell_size(const struct lm_quantize *q, const struct lm_env *env)
{
    const char *out = strcmp(out_path, "-") ? out_path : "<stdout>";
    uint64_t from = 0, to = 0;
    for (size_t i = 0; i < q->n_rows; i++) {
        from += q->rows[i].in->bytes;
        to += q->rows[i].bytes;
    }
    if (to > from && lm_type_by_id(o.file_type->type)->block > 1)
        lm_note(env, LM_WARN, "%s is larger than %s: tensors of %" PRIu64 " bytes, %" PRIu64
                " before", out, lm_in_name(q->shards[0].in), to, from);
    else
        lm_note(env, LM_INFO, "%s: tensors of %" PRIu64 " bytes, %" PRIu64 " before", out,
                to, from);
}

/* Which files must not be written over. */
static void refuse_same(const struct lm_quantize *q)
{
    const char *const named[] = { in_path, imatrix_path, type_file };
    if (q->n_parts > 1 && !strcmp(out_path, "-"))
        cli_die(CLI_TROUBLE, "--keep-split: standard output cannot be %zu files", q->n_parts);
    for (size_t k = 0; k < q->n_parts; k++) {
        char *path = part_path(q, k);
        for (size_t i = 0; i < sizeof named / sizeof *named; i++)
            if (named[i])
                cli_refuse_same(named[i], path);
        for (size_t i = 1; i < q->n_shards; i++)
            cli_refuse_same(lm_in_name(q->shards[i].in), path);
        if (report_path)
            cli_refuse_one("--report", report_path, path);
        free(path);
    }
    for (size_t i = 0; report_path && i < sizeof named / sizeof *named; i++)
        if (named[i])
            cli_refuse_same(named[i], report_path);
    for (size_t i = 1; report_path && i < q->n_shards; i++)
        cli_refuse_same(lm_in_name(q->shards[i].in), report_path);
}

/* A pattern that no tensor matches first is more often a mistake than not. */
static void check_wishes(const struct lm_quantize *q)
{
    for (size_t k = 0; k < o.n_wishes; k++) {
        size_t i = 0;
        while (i < q->n_rows && !lm_pattern_matches(wishes[k].pattern, q->rows[i].name.p))
            i++;
        if (i == q->n_rows && strict)
            cli_die(CLI_TROUBLE, "--strict: no tensor matches pattern %zu of --tensor-type",
                    k + 1);
    }
}

int main(int argc, char *argv[])
{
    struct lm_err err;
    int status = CLI_OK;

    cli_start(argv);
    read_options(argc, argv);
    read_operands(argc, argv);
    struct lm_env env = cli_env(env_options);
    const bool looks = o.dry_run || plan_only;
    o.dry_run = looks;
    if (!looks)
        cli_refuse_same(in_path, out_path);
    if (report_path && !o.keep_split)
        cli_refuse_one("--report", report_path, out_path);
    struct lm_in *in = lm_in_open(in_path, long_window ? LM_IN_LONG : 0, &err);
    if (!in)
        cli_die_err(strcmp(in_path, "-") ? in_path : "<stdin>", &err);
    struct lm_in *sums = imatrix_path ? load_importance() : NULL;
    struct lm_quantize *q = lm_quantize_plan(in, &o, &env, &err);
    if (!q)
        cli_die_err(lm_in_name(in), &err);
    check_wishes(q);
    if (!looks)
        refuse_same(q);
    if (plan_only)
        print_types(q);
    else if (looks)
        print_plan(q);
    else
        status = write_model(q, &env);
    if (q->refused.code)
        status = cli_report(lm_in_name(in), &q->refused);
    else if (!looks && status == CLI_OK)
        tell_size(q, &env);
    lm_quantize_free(q);
    lm_in_close(in);
    for (size_t i = 0; i < o.n_wishes; i++)
        lm_pattern_free(wishes[i].pattern);
    lm_importance_free((struct lm_importance *)o.importance);
    lm_in_close(sums);
    lm_arena_release(&arena);
    free(wishes);
    free(overrides);
    free(include);
    free(exclude);
    free(prune);
    return cli_finish(status);
}
