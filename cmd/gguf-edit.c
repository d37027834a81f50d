/* SPDX-License-Identifier: MIT */
/* gguf-edit - change a GGUF file's metadata. */

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/size.h"
#include "cli/cli.h"
#include "gguf/edit.h"
#include "gguf/gguf_text.h"
#include "gguf/kv_arg.h"

static const char usage[] =
    "usage: gguf-edit [-hiqvV] [-o out] [option ...] in [out]\n";

static const char help[] =
    "\n"
    "Write the GGUF file IN to OUT, default standard output, with its metadata\n"
    "changed as the options say, one after the other, and its data as it is.\n"
    "\n"
    "      --copy=KEY=FILE         take a key from another GGUF; KEY may end in * and\n"
    "                              be many, those that FILE lacks are removed\n"
    "      --delete=KEY            remove a key\n"
    "      --dry-run               only print what would change in the metadata\n"
    "      --force                 write to a terminal\n"
    "  -i, --in-place              write the result to IN\n"
    "      --long                  allow zstd input with windows above 128 MiB\n"
    "  -o, --output=OUT            instead of the operand OUT\n"
    "      --progress              show progress even if not on a terminal\n"
    "      --provenance            add a key that names this program and its options\n"
    "  -q, --quiet                 no warnings, no progress\n"
    "      --rename=OLD=NEW        give a key another name\n"
    "      --set=KEY=TYPE:VALUE    set a key; TYPE is u8 i8 u16 i16 u32 i32 u64 i64\n"
    "                              f32 f64 bool str, or json for an array\n"
    "      --set-file=KEY=FILE     set a key to the text in FILE; if it is an array,\n"
    "                              to the JSON in FILE\n"
    "      --token=NAME=TEXT       set tokenizer.ggml.NAME_token_id to the id of the\n"
    "                              token TEXT\n"
    "  -v, --verbose               say more\n"
    "  -h, --help                  show this help\n"
    "  -V, --version               show the version\n";

enum { OPT_COPY = 256, OPT_DELETE, OPT_DRY_RUN, OPT_FORCE, OPT_LONG, OPT_PROGRESS,
       OPT_PROVENANCE, OPT_RENAME, OPT_SET, OPT_SET_FILE, OPT_TOKEN };

static const struct option options[] = {
    { "copy",       required_argument, NULL, OPT_COPY },
    { "delete",     required_argument, NULL, OPT_DELETE },
    { "dry-run",    no_argument,       NULL, OPT_DRY_RUN },
    { "force",      no_argument,       NULL, OPT_FORCE },
    { "help",       no_argument,       NULL, 'h' },
    { "in-place",   no_argument,       NULL, 'i' },
    { "long",       no_argument,       NULL, OPT_LONG },
    { "output",     required_argument, NULL, 'o' },
    { "progress",   no_argument,       NULL, OPT_PROGRESS },
    { "provenance", no_argument,       NULL, OPT_PROVENANCE },
    { "quiet",      no_argument,       NULL, 'q' },
    { "rename",     required_argument, NULL, OPT_RENAME },
    { "set",        required_argument, NULL, OPT_SET },
    { "set-file",   required_argument, NULL, OPT_SET_FILE },
    { "token",      required_argument, NULL, OPT_TOKEN },
    { "verbose",    no_argument,       NULL, 'v' },
    { "version",    no_argument,       NULL, 'V' },
    { 0 }
};

#define SHORT_VALUE 64               /* bytes of a value that a dry run shows */
#define FILE_MAX (1 << 26)           /* bytes of a file that becomes a value */

/* An edit, and the file that its text, or the metadata to copy, comes from. */
struct request {
    struct lm_edit  edit;
    const char     *file;
    char           *text;
    struct lm_gguf *from;
};

static struct request *requests;
static size_t n_requests, requests_cap;
static struct cli_env_options env_options;
static const char *in_path, *out_path;
static bool dry_run, force, in_place, long_window, provenance;

static struct lm_str str(const char *p)
{
    return (struct lm_str){ p, strlen(p) };
}

static struct request *add(enum lm_edit_what what)
{
    if (!lm_grow(&requests, &requests_cap, n_requests + 1, sizeof *requests))
        cli_die(CLI_TROUBLE, "out of memory");
    requests[n_requests] = (struct request){ .edit.what = what };
    return &requests[n_requests++];
}

/* KEY=REST: the key and, in *rest, what follows it. */
static struct lm_str key_of(const char *opt, const char *arg, const char *form, const char **rest)
{
    const char *eq = strchr(arg, '=');
    if (!eq || eq == arg || !eq[1])
        cli_bad_usage("--%s: '%s' is not %s", opt, arg, form);
    if (eq - arg > LM_GGUF_MAX_NAME || strlen(eq + 1) > LM_GGUF_MAX_NAME)
        cli_bad_usage("--%s: a key is at most %d bytes long", opt, LM_GGUF_MAX_NAME);
    *rest = eq + 1;
    return (struct lm_str){ arg, (size_t)(eq - arg) };
}

