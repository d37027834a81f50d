/* SPDX-License-Identifier: MIT */
/* gguf-inspect - show what is in a GGUF file, from its first bytes alone. */

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/size.h"
#include "cli/cli.h"
#include "cli/inspect.h"
#include "job/stats.h"

static const char usage[] =
    "usage: gguf-inspect [-0hjqV] [-c n] [-n n] [-t n] [-u n] [option ...] [file ...]\n";

static const char help[] =
    "\n"
    "Show the header, metadata and tensors of GGUF files, or of standard input.\n"
    "\n"
    "What to show instead:\n"
    "      --check[=data]\n"
    "                    tell every fault, a line each, with =data also numbers\n"
    "                    that are none; no fault: status 0\n"
    "      --diff        how two files differ, in metadata and tensors\n"
    "      --get=KEY     the value of KEY; of an array, an element a line;\n"
    "                    several keys in the order given\n"
    "      --hash[=xxh64|sha256]\n"
    "                    a digest of each tensor's data, and one of them all\n"
    "      --hash=file   the SHA-256 of the file's bytes\n"
    "      --memory      memory for running: weights, keys and values, states\n"
    "      --print=TENSOR\n"
    "                    the numbers of a tensor, a row a line\n"
    "      --scan        where GGUFs begin inside any file\n"
    "      --stats       least, largest and mean number of each tensor, and more\n"
    "      --template[=NAME]\n"
    "                    the chat template\n"
    "      --verify=FILE compare with a list that --hash printed\n"
    "      --vocab       the vocabulary: id, type, score, text, what it is used for\n"
    "Of a listing:\n"
    "      --explain     say what the keys mean\n"
    "      --full        do not shorten long values\n"
    "      --kv          metadata only\n"
    "      --tensors     tensors only\n"
    "      --totals      header and sums only; the three can be combined\n"
    "How:\n"
    "      --cache-k=TYPE, --cache-v=TYPE\n"
    "                    with --memory: types of keys and values (f16)\n"
    "  -c, --context=N   with --memory: positions (default: as trained for)\n"
    "      --gpu-layers=N\n"
    "                    with --memory: what the last N layers take on a device\n"
    "      --histogram[=N]\n"
    "                    with --stats: N bins (16), and numbers far from the mean\n"
    "  -j, --json        JSON objects, one a line\n"
    "      --long        allow zstd input with windows above 128 MiB\n"
    "      --markdown    tables of a listing, or --stats, in Markdown\n"
    "  -n, --count=N     with --print: the first N numbers only\n"
    "      --no-follow   do not go on with the other shards of a split model\n"
    "      --no-newline  with --get, --template: no newline after a value\n"
    "  -0, --null        with --get: raw values, each ended by a NUL\n"
    "      --progress    show progress though stderr is no terminal\n"
    "  -q, --quiet       no notes, no progress\n"
    "  -t, --threads=N   threads to use (default: the CPUs there are)\n"
    "      --tolerance=X with --diff: numbers may be so far apart\n"
    "      --tsv         tables with tabs between columns, nothing shortened\n"
    "  -u, --ubatch=N    with --memory: positions evaluated at once (512)\n"
    "  -h, --help        show this help\n"
    "  -V, --version     show the version\n";

enum {
    OPT_CHECK = 256, OPT_CACHE_K, OPT_CACHE_V, OPT_DIFF, OPT_EXPLAIN, OPT_FULL, OPT_GET,
    OPT_GPU_LAYERS, OPT_HASH, OPT_HISTOGRAM, OPT_KV, OPT_LONG, OPT_MARKDOWN, OPT_MEMORY,
    OPT_NO_FOLLOW, OPT_NO_NEWLINE, OPT_PRINT, OPT_PROGRESS, OPT_SCAN, OPT_STATS, OPT_TEMPLATE,
    OPT_TENSORS, OPT_TOLERANCE, OPT_TOTALS, OPT_TSV, OPT_VERIFY, OPT_VOCAB
};

