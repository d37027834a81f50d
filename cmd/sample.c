/* SPDX-License-Identifier: MIT */
/* sample - choose tokens: from a logits stream, or in a loop with decode -i. */

#include <errno.h>
#include <float.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "cli/cli.h"
#include "io/input.h"
#include "job/draw.h"
#include "job/generate.h"
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
    "  -n, --count=N             at most N ids a line [until the end of the text]\n"
    "  -s, --seed=N              seed of the random numbers [a new one, shown]\n"
    "      --greedy              always the best token: --temp 0\n"
    "      --samplers=LIST       these samplers in this order, separated by ';'\n"
    "      --logit-bias=ID+X     add X to an id's logit (ID-X: subtract; ID-inf: ban)\n"
    "      --ignore-eos          never choose an end-of-generation id\n"
    "      --stop-ids=LIST       ids that end a line too, separated by ','\n"
    "      --probs=K             write the K best ids and their chances (0: all left)\n"
    "      --list-samplers       show the samplers, their options and defaults\n"
    "  -q, --quiet               no warnings, and no seed\n"
    "  -v, --verbose             show the samplers that run\n"
    "  -h, --help                show this help\n"
    "  -V, --version             show the version\n"
    "\n"
    "Options of the samplers [default, unless the model has its own; value for off]:\n";

enum { GREEDY = 256, SAMPLERS, LOGIT_BIAS, IGNORE_EOS, STOP_IDS, PROBS, LIST_SAMPLERS, PARAM };

static const struct option fixed_options[] = {
    { "count",         required_argument, NULL, 'n' },
    { "seed",          required_argument, NULL, 's' },
    { "greedy",        no_argument,       NULL, GREEDY },
    { "samplers",      required_argument, NULL, SAMPLERS },
    { "logit-bias",    required_argument, NULL, LOGIT_BIAS },
    { "ignore-eos",    no_argument,       NULL, IGNORE_EOS },
    { "stop-ids",      required_argument, NULL, STOP_IDS },
    { "probs",         required_argument, NULL, PROBS },
    { "list-samplers", no_argument,       NULL, LIST_SAMPLERS },
    { "quiet",         no_argument,       NULL, 'q' },
    { "verbose",       no_argument,       NULL, 'v' },
    { "help",          no_argument,       NULL, 'h' },
    { "version",       no_argument,       NULL, 'V' },
};

#define N_FIXED (sizeof fixed_options / sizeof *fixed_options)

/* Everything the command line says. */
struct args {
    struct lm_sampling sampling;
    bool               temp, seeded, counted;
    uint64_t           n;
    bool               chances;
    size_t             n_chances;
    int32_t           *stop;
    size_t             n_stop, stop_cap;
    bool               quiet, verbose;
};

static int show_help(void)
{
    printf("%s%s", usage, help);
    for (size_t i = 0; lm_param_at(i); i++) {
        const struct lm_param *p = lm_param_at(i);
        printf("      --%s=%s%*s%s [%.9g; %s]\n", p->option, p->arg,
               18 - (int)strlen(p->option), "", p->help, p->value, p->off);
    }
    return cli_finish(CLI_OK);
}

/* A line for each sampler in the default order, its parameters after it. */
static int list_samplers(void)
{
    for (size_t i = 0; lm_sampler_at(i); i++) {
        const struct lm_sampler *s = lm_sampler_at(i);
        printf("%s\t%c", s->name, s->letter);
        for (size_t j = 0; s->params[j]; j++)
            printf("\t--%s=%.9g", s->params[j]->option, s->params[j]->value);
        putchar('\n');
    }
    return cli_finish(CLI_OK);
}

static void set_param(struct args *a, const struct lm_param *p, const char *text)
{
    struct lm_err err;
    double v = p->whole ? (double)cli_i64(p->option, text, INT64_MIN, INT64_MAX)
                        : cli_f64(p->option, text, -INFINITY, INFINITY);
    if (lm_sampling_set(&a->sampling, p, v, &err) < 0)
        cli_bad_usage("%s", err.text);
    a->temp |= !strcmp(p->option, "temp");
}