static void add_set(const char *arg)
{
    struct lm_err err;
    struct lm_arena scratch = { 0 };
    struct lm_gguf_kv kv;
    if (lm_kv_arg(arg, &scratch, &kv, &err) != LM_OK)
        cli_bad_usage("--set: %s", err.text);
    lm_arena_release(&scratch);
    add(LM_EDIT_SET)->edit.text = str(arg);
}

static void add_set_file(const char *arg)
{
    struct request *r = add(LM_EDIT_FILE);
    r->edit.key = key_of("set-file", arg, "KEY=FILE", &r->file);
}

static void add_copy(const char *arg)
{
    struct request *r = add(LM_EDIT_COPY);
    r->edit.key = key_of("copy", arg, "KEY=FILE", &r->file);
}

static void add_token(const char *arg)
{
    const char *text;
    struct request *r = add(LM_EDIT_TOKEN);
    r->edit.key = key_of("token", arg, "NAME=TEXT", &text);
    r->edit.text = str(text);
}

static void add_rename(const char *arg)
{
    const char *to;
    struct request *r = add(LM_EDIT_RENAME);
    r->edit.key = key_of("rename", arg, "OLD=NEW", &to);
    r->edit.text = str(to);
}

static void add_delete(const char *arg)
{
    if (!*arg)
        cli_bad_usage("--delete: a key is wanted");
    add(LM_EDIT_DELETE)->edit.key = str(arg);
}

static void add_provenance(char *const argv[])
{
    struct lm_buf b = { 0 };
    char *text = cli_provenance(argv);
    lm_buf_printf(&b, "%s=str:%s", CLI_PROVENANCE_KEY, text);
    free(text);
    if (b.failed)
        cli_die(CLI_TROUBLE, "out of memory");
    struct request *r = add(LM_EDIT_SET);
    r->text = b.data;
    r->edit.text = (struct lm_str){ b.data, b.len };
}

static void read_options(int argc, char *argv[])
{
    int c;
    while ((c = getopt_long(argc, argv, "hio:qvV", options, NULL)) != -1)
        switch (c) {
        case 'h':            exit(cli_help(usage, help));
        case 'i':            in_place = true; break;
        case 'o':            out_path = optarg; break;
        case 'q':            env_options.quiet = true; break;
        case 'v':            env_options.verbose = true; break;
        case 'V':            exit(cli_version());
        case OPT_COPY:       add_copy(optarg); break;
        case OPT_DELETE:     add_delete(optarg); break;
        case OPT_DRY_RUN:    dry_run = true; break;
        case OPT_FORCE:      force = true; break;
        case OPT_LONG:       long_window = true; break;
        case OPT_PROGRESS:   env_options.progress = true; break;
        case OPT_PROVENANCE: provenance = true; break;
        case OPT_RENAME:     add_rename(optarg); break;
        case OPT_SET:        add_set(optarg); break;
        case OPT_SET_FILE:   add_set_file(optarg); break;
        case OPT_TOKEN:      add_token(optarg); break;
        default:             cli_try_help();
        }
    if (provenance)
        add_provenance(argv);
}

static void read_operands(int argc, char *argv[])
{
    const int n = argc - optind, most = out_path || in_place ? 1 : 2;
    if (in_place && out_path)
        cli_bad_usage("-i and -o exclude each other");
    if (n < 1 || n > most)
        cli_bad_usage("operands wanted: IN%s", most > 1 ? " [OUT]" : "");
    in_path = argv[optind];
    if (n == 2)
        out_path = argv[optind + 1];
    if (in_place && !strcmp(in_path, "-"))
        cli_bad_usage("-i needs a file, not standard input");
    if (in_place)
        out_path = in_path;
}

/* The metadata of another file. */
static void load_gguf(struct request *r)
{
    struct lm_err err;
    const char *name = strcmp(r->file, "-") ? r->file : "<stdin>";
    struct lm_in *in = lm_in_open(r->file, long_window ? LM_IN_LONG : 0, &err);
    if (!in)
        cli_die_err(name, &err);
    r->edit.from = r->from = lm_gguf_read(in, false, &err);
    if (!r->from)
        cli_die_err(name, &err);
    lm_in_close(in);
}

/* What the requests read from files; each is freed at the end. */
static void load_files(void)
{
    struct lm_err err;
    for (size_t i = 0; i < n_requests; i++) {
        struct request *r = &requests[i];
        if (!r->file)
            continue;
        if (!strcmp(r->file, "-") && !strcmp(in_path, "-"))
            cli_bad_usage("--%s: standard input is IN already",
                          r->edit.what == LM_EDIT_COPY ? "copy" : "set-file");
        if (!dry_run && (!in_place || strcmp(r->file, "-")))
            cli_refuse_same(r->file, out_path);
        if (r->edit.what == LM_EDIT_COPY) {
            load_gguf(r);
            continue;
        }
        size_t len;
        if (lm_read_file(r->file, FILE_MAX, &r->text, &len, &err) != LM_OK)
            cli_die_err(strcmp(r->file, "-") ? r->file : "<stdin>", &err);
        r->edit.text = (struct lm_str){ r->text, len };
    }
}

