/* SPDX-License-Identifier: MIT */
/* tokenize - text to token ids, and back. */

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/size.h"
#include "cli/cli.h"
#include "cli/tokenize.h"

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
    "  -t, --threads=N         encode sequences with N threads\n"
    "      --assistant-mask    with --chat: print a JSON object: ids, and which ones\n"
    "                          the assistant said, if the template marks that\n"
    "      --binary            print ids as 32-bit numbers, not as text\n"
    "      --chat              a conversation in JSON, through the chat template;\n"
    "                          operands are files\n"
    "      --continue-final-message  with --chat: leave the last message open\n"
    "      --count             print how many ids there are, not the ids\n"
    "      --eos, --sep        add an end token, a separator in any case\n"
    "      --escape            operands: \\n is a newline, and the like\n"
    "      --force             write --binary to a terminal, too\n"
    "      --kwargs=JSON       with --chat: names for the template, an object\n"
    "      --no-add-special    add no start and end tokens\n"
    "      --no-bos            add no start token\n"
    "      --no-generation-prompt  with --chat: do not begin an answer\n"
    "      --no-parse-special  text that looks like a control token is text\n"
    "      --now=TIME          with --chat: the template's time, 2025-03-14T15:09:26\n"
    "      --offsets           print a JSON object a sequence: ids and offsets\n"
    "      --pieces            print id, byte offset, length and piece, a line each\n"
    "      --render            with --chat: print the text, not its ids\n"
    "      --special           with -d: show control tokens\n"
    "      --stride=N          with --window: so many ids are in the next one, too\n"
    "      --template=WHICH    with --chat: a template's name in the model, or of\n"
    "                          those built in, or a file\n"
    "      --vocab             print id, type, score and piece of the vocabulary\n"
    "      --window=N          cut a sequence in windows of at most N ids\n"
    "  -q, --quiet             no warnings\n"
    "  -v, --verbose           say what the vocabulary is\n"
    "  -h, --help              show this help\n"
    "  -V, --version           show the version\n";

enum { OPT_BINARY = 256, OPT_COUNT, OPT_EOS, OPT_ESCAPE, OPT_FORCE, OPT_NO_ADD, OPT_NO_BOS,
       OPT_NO_PARSE, OPT_OFFSETS, OPT_PIECES, OPT_SEP, OPT_SPECIAL, OPT_STRIDE, OPT_VOCAB,
       OPT_WINDOW, OPT_CHAT, OPT_CONTINUE, OPT_KWARGS, OPT_NO_PROMPT, OPT_NOW, OPT_RENDER,
       OPT_TEMPLATE, OPT_MASK };

static const struct option options[] = {
    { "assistant-mask",   no_argument,       NULL, OPT_MASK },
    { "binary",           no_argument,       NULL, OPT_BINARY },
    { "chat",             no_argument,       NULL, OPT_CHAT },
    { "continue-final-message", no_argument, NULL, OPT_CONTINUE },
    { "count",            no_argument,       NULL, OPT_COUNT },
    { "detokenize",       no_argument,       NULL, 'd' },
    { "eos",              no_argument,       NULL, OPT_EOS },
    { "escape",           no_argument,       NULL, OPT_ESCAPE },
    { "file",             required_argument, NULL, 'f' },
    { "force",            no_argument,       NULL, OPT_FORCE },
    { "help",             no_argument,       NULL, 'h' },
    { "json",             no_argument,       NULL, 'j' },
    { "kwargs",           required_argument, NULL, OPT_KWARGS },
    { "lines",            no_argument,       NULL, 'l' },
    { "model",            required_argument, NULL, 'm' },
    { "no-add-special",   no_argument,       NULL, OPT_NO_ADD },
    { "no-bos",           no_argument,       NULL, OPT_NO_BOS },
    { "no-generation-prompt", no_argument,   NULL, OPT_NO_PROMPT },
    { "no-parse-special", no_argument,       NULL, OPT_NO_PARSE },
    { "now",              required_argument, NULL, OPT_NOW },
    { "null",             no_argument,       NULL, '0' },
    { "offsets",          no_argument,       NULL, OPT_OFFSETS },
    { "pieces",           no_argument,       NULL, OPT_PIECES },
    { "quiet",            no_argument,       NULL, 'q' },
    { "render",           no_argument,       NULL, OPT_RENDER },
    { "sep",              no_argument,       NULL, OPT_SEP },
    { "special",          no_argument,       NULL, OPT_SPECIAL },
    { "stride",           required_argument, NULL, OPT_STRIDE },
    { "template",         required_argument, NULL, OPT_TEMPLATE },
    { "threads",          required_argument, NULL, 't' },
    { "verbose",          no_argument,       NULL, 'v' },
    { "version",          no_argument,       NULL, 'V' },
    { "vocab",            no_argument,       NULL, OPT_VOCAB },
    { "window",           required_argument, NULL, OPT_WINDOW },
    { 0 }
};

