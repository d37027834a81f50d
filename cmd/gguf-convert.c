/* SPDX-License-Identifier: MIT */
/* gguf-convert - make a GGUF file of a Hugging Face checkpoint. */

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "base/buf.h"
#include "cli/cli.h"
#include "io/input.h"
#include "job/convert.h"
#include "quant/mix.h"

static const char usage[] =
    "usage: gguf-convert [-hqVv] [-T type] [-t threads] [option ...] source [out]\n";

static const char help[] =
    "\n"
    "Convert a Hugging Face checkpoint - a directory, an archive of one, or - for\n"
    "an archive on standard input - to a GGUF file, or to standard output.\n"
    "\n"
    "      --base=SOURCE         the model of an adapter [where the adapter says]\n"
    "      --chat-template=FILE  write the template in FILE, not the checkpoint's\n"
    "      --dry-run             list the tensors as TSV and convert nothing: name,\n"
    "                            type, shape, bytes, file, name there, type there\n"
    "      --force               write to a terminal\n"
    "      --list                list the model classes that can be converted\n"
    "      --lora                convert a LoRA adapter (PEFT), not a model\n"
    "      --metadata=FILE       JSON object of general.* keys to set\n"
    "      --model-name=NAME     general.name [from the card or the folder]\n"
    "  -o, --output=FILE         the same as the operand out\n"
    "      --pre=NAME            tokenizer.ggml.pre [recognised]\n"
    "      --print-deps          print a makefile rule for out instead of converting\n"
    "      --progress            show progress even if stderr is no terminal\n"
    "  -q, --quiet               no warnings\n"
    "      --spool=DIR           keep in DIR what comes in another order than needed\n"
    "  -T, --type=TYPE           f32, f16, bf16, q8_0, auto, or any other type of\n"
    "                            quantize that needs no importance data [auto]\n"
    "  -t, --threads=N           threads [the CPUs there are]\n"
    "  -v, --verbose             say more\n"
    "      --vocab-only          metadata and vocabulary, no tensors\n"
    "  -h, --help                show this help\n"
    "  -V, --version             show the version\n";

enum {
    OPT_BASE = 256, OPT_CHAT_TEMPLATE, OPT_DRY_RUN, OPT_FORCE, OPT_LIST, OPT_LORA, OPT_METADATA, OPT_MODEL_NAME,
    OPT_PRE, OPT_PRINT_DEPS, OPT_PROGRESS, OPT_SPOOL, OPT_VOCAB_ONLY
};

static const struct option options[] = {
    { "base",          required_argument, NULL, OPT_BASE },
    { "chat-template", required_argument, NULL, OPT_CHAT_TEMPLATE },
    { "dry-run",       no_argument,       NULL, OPT_DRY_RUN },
    { "force",         no_argument,       NULL, OPT_FORCE },
    { "help",          no_argument,       NULL, 'h' },
    { "list",          no_argument,       NULL, OPT_LIST },
    { "lora",          no_argument,       NULL, OPT_LORA },
    { "metadata",      required_argument, NULL, OPT_METADATA },
    { "model-name",    required_argument, NULL, OPT_MODEL_NAME },
    { "output",        required_argument, NULL, 'o' },
    { "pre",           required_argument, NULL, OPT_PRE },
    { "print-deps",    no_argument,       NULL, OPT_PRINT_DEPS },
    { "progress",      no_argument,       NULL, OPT_PROGRESS },
    { "quiet",         no_argument,       NULL, 'q' },
    { "spool",         required_argument, NULL, OPT_SPOOL },
    { "threads",       required_argument, NULL, 't' },
    { "type",          required_argument, NULL, 'T' },
    { "verbose",       no_argument,       NULL, 'v' },
    { "version",       no_argument,       NULL, 'V' },
    { "vocab-only",    no_argument,       NULL, OPT_VOCAB_ONLY },
    { 0 }
};

#define MAX_FILE (64u << 20)        /* bytes of a metadata or template file */

static struct {
    const char                *source, *base, *out, *metadata, *chat_template, *spool;
    bool                       dry_run, force, print_deps;
    struct lm_convert_options  convert;
    struct cli_env_options     env;
} opt;

