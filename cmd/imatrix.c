/* SPDX-License-Identifier: MIT */
/* imatrix - measure which columns of a model's weights matter for a text. */

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/size.h"
#include "cli/cli.h"
#include "job/imatrix.h"
#include "stream/tokens.h"
#include "vocab/vocab.h"

static const char usage[] =
    "usage: imatrix [-hqVv] [-c tokens] [-m model] [-o out] [option ...] [file ...]\n";

static const char help[] =
    "\n"
    "Run text through a model and write an importance matrix: for each weight\n"
    "matrix the sums of squares of what its columns are multiplied with.  Or, without\n"
    "a model, --convert, --merge or --show importance matrices.\n"
    "\n"
    "      --chunks=N        evaluate at most N chunks\n"
    "  -c, --context=N       tokens a chunk (512)\n"
    "      --convert         write an importance matrix again, in another form\n"
    "      --force           write to a terminal\n"
    "      --from-chunk=K    leave out the first K chunks\n"
    "  -h, --help            show this help\n"
    "      --keep-every=N    keep what there is after every N chunks, in OUT.at_N\n"
    "      --merge           add importance matrices; no model is needed\n"
    "      --layers          with --show, a line for each layer: means\n"
    "  -m, --model=FILE      the model\n"
    "      --no-ppl          do not compute perplexity\n"
    "  -o, --output=FILE     write to FILE instead of standard output\n"
    "      --output-format=F gguf [gguf], or dat, the form of older programs\n"
    "      --parse-special   text of control tokens in the input is the token\n"
    "      --process-output  measure the output matrix as well\n"
    "      --progress        show progress even if stderr is no terminal\n"
    "  -q, --quiet           no warnings, no perplexity\n"
    "      --resume          go on where the -o FILE of an earlier run ends\n"
    "      --save-every=N    write what there is to the -o FILE every N chunks\n"
    "      --show            print statistics of importance matrices, as TSV\n"
    "  -t, --threads=N       use N threads\n"
    "      --tokens          the input is token streams, not text\n"
    "  -v, --verbose         tell the perplexity after each chunk\n"
    "  -V, --version         show the version\n"
    "      --weights=W,W...  with --merge: what each file counts [1]\n";

enum {
    OPT_CHUNKS = 256, OPT_CONVERT, OPT_FORCE, OPT_FROM_CHUNK, OPT_KEEP_EVERY, OPT_LAYERS, OPT_MERGE,
    OPT_NO_PPL, OPT_OUTPUT_FORMAT, OPT_PARSE_SPECIAL, OPT_PROCESS_OUTPUT, OPT_PROGRESS,
    OPT_RESUME, OPT_SAVE_EVERY, OPT_SHOW, OPT_TOKENS, OPT_WEIGHTS
};

static const struct option options[] = {
    { "chunks",         required_argument, NULL, OPT_CHUNKS },
    { "context",        required_argument, NULL, 'c' },
    { "convert",        no_argument,       NULL, OPT_CONVERT },
    { "force",          no_argument,       NULL, OPT_FORCE },
    { "from-chunk",     required_argument, NULL, OPT_FROM_CHUNK },
    { "help",           no_argument,       NULL, 'h' },
    { "keep-every",     required_argument, NULL, OPT_KEEP_EVERY },
    { "layers",         no_argument,       NULL, OPT_LAYERS },
    { "merge",          no_argument,       NULL, OPT_MERGE },
    { "model",          required_argument, NULL, 'm' },
    { "no-ppl",         no_argument,       NULL, OPT_NO_PPL },
    { "output",         required_argument, NULL, 'o' },
    { "output-format",  required_argument, NULL, OPT_OUTPUT_FORMAT },
    { "parse-special",  no_argument,       NULL, OPT_PARSE_SPECIAL },
    { "process-output", no_argument,       NULL, OPT_PROCESS_OUTPUT },
    { "progress",       no_argument,       NULL, OPT_PROGRESS },
    { "quiet",          no_argument,       NULL, 'q' },
    { "resume",         no_argument,       NULL, OPT_RESUME },
    { "save-every",     required_argument, NULL, OPT_SAVE_EVERY },
    { "show",           no_argument,       NULL, OPT_SHOW },
    { "threads",        required_argument, NULL, 't' },
    { "tokens",         no_argument,       NULL, OPT_TOKENS },
    { "verbose",        no_argument,       NULL, 'v' },
    { "version",        no_argument,       NULL, 'V' },
    { "weights",        required_argument, NULL, OPT_WEIGHTS },
    { 0 }
};

#define CHUNK    512                    /* tokens, without -c */
#define MAX_TEXT ((size_t)1 << 32)      /* bytes of one input */

