/* SPDX-License-Identifier: MIT */
/*
 * Texts to ids: tokenize.  A text that is a sequence by itself is encoded as it comes.  Lines and
 * the like are collected, and encoded by several threads when there are many.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/size.h"
#include "cli/cli.h"
#include "cli/tokenize.h"
#include "io/input.h"
#include "job/crew.h"

enum {
    GROUP = 1 << 15,                     /* bytes of text that one thread takes at once     */
    BATCH = 1 << 20,                     /* collected before they are encoded               */
    LONG  = 1 << 20,                     /* a sequence that is encoded as it comes          */
};

/* A sequence's text: in `from` of struct texts, or what its JSON string stands for. */
struct text {
    size_t at, len;
};

struct texts {
    const struct cli_tokenize *o;
    struct cli_id_writer writer;
    struct lm_encoder *encoder;
    struct lm_crew    *crew;             /* NULL: not needed yet                            */
    /* a batch */
    struct text       *text;
    size_t             n, cap;
    struct lm_buf      decoded;          /* JSON strings                                    */
    const char        *from;
    struct group      *groups;
    size_t             n_groups, groups_cap;
    uint64_t           number;           /* of the line that was read last, from 1          */
};

/* Texts of a batch, and what is printed of them. */
struct group {
    size_t begin, end;
    struct cli_id_writer writer;
};

/* ---- batches ---------------------------------------------------------------- */

static struct group *new_group(struct texts *t, size_t begin)
{
    if (!lm_grow(&t->groups, &t->groups_cap, t->n_groups + 1, sizeof *t->groups))
        cli_out_of_memory();
    struct group *g = &t->groups[t->n_groups++];
    *g = (struct group){ .begin = begin, .writer = { .o = t->o, .hold = true } };
    g->writer.n_sequences = t->writer.n_sequences + begin;
    g->writer.around = t->writer.around;         /* borrowed */
    g->writer.n_front = t->writer.n_front;
    return g;
}

static void cut_groups(struct texts *t)
{
    size_t size = GROUP;
    struct group *g = NULL;
    t->n_groups = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (size >= GROUP) {
            g = new_group(t, i);
            size = 0;
        }
        g->end = i + 1;
        size += t->text[i].len + 16;
    }
}

static int encode_group(void *arg, size_t group, struct lm_encoder *e, struct lm_ids *ids,
                        struct lm_err *err)
{
    struct texts *t = arg;
    struct group *g = &t->groups[group];
    int s = LM_OK;
    ids->want_spans = cli_ids_want_spans(t->o);
    for (size_t i = g->begin; i < g->end && s == LM_OK; i++) {
        ids->n = 0;
        s = lm_encoder_text(e, t->from + t->text[i].at, t->text[i].len, t->o->flags, ids, err);
        if (s == LM_OK) {
            cli_ids_add(&g->writer, ids);
            cli_ids_end(&g->writer);
        }
    }
    return s;
}

/* Take over what a group has printed. */
static void take_group(struct texts *t, struct group *g)
{
    struct cli_id_writer *w = &t->writer;
    w->out.failed |= g->writer.out.failed;
    lm_buf_add(&w->out, g->writer.out.data, g->writer.out.len);
    w->n_sequences = g->writer.n_sequences;
    cli_ids_print(w, false);
}

static int run_groups(struct texts *t, size_t *failed, struct lm_err *err)
{
    struct lm_ids ids = { 0 };
    if (t->n_groups > 1 && !t->crew && !(t->crew = lm_crew_new(t->o->vocab, t->o->env, err)))
        return (int)err->code;
    if (t->crew)
        return lm_crew_run(t->crew, encode_group, t, t->n_groups, failed, err);
    *failed = 0;
    int s = t->n_groups ? encode_group(t, 0, t->encoder, &ids, err) : LM_OK;
    lm_ids_release(&ids);
    return s;
}

/* Encode what is collected; from is where texts are that are not JSON. */
static int flush(struct texts *t, const char *from, struct lm_err *err)
{
    size_t failed = 0;
    t->from = t->o->form == 'j' ? t->decoded.data ? t->decoded.data : "" : from;
    if (t->decoded.failed)
        cli_out_of_memory();
    cut_groups(t);
    int s = run_groups(t, &failed, err);
    for (size_t i = 0; i < t->n_groups; i++) {
        struct cli_id_writer *w = &t->groups[i].writer;
        if (s == LM_OK || i <= failed)
            take_group(t, &t->groups[i]);
        lm_buf_release(&w->out);
        lm_buf_release(&w->second);
        lm_ids_release(&w->kept);
    }
    t->n = t->n_groups = 0;
    lm_buf_clear(&t->decoded);
    return s;
}

/* ---- sequences ---------------------------------------------------------------- */

