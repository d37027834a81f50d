/* SPDX-License-Identifier: MIT */
/* gguf-convert - make a GGUF file of a Hugging Face checkpoint, or a checkpoint of one. */

#include <ctype.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "base/buf.h"
#include "base/size.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/restore_files.h"
#include "hf/hf_card.h"
#include "io/input.h"
#include "job/convert.h"
#include "job/restore.h"
#include "quant/mix.h"

static const char usage[] =
    "usage: gguf-convert [-hqVv] [-T type] [-t threads] [option ...] source [out]\n";

static const char help[] =
    "\n"
    "Convert a Hugging Face checkpoint - a directory, an archive of one, or - for\n"
    "an archive on standard input - to a GGUF file, or to standard output; or, with\n"
    "--to-safetensors, a GGUF file to a checkpoint in the folder out.\n"
    "\n"
    "      --base=SOURCE         the model of an adapter [where the adapter says]\n"
    "      --chat-template=FILE  write the template in FILE, not the checkpoint's\n"
    "      --dry-run             print what would be done, a line a tensor\n"
    "      --exclude-weights=NAME  without importance of tensors with NAME in theirs\n"
    "      --force               write to a terminal\n"
    "      --fp8-as-q8           weights that are FP8 become Q8_0, others -T\n"
    "      --imatrix=FILE        importance of weights, as imatrix writes it\n"
    "      --include-weights=NAME  importance only of tensors with NAME in theirs\n"
    "      --list                list the model classes that can be converted\n"
    "      --lora                convert a LoRA adapter (PEFT), not a model\n"
    "      --max-size=N          files OUT-00001-of-0000M.gguf of at most N bytes\n"
    "      --max-tensors=N       files of at most N tensors\n"
    "      --metadata=FILE       JSON object of general.* keys to set\n"
    "      --model-name=NAME     general.name [from the card or the folder]\n"
    "      --no-draft-head       without layers that predict further tokens\n"
    "  -o, --output=OUT          the same as the operand out\n"
    "      --pre=NAME            tokenizer.ggml.pre [recognised]\n"
    "      --print-deps          print a makefile rule for out instead of converting\n"
    "      --progress            show progress even if stderr is no terminal\n"
    "      --provenance          add a key that names this program and its options\n"
    "  -q, --quiet               no warnings\n"
    "      --resume              keep an unfinished file, and go on with one\n"
    "      --spool=DIR           keep in DIR what comes in another order than needed\n"
    "      --to-safetensors      a GGUF file to config.json and model.safetensors\n"
    "  -T, --type=TYPE           f32, f16, bf16, q8_0, auto, or any other type of\n"
    "                            quantize [auto]\n"
    "  -t, --threads=N           threads [the CPUs there are]\n"
    "  -v, --verbose             say more\n"
    "      --vocab-only          metadata and vocabulary, no tensors\n"
    "  -h, --help                show this help\n"
    "  -V, --version             show the version\n";

enum {
    OPT_BASE = 256, OPT_CHAT_TEMPLATE, OPT_DRY_RUN, OPT_EXCLUDE, OPT_FORCE, OPT_FP8, OPT_IMATRIX,
    OPT_INCLUDE, OPT_LIST, OPT_LORA, OPT_MAX_SIZE, OPT_MAX_TENSORS, OPT_METADATA, OPT_MODEL_NAME,
    OPT_NO_DRAFT, OPT_PRE, OPT_PRINT_DEPS, OPT_PROGRESS, OPT_PROVENANCE, OPT_RESUME, OPT_SPOOL,
    OPT_TO_SAFETENSORS, OPT_VOCAB_ONLY
};

