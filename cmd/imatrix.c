/* SPDX-License-Identifier: MIT */
/* imatrix - measure which columns of a model's weights matter for a text. */

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "cli/cli.h"
#include "job/imatrix.h"
#include "stream/tokens.h"
#include "vocab/vocab.h"

static const char usage[] =
    "usage: imatrix [option ...] -m model | --merge | --show [-o out] [file ...]\n";

static const char help[] =
    "\n"
    "Run text through a model and write an importance matrix: for each weight\n"
    "matrix the sums of squares of what its columns are multiplied with.\n"
    "\n"
    "  -c, --context=N       tokens a chunk (512)\n"
    "      --chunks=N        evaluate at most N chunks\n"
    "      --force           write to a terminal\n"
    "      --from-chunk=K    leave out the first K chunks\n"
    "  -h, --help            show this help\n"
    "  -m, --model=FILE      the model\n"
    "      --merge           add importance matrices; no model is needed\n"
    "      --no-ppl          do not compute perplexity\n"
    "  -o, --output=FILE     write to FILE instead of standard output\n"
    "      --parse-special   text of control tokens in the input is the token\n"
    "      --process-output  measure the output matrix as well\n"
    "      --progress        show progress even if stderr is no terminal\n"
    "  -q, --quiet           no warnings, no perplexity\n"
    "      --save-every=N    write what there is to the -o FILE every N chunks\n"
    "      --show            print statistics of importance matrices, as TSV\n"
    "  -t, --threads=N       use N threads\n"
    "      --tokens          the input is token streams, not text\n"
    "  -v, --verbose         tell the perplexity after each chunk\n"
    "  -V, --version         show the version\n";

enum {
    OPT_CHUNKS = 256, OPT_FORCE, OPT_FROM_CHUNK, OPT_MERGE, OPT_NO_PPL, OPT_PARSE_SPECIAL,
    OPT_PROCESS_OUTPUT, OPT_PROGRESS, OPT_SAVE_EVERY, OPT_SHOW, OPT_TOKENS
};

static const struct option options[] = {
    { "chunks",         required_argument, NULL, OPT_CHUNKS },
    { "context",        required_argument, NULL, 'c' },
    { "force",          no_argument,       NULL, OPT_FORCE },
    { "from-chunk",     required_argument, NULL, OPT_FROM_CHUNK },
    { "help",           no_argument,       NULL, 'h' },
    { "merge",          no_argument,       NULL, OPT_MERGE },
    { "model",          required_argument, NULL, 'm' },
    { "no-ppl",         no_argument,       NULL, OPT_NO_PPL },
    { "output",         required_argument, NULL, 'o' },
    { "parse-special",  no_argument,       NULL, OPT_PARSE_SPECIAL },
    { "process-output", no_argument,       NULL, OPT_PROCESS_OUTPUT },
    { "progress",       no_argument,       NULL, OPT_PROGRESS },
    { "quiet",          no_argument,       NULL, 'q' },
    { "save-every",     required_argument, NULL, OPT_SAVE_EVERY },
    { "show",           no_argument,       NULL, OPT_SHOW },
    { "threads",        required_argument, NULL, 't' },
    { "tokens",         no_argument,       NULL, OPT_TOKENS },
    { "verbose",        no_argument,       NULL, 'v' },
    { "version",        no_argument,       NULL, 'V' },
    { 0 }
};

#define CHUNK    512                    /* tokens, without -c */
#define MAX_TEXT ((size_t)1 << 32)      /* bytes of one input */

static struct {
    const char *model, *out;
    bool        force, merge, show, tokens, parse_special;
    uint64_t    save_every;
    struct lm_imatrix_options job;
    struct cli_env_options    env;
} opt = { .job = { .bos = -1 } };

static struct lm_env env;

/* ---- writing ------------------------------------------------------------- */

/* Write m to the output, or end. */
static void put(const struct lm_importance *m)
{
    struct lm_err err;
    struct lm_out *out = cli_out_open(opt.out, true, opt.force);
    if (lm_importance_write(m, out, &err))
        cli_die_err(lm_out_name(out), &err);
    int status = cli_out_commit(out);
    if (status)
        exit(cli_finish(status));
}

static void put_result(const struct lm_imatrix *im)
{
    struct lm_err err;
    struct lm_importance *m = lm_imatrix_result(im, &err);
    if (!m)
        cli_die_err(NULL, &err);
    put(m);
    lm_importance_free(m);
}

/* ---- measuring ----------------------------------------------------------- */

static struct lm_imatrix *work;

static int chunk_done(void *arg, uint64_t n_done, struct lm_err *err)
{
    double ppl, error;
    (void)arg, (void)err;
    if (lm_imatrix_ppl(work, &ppl, &error))
        lm_note(&env, LM_INFO, "chunk %" PRIu64 ": perplexity %.4f +/- %.4f", n_done, ppl, error);
    if (opt.save_every && n_done % opt.save_every == 0)
        put_result(work);
    return LM_OK;
}

