/* SPDX-License-Identifier: MIT */
/* decode - run a model on tokens, giving the logits of what comes next. */

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/cpu.h"
#include "base/size.h"
#include "cli/cli.h"
#include "gguf/key_meaning.h"
#include "gguf/kv_arg.h"
#include "io/input.h"
#include "io/pipe.h"
#include "job/directions.h"
#include "job/evaluate.h"
#include "job/fit_context.h"
#include "job/profile.h"
#include "job/show_plan.h"
#include "job/tensor_device.h"
#include "job/watch.h"
#include "model/model.h"

static const char usage[] =
    "usage: decode [-hiqVv] [option ...] -m model [file]\n";

static const char help[] =
    "\n"
    "Run a model on sequences of token ids, one a line, and write logits: a stream\n"
    "for sample, or text.\n"
    "\n"
    "  -m, --model=FILE     the model, GGUF; again for each further file of it that\n"
    "                       is not called as shards are\n"
    "  -i, --loop           answer requests, a line each, as they come\n"
    "\n"
    "      --all            for every token, not only the last of each sequence\n"
    "      --attention=HOW  what tokens see: causal (what is before) or\n"
    "                       non-causal (all, with --embed); the model's\n"
    "      --chunk=N        with --nll: in chunks of N tokens\n"
    "      --embed          embeddings: a JSON array for each sequence\n"
    "      --encoder=FILE   texts of the model's encoder, a line for each sequence\n"
    "      --force          write to a terminal, too\n"
    "      --frames         with --embed: a stream of vectors\n"
    "      --header         with --text, --nll, --kl or ranks: name the columns first\n"
    "      --nll            text: the negative log-likelihood of every token\n"
    "      --normalize      with --embed: vectors of length 1\n"
    "      --pooling=HOW    with --embed: mean, cls, last, rank or none (the model's)\n"
    "      --kl=REF         text: divergence from a logits stream, for every token\n"
    "      --dump-tensor=REGEX  text: sums over the intermediates of that name\n"
    "      --profile        text: how long which operations take\n"
    "      --text           text: logit and log-probability of ids, best first\n"
    "      --top=K          the K best ids only\n"
    "\n"
    "  -b, --batch=N        tokens taken in at once (2048; --all and --nll: 512)\n"
    "  -c, --context=N      most tokens of a sequence (the model's training length)\n"
    "  -t, --threads=N      threads (the CPUs there are)\n"
    "      --threads-batch=N  for several tokens at once (as -t)\n"
    "      --cpus=LIST      use only these CPUs: 0-3,8 or a mask, 0xf\n"
    "  -u, --ubatch=N       tokens evaluated at once (512)\n"
    "      --fit=MARGIN     shorten context and batches until memory suffices, with\n"
    "                       MARGIN bytes left\n"
    "      --fit-context=N  with --fit: not below N tokens (4096)\n"
    "      --context-shift  one as long as the context goes on without\n"
    "                       its older half\n"
    "      --cache-k=TYPE   type of cached keys: f32, f16, bf16, q8_0, q5_0,\n"
    "                       q5_1, q4_0, q4_1, iq4_nl (f16)\n"
    "      --cache-v=TYPE   type of cached values (f16)\n"
    "      --keep=N         the first N tokens stay when a context is shifted\n"
    "      --keep-all       layers with a window remember all positions too\n"
    "      --device=LIST    compute on these devices, joined by commas, and on the\n"
    "                       CPU what is left (all there are)\n"
    "      --flash=HOW      attention in one pass: on or auto, not off (auto)\n"
    "      --draft-head     load the layer that predicts further tokens, for requests\n"
    "                       that ask it (with -i)\n"
    "      --exact          only on devices where batches do not change a bit of the\n"
    "                       results (the CPU is one)\n"
    "      --gpu-layers=N   only the last N layers on other devices than the CPU\n"
    "      --tensor-device=REGEX=DEVICE  the weights of these tensors on that device\n"
    "      --list-devices   name the devices there are, and exit\n"
    "      --plan           text: nodes, buffers and peak of the graph of -u tokens\n"
    "      --dot            the same graph, to be drawn by dot\n"
    "      --load=HOW       mmap, mlock (and keep it in memory), or read (mmap)\n"
    "      --lazy-rows=HOW  rows of tables for each layer stay in the file: on, off\n"
    "                       or auto (auto)\n"
    "      --check-tensors  look at every value of the model first\n"
    "      --lora=FILE[:SCALE]  add an adapter of low rank\n"
    "      --control-vector=FILE[:SCALE]  add vectors to the results of layers\n"
    "      --directions=FILE  instead of logits make a control vector: from the texts\n"
    "                       of FILE to those of the input, in pairs\n"
    "      --directions-by=HOW  by their pca or mean (pca)\n"
    "      --control-vector-layers=FIRST-LAST  only of these layers, from 0\n"
    "      --load-state=FILE  begin with the sequences saved there\n"
    "      --rope-scaling=HOW, --rope-scale=N, --rope-freq-scale=X,\n"
    "      --rope-freq-base=X, --yarn-orig-ctx=N, --yarn-ext-factor=X,\n"
    "      --yarn-attn-factor=X, --yarn-beta-fast=X, --yarn-beta-slow=X\n"
    "                       rotate positions in another way than the model says\n"
    "      --save-state=FILE  save all sequences when everything is done\n"
    "      --self-extend=N[:W]  beyond the training length: each W tokens (512) that\n"
    "                       others follow share positions, N one\n"
    "      --no-hadamard    round cached keys and values as they are\n"
    "      --no-repack      use weights as they lie in the file\n"
    "      --override-kv=KEY=TYPE:VALUE\n"
    "                       read this instead of the model's metadata\n"
    "\n"
    "      --progress       show progress even if stderr is no terminal\n"
    "  -q, --quiet          no warnings, no progress\n"
    "  -v, --verbose        say more\n"
    "  -h, --help           show this help\n"
    "  -V, --version        show the version\n";