static struct {
    struct cli_tokenize to;
    const char **files;
    size_t       n_files, files_cap;
    unsigned     n_forms;            /* of those that say what is printed of a sequence */
    bool         detok, vocab, force, is_chat, render;
    /* an option of those given that are for text, for ids, for conversations; 0: none */
    int          text_option, ids_option, chat_option;
    struct lm_chat_options chat;
    const char  *kwargs;
    struct cli_env_options env;
} opt = { .to.flags = LM_ENCODE_DEFAULT };

static void set_form(int c)
{
    if (opt.to.form && opt.to.form != c)
        cli_bad_usage("-%c and -%c exclude each other", opt.to.form, c);
    opt.to.form = (char)c;
}

static void set_ids(int c)
{
    const enum cli_ids_form form = c == OPT_BINARY ? CLI_IDS_BINARY
                                   : c == OPT_COUNT ? CLI_IDS_COUNT
                                   : c == OPT_OFFSETS ? CLI_IDS_OFFSETS
                                   : c == OPT_MASK ? CLI_IDS_MASK : CLI_IDS_PIECES;
    opt.n_forms += opt.to.ids != form;
    opt.to.ids = form;
    opt.ids_option = c;
}

static void add_file(const char *path)
{
    opt.text_option = 'f';
    if (!lm_grow(&opt.files, &opt.files_cap, opt.n_files + 1, sizeof *opt.files))
        cli_out_of_memory();
    opt.files[opt.n_files++] = path;
}

static const char *name_of(int c)
{
    const struct option *o = options;
    while (o->val != c)
        o++;
    return o->name;
}

/* Options that say nothing together, of those for conversations. */
static void check_chat(void)
{
    const struct cli_tokenize *to = &opt.to;
    const char form[] = { '-', to->form, 0 };
    const char *other = opt.detok                 ? "-d"
                        : opt.vocab               ? "--vocab"
                        : to->form && !opt.render ? form
                        : opt.n_files             ? "-f"
                        : to->escape              ? "--escape" : NULL;
    if (opt.chat_option && !opt.is_chat)
        cli_bad_usage("--%s goes with --chat", name_of(opt.chat_option));
    if (opt.is_chat && other)
        cli_bad_usage("%s does not go with --chat, which reads conversations in JSON from its "
                      "operands, files, or standard input", other);
    if (opt.render && opt.ids_option)
        cli_bad_usage("--%s does not go with --render, which prints text",
                      name_of(opt.ids_option));
    if (opt.is_chat && strcmp(to->model, "-") == 0)
        cli_bad_usage("with --chat the model cannot come from standard input");
}

/* Operands that are meant as what they are not. */
static void check_operands(char *const *operands)
{
    struct stat st;
    const char *first = operands[0];
    if (!first)
        return;
    const bool there = stat(first, &st) == 0;
    if (opt.detok && !there && first[strspn(first, "0123456789 \t\n")] == 0)
        cli_bad_usage("the operands of -d are files, and ids come from standard input: '%s' is "
                      "no file", first);
    if (opt.is_chat && !there && (*first == '[' || *first == '{'))
        cli_bad_usage("the operands of --chat are files: a conversation comes from one, or from "
                      "standard input");
    if (!opt.detok && !opt.is_chat && !operands[1] && there && S_ISREG(st.st_mode) &&
        strpbrk(first, "./") && !opt.env.quiet)
        cli_warn("'%s' is taken as text: the file of that name is read by -f", first);
}

