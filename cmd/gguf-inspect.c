/* SPDX-License-Identifier: MIT */
/* gguf-inspect - show what is in a GGUF file, from its first bytes alone. */

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/size.h"
#include "cli/cli.h"
#include "gguf/gguf_text.h"
#include "hf/safetensors.h"
#include "job/check.h"
#include "job/compare.h"
#include "job/digest.h"
#include "job/digest_list.h"
#include "job/footprint.h"
#include "job/scan.h"
#include "job/stats.h"
#include "job/vocab_line.h"

static const char usage[] =
    "usage: gguf-inspect [-0hjqV] [-c n] [-t n] [option ...] [file ...]\n";

static const char help[] =
    "\n"
    "Show the header, metadata and tensors of GGUF files, or of standard input.\n"
    "\n"
    "      --check[=data]\n"
    "                    tell every fault, a line each, with =data also numbers\n"
    "                    that are none; no fault: status 0\n"
    "  -c, --context=N   with --memory: positions (default: as trained for)\n"
    "      --diff        how two files differ, in metadata and tensors\n"
    "      --full        do not shorten long values\n"
    "      --get=KEY     print the value of KEY; of an array, an element a line\n"
    "      --hash[=xxh64|sha256]\n"
    "                    a digest of each tensor's data, and one of them all\n"
    "      --hash=file   the SHA-256 of the file's bytes\n"
    "  -j, --json        one JSON object for each file\n"
    "      --kv          metadata only\n"
    "      --long        allow zstd input with windows above 128 MiB\n"
    "      --memory      memory for running: weights, keys and values\n"
    "      --no-follow   do not go on with the other shards of a split model\n"
    "      --no-newline  with --get, --template: no newline after a value\n"
    "  -0, --null        with --get: raw values, each ended by a NUL\n"
    "      --print=TENSOR\n"
    "                    the numbers of a tensor, a row a line\n"
    "      --progress    show progress though stderr is no terminal\n"
    "  -q, --quiet       no notes, no progress\n"
    "      --scan        where GGUFs begin inside any file\n"
    "      --stats       least, largest and mean number of each tensor, and more\n"
    "      --template[=NAME]\n"
    "                    print the chat template\n"
    "      --tensors     tensors only\n"
    "  -t, --threads=N   threads to use (default: the CPUs there are)\n"
    "      --tolerance=X with --diff: numbers may be so far apart\n"
    "      --verify=FILE\n"
    "                    compare with a list that --hash printed\n"
    "      --vocab       the vocabulary: id, type, score, text, what it is used for\n"
    "  -h, --help        show this help\n"
    "  -V, --version     show the version\n";

enum {
    OPT_CHECK = 256, OPT_DIFF, OPT_MEMORY, OPT_SCAN, OPT_TOLERANCE,
    OPT_FULL, OPT_GET, OPT_HASH, OPT_KV, OPT_LONG, OPT_NO_FOLLOW, OPT_NO_NEWLINE,
    OPT_PRINT, OPT_PROGRESS, OPT_STATS, OPT_TEMPLATE, OPT_TENSORS, OPT_VERIFY, OPT_VOCAB
};

static const struct option options[] = {
    { "check",      optional_argument, NULL, OPT_CHECK },
    { "context",    required_argument, NULL, 'c' },
    { "diff",       no_argument,       NULL, OPT_DIFF },
    { "full",       no_argument,       NULL, OPT_FULL },
    { "get",        required_argument, NULL, OPT_GET },
    { "hash",       optional_argument, NULL, OPT_HASH },
    { "help",       no_argument,       NULL, 'h' },
    { "json",       no_argument,       NULL, 'j' },
    { "kv",         no_argument,       NULL, OPT_KV },
    { "long",       no_argument,       NULL, OPT_LONG },
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
    { "verify",     required_argument, NULL, OPT_VERIFY },
    { "version",    no_argument,       NULL, 'V' },
    { "vocab",      no_argument,       NULL, OPT_VOCAB },
    { 0 }
};

#define SHORT_VALUE 64      /* bytes of a value that a listing shows          */
#define MAX_WIDTH   56      /* columns beyond which a column is not widened   */

/* What is done with each model; the names are the options'. */
enum mode { LIST, CHECK, GET, HASH, HASH_FILE, VERIFY, VOCAB, TEMPLATE, STATS,
            PRINT, DIFF, MEMORY, SCAN };
static const char *const mode_names[] = { "", "check", "get", "hash", "hash=file", "verify",
                                          "vocab", "template", "stats", "print",
                                          "diff", "memory", "scan" };

static struct {
    enum mode   mode;
    bool        check_data, full, json, kv, tensors, no_follow, no_newline, null, long_window;
    const char *get, *verify, *tensor;
    enum lm_digest_kind digest;
    uint64_t    context;
    bool        tolerant;
    double      tolerance;
} opt;

static int n_listed;        /* files shown so far */

/* Everything is printed through one buffer, emptied whenever it is large. */
static void print(struct lm_buf *b, bool last)
{
    if (b->failed)
        cli_die(CLI_TROUBLE, "out of memory");
    if (b->len > 1 << 16 || (last && b->len)) {
        cli_write(b->data, b->len);
        lm_buf_clear(b);
    }
}

/* ---- listing ------------------------------------------------------------- */

/* Columns that UTF-8 text takes, one a character. */
static int columns(const struct lm_buf *b)
{
    int n = 0;
    for (size_t i = 0; i < b->len; i++)
        n += ((uint8_t)b->data[i] & 0xc0) != 0x80;
    return n;
}

/* A table's rows come as cells, escaped already; row 0 is the headings. */
struct table {
    int      n_cols;
    uint64_t n_rows;
    void   (*fill)(const struct lm_gguf *g, uint64_t row, struct lm_buf *cells);
};