/* ID+X or ID-X. */
static void add_bias(struct args *a, const char *text)
{
    struct lm_err err;
    char *sign, *end = NULL;
    errno = 0;
    unsigned long id = *text >= '0' && *text <= '9' ? strtoul(text, &sign, 10) : (sign = NULL, 0);
    double x = sign && (*sign == '+' || *sign == '-') ? strtod(sign, &end) : NAN;
    if (errno == ERANGE || !end || end == sign || *end || isnan(x) || id > INT32_MAX ||
        (isfinite(x) && fabs(x) > FLT_MAX))
        cli_bad_usage("--logit-bias: '%s' is not an id, + or -, and a number or inf", text);
    if (lm_sampling_bias(&a->sampling, (uint32_t)id, x, &err) < 0)
        cli_die_err(NULL, &err);
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

static void set_order(struct args *a, const char *list)
{
    struct lm_err err;
    if (lm_sampling_check_order(list, &err) < 0)
        cli_bad_usage("--samplers: %s", err.text);
    a->sampling.samplers = list;
}

/* One option; true if it asks for information that is now printed, with *status. */
static bool take_option(struct args *a, int c, const char *text, int *status)
{
    switch (c) {
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
    case IGNORE_EOS:    a->sampling.ignore_eos = true; break;
    case STOP_IDS:      add_stops(a, text); break;
    case PROBS:
        a->chances = true;
        a->n_chances = (size_t)cli_u64("probs", text, 0, INT32_MAX);
        break;
    case LIST_SAMPLERS: *status = list_samplers(); return true;
    case 'h':           *status = show_help(); return true;
    case 'V':           *status = cli_version(); return true;
    default:
        if (c < PARAM)
            cli_try_help();
        set_param(a, lm_param_at((size_t)(c - PARAM)), text);
    }
    return false;
}

/* The options of getopt: the fixed ones, then one a parameter. */
static bool read_options(struct args *a, int argc, char *argv[], int *status)
{
    struct option all[N_FIXED + 8 * LM_SAMPLER_PARAMS + 1] = { 0 };
    size_t n = N_FIXED;
    int c;
    memcpy(all, fixed_options, sizeof fixed_options);
    for (size_t i = 0; lm_param_at(i); i++)
        all[n++] = (struct option){ lm_param_at(i)->option, required_argument, NULL,
                                    PARAM + (int)i };
    while ((c = getopt_long(argc, argv, "n:s:qvhV", all, NULL)) != -1)
        if (take_option(a, c, optarg, status))
            return true;
    return false;
}

/* What one option means for another, and for the way the program is used. */
static void settle(struct args *a, bool loop)
{
    if (a->sampling.greedy && a->temp)
        cli_bad_usage("--greedy and --temp exclude each other");
    if (!loop && a->counted)
        cli_bad_usage("-n needs a command after --");
    if (!loop && a->n_stop)
        cli_bad_usage("--stop-ids needs a command after --");
    if (!a->seeded)
        a->sampling.seed = lm_new_seed();
}

/* Die as a program does that never heard of EPIPE; the shell sees 141. */
static _Noreturn void die_of_sigpipe(void)
{
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
    _Exit(CLI_TROUBLE);
}

static int run(const struct args *a, const char *path, char *const command[])
{
    struct lm_env env = cli_env((struct cli_env_options){ .quiet = a->quiet,
                                                          .verbose = a->verbose });
    bool tell_seed = !a->seeded;
    struct lm_err err;
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
        },
        .n       = a->n,
        .stop    = a->stop,
        .n_stop  = a->n_stop,
        .command = command,
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
    s = cli_out_commit(g.draw.out);
    return s > end.status ? s : end.status;
}

int main(int argc, char *argv[])
{
    struct args a = { .n = LM_UNTIL_END };
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
        settle(&a, command != NULL);
        status = cli_finish(run(&a, own > optind ? argv[optind] : "-", command));
    }
    lm_sampling_release(&a.sampling);
    free(a.stop);
    return status;
}
