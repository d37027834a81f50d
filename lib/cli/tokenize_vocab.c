/* SPDX-License-Identifier: MIT */
/* The vocabulary itself: tokenize --vocab. */
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/tokenize.h"

/* What was said while it loads: a byte for the level, then the text and a NUL. */
static void hold_note(void *user, enum lm_level level, const char *text)
{
    lm_buf_byte(user, (int)level);
    lm_buf_add(user, text, strlen(text) + 1);
}

/* A warning is no answer where the vocabulary cannot be used: notes come when it is there. */
void cli_load_vocab(struct cli_tokenize *o)
{
    struct lm_buf notes = { 0 };
    struct lm_env env = *o->env;
    struct lm_err err;
    env.user = &notes;
    env.note = hold_note;
    if (!o->vocab && !(o->vocab = lm_vocab_open(o->model, &env, &err)))
        cli_die_err(o->model_name, &err);
    for (size_t at = 0; !notes.failed && at < notes.len;) {
        const char *text = notes.data + at + 1;
        lm_note(o->env, (enum lm_level)notes.data[at], "%s: %s", o->model_name, text);
        at += strlen(text) + 2;
    }
    lm_buf_release(&notes);
}

/* What else is special of a piece, in a column of its own. */
static void put_traits(struct lm_buf *out, const struct lm_vocab *v, uint32_t id)
{
    bool any = false;
    static const struct { unsigned trait; const char *name; } names[] = {
        { LM_TRAIT_EOG, "eog" }, { LM_TRAIT_LSTRIP, "lstrip" }, { LM_TRAIT_RSTRIP, "rstrip" },
        { LM_TRAIT_WORD, "word" }, { LM_TRAIT_NORMALIZED, "normalized" },
        { LM_TRAIT_FIM << LM_FIM_PRE, "fim_pre" }, { LM_TRAIT_FIM << LM_FIM_SUF, "fim_suf" },
        { LM_TRAIT_FIM << LM_FIM_MID, "fim_mid" }, { LM_TRAIT_FIM << LM_FIM_PAD, "fim_pad" },
        { LM_TRAIT_FIM << LM_FIM_REP, "fim_rep" }, { LM_TRAIT_FIM << LM_FIM_SEP, "fim_sep" },
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (lm_vocab_traits(v, id) & names[i].trait) {
            lm_buf_byte(out, any ? ',' : '\t');
            lm_buf_str(out, names[i].name);
            any = true;
        }
}

int cli_list_vocab(const struct cli_tokenize *o)
{
    struct lm_buf out = { 0 };
    for (uint32_t id = 0; id < lm_vocab_n(o->vocab); id++) {
        struct lm_str s = lm_vocab_piece(o->vocab, id);
        lm_buf_u64(&out, id);
        lm_buf_byte(&out, '\t');
        lm_buf_str(&out, lm_token_type_name(lm_vocab_type(o->vocab, id)));
        lm_buf_byte(&out, '\t');
        lm_json_f32(&out, lm_vocab_score(o->vocab, id));
        lm_buf_byte(&out, '\t');
        lm_buf_escape(&out, s.p, s.len);
        put_traits(&out, o->vocab, id);
        lm_buf_byte(&out, '\n');
        cli_print(&out, false);
    }
    cli_print(&out, true);
    lm_buf_release(&out);
    return CLI_OK;
}