static const struct option options[] = {
    { "base",            required_argument, NULL, OPT_BASE },
    { "chat-template",   required_argument, NULL, OPT_CHAT_TEMPLATE },
    { "dry-run",         no_argument,       NULL, OPT_DRY_RUN },
    { "exclude-weights", required_argument, NULL, OPT_EXCLUDE },
    { "force",           no_argument,       NULL, OPT_FORCE },
    { "fp8-as-q8",       no_argument,       NULL, OPT_FP8 },
    { "help",            no_argument,       NULL, 'h' },
    { "imatrix",         required_argument, NULL, OPT_IMATRIX },
    { "include-weights", required_argument, NULL, OPT_INCLUDE },
    { "list",            no_argument,       NULL, OPT_LIST },
    { "lora",            no_argument,       NULL, OPT_LORA },
    { "max-size",        required_argument, NULL, OPT_MAX_SIZE },
    { "max-tensors",     required_argument, NULL, OPT_MAX_TENSORS },
    { "metadata",        required_argument, NULL, OPT_METADATA },
    { "model-name",      required_argument, NULL, OPT_MODEL_NAME },
    { "no-draft-head",   no_argument,       NULL, OPT_NO_DRAFT },
    { "output",          required_argument, NULL, 'o' },
    { "pre",             required_argument, NULL, OPT_PRE },
    { "print-deps",      no_argument,       NULL, OPT_PRINT_DEPS },
    { "progress",        no_argument,       NULL, OPT_PROGRESS },
    { "provenance",      no_argument,       NULL, OPT_PROVENANCE },
    { "quiet",           no_argument,       NULL, 'q' },
    { "resume",          no_argument,       NULL, OPT_RESUME },
    { "spool",           required_argument, NULL, OPT_SPOOL },
    { "threads",         required_argument, NULL, 't' },
    { "to-safetensors",  no_argument,       NULL, OPT_TO_SAFETENSORS },
    { "type",            required_argument, NULL, 'T' },
    { "verbose",         no_argument,       NULL, 'v' },
    { "version",         no_argument,       NULL, 'V' },
    { "vocab-only",      no_argument,       NULL, OPT_VOCAB_ONLY },
    { 0 }
};

#define MAX_FILE (64u << 20)        /* bytes of a metadata or template file */

static struct {
    const char                *source, *base, *out, *metadata, *chat_template, *spool, *imatrix;
    bool                       dry_run, force, print_deps, provenance, resume, to_safetensors;
    const char               **include, **exclude;
    size_t                     n_include, n_exclude, include_cap, exclude_cap;
    struct lm_split_options    split;
    struct lm_convert_options  convert;
    struct cli_env_options     env;
} opt;

static int list_classes(void)
{
    for (size_t i = 0; lm_archs[i]; i++)
        for (const char *const *c = lm_archs[i]->hf_classes; *c; c++)
            for (const struct lm_arch *a = lm_archs[i]; a; a = a->mixed)
                printf("%s\t%s\n", *c, a->name);
    const char *class, *arch;
    for (size_t i = 0; (class = lm_convert_wrapper(i, &arch)); i++)
        printf("%s\t%s\n", class, arch);
    return cli_finish(CLI_OK);
}

/* -T: a type as it is, or a usage error with all there are. */
static const char *read_type(const char *s)
{
    struct lm_buf all = {0};
    if (lm_convert_knows_type(s))
        return s;
    lm_buf_str(&all, "auto");
    for (const struct lm_file_type *f = lm_file_types; f->name; f++)
        if (lm_convert_knows_type(f->name))
            lm_buf_printf(&all, " %s", f->name);
    cli_bad_usage("--type: %s is none of %s", s, all.data ? all.data : "the types");
}

static void add_name(const char ***list, size_t *n, size_t *cap, const char *name)
{
    if (!lm_grow(list, cap, *n + 2, sizeof **list))
        cli_die(CLI_TROUBLE, "out of memory");
    (*list)[(*n)++] = name;
    (*list)[*n] = NULL;
}