enum {
    OPT_ALL = 256, OPT_ATTENTION, OPT_CACHE_K, OPT_CACHE_V, OPT_CHECK, OPT_CHUNK,
    OPT_CONTEXT_SHIFT, OPT_CONTROL_LAYERS, OPT_CONTROL_VECTOR, OPT_CPUS, OPT_DEVICE,
    OPT_DIRECTIONS, OPT_DIRECTIONS_BY, OPT_DOT, OPT_DRAFT, OPT_DUMP, OPT_EMBED, OPT_ENCODER,
    OPT_EXACT, OPT_FIT, OPT_FIT_CONTEXT, OPT_FLASH, OPT_FORCE, OPT_FRAMES, OPT_GPU_LAYERS,
    OPT_HEADER, OPT_KEEP, OPT_KEEP_ALL, OPT_KL, OPT_LAZY, OPT_LIST_DEVICES, OPT_LOAD,
    OPT_LOAD_STATE, OPT_LORA, OPT_NLL, OPT_NORMALIZE, OPT_NO_HADAMARD, OPT_NO_REPACK,
    OPT_OVERRIDE, OPT_PLAN, OPT_POOLING, OPT_PROFILE, OPT_PROGRESS, OPT_ROPE_BASE,
    OPT_ROPE_FREQ, OPT_ROPE_SCALE, OPT_ROPE_SCALING, OPT_SAVE_STATE, OPT_SELF_EXTEND,
    OPT_TENSOR_DEVICE, OPT_TEXT, OPT_THREADS_BATCH, OPT_TOP, OPT_YARN_ATTN, OPT_YARN_EXT,
    OPT_YARN_FAST, OPT_YARN_ORIG, OPT_YARN_SLOW
};

static const struct option options[] = {
    { "all",       no_argument,       NULL, OPT_ALL },
    { "attention", required_argument, NULL, OPT_ATTENTION },
    { "batch",     required_argument, NULL, 'b' },
    { "cache-k",   required_argument, NULL, OPT_CACHE_K },
    { "cache-v",   required_argument, NULL, OPT_CACHE_V },
    { "check-tensors", no_argument,   NULL, OPT_CHECK },
    { "chunk",     required_argument, NULL, OPT_CHUNK },
    { "context",   required_argument, NULL, 'c' },
    { "context-shift", no_argument,   NULL, OPT_CONTEXT_SHIFT },
    { "cpus",      required_argument, NULL, OPT_CPUS },
    { "device",    required_argument, NULL, OPT_DEVICE },
    { "directions", required_argument, NULL, OPT_DIRECTIONS },
    { "directions-by", required_argument, NULL, OPT_DIRECTIONS_BY },
    { "embed",     no_argument,       NULL, OPT_EMBED },
    { "encoder",   required_argument, NULL, OPT_ENCODER },
    { "fit",       required_argument, NULL, OPT_FIT },
    { "fit-context", required_argument, NULL, OPT_FIT_CONTEXT },
    { "flash",     required_argument, NULL, OPT_FLASH },
    { "force",     no_argument,       NULL, OPT_FORCE },
    { "frames",    no_argument,       NULL, OPT_FRAMES },
    { "gpu-layers", required_argument, NULL, OPT_GPU_LAYERS },
    { "header",    no_argument,       NULL, OPT_HEADER },
    { "help",      no_argument,       NULL, 'h' },
    { "tensor-device", required_argument, NULL, OPT_TENSOR_DEVICE },
    { "list-devices", no_argument,    NULL, OPT_LIST_DEVICES },
    { "lazy-rows", required_argument, NULL, OPT_LAZY },
    { "load",      required_argument, NULL, OPT_LOAD },
    { "keep",      required_argument, NULL, OPT_KEEP },
    { "keep-all",  no_argument,       NULL, OPT_KEEP_ALL },
    { "kl",        required_argument, NULL, OPT_KL },
    { "dump-tensor", required_argument, NULL, OPT_DUMP },
    { "exact",     no_argument,       NULL, OPT_EXACT },
    { "load-state", required_argument, NULL, OPT_LOAD_STATE },
    { "lora",      required_argument, NULL, OPT_LORA },
    { "control-vector", required_argument, NULL, OPT_CONTROL_VECTOR },
    { "control-vector-layers", required_argument, NULL, OPT_CONTROL_LAYERS },
    { "loop",      no_argument,       NULL, 'i' },
    { "model",     required_argument, NULL, 'm' },
    { "nll",       no_argument,       NULL, OPT_NLL },
    { "no-hadamard", no_argument,     NULL, OPT_NO_HADAMARD },
    { "no-repack", no_argument,       NULL, OPT_NO_REPACK },
    { "normalize", no_argument,       NULL, OPT_NORMALIZE },
    { "dot",       no_argument,       NULL, OPT_DOT },
    { "draft-head", no_argument,      NULL, OPT_DRAFT },
    { "plan",      no_argument,       NULL, OPT_PLAN },
    { "pooling",   required_argument, NULL, OPT_POOLING },
    { "override-kv", required_argument, NULL, OPT_OVERRIDE },
    { "profile",   no_argument,       NULL, OPT_PROFILE },
    { "progress",  no_argument,       NULL, OPT_PROGRESS },
    { "quiet",     no_argument,       NULL, 'q' },
    { "rope-freq-base", required_argument, NULL, OPT_ROPE_BASE },
    { "rope-freq-scale", required_argument, NULL, OPT_ROPE_FREQ },
    { "rope-scale", required_argument, NULL, OPT_ROPE_SCALE },
    { "rope-scaling", required_argument, NULL, OPT_ROPE_SCALING },
    { "yarn-attn-factor", required_argument, NULL, OPT_YARN_ATTN },
    { "yarn-beta-fast", required_argument, NULL, OPT_YARN_FAST },
    { "yarn-beta-slow", required_argument, NULL, OPT_YARN_SLOW },
    { "yarn-ext-factor", required_argument, NULL, OPT_YARN_EXT },
    { "yarn-orig-ctx", required_argument, NULL, OPT_YARN_ORIG },
    { "save-state", required_argument, NULL, OPT_SAVE_STATE },
    { "self-extend", required_argument, NULL, OPT_SELF_EXTEND },
    { "text",      no_argument,       NULL, OPT_TEXT },
    { "threads",   required_argument, NULL, 't' },
    { "threads-batch", required_argument, NULL, OPT_THREADS_BATCH },
    { "top",       required_argument, NULL, OPT_TOP },
    { "ubatch",    required_argument, NULL, 'u' },
    { "verbose",   no_argument,       NULL, 'v' },
    { "version",   no_argument,       NULL, 'V' },
    { 0 }
};

#define MAX_TOKENS (1u << 20)     /* of a batch: far above what is of use     */
#define PIPE_ROOM  (1u << 20)     /* what a pipe is asked to hold, bytes      */

