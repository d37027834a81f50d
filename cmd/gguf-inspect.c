/* SPDX-License-Identifier: MIT */
/* gguf-inspect - show what is in a GGUF file, from its first bytes alone. */

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "gguf/gguf_text.h"

static const char usage[] =
    "usage: gguf-inspect [-0hjV] [--check | --get key] [option ...] [file ...]\n";

static const char help[] =
    "\n"
    "Show the header, metadata and tensors of GGUF files, or of standard input.\n"
    "Tensor data is not read.\n"
    "\n"
    "      --check       tell every fault of structure, a line each; none: status 0\n"
    "      --full        do not shorten long values\n"
    "      --get=KEY     print the value of KEY; of an array, an element a line\n"
    "  -j, --json        one JSON object for each file\n"
    "      --kv          metadata only\n"
    "      --long        allow zstd input with windows above 128 MiB\n"
    "      --no-follow   do not go on with the other shards of a split model\n"
    "      --no-newline  with --get: no newline after a single value\n"
    "  -0, --null        with --get: raw values, each ended by a NUL\n"
    "      --tensors     tensors only\n"
    "  -h, --help        show this help\n"
    "  -V, --version     show the version\n";

enum {
    OPT_CHECK = 256, OPT_FULL, OPT_GET, OPT_KV, OPT_LONG, OPT_NO_FOLLOW, OPT_NO_NEWLINE,
    OPT_TENSORS
};

static const struct option options[] = {
    { "check",      no_argument,       NULL, OPT_CHECK },
    { "full",       no_argument,       NULL, OPT_FULL },
    { "get",        required_argument, NULL, OPT_GET },
    { "help",       no_argument,       NULL, 'h' },
    { "json",       no_argument,       NULL, 'j' },
    { "kv",         no_argument,       NULL, OPT_KV },
    { "long",       no_argument,       NULL, OPT_LONG },
    { "no-follow",  no_argument,       NULL, OPT_NO_FOLLOW },
    { "no-newline", no_argument,       NULL, OPT_NO_NEWLINE },
    { "null",       no_argument,       NULL, '0' },
    { "tensors",    no_argument,       NULL, OPT_TENSORS },
    { "version",    no_argument,       NULL, 'V' },
    { 0 }
};

#define SHORT_VALUE 64      /* bytes of a value that a listing shows          */
#define MAX_WIDTH   56      /* columns beyond which a column is not widened   */

static struct {
    bool        check, full, json, kv, tensors, no_follow, no_newline, null, long_window;
    const char *get;
} opt;

static int n_listed;        /* files shown so far */