static const struct option options[] = {
    { "cache-k",    required_argument, NULL, OPT_CACHE_K },
    { "cache-v",    required_argument, NULL, OPT_CACHE_V },
    { "check",      optional_argument, NULL, OPT_CHECK },
    { "context",    required_argument, NULL, 'c' },
    { "count",      required_argument, NULL, 'n' },
    { "diff",       no_argument,       NULL, OPT_DIFF },
    { "explain",    no_argument,       NULL, OPT_EXPLAIN },
    { "full",       no_argument,       NULL, OPT_FULL },
    { "get",        required_argument, NULL, OPT_GET },
    { "gpu-layers", required_argument, NULL, OPT_GPU_LAYERS },
    { "hash",       optional_argument, NULL, OPT_HASH },
    { "help",       no_argument,       NULL, 'h' },
    { "histogram",  optional_argument, NULL, OPT_HISTOGRAM },
    { "json",       no_argument,       NULL, 'j' },
    { "kv",         no_argument,       NULL, OPT_KV },
    { "long",       no_argument,       NULL, OPT_LONG },
    { "markdown",   no_argument,       NULL, OPT_MARKDOWN },
    { "memory",     no_argument,       NULL, OPT_MEMORY },
    { "no-follow",  no_argument,       NULL, OPT_NO_FOLLOW },
    { "no-newline", no_argument,       NULL, OPT_NO_NEWLINE },
    { "null",       no_argument,       NULL, '0' },
    { "print",      required_argument, NULL, OPT_PRINT },
    { "progress",   no_argument,       NULL, OPT_PROGRESS },
    { "quiet",      no_argument,       NULL, 'q' },
    { "scan",       no_argument,       NULL, OPT_SCAN },
    { "stats",      no_argument,       NULL, OPT_STATS },
    { "template",   optional_argument, NULL, OPT_TEMPLATE },
    { "tensors",    no_argument,       NULL, OPT_TENSORS },
    { "threads",    required_argument, NULL, 't' },
    { "tolerance",  required_argument, NULL, OPT_TOLERANCE },
    { "totals",     no_argument,       NULL, OPT_TOTALS },
    { "tsv",        no_argument,       NULL, OPT_TSV },
    { "ubatch",     required_argument, NULL, 'u' },
    { "verify",     required_argument, NULL, OPT_VERIFY },
    { "version",    no_argument,       NULL, 'V' },
    { "vocab",      no_argument,       NULL, OPT_VOCAB },
    { 0 }
};

#define TABLES (CLI_TEXT | CLI_TSV | CLI_MARKDOWN | CLI_JSON)
#define LINES  (CLI_TEXT | CLI_JSON)

static const struct cli_report_kind
    list      = { .option = "", .forms = TABLES, .model = cli_show_list,
                  .foreign = cli_show_safetensors },
    check     = { .option = "--check", .forms = LINES, .model = cli_show_check,
                  .broken = cli_show_broken },
    get       = { .option = "--get", .forms = LINES, .model = cli_show_values },
    template  = { .option = "--template", .forms = LINES, .model = cli_show_values },
    hash      = { .option = "--hash", .forms = LINES, .model = cli_show_hash },
    hash_file = { .option = "--hash=file", .forms = LINES, .path = cli_show_hash_file },
    verify    = { .option = "--verify", .forms = LINES, .model = cli_show_verify },
    vocab     = { .option = "--vocab", .forms = LINES, .model = cli_show_vocab },
    stats     = { .option = "--stats", .forms = TABLES, .model = cli_show_stats },
    numbers   = { .option = "--print", .forms = CLI_TEXT | CLI_TSV | CLI_JSON,
                  .model = cli_show_numbers },
    diff      = { .option = "--diff", .forms = LINES, .two = cli_show_diff },
    memory    = { .option = "--memory", .forms = LINES, .model = cli_show_memory },
    scan      = { .option = "--scan", .forms = LINES, .path = cli_show_scan };

static struct cli_inspect opt = { .kind = &list, .form = CLI_TEXT };