#define MAX_COLS 8

static void fill_heads(struct lm_buf *cells, int n, const char *const *heads)
{
    for (int i = 0; i < n; i++)
        lm_buf_str(&cells[i], heads[i]);
}

static void fill_entry(const struct lm_gguf *g, uint64_t row, struct lm_buf *cells)
{
    static const char *const heads[] = { "KEY", "TYPE", "VALUE" };
    if (row == 0) {
        fill_heads(cells, 3, heads);
        return;
    }
    const struct lm_gguf_kv *kv = &g->kv[row - 1];
    lm_buf_escape(&cells[0], kv->key.p, kv->key.len);
    lm_gguf_kind_text(&cells[1], kv);
    lm_gguf_value_text(&cells[2], kv, opt.full ? 0 : SHORT_VALUE);
}

/* A type without a name is its number. */
static void put_type(struct lm_buf *out, const struct lm_gguf_tensor *t)
{
    if (t->type)
        lm_buf_str(out, t->type->name);
    else
        lm_buf_printf(out, "%" PRIu32, t->type_id);
}

static void put_shape(struct lm_buf *out, const struct lm_gguf_tensor *t)
{
    for (uint32_t k = 0; k < t->n_dims; k++)
        lm_buf_printf(out, "%s%" PRIu64, k ? "x" : "", t->ne[k]);
}

static void fill_tensor(const struct lm_gguf *g, uint64_t row, struct lm_buf *cells)
{
    static const char *const heads[] = { "TENSOR", "TYPE", "SHAPE", "OFFSET", "BYTES" };
    if (row == 0) {
        fill_heads(cells, 5, heads);
        return;
    }
    const struct lm_gguf_tensor *t = &g->tensors[row - 1];
    lm_buf_escape(&cells[0], t->name.p, t->name.len);
    put_type(&cells[1], t);
    put_shape(&cells[2], t);
    lm_buf_printf(&cells[3], "%" PRIu64, t->offset);
    lm_buf_printf(&cells[4], "%" PRIu64, t->bytes);
}

/* Once over the rows for the widths of the columns, once to print them. */
static void show_table(const struct lm_gguf *g, const struct table *t, struct lm_buf *out)
{
    struct lm_buf cells[MAX_COLS] = { { 0 } };
    int widths[MAX_COLS] = { 0 };
    for (int pass = 0; pass < 2; pass++)
        for (uint64_t r = 0; r <= t->n_rows; r++) {
            for (int i = 0; i < t->n_cols; i++)
                lm_buf_clear(&cells[i]);
            t->fill(g, r, cells);
            for (int i = 0; i < t->n_cols; i++) {
                int w = columns(&cells[i]);
                if (pass == 0 && w > widths[i] && w <= MAX_WIDTH)
                    widths[i] = w;
                if (pass == 0)
                    continue;
                lm_buf_add(out, cells[i].data, cells[i].len);
                out->failed |= cells[i].failed;
                if (i + 1 < t->n_cols)
                    lm_buf_printf(out, "%*s", 2 + (w < widths[i] ? widths[i] - w : 0), "");
                else
                    lm_buf_byte(out, '\n');
            }
            print(out, false);
        }
    for (int i = 0; i < MAX_COLS; i++)
        lm_buf_release(&cells[i]);
}

static void show_head(const struct lm_gguf *g, const char *name, struct lm_buf *out)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < g->n_tensors; i++)
        bytes += g->tensors[i].bytes;
    lm_buf_str(out, "file         ");
    lm_buf_escape(out, name, strlen(name));
    lm_buf_printf(out, "\nversion      %" PRIu32 ", %s-endian\n", g->version,
                  g->big_endian ? "big" : "little");
    lm_buf_printf(out, "metadata     %" PRIu64 " entries\n", g->n_kv);
    lm_buf_printf(out, "tensors      %" PRIu64 ", %" PRIu64 " bytes\n", g->n_tensors, bytes);
    lm_buf_printf(out, "alignment    %" PRIu64 "\n", g->alignment);
    lm_buf_printf(out, "data offset  %" PRIu64 "\n", g->data_offset);
}

static void show_text(const struct lm_gguf *g, const char *name, struct lm_buf *out)
{
    const struct table entries = { 3, g->n_kv, fill_entry }, tensors = { 5, g->n_tensors,
                                                                        fill_tensor };
    bool all = !opt.kv && !opt.tensors;
    if (n_listed)
        lm_buf_byte(out, '\n');
    if (all) {
        show_head(g, name, out);
        lm_buf_byte(out, '\n');
    }
    if (all || opt.kv)
        show_table(g, &entries, out);
    if (all || (opt.kv && opt.tensors))
        lm_buf_byte(out, '\n');
    if (all || opt.tensors)
        show_table(g, &tensors, out);
}

/* ---- JSON ---------------------------------------------------------------- */

static void show_json(const struct lm_gguf *g, const char *name, struct lm_buf *out)
{
    bool all = !opt.kv && !opt.tensors;
    lm_buf_str(out, "{\"file\":");
    lm_gguf_str_json(out, &(struct lm_str){ name, strlen(name) });
    lm_buf_printf(out, ",\"version\":%" PRIu32 ",\"byte_order\":\"%s\",\"alignment\":%" PRIu64
                  ",\"data_offset\":%" PRIu64, g->version, g->big_endian ? "big" : "little",
                  g->alignment, g->data_offset);
    if (all || opt.kv) {
        lm_buf_str(out, ",\"metadata\":[");
        for (uint64_t i = 0; i < g->n_kv; i++) {
            lm_buf_str(out, i ? "," : "");
            lm_gguf_entry_json(out, &g->kv[i]);
            print(out, false);
        }
        lm_buf_byte(out, ']');
    }
    if (all || opt.tensors) {
        lm_buf_str(out, ",\"tensors\":[");
        for (uint64_t i = 0; i < g->n_tensors; i++) {
            lm_buf_str(out, i ? "," : "");
            lm_gguf_tensor_json(out, &g->tensors[i]);
            print(out, false);
        }
        lm_buf_byte(out, ']');
    }
    lm_buf_str(out, "}\n");
}