/* Everything is printed through one buffer, emptied whenever it is large. */
static void print(struct lm_buf *b, bool last)
{
    if (b->failed)
        cli_die(CLI_TROUBLE, "out of memory");
    if (b->len > 1 << 16 || (last && b->len)) {
        fwrite(b->data, 1, b->len, stdout);
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

#define MAX_COLS 5

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

static void fill_tensor(const struct lm_gguf *g, uint64_t row, struct lm_buf *cells)
{
    static const char *const heads[] = { "TENSOR", "TYPE", "SHAPE", "OFFSET", "BYTES" };
    if (row == 0) {
        fill_heads(cells, 5, heads);
        return;
    }
    const struct lm_gguf_tensor *t = &g->tensors[row - 1];
    lm_buf_escape(&cells[0], t->name.p, t->name.len);
    if (t->type)
        lm_buf_str(&cells[1], t->type->name);
    else
        lm_buf_printf(&cells[1], "%" PRIu32, t->type_id);
    for (uint32_t k = 0; k < t->n_dims; k++)
        lm_buf_printf(&cells[2], "%s%" PRIu64, k ? "x" : "", t->ne[k]);
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

static void json_entry(const struct lm_gguf_kv *kv, struct lm_buf *out)
{
    lm_buf_str(out, "{\"key\":");
    lm_gguf_str_json(out, &kv->key);
    lm_buf_printf(out, ",\"type\":\"%s\"", lm_gguf_kind_name(kv->kind));
    if (kv->kind == LM_GGUF_ARR)
        lm_buf_printf(out, ",\"elem\":\"%s\"", lm_gguf_kind_name(kv->arr.kind));
    lm_buf_str(out, ",\"value\":");
    lm_gguf_value_json(out, kv);
    lm_buf_byte(out, '}');
}

/* A type without a name is its number. */
static void json_tensor(const struct lm_gguf_tensor *t, struct lm_buf *out)
{
    lm_buf_str(out, "{\"name\":");
    lm_gguf_str_json(out, &t->name);
    if (t->type)
        lm_buf_printf(out, ",\"type\":\"%s\",\"shape\":[", t->type->name);
    else
        lm_buf_printf(out, ",\"type\":%" PRIu32 ",\"shape\":[", t->type_id);
    for (uint32_t k = 0; k < t->n_dims; k++)
        lm_buf_printf(out, "%s%" PRIu64, k ? "," : "", t->ne[k]);
    lm_buf_printf(out, "],\"offset\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", t->offset, t->bytes);
}

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
            json_entry(&g->kv[i], out);
            print(out, false);
        }
        lm_buf_byte(out, ']');
    }
    if (all || opt.tensors) {
        lm_buf_str(out, ",\"tensors\":[");
        for (uint64_t i = 0; i < g->n_tensors; i++) {
            lm_buf_str(out, i ? "," : "");
            json_tensor(&g->tensors[i], out);
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

/* ---- checking ------------------------------------------------------------ */

struct faults {
    const char    *name;
    struct lm_buf *out;
    uint64_t       n;
    char           first[256];
};

static void fault(void *arg, uint64_t offset, const char *what)
{
    struct faults *f = arg;
    if (!f->n++)
        snprintf(f->first, sizeof f->first, "%s", what);
    lm_buf_escape(f->out, f->name, strlen(f->name));
    lm_buf_printf(f->out, ": %" PRIu64 ": ", offset);
    lm_buf_escape(f->out, what, strlen(what));
    lm_buf_byte(f->out, '\n');
    print(f->out, false);
}

/* A pipe's length shows only at its end: read on to where the data should end. */
static int check_end(struct lm_in *in, const struct lm_gguf *g, struct faults *f)
{
    uint64_t end = g->data_offset;
    struct lm_err err;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct lm_gguf_tensor *t = &g->tensors[i];
        uint64_t to = g->data_offset + t->offset + t->bytes;
        if (t->bytes && t->offset <= UINT64_MAX / 4 && t->bytes <= UINT64_MAX / 4 && to > end)
            end = to;
    }
    if (g->file_size != LM_SIZE_UNKNOWN || end == g->data_offset)
        return CLI_OK;
    int s = lm_in_skip(in, end - lm_in_pos(in), &err);
    if (s == LM_EDATA)
        fault(f, lm_in_pos(in), err.text);
    else if (s != LM_OK)
        return cli_report(f->name, &err);
    return CLI_OK;
}

static int check(struct lm_in *in, const struct lm_gguf *g, const char *name, struct lm_buf *out)
{
    struct faults f = { .name = name, .out = out };
    lm_gguf_check(g, fault, &f);
    int status = check_end(in, g, &f);
    print(out, true);
    if (!f.n)
        return status;
    cli_warn(f.n > 1 ? "%s: %" PRIu64 " faults, the first: %s" : "%s: %" PRIu64 " fault: %s",
             name, f.n, f.first);
    return status ? status : CLI_NO;
}

/* ---- files --------------------------------------------------------------- */

/* What a listing should not pass over in silence: data that a reader of it would
 * stumble on.  A type this version does not know is no fault. */
static int unsound(const struct lm_gguf *g, const char *name)
{
    struct lm_err err;
    return lm_gguf_strict(g, &err) == LM_EDATA ? cli_report(name, &err) : CLI_OK;
}

/* Show one file.  *n_shards: how many it says there are, if it is the first. */
static int show(const char *path, uint32_t *n_shards)
{
    struct lm_buf out = { 0 };
    struct lm_err err;
    uint32_t no = 0, n = 0;
    int status = CLI_OK;
    struct lm_in *in = lm_in_open(path, opt.long_window ? LM_IN_LONG : 0, &err);
    if (!in)
        return cli_report(strcmp(path, "-") ? path : "<stdin>", &err);
    const char *name = lm_in_name(in);
    struct lm_gguf *g = lm_gguf_read(in, false, &err);
    if (!g) {
        if (opt.check && err.code == LM_EDATA) {
            fault(&(struct faults){ .name = name, .out = &out }, lm_in_pos(in), err.text);
            print(&out, true);
        }
        status = cli_report(name, &err);
        lm_buf_release(&out);
        lm_in_close(in);
        return status;
    }
    if (opt.check)
        status = check(in, g, name, &out);
    else if (opt.get)
        status = get(g, name, &out);
    else if (opt.json)
        show_json(g, name, &out);
    else
        show_text(g, name, &out);
    print(&out, true);
    n_listed++;
    if (!opt.check && !opt.get)
        status = unsound(g, name);
    if (lm_gguf_u32(g, "split.no", &no, NULL) >= 0 && no == 0 &&
        lm_gguf_u32(g, "split.count", &n, NULL) == LM_OK)
        *n_shards = n;
    lm_buf_release(&out);
    lm_gguf_free(g);
    lm_in_close(in);
    return status;
}

/* The other shards of a model whose first one was shown, where its name says how they
 * are called.  Those named on the command line come by themselves. */
static int follow(const char *path, uint32_t n_shards, char *const *operands)
{
    int status = CLI_OK;
    char *shard;
    for (uint32_t k = 1; (shard = lm_gguf_shard_path(path, k, n_shards)); k++) {
        uint32_t ignored = 0;
        bool named = false;
        for (char *const *o = operands; *o; o++)
            named |= !strcmp(*o, shard);
        int s = named ? CLI_OK : show(shard, &ignored);
        if (s > status)
            status = s;
        free(shard);
    }
    return status;
}

static void read_options(int argc, char *argv[])
{
    int c;
    while ((c = getopt_long(argc, argv, "0hjV", options, NULL)) != -1)
        switch (c) {
        case '0':            opt.null = true; break;
        case 'h':            exit(cli_help(usage, help));
        case 'j':            opt.json = true; break;
        case 'V':            exit(cli_version());
        case OPT_CHECK:      opt.check = true; break;
        case OPT_FULL:       opt.full = true; break;
        case OPT_GET:        opt.get = optarg; break;
        case OPT_KV:         opt.kv = true; break;
        case OPT_LONG:       opt.long_window = true; break;
        case OPT_NO_FOLLOW:  opt.no_follow = true; break;
        case OPT_NO_NEWLINE: opt.no_newline = true; break;
        case OPT_TENSORS:    opt.tensors = true; break;
        default:             cli_try_help();
        }
    if (opt.check + !!opt.get + opt.json > 1)
        cli_bad_usage("only one of --check, --get and --json makes sense");
    if ((opt.check || opt.get) && (opt.kv || opt.tensors || opt.full))
        cli_bad_usage("--kv, --tensors and --full belong to listings");
    if (opt.full && opt.json)
        cli_bad_usage("--full makes no sense with --json, which shortens nothing");
    if ((opt.null || opt.no_newline) && !opt.get)
        cli_bad_usage("-0 and --no-newline belong to --get");
}

int main(int argc, char *argv[])
{
    static char *const no_file[] = { "-", NULL };
    int status = CLI_OK;

    cli_start(argv);
    read_options(argc, argv);
    char *const *operands = optind < argc ? argv + optind : no_file;
    for (char *const *f = operands; *f; f++) {
        uint32_t n_shards = 0;
        int s = show(*f, &n_shards);
        if (s > status)
            status = s;
        if (n_shards > 1 && !opt.no_follow && !opt.get)
            s = follow(*f, n_shards, operands);
        if (s > status)
            status = s;
    }
    return cli_finish(status);
}