struct adapter {
    char              *path;
    float              scale;
    bool               vector;
    struct lm_adapter *a;
};

static struct {
    const char              *model, *file, *encoder, *load_state, *save_state, *kl, *dump;
    bool                     loop, text, nll, force, list_devices, pooled, plan, dot, profile;
    struct lm_arena          arena;      /* what the overrides point to */
    struct lm_gguf_kv       *overrides;
    size_t                   overrides_cap;
    const char             **shards;     /* further operands of -m */
    size_t                   shards_cap;
    const char              *directions;
    enum lm_directions_by    by;
    bool                     by_given;
    uint32_t                 steer_first, steer_end;    /* as in struct lm_adapted */
    bool                     fit;
    uint64_t                 fit_margin;
    uint32_t                 fit_least;
    bool                     fit_least_given, keep_given, file_given;
    struct adapter          *adapters;
    size_t                   n_adapters, adapters_cap;
    struct lm_tensor_devices *tensor_devices;
    struct lm_model_options  load;
    struct lm_ctx_options    ctx;
    struct lm_eval_options   eval;
    struct cli_env_options   env;
} opt = { .fit_least = 4096, .by = LM_DIRECTIONS_PCA };

static const struct lm_type *cache_type(const char *name, const char *value)
{
    static const char *const names[] = {
        "f32", "f16", "bf16", "q8_0", "q5_0", "q5_1", "q4_0", "q4_1", "iq4_nl", NULL
    };
    return lm_type_by_name(names[cli_choice(name, value, names)]);
}

static uint32_t number(const char *name, uint32_t min, uint32_t max)
{
    return (uint32_t)cli_u64(name, optarg, min, max);
}

/* Positions in another way than the model says: each is an entry of the metadata. */
static struct { int c; const char *name, *key; bool yarn, given; } ropes[] = {
    { OPT_ROPE_BASE,  "rope-freq-base",   ".rope.freq_base", false, false },
    { OPT_ROPE_SCALING, "rope-scaling",   ".rope.scaling.type", false, false },
    { OPT_ROPE_SCALE, "rope-scale",       ".rope.scaling.factor", false, false },
    { OPT_ROPE_FREQ,  "rope-freq-scale",  ".rope.scaling.factor", false, false },
    { OPT_YARN_ORIG,  "yarn-orig-ctx", ".rope.scaling.original_context_length", true, false },
    { OPT_YARN_EXT,   "yarn-ext-factor",  ".rope.scaling.yarn_ext_factor", true, false },
    { OPT_YARN_ATTN,  "yarn-attn-factor", ".rope.scaling.yarn_attn_factor", true, false },
    { OPT_YARN_FAST,  "yarn-beta-fast",   ".rope.scaling.yarn_beta_fast", true, false },
    { OPT_YARN_SLOW,  "yarn-beta-slow",   ".rope.scaling.yarn_beta_slow", true, false },
};

static void add_kv(struct lm_gguf_kv kv)
{
    size_t n = opt.load.n_overrides;
    if (!lm_grow(&opt.overrides, &opt.overrides_cap, n + 1, sizeof *opt.overrides))
        cli_die(CLI_TROUBLE, "out of memory");
    opt.overrides[n] = kv;
    opt.load.overrides = opt.overrides;
    opt.load.n_overrides = n + 1;
}

static void add_rope(int c, const char *arg)
{
    static const char *const scalings[] = { "none", "linear", "yarn", "dynamic", NULL };
    size_t i = 0;
    while (ropes[i].c != c)
        i++;
    const char *name = ropes[i].name;
    struct lm_gguf_kv kv = { .key = { ropes[i].key, strlen(ropes[i].key) } };
    if (c == OPT_ROPE_SCALING) {
        const char *how = scalings[cli_choice(name, arg, scalings)];
        kv.kind = LM_GGUF_STR;
        kv.str = (struct lm_str){ how, strlen(how) };
    } else if (c == OPT_YARN_ORIG) {
        kv.kind = LM_GGUF_U32;
        kv.u = number(name, 1, INT32_MAX);
    } else {
        double v = cli_f64(name, arg, c == OPT_YARN_EXT || c == OPT_YARN_ATTN ? 0 : 1e-6, 1e12);
        kv.kind = LM_GGUF_F32;
        kv.f = c == OPT_ROPE_FREQ ? 1 / v : v;
    }
    add_kv(kv);
    ropes[i].given = true;
}

/* What a model has no use for is not left out silently. */
static void check_ropes(const struct lm_model *m, const struct lm_env *env)
{
    for (size_t i = 0; i < sizeof ropes / sizeof *ropes; i++) {
        if (!ropes[i].given)
            continue;
        if (!lm_model_reads(m, ropes[i].key + 1))
            cli_die(CLI_TROUBLE, "%s: a %s model has no %s: no --%s", opt.model, lm_model_arch(m),
                    ropes[i].key + 1, ropes[i].name);
        if (ropes[i].yarn && !(ropes[i].c == OPT_YARN_ORIG ? lm_model_has_first_length(m)
                                                           : lm_model_has_yarn(m)))
            lm_note(env, LM_WARN, "%s: --%s has no effect: the model's positions are not "
                    "stretched by YaRN: use --rope-scaling=yarn", opt.model, ropes[i].name);
    }
}

static void add_attention(void)
{
    static const char key[] = ".attention.causal";
    static const char *const names[] = { "non-causal", "causal", NULL };
    add_kv((struct lm_gguf_kv){ .key = { key, sizeof key - 1 }, .kind = LM_GGUF_BOOL,
                                .u = cli_choice("attention", optarg, names) });
}

static void add_override(const char *arg)
{
    struct lm_err err;
    struct lm_gguf_kv kv;
    if (lm_kv_arg(arg, &opt.arena, &kv, &err))
        cli_bad_usage("--override-kv: %s", err.text);
    add_kv(kv);
}

/* FILE[:SCALE]; what follows the last colon is the scale if it is a number. */
static void add_adapter(const char *arg, bool vector)
{
    struct adapter x = { .path = strdup(arg), .scale = 1, .vector = vector };
    char *colon = x.path ? strrchr(x.path, ':') : NULL, *end;
    if (!x.path || !lm_grow(&opt.adapters, &opt.adapters_cap, opt.n_adapters + 1,
                            sizeof *opt.adapters))
        cli_die(CLI_TROUBLE, "out of memory");
    if (colon && colon[1]) {
        float scale = strtof(colon + 1, &end);
        if (!*end && isfinite(scale)) {
            x.scale = scale;
            *colon = 0;
        }
    }
    opt.adapters[opt.n_adapters++] = x;
}