static int list_classes(void)
{
    for (size_t i = 0; lm_archs[i]; i++)
        for (const char *const *c = lm_archs[i]->hf_classes; *c; c++)
            printf("%s\t%s\n", *c, lm_archs[i]->name);
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

static void read_options(int argc, char *argv[])
{
    int c;
    while ((c = getopt_long(argc, argv, "ho:qT:t:Vv", options, NULL)) != -1)
        switch (c) {
        case 'h': exit(cli_help(usage, help));
        case 'o': opt.out = optarg; break;
        case 'q': opt.env.quiet = true; break;
        case 'T': opt.convert.type = read_type(optarg); break;
        case 't': opt.env.n_threads = cli_threads(optarg); break;
        case 'V': exit(cli_version());
        case 'v': opt.env.verbose = true; break;
        case OPT_BASE:          opt.base = optarg; break;
        case OPT_CHAT_TEMPLATE: opt.chat_template = optarg; break;
        case OPT_DRY_RUN:       opt.dry_run = true; break;
        case OPT_FORCE:         opt.force = true; break;
        case OPT_LIST:          exit(list_classes());
        case OPT_LORA:          opt.convert.lora = true; break;
        case OPT_METADATA:      opt.metadata = optarg; break;
        case OPT_MODEL_NAME:    opt.convert.model_name = optarg; break;
        case OPT_PRE:           opt.convert.pre = optarg; break;
        case OPT_PRINT_DEPS:    opt.print_deps = true; break;
        case OPT_PROGRESS:      opt.env.progress = true; break;
        case OPT_SPOOL:         opt.spool = optarg; break;
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
    if (opt.base && !opt.convert.lora)
        cli_bad_usage("--base needs --lora");
    if (opt.convert.lora && (opt.convert.vocab_only || opt.chat_template || opt.convert.pre))
        cli_bad_usage("an adapter has no vocabulary: --lora excludes --vocab-only, --pre and "
                      "--chat-template");
    if (opt.print_deps && !opt.out)
        cli_bad_usage("--print-deps needs the name of the output");
}

/* The files that options name, whole. */
static void read_files(void)
{
    struct lm_err err = {0};
    char *data;
    if (opt.metadata) {
        if (lm_read_file(opt.metadata, MAX_FILE, &data, &opt.convert.metadata_len, &err))
            cli_die_err(opt.metadata, &err);
        opt.convert.metadata = data;
    }
    if (opt.chat_template) {
        if (lm_read_file(opt.chat_template, MAX_FILE, &data, &opt.convert.chat_template_len, &err))
            cli_die_err(opt.chat_template, &err);
        opt.convert.chat_template = data;
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
    const char *const named[] = { opt.metadata, opt.chat_template };
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

static void print_plan(const struct lm_convert *c)
{
    for (size_t i = 0; i < lm_convert_n_tensors(c); i++) {
        const struct lm_convert_tensor t = lm_convert_tensor(c, i);
        printf("%s\t%s\t", t.name, t.type->name);
        for (uint32_t d = 0; d < t.n_dims; d++)
            printf("%s%" PRIu64, d ? "," : "", t.ne[d]);
        printf("\t%" PRIu64 "\t%s\t%s\t%s\n", t.bytes, t.file ? t.file : "-",
               t.source ? t.source : "-", t.dtype ? t.dtype : "-");
    }
}

static int write_out(const struct lm_hf_source *const src[2], struct lm_convert *c)
{
    struct lm_err err = {0};
    const char *dep;
    for (size_t i = 0; (dep = dependency(src, i)); i++)
        cli_refuse_same(strcmp(dep, "<stdin>") ? dep : "-", opt.out);
    struct lm_out *out = cli_out_open(opt.out, true, opt.force);
    if (lm_convert_write(c, out, &err)) {
        cli_out_abort(out);
        return cli_report(NULL, &err);
    }
    return cli_out_commit(out);
}

static int convert(struct lm_hf_source *src, struct lm_hf_source *base, const struct lm_env *env)
{
    struct lm_err err = {0};
    int status = CLI_OK;
    opt.convert.base = base;
    struct lm_convert *c = lm_convert_new(src, &opt.convert, env, &err);
    if (!c)
        cli_die_err(lm_hf_path(src), &err);
    const struct lm_hf_source *const read[2] = { src, base ? base : lm_convert_base(c) };
    if (opt.print_deps)
        print_deps(read);
    else if (opt.dry_run)
        print_plan(c);
    else
        status = write_out(read, c);
    lm_convert_free(c);
    return status;
}

int main(int argc, char *argv[])
{
    struct lm_err err = {0};

    cli_start(argv);
    read_options(argc, argv);
    read_files();
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
    return cli_finish(status);
}
