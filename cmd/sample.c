/* SPDX-License-Identifier: MIT */
/* sample - choose tokens: from a logits stream, or in a loop with decode -i. */

#include <errno.h>
#include <float.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/size.h"
#include "cli/cli.h"
#include "io/input.h"
#include "job/check_text.h"
#include "job/draw.h"
#include "job/generate.h"
#include "sample/dry_breakers.h"
#include "sample/philox.h"

static const char usage[] =
    "usage: sample [-hqVv] [-n count] [-s seed] [option ...] [file] [-- command ...]\n";

static const char help[] =
    "\n"
    "Choose a token for each frame of a logits stream (file, or standard input) and\n"
    "write a token stream.  With a command, which is 'decode -i ...' or speaks as it\n"
    "does, generate: a line of ids for each line of prompts (file, or standard\n"
    "input), written as they are chosen.\n"
    "\n"
    "  -m, --model=FILE          vocabulary, for what looks at texts\n"
    "  -n, --count=N             at most N ids a line [until the end of the text]\n"
    "  -s, --seed=N              seed of the random numbers [a new one, shown]\n"
    "      --greedy              always the best token that is left\n"
    "      --samplers=LIST       these samplers in this order, separated by ';'\n"
    "      --logit-bias=ID+X     add X to an id's logit (ID-X: subtract; ID-inf: ban)\n"
    "      --logit-bias-text=TEXT+X\n"
    "                            add X to the logits of a text's ids\n"
    "      --ignore-eos          never choose an end-of-generation id\n"
    "      --stop-ids=LIST       ids that end a line too, separated by ','\n"
    "      --stop=TEXT           a text that ends a line and is not part of it\n"
    "      --min-tokens=N        nothing ends a line before N ids\n"
    "      --banned-string=TEXT  never generate it: go back and choose again\n"
    "      --banned-string-file=FILE\n"
    "                            the same for each line of a file\n"
    "      --grammar=FILE        generate only what this grammar (GBNF) allows\n"
    "      --regex=EXPRESSION    generate only what this expression matches\n"
    "      --json-schema=FILE    generate only JSON that this schema describes\n"
    "      --json-gap=KIND       its white space: free, one or none [free]\n"
    "      --open-objects        properties does not close an object\n"
    "      --strict-schema       an unknown keyword is an error\n"
    "      --choice=TEXT         generate one of these texts\n"
    "      --check-grammar=FILE  is the text in the grammar, or valid for the schema?\n"
    "      --grammar-trigger=TEXT\n"
    "                            all that goes before only from this text on\n"
    "      --grammar-trigger-pattern=EXPRESSION\n"
    "                            or from what this expression finds\n"
    "      --grammar-trigger-full=EXPRESSION\n"
    "                            or when it matches all there is\n"
    "      --grammar-trigger-id=ID\n"
    "                            or from this token on\n"
    "      --reasoning-budget=N  think for at most N ids; -1: as it likes [-1]\n"
    "      --reasoning-start=TEXT, --reasoning-end=TEXT\n"
    "                            what is around it [<think>, </think>]\n"
    "      --reasoning-message=TEXT\n"
    "                            put in before the end when the budget is used up\n"
    "      --dry-sequence-breaker=TEXT\n"
    "                            dry looks for repeats after it; none: no breakers\n"
    "      --parallel=N          at most N lines at once [1]\n"
    "      --draft=COMMAND       a faster 'decode -i ...' that proposes ids\n"
    "      --draft-head          propose what the model's own draft head guesses\n"
    "      --draft-ngram=N       propose what followed the same N ids before\n"
    "      --draft-max=N         propose at most N ids at once [8, of a head 3]\n"
    "      --probs=K             write the K best ids and their chances (0: all left)\n"
    "      --record=FILE         write what was chosen, and how likely it was\n"
    "      --replay=FILE         choose what a record says\n"
    "      --list-samplers       show the samplers, their options and defaults\n"
    "  -q, --quiet               no warnings, and no seed\n"
    "  -v, --verbose             show the samplers that run\n"
    "  -h, --help                show this help\n"
    "  -V, --version             show the version\n"
    "\n"
    "Options of the samplers [default, unless the model has its own; value for off]:\n";

enum {
    GREEDY = 256, SAMPLERS, LOGIT_BIAS, BIAS_TEXT, IGNORE_EOS, STOP_IDS, STOP, MIN_TOKENS, BANNED,
    BANNED_FILE, BREAKER,
    GRAMMAR, REGEX, JSON_SCHEMA, JSON_GAP, OPEN_OBJECTS, STRICT_SCHEMA, CHOICE, CHECK_GRAMMAR,
    TRIGGER, TRIGGER_PATTERN, TRIGGER_FULL, TRIGGER_ID,
    BUDGET, THINK_START, THINK_END, THINK_MESSAGE,
    PARALLEL, DRAFT, DRAFT_HEAD, DRAFT_NGRAM, DRAFT_MAX, PROBS, RECORD, REPLAY, LIST_SAMPLERS, PARAM
};

