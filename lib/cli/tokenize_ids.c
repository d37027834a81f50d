/* SPDX-License-Identifier: MIT */
/* Sequences of ids as tokenize prints them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/size.h"
#include "cli/cli.h"
#include "cli/tokenize.h"

struct id_form {
    void (*ids)(struct cli_id_writer *w, const int32_t *id, const struct lm_span *span, size_t n);
    void (*end)(struct cli_id_writer *w);
    bool  spans;
    bool  object;                        /* JSON, on a line                                 */
    bool  stream;                        /* lmpipe-tokens(5), which tells of its own failure */
};

void cli_out_of_memory(void)
{
    cli_die(CLI_TROUBLE, "out of memory");
}

void cli_print_now(struct lm_buf *out, bool now)
{
    cli_print(out, now);
    if (now)
        cli_flush();
}

bool cli_interactive(int fd)
{
    struct stat st;
    return fstat(fd, &st) != 0 || !S_ISREG(st.st_mode);
}

void cli_ids_print(struct cli_id_writer *w, bool now)
{
    if (!w->hold)
        cli_print_now(&w->out, now);
}

/* ---- the forms ------------------------------------------------------------- */

/* One id in decimal; returns how many digits, at most 10. */
static size_t put_number(char *to, uint32_t x)
{
    char digits[10];
    size_t n = 0;
    do
        digits[n++] = (char)('0' + x % 10);
    while (x /= 10);
    for (size_t i = 0; i < n; i++)
        to[i] = digits[n - 1 - i];
    return n;
}

/* Ids, each with `between` before it but the first of a sequence. */
static void put_numbers(struct cli_id_writer *w, const int32_t *id, size_t n, char between)
{
    enum { AT_ONCE = 4096 };
    for (size_t i = 0; i < n;) {
        char *to = lm_buf_room(&w->out, AT_ONCE * 11), *from = to;
        if (!to)
            return;
        for (size_t end = n - i < AT_ONCE ? n : i + AT_ONCE; i < end; i++) {
            *to = between;
            to += w->n_ids + i > 0;
            to += put_number(to, (uint32_t)id[i]);
        }
        w->out.len += (size_t)(to - from);
        cli_ids_print(w, false);
    }
}

static void put_ids(struct cli_id_writer *w, const int32_t *id, const struct lm_span *span,
                    size_t n)
{
    (void)span;
    put_numbers(w, id, n, ' ');
}

static void end_line(struct cli_id_writer *w)
{
    lm_buf_byte(&w->out, '\n');
}

static void put_nothing(struct cli_id_writer *w, const int32_t *id, const struct lm_span *span,
                        size_t n)
{
    (void)w, (void)id, (void)span, (void)n;
}

static void end_count(struct cli_id_writer *w)
{
    lm_buf_u64(&w->out, w->n_ids);
    lm_buf_byte(&w->out, '\n');
}

static void put_pieces(struct cli_id_writer *w, const int32_t *id, const struct lm_span *span,
                       size_t n)
{
    if (w->n_sequences && !w->n_ids && n)
        lm_buf_byte(&w->out, '\n');
    for (size_t i = 0; i < n; i++) {
        struct lm_str s = lm_vocab_piece(w->o->vocab, (uint32_t)id[i]);
        lm_buf_printf(&w->out, "%d\t%zu\t%zu\t", (int)id[i], span[i].at, span[i].len);
        lm_buf_escape(&w->out, s.p, s.len);
        lm_buf_byte(&w->out, '\n');
        cli_ids_print(w, false);
    }
}

static void end_pieces(struct cli_id_writer *w)
{
    if (!w->n_ids && w->n_sequences)
        lm_buf_byte(&w->out, '\n');              /* a sequence of nothing */
}

/* What is much waits in a file. */
static void spool(struct cli_id_writer *w)
{
    enum { MUCH = 1 << 20 };
    struct lm_buf *b = &w->second;
    if (w->hold || b->len < MUCH)
        return;
    if (!w->spool && !(w->spool = tmpfile()))
        cli_die(CLI_TROUBLE, "no temporary file: %s", strerror(errno));
    if (fwrite(b->data, 1, b->len, w->spool) != b->len)
        cli_die(CLI_TROUBLE, "temporary file: %s", strerror(errno));
    lm_buf_clear(b);
}

static void print_spooled(struct cli_id_writer *w)
{
    enum { AT_ONCE = 1 << 16 };
    size_t n = 1;
    if (!w->spool)
        return;
    bool ok = fseeko(w->spool, 0, SEEK_SET) == 0;
    while (ok && n) {
        char *to = lm_buf_room(&w->out, AT_ONCE);
        if (!to)
            cli_out_of_memory();
        n = fread(to, 1, AT_ONCE, w->spool);
        w->out.len += n;
        cli_ids_print(w, false);
    }
    if (!ok || ferror(w->spool))
        cli_die(CLI_TROUBLE, "temporary file: %s", strerror(errno));
    fclose(w->spool);
    w->spool = NULL;
}