/* -m: the model, then what else belongs to it. */
static void add_model(const char *path)
{
    size_t n = opt.load.n_shards;
    if (!opt.model) {
        opt.model = path;
        return;
    }
    if (!lm_grow(&opt.shards, &opt.shards_cap, n + 1, sizeof *opt.shards))
        cli_die(CLI_TROUBLE, "out of memory");
    opt.shards[n] = path;
    opt.load.shards = opt.shards;
    opt.load.n_shards = n + 1;
}

/* FIRST-LAST */
static void take_layers(char *arg)
{
    char *line = strchr(arg, '-');
    if (!line)
        cli_bad_usage("--control-vector-layers: %s is no FIRST-LAST", arg);
    *line = 0;
    opt.steer_first = (uint32_t)cli_u64("control-vector-layers", arg, 0, LM_MAX_LAYERS - 1);
    opt.steer_end = (uint32_t)cli_u64("control-vector-layers", line + 1, opt.steer_first,
                                      LM_MAX_LAYERS - 1) + 1;
}

/* N, or N:W. */
static void take_groups(char *arg)
{
    char *colon = strchr(arg, ':');
    opt.eval.group = colon ? (uint32_t)cli_u64("self-extend", colon + 1, 1, INT32_MAX) : 512;
    if (colon)
        *colon = 0;
    opt.eval.divide = (uint32_t)cli_u64("self-extend", arg, 2, INT32_MAX);
}

static void use_cpus(const char *list)
{
    struct lm_err err;
    if (lm_cpu_use(list, &err))
        cli_die(CLI_TROUBLE, "--cpus: %s", err.text);
}

static void add_tensor_device(const char *rule)
{
    struct lm_err err;
    if (lm_tensor_devices_add(&opt.tensor_devices, rule, &err))
        cli_bad_usage("--tensor-device: %s", err.text);
    opt.load.placement.choose = lm_tensor_devices_choose;
    opt.load.placement.choose_arg = opt.tensor_devices;
}

/* An option that says which model is loaded, how, and where to; false if it is another. */
static bool take_model_option(int c)
{
    static const char *const ways[] = {
        [LM_LOAD_MMAP] = "mmap", [LM_LOAD_READ] = "read", [LM_LOAD_MLOCK] = "mlock", NULL
    };
    static const char *const lazy[] = {
        [LM_LAZY_AUTO] = "auto", [LM_LAZY_ON] = "on", [LM_LAZY_OFF] = "off", NULL
    };
    switch (c) {
    case OPT_ROPE_BASE: case OPT_ROPE_FREQ: case OPT_ROPE_SCALE: case OPT_ROPE_SCALING:
    case OPT_YARN_ATTN: case OPT_YARN_EXT: case OPT_YARN_FAST: case OPT_YARN_ORIG:
    case OPT_YARN_SLOW:
        add_rope(c, optarg);
        break;
    case OPT_CHECK:     opt.load.check = true; break;
    case OPT_DEVICE:    opt.load.placement.devices = optarg; break;
    case OPT_DRAFT:     opt.load.draft_head = opt.ctx.draft_head = true; break;
    case OPT_EXACT:     opt.load.placement.exact = true; break;
    case OPT_GPU_LAYERS:
        opt.load.placement.some_layers = true;
        opt.load.placement.n_layers = number("gpu-layers", 0, INT32_MAX);
        break;
    case OPT_LAZY:      opt.load.lazy = (enum lm_lazy)cli_choice("lazy-rows", optarg, lazy); break;
    case OPT_LOAD:      opt.load.load = (enum lm_load)cli_choice("load", optarg, ways); break;
    case OPT_LORA:      add_adapter(optarg, false); break;
    case OPT_CONTROL_VECTOR: add_adapter(optarg, true); break;
    case OPT_CONTROL_LAYERS: take_layers(optarg); break;
    case OPT_NO_REPACK: opt.load.no_repack = true; break;
    case OPT_OVERRIDE:  add_override(optarg); break;
    case OPT_TENSOR_DEVICE: add_tensor_device(optarg); break;
    case 'm':           add_model(optarg); break;
    default:            return false;
    }
    return true;
}