/* What the way back has no use for. */
static void check_back(void)
{
    const struct lm_convert_options *c = &opt.convert;
    if (opt.base || opt.chat_template || opt.dry_run || opt.exclude || opt.imatrix || opt.include ||
        opt.metadata || opt.print_deps || opt.provenance || opt.resume || opt.spool ||
        opt.split.max_size || opt.split.max_tensors || c->fp8_as_q8 || c->lora || c->model_name ||
        c->pre || c->vocab_only || c->no_draft_head)
        cli_bad_usage("of the other options --to-safetensors takes --type, --threads, --force, "
                      "--progress and --quiet only");
    if (c->type && !lm_restore_knows_type(c->type))
        cli_bad_usage("--type: %s: a checkpoint has f32, f16 or bf16", c->type);
}

/* What cannot be asked for together. */
static void check_options(void)
{
    const bool split = opt.split.max_size || opt.split.max_tensors;
    if (opt.to_safetensors)
        check_back();
    if (opt.base && !opt.convert.lora)
        cli_bad_usage("--base needs --lora");
    if (opt.convert.lora && (opt.convert.vocab_only || opt.chat_template || opt.convert.pre ||
                             opt.imatrix || opt.convert.fp8_as_q8 || opt.convert.no_draft_head))
        cli_bad_usage("an adapter has no vocabulary: --lora excludes --vocab-only, --pre, "
                      "--chat-template, --imatrix, --fp8-as-q8 and --no-draft-head");
    if (opt.include && opt.exclude)
        cli_bad_usage("--include-weights and --exclude-weights exclude each other");
    if ((opt.include || opt.exclude) && !opt.imatrix)
        cli_bad_usage("--include-weights and --exclude-weights need --imatrix");
    if (opt.split.max_size && opt.split.max_tensors)
        cli_bad_usage("--max-size and --max-tensors exclude each other");
    if ((split || opt.resume) && !opt.dry_run && (!opt.out || !strcmp(opt.out, "-")))
        cli_bad_usage(split ? "several files cannot go to standard output"
                            : "--resume needs the name of the output");
    if (split && opt.out && lm_ends_with(opt.out, ".zst"))
        cli_bad_usage("--max-size and --max-tensors: several files are not compressed");
    if (opt.convert.model_name && !*opt.convert.model_name)
        cli_bad_usage("--model-name: a name wanted");
    if (split && (opt.resume || opt.print_deps))
        cli_bad_usage("--max-size and --max-tensors exclude --resume and --print-deps");
    if (opt.resume && !strcmp(opt.source, "-"))
        cli_bad_usage("--resume needs a source that can be read again");
    if (opt.print_deps && !opt.out)
        cli_bad_usage("--print-deps needs the name of the output");
}