static void set_kind(const struct cli_report_kind *kind)
{
    if (opt.kind != &list && opt.kind != kind)
        cli_bad_usage("%s and %s do not go together", opt.kind->option, kind->option);
    opt.kind = kind;
}

static void set_form(enum cli_form form)
{
    if (opt.form != CLI_TEXT && opt.form != form)
        cli_bad_usage("--json, --markdown and --tsv exclude each other");
    opt.form = form;
}

static void set_check(const char *what)
{
    set_kind(&check);
    if (what && strcmp(what, "data"))
        cli_bad_usage("--check=%s: only data can be asked for", what);
    opt.check_data = opt.check_data || what;
}

static void set_hash(const char *what)
{
    static const char *const names[] = { "xxh64", "sha256", "file", NULL };
    int i = what ? cli_choice("hash", what, names) : 0;
    set_kind(i == 2 ? &hash_file : &hash);
    opt.digest = i == 1 ? LM_DIGEST_SHA256 : LM_DIGEST_XXH64;
}

/* One more key to print. */
static void add_key(const struct cli_report_kind *kind, const char *key)
{
    static size_t cap;
    set_kind(kind);
    if (!lm_grow(&opt.keys, &cap, opt.n_keys + 1, sizeof *opt.keys))
        cli_die(CLI_TROUBLE, "out of memory");
    opt.keys[opt.n_keys++] = key;
}

/* The key of a chat template, of the one named if there is a name. */
static void set_template(const char *name)
{
    static struct lm_buf key;
    if (key.len)
        cli_bad_usage("one --template at a time");
    lm_buf_printf(&key, "tokenizer.chat_template%s%s", name ? "." : "", name ? name : "");
    if (key.failed)
        cli_die(CLI_TROUBLE, "out of memory");
    add_key(&template, key.data);
}

/* A type that a cache can have: rows are written one at a time. */
static const struct lm_type *cache_type(const char *option, const char *name)
{
    const struct lm_type *t = lm_type_by_name(name);
    if (!t || !t->in_files || !t->decode || !t->encode || t->needs_weights)
        cli_bad_usage("--%s=%s: no type for keys and values, as f32, bf16, q8_0 and q4_0 are",
                      option, name);
    return t;
}

/* What belongs to one report is refused with others. */
static void check_options(void)
{
    const bool memory_options = opt.memory.n_ctx || opt.memory.n_ubatch || opt.memory.n_device ||
                                opt.memory.cache_k || opt.memory.cache_v;
    if (!(opt.kind->forms & opt.form))
        cli_bad_usage("%s has no --%s, but %s--json", opt.kind->option,
                      opt.form == CLI_TSV ? "tsv" : "markdown",
                      opt.kind->forms & CLI_TSV ? "--tsv and " : "");
    if (opt.kind != &list && (opt.kv || opt.tensors || opt.totals || opt.explain))
        cli_bad_usage("--kv, --tensors, --totals and --explain belong to listings");
    if (opt.full && opt.kind != &list && opt.kind != &diff)
        cli_bad_usage("--full belongs to listings and --diff");
    if (opt.explain && !opt.kv && (opt.tensors || opt.totals))
        cli_bad_usage("--explain is about metadata: it goes with --kv");
    if (memory_options && opt.kind != &memory)
        cli_bad_usage("-c, -u, --cache-k, --cache-v and --gpu-layers belong to --memory");
    if (opt.tolerant && opt.kind != &diff)
        cli_bad_usage("--tolerance belongs to --diff");
    if (opt.n_numbers && opt.kind != &numbers)
        cli_bad_usage("-n belongs to --print");
    if (opt.n_bins && opt.kind != &stats)
        cli_bad_usage("--histogram belongs to --stats");
    if (opt.full && (opt.form == CLI_JSON || opt.form == CLI_TSV))
        cli_bad_usage("--full makes no sense with --json and --tsv, which shorten nothing");
    if ((opt.null || opt.no_newline) && opt.kind != &get && opt.kind != &template)
        cli_bad_usage("-0 and --no-newline belong to --get and --template");
    if ((opt.null || opt.no_newline) && opt.form == CLI_JSON)
        cli_bad_usage("-0 and --no-newline make no sense with --json");
    if (opt.kind == &get || opt.kind == &template || opt.kind == &vocab)
        opt.no_follow = true;
}