static bool has_stdin(const char *const *list, size_t n)
{
    size_t i = 0;
    while (i < n && strcmp(list[i], "-") != 0)
        i++;
    return i < n;
}

/* Two things that would both be read from standard input. */
static void check_stdin(char *const *operands)
{
    size_t n = 0;
    while (operands[n])
        n++;
    const bool files = opt.detok || opt.is_chat;         /* are what operands are */
    const bool input = !opt.vocab && (files ? !n || has_stdin((const char *const *)operands, n)
                                            : !n && (!opt.n_files ||
                                                     has_stdin(opt.files, opt.n_files)));
    if (!input)
        return;
    if (strcmp(opt.to.model, "-") == 0)
        cli_bad_usage("the model and %s cannot both come from standard input",
                      opt.detok ? "the ids" : "the text");
    if (opt.chat.template_name && strcmp(opt.chat.template_name, "-") == 0)
        cli_bad_usage("the template and the conversation cannot both come from standard input");
}

static void check_usage(char **operands)
{
    const struct cli_tokenize *to = &opt.to;
    if (!to->model)
        cli_bad_usage("-m is missing: which vocabulary?");
    if (opt.detok + opt.vocab + opt.n_forms > 1)
        cli_bad_usage("only one of --assistant-mask, --binary, --count, --detokenize, "
                      "--offsets, --pieces and --vocab");
    if (to->special && !opt.detok)
        cli_bad_usage("--special goes with -d");
    if ((opt.detok || opt.vocab) && opt.text_option)
        cli_bad_usage("--%s is for text: it does not go with %s", name_of(opt.text_option),
                      opt.detok ? "-d" : "--vocab");
    if (opt.vocab && to->form)
        cli_bad_usage("-%c does not go with --vocab", to->form);
    if (opt.vocab && *operands)
        cli_bad_usage("--vocab takes no operands");
    if (to->stride && !to->window)
        cli_bad_usage("--stride goes with --window");
    check_chat();
    if (to->escape && !*operands)
        cli_bad_usage("--escape is for operands: files are taken as they are");
    if (*operands && opt.n_files)
        cli_bad_usage("text comes from operands or from -f, not both: each file needs an -f");
    check_operands(operands);
    check_stdin(operands);
    if (to->ids == CLI_IDS_BINARY && !opt.force && isatty(STDOUT_FILENO))
        cli_die(CLI_TROUBLE, "<stdout>: is a terminal, and this output is binary: use --force");
}

static void chat_option(int c, const char *arg)
{
    static struct tm now;
    opt.chat_option = c;
    switch (c) {
    case OPT_CONTINUE: opt.chat.continue_final = true; break;
    case OPT_MASK: opt.chat.want_said = true; set_ids(c); break;
    case OPT_KWARGS: opt.kwargs = arg; break;
    case OPT_NO_PROMPT: opt.chat.no_generation_prompt = true; break;
    case OPT_RENDER: opt.render = true; break;
    case OPT_TEMPLATE: opt.chat.template_name = arg; break;
    default:
        if (!lm_chat_time(arg, &now))
            cli_bad_usage("--now: '%s' is no time such as 2025-03-14T15:09:26", arg);
        opt.chat.now = &now;
    }
}