static void read_options(int argc, char *argv[])
{
    int c;
    while ((c = getopt_long(argc, argv, "ho:qT:t:Vv", options, NULL)) != -1)
        switch (c) {
        case 'h': exit(cli_help(usage, help));
        case 'o': opt.out = optarg; break;
        case 'q': opt.env.quiet = true; break;
        case 'T': opt.convert.type = read_type(optarg); break;
        case 't': opt.env.n_threads = cli_threads("threads", optarg); break;
        case 'V': exit(cli_version());
        case 'v': opt.env.verbose = true; break;
        case OPT_BASE:          opt.base = optarg; break;
        case OPT_CHAT_TEMPLATE: opt.chat_template = optarg; break;
        case OPT_DRY_RUN:       opt.dry_run = true; break;
        case OPT_EXCLUDE:
            add_name(&opt.exclude, &opt.n_exclude, &opt.exclude_cap, optarg);
            break;
        case OPT_FORCE:         opt.force = true; break;
        case OPT_FP8:           opt.convert.fp8_as_q8 = true; break;
        case OPT_IMATRIX:       opt.imatrix = optarg; break;
        case OPT_INCLUDE:
            add_name(&opt.include, &opt.n_include, &opt.include_cap, optarg);
            break;
        case OPT_LIST:          exit(list_classes());
        case OPT_LORA:          opt.convert.lora = true; break;
        case OPT_MAX_SIZE:
            opt.split.max_size = cli_u64("max-size", optarg, 1, UINT64_MAX);
            break;
        case OPT_MAX_TENSORS:
            opt.split.max_tensors = cli_u64("max-tensors", optarg, 1, UINT64_MAX);
            break;
        case OPT_METADATA:      opt.metadata = optarg; break;
        case OPT_MODEL_NAME:    opt.convert.model_name = optarg; break;
        case OPT_PRE:           opt.convert.pre = optarg; break;
        case OPT_PRINT_DEPS:    opt.print_deps = true; break;
        case OPT_PROGRESS:      opt.env.progress = true; break;
        case OPT_PROVENANCE:    opt.provenance = true; break;
        case OPT_RESUME:        opt.resume = true; break;
        case OPT_SPOOL:         opt.spool = optarg; break;
        case OPT_TO_SAFETENSORS: opt.to_safetensors = true; break;
        case OPT_NO_DRAFT:      opt.convert.no_draft_head = true; break;
        case OPT_VOCAB_ONLY:    opt.convert.vocab_only = true; break;
        default: cli_try_help();
        }
    if (optind == argc)
        cli_bad_usage("no source given");
    opt.source = argv[optind++];
    if (optind < argc && opt.out)
        cli_bad_usage("the output is given twice: %s and %s", opt.out, argv[optind]);
    if (optind < argc)
        opt.out = argv[optind++];
    if (optind < argc)
        cli_bad_usage("too many operands: %s", argv[optind]);
    check_options();
}

/* The files that options name, whole. */
static void read_files(void)
{
    struct lm_err err = {0};
    char *data;
    if (opt.metadata) {
        if (lm_read_file(opt.metadata, MAX_FILE, &data, &opt.convert.metadata_len, &err) ||
            lm_hf_check_metadata(data, opt.convert.metadata_len, &err))
            cli_die_err(opt.metadata, &err);
        opt.convert.metadata = data;
    }
    if (opt.chat_template) {
        if (lm_read_file(opt.chat_template, MAX_FILE, &data, &opt.convert.chat_template_len, &err))
            cli_die_err(opt.chat_template, &err);
        opt.convert.chat_template = data;
    }
    if (opt.imatrix) {
        struct lm_in *in = lm_in_open(opt.imatrix, 0, &err);
        opt.convert.weights = (struct lm_weights){
            .importance = in ? lm_importance_read(in, &err) : NULL, .name = opt.imatrix,
            .include = opt.include, .exclude = opt.exclude,
        };
        if (!opt.convert.weights.importance)
            cli_die_err(opt.imatrix, &err);
        lm_in_close(in);
    }
}

/* A file's name as a makefile spells it. */
static void print_name(const char *name)
{
    for (; *name; name++) {
        if (*name == '$')
            putchar('$');
        else if (strchr(" \t#\\:", *name))
            putchar('\\');
        putchar(*name);
    }
}

/* The files that are read: what a source was made of, its model, and those options name; NULL
 * after the last. */
static const char *dependency(const struct lm_hf_source *const src[2], size_t i)
{
    const char *const named[] = { opt.metadata, opt.chat_template, opt.imatrix };
    for (size_t k = 0; k < 2; k++)
        for (size_t n = 0; src[k] && lm_hf_dep(src[k], n); n++)
            if (i-- == 0)
                return lm_hf_dep(src[k], n);
    for (size_t k = 0; k < sizeof named / sizeof *named; k++)
        if (named[k] && i-- == 0)
            return named[k];
    return NULL;
}

static void print_deps(const struct lm_hf_source *const src[2])
{
    const char *dep;
    print_name(opt.out);
    putchar(':');
    for (size_t i = 0; (dep = dependency(src, i)); i++) {
        if (!strcmp(dep, "<stdin>"))
            continue;
        fputs(" \\\n  ", stdout);
        print_name(dep);
    }
    putchar('\n');
}