/* ---- one value ----------------------------------------------------------- */

/* A terminal gets text without control characters other than newline and tab. */
static void print_raw(const struct lm_buf *value, struct lm_buf *out)
{
    if (opt.null || !isatty(STDOUT_FILENO)) {
        lm_buf_add(out, value->data, value->len);
        return;
    }
    for (size_t i = 0, n; i < value->len; i += n) {
        n = strcspn(value->data + i, "\n\t\\");
        lm_buf_escape(out, value->data + i, n);
        if (i + n < value->len && value->data[i + n])
            lm_buf_byte(out, value->data[i + n++]);
    }
}

static void get_array(const struct lm_gguf_arr *a, struct lm_buf *out)
{
    for (uint64_t i = 0; i < a->n; i++) {
        if (opt.null && a->kind != LM_GGUF_ARR)
            lm_gguf_element_raw(out, a, i);
        else
            lm_gguf_element_json(out, a, i);
        lm_buf_byte(out, opt.null ? '\0' : '\n');
        print(out, false);
    }
}

static int get(const struct lm_gguf *g, const char *name, struct lm_buf *out)
{
    const struct lm_gguf_kv *kv = lm_gguf_kv(g, opt.get);
    if (!kv) {
        cli_warn("%s: no key %s", name, opt.get);
        return CLI_NO;
    }
    if (kv->kind == LM_GGUF_ARR) {
        get_array(&kv->arr, out);
        return CLI_OK;
    }
    struct lm_buf value = { 0 };
    lm_gguf_value_raw(&value, kv);
    print_raw(&value, out);
    out->failed |= value.failed;
    lm_buf_release(&value);
    if (opt.null || !opt.no_newline)
        lm_buf_byte(out, opt.null ? '\0' : '\n');
    return CLI_OK;
}

/* ---- safetensors --------------------------------------------------------- */

static const struct lm_st_tensor *st_rows;      /* of the table */

static void fill_st(const struct lm_gguf *g, uint64_t row, struct lm_buf *cells)
{
    static const char *const heads[] = { "TENSOR", "TYPE", "SHAPE", "OFFSET", "BYTES" };
    (void)g;
    if (row == 0) {
        fill_heads(cells, 5, heads);
        return;
    }
    const struct lm_st_tensor *t = &st_rows[row - 1];
    lm_buf_escape(&cells[0], t->name, strlen(t->name));
    lm_buf_str(&cells[1], t->dtype->name);
    for (uint32_t k = 0; k < t->n_dims; k++)
        lm_buf_printf(&cells[2], "%s%" PRIu64, k ? "x" : "", t->shape[k]);
    lm_buf_printf(&cells[3], "%" PRIu64, t->begin);
    lm_buf_printf(&cells[4], "%" PRIu64, t->bytes);
}

/* Does a safetensors file begin here: the length of a header, and that it is an object? */
static bool is_safetensors(struct lm_in *in)
{
    uint8_t p[9];
    size_t n;
    struct lm_err err;
    return lm_in_peek(in, p, sizeof p, &n, &err) == LM_OK && n == sizeof p && p[8] == '{' &&
           !p[5] && !p[6] && !p[7];
}

static int show_safetensors(struct lm_in *in)
{
    struct lm_buf out = { 0 };
    struct lm_arena arena = { 0 };
    struct lm_safetensors st;
    struct lm_err err;
    int r = lm_safetensors_read(&st, &arena, in, &err);
    if (r == LM_OK) {
        lm_buf_str(&out, n_listed ? "\nfile         " : "file         ");
        lm_buf_escape(&out, lm_in_name(in), strlen(lm_in_name(in)));
        lm_buf_printf(&out, "\nformat       safetensors\ntensors      %zu\ndata offset  %" PRIu64
                      "\n\n", st.n_tensors, st.data_offset);
        st_rows = st.tensors;
        show_table(NULL, &(struct table){ 5, st.n_tensors, fill_st }, &out);
        n_listed++;
    }
    print(&out, true);
    lm_buf_release(&out);
    int status = r == LM_OK ? CLI_OK : cli_report(lm_in_name(in), &err);
    lm_arena_release(&arena);
    return status;
}

/* ---- models -------------------------------------------------------------- */

struct shard {
    struct lm_in   *in;
    struct lm_gguf *g;
};

/* A file, or the files of a split model in order. */
struct model {
    struct shard *shards;
    size_t        n;
};

static struct lm_env env;

static void close_model(struct model *m)
{
    for (size_t i = 0; i < m->n; i++) {
        lm_gguf_free(m->shards[i].g);
        lm_in_close(m->shards[i].in);
    }
    free(m->shards);
    *m = (struct model){ 0 };
}

static const char *operand_name(const char *path)
{
    return strcmp(path, "-") ? path : "<stdin>";
}

/* Open and read one file.  A status; that of data that is no GGUF leaves in open.  Without
 * s->in there is nothing more to do: it could not be opened, or has been shown. */