static void take_option(int c)
{
    static const char *const poolings[] = {
        [LM_POOLING_NONE] = "none", [LM_POOLING_MEAN] = "mean", [LM_POOLING_CLS] = "cls",
        [LM_POOLING_LAST] = "last", [LM_POOLING_RANK] = "rank", NULL
    };
    static const char *const ways_by[] = {
        [LM_DIRECTIONS_MEAN] = "mean", [LM_DIRECTIONS_PCA] = "pca", NULL
    };
    static const char *const flash[] = { "auto", "on", "off", NULL };
    switch (c) {
    case OPT_ALL:       opt.eval.all = true; break;
    case OPT_ATTENTION: add_attention(); break;
    case OPT_CACHE_K:   opt.ctx.cache_k = cache_type("cache-k", optarg); break;
    case OPT_CACHE_V:   opt.ctx.cache_v = cache_type("cache-v", optarg); break;
    case OPT_CPUS:      use_cpus(optarg); break;
    case OPT_FIT:
        opt.fit = true;
        opt.fit_margin = cli_u64("fit", optarg, 0, INT64_MAX);
        break;
    case OPT_FIT_CONTEXT:
        opt.fit_least = number("fit-context", 1, INT32_MAX);
        opt.fit_least_given = true;
        break;
    case OPT_THREADS_BATCH: opt.env.n_threads_batch = cli_threads("threads-batch", optarg); break;
    case OPT_DIRECTIONS: opt.directions = optarg; break;
    case OPT_DIRECTIONS_BY:
        opt.by = (enum lm_directions_by)cli_choice("directions-by", optarg, ways_by);
        opt.by_given = true;
        break;
    case OPT_CHUNK:     opt.eval.chunk = number("chunk", 2, INT32_MAX); break;
    case OPT_EMBED:     opt.ctx.embed = true; break;
    case OPT_ENCODER:   opt.encoder = optarg; break;
    case OPT_FRAMES:    opt.eval.frames = true; break;
    case OPT_NORMALIZE: opt.eval.normalize = true; break;
    case OPT_POOLING:
        opt.pooled = true;
        opt.eval.pooling = (enum lm_pooling)cli_choice("pooling", optarg, poolings);
        break;
    case OPT_CONTEXT_SHIFT: opt.eval.shift = true; break;
    case OPT_SELF_EXTEND: take_groups(optarg); break;
    case OPT_FLASH:
        if (cli_choice("flash", optarg, flash) == 2)
            cli_die(CLI_TROUBLE, "--flash=off: attention is always computed in one pass");
        break;
    case OPT_FORCE:     opt.force = true; break;
    case OPT_LIST_DEVICES: opt.list_devices = true; break;
    case OPT_NO_HADAMARD: opt.ctx.no_hadamard = true; break;
    case OPT_KEEP:
        opt.eval.n_keep = number("keep", 0, INT32_MAX);
        opt.keep_given = true;
        break;
    case OPT_KEEP_ALL:  opt.ctx.keep_all = true; break;
    case OPT_KL:        opt.kl = optarg; break;
    case OPT_DUMP:      opt.dump = optarg; break;
    case OPT_PLAN:      opt.plan = true; break;
    case OPT_DOT:       opt.dot = true; break;
    case OPT_HEADER:    opt.eval.heading = true; break;
    case OPT_LOAD_STATE: opt.load_state = optarg; break;
    case OPT_SAVE_STATE: opt.save_state = optarg; break;
    case OPT_NLL:       opt.nll = true; break;
    case OPT_PROFILE:   opt.profile = true; break;
    case OPT_PROGRESS:  opt.env.progress = true; break;
    case OPT_TEXT:      opt.text = true; break;
    case OPT_TOP:       opt.eval.top = number("top", 1, INT32_MAX); break;
    case 'b':           opt.ctx.n_batch = number("batch", 1, MAX_TOKENS); break;
    case 'c':           opt.ctx.n_ctx = number("context", 1, INT32_MAX); break;
    case 'i':           opt.loop = opt.eval.loop = true; break;
    case 'q':           opt.env.quiet = true; break;
    case 't':           opt.env.n_threads = cli_threads("threads", optarg); break;
    case 'u':           opt.ctx.n_ubatch = number("ubatch", 1, MAX_TOKENS); break;
    case 'v':           opt.env.verbose = true; break;
    default:
        if (!take_model_option(c))
            cli_try_help();
    }
}

/* Speed, and whether graphs were kept, with -v. */
static void tell_counts(const struct lm_ctx *c, const struct lm_env *env)
{
    struct lm_counts n;
    lm_ctx_counts(c, &n);
    lm_note(env, LM_INFO, "%" PRIu64 " tokens together in %.3f s, %" PRIu64 " one by one in %.3f s;"
            " graphs: %" PRIu64 " built, %" PRIu64 " used again", n.tokens[1], n.seconds[1],
            n.tokens[0], n.seconds[0], n.built, n.reused);
}

/* Options that say how another one works. */
static void check_partners(void)
{
    if (opt.keep_given && !opt.eval.shift)
        cli_bad_usage("--keep needs --context-shift");
    if (opt.fit_least_given && !opt.fit)
        cli_bad_usage("--fit-context needs --fit");
    bool vector = false;
    for (size_t i = 0; i < opt.n_adapters; i++)
        vector |= opt.adapters[i].vector;
    if (opt.steer_end && !vector)
        cli_bad_usage("--control-vector-layers needs --control-vector");
    if (opt.by_given && !opt.directions)
        cli_bad_usage("--directions-by needs --directions");
    if (opt.eval.chunk && !opt.nll)
        cli_bad_usage("--chunk needs --nll");
    if (opt.ctx.draft_head && !opt.loop)
        cli_bad_usage("--draft-head is for requests: it needs -i");
    if (opt.eval.heading && !opt.text && !opt.nll && !opt.kl && !opt.ctx.embed)
        cli_bad_usage("--header needs --text, --nll, --kl or --embed");
    if (!opt.ctx.embed && (opt.pooled || opt.eval.normalize || opt.eval.frames))
        cli_bad_usage("--%s needs --embed", opt.pooled ? "pooling" : opt.eval.normalize
                      ? "normalize" : "frames");
}

/* Nothing is evaluated: what would be says nothing. */
static void check_plan(const char *mode)
{
    if (opt.file_given)
        cli_bad_usage("--%s evaluates nothing: no %s", mode, opt.file);
    if (opt.encoder || opt.eval.top)
        cli_bad_usage("--%s evaluates nothing: no --%s", mode, opt.encoder ? "encoder" : "top");
}

/* Sequences longer than the context, or than the model was trained for. */
static void check_long(const char *mode)
{
    const char *how = opt.eval.shift ? "context-shift" : "self-extend";
    if (!opt.eval.shift && !opt.eval.divide)
        return;
    if (opt.eval.shift && opt.eval.divide)
        cli_bad_usage("--context-shift and --self-extend exclude each other");
    if (opt.ctx.embed || opt.directions || opt.plan || opt.dot)
        cli_bad_usage("--%s is of sequences that go on: no --%s", how, mode);
    if (opt.eval.chunk)
        cli_bad_usage("--chunk and --%s exclude each other", how);
}