/* Where an error is.  What the JSON reader calls its first line is this one. */
static int at_line(struct lm_err *err, int s, uint64_t number)
{
    static const char first[] = "line 1, ";
    size_t n = sizeof first - 1;
    if (strncmp(err->text, first, n) == 0)
        memmove(err->text, err->text + n, strlen(err->text + n) + 1);
    return lm_err_at(err, s, "line %llu", (unsigned long long)number);
}

static int decode_json(struct texts *t, const char *line, size_t len, struct text *x,
                       struct lm_err *err)
{
    struct lm_json j;
    lm_json_init(&j, line, len, err);
    enum lm_json_kind k = lm_json_next(&j);
    int s = k == LM_JSON_ERROR ? LM_EDATA : LM_OK;
    x->at = t->decoded.len;
    if (k == LM_JSON_STRING) {
        lm_buf_add(&t->decoded, j.str, j.str_len);
        x->len = j.str_len;
        if (lm_json_next(&j) == LM_JSON_ERROR)
            s = LM_EDATA;                        /* something stands behind it */
    } else if (s == LM_OK) {
        s = lm_fail(err, LM_EDATA, "not a JSON string");
    }
    lm_json_release(&j);
    return s == LM_OK ? s : at_line(err, s, t->number);
}

/* One sequence, from[at .. at + len). */
static int add_text(struct texts *t, const char *from, size_t at, size_t len, struct lm_err *err)
{
    struct text x = { at, len };
    struct lm_err fault;
    int s = LM_OK, f;
    t->number++;
    if (t->o->form == 'j' && (s = decode_json(t, from + at, len, &x, &fault)) != LM_OK) {
        if ((f = flush(t, from, err)) == LM_OK)
            *err = fault;
        return f == LM_OK ? s : f;
    }
    if (x.len >= LONG) {
        size_t n = t->decoded.len;
        if ((s = flush(t, from, err)) != LM_OK)
            return s;
        t->decoded.len = t->o->form == 'j' ? n : 0;
        s = cli_ids_encode(&t->writer, t->encoder,
                           (t->o->form == 'j' ? t->decoded.data : from) + x.at, NULL, x.len,
                           t->o->flags, err);
        lm_buf_clear(&t->decoded);
        return s;
    }
    if (!lm_grow(&t->text, &t->cap, t->n + 1, sizeof *t->text))
        cli_out_of_memory();
    t->text[t->n++] = x;
    return LM_OK;
}

/* Encode the whole sequences in text, and the unfinished one if it is the last; they are
 * dropped. */
static int encode_ended(struct texts *t, struct lm_buf *text, bool last, struct lm_err *err)
{
    size_t from = 0;
    int s = LM_OK;
    while (from < text->len && s == LM_OK) {
        const char *p = text->data + from;
        size_t left = text->len - from;
        const char *q = memchr(p, t->o->form == '0' ? 0 : '\n', left);
        if (!q && !last)
            break;
        size_t len = q ? (size_t)(q - p) : left;
        s = add_text(t, text->data, from, len, err);
        from += len + (q != NULL);
    }
    if (s == LM_OK)
        s = flush(t, text->data, err);
    lm_buf_drop(text, from);
    return s;
}

/* ---- inputs -------------------------------------------------------------------- */

/* More of a sequence that is long already: up to its end, or all that is there.  *on says whether
 * some of it was encoded, and then whether it goes on. */
static int encode_long(struct texts *t, struct lm_buf *text, unsigned *on, bool last,
                       struct lm_err *err)
{
    const char *q = memchr(text->data, t->o->form == '0' ? 0 : '\n', text->len);
    size_t len = q ? (size_t)(q - text->data) : text->len;
    unsigned more = q || last ? 0 : LM_ENCODE_MORE;
    int s = cli_ids_encode(&t->writer, t->encoder, text->data, NULL, len,
                           t->o->flags | *on | more, err);
    *on = more ? LM_ENCODE_ON : 0;
    t->number += !more;
    lm_buf_drop(text, len + (q != NULL));
    return s;
}

/* A file whose sequences end somewhere.  A JSON string has to be there to its end. */
static int encode_lines(struct texts *t, struct lm_in *in, struct lm_err *err)
{
    const char end = t->o->form == '0' ? 0 : '\n';
    const bool wait = cli_interactive(lm_in_fd(in)), in_parts = t->o->form != 'j';
    struct lm_buf text = { 0 };
    size_t ended = 0, got = 1;                   /* the end of a sequence, or 0: none is there */
    unsigned on = 0;                             /* in a long one */
    int s = LM_OK;
    t->number = 0;
    while (s == LM_OK) {
        char *to = lm_buf_room(&text, 1 << 16);
        if (!to)
            cli_out_of_memory();
        s = lm_in_read_some(in, to, 1 << 16, &got, err);
        if (s != LM_OK || !got)
            break;
        if (memchr(to, end, got))
            ended = 1;
        text.len += got;
        if (on || (in_parts && !ended && text.len >= LONG))
            s = encode_long(t, &text, &on, false, err);
        if (s == LM_OK && !on && ended && (wait || text.len >= BATCH)) {
            s = encode_ended(t, &text, false, err);
            ended = 0;
        }
        cli_ids_print(&t->writer, wait);
    }
    if (s == LM_OK && on)
        s = encode_long(t, &text, &on, true, err);
    if (s == LM_OK)
        s = encode_ended(t, &text, true, err);
    lm_buf_release(&text);
    return s;
}