static int open_shard(const char *path, struct shard *s, struct lm_err *err)
{
    *s = (struct shard){ 0 };
    s->in = lm_in_open(path, opt.long_window ? LM_IN_LONG : 0, err);
    if (!s->in)
        return cli_report(operand_name(path), err);
    if (opt.mode == LIST && !opt.json && !opt.kv && is_safetensors(s->in)) {
        int status = show_safetensors(s->in);
        lm_in_close(s->in);
        s->in = NULL;
        return status;
    }
    s->g = lm_gguf_read(s->in, false, err);
    return s->g ? CLI_OK : cli_report(lm_in_name(s->in), err);
}

/* How many shards a file says there are, if it is the first of them; else 1. */
static uint32_t count_shards(const struct lm_gguf *g)
{
    uint32_t no = 0, n = 1;
    if (opt.no_follow || lm_gguf_u32(g, "split.no", &no, NULL) < 0 || no != 0 ||
        lm_gguf_u32(g, "split.count", &n, NULL) != LM_OK || n == 0)
        return 1;
    return n;
}

/* Paths of shards that a first one has brought: as operands they are passed over. */
static struct { char **path; size_t n, cap; } brought;

static bool was_brought(const char *path)
{
    for (size_t i = 0; i < brought.n; i++)
        if (!strcmp(brought.path[i], path))
            return true;
    return false;
}

/* Open a file with all its shards: what could be opened is in *m, the worst status comes
 * back.  What is no GGUF goes to `broken`, which may be NULL. */
static int open_model(const char *path, struct model *m,
                      void (*broken)(struct lm_in *in, const struct lm_err *err))
{
    size_t cap = 0;
    int status = CLI_OK;
    char *next = NULL;
    uint32_t n = 1;
    *m = (struct model){ 0 };
    for (uint32_t k = 0; k < n; k++) {
        struct lm_err err;
        struct shard s;
        if (k && !(next = lm_gguf_shard_path(path, k, n)))
            break;
        if (k && !lm_grow(&brought.path, &brought.cap, brought.n + 1, sizeof next))
            cli_die(CLI_TROUBLE, "out of memory");
        if (k)
            brought.path[brought.n++] = next;
        int r = open_shard(k ? next : path, &s, &err);
        if (!s.in) {
            status = r > status ? r : status;
            continue;
        }
        if (r == CLI_OK && !lm_grow(&m->shards, &cap, m->n + 1, sizeof *m->shards))
            cli_die(CLI_TROUBLE, "out of memory");
        if (r == CLI_OK)
            m->shards[m->n++] = s;
        else if (broken)
            broken(s.in, &err);
        if (r != CLI_OK)
            lm_in_close(s.in);
        status = r > status ? r : status;
        if (k == 0 && r == CLI_OK)
            n = count_shards(s.g);
    }
    return status;
}

static int with_model(const char *path, int (*use)(struct model *m),
                      void (*broken)(struct lm_in *in, const struct lm_err *err))
{
    struct model m;
    int status = open_model(path, &m, broken);
    int r = m.n ? use(&m) : CLI_OK;
    close_model(&m);
    return r > status ? r : status;
}

/* Its files as the library takes them; the caller frees the list. */
static const struct lm_gguf **model_files(const struct model *m)
{
    const struct lm_gguf **all = lm_malloc_array(m->n, sizeof *all);
    if (!all)
        cli_die(CLI_TROUBLE, "out of memory");
    for (size_t i = 0; i < m->n; i++)
        all[i] = m->shards[i].g;
    return all;
}

/* What a listing should not pass over in silence: data that a reader of it would
 * stumble on.  A type this version does not know is no fault. */
static int unsound(const struct lm_gguf *g, const char *name)
{
    struct lm_err err;
    return lm_gguf_strict(g, &err) == LM_EDATA ? cli_report(name, &err) : CLI_OK;
}

/* ---- checking ------------------------------------------------------------ */

struct faults {
    const struct model *m;
    struct lm_buf       out;
    uint64_t            n;
    char                first[256];
};

static void print_fault(struct lm_buf *out, const char *name, uint64_t offset, const char *what)
{
    lm_buf_escape(out, name, strlen(name));
    lm_buf_printf(out, ": %" PRIu64 ": ", offset);
    lm_buf_escape(out, what, strlen(what));
    lm_buf_byte(out, '\n');
    print(out, false);
}

static void model_fault(void *arg, size_t shard, uint64_t offset, const char *what)
{
    struct faults *f = arg;
    if (!f->n++)
        snprintf(f->first, sizeof f->first, "%s", what);
    print_fault(&f->out, lm_in_name(f->m->shards[shard].in), offset, what);
}

struct shard_faults {
    struct faults *f;
    size_t         shard;
};

static void shard_fault(void *arg, uint64_t offset, const char *what)
{
    const struct shard_faults *s = arg;
    model_fault(s->f, s->shard, offset, what);
}

static void broken_fault(struct lm_in *in, const struct lm_err *err)
{
    struct lm_buf out = { 0 };
    if (err->code == LM_EDATA)
        print_fault(&out, lm_in_name(in), lm_in_pos(in), err->text);
    print(&out, true);
    lm_buf_release(&out);
}

/* A pipe's length shows only at its end: read on to where the data should end. */
static int check_end(struct lm_in *in, const struct lm_gguf *g, struct lm_err *err)
{
    uint64_t end = g->data_offset;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct lm_gguf_tensor *t = &g->tensors[i];
        uint64_t to = g->data_offset + t->offset + t->bytes;
        if (t->bytes && t->offset <= UINT64_MAX / 4 && t->bytes <= UINT64_MAX / 4 && to > end)
            end = to;
    }
    if (g->file_size != LM_SIZE_UNKNOWN || end <= lm_in_pos(in))
        return LM_OK;
    return lm_in_skip(in, end - lm_in_pos(in), err);
}