/* What stands behind the ids is kept until these are there. */
static void put_first(struct cli_id_writer *w, const int32_t *id, size_t n)
{
    if (!w->n_ids)
        lm_buf_str(&w->out, "{\"ids\":[");
    put_numbers(w, id, n, ',');
}

static void end_object(struct cli_id_writer *w, const char *second)
{
    put_first(w, NULL, 0);
    lm_buf_printf(&w->out, "],\"%s\":[", second);
    print_spooled(w);
    lm_buf_add(&w->out, w->second.data, w->second.len);
    lm_buf_str(&w->out, "]}\n");
    w->out.failed |= w->second.failed;
    lm_buf_clear(&w->second);
}

static void put_offsets(struct cli_id_writer *w, const int32_t *id, const struct lm_span *span,
                        size_t n)
{
    put_first(w, id, n);
    for (size_t i = 0; i < n; i++)
        lm_buf_printf(&w->second, "%s[%zu,%zu]", w->n_ids + i ? "," : "", span[i].at,
                      span[i].at + span[i].len);
    spool(w);
}

static void end_offsets(struct cli_id_writer *w)
{
    end_object(w, "offsets");
}

static void put_mask(struct cli_id_writer *w, const int32_t *id, const struct lm_span *span,
                     size_t n)
{
    put_first(w, id, n);
    for (size_t i = 0; i < n; i++) {
        bool said = span[i].len && memchr(w->said + span[i].at, 1, span[i].len);
        lm_buf_printf(&w->second, "%s%d", w->n_ids + i ? "," : "", said);
    }
    spool(w);
}

static void end_mask(struct cli_id_writer *w)
{
    end_object(w, "assistant_masks");
}

static void put_binary(struct cli_id_writer *w, const int32_t *id, const struct lm_span *span,
                       size_t n)
{
    (void)span;
    unsigned char *to = (unsigned char *)lm_buf_room(&w->out, 4 * n);
    for (size_t i = 0; to && i < n; i++)
        for (int k = 0; k < 4; k++)
            *to++ = (unsigned char)((uint32_t)id[i] >> 8 * k);
    if (to)
        w->out.len += 4 * n;
    cli_ids_print(w, false);
}

static void end_nothing(struct cli_id_writer *w)
{
    (void)w;
}

static const struct id_form forms[] = {
    [CLI_IDS]         = { .ids = put_ids, .end = end_line, .stream = true },
    [CLI_IDS_COUNT]   = { .ids = put_nothing, .end = end_count },
    [CLI_IDS_PIECES]  = { .ids = put_pieces, .end = end_pieces, .spans = true },
    [CLI_IDS_OFFSETS] = { .ids = put_offsets, .end = end_offsets, .spans = true, .object = true },
    [CLI_IDS_MASK]    = { .ids = put_mask, .end = end_mask, .spans = true, .object = true },
    [CLI_IDS_BINARY]  = { .ids = put_binary, .end = end_nothing },
};

bool cli_ids_want_spans(const struct cli_tokenize *o)
{
    return forms[o->ids].spans;
}

/* ---- sequences ------------------------------------------------------------- */

static void put(struct cli_id_writer *w, const struct lm_ids *ids, size_t from, size_t n)
{
    if (n)
        forms[w->o->ids].ids(w, ids->id + from, ids->span ? ids->span + from : NULL, n);
    w->n_ids += n;
}

static void end(struct cli_id_writer *w)
{
    forms[w->o->ids].end(w);
    w->n_sequences++;
    w->n_ids = 0;
    cli_ids_print(w, false);
}

/* What is put around a text stands around each window; its spans are those of the whole. */
static void put_windows(struct cli_id_writer *w)
{
    const size_t n = w->kept.n, front = w->n_front, back = w->around.n - front;
    const size_t room = w->o->window - w->around.n, step = room - w->o->stride;
    for (size_t at = front;; at += step) {
        const size_t left = n - back - at, take = left < room ? left : room;
        put(w, &w->kept, 0, front);
        put(w, &w->kept, at, take);
        put(w, &w->kept, n - back, back);
        end(w);
        if (take == left)
            break;
    }
    w->kept.n = 0;
}

/* Those that are certain not to be the last; where spans are wanted, what stands behind a text
 * needs its length. */
static void put_full_windows(struct cli_id_writer *w)
{
    const size_t front = w->n_front, back = w->around.n - front;
    const size_t room = w->o->window - w->around.n, step = room - w->o->stride;
    struct lm_ids *kept = &w->kept;
    size_t at = front;
    if (cli_ids_want_spans(w->o))
        return;
    for (; kept->n > at + back + room; at += step) {
        put(w, &w->around, 0, front);
        put(w, kept, at, room);
        put(w, &w->around, front, back);
        end(w);
    }
    if (at == front)
        return;
    kept->n -= at - front;
    memmove(kept->id + front, kept->id + at, (kept->n - front) * sizeof *kept->id);
}