static void apply(struct lm_editor *e, const struct lm_in *in, const struct lm_env *env)
{
    struct lm_err err;
    for (size_t i = 0; i < n_requests; i++)
        if (lm_editor_apply(e, &requests[i].edit, env, &err) != LM_OK)
            cli_die_err(lm_in_name(in), &err);
    if (lm_editor_check(e, env, &err) != LM_OK)
        cli_die_err(lm_in_name(in), &err);
}

/* ---- dry run --------------------------------------------------------------- */

static const struct lm_gguf_kv *entry(const struct lm_gguf_kv *kv, uint64_t n,
                                      const struct lm_str *key)
{
    for (uint64_t i = 0; i < n; i++)
        if (kv[i].key.len == key->len && !memcmp(kv[i].key.p, key->p, key->len))
            return &kv[i];
    return NULL;
}

/* Apply the edits and print how the metadata differ, as gguf-inspect --diff does. */
static int show_changes(struct lm_editor *e, const struct lm_in *in, const struct lm_env *env)
{
    const struct lm_gguf *g = lm_editor_gguf(e);
    const uint64_t n = g->n_kv;
    struct lm_buf out = { 0 };
    struct lm_gguf_kv *before = lm_malloc_array((size_t)n, sizeof *before);
    if (!before)
        cli_die(CLI_TROUBLE, "out of memory");
    memcpy(before, g->kv, (size_t)n * sizeof *before);
    apply(e, in, env);
    for (uint64_t i = 0; i < n; i++) {
        const struct lm_gguf_kv *now = entry(g->kv, g->n_kv, &before[i].key);
        if (now && lm_gguf_same_value(&before[i], now))
            continue;
        lm_gguf_entry_line(&out, '<', &before[i], SHORT_VALUE);
        if (now)
            lm_gguf_entry_line(&out, '>', now, SHORT_VALUE);
    }
    for (uint64_t i = 0; i < g->n_kv; i++)
        if (!entry(before, n, &g->kv[i].key))
            lm_gguf_entry_line(&out, '>', &g->kv[i], SHORT_VALUE);
    if (out.failed)
        cli_die(CLI_TROUBLE, "out of memory");
    if (out.len)
        cli_write(out.data, out.len);
    lm_buf_release(&out);
    free(before);
    return CLI_OK;
}

static int write_out(struct lm_editor *e, const struct lm_env *env)
{
    struct lm_err err;
    struct lm_out *out = cli_out_open(out_path, true, force);
    if (lm_editor_write(e, out, env, &err) != LM_OK) {
        cli_out_abort(out);
        return cli_report(NULL, &err);
    }
    return cli_out_commit(out);
}

/* In place a file is written with the compression its name says: that must be what it
 * has. */
static void check_in_place(const struct lm_in *in)
{
    const size_t len = strlen(in_path);
    const bool named = len > 4 && !strcmp(in_path + len - 4, ".zst");
    if (lm_in_seekable(in) == named)
        cli_die(CLI_TROUBLE, "%s: -i %s", in_path, named
                ? "would compress it: it is called .zst, but is not compressed"
                : "needs a regular file, compressed only if it is called .zst");
}

/* The other shards of IN are not read, but lost if OUT is one of them. */
static void refuse_shards(const struct lm_gguf *g)
{
    uint32_t n = 0;
    if (lm_gguf_u32(g, "split.count", &n, NULL) != LM_OK)
        return;
    for (uint32_t k = 1; k < n; k++) {
        char *shard = lm_gguf_shard_path(in_path, k, n);
        if (!shard)
            return;
        cli_refuse_same(shard, out_path);
        free(shard);
    }
}

int main(int argc, char *argv[])
{
    struct lm_err err;
    cli_start(argv);
    read_options(argc, argv);
    read_operands(argc, argv);
    struct lm_env env = cli_env(env_options);
    if (!in_place && !dry_run)
        cli_refuse_same(in_path, out_path);
    struct lm_in *in = lm_in_open(in_path, long_window ? LM_IN_LONG : 0, &err);
    if (!in)
        cli_die_err(strcmp(in_path, "-") ? in_path : "<stdin>", &err);
    if (in_place && !dry_run)
        check_in_place(in);
    load_files();
    struct lm_editor *e = lm_editor_open(in, &err);
    if (!e)
        cli_die_err(lm_in_name(in), &err);
    if (!dry_run)
        refuse_shards(lm_editor_gguf(e));
    int status;
    if (dry_run)
        status = show_changes(e, in, &env);
    else {
        apply(e, in, &env);
        status = write_out(e, &env);
    }
    lm_editor_free(e);
    lm_in_close(in);
    for (size_t i = 0; i < n_requests; i++) {
        free(requests[i].text);
        lm_gguf_free(requests[i].from);
    }
    free(requests);
    return cli_finish(status);
}