/* The data of one file, or only where it ends. */
static int check_shard(struct faults *f, size_t i)
{
    struct shard *s = &f->m->shards[i];
    struct shard_faults where = { f, i };
    struct lm_check_to to = { f, model_fault, &env };
    struct lm_err err;
    uint64_t n;
    lm_gguf_check(s->g, shard_fault, &where);
    int r = opt.check_data ? lm_check_data(s->in, s->g, i, &to, &n, &err) : LM_OK;
    if (r == LM_OK)
        r = check_end(s->in, s->g, &err);
    if (r == LM_EDATA)
        model_fault(f, i, lm_in_pos(s->in), err.text);
    return r == LM_OK || r == LM_EDATA ? CLI_OK : cli_report(lm_in_name(s->in), &err);
}

static int check(struct model *m)
{
    struct faults f = { .m = m };
    struct lm_check_to to = { &f, model_fault, &env };
    const struct lm_gguf **all = model_files(m);
    int status = CLI_OK;
    for (size_t i = 0; i < m->n; i++) {
        int s = check_shard(&f, i);
        status = s > status ? s : status;
    }
    lm_check_model(all, m->n, &to);
    free(all);
    print(&f.out, true);
    lm_buf_release(&f.out);
    if (!f.n)
        return status;
    cli_warn(f.n > 1 ? "%s: %" PRIu64 " faults, the first: %s" : "%s: %" PRIu64 " fault: %s",
             lm_in_name(m->shards[0].in), f.n, f.first);
    return status > CLI_NO ? status : CLI_NO;
}

/* ---- the vocabulary ------------------------------------------------------ */

static int vocab(struct model *m)
{
    const struct lm_gguf *g = m->shards[0].g;
    struct lm_buf out = { 0 };
    struct lm_gguf_arr tokens;
    struct lm_err err;
    int r = lm_gguf_arr(g, "tokenizer.ggml.tokens", LM_GGUF_STR, &tokens, &err);
    if (r == 1)
        lm_fail(&err, LM_EDATA, "there is no vocabulary");
    if (r)
        return cli_report(lm_in_name(m->shards[0].in), &err);
    for (uint64_t i = 0; i < tokens.n; i++) {
        lm_vocab_line(&out, g, &tokens, i);
        print(&out, false);
    }
    print(&out, true);
    lm_buf_release(&out);
    return CLI_OK;
}

/* ---- numbers ------------------------------------------------------------- */

/* Shortest text that reads back to the same float. */
static void put_float(struct lm_buf *out, float f)
{
    if (isnan(f))
        lm_buf_str(out, "nan");
    else if (isinf(f))
        lm_buf_str(out, f < 0 ? "-inf" : "inf");
    else
        lm_json_f32(out, f);
}

static const struct lm_stats *stats_rows;       /* of the table's tensors */

static void fill_stats(const struct lm_gguf *g, uint64_t row, struct lm_buf *cells)
{
    static const char *const heads[] = { "TENSOR", "TYPE", "MIN", "MAX", "MEAN", "DEVIATION",
                                         "ZEROS", "NOT-FINITE" };
    if (row == 0) {
        fill_heads(cells, 8, heads);
        return;
    }
    const struct lm_gguf_tensor *t = &g->tensors[row - 1];
    const struct lm_stats *s = &stats_rows[row - 1];
    lm_buf_escape(&cells[0], t->name.p, t->name.len);
    put_type(&cells[1], t);
    if (!s->n && !s->n_bad) {
        for (int i = 2; i < 8; i++)
            lm_buf_byte(&cells[i], '-');
        return;
    }
    const double shown[] = { s->min, s->max, s->mean, lm_stats_deviation(s) };
    for (int i = 0; i < 4; i++)
        put_float(&cells[2 + i], s->n ? (float)shown[i] : NAN);
    lm_buf_printf(&cells[6], "%" PRIu64, s->n_zero);
    lm_buf_printf(&cells[7], "%" PRIu64, s->n_bad);
}

static int stats(struct model *m)
{
    struct lm_buf out = { 0 };
    int status = CLI_OK;
    for (size_t i = 0; i < m->n; i++) {
        const struct lm_gguf *g = m->shards[i].g;
        const struct table t = { 8, g->n_tensors, fill_stats };
        struct lm_stats *rows = calloc((size_t)g->n_tensors + 1, sizeof *rows);
        struct lm_err err;
        int r = rows ? lm_stats_run(m->shards[i].in, g, rows, &env, &err) : lm_fail_nomem(&err);
        stats_rows = rows;
        if (r == LM_OK)
            show_table(g, &t, &out);
        print(&out, true);
        free(rows);
        r = r == LM_OK ? unsound(g, lm_in_name(m->shards[i].in))
                       : cli_report(lm_in_name(m->shards[i].in), &err);
        status = r > status ? r : status;
    }
    lm_buf_release(&out);
    return status;
}

struct printing {
    struct lm_buf out;
    uint64_t      width, column;
};

/* A row a line. */
static int put_values(void *arg, const float *f, const int64_t *whole, size_t n)
{
    struct printing *p = arg;
    for (size_t i = 0; i < n; i++) {
        if (f)
            put_float(&p->out, f[i]);
        else
            lm_buf_printf(&p->out, "%" PRId64, whole[i]);
        bool last = ++p->column == p->width;
        lm_buf_byte(&p->out, last ? '\n' : ' ');
        p->column = last ? 0 : p->column;
    }
    print(&p->out, false);
    return LM_OK;
}