static struct {
    const char *model, *out;
    bool        convert, force, layers, merge, resume, show, tokens, parse_special;
    bool        dat;                    /* write the old form                   */
    uint64_t    save_every, keep_every;
    char       *weights;                /* of --merge, as given                 */
    struct lm_imatrix_options job;
    struct cli_env_options    env;
} opt = { .job = { .bos = -1 } };

static struct lm_env env;

/* ---- writing ------------------------------------------------------------- */

/* Write m to a file, or end. */
static void put(const struct lm_importance *m, const char *path)
{
    struct lm_err err;
    struct lm_out *out = cli_out_open(path, true, opt.force);
    if ((opt.dat ? lm_importance_write_old : lm_importance_write)(m, out, &err))
        cli_die_err(lm_out_name(out), &err);
    int status = cli_out_commit(out);
    if (status)
        exit(cli_finish(status));
}

static void put_result(const struct lm_imatrix *im, const char *path)
{
    struct lm_err err;
    struct lm_importance *m = lm_imatrix_result(im, &err);
    if (!m)
        cli_die_err(NULL, &err);
    put(m, path);
    lm_importance_free(m);
}

/* ---- measuring ----------------------------------------------------------- */

static struct lm_imatrix *work;

static int chunk_done(void *arg, uint64_t n_done, struct lm_err *err)
{
    double ppl, error;
    (void)arg;
    if (lm_imatrix_ppl(work, &ppl, &error))
        lm_note(&env, LM_INFO, "chunk %" PRIu64 ": PPL = %.4f +/- %.5f", n_done, ppl, error);
    if (opt.save_every && n_done % opt.save_every == 0)
        put_result(work, opt.out);
    if (opt.keep_every && n_done % opt.keep_every == 0) {
        struct lm_buf path = { 0 };
        lm_buf_printf(&path, "%s.at_%" PRIu64, opt.out, n_done);
        if (path.failed)
            return lm_fail_nomem(err);
        put_result(work, path.data);
        lm_buf_release(&path);
    }
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
        cli_warn("Final estimate: PPL = %.4f +/- %.5f (%" PRIu64 " chunks of %" PRIu32 " tokens)",
                 ppl, error, lm_imatrix_measured(work), opt.job.chunk);
}

static void say_unseen(void)
{
    size_t all, unseen = lm_imatrix_unseen(work, &all);
    if (unseen)
        lm_note(&env, LM_WARN, "%zu of %zu matrices of experts were reached by no token: their "
                "columns will count as equal", unseen, all);
}

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

/* Go on where an earlier run ended, if there was one, on the same inputs. */
static void go_on(char *const *files)
{
    struct lm_err err;
    if (access(opt.out, F_OK))
        return;
    struct lm_importance *m = read_matrix(opt.out);
    for (size_t i = 0; i < m->n_datasets; i++) {
        while (*files && strcmp(strcmp(*files, "-") ? *files : "<stdin>", m->datasets[i]))
            files++;
        if (!*files)
            cli_die(CLI_TROUBLE, "%s: --resume: it was measured on %s, which is not among the "
                    "inputs", opt.out, m->datasets[i]);
    }
    lm_importance_from_old(m, opt.job.chunk);
    if (lm_imatrix_continue(work, m, &err))
        cli_die_err(opt.out, &err);
    lm_importance_free(m);
}

static void measure(char *const *files)
{
    struct lm_err err;
    /* Activations are read where they lie: in host memory. */
    const struct lm_model_options on_cpu = { .placement = { .devices = "cpu" } };
    struct lm_model *model = lm_model_load(opt.model, &on_cpu, &env, &err);
    if (!model)
        cli_die_err(opt.model, &err);
    struct lm_vocab *vocab = NULL;           /* tokens can do without */
    if (!opt.tokens || lm_gguf_kv(lm_model_gguf(model), "tokenizer.ggml.model")) {
        vocab = lm_vocab_from_gguf(lm_model_gguf(model), &env, &err);
        if (!vocab)
            cli_die_err(opt.model, &err);
    }
    if (opt.job.chunk > lm_model_n_ctx_train(model))
        lm_note(&env, LM_WARN, "-c %" PRIu32 ": the model was trained for %" PRIu32 " tokens",
                opt.job.chunk, lm_model_n_ctx_train(model));
    if (vocab && lm_vocab_add_bos(vocab))
        opt.job.bos = lm_vocab_bos(vocab);
    opt.job.chunk_done = chunk_done;
    work = lm_imatrix_new(model, &opt.job, &env, &err);
    if (!work)
        cli_die_err(opt.model, &err);
    if (opt.resume)
        go_on(files);
    for (char *const *f = files; *f && !lm_imatrix_full(work); f++) {
        if (opt.tokens)
            add_tokens(lm_model_n_vocab(model), *f);
        else
            add_text(vocab, *f);
    }
    need_chunks();
    put_result(work, opt.out);
    say_ppl();
    say_unseen();
    lm_imatrix_free(work);
    lm_vocab_free(vocab);
    lm_model_free(model);
}

