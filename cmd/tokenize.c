/* SPDX-License-Identifier: MIT */
/* tokenize - text to token ids, and back. */

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/size.h"
#include "cli/cli.h"
#include "io/input.h"
#include "job/chat.h"
#include "stream/tokens.h"
#include "vocab/vocab.h"

static const char usage[] =
    "usage: tokenize [-0djlqvV] -m model [-f file] [option ...] [text ... | file ...]\n";

static const char help[] =
    "\n"
    "Turn text into token ids, a sequence a line; with -d, ids into text.  The text\n"
    "is the operands joined by spaces, or each -f file, or standard input.\n"
    "\n"
    "  -d, --detokenize        ids to text, as they come; operands are files\n"
    "  -f, --file=FILE         the text in FILE ('-': standard input); repeatable\n"
    "  -j, --json              a sequence is a JSON string on a line\n"
    "  -l, --lines             a sequence is a line\n"
    "  -m, --model=FILE        whose vocabulary: a GGUF file, a tokenizer.json,\n"
    "                          vocab.txt, *.tiktoken ..., or a directory with one\n"
    "  -0, --null              a sequence ends with a NUL\n"
    "      --chat              a conversation in JSON, through the chat template;\n"
    "                          operands are files\n"
    "      --continue-final-message  with --chat: leave the last message open\n"
    "      --count             print how many ids there are, not the ids\n"
    "      --kwargs=JSON       with --chat: names for the template, an object\n"
    "      --no-add-special    add no start and end tokens\n"
    "      --no-generation-prompt  with --chat: do not begin an answer\n"
    "      --no-parse-special  text that looks like a control token is text\n"
    "      --now=TIME          with --chat: the template's time, 2025-03-14T15:09:26\n"
    "      --pieces            print id, byte offset, length and piece, a line each\n"
    "      --render            with --chat: print the text, not its ids\n"
    "      --special           with -d: show control tokens\n"
    "      --template=WHICH    with --chat: a template's name in the model, or a file\n"
    "      --vocab             print id, type, score and piece of the vocabulary\n"
    "  -q, --quiet             no warnings\n"
    "  -v, --verbose           say what the vocabulary is\n"
    "  -h, --help              show this help\n"
    "  -V, --version           show the version\n";

enum { OPT_COUNT = 256, OPT_NO_ADD, OPT_NO_PARSE, OPT_PIECES, OPT_SPECIAL, OPT_VOCAB, OPT_CHAT,
       OPT_CONTINUE, OPT_KWARGS, OPT_NO_PROMPT, OPT_NOW, OPT_RENDER, OPT_TEMPLATE };

static const struct option options[] = {
    { "chat",             no_argument,       NULL, OPT_CHAT },
    { "continue-final-message", no_argument, NULL, OPT_CONTINUE },
    { "count",            no_argument,       NULL, OPT_COUNT },
    { "detokenize",       no_argument,       NULL, 'd' },
    { "file",             required_argument, NULL, 'f' },
    { "help",             no_argument,       NULL, 'h' },
    { "json",             no_argument,       NULL, 'j' },
    { "kwargs",           required_argument, NULL, OPT_KWARGS },
    { "lines",            no_argument,       NULL, 'l' },
    { "model",            required_argument, NULL, 'm' },
    { "no-add-special",   no_argument,       NULL, OPT_NO_ADD },
    { "no-generation-prompt", no_argument,   NULL, OPT_NO_PROMPT },
    { "no-parse-special", no_argument,       NULL, OPT_NO_PARSE },
    { "now",              required_argument, NULL, OPT_NOW },
    { "null",             no_argument,       NULL, '0' },
    { "pieces",           no_argument,       NULL, OPT_PIECES },
    { "quiet",            no_argument,       NULL, 'q' },
    { "render",           no_argument,       NULL, OPT_RENDER },
    { "special",          no_argument,       NULL, OPT_SPECIAL },
    { "template",         required_argument, NULL, OPT_TEMPLATE },
    { "verbose",          no_argument,       NULL, 'v' },
    { "version",          no_argument,       NULL, 'V' },
    { "vocab",            no_argument,       NULL, OPT_VOCAB },
    { 0 }
};

static struct {
    const char *model, **files;
    size_t      n_files, files_cap;
    char        form;                /* of a sequence's text: 'l' '0' 'j', or 0: all   */
    bool        detok, count, pieces, special, vocab;
    bool        is_chat, render, chat_options;
    struct lm_chat_options chat;
    const char *kwargs;
    unsigned    flags;
    struct cli_env_options env;
} opt = { .flags = LM_ENCODE_DEFAULT };