static const struct option fixed_options[] = {
    { "model",                required_argument, NULL, 'm' },
    { "count",                required_argument, NULL, 'n' },
    { "seed",                 required_argument, NULL, 's' },
    { "greedy",               no_argument,       NULL, GREEDY },
    { "samplers",             required_argument, NULL, SAMPLERS },
    { "logit-bias",           required_argument, NULL, LOGIT_BIAS },
    { "logit-bias-text",      required_argument, NULL, BIAS_TEXT },
    { "ignore-eos",           no_argument,       NULL, IGNORE_EOS },
    { "stop-ids",             required_argument, NULL, STOP_IDS },
    { "stop",                 required_argument, NULL, STOP },
    { "min-tokens",           required_argument, NULL, MIN_TOKENS },
    { "banned-string",        required_argument, NULL, BANNED },
    { "banned-string-file",   required_argument, NULL, BANNED_FILE },
    { "dry-sequence-breaker", required_argument, NULL, BREAKER },
    { "grammar",              required_argument, NULL, GRAMMAR },
    { "regex",                required_argument, NULL, REGEX },
    { "json-schema",          required_argument, NULL, JSON_SCHEMA },
    { "json-gap",             required_argument, NULL, JSON_GAP },
    { "open-objects",         no_argument,       NULL, OPEN_OBJECTS },
    { "strict-schema",        no_argument,       NULL, STRICT_SCHEMA },
    { "choice",               required_argument, NULL, CHOICE },
    { "check-grammar",        required_argument, NULL, CHECK_GRAMMAR },
    { "grammar-trigger",      required_argument, NULL, TRIGGER },
    { "grammar-trigger-pattern", required_argument, NULL, TRIGGER_PATTERN },
    { "grammar-trigger-full", required_argument, NULL, TRIGGER_FULL },
    { "grammar-trigger-id",   required_argument, NULL, TRIGGER_ID },
    { "reasoning-budget",     required_argument, NULL, BUDGET },
    { "reasoning-start",      required_argument, NULL, THINK_START },
    { "reasoning-end",        required_argument, NULL, THINK_END },
    { "reasoning-message",    required_argument, NULL, THINK_MESSAGE },
    { "parallel",             required_argument, NULL, PARALLEL },
    { "draft",                required_argument, NULL, DRAFT },
    { "draft-head",           no_argument,       NULL, DRAFT_HEAD },
    { "draft-ngram",          required_argument, NULL, DRAFT_NGRAM },
    { "draft-max",            required_argument, NULL, DRAFT_MAX },
    { "probs",                required_argument, NULL, PROBS },
    { "record",               required_argument, NULL, RECORD },
    { "replay",               required_argument, NULL, REPLAY },
    { "list-samplers",        no_argument,       NULL, LIST_SAMPLERS },
    { "quiet",                no_argument,       NULL, 'q' },
    { "verbose",              no_argument,       NULL, 'v' },
    { "help",                 no_argument,       NULL, 'h' },
    { "version",              no_argument,       NULL, 'V' },
};

#define N_FIXED (sizeof fixed_options / sizeof *fixed_options)

/* Texts of an option that may be given more than once. */
struct texts {
    const char **list;           /* [n] */
    size_t       n, cap;
};

/* What --logit-bias-text says: add x to the ids of text [len]. */
struct text_bias {
    const char *text;
    size_t      len;
    double      x;
};

/* Everything the command line says. */
struct args {
    const char        *model;
    struct lm_sampling sampling;
    bool               temp, seeded, counted;
    uint64_t           n, min_n;
    bool               chances;
    size_t             n_chances;
    int32_t           *stop;
    size_t             n_stop, stop_cap;
    struct texts       stops, banned, breakers, choices;
    struct texts       banned_files;            /* their names ...           */
    char             **banned_data;             /* [n] ... and what they hold */
    size_t             banned_data_cap;
    struct text_bias  *biases;
    size_t             n_biases, biases_cap;
    bool               dry;                     /* its multiplier is above 0 */
    size_t             parallel, ngram, n_draft;
    bool               draft_head;
    const char        *draft, *record, *replay;
    const char        *grammar, *regex, *schema, *check;
    struct lm_schema_options schema_options;
    struct lm_triggers triggers;
    struct lm_reasoning reasoning;
    bool               budget;                  /* it has one               */
    bool               gap, thought, drafted;   /* --json-gap, --reasoning-*, --draft-max are
                                                   there                    */
    const char        *message;
    bool               quiet, verbose;