/* A file that is one sequence. */
static int encode_whole(struct texts *t, struct lm_in *in, struct lm_err *err)
{
    static char part[1 << 16];
    const bool wait = cli_interactive(lm_in_fd(in));
    unsigned flags = t->o->flags;
    size_t got = 1;
    for (;;) {
        int s = lm_in_read_some(in, part, sizeof part, &got, err);
        if (s != LM_OK || !got)
            return s != LM_OK ? s : cli_ids_encode(&t->writer, t->encoder, "", NULL, 0, flags, err);
        s = cli_ids_encode(&t->writer, t->encoder, part, NULL, got, flags | LM_ENCODE_MORE, err);
        if (s != LM_OK)
            return s;
        flags |= LM_ENCODE_ON;
        cli_ids_print(&t->writer, wait);
    }
}

static int encode_file(struct texts *t, const char *path)
{
    struct lm_err err;
    struct lm_in *in = lm_in_open(path, 0, &err);
    const char *name = in ? lm_in_name(in) : path;
    int s = !in ? LM_EIO : t->o->form ? encode_lines(t, in, &err) : encode_whole(t, in, &err);
    int status = s == LM_OK ? CLI_OK : cli_ids_fail(&t->writer, name, &err);
    lm_in_close(in);
    return status;
}

/* The byte that an escape behind a backslash at p stands for; how many bytes it is, 0: none. */
static size_t read_escape(const char *p, char *byte)
{
    static const char from[] = "abefnrtv\\'\"", to[] = "\a\b\033\f\n\r\t\v\\'\"";
    const char *hit = *p ? strchr(from, *p) : NULL;
    if (hit)
        *byte = to[hit - from];
    if (hit || *p != 'x' || !isxdigit((unsigned char)p[1]) || !isxdigit((unsigned char)p[2]))
        return hit != NULL;
    const char hex[] = { p[1], p[2], 0 };
    *byte = (char)strtoul(hex, NULL, 16);
    return 3;
}

/* Backslash escapes become what they stand for; what is none stays as it is. */
static void unescape(struct lm_buf *b)
{
    size_t n = 0;
    for (size_t i = 0, k; i < b->len; i += 1 + k) {
        char c = b->data[i];
        k = c == '\\' ? read_escape(b->data + i + 1, &c) : 0;
        b->data[n++] = c;
    }
    b->len = n;
}

static int encode_operands(struct texts *t, char *const *text)
{
    struct lm_buf all = { 0 };
    struct lm_err err;
    for (char *const *x = text; *x; x++) {
        if (x > text)
            lm_buf_byte(&all, ' ');
        lm_buf_str(&all, *x);
    }
    if (all.failed)
        cli_out_of_memory();
    if (t->o->escape && all.len)
        unescape(&all);
    int s = t->o->form ? encode_ended(t, &all, true, &err)
                       : cli_ids_encode(&t->writer, t->encoder, all.data ? all.data : "", NULL,
                                        all.len, t->o->flags, &err);
    int status = s == LM_OK ? CLI_OK : cli_ids_fail(&t->writer, "operand", &err);
    lm_buf_release(&all);
    return status;
}

static int encode_all(struct texts *t, char *const *text, const char *const *files,
                      size_t n_files)
{
    int status = CLI_OK;
    if (*text)
        return encode_operands(t, text);
    if (!n_files)
        return encode_file(t, "-");
    for (size_t i = 0; i < n_files && (status == CLI_OK || cli_ids_go_on(t->o)); i++) {
        const int s = encode_file(t, files[i]);
        status = s > status ? s : status;
    }
    return status;
}

int cli_tokenize_text(const struct cli_tokenize *o, char *const *text, const char *const *files,
                      size_t n_files)
{
    struct texts t = { .o = o };
    struct lm_err err;
    if (!(t.encoder = lm_encoder_new(o->vocab, o->env, &err)))
        cli_die_err(o->model_name, &err);
    int status = cli_ids_begin(&t.writer, o, t.encoder);
    if (status == CLI_OK)
        status = encode_all(&t, text, files, n_files);
    cli_ids_print(&t.writer, true);
    cli_ids_release(&t.writer);
    lm_encoder_free(t.encoder);
    lm_crew_free(t.crew);
    lm_buf_release(&t.decoded);
    free(t.text);
    free(t.groups);
    return status;
}