static struct lm_vocab *vocab;
static struct lm_encoder *encoder;
static struct lm_ids ids;
static struct lm_buf out;            /* what is to be printed       */
static uint64_t n_sequences;         /* printed so far              */
static uint64_t n_printed;           /* ids of this sequence        */

static void out_of_memory(void)
{
    cli_die(CLI_TROUBLE, "out of memory");
}

/* Hand over what is in out, now at the latest if `now`. */
static void print(bool now)
{
    if (out.failed)
        out_of_memory();
    if (out.len >= 1 << 16 || now) {
        cli_write(out.data, out.len);
        lm_buf_clear(&out);
    }
    if (now)
        cli_flush();
}

/* Does this input wait for somebody, so that answers must not? */
static bool interactive(const struct lm_in *in)
{
    struct stat st;
    return fstat(lm_in_fd(in), &st) != 0 || !S_ISREG(st.st_mode);
}

/* ---- text to ids ---------------------------------------------------------- */

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

/* Ids, each with a space before it but the first of a sequence. */
static void add_ids(void)
{
    enum { AT_ONCE = 4096 };
    for (size_t i = 0; i < ids.n;) {
        char *to = lm_buf_room(&out, AT_ONCE * 11), *from = to;
        if (!to)
            return;
        for (size_t end = ids.n - i < AT_ONCE ? ids.n : i + AT_ONCE; i < end; i++) {
            *to = ' ';
            to += n_printed++ > 0;
            to += put_number(to, (uint32_t)ids.id[i]);
        }
        out.len += (size_t)(to - from);
        print(false);
    }
}

static void add_pieces(void)
{
    if (n_sequences && !n_printed && ids.n)
        lm_buf_byte(&out, '\n');
    for (size_t i = 0; i < ids.n; i++) {
        struct lm_str s = lm_vocab_piece(vocab, (uint32_t)ids.id[i]);
        lm_buf_printf(&out, "%d\t%zu\t%zu\t", (int)ids.id[i],
                      ids.span[i].at, ids.span[i].len);
        lm_buf_escape(&out, s.p, s.len);
        lm_buf_byte(&out, '\n');
        print(false);
    }
    n_printed += ids.n;
}

/* Print the ids of a sequence that are there, as the encoder hands them over. */
static int take_ids(void *arg, struct lm_ids *taken, struct lm_err *err)
{
    (void)arg, (void)err;
    if (opt.count)
        n_printed += taken->n;
    else if (opt.pieces)
        add_pieces();
    else
        add_ids();
    taken->n = 0;
    print(false);
    return LM_OK;
}

/* A sequence's text or, with LM_ENCODE_MORE and LM_ENCODE_ON in flags, a part of it.
 * guard: see lm_encoder_guarded; NULL for text that is the user's own. */
static int encode_guarded(const char *text, const unsigned char *guard, size_t len,
                          unsigned flags, struct lm_err *err)
{
    ids.n = 0;
    if (!(flags & LM_ENCODE_ON))
        n_printed = 0;
    int s = lm_encoder_guarded(encoder, text, guard, len, flags, &ids, err);
    if (s != LM_OK)
        return s;
    take_ids(NULL, &ids, err);
    if (flags & LM_ENCODE_MORE)
        return LM_OK;
    if (opt.count)
        lm_buf_printf(&out, "%llu\n", (unsigned long long)n_printed);
    else if (!opt.pieces)
        lm_buf_byte(&out, '\n');
    else if (!n_printed && n_sequences)
        lm_buf_byte(&out, '\n');                 /* a sequence of nothing */
    n_sequences++;
    n_printed = 0;
    print(false);
    return LM_OK;
}

static int encode(const char *text, size_t len, struct lm_err *err)
{
    return encode_guarded(text, NULL, len, opt.flags, err);
}

/* Where an error is.  What the JSON reader calls its first line is this one. */
static int at_line(struct lm_err *err, int s, uint64_t number)
{
    static const char first[] = "line 1, ";
    size_t n = sizeof first - 1;
    if (strncmp(err->text, first, n) == 0)
        memmove(err->text, err->text + n, strlen(err->text + n) + 1);
    return lm_err_at(err, s, "line %llu", (unsigned long long)number);
}