    /* What is made of it. */
    struct lm_vocab   *vocab;
    struct lm_breakers sequences;
    struct lm_record   past;
    struct lm_grammar *rules;
};

#define HELP_COLUMN 28       /* what an option does is told from here on */

static int show_help(void)
{
    printf("%s%s", usage, help);
    for (size_t i = 0; lm_param_at(i); i++) {
        const struct lm_param *p = lm_param_at(i);
        const int width = printf("      --%s=%s", p->option, p->arg);
        printf("%s%*s%s [%.9g; %s]\n", width < HELP_COLUMN ? "" : "\n",
               width < HELP_COLUMN ? HELP_COLUMN - width : HELP_COLUMN, "", p->help, p->value,
               p->off);
    }
    return cli_finish(CLI_OK);
}

/* A line for each sampler in the default order, its parameters after it. */
static int list_samplers(void)
{
    for (size_t i = 0; lm_sampler_at(i); i++) {
        const struct lm_sampler *s = lm_sampler_at(i);
        printf("%s\t%c", s->name, s->letter ? s->letter : '-');
        for (size_t j = 0; s->params[j]; j++)
            printf("\t--%s=%.9g", s->params[j]->option, s->params[j]->value);
        putchar('\n');
    }
    return cli_finish(CLI_OK);
}

static void set_param(struct args *a, const struct lm_param *p, const char *text)
{
    struct lm_err err;
    double v;
    if (lm_param_read(p, text, &v, &err) < 0)
        cli_bad_usage("--%s: %s", p->option, err.text);
    if (lm_sampling_set(&a->sampling, p, v, &err) < 0)
        cli_bad_usage("%s", err.text);
    a->temp |= !strcmp(p->option, "temp");
    if (!strcmp(p->option, "dry-multiplier"))
        a->dry = v > 0;
}

/* Is text +X or -X, a number or inf? */
static bool is_bias(const char *text, double *x)
{
    char *end;
    errno = 0;
    if (*text != '+' && *text != '-')
        return false;
    *x = strtod(text, &end);
    return errno != ERANGE && end > text && !*end && !isnan(*x) &&
           (isinf(*x) || fabs(*x) <= FLT_MAX);
}

static void bias_id(struct args *a, uint32_t id, double x)
{
    struct lm_err err;
    if (lm_sampling_bias(&a->sampling, id, x, &err) < 0)
        cli_die_err(NULL, &err);
}

/* ID+X or ID-X. */
static void add_bias(struct args *a, const char *text)
{
    char *sign;
    double x;
    errno = 0;
    const unsigned long id = *text >= '0' && *text <= '9' ? strtoul(text, &sign, 10)
                                                          : (sign = (char *)"", 0);
    if (errno == ERANGE || id > INT32_MAX || !is_bias(sign, &x))
        cli_bad_usage("--logit-bias: '%s' is not an id, + or -, and a number or inf", text);
    bias_id(a, (uint32_t)id, x);
}

/* TEXT+X or TEXT-X: the text ends at the first sign that begins a number up to the end. */
static void add_text_bias(struct args *a, const char *text)
{
    double x;
    size_t len = *text ? 1 : 0;
    while (text[len] && !is_bias(text + len, &x))
        len++;
    if (!text[len])
        cli_bad_usage("--logit-bias-text: '%s' is not a text, + or -, and a number or inf", text);
    if (!lm_grow(&a->biases, &a->biases_cap, a->n_biases + 1, sizeof *a->biases))
        cli_die(CLI_TROUBLE, "out of memory");
    a->biases[a->n_biases++] = (struct text_bias){ text, len, x };
}

static void add_stops(struct args *a, const char *list)
{
    do {
        char *end = NULL;
        errno = 0;
        unsigned long id = *list >= '0' && *list <= '9' ? strtoul(list, &end, 10) : 0;
        if (!end || (*end && *end != ',') || errno || id > INT32_MAX)
            cli_bad_usage("--stop-ids: '%s' is not a list of ids separated by ','", list);
        if (!lm_grow(&a->stop, &a->stop_cap, a->n_stop + 1, sizeof *a->stop))
            cli_die(CLI_TROUBLE, "out of memory");
        a->stop[a->n_stop++] = (int32_t)id;
        list = *end ? end + 1 : "";
    } while (*list);
}

static void add_text(struct texts *t, const char *option, const char *text)
{
    if (!*text)
        cli_bad_usage("--%s: the text is empty", option);
    if (!lm_grow(&t->list, &t->cap, t->n + 1, sizeof *t->list))
        cli_die(CLI_TROUBLE, "out of memory");
    t->list[t->n++] = text;
}

#define BANNED_TEXT (1 << 24)       /* bytes that a file of banned texts may have */