/* What does not go together, and what follows from what was asked for. */
static void check_options(void)
{
    if (!opt.model)
        cli_bad_usage("no model: use -m");
    check_partners();
    static const char *const names[] = { "text", "nll", "kl", "dump-tensor", "embed", "plan",
                                         "dot", "directions", "profile" };
    const bool modes[] = { opt.text, opt.nll, opt.kl != NULL, opt.dump != NULL, opt.ctx.embed,
                           opt.plan, opt.dot, opt.directions != NULL, opt.profile };
    const char *mode = NULL;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (modes[i] && mode)
            cli_bad_usage("--%s and --%s exclude each other", mode, names[i]);
        mode = modes[i] ? names[i] : mode;
    }
    if (opt.loop && (mode || opt.eval.all))
        cli_bad_usage("-i answers with frames, as many as a request asks for: no --%s",
                      mode ? mode : "all");
    if (opt.kl && (opt.eval.all || opt.eval.top))
        cli_bad_usage("--kl is of every token and of all ids: no --%s",
                      opt.eval.top ? "top" : "all");
    if (opt.directions && (opt.eval.all || opt.eval.top || opt.eval.chunk || opt.encoder ||
                           opt.load_state || opt.save_state))
        cli_bad_usage("--directions are of whole texts from the start, and no logits");
    if (opt.directions && strcmp(opt.directions, "-") == 0 && strcmp(opt.file, "-") == 0)
        cli_bad_usage("--directions: standard input is for the other texts");
    if (opt.kl && strcmp(opt.kl, "-") == 0 && strcmp(opt.file, "-") == 0)
        cli_bad_usage("--kl: standard input is for the tokens");
    if (opt.nll && (opt.eval.all || opt.eval.top))
        cli_bad_usage("--nll is of every token and of one id: no --%s",
                      opt.eval.top ? "top" : "all");
    if (opt.eval.chunk && (opt.load_state || opt.save_state))
        cli_bad_usage("--chunk forgets: no --%s-state", opt.save_state ? "save" : "load");
    if (opt.save_state && strcmp(opt.save_state, "-") == 0)
        cli_bad_usage("--save-state: standard output is for the answers");
    if (opt.load_state && strcmp(opt.load_state, "-") == 0 && strcmp(opt.file, "-") == 0)
        cli_bad_usage("--load-state: standard input is for the tokens");
    if ((opt.load_state || opt.save_state) && (opt.ctx.embed || opt.plan || opt.dot))
        cli_bad_usage("--%s-state is of sequences that go on: no --%s",
                      opt.load_state ? "load" : "save", mode);
    opt.eval.keep = opt.load_state || opt.save_state;
    check_long(mode);
    if (opt.plan || opt.dot)
        check_plan(mode);
    if (opt.encoder && (opt.loop || opt.ctx.embed || opt.eval.chunk))
        cli_bad_usage("--encoder is for whole sequences of a batch: no %s", opt.loop ? "-i"
                      : opt.eval.chunk ? "--chunk" : "--embed");
    if (opt.encoder && strcmp(opt.encoder, "-") == 0 && strcmp(opt.file, "-") == 0)
        cli_bad_usage("--encoder: standard input is for the decoder's tokens");
    if (opt.eval.heading && opt.eval.frames)
        cli_bad_usage("--header is for lines: no --frames");
    if (opt.ctx.embed && (opt.eval.all || opt.eval.top))
        cli_bad_usage("--embed writes vectors: no --%s", opt.eval.all ? "all" : "top");
    opt.eval.form = opt.ctx.embed ? LM_EVAL_EMBED
                    : opt.text    ? LM_EVAL_TEXT
                    : opt.nll     ? LM_EVAL_NLL
                    : opt.kl      ? LM_EVAL_KL
                    : opt.dump || opt.profile ? LM_EVAL_NOTHING
                                  : LM_EVAL_FRAMES;
    /* All rows of a batch are in memory at once: with a row a token, fewer of them. */
    if (!opt.ctx.n_batch && (opt.eval.all || opt.nll || opt.kl))
        opt.ctx.n_batch = 512;
}

/* A line a device: name, free and all memory in bytes (0: not known), what it is. */
static int list_devices(const struct lm_env *env)
{
    struct lm_err err;
    struct lm_devices *all = lm_devices_open(env, &err);
    if (!all)
        cli_die_err(NULL, &err);
    for (size_t i = 0; i < lm_devices_n(all); i++) {
        const struct lm_device *d = lm_devices_at(all, i);
        uint64_t left, size;
        char text[200];
        d->ops->memory(d, &left, &size);
        d->ops->describe(d, text, sizeof text);
        printf("%s\t%" PRIu64 "\t%" PRIu64 "\t%s\n", d->ops->name(d), left, size, text);
    }
    lm_devices_close(all);
    return cli_finish(CLI_OK);
}

static struct lm_in *open_input(const char *file, int flags)
{
    struct lm_err err;
    struct lm_in *in = lm_in_open(file, flags, &err);
    if (!in)
        cli_die_err(strcmp(file, "-") ? file : "<stdin>", &err);
    return in;
}

/* As asked for, or the model's file says; without that, the mean of an encoder's vectors, else
 * the last. */
static void choose_pooling(const struct lm_model *m)
{
    if (lm_model_is_encoder(m) && (opt.plan || opt.dot || opt.dump || opt.profile))
        opt.ctx.embed = true;           /* it has nothing else to be looked at */
    if (!opt.ctx.embed)
        return;
    if (!opt.pooled)
        opt.eval.pooling = lm_model_pooling_default(m);
    const bool rank = opt.eval.pooling == LM_POOLING_RANK;
    if (rank && !lm_model_n_labels(m))
        cli_die(CLI_TROUBLE, "%s: the model has no classifier: use another --pooling than rank",
                opt.model);
    if (rank && opt.eval.normalize)
        cli_bad_usage("--pooling=rank gives no vectors: no --normalize");
    if (!rank && opt.eval.heading)
        cli_bad_usage("--embed has labels with --pooling=rank only: no --header");
    opt.ctx.pairs = rank;
}

/* A key that nobody knows may be misspelt. */
static void check_overrides(const struct lm_model *m, const struct lm_env *env)
{
    const char *arch = lm_model_arch(m);
    const size_t len = strlen(arch);
    for (size_t i = 0; i < opt.load.n_overrides; i++) {
        const char *key = opt.load.overrides[i].key.p;
        const bool own = strncmp(key, arch, len) == 0 && key[len] == '.';
        if (*key != '.' && !lm_key_meaning(key, arch) && !(own && lm_model_reads(m, key + len + 1)))
            lm_note(env, LM_WARN, "%s: --override-kv: a %s model has no use for %s", opt.model,
                    arch, key);
    }
}

/* As long a context and as large batches as the memory has room for. */
static void fit(struct lm_model *m, uint64_t room, const struct lm_env *env)
{
    struct lm_err err;
    struct lm_footprint found;
    const uint32_t trained = lm_model_n_ctx_train(m);
    struct lm_fit f = {
        .most = { .n_ctx = opt.ctx.n_ctx ? opt.ctx.n_ctx : trained,
                  .n_ubatch = opt.ctx.n_ubatch ? opt.ctx.n_ubatch : 512,
                  .cache_k = opt.ctx.cache_k, .cache_v = opt.ctx.cache_v },
        .room = room, .least = opt.fit_least, .keep_ubatch = opt.ctx.n_ubatch,
        .keep_all = opt.ctx.keep_all,
        .position = opt.ctx.draft_head ? sizeof(float) * (lm_model_n_embd(m) + UINT64_C(1)) : 0,
    };
    size_t n = 0;
    while (lm_model_file(m, n))
        n++;
    const struct lm_gguf **files = lm_malloc_array(n, sizeof *files);
    for (size_t i = 0; files && i < n; i++)
        files[i] = lm_model_file(m, i);
    if (!files)
        cli_die(CLI_TROUBLE, "out of memory");
    const int bad = lm_fit_context(files, n, &f, &found, &err);
    free(files);
    if (bad) {
        lm_model_free(m);
        cli_die(CLI_TROUBLE, "%s: --fit: %s", opt.model, err.text);
    }
    opt.ctx.n_ctx = (uint32_t)found.n_ctx;
    opt.ctx.n_ubatch = found.n_ubatch;
    lm_note(env, LM_INFO, "a context of %" PRIu64 ", %u tokens at once: %" PRIu64 " bytes",
            found.n_ctx, found.n_ubatch, lm_fit_bytes(&found, opt.ctx.keep_all));
}