static void keep(struct lm_ids *to, const struct lm_ids *ids)
{
    bool spans = ids->want_spans;
    if (!lm_grow(&to->id, &to->cap, to->n + ids->n, sizeof *to->id) ||
        (spans && !lm_grow(&to->span, &to->span_cap, to->n + ids->n, sizeof *to->span)))
        cli_out_of_memory();
    if (ids->n)
        memcpy(to->id + to->n, ids->id, ids->n * sizeof *ids->id);
    if (ids->n && spans)
        memcpy(to->span + to->n, ids->span, ids->n * sizeof *ids->span);
    to->n += ids->n;
}

void cli_ids_add(struct cli_id_writer *w, const struct lm_ids *ids)
{
    if (w->o->window) {
        keep(&w->kept, ids);
        put_full_windows(w);
    } else {
        put(w, ids, 0, ids->n);
    }
    cli_ids_print(w, false);
}

void cli_ids_end(struct cli_id_writer *w)
{
    if (w->o->window)
        put_windows(w);
    else
        end(w);
}

int cli_ids_begin(struct cli_id_writer *w, const struct cli_tokenize *o, struct lm_encoder *e)
{
    struct lm_err err;
    struct lm_ids behind = { 0 };
    *w = (struct cli_id_writer){ .o = o };
    /* a start token that is wanted but not there is the vocabulary's fault, not a text's */
    int s = lm_encoder_text(e, "", 0, o->flags | LM_ENCODE_MORE, &w->around, &err);
    w->n_front = w->around.n;
    if (s == LM_OK)
        s = lm_encoder_text(e, "", 0, o->flags | LM_ENCODE_ON, &behind, &err);
    keep(&w->around, &behind);
    lm_ids_release(&behind);
    if (s != LM_OK)
        return cli_report(o->model_name, &err);
    if (o->window && o->window <= w->around.n + o->stride)
        cli_bad_usage("--window: %zu is less than %zu: %zu for start and end tokens, %zu for "
                      "--stride and 1", o->window, w->around.n + o->stride + 1, w->around.n,
                      o->stride);
    return CLI_OK;
}

void cli_ids_release(struct cli_id_writer *w)
{
    lm_buf_release(&w->out);
    lm_buf_release(&w->second);
    lm_ids_release(&w->kept);
    lm_ids_release(&w->around);
    if (w->spool)
        fclose(w->spool);
}

bool cli_ids_go_on(const struct cli_tokenize *o)
{
    return !forms[o->ids].stream;
}

/* What follows the rest of a sequence begins a new one. */
static void drop_rest(struct cli_id_writer *w)
{
    if (w->n_ids && forms[w->o->ids].object)
        lm_buf_byte(&w->out, '\n');             /* in the middle of it */
    w->n_sequences += w->n_ids > 0;
    w->n_ids = 0;
    w->kept.n = 0;
    lm_buf_clear(&w->second);
    if (w->spool)
        fclose(w->spool);
    w->spool = NULL;
}

/* One that has not begun stays empty. */
int cli_ids_fail(struct cli_id_writer *w, const char *name, const struct lm_err *err)
{
    struct lm_buf *out = &w->out;
    if ((w->n_sequences || w->n_ids) && forms[w->o->ids].stream) {
        if (out->len ? out->data[out->len - 1] != '\n' : w->n_ids > 0)
            lm_buf_byte(out, ' ');               /* in the middle of a sequence */
        lm_buf_printf(out, "! %s: ", cli_name());
        lm_buf_escape(out, name, strlen(name));
        lm_buf_str(out, ": ");
        lm_buf_escape(out, err->text, strlen(err->text));
        lm_buf_byte(out, '\n');
    }
    drop_rest(w);
    cli_ids_print(w, true);
    return cli_report(name, err);
}

static int take(void *arg, struct lm_ids *ids, struct lm_err *err)
{
    (void)err;
    cli_ids_add(arg, ids);
    ids->n = 0;
    return LM_OK;
}

int cli_ids_encode(struct cli_id_writer *w, struct lm_encoder *e, const char *text,
                   const unsigned char *guard, size_t len, unsigned flags, struct lm_err *err)
{
    struct lm_ids ids = { .want_spans = cli_ids_want_spans(w->o) };
    lm_encoder_to(e, take, w);
    int s = lm_encoder_guarded(e, text, guard, len, flags, &ids, err);
    lm_encoder_to(e, NULL, NULL);
    if (s == LM_OK)
        cli_ids_add(w, &ids);
    lm_ids_release(&ids);
    if (s == LM_OK && !(flags & LM_ENCODE_MORE))
        cli_ids_end(w);
    return s;
}