/* The lines of a file are texts that may not occur; empty ones are passed over. */
static void add_banned_file(struct args *a, const char *path)
{
    struct lm_err err;
    char *line;
    size_t len, n = a->banned_files.n;
    add_text(&a->banned_files, "banned-string-file", path);
    if (!lm_grow(&a->banned_data, &a->banned_data_cap, n + 1, sizeof *a->banned_data))
        cli_die(CLI_TROUBLE, "out of memory");
    if (lm_read_file(path, BANNED_TEXT, &a->banned_data[n], &len, &err) < 0)
        cli_die_err(path, &err);
    line = a->banned_data[n];
    if (strlen(line) < len)
        cli_die(CLI_NO, "%s: byte %zu is a NUL, which no text has", path, strlen(line));
    for (char *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = 0;
        if (*line)
            add_text(&a->banned, "banned-string-file", line);
    }
}

static void set_order(struct args *a, const char *list)
{
    struct lm_err err;
    if (lm_sampling_check_order(list, &err) < 0)
        cli_bad_usage("--samplers: %s", err.text);
    a->sampling.samplers = list;
}

static void set_gap(struct args *a, const char *text)
{
    static const char *const kinds[] = { [LM_GAP_FREE] = "free", [LM_GAP_ONE] = "one",
                                         [LM_GAP_NONE] = "none" };
    int i = 0;
    while (i < 3 && strcmp(text, kinds[i]))
        i++;
    if (i == 3)
        cli_bad_usage("--json-gap: '%s' is none of free, one and none", text);
    a->schema_options.gap = (enum lm_schema_gap)i;
}

static void add_trigger(struct args *a, enum lm_trigger_kind kind, const char *option,
                        const char *text)
{
    struct lm_err err;
    if (!*text)
        cli_bad_usage("--%s: the text is empty", option);
    if (lm_triggers_add(&a->triggers, kind, text, &err) < 0)
        cli_bad_usage("--%s: %s", option, err.text);
}

static void add_trigger_id(struct args *a, uint64_t id)
{
    struct lm_err err;
    if (lm_triggers_add_id(&a->triggers, (int32_t)id, &err) < 0)
        cli_die_err(NULL, &err);
}

static void set_budget(struct args *a, const char *text)
{
    const int64_t n = cli_i64("reasoning-budget", text, -1, INT64_MAX);
    a->budget = n >= 0;
    a->reasoning.most = a->budget ? (uint64_t)n : 0;
}

static const char *tag(struct args *a, const char *option, const char *text)
{
    if (!*text)
        cli_bad_usage("--%s: the text is empty", option);
    a->thought = true;
    return text;
}

static const char *file_name(const char *option, const char *text)
{
    if (!*text)
        cli_bad_usage("--%s: the name of the file is empty", option);
    return text;
}

/* One option that says what a line must be like; false if it is another. */
static bool take_form_option(struct args *a, int c, const char *text)
{
    switch (c) {
    case GRAMMAR:       a->grammar = file_name("grammar", text); break;
    case REGEX:         a->regex = text; break;
    case JSON_SCHEMA:   a->schema = file_name("json-schema", text); break;
    case JSON_GAP:      set_gap(a, text); a->gap = true; break;
    case OPEN_OBJECTS:  a->schema_options.open = true; break;
    case STRICT_SCHEMA: a->schema_options.strict = true; break;
    case CHOICE:        add_text(&a->choices, "choice", text); break;
    case CHECK_GRAMMAR: a->check = file_name("check-grammar", text); break;
    case TRIGGER:       add_trigger(a, LM_TRIGGER_TEXT, "grammar-trigger", text); break;
    case TRIGGER_PATTERN:
        add_trigger(a, LM_TRIGGER_PATTERN, "grammar-trigger-pattern", text);
        break;
    case TRIGGER_FULL:  add_trigger(a, LM_TRIGGER_FULL, "grammar-trigger-full", text); break;
    case TRIGGER_ID:
        add_trigger_id(a, cli_u64("grammar-trigger-id", text, 0, INT32_MAX));
        break;
    case BUDGET:        set_budget(a, text); break;
    case THINK_START:   a->reasoning.start = tag(a, "reasoning-start", text); break;
    case THINK_END:     a->reasoning.end = tag(a, "reasoning-end", text); break;
    case THINK_MESSAGE: a->message = text; a->thought = true; break;
    default:            return false;
    }
    return true;
}