/* A line that is a JSON string. */
static int encode_json(const char *line, size_t len, uint64_t number, struct lm_err *err)
{
    struct lm_json j;
    lm_json_init(&j, line, len, err);
    enum lm_json_kind k = lm_json_next(&j);
    struct lm_buf text = { 0 };
    int s = k == LM_JSON_ERROR ? LM_EDATA : LM_OK;
    if (k == LM_JSON_STRING) {
        lm_buf_add(&text, j.str, j.str_len);
        if (lm_json_next(&j) == LM_JSON_ERROR)
            s = LM_EDATA;                        /* something stands behind it */
    } else if (s == LM_OK) {
        s = lm_fail(err, LM_EDATA, "not a JSON string");
    }
    if (text.failed)
        out_of_memory();
    if (s == LM_OK)
        s = encode(text.data, text.len, err);
    lm_buf_release(&text);
    lm_json_release(&j);
    return s == LM_OK ? s : at_line(err, s, number);
}

/* Encode the whole records in text[from ..), and the unfinished one if it is the last.
 * Returns how far that went. */
static int encode_records(const struct lm_buf *text, size_t *from, bool last,
                          uint64_t *number, struct lm_err *err)
{
    while (*from < text->len) {
        const char *p = text->data + *from;
        size_t left = text->len - *from;
        const char *q = memchr(p, opt.form == '0' ? 0 : '\n', left);
        if (!q && !last)
            break;
        size_t len = q ? (size_t)(q - p) : left;
        ++*number;
        int s = opt.form == 'j' ? encode_json(p, len, *number, err) : encode(p, len, err);
        if (s != LM_OK)
            return s;
        *from += len + (q != NULL);
    }
    return LM_OK;
}

/* Encode the whole records that are there. */
static int encode_ended(struct lm_buf *text, size_t seen, uint64_t *number, struct lm_err *err)
{
    size_t from = 0;
    if (!memchr(text->data + seen, opt.form == '0' ? 0 : '\n', text->len - seen))
        return LM_OK;
    int s = encode_records(text, &from, false, number, err);
    lm_buf_drop(text, from);
    return s;
}

/* Everything from one input. */
static int encode_input(struct lm_in *in, struct lm_err *err)
{
    struct lm_buf text = { 0 };
    bool wait = interactive(in);
    uint64_t number = 0;
    unsigned flags = opt.flags;
    size_t from = 0, seen = 0, got = 1;          /* looked through: text[0 .. seen) */
    int s = LM_OK;
    while (s == LM_OK) {
        char *to = lm_buf_room(&text, 1 << 16);
        if (!to)
            out_of_memory();
        s = lm_in_read_some(in, to, 1 << 16, &got, err);
        if (s != LM_OK || !got)
            break;
        text.len += got;
        if (opt.form) {
            s = encode_ended(&text, seen, &number, err);
            seen = text.len;
        } else {
            s = encode_guarded(text.data, NULL, text.len, flags | LM_ENCODE_MORE, err);
            flags |= LM_ENCODE_ON;
            lm_buf_clear(&text);
        }
        print(wait);
    }
    if (s == LM_OK && !opt.form)
        s = encode_guarded("", NULL, 0, flags, err);
    else if (s == LM_OK)
        s = encode_records(&text, &from, true, &number, err);
    lm_buf_release(&text);
    return s;
}

/* A stream that breaks off says so in itself; one that has not begun stays empty. */
static int fail_stream(const char *name, const struct lm_err *err)
{
    if ((n_sequences || n_printed) && !opt.count && !opt.pieces) {
        if (out.len ? out.data[out.len - 1] != '\n' : n_printed > 0)
            lm_buf_byte(&out, ' ');              /* in the middle of a sequence */
        lm_buf_printf(&out, "! %s: ", cli_name());
        lm_buf_escape(&out, name, strlen(name));
        lm_buf_str(&out, ": ");
        lm_buf_escape(&out, err->text, strlen(err->text));
        lm_buf_byte(&out, '\n');
    }
    print(true);
    return cli_report(name, err);
}

static int encode_file(const char *path)
{
    struct lm_err err;
    struct lm_in *in = lm_in_open(path, 0, &err);
    const char *name = in ? lm_in_name(in) : path;
    int status = CLI_OK;
    if (!in || encode_input(in, &err) != LM_OK)
        status = fail_stream(name, &err);
    lm_in_close(in);
    return status;
}