static void add(const char *name, const int32_t *ids, size_t n)
{
    struct lm_err err;
    if (lm_imatrix_add(work, name, ids, n, &err))
        cli_die_err(name, &err);
}

static void add_text(const struct lm_vocab *vocab, const char *path)
{
    struct lm_err err;
    struct lm_ids ids = { 0 };
    char *text;
    size_t len;
    const char *name = strcmp(path, "-") ? path : "<stdin>";
    unsigned flags = LM_ENCODE_SPECIAL | (opt.parse_special ? LM_ENCODE_PARSE : 0);
    if (lm_read_file(path, MAX_TEXT, &text, &len, &err))
        cli_die_err(name, &err);
    if (lm_vocab_encode(vocab, text, len, flags, &ids, &err))
        cli_die_err(name, &err);
    free(text);
    add(name, ids.id, ids.n);
    lm_ids_release(&ids);
}

static void add_tokens(uint32_t n_vocab, const char *path)
{
    struct lm_err err;
    struct lm_in *in = lm_in_open(path, 0, &err);
    const char *name = strcmp(path, "-") ? path : "<stdin>";
    struct lm_token_reader *r = in ? lm_token_reader_new(in, &err) : NULL;
    int32_t *ids = NULL;
    size_t n = 0, cap = 0;
    int s = LM_EIO;
    if (!r)
        cli_die_err(name, &err);
    lm_token_set_vocab(r, n_vocab);
    while (!lm_imatrix_full(work) && (s = lm_token_read_line(r, &ids, &n, &cap, &err)) == 1) {
        add(name, ids, n);
        n = 0;
    }
    if (s < 0 && !lm_imatrix_full(work))
        cli_die_err(name, &err);
    free(ids);
    lm_token_reader_free(r);
    lm_in_close(in);
}

/* Without a whole chunk there is nothing to write. */
static void need_chunks(void)
{
    if (lm_imatrix_done(work))
        return;
    if (lm_imatrix_seen(work))
        cli_die(CLI_NO, "the input has %" PRIu64 " chunks: --from-chunk leaves none",
                lm_imatrix_seen(work));
    cli_die(CLI_NO, "the input is less than one chunk of %" PRIu32 " tokens", opt.job.chunk);
}

static void say_ppl(void)
{
    double ppl, error;
    if (!opt.env.quiet && lm_imatrix_ppl(work, &ppl, &error))
        cli_warn("perplexity %.4f +/- %.4f over %" PRIu64 " chunks of %" PRIu32 " tokens", ppl,
                 error, lm_imatrix_done(work), opt.job.chunk);
}

static void say_unseen(void)
{
    size_t all, unseen = lm_imatrix_unseen(work, &all);
    if (unseen)
        lm_note(&env, LM_WARN, "%zu of %zu matrices of experts were reached by no token: their "
                "columns will count as equal", unseen, all);
}

static void measure(char *const *files)
{
    struct lm_err err;
    struct lm_model *model = lm_model_load(opt.model, NULL, &env, &err);
    if (!model)
        cli_die_err(opt.model, &err);
    struct lm_vocab *vocab = lm_vocab_from_gguf(lm_model_gguf(model), &env, &err);
    if (!vocab)
        cli_die_err(opt.model, &err);
    if (opt.job.chunk > lm_model_n_ctx_train(model))
        lm_note(&env, LM_WARN, "-c %" PRIu32 ": the model was trained for %" PRIu32 " tokens",
                opt.job.chunk, lm_model_n_ctx_train(model));
    if (lm_vocab_add_bos(vocab))
        opt.job.bos = lm_vocab_bos(vocab);
    opt.job.chunk_done = chunk_done;
    work = lm_imatrix_new(model, &opt.job, &env, &err);
    if (!work)
        cli_die_err(opt.model, &err);
    for (char *const *f = files; *f && !lm_imatrix_full(work); f++) {
        if (opt.tokens)
            add_tokens(lm_model_n_vocab(model), *f);
        else
            add_text(vocab, *f);
    }
    need_chunks();
    put_result(work);
    say_ppl();
    say_unseen();
    lm_imatrix_free(work);
    lm_vocab_free(vocab);
    lm_model_free(model);
}

/* ---- without a model ----------------------------------------------------- */

static struct lm_importance *read_matrix(const char *path)
{
    struct lm_err err;
    struct lm_in *in = lm_in_open(path, 0, &err);
    struct lm_importance *m = in ? lm_importance_read(in, &err) : NULL;
    if (!m)
        cli_die_err(strcmp(path, "-") ? path : "<stdin>", &err);
    lm_in_close(in);
    return m;
}

static void merge(char *const *files, size_t n)
{
    struct lm_err err;
    struct lm_importance **m = calloc(n, sizeof *m);
    if (!m)
        cli_die(CLI_TROUBLE, "out of memory");
    for (size_t i = 0; i < n; i++)
        m[i] = read_matrix(files[i]);
    struct lm_importance *sum = lm_imatrix_merge((const struct lm_importance *const *)m,
                                                 (const char *const *)files, n, &err);
    if (!sum)
        cli_die_err(NULL, &err);
    put(sum);
    lm_importance_free(sum);
    for (size_t i = 0; i < n; i++)
        lm_importance_free(m[i]);
    free(m);
}