/* One option; true if it asks for information that is now printed, with *status. */
static bool take_option(struct args *a, int c, const char *text, int *status)
{
    switch (c) {
    case 'm': a->model = file_name("model", text); break;
    case 'n':
        a->n = cli_u64("count", text, 0, LM_UNTIL_END - 1);
        a->counted = true;
        break;
    case 's':
        a->sampling.seed = cli_u64("seed", text, 0, UINT64_MAX);
        a->seeded = true;
        break;
    case 'q':           a->quiet = true; break;
    case 'v':           a->verbose = true; break;
    case GREEDY:        a->sampling.greedy = true; break;
    case SAMPLERS:      set_order(a, text); break;
    case LOGIT_BIAS:    add_bias(a, text); break;
    case BIAS_TEXT:     add_text_bias(a, text); break;
    case IGNORE_EOS:    a->sampling.ignore_eos = true; break;
    case STOP_IDS:      add_stops(a, text); break;
    case STOP:          add_text(&a->stops, "stop", text); break;
    case MIN_TOKENS:    a->min_n = cli_u64("min-tokens", text, 0, LM_UNTIL_END - 1); break;
    case BANNED:        add_text(&a->banned, "banned-string", text); break;
    case BANNED_FILE:   add_banned_file(a, text); break;
    case BREAKER:       add_text(&a->breakers, "dry-sequence-breaker", text); break;
    case PARALLEL:      a->parallel = (size_t)cli_u64("parallel", text, 1, 4096); break;
    case DRAFT:         a->draft = text; break;
    case DRAFT_HEAD:    a->draft_head = true; break;
    case DRAFT_NGRAM:   a->ngram = (size_t)cli_u64("draft-ngram", text, 1, 64); break;
    case DRAFT_MAX:
        a->n_draft = (size_t)cli_u64("draft-max", text, 1, 1024);
        a->drafted = true;
        break;
    case RECORD:        a->record = file_name("record", text); break;
    case REPLAY:        a->replay = file_name("replay", text); break;
    case PROBS:
        a->chances = true;
        a->n_chances = (size_t)cli_u64("probs", text, 0, INT32_MAX);
        break;
    case LIST_SAMPLERS: *status = list_samplers(); return true;
    case 'h':           *status = show_help(); return true;
    case 'V':           *status = cli_version(); return true;
    default:
        if (take_form_option(a, c, text))
            break;
        if (c < PARAM)
            cli_try_help();
        set_param(a, lm_param_at((size_t)(c - PARAM)), text);
    }
    return false;
}

/* The options of getopt: the fixed ones, then one a parameter. */
static bool read_options(struct args *a, int argc, char *argv[], int *status)
{
    struct option all[N_FIXED + LM_PARAMS_MAX + 1] = { 0 };
    size_t n = N_FIXED;
    int c;
    memcpy(all, fixed_options, sizeof fixed_options);
    for (size_t i = 0; lm_param_at(i); i++)
        all[n++] = (struct option){ lm_param_at(i)->option, required_argument, NULL,
                                    PARAM + (int)i };
    while ((c = getopt_long(argc, argv, "m:n:s:qvhV", all, NULL)) != -1)
        if (take_option(a, c, optarg, status))
            return true;
    return false;
}

/* The options that say what a line must be; the last is NULL. */
struct form {
    const char *option;
    bool        given;
};

static void find_forms(const struct args *a, struct form forms[5])
{
    forms[0] = (struct form){ "--grammar", a->grammar };
    forms[1] = (struct form){ "--regex", a->regex };
    forms[2] = (struct form){ "--json-schema", a->schema };
    forms[3] = (struct form){ "--choice", a->choices.n };
    forms[4] = (struct form){ NULL, false };
}

/* The one that is given, or NULL; they exclude each other and --replay. */
static const char *form_of(const struct args *a)
{
    struct form forms[5];
    const char *one = a->replay ? "--replay" : NULL, *form = NULL;
    find_forms(a, forms);
    for (const struct form *f = forms; f->option; f++) {
        if (f->given && one)
            cli_bad_usage("%s and %s exclude each other", one, f->option);
        if (f->given)
            one = form = f->option;
    }
    return form;
}

/* Options that only mean something in a loop. */
static void refuse_in_filter(const struct args *a)
{
    const struct { const char *option; bool given; } loop[] = {
        { "-n", a->counted },             { "--stop-ids", a->n_stop },
        { "--stop", a->stops.n },         { "--min-tokens", a->min_n },
        { "--banned-string", a->banned.n }, { "--parallel", a->parallel > 1 },
        { "--draft", a->draft },          { "--draft-ngram", a->ngram },
        { "--draft-head", a->draft_head },
        { "--reasoning-budget", a->budget },
    };
    for (size_t i = 0; i < sizeof loop / sizeof *loop; i++)
        if (loop[i].given)
            cli_bad_usage("%s needs a command after --", loop[i].option);
    if (form_of(a))
        cli_bad_usage("%s needs a command after --", form_of(a));
}