/* ---- without a model ----------------------------------------------------- */

/* W,W,...: as many as there are files. */
static double *read_weights(size_t n)
{
    double *w = opt.weights ? lm_malloc_array(n + 1, sizeof *w) : NULL;
    size_t k = 0;
    char *end = opt.weights;
    if (!opt.weights)
        return NULL;
    if (!w)
        cli_die(CLI_TROUBLE, "out of memory");
    for (char *word = opt.weights; word; word = end) {
        if ((end = strchr(word, ',')))
            *end++ = 0;
        if (k == n)
            cli_bad_usage("--weights: more numbers than files");
        w[k++] = cli_f64("weights", word, -1e9, 1e9);
    }
    if (k < n)
        cli_bad_usage("--weights: %zu numbers for %zu files", k, n);
    return w;
}

/* --convert is the sum of one. */
static void merge(char *const *files, size_t n)
{
    struct lm_err err;
    double *weights = read_weights(n);
    struct lm_importance **m = calloc(n, sizeof *m);
    if (!m)
        cli_die(CLI_TROUBLE, "out of memory");
    for (size_t i = 0; i < n; i++) {
        m[i] = read_matrix(files[i]);
        lm_importance_from_old(m[i], opt.job.chunk ? opt.job.chunk : CHUNK);
    }
    struct lm_importance *sum = lm_imatrix_merge((const struct lm_importance *const *)m,
                                                 (const char *const *)files, weights, n, &err);
    if (!sum)
        cli_die_err(NULL, &err);
    put(sum, opt.out);
    free(weights);
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

/* A line of --show: what is in it, by columns as the page lists them. */
#define NUMBERS 11

struct line {
    uint64_t n_mat, width;
    double   number[NUMBERS];           /* NaN: '-' */
};

static void print_line(const char *name, const struct line *l)
{
    struct lm_buf b = { 0 };
    lm_buf_escape(&b, name, strlen(name));
    lm_buf_printf(&b, "\t%" PRIu64 "\t%" PRIu64, l->n_mat, l->width);
    for (int k = 0; k < NUMBERS; k++) {
        lm_buf_byte(&b, '\t');
        if (isnan(l->number[k]))
            lm_buf_byte(&b, '-');
        else
            lm_json_f64(&b, l->number[k]);
    }
    if (b.failed)
        cli_die(CLI_TROUBLE, "out of memory");
    puts(b.data);
    lm_buf_release(&b);
}

static struct line line_of(const char *path, const struct lm_importance *m, size_t i)
{
    struct lm_err err;
    struct lm_imatrix_stats s;
    const struct lm_importance_entry *e = &m->entries[i];
    if (lm_imatrix_entry_stats(m, i, &s, &err))
        cli_die_err(path, &err);
    return (struct line){ e->n_mat, e->width, {
        tokens_of(e), s.sum, s.mean, s.min, s.max, s.deviation, s.active, s.entropy, s.evenness,
        s.outliers, s.cosine
    } };
}

#define LAYERS 65536u                   /* larger numbers in names are none of a layer */

/* The layer of a weight, or LAYERS: none. */
static uint32_t layer_of(const char *name)
{
    char *end;
    if (strncmp(name, "blk.", 4) || name[4] < '0' || name[4] > '9')
        return LAYERS;
    const unsigned long n = strtoul(name + 4, &end, 10);
    return *end == '.' && n < LAYERS ? (uint32_t)n : LAYERS;
}

/* Sums over the matrices of a layer, those of a matrix counted for each of its columns. */
struct layer {
    struct line sum;
    double      columns[NUMBERS];       /* of the matrices that have the number */
};

static void add_line(struct layer *layer, const struct line *l)
{
    const uint64_t columns = l->n_mat * l->width;
    layer->sum.n_mat += l->n_mat;
    layer->sum.width += columns;
    for (int k = 0; k < NUMBERS; k++) {
        layer->sum.number[k] += isnan(l->number[k]) ? 0 : (double)columns * l->number[k];
        layer->columns[k] += isnan(l->number[k]) ? 0 : (double)columns;
    }
}

static void print_layer(uint32_t n, struct layer *layer)
{
    char name[32];
    for (int k = 0; k < NUMBERS; k++)
        layer->sum.number[k] = layer->columns[k] > 0 ? layer->sum.number[k] / layer->columns[k]
                                                     : NAN;
    snprintf(name, sizeof name, "blk.%" PRIu32, n);
    print_line(name, &layer->sum);
}

/* A line for each matrix, or for each layer. */
static void show(const char *path)
{
    struct lm_importance *m = read_matrix(path);
    struct layer *layers = opt.layers ? calloc(LAYERS, sizeof *layers) : NULL;
    if (opt.layers && !layers)
        cli_die(CLI_TROUBLE, "out of memory");
    for (size_t i = 0; i < m->n; i++) {
        const struct line l = line_of(path, m, i);
        const uint32_t layer = layer_of(m->entries[i].name);
        if (!layers)
            print_line(m->entries[i].name, &l);
        else if (layer < LAYERS)
            add_line(&layers[layer], &l);
    }
    for (uint32_t n = 0; layers && n < LAYERS; n++)
        if (layers[n].sum.n_mat)
            print_layer(n, &layers[n]);
    free(layers);
    lm_importance_free(m);
}

/* ---- the command line ---------------------------------------------------- */

static void read_options(int argc, char *argv[])
{
    static const char *const forms[] = { "gguf", "dat", NULL };
    int c;
    while ((c = getopt_long(argc, argv, "c:hm:o:qt:vV", options, NULL)) != -1)
        switch (c) {
        case 'c': opt.job.chunk = (uint32_t)cli_u64("context", optarg, 2, 1 << 24); break;
        case 'h': exit(cli_help(usage, help));
        case 'm': opt.model = optarg; break;
        case 'o': opt.out = optarg; break;
        case 'q': opt.env.quiet = true; break;
        case 't': opt.env.n_threads = cli_threads("threads", optarg); break;
        case 'v': opt.env.verbose = true; break;
        case 'V': exit(cli_version());
        case OPT_CHUNKS: opt.job.n_chunks = cli_u64("chunks", optarg, 1, UINT32_MAX); break;
        case OPT_CONVERT: opt.convert = true; break;
        case OPT_FORCE: opt.force = true; break;
        case OPT_FROM_CHUNK: opt.job.from_chunk = cli_u64("from-chunk", optarg, 0, UINT32_MAX);
            break;
        case OPT_KEEP_EVERY: opt.keep_every = cli_u64("keep-every", optarg, 1, UINT32_MAX); break;
        case OPT_LAYERS: opt.layers = true; break;
        case OPT_MERGE: opt.merge = true; break;
        case OPT_NO_PPL: opt.job.no_ppl = true; break;
        case OPT_OUTPUT_FORMAT: opt.dat = cli_choice("output-format", optarg, forms) == 1; break;
        case OPT_PARSE_SPECIAL: opt.parse_special = true; break;
        case OPT_PROCESS_OUTPUT: opt.job.process_output = true; break;
        case OPT_PROGRESS: opt.env.progress = true; break;
        case OPT_RESUME: opt.resume = true; break;
        case OPT_SAVE_EVERY: opt.save_every = cli_u64("save-every", optarg, 1, UINT32_MAX); break;
        case OPT_SHOW: opt.show = true; break;
        case OPT_TOKENS: opt.tokens = true; break;
        case OPT_WEIGHTS: opt.weights = optarg; break;
        default: cli_try_help();
        }
}

static void check_options(int n_files)
{
    const bool to_file = opt.out && strcmp(opt.out, "-");
    if (opt.merge + opt.show + opt.convert > 1)
        cli_bad_usage("only one of --convert, --merge and --show makes sense");
    if (opt.layers && !opt.show)
        cli_bad_usage("--layers needs --show");
    if (opt.weights && !opt.merge)
        cli_bad_usage("--weights needs --merge");
    if (opt.merge || opt.show || opt.convert) {
        const struct lm_imatrix_options *j = &opt.job;
        if (opt.model || opt.tokens || opt.parse_special || opt.save_every || opt.keep_every ||
            j->from_chunk || j->n_chunks || j->process_output || j->no_ppl || opt.resume ||
            opt.env.n_threads)
            cli_bad_usage("--convert, --merge and --show take no model, and no option about one");
        if (opt.show && (opt.out || opt.dat || j->chunk))
            cli_bad_usage("--show writes text to standard output");
        if (!n_files || (opt.convert && n_files > 1))
            cli_bad_usage(opt.convert ? "--convert needs one file"
                                      : "--merge and --show need a file");
        return;
    }
    if (!opt.model)
        cli_bad_usage("no model: -m FILE");
    if (opt.tokens && opt.parse_special)
        cli_bad_usage("--parse-special is about text, not --tokens");
    if ((opt.save_every || opt.keep_every || opt.resume) && !to_file)
        cli_bad_usage("--save-every, --keep-every and --resume need -o FILE");
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
    else if (opt.merge || opt.convert)
        merge(files, (size_t)n);
    else {
        cli_refuse_same(opt.model, opt.out ? opt.out : "-");
        measure(n ? files : standard_input);
    }
    return cli_finish(CLI_OK);
}