static int encode_operands(char **text)
{
    struct lm_buf all = { 0 };
    struct lm_err err;
    uint64_t number = 0;
    size_t from = 0;
    for (char **t = text; *t; t++) {
        if (t > text)
            lm_buf_byte(&all, ' ');
        lm_buf_str(&all, *t);
    }
    if (all.failed)
        out_of_memory();
    int s = opt.form ? encode_records(&all, &from, true, &number, &err)
                     : encode(all.data, all.len, &err);
    int status = s == LM_OK ? CLI_OK : fail_stream("operand", &err);
    lm_buf_release(&all);
    return status;
}

static int encode_all(char **text, const struct lm_env *env)
{
    struct lm_err err;
    int status = CLI_OK;
    encoder = lm_encoder_new(vocab, env, &err);
    if (!encoder)
        cli_die_err(opt.model, &err);
    /* a start token that is wanted but not there is the vocabulary's fault, not a text's */
    if (lm_encoder_text(encoder, "", 0, opt.flags, &ids, &err) != LM_OK) {
        lm_encoder_free(encoder);
        lm_ids_release(&ids);
        return cli_report(opt.model, &err);
    }
    ids.want_spans = opt.pieces;
    lm_encoder_to(encoder, take_ids, NULL);
    if (*text)
        status = encode_operands(text);
    else if (!opt.n_files)
        status = encode_file("-");
    for (size_t i = 0; i < opt.n_files && status == CLI_OK; i++)
        status = encode_file(opt.files[i]);
    print(true);
    lm_encoder_free(encoder);
    lm_ids_release(&ids);
    return status;
}

/* ---- conversations -------------------------------------------------------- */

enum { MAX_CONVERSATION = 1 << 30 };

static int chat_file(const struct lm_chat *chat, const char *path)
{
    struct lm_err err;
    struct lm_marked_text text = { 0 };
    const char *at = strcmp(path, "-") ? path : "<stdin>";
    char *json = NULL;
    size_t len;
    int s = lm_read_file(path, MAX_CONVERSATION, &json, &len, &err);
    if (s == LM_OK)
        s = lm_chat_render(chat, json, len, &opt.chat, &text, &at, &err);
    if (s == LM_OK && opt.render)
        lm_buf_add(&out, text.text.data, text.text.len);
    else if (s == LM_OK)     /* start and end tokens are the template's business */
        s = encode_guarded(text.text.data, (const unsigned char *)text.guard.data, text.text.len,
                           opt.flags & ~(unsigned)LM_ENCODE_SPECIAL, &err);
    print(false);
    lm_marked_text_release(&text);
    free(json);
    if (s == LM_OK)
        return CLI_OK;
    if (!opt.render)
        return fail_stream(at, &err);
    print(true);
    return cli_report(at, &err);
}

/* What --kwargs says, in an arena of the caller's. */
static const struct lm_jval *chat_kwargs(struct lm_arena *arena)
{
    struct lm_err err;
    const struct lm_jval *v = lm_json_tree(arena, opt.kwargs, strlen(opt.kwargs), &err);
    if (!v)
        cli_bad_usage("--kwargs: %s", err.text);
    if (v->kind != LM_JSON_OBJECT)
        cli_bad_usage("--kwargs: a JSON object is needed");
    return v;
}

static void load_vocab(const struct lm_env *env)
{
    struct lm_err err;
    if (!vocab && !(vocab = lm_vocab_open(opt.model, env, &err)))
        cli_die_err(opt.model, &err);
}

/* The start token's text if the vocabulary adds one: built-in templates know of no model's. */
static struct lm_str start_text(const struct lm_env *env)
{
    load_vocab(env);
    int32_t bos = lm_vocab_add_bos(vocab) ? lm_vocab_bos(vocab) : -1;
    return bos < 0 ? (struct lm_str){ NULL, 0 } : lm_vocab_text(vocab, (uint32_t)bos);
}

static int chat_all(char **files, const struct lm_env *env)
{
    static char *from_stdin[] = { "-", NULL };
    struct lm_arena arena = { 0 };
    struct lm_err err;
    struct tm now;
    int status = CLI_OK;
    if (opt.kwargs)
        opt.chat.kwargs = chat_kwargs(&arena);
    if (!opt.chat.now) {
        time_t t = time(NULL);
        opt.chat.now = localtime_r(&t, &now);
    }
    struct lm_chat *chat = lm_chat_open(opt.model, env, &err);
    if (!chat)
        cli_die_err(opt.model, &err);
    if (!opt.render && !(encoder = lm_encoder_new(vocab, env, &err)))
        cli_die_err(opt.model, &err);
    if (opt.chat.template && lm_chat_built_in(chat, opt.chat.template))
        opt.chat.start = start_text(env);
    ids.want_spans = opt.pieces;
    for (char **f = *files ? files : from_stdin; *f && status == CLI_OK; f++)
        status = chat_file(chat, *f);
    print(true);
    lm_encoder_free(encoder);
    lm_ids_release(&ids);
    lm_chat_free(chat);
    lm_arena_release(&arena);
    return status;
}