/* Options that only change what others do. */
static void note_vain(const struct args *a)
{
    const bool schema = a->schema || a->check;
    const struct { const char *option, *without; bool vain; } all[] = {
        { "--json-gap", "--json-schema", a->gap && !schema },
        { "--open-objects", "--json-schema", a->schema_options.open && !schema },
        { "--strict-schema", "--json-schema", a->schema_options.strict && !schema },
        { "--draft-max", "--draft, --draft-head or --draft-ngram",
          a->drafted && !a->draft && !a->draft_head && !a->ngram },
        { "--reasoning-start, -end or -message", "--reasoning-budget", a->thought && !a->budget },
        { "--dry-sequence-breaker", "--dry-multiplier", a->breakers.n && !a->dry },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all && !a->quiet; i++)
        if (all[i].vain)
            cli_warn("%s has no effect without %s", all[i].option, all[i].without);
}

/* What one option means for another, and for the way the program is used. */
static void settle(struct args *a, bool loop)
{
    const struct { const char *one, *other; bool both; } apart[] = {
        { "--greedy", "--temp", a->sampling.greedy && a->temp },
        { "--draft", "--draft-ngram", a->draft && a->ngram },
        { "--draft", "--draft-head", a->draft && a->draft_head },
        { "--draft-head", "--draft-ngram", a->draft_head && a->ngram },
        { "--draft", "--replay", a->draft && a->replay },
        { "--banned-string", "--probs", a->banned.n && a->chances },
        { "--banned-string", "--replay", a->banned.n && a->replay },
        { "--banned-string", "--reasoning-budget", a->banned.n && a->budget },
    };
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        if (apart[i].both)
            cli_bad_usage("%s and %s exclude each other", apart[i].one, apart[i].other);
    const char *form = form_of(a);
    const bool triggered = a->triggers.n || a->triggers.n_ids;
    if (triggered && !form)
        cli_bad_usage("a trigger needs what it begins: --grammar, for example");
    if (form && !triggered && a->budget)
        cli_bad_usage("%s and --reasoning-budget exclude each other, unless a trigger begins it",
                      form);
    if (!loop)
        refuse_in_filter(a);
    note_vain(a);
    if (!a->seeded)
        a->sampling.seed = lm_new_seed();
    if (!a->draft && !a->draft_head && !a->ngram)
        a->n_draft = 0;
    else if (!a->drafted)
        a->n_draft = a->draft_head ? 3 : 8;
}

/* ---- the vocabulary, and what is made with it ---- */

static void find_breakers(struct args *a)
{
    static const char *const usual[] = { "\n", ":", "\"", "*" };
    const bool own = a->breakers.n;
    struct lm_err err;
    if (own && a->breakers.n == 1 && !strcmp(a->breakers.list[0], "none"))
        return;
    if (!a->vocab)
        cli_bad_usage("--dry-multiplier needs -m for its sequence breakers, or "
                      "--dry-sequence-breaker none");
    for (size_t i = 0; i < (own ? a->breakers.n : sizeof usual / sizeof *usual); i++) {
        const char *text = own ? a->breakers.list[i] : usual[i];
        if (lm_breakers_add(&a->sequences, a->vocab, text, strlen(text), &err) < 0)
            cli_die_err(NULL, &err);
    }
    a->sampling.breakers = &a->sequences;
}

/* Does the order of samplers name infill? */
static bool wants_infill(const struct args *a)
{
    const struct lm_sampler *infill = lm_sampler_find("infill", strlen("infill"));
    return a->sampling.samplers && lm_sampling_names(a->sampling.samplers, infill);
}

/* A JSON Schema is told from a grammar by how it begins. */
static bool looks_like_schema(const char *text, size_t len)
{
    size_t i = len >= 3 && !memcmp(text, LM_GRAMMAR_MARK, 3) ? 3 : 0;
    while (i < len && strchr(" \t\r\n", text[i]))
        i++;
    while (i < len && len > i && strchr(" \t\r\n", text[len - 1]))
        len--;
    return i < len && (text[i] == '{' || (len - i == 4 && !memcmp(text + i, "true", 4)) ||
                       (len - i == 5 && !memcmp(text + i, "false", 5)));
}

/* The grammar, or the schema, in a file. */
enum kind { A_GRAMMAR, A_SCHEMA, EITHER };

static struct lm_grammar *read_grammar(const struct args *a, const char *path,
                                       const struct lm_vocab *v, enum kind kind)
{
    struct lm_err err;
    struct lm_buf notes = { 0 };
    char *text;
    size_t len;
    if (lm_read_file(path, LM_GRAMMAR_TEXT, &text, &len, &err) < 0) {
        if (err.code == LM_EDATA)
            err.code = LM_EUSE;                   /* too large: another grammar would do */
        cli_die_err(path, &err);
    }
    if (kind == EITHER)
        kind = looks_like_schema(text, len) ? A_SCHEMA : A_GRAMMAR;
    struct lm_grammar *g = kind == A_GRAMMAR ? lm_grammar_gbnf(text, len, v, &err) :
        lm_grammar_schema(text, len, &a->schema_options, &notes, &err);
    free(text);
    for (size_t at = 0; g && !a->quiet && at < notes.len;) {
        const size_t n = strcspn(notes.data + at, "\n");
        cli_warn("%s: %.*s", path, (int)n, notes.data + at);
        at += n + 1;
    }
    lm_buf_release(&notes);
    if (!g)
        cli_die_err(path, &err);
    return g;
}