/* The model; with --fit the context is chosen by what memory there was before. */
static struct lm_model *open_model(const struct lm_env *env)
{
    struct lm_err err;
    uint64_t left = 0, all;
    if (opt.fit)
        lm_cpu_memory(&left, &all);
    if (opt.fit && !left)
        cli_die(CLI_TROUBLE, "--fit: how much memory there is is not known");
    struct lm_model *m = lm_model_load(opt.model, &opt.load, env, &err);
    if (!m)
        cli_die_err(opt.model, &err);
    check_ropes(m, env);
    check_overrides(m, env);
    const char *rule = lm_tensor_devices_unused(opt.tensor_devices);
    if (rule)
        lm_note(env, LM_WARN, "--tensor-device=%s: no tensor is left that it is of", rule);
    if (opt.fit)
        fit(m, left > opt.fit_margin ? left - opt.fit_margin : 0, env);
    return m;
}

static struct lm_ctx *open_context(struct lm_model *m, const struct lm_env *env)
{
    struct lm_err err;
    if (opt.ctx.n_ctx > lm_model_n_ctx_train(m) && !opt.eval.divide) {
        lm_note(env, LM_WARN, "%s: -c %u: the model was trained for %u tokens, which is the most",
                opt.model, opt.ctx.n_ctx, lm_model_n_ctx_train(m));
        opt.ctx.n_ctx = 0;
    }
    struct lm_ctx *c = lm_ctx_new(m, &opt.ctx, env, &err);
    if (!c)
        cli_die_err(opt.model, &err);
    return c;
}

/* Load what --lora and --control-vector name. */
static void load_adapters(struct lm_model *m, struct lm_ctx *c)
{
    struct lm_err err;
    if (opt.steer_end && opt.steer_first >= lm_model_n_layer(m))
        cli_die(CLI_TROUBLE, "%s: --control-vector-layers: the model has %u layers, from 0",
                opt.model, lm_model_n_layer(m));
    struct lm_adapted *list = lm_malloc_array(opt.n_adapters, sizeof *list);
    if (!list)
        cli_die(CLI_TROUBLE, "out of memory");
    for (size_t i = 0; i < opt.n_adapters; i++) {
        struct adapter *x = &opt.adapters[i];
        if (!(x->a = lm_adapter_load(m, x->path, &err)))
            cli_die_err(x->path, &err);
        if (lm_adapter_is_vector(x->a) != x->vector)
            cli_die(CLI_NO, "%s: this is %s", x->path,
                    x->vector ? "an adapter of low rank: use --lora"
                              : "a control vector: use --control-vector");
        list[i] = (struct lm_adapted){ x->a, x->scale, opt.steer_first, opt.steer_end };
    }
    if (opt.n_adapters && lm_ctx_adapt(c, list, opt.n_adapters, &err))
        cli_die_err(opt.n_adapters == 1 ? opt.adapters[0].path : opt.model, &err);
    free(list);
}

