/* SPDX-License-Identifier: MIT */
/* Token streams as text: tokenize -d. */
#include <unistd.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/tokenize.h"
#include "io/input.h"
#include "stream/tokens.h"

struct text_writer {
    const struct cli_tokenize *o;
    struct lm_detok *detok;
    struct lm_buf    out, piece, quoted;
    bool             open;               /* the sequence has ids                       */
    bool             begun;              /* its opening quote is printed               */
    bool             cut;                /* the last one was: its end is not printed   */
    int              last_byte;          /* printed                                    */
};

/* Print what is in `piece`, in the form asked for. */
static void add_text(struct text_writer *w)
{
    if (w->piece.failed)
        cli_out_of_memory();
    if (w->cut && w->o->form)
        lm_buf_byte(&w->out, w->o->form == '0' ? 0 : '\n');
    w->cut = false;
    if (w->o->form == 'j') {
        lm_buf_clear(&w->quoted);
        lm_json_quote(&w->quoted, w->piece.data ? w->piece.data : "", w->piece.len);
        lm_buf_add(&w->out, w->quoted.data + w->begun, w->quoted.len - 1 - w->begun);
        w->out.failed |= w->quoted.failed;
        w->begun = true;
    } else {
        lm_buf_add(&w->out, w->piece.data, w->piece.len);
    }
    if (w->piece.len)
        w->last_byte = (unsigned char)w->piece.data[w->piece.len - 1];
    lm_buf_clear(&w->piece);
}

/* The end of a sequence; of one that was cut short only the text so far. */
static void end_text(struct text_writer *w, bool whole)
{
    lm_detok_end(w->detok, &w->piece);
    add_text(w);
    if (whole && w->o->form == 'j')
        lm_buf_str(&w->out, "\"\n");
    else if (whole && w->o->form)
        lm_buf_byte(&w->out, w->o->form == '0' ? 0 : '\n');
    w->open = w->begun = false;
    w->cut = !whole;
}

static int decode_stream(struct text_writer *w, struct lm_in *in, struct lm_token_reader *r,
                         struct lm_err *err)
{
    bool wait = cli_interactive(lm_in_fd(in));
    for (;;) {
        int32_t id;
        switch (lm_token_next(r, &id, err)) {
        case LM_TOKEN_ID:
            if (lm_detok_id(w->detok, id, &w->piece, err) != LM_OK)
                return lm_err_at(err, LM_EDATA, "line %llu",
                                 (unsigned long long)lm_token_line(r) + 1);
            w->open = true;
            add_text(w);
            break;
        case LM_TOKEN_LINE:
            end_text(w, true);
            break;
        case LM_TOKEN_END:
            return LM_OK;
        default:
            return (int)err->code;
        }
        cli_print_now(&w->out, wait);
    }
}

static int decode_file(struct text_writer *w, const char *path)
{
    struct lm_err err;
    struct lm_in *in = lm_in_open(path, 0, &err);
    const char *name = in ? lm_in_name(in) : path;
    struct lm_token_reader *r = in ? lm_token_reader_new(in, &err) : NULL;
    int status = CLI_OK;
    if (r)
        lm_token_set_vocab(r, lm_vocab_n(w->o->vocab));
    if (!r || decode_stream(w, in, r, &err) != LM_OK) {
        if (w->open)
            end_text(w, false);
        cli_print_now(&w->out, true);
        status = cli_report(name, &err);
    }
    lm_token_reader_free(r);
    lm_in_close(in);
    return status;
}

int cli_detokenize(const struct cli_tokenize *o, char *const *files)
{
    static char *const from_stdin[] = { "-", NULL };
    struct text_writer w = { .o = o, .last_byte = '\n' };
    struct lm_err err;
    int status = CLI_OK;
    w.detok = lm_detok_new(o->vocab, o->special, &err);
    if (!w.detok)
        cli_die_err(o->model_name, &err);
    for (char *const *f = *files ? files : from_stdin; *f; f++) {
        int s = decode_file(&w, *f);
        status = s > status ? s : status;
    }
    if (!o->form && w.last_byte != '\n' && isatty(STDOUT_FILENO))
        lm_buf_byte(&w.out, '\n');
    cli_print_now(&w.out, true);
    lm_detok_free(w.detok);
    lm_buf_release(&w.out);
    lm_buf_release(&w.piece);
    lm_buf_release(&w.quoted);
    return status;
}