static double tokens_of(const struct lm_importance_entry *e)
{
    double n = 0;
    for (uint64_t k = 0; k < e->n_mat; k++)
        n += e->counts[k];
    return n;
}

/* Columns as the page lists them. */
static void show(const char *path)
{
    struct lm_err err;
    struct lm_imatrix_stats s;
    struct lm_buf line = { 0 };
    struct lm_importance *m = read_matrix(path);
    for (size_t i = 0; i < m->n; i++) {
        const struct lm_importance_entry *e = &m->entries[i];
        if (lm_imatrix_entry_stats(m, i, &s, &err))
            cli_die_err(path, &err);
        const double numbers[] = { tokens_of(e), s.sum, s.mean, s.min, s.max, s.deviation,
                                   s.active, s.entropy, s.evenness, s.outliers, s.cosine };
        lm_buf_clear(&line);
        lm_buf_escape(&line, e->name, strlen(e->name));
        lm_buf_printf(&line, "\t%" PRIu64 "\t%" PRIu64, e->n_mat, e->width);
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            lm_buf_byte(&line, '\t');
            if (isnan(numbers[k]))
                lm_buf_byte(&line, '-');
            else
                lm_json_f64(&line, numbers[k]);
        }
        if (line.failed)
            cli_die(CLI_TROUBLE, "out of memory");
        puts(line.data);
    }
    lm_buf_release(&line);
    lm_importance_free(m);
}

/* ---- the command line ---------------------------------------------------- */

static void read_options(int argc, char *argv[])
{
    int c;
    while ((c = getopt_long(argc, argv, "c:hm:o:qt:vV", options, NULL)) != -1)
        switch (c) {
        case 'c': opt.job.chunk = (uint32_t)cli_u64("context", optarg, 2, 1 << 24); break;
        case 'h': exit(cli_help(usage, help));
        case 'm': opt.model = optarg; break;
        case 'o': opt.out = optarg; break;
        case 'q': opt.env.quiet = true; break;
        case 't': opt.env.n_threads = cli_threads(optarg); break;
        case 'v': opt.env.verbose = true; break;
        case 'V': exit(cli_version());
        case OPT_CHUNKS: opt.job.n_chunks = cli_u64("chunks", optarg, 1, UINT32_MAX); break;
        case OPT_FORCE: opt.force = true; break;
        case OPT_FROM_CHUNK: opt.job.from_chunk = cli_u64("from-chunk", optarg, 0, UINT32_MAX);
            break;
        case OPT_MERGE: opt.merge = true; break;
        case OPT_NO_PPL: opt.job.no_ppl = true; break;
        case OPT_PARSE_SPECIAL: opt.parse_special = true; break;
        case OPT_PROCESS_OUTPUT: opt.job.process_output = true; break;
        case OPT_PROGRESS: opt.env.progress = true; break;
        case OPT_SAVE_EVERY: opt.save_every = cli_u64("save-every", optarg, 1, UINT32_MAX); break;
        case OPT_SHOW: opt.show = true; break;
        case OPT_TOKENS: opt.tokens = true; break;
        default: cli_try_help();
        }
}

static void check_options(int n_files)
{
    if (opt.merge && opt.show)
        cli_bad_usage("only one of --merge and --show makes sense");
    if (opt.merge || opt.show) {
        const struct lm_imatrix_options *j = &opt.job;
        if (opt.model || opt.tokens || opt.parse_special || opt.save_every || j->chunk ||
            j->from_chunk || j->n_chunks || j->process_output || j->no_ppl ||
            opt.env.n_threads)
            cli_bad_usage("--merge and --show take no model, and no option about one");
        if (opt.show && opt.out)
            cli_bad_usage("--show writes to standard output");
        if (!n_files)
            cli_bad_usage("--merge and --show need a file");
        return;
    }
    if (!opt.model)
        cli_bad_usage("no model: -m FILE");
    if (opt.tokens && opt.parse_special)
        cli_bad_usage("--parse-special is about text, not --tokens");
    if (opt.save_every && (!opt.out || !strcmp(opt.out, "-")))
        cli_bad_usage("--save-every needs -o FILE");
    if (!opt.job.chunk)
        opt.job.chunk = CHUNK;
}

int main(int argc, char *argv[])
{
    static char *const standard_input[] = { "-", NULL };
    cli_start(argv);
    read_options(argc, argv);
    char *const *files = argv + optind;
    int n = argc - optind;
    check_options(n);
    env = cli_env(opt.env);
    for (int i = 0; i < n && !opt.show; i++)
        cli_refuse_same(files[i], opt.out ? opt.out : "-");
    if (opt.show)
        for (int i = 0; i < n; i++)
            show(files[i]);
    else if (opt.merge)
        merge(files, (size_t)n);
    else {
        cli_refuse_same(opt.model, opt.out ? opt.out : "-");
        measure(n ? files : standard_input);
    }
    return cli_finish(CLI_OK);
}