static int print_tensor(struct model *m)
{
    for (size_t i = 0; i < m->n; i++) {
        const struct lm_gguf *g = m->shards[i].g;
        const struct lm_gguf_tensor *t = lm_gguf_tensor(g, opt.tensor);
        struct lm_err err;
        if (!t)
            continue;
        struct printing p = { .width = t->ne[0] };
        int r = lm_stats_values(m->shards[i].in, g, t, put_values, &p, &env, &err);
        print(&p.out, true);
        lm_buf_release(&p.out);
        return r == LM_OK ? CLI_OK : cli_report(lm_in_name(m->shards[i].in), &err);
    }
    cli_warn("%s: no tensor %s", lm_in_name(m->shards[0].in), opt.tensor);
    return CLI_NO;
}

/* ---- digests ------------------------------------------------------------- */

static int list_digests(struct model *m, enum lm_digest_kind kind, struct lm_buf *list)
{
    struct lm_err err;
    int r = LM_OK;
    size_t i;
    for (i = 0; i < m->n && r == LM_OK; i++)
        r = lm_digest_list_add(list, m->shards[i].in, m->shards[i].g, kind, &env, &err);
    if (r != LM_OK)
        return cli_report(lm_in_name(m->shards[i - 1].in), &err);
    lm_digest_list_end(list, kind);
    return CLI_OK;
}

static int hash(struct model *m)
{
    struct lm_buf list = { 0 };
    int status = list_digests(m, opt.digest, &list);
    if (status == CLI_OK)
        print(&list, true);
    lm_buf_release(&list);
    return status;
}

/* As sha256sum prints it. */
static int hash_file(const char *path)
{
    char hex[LM_DIGEST_HEX];
    struct lm_err err;
    struct lm_in *in = lm_in_open(path, LM_IN_RAW, &err);
    if (!in)
        return cli_report(operand_name(path), &err);
    int status = CLI_OK;
    if (lm_digest_rest(in, LM_DIGEST_SHA256, hex, &env, &err) == LM_OK)
        printf("%s  %s\n", hex, path);
    else
        status = cli_report(lm_in_name(in), &err);
    lm_in_close(in);
    return status;
}

static void put_difference(void *arg, const char *name, const char *how)
{
    (void)arg;
    printf("%s: %s\n", name, how);
}

static int verify(struct model *m)
{
    struct lm_buf list = { 0 };
    struct lm_err err;
    enum lm_digest_kind kind;
    char *text;
    size_t len;
    if (lm_read_file(opt.verify, 1u << 28, &text, &len, &err) != LM_OK)
        return cli_report(opt.verify, &err);
    int r = lm_digest_list_kind(text, len, &kind, &err);
    int status = r == LM_OK ? list_digests(m, kind, &list) : cli_report(opt.verify, &err);
    if (status == CLI_OK && list.failed)
        cli_die(CLI_TROUBLE, "out of memory");
    if (status == CLI_OK) {
        r = lm_digest_list_compare(text, list.data, put_difference, NULL, &err);
        if (r < 0)
            status = cli_report(opt.verify, &err);
        else if (r) {
            cli_warn("%s: not what %s says", lm_in_name(m->shards[0].in), opt.verify);
            status = CLI_NO;
        }
    }
    free(text);
    lm_buf_release(&list);
    return status;
}

/* ---- memory -------------------------------------------------------------- */

static int memory(struct model *m)
{
    const struct lm_gguf **all = model_files(m);
    struct lm_footprint f;
    struct lm_err err;
    int r = lm_footprint_of(all, m->n, opt.context, &f, &err);
    if (r == LM_OK) {
        printf("weights          %" PRIu64 " bytes\n", f.weights);
        printf("context          %" PRIu64 " positions\n", f.n_ctx);
        printf("keys and values  %" PRIu64 " bytes (f16; %" PRIu32 " layers, %" PRIu64
               " bytes a position in each)\n", f.kv, f.n_layers, f.kv_position);
        if (f.n_window_layers)
            printf("in windows       %" PRIu64 " bytes (%" PRIu32 " layers see %" PRIu32
                   " positions)\n", f.kv_window, f.n_window_layers, f.window);
        printf("together         %" PRIu64 " bytes\n", f.weights + f.kv);
    }
    free(all);
    return r == LM_OK ? CLI_OK : cli_report(lm_in_name(m->shards[0].in), &err);
}

/* ---- differences --------------------------------------------------------- */

static bool is_split_key(const struct lm_str *key)
{
    return key->len > 6 && !memcmp(key->p, "split.", 6);
}

static void diff_line(struct lm_buf *out, char side, const char *what, const struct lm_str *name)
{
    lm_buf_printf(out, "%c %s ", side, what);
    lm_buf_escape(out, name->p, name->len);
    lm_buf_byte(out, ' ');
}

static void diff_entry(struct lm_buf *out, char side, const struct lm_gguf_kv *kv)
{
    diff_line(out, side, "key", &kv->key);
    lm_gguf_kind_text(out, kv);
    lm_buf_byte(out, ' ');
    lm_gguf_value_text(out, kv, opt.full ? 0 : SHORT_VALUE);
    lm_buf_byte(out, '\n');
    print(out, false);
}

/* Entries of a that b lacks or has otherwise; `swapped`: only those that b lacks. */
static uint64_t diff_entries(struct lm_buf *out, const struct lm_gguf *a, const struct lm_gguf *b,
                             bool swapped)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < a->n_kv; i++) {
        const struct lm_gguf_kv *x = &a->kv[i], *y = lm_gguf_kv(b, x->key.p);
        if (is_split_key(&x->key) || (y && (swapped || lm_gguf_same_value(x, y))))
            continue;
        diff_entry(out, swapped ? '>' : '<', x);
        if (y)
            diff_entry(out, '>', y);
        n++;
    }
    return n;
}