static void make_rules(struct args *a)
{
    struct lm_err err;
    if (a->grammar || a->schema)
        a->rules = read_grammar(a, a->grammar ? a->grammar : a->schema, a->vocab,
                                a->grammar ? A_GRAMMAR : A_SCHEMA);
    else if (a->choices.n &&
             !(a->rules = lm_grammar_choice(a->choices.list, a->choices.n, &err)))
        cli_die_err("--choice", &err);
    else if (a->regex && !(a->rules = lm_grammar_regex(a->regex, strlen(a->regex), &err)))
        cli_die_err("--regex", &err);
}

/* Refuse what looks at texts, without a vocabulary to find them in. */
static void want_vocabulary(const struct args *a)
{
    const struct { const char *option; bool given; } all[] = {
        { "--stop", a->stops.n }, { "--banned-string", a->banned.n },
        { "--logit-bias-text", a->n_biases },
        { form_of(a), form_of(a) }, { "infill", wants_infill(a) },
        { "--reasoning-budget", a->budget },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].given && !a->model)
            cli_bad_usage("%s needs the vocabulary: -m", all[i].option);
}

/* A text that is a control token's is found as that. */
static void find_trigger_ids(struct args *a)
{
    for (size_t i = 0; i < a->triggers.n; i++) {
        const struct lm_trigger *t = &a->triggers.list[i];
        const int32_t id = t->kind == LM_TRIGGER_TEXT
                           ? lm_vocab_find(a->vocab, t->text, strlen(t->text)) : -1;
        if (id >= 0 && lm_vocab_type(a->vocab, (uint32_t)id) == LM_TOKEN_CONTROL)
            add_trigger_id(a, (uint64_t)id);
    }
}

/* Every id of a text, each once, gets its bias. */
static void find_biased_ids(struct args *a)
{
    struct lm_err err;
    for (size_t n = 0; n < a->n_biases; n++) {
        const struct text_bias *b = &a->biases[n];
        struct lm_ids ids = { 0 };
        if (lm_vocab_encode(a->vocab, b->text, b->len, 0, &ids, &err) < 0)
            cli_die_err("--logit-bias-text", &err);
        for (size_t i = 0; i < ids.n; i++) {
            size_t k = 0;
            while (ids.id[k] != ids.id[i])
                k++;
            if (k == i)
                bias_id(a, (uint32_t)ids.id[i], b->x);
        }
        lm_ids_release(&ids);
    }
}

/* The ids that end the thinking. */
static void make_last(struct args *a)
{
    struct lm_reasoning *r = &a->reasoning;
    struct lm_buf b = { 0 };
    struct lm_err err;
    r->vocab = a->vocab;
    lm_buf_str(&b, a->message ? a->message : "");
    lm_buf_str(&b, r->end);
    if (b.failed)
        cli_die(CLI_TROUBLE, "out of memory");
    if (lm_vocab_encode(a->vocab, b.data, b.len, LM_ENCODE_PARSE, &r->last, &err) < 0)
        cli_die_err("--reasoning-end", &err);
    lm_buf_release(&b);
}

static void open_files(struct args *a, const struct lm_env *env)
{
    struct lm_err err;
    want_vocabulary(a);
    if (a->model && !(a->vocab = lm_vocab_open(a->model, env, &err)))
        cli_die_err(a->model, &err);
    a->sampling.vocab = a->vocab;
    a->sampling.vocab_name = a->model;
    if (a->dry)
        find_breakers(a);
    make_rules(a);
    if (a->vocab)
        find_trigger_ids(a);
    find_biased_ids(a);
    if (a->budget)
        make_last(a);
    if (a->replay) {
        struct lm_in *in = lm_in_open(a->replay, 0, &err);
        if (!in || lm_record_read(&a->past, in, &err) < 0)
            cli_die_err(a->replay, &err);
        lm_in_close(in);
    }
}

static void release(struct args *a)
{
    lm_sampling_release(&a->sampling);
    lm_breakers_release(&a->sequences);
    lm_record_release(&a->past);
    lm_grammar_free(a->rules);
    lm_vocab_free(a->vocab);
    free(a->stop);
    free(a->stops.list);
    free(a->banned.list);
    for (size_t i = 0; i < a->banned_files.n; i++)
        free(a->banned_data[i]);
    free(a->banned_data);
    free(a->banned_files.list);
    free(a->biases);
    free(a->breakers.list);
    free(a->choices.list);
    lm_triggers_release(&a->triggers);
    lm_ids_release(&a->reasoning.last);
}