/* ---- ids to text ---------------------------------------------------------- */

static struct lm_detok *detok;
static struct lm_buf piece, quoted;
static bool begun;                   /* the sequence's opening quote is printed    */
static int last_byte = '\n';         /* printed                                    */

/* Print what is in `piece`, in the form asked for. */
static void add_text(void)
{
    if (piece.failed)
        out_of_memory();
    if (opt.form == 'j') {
        lm_buf_clear(&quoted);
        lm_json_quote(&quoted, piece.data ? piece.data : "", piece.len);
        lm_buf_add(&out, quoted.data + begun, quoted.len - 1 - begun);
        out.failed |= quoted.failed;
        begun = true;
    } else {
        lm_buf_add(&out, piece.data, piece.len);
    }
    if (piece.len)
        last_byte = (unsigned char)piece.data[piece.len - 1];
    lm_buf_clear(&piece);
}

/* The end of a sequence; of one that was cut short only the text so far. */
static void end_text(bool whole)
{
    lm_detok_end(detok, &piece);
    add_text();
    if (whole && opt.form == 'j')
        lm_buf_str(&out, "\"\n");
    else if (whole && opt.form)
        lm_buf_byte(&out, opt.form == '0' ? 0 : '\n');
    begun = false;
}

static int decode_stream(struct lm_in *in, struct lm_token_reader *r, struct lm_err *err)
{
    bool wait = interactive(in);
    for (;;) {
        int32_t id;
        switch (lm_token_next(r, &id, err)) {
        case LM_TOKEN_ID:
            if (lm_detok_id(detok, id, &piece, err) != LM_OK)
                return lm_err_at(err, LM_EDATA, "line %llu",
                                 (unsigned long long)lm_token_line(r) + 1);
            add_text();
            break;
        case LM_TOKEN_LINE:
            end_text(true);
            break;
        case LM_TOKEN_END:
            return LM_OK;
        default:
            return (int)err->code;
        }
        print(wait);
    }
}

static int decode_file(const char *path)
{
    struct lm_err err;
    struct lm_in *in = lm_in_open(path, 0, &err);
    const char *name = in ? lm_in_name(in) : path;
    struct lm_token_reader *r = in ? lm_token_reader_new(in, &err) : NULL;
    int status = CLI_OK;
    if (r)
        lm_token_set_vocab(r, lm_vocab_n(vocab));
    if (!r || decode_stream(in, r, &err) != LM_OK) {
        end_text(false);
        print(true);
        status = cli_report(name, &err);
    }
    lm_token_reader_free(r);
    lm_in_close(in);
    return status;
}

static int decode_all(char **files)
{
    static char *from_stdin[] = { "-", NULL };
    struct lm_err err;
    int status = CLI_OK;
    detok = lm_detok_new(vocab, opt.special, &err);
    if (!detok)
        cli_die_err(opt.model, &err);
    for (char **f = *files ? files : from_stdin; *f; f++) {
        int s = decode_file(*f);
        status = s > status ? s : status;
    }
    if (!opt.form && last_byte != '\n' && isatty(STDOUT_FILENO))
        lm_buf_byte(&out, '\n');
    print(true);
    lm_detok_free(detok);
    lm_buf_release(&piece);
    lm_buf_release(&quoted);
    return status;
}

/* ---- the vocabulary itself ------------------------------------------------- */

static int list_vocab(void)
{
    for (uint32_t id = 0; id < lm_vocab_n(vocab); id++) {
        struct lm_str s = lm_vocab_piece(vocab, id);
        lm_buf_printf(&out, "%u\t%s\t", id, lm_token_type_name(lm_vocab_type(vocab, id)));
        lm_json_f32(&out, lm_vocab_score(vocab, id));
        lm_buf_byte(&out, '\t');
        lm_buf_escape(&out, s.p, s.len);
        lm_buf_byte(&out, '\n');
        print(false);
    }
    print(true);
    return CLI_OK;
}