static void diff_tensor(struct lm_buf *out, char side, const struct lm_gguf_tensor *t)
{
    diff_line(out, side, "tensor", &t->name);
    put_type(out, t);
    lm_buf_byte(out, ' ');
    put_shape(out, t);
    lm_buf_byte(out, '\n');
    print(out, false);
}

/* The numbers of two tensors of one shape: 1 if they differ too much, 0, or an error code. */
static int diff_numbers(struct lm_buf *out, const struct lm_compare_side *a,
                        const struct lm_compare_side *b, struct lm_err *err)
{
    struct lm_difference d;
    int r = lm_compare(a, b, &d, &env, err);
    if (r != LM_OK)
        return r;
    if (!d.n_differ || (opt.tolerant && d.max <= opt.tolerance))
        return 0;
    diff_line(out, '!', "tensor", &a->t->name);
    lm_buf_printf(out, "%" PRIu64 " of %" PRIu64 " numbers differ, by at most ", d.n_differ, d.n);
    put_float(out, (float)d.max);
    lm_buf_str(out, ", RMS ");
    put_float(out, (float)sqrt(d.sum2 / (double)d.n));
    lm_buf_byte(out, '\n');
    print(out, false);
    return 1;
}

static bool find_tensor(const struct model *m, const char *name, struct lm_compare_side *s)
{
    for (size_t i = 0; i < m->n; i++) {
        *s = (struct lm_compare_side){ m->shards[i].in, m->shards[i].g,
                                       lm_gguf_tensor(m->shards[i].g, name) };
        if (s->t)
            return true;
    }
    return false;
}

/* Tensors of a against those of b; `swapped`: only those that b lacks. */
static int diff_tensors(struct lm_buf *out, const struct model *a, const struct model *b,
                        bool swapped, uint64_t *n)
{
    for (size_t i = 0; i < a->n; i++)
        for (uint64_t k = 0; k < a->shards[i].g->n_tensors; k++) {
            const struct lm_gguf_tensor *t = &a->shards[i].g->tensors[k];
            struct lm_compare_side x = { a->shards[i].in, a->shards[i].g, t }, y;
            struct lm_err err;
            bool there = find_tensor(b, t->name.p, &y);
            if (there && swapped)
                continue;
            if (!there || memcmp(t->ne, y.t->ne, sizeof t->ne) ||
                (t->type_id != y.t->type_id && !opt.tolerant)) {
                diff_tensor(out, swapped ? '>' : '<', t);
                if (there)
                    diff_tensor(out, '>', y.t);
                ++*n;
                continue;
            }
            int r = diff_numbers(out, &x, &y, &err);
            if (r < 0)
                return cli_report(lm_in_name(a->shards[i].in), &err);
            *n += (uint64_t)r;
        }
    return CLI_OK;
}

static int diff(const char *path_a, const char *path_b)
{
    struct model a, b = { 0 };
    struct lm_buf out = { 0 };
    uint64_t n = 0;
    int status = open_model(path_a, &a, NULL), s = open_model(path_b, &b, NULL);
    status = s > status ? s : status;
    if (status == CLI_OK) {
        n += diff_entries(&out, a.shards[0].g, b.shards[0].g, false);
        n += diff_entries(&out, b.shards[0].g, a.shards[0].g, true);
        status = diff_tensors(&out, &a, &b, false, &n);
        if (status == CLI_OK)
            status = diff_tensors(&out, &b, &a, true, &n);
    }
    print(&out, true);
    lm_buf_release(&out);
    close_model(&a);
    close_model(&b);
    return status == CLI_OK && n ? CLI_NO : status;
}

/* ---- scanning ------------------------------------------------------------ */

static void put_hit(void *arg, const struct lm_scan_hit *h)
{
    (void)arg;
    printf("%" PRIu64 ": GGUF version %" PRIu32 "%s, %" PRIu64 " tensors, %" PRIu64
           " metadata entries\n", h->offset, h->version, h->big_endian ? ", big-endian" : "",
           h->n_tensors, h->n_kv);
}

static int scan(const char *path)
{
    struct lm_err err;
    uint64_t n;
    struct lm_in *in = lm_in_open(path, opt.long_window ? LM_IN_LONG : 0, &err);
    if (!in)
        return cli_report(operand_name(path), &err);
    int r = lm_scan(in, put_hit, NULL, &n, &env, &err);
    int status = r == LM_OK ? (n ? CLI_OK : CLI_NO) : cli_report(lm_in_name(in), &err);
    if (r == LM_OK && !n)
        cli_warn("%s: no GGUF in it", lm_in_name(in));
    lm_in_close(in);
    return status;
}

/* ---- files --------------------------------------------------------------- */

/* Each file of a model by itself. */
static int show(struct model *m)
{
    struct lm_buf out = { 0 };
    int status = CLI_OK;
    for (size_t i = 0; i < m->n; i++) {
        const struct lm_gguf *g = m->shards[i].g;
        const char *name = lm_in_name(m->shards[i].in);
        if (opt.json)
            show_json(g, name, &out);
        else
            show_text(g, name, &out);
        print(&out, true);
        n_listed++;
        if (unsound(g, name) > status)
            status = CLI_NO;
    }
    lm_buf_release(&out);
    return status;
}

static int get_value(struct model *m)
{
    struct lm_buf out = { 0 };
    int status = get(m->shards[0].g, lm_in_name(m->shards[0].in), &out);
    print(&out, true);
    lm_buf_release(&out);
    return status;
}

static void set_mode(enum mode mode)
{
    if (opt.mode != LIST && opt.mode != mode)
        cli_bad_usage("--%s and --%s do not go together", mode_names[opt.mode],
                      mode_names[mode]);
    opt.mode = mode;
}