static void text_option(int c, const char *arg)
{
    struct cli_tokenize *to = &opt.to;
    opt.text_option = c;
    if (c != OPT_ESCAPE && c != OPT_NO_ADD && c != OPT_NO_BOS)
        opt.ids_option = c;
    switch (c) {
    case OPT_ESCAPE: to->escape = true; break;
    case OPT_EOS: to->flags |= LM_ENCODE_EOS; break;
    case OPT_SEP: to->flags |= LM_ENCODE_SEP; break;
    case OPT_NO_BOS: to->flags |= LM_ENCODE_NO_BOS; break;
    case OPT_NO_ADD: to->flags &= ~(unsigned)LM_ENCODE_SPECIAL; break;
    case OPT_NO_PARSE: to->flags &= ~(unsigned)LM_ENCODE_PARSE; break;
    case OPT_WINDOW: to->window = (size_t)cli_u64("window", arg, 1, 1u << 31); break;
    default: to->stride = (size_t)cli_u64("stride", arg, 1, 1u << 31); break;
    }
}

/* What --kwargs says, in an arena of the caller's. */
static const struct lm_jval *chat_kwargs(struct lm_arena *arena)
{
    struct lm_err err;
    const struct lm_jval *v = lm_json_tree(arena, opt.kwargs, strlen(opt.kwargs), &err);
    if (!v)
        cli_bad_usage("--kwargs: %s: what is needed is such as {\"enable_thinking\":false}",
                      err.text);
    if (v->kind != LM_JSON_OBJECT)
        cli_bad_usage("--kwargs: not an object such as {\"enable_thinking\":false}");
    return v;
}

static int chat_all(char **files)
{
    struct lm_arena arena = { 0 };
    struct tm now;
    if (opt.kwargs)
        opt.chat.kwargs = chat_kwargs(&arena);
    if (!opt.chat.now) {
        time_t t = time(NULL);
        opt.chat.now = localtime_r(&t, &now);
    }
    int status = cli_tokenize_chat(&opt.to, &opt.chat, opt.render, files);
    lm_arena_release(&arena);
    return status;
}

int main(int argc, char **argv)
{
    int c;
    cli_start(argv);
    while ((c = getopt_long(argc, argv, "0df:hjlm:qt:vV", options, NULL)) != -1)
        switch (c) {
        case '0': case 'j': case 'l': set_form(c); break;
        case 'd': opt.detok = true; break;
        case 'f': add_file(optarg); break;
        case 'm':
            opt.to.model = optarg;
            opt.to.model_name = strcmp(optarg, "-") ? optarg : "<stdin>";
            break;
        case 'q': opt.env.quiet = true; break;
        case 't': opt.env.n_threads = cli_threads("threads", optarg); break;
        case 'v': opt.env.verbose = true; break;
        case OPT_FORCE: opt.force = true; break;
        case OPT_VOCAB: opt.vocab = true; break;
        case OPT_CHAT: opt.is_chat = true; break;
        case OPT_CONTINUE: case OPT_KWARGS: case OPT_NO_PROMPT: case OPT_NOW: case OPT_RENDER:
        case OPT_TEMPLATE: case OPT_MASK: chat_option(c, optarg); break;
        case OPT_SPECIAL: opt.to.special = true; break;
        case OPT_BINARY: case OPT_COUNT: case OPT_OFFSETS: case OPT_PIECES: set_ids(c); break;
        case OPT_EOS: case OPT_ESCAPE: case OPT_NO_ADD: case OPT_NO_BOS: case OPT_NO_PARSE:
        case OPT_SEP: case OPT_STRIDE: case OPT_WINDOW: text_option(c, optarg); break;
        case 'h': return cli_help(usage, help);
        case 'V': return cli_version();
        default: cli_try_help();
        }
    argv += optind;
    check_usage(argv);

    struct lm_env env = cli_env(opt.env);
    opt.to.env = &env;
    if (!opt.render)
        cli_load_vocab(&opt.to);
    int status = opt.vocab ? cli_list_vocab(&opt.to)
               : opt.detok ? cli_detokenize(&opt.to, argv)
               : opt.is_chat ? chat_all(argv)
                             : cli_tokenize_text(&opt.to, argv, opt.files, opt.n_files);
    lm_vocab_free(opt.to.vocab);
    free(opt.files);
    return cli_finish(status);
}
