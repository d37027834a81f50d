/* SPDX-License-Identifier: MIT */
/* Conversations to ids or text: tokenize --chat. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/tokenize.h"
#include "io/input.h"

enum { MAX_CONVERSATION = 1 << 30 };

struct chats {
    const struct cli_tokenize *o;
    struct lm_chat       *chat;
    struct lm_chat_options options;
    bool                  render;
    struct lm_encoder    *encoder;       /* NULL with render */
    struct cli_id_writer  writer;
};

/* A rendered text, as -d writes one. */
static void put_text(struct chats *c, const struct lm_buf *text)
{
    struct lm_buf *out = &c->writer.out;
    const char form = c->o->form;
    if (form == 'j')
        lm_json_quote(out, text->data ? text->data : "", text->len);
    else
        lm_buf_add(out, text->data, text->len);
    if (form)
        lm_buf_byte(out, form == '0' ? 0 : '\n');
}

static int chat_file(struct chats *c, const char *path)
{
    struct lm_err err;
    struct lm_marked_text text = { 0 };
    const char *at = strcmp(path, "-") ? path : "<stdin>";
    char *json = NULL;
    size_t len;
    int s = lm_read_file(path, MAX_CONVERSATION, &json, &len, &err);
    if (s == LM_OK)
        s = lm_chat_render(c->chat, json, len, &c->options, &text, &at, &err);
    c->writer.said = text.said.data;
    if (s == LM_OK && c->render)
        put_text(c, &text.text);
    else if (s == LM_OK)
        s = cli_ids_encode(&c->writer, c->encoder, text.text.data,
                           (const unsigned char *)text.guard.data, text.text.len, c->o->flags,
                           &err);
    cli_ids_print(&c->writer, false);
    lm_marked_text_release(&text);
    free(json);
    if (s == LM_OK)
        return CLI_OK;
    if (!c->render)
        return cli_ids_fail(&c->writer, at, &err);
    cli_ids_print(&c->writer, true);
    return cli_report(at, &err);
}

static int chat_files(struct chats *c, char *const *files)
{
    int status = CLI_OK;
    for (; *files && (status == CLI_OK || c->render || cli_ids_go_on(c->o)); files++) {
        const int s = chat_file(c, *files);
        status = s > status ? s : status;
    }
    return status;
}

/* The start token's text if the vocabulary adds one: built-in templates know of no model's. */
static struct lm_str start_text(struct cli_tokenize *o)
{
    cli_load_vocab(o);
    int32_t bos = lm_vocab_add_bos(o->vocab) ? lm_vocab_bos(o->vocab) : -1;
    return bos < 0 ? (struct lm_str){ NULL, 0 } : lm_vocab_text(o->vocab, (uint32_t)bos);
}

int cli_tokenize_chat(struct cli_tokenize *o, const struct lm_chat_options *options, bool render,
                      char *const *files)
{
    static char *const from_stdin[] = { "-", NULL };
    struct lm_err err;
    int status = CLI_OK;
    o->flags &= ~(unsigned)LM_ENCODE_SPECIAL;    /* they are the template's business */
    struct chats c = { .o = o, .options = *options, .render = render, .writer = { .o = o } };
    struct lm_chat *chat = lm_chat_open(o->model, o->env, &err);
    if (!chat)
        cli_die_err(o->model_name, &err);
    c.chat = chat;
    if (!render && !(c.encoder = lm_encoder_new(o->vocab, o->env, &err)))
        cli_die_err(o->model_name, &err);
    if (c.encoder)
        status = cli_ids_begin(&c.writer, o, c.encoder);
    if (options->template_name && lm_chat_built_in(chat, options->template_name))
        c.options.start = start_text(o);
    if (status == CLI_OK)
        status = chat_files(&c, *files ? files : from_stdin);
    cli_ids_print(&c.writer, true);
    cli_ids_release(&c.writer);
    lm_encoder_free(c.encoder);
    lm_chat_free(chat);
    return status;
}