static void set_check(const char *what)
{
    set_mode(CHECK);
    if (what && strcmp(what, "data"))
        cli_bad_usage("--check=%s: only data can be asked for", what);
    opt.check_data = opt.check_data || what;
}

static void set_hash(const char *what)
{
    static const char *const names[] = { "xxh64", "sha256", "file", NULL };
    int i = what ? cli_choice("hash", what, names) : 0;
    set_mode(i == 2 ? HASH_FILE : HASH);
    opt.digest = i == 1 ? LM_DIGEST_SHA256 : LM_DIGEST_XXH64;
}

/* The key of a chat template, of the one named if there is a name. */
static void set_template(const char *name)
{
    static struct lm_buf key;
    set_mode(TEMPLATE);
    lm_buf_clear(&key);
    lm_buf_printf(&key, "tokenizer.chat_template%s%s", name ? "." : "", name ? name : "");
    if (key.failed)
        cli_die(CLI_TROUBLE, "out of memory");
    opt.get = key.data;
}

static void check_options(void)
{
    if (opt.mode != LIST && (opt.kv || opt.tensors || (opt.full && opt.mode != DIFF) || opt.json))
        cli_bad_usage("--kv, --tensors, --full and --json belong to listings");
    if (opt.context && opt.mode != MEMORY)
        cli_bad_usage("-c belongs to --memory");
    if (opt.tolerant && opt.mode != DIFF)
        cli_bad_usage("--tolerance belongs to --diff");
    if (opt.full && opt.json)
        cli_bad_usage("--full makes no sense with --json, which shortens nothing");
    if ((opt.null || opt.no_newline) && opt.mode != GET &&
        opt.mode != TEMPLATE)
        cli_bad_usage("-0 and --no-newline belong to --get and --template");
    if (opt.mode == GET || opt.mode == TEMPLATE || opt.mode == VOCAB)
        opt.no_follow = true;
}

static void read_options(int argc, char *argv[])
{
    struct cli_env_options run = { 0 };
    int c;
    while ((c = getopt_long(argc, argv, "0c:hjqt:V", options, NULL)) != -1)
        switch (c) {
        case '0':            opt.null = true; break;
        case 'c':            opt.context = cli_u64("context", optarg, 1, UINT32_MAX); break;
        case 'h':            exit(cli_help(usage, help));
        case 'j':            opt.json = true; break;
        case 'q':            run.quiet = true; break;
        case 't':            run.n_threads = cli_threads(optarg); break;
        case 'V':            exit(cli_version());
        case OPT_CHECK:      set_check(optarg); break;
        case OPT_DIFF:       set_mode(DIFF); break;
        case OPT_FULL:       opt.full = true; break;
        case OPT_GET:        set_mode(GET), opt.get = optarg; break;
        case OPT_HASH:       set_hash(optarg); break;
        case OPT_KV:         opt.kv = true; break;
        case OPT_LONG:       opt.long_window = true; break;
        case OPT_MEMORY:     set_mode(MEMORY); break;
        case OPT_NO_FOLLOW:  opt.no_follow = true; break;
        case OPT_NO_NEWLINE: opt.no_newline = true; break;
        case OPT_PRINT:      set_mode(PRINT), opt.tensor = optarg; break;
        case OPT_PROGRESS:   run.progress = true; break;
        case OPT_SCAN:       set_mode(SCAN); break;
        case OPT_STATS:      set_mode(STATS); break;
        case OPT_TEMPLATE:   set_template(optarg); break;
        case OPT_TENSORS:    opt.tensors = true; break;
        case OPT_TOLERANCE:  opt.tolerant = true;
                             opt.tolerance = cli_f64("tolerance", optarg, 0, HUGE_VAL);
                             break;
        case OPT_VERIFY:     set_mode(VERIFY), opt.verify = optarg; break;
        case OPT_VOCAB:      set_mode(VOCAB); break;
        default:             cli_try_help();
        }
    env = cli_env(run);
    check_options();
}

static int inspect(const char *path)
{
    switch (opt.mode) {
    case LIST:  return with_model(path, show, NULL);
    case CHECK: return with_model(path, check, broken_fault);
    case GET:   return with_model(path, get_value, NULL);
    case HASH:  return with_model(path, hash, NULL);
    case HASH_FILE: return hash_file(path);
    case VOCAB: return with_model(path, vocab, NULL);
    case TEMPLATE: return with_model(path, get_value, NULL);
    case MEMORY: return with_model(path, memory, NULL);
    case SCAN:  return scan(path);
    case DIFF:  break;              /* takes two: main has done it */
    case STATS: return with_model(path, stats, NULL);
    case PRINT: return with_model(path, print_tensor, NULL);
    case VERIFY: return with_model(path, verify, NULL);
    }
    return CLI_TROUBLE;
}

static int inspect_all(char *const *files)
{
    int status = CLI_OK;
    for (; *files; files++) {
        int s = was_brought(*files) ? CLI_OK : inspect(*files);
        if (s > status)
            status = s;
    }
    return status;
}

int main(int argc, char *argv[])
{
    static char *const no_file[] = { "-", NULL };
    int status;

    cli_start(argv);
    read_options(argc, argv);
    if (opt.mode == DIFF && argc - optind != 2)
        cli_bad_usage("--diff takes two files");
    if (opt.mode == DIFF)
        status = diff(argv[optind], argv[optind + 1]);
    else
        status = inspect_all(optind < argc ? argv + optind : no_file);
    for (size_t i = 0; i < brought.n; i++)
        free(brought.path[i]);
    free(brought.path);
    return cli_finish(status);
}