static void set_form(int c)
{
    if (opt.form && opt.form != c)
        cli_bad_usage("-%c and -%c exclude each other", opt.form, c);
    opt.form = (char)c;
}

static void add_file(const char *path)
{
    if (!lm_grow(&opt.files, &opt.files_cap, opt.n_files + 1, sizeof *opt.files))
        out_of_memory();
    opt.files[opt.n_files++] = path;
}

/* Options that say nothing together. */
static void check_usage(char **operands)
{
    if (!opt.model)
        cli_bad_usage("-m is missing: which vocabulary?");
    if (opt.detok + opt.vocab + opt.count + opt.pieces > 1)
        cli_bad_usage("only one of --count, --detokenize, --pieces and --vocab");
    if (opt.special && !opt.detok)
        cli_bad_usage("--special goes with -d");
    if ((opt.detok || opt.vocab) && (opt.n_files || opt.flags != LM_ENCODE_DEFAULT))
        cli_bad_usage("-f, --no-add-special and --no-parse-special are for text");
    if (opt.vocab && (*operands || opt.form))
        cli_bad_usage("--vocab takes no text and no form of it");
    if (opt.chat_options && !opt.is_chat)
        cli_bad_usage("--continue-final-message, --kwargs, --no-generation-prompt, --now, --render "
                      "and --template go with --chat");
    if (opt.is_chat && (opt.detok || opt.vocab || opt.form || opt.n_files))
        cli_bad_usage("-0, -d, -f, -j, -l and --vocab do not go with --chat");
    if (opt.render && (opt.count || opt.pieces))
        cli_bad_usage("--render prints text: no --count and no --pieces");
    if (opt.is_chat && strcmp(opt.model, "-") == 0)
        cli_bad_usage("with --chat the model cannot come from standard input");
    if (*operands && opt.n_files)
        cli_bad_usage("text comes from operands or from -f, not both");
}

static void chat_option(int c, const char *arg)
{
    static struct tm now;
    opt.chat_options = true;
    switch (c) {
    case OPT_CONTINUE: opt.chat.continue_final = true; break;
    case OPT_KWARGS: opt.kwargs = arg; break;
    case OPT_NO_PROMPT: opt.chat.no_generation_prompt = true; break;
    case OPT_RENDER: opt.render = true; break;
    case OPT_TEMPLATE: opt.chat.template = arg; break;
    default:
        if (!lm_chat_time(arg, &now))
            cli_bad_usage("--now: '%s' is no time such as 2025-03-14T15:09:26", arg);
        opt.chat.now = &now;
    }
}

int main(int argc, char **argv)
{
    int c;
    cli_start(argv);
    while ((c = getopt_long(argc, argv, "0df:hjlm:qvV", options, NULL)) != -1)
        switch (c) {
        case '0': case 'j': case 'l': set_form(c); break;
        case 'd': opt.detok = true; break;
        case 'f': add_file(optarg); break;
        case 'm': opt.model = optarg; break;
        case 'q': opt.env.quiet = true; break;
        case 'v': opt.env.verbose = true; break;
        case OPT_CHAT: opt.is_chat = true; break;
        case OPT_CONTINUE: case OPT_KWARGS: case OPT_NO_PROMPT: case OPT_NOW: case OPT_RENDER:
        case OPT_TEMPLATE: chat_option(c, optarg); break;
        case OPT_COUNT: opt.count = true; break;
        case OPT_PIECES: opt.pieces = true; break;
        case OPT_SPECIAL: opt.special = true; break;
        case OPT_VOCAB: opt.vocab = true; break;
        case OPT_NO_ADD: opt.flags &= ~(unsigned)LM_ENCODE_SPECIAL; break;
        case OPT_NO_PARSE: opt.flags &= ~(unsigned)LM_ENCODE_PARSE; break;
        case 'h': return cli_help(usage, help);
        case 'V': return cli_version();
        default: cli_try_help();
        }
    argv += optind;
    check_usage(argv);

    struct lm_env env = cli_env(opt.env);
    if (!opt.render)
        load_vocab(&env);
    int status = opt.vocab ? list_vocab() : opt.detok ? decode_all(argv)
               : opt.is_chat ? chat_all(argv, &env) : encode_all(argv, &env);
    lm_vocab_free(vocab);
    lm_buf_release(&out);
    free(opt.files);
    return cli_finish(status);
}