/* TSV as quantize prints it, and where each tensor comes from; a last line for all. */
static void print_plan(const struct lm_convert *c)
{
    struct lm_buf b = { 0 };
    uint64_t from = 0, to = 0;
    puts("tensor\tshape\tfrom\tto\tbytes_from\tbytes_to\timportance\tparts\tfile\tsource");
    for (size_t i = 0; i < lm_convert_n_tensors(c); i++) {
        const struct lm_convert_tensor t = lm_convert_tensor(c, i);
        lm_buf_clear(&b);
        lm_buf_escape(&b, t.name, strlen(t.name));
        for (uint32_t d = 0; d < t.n_dims; d++)
            lm_buf_printf(&b, "%c%" PRIu64, d ? 'x' : '\t', t.ne[d]);
        lm_buf_printf(&b, "\t%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%s\t%zu\t", t.from, t.type->name,
                      t.bytes_from, t.bytes, t.weighted ? "yes" : "no", t.n_parts);
        lm_buf_escape(&b, t.file ? t.file : "-", strlen(t.file ? t.file : "-"));
        lm_buf_byte(&b, '\t');
        lm_buf_escape(&b, t.source ? t.source : "-", strlen(t.source ? t.source : "-"));
        lm_buf_byte(&b, '\n');
        if (b.failed)
            cli_die(CLI_TROUBLE, "out of memory");
        cli_write(b.data, b.len);
        from += t.bytes_from;
        to += t.bytes;
    }
    printf("total\t\t\t\t%" PRIu64 "\t%" PRIu64 "\t\t\t\t\n", from, to);
    lm_buf_release(&b);
}

/* The outputs of a conversion to several files. */
struct outputs {
    char            *prefix;            /* out without ".gguf"                            */
    struct lm_split *split;
    struct lm_out  **outs;
    size_t           n;
};

static char *shard_name(const struct outputs *o, size_t k)
{
    char *name = lm_split_path(o->prefix, k, o->split->n_shards);
    if (!name)
        cli_die(CLI_TROUBLE, "out of memory");
    return name;
}

static struct lm_out *open_shard(void *user, size_t k, struct lm_err *err)
{
    struct outputs *o = user;
    char *name = shard_name(o, k);
    (void)err;
    o->outs[o->n] = cli_out_open(name, true, opt.force);
    free(name);
    return o->outs[o->n++];
}

static void refuse_same(const struct lm_hf_source *const src[2], const char *out)
{
    const char *dep;
    for (size_t i = 0; (dep = dependency(src, i)); i++)
        cli_refuse_same(strcmp(dep, "<stdin>") ? dep : "-", out);
}

/* All files, or none. */
static int write_shards(const struct lm_hf_source *const src[2], struct lm_convert *c)
{
    struct lm_err err = {0};
    struct outputs o = { .prefix = strdup(opt.out) };
    const size_t n = strlen(opt.out);
    if (o.prefix && n > 5 && !strcmp(opt.out + n - 5, ".gguf"))
        o.prefix[n - 5] = 0;
    o.split = o.prefix ? lm_convert_split(c, &opt.split, opt.out, &err) : NULL;
    o.outs = o.split ? lm_malloc_array(o.split->n_shards, sizeof *o.outs) : NULL;
    if (o.prefix && !o.split)
        cli_die_err(NULL, &err);
    if (!o.outs)
        cli_die(CLI_TROUBLE, "out of memory");
    for (size_t k = 0; k < o.split->n_shards; k++) {
        char *name = shard_name(&o, k);
        refuse_same(src, name);
        free(name);
    }
    const struct lm_convert_target t = { .split = o.split, .open = open_shard, .user = &o };
    int status;
    if (lm_convert_write_to(c, &t, &err)) {
        while (o.n)
            cli_out_abort(o.outs[--o.n]);
        status = cli_report(NULL, &err);
    } else {
        status = cli_out_commit_all(o.outs, o.n);
    }
    lm_split_free(o.split);
    free(o.outs);
    free(o.prefix);
    return status;
}