static void free_adapters(void)
{
    for (size_t i = 0; i < opt.n_adapters; i++) {
        lm_adapter_free(opt.adapters[i].a);
        free(opt.adapters[i].path);
    }
    free(opt.adapters);
    free(opt.shards);
    lm_tensor_devices_free(opt.tensor_devices);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void load_state(struct lm_ctx *c)
{
    struct lm_err err;
    struct lm_in *in = lm_in_open(opt.load_state, 0, &err);
    const bool bad = !in || lm_ctx_load(c, in, &err);
    lm_in_close(in);
    if (bad)
        cli_die_err(opt.load_state, &err);
}

/* Everything, into a file that appears when it is complete. */
static int save_state(const struct lm_ctx *c, struct lm_out *out)
{
    struct lm_err err;
    if (lm_ctx_save(c, NULL, out, &err) == LM_OK)
        return cli_out_commit(out);
    cli_out_abort(out);
    return cli_report(opt.save_state, &err);
}

/* --plan, --dot: of as many tokens as are evaluated at once. */
static int show_plan(struct lm_out *out, const struct lm_env *env)
{
    struct lm_err err;
    struct lm_model *m = open_model(env);
    choose_pooling(m);
    struct lm_ctx *c = open_context(m, env);
    load_adapters(m, c);
    size_t n = lm_ctx_n_ubatch(c), n_out = opt.eval.all ? n : 1;
    int s = (opt.dot ? lm_show_dot : lm_show_plan)(c, n, n_out, out, &err);
    if (s)
        cli_report(NULL, &err);
    lm_ctx_free(c);
    free_adapters();
    lm_model_free(m);
    return cli_status(s);
}

/* --directions: pairs of texts, the input's against the file's. */
static int make_directions(struct lm_out *out, const struct lm_env *env)
{
    struct lm_err err;
    struct lm_in *second = open_input(opt.directions, 0), *first = open_input(opt.file, 0);
    struct lm_model *m = open_model(env);
    if (lm_model_has_encoder(m) || lm_model_is_encoder(m))
        cli_die(CLI_TROUBLE, "%s: --directions are not made of a %s model", opt.model,
                lm_model_arch(m));
    struct lm_ctx *c = open_context(m, env);
    load_adapters(m, c);
    const int s = lm_directions_write(m, c, first, second, opt.by, out, env, &err);
    const int status = s ? cli_report(NULL, &err) : CLI_OK;
    lm_in_close(first);
    lm_in_close(second);
    lm_ctx_free(c);
    free_adapters();
    lm_model_free(m);
    return status;
}

static struct lm_divergence *open_reference(struct lm_in *in, const struct lm_model *m)
{
    struct lm_err err;
    struct lm_divergence *d = lm_divergence_open(in, lm_model_n_vocab(m), &err);
    if (!d) {
        lm_in_close(in);
        cli_die_err(NULL, &err);
    }
    return d;
}

/* One line, also with -q: it was asked for. */
static void tell_divergence(const struct lm_divergence *d)
{
    struct lm_divergence_sum s;
    lm_divergence_sum(d, &s);
    char ref[96];
    if (s.n_ref == s.n)
        snprintf(ref, sizeof ref, "the reference's %.6g", exp(s.ref_nll));
    else
        snprintf(ref, sizeof ref, "the reference has %" PRIu64 " of the tokens among its best ids",
                 s.n_ref);
    cli_warn("%" PRIu64 " tokens: KL %.6g on average, %.6g at most; the same best id for %.2f%%; "
             "perplexity %.6g, %s", s.n, s.mean, s.most,
             100 * (double)s.same_best / (s.n ? (double)s.n : 1), exp(s.nll), ref);
}

/* An encoder's texts are for models that have one beside their decoder, and needed there. */
static void check_encoder(const struct lm_model *m)
{
    if (opt.ctx.embed && lm_model_has_encoder(m))
        cli_die(CLI_TROUBLE, "%s: a %s model has an encoder beside its decoder: no --embed",
                opt.model, lm_model_arch(m));
    if (opt.encoder && !lm_model_has_encoder(m))
        cli_die(CLI_TROUBLE, "%s: a %s model has no encoder beside a decoder: no --encoder",
                opt.model, lm_model_arch(m));
    if (!opt.encoder && !opt.loop && !opt.load_state && lm_model_has_encoder(m))
        cli_die(CLI_TROUBLE, "%s: a %s model needs texts for its encoder: use --encoder", opt.model,
                lm_model_arch(m));
}

/* A named file can be opened, and found missing, before the model is read: NULL for standard
 * input, or where there is none. */
static struct lm_in *open_named(const char *file)
{
    return file && strcmp(file, "-") ? open_input(file, 0) : NULL;
}

/* The header goes out before standard input is touched, so that who waits for it may
 * write later. */
static int run(struct lm_out *out, const struct lm_env *env)
{
    struct lm_err err;
    struct lm_in *in = opt.loop ? NULL : open_named(opt.file);
    struct lm_in *texts = open_named(opt.encoder), *ref = NULL;
    struct lm_watch *watch = NULL;
    if (opt.kl && !(ref = lm_in_open(opt.kl, 0, &err)))
        cli_die_err(opt.kl, &err);
    struct lm_model *m = open_model(env);
    check_encoder(m);
    choose_pooling(m);
    struct lm_ctx *c = open_context(m, env);
    load_adapters(m, c);
    if (opt.load_state)
        load_state(c);
    /* That it cannot be written should not be found out when all is done. */
    struct lm_out *state = opt.save_state ? cli_out_open(opt.save_state, true, opt.force) : NULL;
    opt.eval.ref = ref ? open_reference(ref, m) : NULL;
    if (opt.dump && !(watch = lm_watch_begin(c, opt.dump, out, &err)))
        cli_bad_usage("--dump-tensor: %s", err.text);
    struct lm_profile *profile = opt.profile ? lm_profile_begin(c, &err) : NULL;
    if (opt.profile && !profile)
        cli_die_err(NULL, &err);
    struct lm_eval *e = lm_eval_new(m, c, base_name(opt.model), &opt.eval, out, env, &err);
    if (!e)
        cli_die_err(opt.model, &err);

    int s = lm_eval_head(e, &err);
    if (!s && !in)
        in = open_input(opt.file, opt.loop ? LM_IN_RAW : 0);
    if (!s && opt.encoder && !texts)
        texts = open_input(opt.encoder, 0);
    if (!s && texts)
        s = lm_eval_set_encoder(e, texts, &err);
    if (!s)
        s = opt.loop        ? lm_eval_loop(e, in, &err)
            : opt.ctx.embed ? lm_eval_embed(e, in, &err)
                            : lm_eval_batch(e, in, &err);
    struct lm_err late;
    int bad = lm_watch_end(watch, &late);
    if (bad)
        bad = lm_err_at(&late, bad, "--dump-tensor");
    else
        bad = lm_profile_end(profile, out, &late);
    int status = s ? cli_report(NULL, &err) : bad ? cli_report(NULL, &late) : CLI_OK;
    if (!s && opt.eval.ref)
        tell_divergence(opt.eval.ref);
    lm_divergence_close(opt.eval.ref);
    lm_in_close(ref);
    if (state && !s)
        status = save_state(c, state);
    else if (state)
        cli_out_abort(state);
    tell_counts(c, env);
    lm_in_close(in);
    lm_in_close(texts);
    lm_eval_free(e);
    lm_ctx_free(c);
    free_adapters();
    lm_model_free(m);
    return status;
}

int main(int argc, char *argv[])
{
    int c;
    cli_start(argv);
    while ((c = getopt_long(argc, argv, "b:c:him:qt:u:Vv", options, NULL)) != -1) {
        if (c == 'h')
            return cli_help(usage, help);
        if (c == 'V')
            return cli_version();
        take_option(c);
    }
    if (argc - optind > 1)
        cli_bad_usage("more than one file");
    opt.file_given = optind < argc;
    opt.file = opt.file_given ? argv[optind] : "-";
    struct lm_env env = cli_env(opt.env);
    if (opt.list_devices)
        return list_devices(&env);
    check_options();
    if (opt.save_state) {
        cli_refuse_same(opt.file, opt.save_state);
        cli_refuse_same(opt.model, opt.save_state);
        if (opt.load_state)
            cli_refuse_same(opt.load_state, opt.save_state);
    }
    opt.eval.program = "decode";
    opt.eval.version = LM_VERSION;

    bool binary = !opt.plan && !opt.dot &&
                  (opt.eval.form == LM_EVAL_FRAMES || opt.eval.frames);
    struct lm_out *out = cli_out_open("-", binary, opt.force);
    lm_pipe_widen(STDOUT_FILENO, PIPE_ROOM);
    int (*mode)(struct lm_out *, const struct lm_env *) =
        opt.plan || opt.dot ? show_plan : opt.directions ? make_directions : run;
    int status = mode(out, &env);
    int late = cli_out_commit(out);
    return cli_finish(status > late ? status : late);
}