static void read_options(int argc, char *argv[])
{
    struct cli_env_options run = { 0 };
    int c;
    while ((c = getopt_long(argc, argv, "0c:hjn:qt:u:V", options, NULL)) != -1)
        switch (c) {
        case '0':            opt.null = true; break;
        case 'c':            opt.memory.n_ctx = cli_u64("context", optarg, 1, UINT32_MAX); break;
        case 'h':            exit(cli_help(usage, help));
        case 'j':            set_form(CLI_JSON); break;
        case 'n':            opt.n_numbers = cli_u64("count", optarg, 1, INT64_MAX); break;
        case 'q':            run.quiet = true; break;
        case 't':            run.n_threads = cli_threads("threads", optarg); break;
        case 'u':            opt.memory.n_ubatch =
                                 (uint32_t)cli_u64("ubatch", optarg, 1, INT32_MAX);
                             break;
        case 'V':            exit(cli_version());
        case OPT_CACHE_K:    opt.memory.cache_k = cache_type("cache-k", optarg); break;
        case OPT_CACHE_V:    opt.memory.cache_v = cache_type("cache-v", optarg); break;
        case OPT_CHECK:      set_check(optarg); break;
        case OPT_DIFF:       set_kind(&diff); break;
        case OPT_EXPLAIN:    opt.explain = true; break;
        case OPT_FULL:       opt.full = true; break;
        case OPT_GET:        add_key(&get, optarg); break;
        case OPT_GPU_LAYERS: opt.memory.n_device = (uint32_t)cli_u64("gpu-layers", optarg, 1,
                                                                     INT32_MAX);
                             break;
        case OPT_HASH:       set_hash(optarg); break;
        case OPT_HISTOGRAM:  opt.n_bins = optarg ? (uint32_t)cli_u64("histogram", optarg, 2,
                                                                     LM_STATS_BINS) : 16;
                             break;
        case OPT_KV:         opt.kv = true; break;
        case OPT_LONG:       opt.long_window = true; break;
        case OPT_MARKDOWN:   set_form(CLI_MARKDOWN); break;
        case OPT_MEMORY:     set_kind(&memory); break;
        case OPT_NO_FOLLOW:  opt.no_follow = true; break;
        case OPT_NO_NEWLINE: opt.no_newline = true; break;
        case OPT_PRINT:      set_kind(&numbers), opt.tensor = optarg; break;
        case OPT_PROGRESS:   run.progress = true; break;
        case OPT_SCAN:       set_kind(&scan); break;
        case OPT_STATS:      set_kind(&stats); break;
        case OPT_TEMPLATE:   set_template(optarg); break;
        case OPT_TENSORS:    opt.tensors = true; break;
        case OPT_TOLERANCE:  opt.tolerant = true;
                             opt.tolerance = cli_f64("tolerance", optarg, 0, HUGE_VAL);
                             break;
        case OPT_TOTALS:     opt.totals = true; break;
        case OPT_TSV:        set_form(CLI_TSV); break;
        case OPT_VERIFY:     set_kind(&verify), opt.verify = optarg; break;
        case OPT_VOCAB:      set_kind(&vocab); break;
        default:             cli_try_help();
        }
    opt.env = cli_env(run);
    check_options();
}

int main(int argc, char *argv[])
{
    static char *const no_file[] = { "-", NULL };
    cli_start(argv);
    read_options(argc, argv);
    if (opt.kind->two && argc - optind != 2)
        cli_bad_usage("%s takes two files", opt.kind->option);
    int status = cli_inspect_all(&opt, optind < argc ? argv + optind : no_file);
    cli_inspect_release(&opt);
    return cli_finish(status);
}