static int write_out(const struct lm_hf_source *const src[2], struct lm_convert *c)
{
    struct lm_err err = {0};
    refuse_same(src, opt.out);
    struct lm_convert_target t = { .resume = opt.resume };
    t.out = opt.resume ? lm_out_open_kept(opt.out, &err)
                       : cli_out_open(opt.out, true, opt.force);
    if (!t.out)
        cli_die_err(opt.out, &err);
    if (lm_convert_write_to(c, &t, &err)) {
        cli_out_abort(t.out);
        return cli_report(NULL, &err);
    }
    return cli_out_commit(t.out);
}

/* The output's name with the type, in small and in large letters, in place of {ftype} and
 * {FTYPE}.  The caller's. */
static char *fill_name(const char *name, const char *type)
{
    struct lm_buf b = {0};
    for (; *name; name++) {
        const bool large = !strncmp(name, "{FTYPE}", 7);
        if (!large && strncmp(name, "{ftype}", 7)) {
            lm_buf_byte(&b, (unsigned char)*name);
            continue;
        }
        for (const char *t = type; *t; t++)
            lm_buf_byte(&b, large ? toupper((unsigned char)*t) : tolower((unsigned char)*t));
        name += 6;
    }
    if (b.failed)
        cli_die(CLI_TROUBLE, "out of memory");
    return b.data;
}

static int convert(struct lm_hf_source *src, struct lm_hf_source *base, const struct lm_env *env)
{
    struct lm_err err = {0};
    int status = CLI_OK;
    opt.convert.base = base;
    struct lm_convert *c = lm_convert_new(src, &opt.convert, env, &err);
    if (!c)
        cli_die_err(lm_hf_path(src), &err);
    char *name = opt.out && *opt.out ? fill_name(opt.out, lm_convert_type_name(c)) : NULL;
    opt.out = name ? name : opt.out;
    const struct lm_hf_source *const read[2] = { src, base ? base : lm_convert_base(c) };
    if (opt.print_deps)
        print_deps(read);
    else if (opt.dry_run)
        print_plan(c);
    else if (opt.split.max_size || opt.split.max_tensors)
        status = write_shards(read, c);
    else
        status = write_out(read, c);
    lm_convert_free(c);
    free(name);
    return status;
}

int main(int argc, char *argv[])
{
    struct lm_err err = {0};

    cli_start(argv);
    read_options(argc, argv);
    if (opt.to_safetensors) {
        const struct lm_env back = cli_env(opt.env);
        return cli_finish(cli_restore(opt.source, opt.out, opt.convert.type, opt.force, &back));
    }
    read_files();
    if (opt.provenance) {
        opt.convert.provenance = cli_provenance(argv);
        opt.convert.provenance_key = CLI_PROVENANCE_KEY;
    }
    const struct lm_env env = cli_env(opt.env);
    struct lm_hf_source *src = lm_hf_open(opt.source, opt.spool, &env, &err);
    if (!src)
        cli_die_err(strcmp(opt.source, "-") ? opt.source : "<stdin>", &err);
    struct lm_hf_source *base = opt.base ? lm_hf_open(opt.base, opt.spool, &env, &err) : NULL;
    if (opt.base && !base)
        cli_die_err(opt.base, &err);
    const int status = convert(src, base, &env);
    lm_hf_close(base);
    lm_hf_close(src);
    free((char *)opt.convert.metadata);
    free((char *)opt.convert.chat_template);
    free((char *)opt.convert.provenance);
    lm_importance_free((struct lm_importance *)opt.convert.weights.importance);
    free(opt.include);
    free(opt.exclude);
    return cli_finish(status);
}