/* Die as a program does that never heard of EPIPE; the shell sees 141. */
static _Noreturn void die_of_sigpipe(void)
{
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
    _Exit(CLI_TROUBLE);
}

/* --check-grammar: is what path holds in the grammar, or valid for the schema? */
static int check_text(const struct args *a, const char *path)
{
    struct lm_err err;
    struct lm_vocab *v = NULL;
    if (a->model && !(v = lm_vocab_open(a->model, NULL, &err)))
        cli_die_err(a->model, &err);
    struct lm_grammar *g = read_grammar(a, a->check, v, EITHER);
    struct lm_in *in = lm_in_open(path, 0, &err);
    if (!in)
        cli_die_err(path, &err);
    int s = lm_check_text(g, in, &err);
    if (s < 0)
        cli_report(NULL, &err);
    lm_in_close(in);
    lm_grammar_free(g);
    lm_vocab_free(v);
    return cli_status(s);
}

/* No input may be written over. */
static void refuse_same(const struct args *a, const char *path)
{
    const char *const inputs[] = { path, a->model, a->grammar, a->schema, a->replay };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        if (inputs[i])
            cli_refuse_same(inputs[i], "-");
        if (inputs[i] && a->record)
            cli_refuse_same(inputs[i], a->record);
    }
    for (size_t i = 0; i < a->banned_files.n && a->record; i++)
        cli_refuse_same(a->banned_files.list[i], a->record);
}

static int run(struct args *a, const char *path, char *const command[])
{
    char *const draft[] = { "sh", "-c", (char *)a->draft, NULL };
    struct lm_env env = cli_env((struct cli_env_options){ .quiet = a->quiet,
                                                          .verbose = a->verbose });
    bool tell_seed = !a->seeded;
    struct lm_err err;
    refuse_same(a, path);
    open_files(a, &env);
    struct lm_in *in = lm_in_open(path, 0, &err);
    if (!in)
        cli_die_err(path, &err);
    struct lm_generate g = {
        .draw = {
            .sampling  = &a->sampling,
            .out       = cli_out_open("-", false, false),
            .env       = &env,
            .tell_seed = &tell_seed,
            .chances   = a->chances,
            .n_chances = a->n_chances,
            .record    = a->record ? cli_out_open(a->record, false, false) : NULL,
            .replay    = a->replay ? &a->past : NULL,
        },
        .n        = a->n,
        .min_n    = a->min_n,
        .stop     = a->stop,
        .n_stop   = a->n_stop,
        .watch    = { a->vocab, a->stops.list, a->stops.n, a->banned.list, a->banned.n },
        .grammar  = a->rules,
        .grammar_option = form_of(a),
        .triggers = a->triggers.n || a->triggers.n_ids ? &a->triggers : NULL,
        .reasoning = a->budget ? &a->reasoning : NULL,
        .parallel = a->parallel,
        .command  = command,
        .draft    = a->draft ? draft : NULL,
        .draft_head = a->draft_head,
        .ngram    = a->ngram,
        .n_draft  = a->n_draft,
    };
    struct lm_generate_end end = { 0 };
    int s;
    if (command) {
        signal(SIGPIPE, SIG_IGN);
        s = lm_generate(&g, in, &end, &err);
        if (end.reader_gone)
            die_of_sigpipe();
    } else {
        s = lm_draw_stream(&g.draw, in, &err);
        end.status = cli_status(s);
    }
    if (s < 0)
        cli_report(NULL, &err);
    lm_in_close(in);
    if (g.draw.record && s < 0)
        cli_out_abort(g.draw.record);
    else if (g.draw.record && (s = cli_out_commit(g.draw.record)) > end.status)
        end.status = s;
    s = cli_out_commit(g.draw.out);
    return s > end.status ? s : end.status;
}

int main(int argc, char *argv[])
{
    struct args a = { .n = LM_UNTIL_END, .parallel = 1,
                      .reasoning = { .start = "<think>", .end = "</think>" } };
    char **command = NULL;
    int own = 0, status = CLI_OK;

    cli_start(argv);
    while (own < argc && strcmp(argv[own], "--"))
        own++;
    if (own < argc) {
        command = argv + own + 1;
        argv[own] = NULL;
    }
    if (!read_options(&a, own, argv, &status)) {
        if (command && !*command)
            cli_bad_usage("no command after --");
        if (own - optind > 1)
            cli_bad_usage("%s: one operand only", argv[optind + 1]);
        const char *path = own > optind ? argv[optind] : "-";
        settle(&a, command != NULL);
        if (a.check && command)
            cli_bad_usage("--check-grammar takes no command");
        status = cli_finish(a.check ? check_text(&a, path) : run(&a, path, command));
    }
    release(&a);
    return status;
}
