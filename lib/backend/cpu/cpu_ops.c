/* SPDX-License-Identifier: MIT */
/* The CPU's kernels, one for each operation: what they do with the parts of a tensor;
 * the inner loops are in vec.h, mulmat.h and attn.h. */
#include "backend/cpu/cpu_exec.h"

#include <math.h>
#include <string.h>

/* Elements that are worth a job of their own. */
#define JOB_LEN 8192

/* Row r of a tensor, counted over all axes but the first. */
static char *row(const struct lm_tensor *t, size_t r)
{
    size_t i1 = r % t->ne[1], i2 = r / t->ne[1] % t->ne[2], i3 = r / t->ne[1] / t->ne[2];
    return (char *)t->data + i1 * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3];
}

static size_t end_of(const struct lm_step *s, size_t job, size_t n)
{
    size_t end = (job + 1) * s->per_job;
    return end < n ? end : n;
}

static size_t count_rows(const struct lm_tensor *t)
{
    return lm_tensor_rows(t);
}

static size_t rows_per_job(const struct lm_tensor *t)
{
    return t->ne[0] >= JOB_LEN ? 1 : JOB_LEN / (t->ne[0] ? t->ne[0] : 1);
}

static void get_rows(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t, *a = t->src[0];
    const int32_t *ids = t->src[1]->data;
    (void)e;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, t->ne[1]); r++)
        a->type->decode(row(a, (size_t)ids[r]), (float *)row(t, r), t->ne[0]);
}

static void cont(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t, *a = t->src[0];
    const size_t each = t->type->bytes, n = t->ne[0] / t->type->block;
    (void)e;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++) {
        char *dst = row(t, r);
        const char *src = row(a, r);
        if (a->nb[0] == each)
            memcpy(dst, src, n * each);
        for (size_t i = 0; i < n && a->nb[0] != each; i++)
            memcpy(dst + i * each, src + i * a->nb[0], each);
    }
}

/* The row of b that belongs to row r of a: its own, or the one for all. */
static const float *partner(const struct lm_tensor *b, size_t r)
{
    return (const float *)(lm_tensor_rows(b) == 1 ? b->data : row(b, r));
}

/* A row with one number for all its elements. */
static void with_one(const struct lm_vec *v, enum lm_op op, float *d, const float *a, float b,
                     size_t n)
{
    if (op == LM_OP_MUL)
        v->scale(d, a, b, n);
    for (size_t i = 0; i < n && op != LM_OP_MUL; i++)
        d[i] = op == LM_OP_ADD ? a[i] + b : op == LM_OP_SUB ? a[i] - b : a[i] / b;
}

static void binary(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    const struct lm_vec *v = e->cpu->vec;
    void (*f)(float *, const float *, const float *, size_t) =
        t->op == LM_OP_ADD ? v->add : t->op == LM_OP_SUB ? v->sub : t->op == LM_OP_MUL ? v->mul
        : t->op == LM_OP_DIV ? v->div : t->op == LM_OP_SWIGLU ? v->swiglu
        : t->op == LM_OP_REGLU ? v->reglu : t->op == LM_OP_GEGLU ? v->geglu : v->geglu_erf;
    const bool one = t->src[1]->ne[0] < t->ne[0];
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++)
        if (one)
            with_one(v, t->op, (float *)row(t, r), (const float *)row(t->src[0], r),
                     *(const float *)t->src[1]->data, t->ne[0]);
        else
            f((float *)row(t, r), (const float *)row(t->src[0], r), partner(t->src[1], r),
              t->ne[0]);
}

static void swiglu_clamp(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++)
        e->cpu->vec->swiglu_clamp((float *)row(t, r), (const float *)row(t->src[0], r),
                                  (const float *)row(t->src[1], r), t->ne[0], t->arg.clamp.limit,
                                  t->arg.clamp.slope, t->arg.clamp.plus);
}

static void clamp(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++)
        e->cpu->vec->clamp((float *)row(t, r), (const float *)row(t->src[0], r), t->arg.range.lo,
                           t->arg.range.hi, t->ne[0]);
}

static void fill(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    (void)e;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++)
        for (size_t i = 0; i < t->ne[0]; i++)
            ((float *)row(t, r))[i] = t->arg.scale;
}

static void scale(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++)
        e->cpu->vec->scale((float *)row(t, r), (const float *)row(t->src[0], r), t->arg.scale,
                           t->ne[0]);
}

static void softcap(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++)
        e->cpu->vec->softcap((float *)row(t, r), (const float *)row(t->src[0], r), t->arg.scale,
                             t->ne[0]);
}

static void unary(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    const struct lm_vec *v = e->cpu->vec;
    void (*f)(float *, const float *, size_t) =
        t->op == LM_OP_SILU ? v->silu : t->op == LM_OP_GELU ? v->gelu
        : t->op == LM_OP_GELU_ERF ? v->gelu_erf : t->op == LM_OP_GELU_QUICK ? v->gelu_quick
        : t->op == LM_OP_SOFT_MAX ? v->soft_max : v->relu2;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++)
        f((float *)row(t, r), (const float *)row(t->src[0], r), t->ne[0]);
}

/* Functions of one number that are a line of C. */
static void simple(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    (void)e;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++) {
        const float *x = (const float *)row(t->src[0], r);
        float *dst = (float *)row(t, r);
        const size_t n = t->ne[0];
        switch (t->op) {
        case LM_OP_RELU: for (size_t i = 0; i < n; i++) dst[i] = x[i] > 0 ? x[i] : 0; break;
        case LM_OP_NEG:  for (size_t i = 0; i < n; i++) dst[i] = -x[i];               break;
        case LM_OP_SQR:  for (size_t i = 0; i < n; i++) dst[i] = x[i] * x[i];         break;
        case LM_OP_SQRT: for (size_t i = 0; i < n; i++) dst[i] = sqrtf(x[i]);         break;
        case LM_OP_LOG:  for (size_t i = 0; i < n; i++) dst[i] = logf(x[i]);          break;
        default:         for (size_t i = 0; i < n; i++) dst[i] = expf(x[i]);
        }
    }
}

static void xielu(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    const struct lm_xielu p = t->arg.xielu;
    (void)e;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++) {
        const float *x = (const float *)row(t->src[0], r);
        float *dst = (float *)row(t, r);
        for (size_t i = 0; i < t->ne[0]; i++)
            dst[i] = p.beta * x[i] +
                     (x[i] > 0 ? p.alpha_p * x[i] * x[i]
                               : p.alpha_n * (expm1f(x[i] < p.eps ? x[i] : p.eps) - x[i]));
    }
}

static void concat(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t, *a = t->src[0], *b = t->src[1];
    (void)e;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++) {
        float *dst = (float *)row(t, r);
        memcpy(dst, row(a, r), a->ne[0] * sizeof *dst);
        memcpy(dst + a->ne[0], row(b, b->ne[1] == t->ne[1] ? r : r / t->ne[1]),
               b->ne[0] * sizeof *dst);
    }
}

static void rms_norm(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t, *w = t->src[1];
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++)
        e->cpu->vec->rms_norm((float *)row(t, r), (const float *)row(t->src[0], r),
                              (const float *)row(w, r % w->ne[1]), t->ne[0], t->arg.eps);
}

static void l2_norm(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++) {
        const float *x = (const float *)row(t->src[0], r);
        double sum = 0;
        for (size_t i = 0; i < t->ne[0]; i++)
            sum += (double)x[i] * (double)x[i];
        e->cpu->vec->scale((float *)row(t, r), x, (float)(1.0 / sqrt(sum + (double)t->arg.eps)),
                           t->ne[0]);
    }
}

static double mean_square(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum / (double)n;
}

static void above(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    const size_t n = t->ne[0];
    (void)e;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++) {
        const float *x = (const float *)row(t->src[0], r);
        float *y = (float *)row(t, r);
        double mean = 0, variance = 0;
        for (size_t i = 0; i < n; i++)
            mean += (double)x[i] / (double)n;
        for (size_t i = 0; i < n; i++)
            variance += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)n;
        const float least = (float)(mean + (double)t->arg.scale * sqrt(variance));
        for (size_t i = 0; i < n; i++)
            y[i] = x[i] > least ? x[i] - least : 0;
    }
}

static void as_long(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++) {
        const float *y = (const float *)row(t->src[0], r), *x = (const float *)row(t->src[1], r);
        const double has = mean_square(y, t->ne[0]), wants = mean_square(x, t->ne[0]);
        e->cpu->vec->scale((float *)row(t, r), y, (float)sqrt(wants / (has > 1e-5 ? has : 1e-5)),
                           t->ne[0]);
    }
}

static void layer_norm(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t, *w = t->src[1], *b = t->src[2];
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++)
        e->cpu->vec->layer_norm((float *)row(t, r), (const float *)row(t->src[0], r),
                                w ? w->data : NULL, b ? b->data : NULL, t->ne[0], t->arg.eps);
}

static void sigmoid(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    (void)e;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++)
        for (size_t i = 0; i < t->ne[0]; i++)
            ((float *)row(t, r))[i] = 1.0f / (1.0f + expf(-((const float *)row(t->src[0], r))[i]));
}

/* Beyond 20 what is added to x is less than a float shows. */
static void softplus(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    (void)e;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++) {
        const float *x = (const float *)row(t->src[0], r);
        for (size_t i = 0; i < t->ne[0]; i++) {
            const float y = x[i] > 20 ? x[i] : log1pf(expf(x[i]));
            ((float *)row(t, r))[i] = y < t->arg.scale ? t->arg.scale : y;
        }
    }
}

/*
 * The angle of pair i at position 1 (Peng et al., "YaRN", 2023, section 3.2): pairs that
 * turn more than beta_fast times within the training length keep their frequency, those
 * that turn less than beta_slow times are slowed by `factor`, in between it is a mix.
 */
static double frequency(const struct lm_rope *r, uint32_t pair, const float *factors)
{
    double f = pow((double)r->base, -2.0 * pair / r->n_rot);
    if (factors)
        f /= (double)factors[pair];
    if (!r->yarn)
        return f / (double)r->factor;
    const double pi = 3.14159265358979323846;
    double per = r->n_rot / (2 * log((double)r->base));
    double low = per * log(r->orig_ctx / ((double)r->beta_fast * 2 * pi));
    double high = per * log(r->orig_ctx / ((double)r->beta_slow * 2 * pi));
    low = r->between ? low : floor(low);
    high = r->between ? high : ceil(high);
    low = low < 0 ? 0 : low;
    high = high > r->n_rot - 1 ? r->n_rot - 1 : high;
    double ramp = (pair - low) / (high - low > 0.001 ? high - low : 0.001);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    double keep = (1 - ramp) * (double)r->ext;
    return f / (double)r->factor * (1 - keep) + f * keep;
}

/* One job: every frequency is used for every position. */
static void rope_table(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    const struct lm_rope *r = &t->arg.rope;
    const int32_t *pos = t->src[0]->data;
    const float *factors = t->src[1] ? t->src[1]->data : NULL;
    const float *far = t->src[2] ? t->src[2]->data : NULL;
    const int32_t *lengths = far ? t->src[3]->data : NULL;
    float attn = r->attn > 0 ? r->attn : 1.0f;
    size_t second = r->halves ? r->n_rot / 2 : 1, step = r->halves ? 1 : 2;
    (void)e;
    (void)job;
    (void)thread;
    for (uint32_t i = 0; i < r->n_rot / 2; i++) {
        float near = (float)frequency(r, i, factors);
        float other = far ? (float)frequency(r, i, far) : near;
        for (size_t p = 0; p < t->ne[2]; p++) {
            float *c = (float *)row(t, 2 * p) + step * i, *sn = c + r->n_rot;
            bool is_far = lengths && (uint32_t)lengths[p] > r->orig_ctx;
            float angle = (float)pos[p] * (is_far ? other : near);
            c[0] = c[second] = cosf(angle) * attn;
            sn[second] = sinf(angle) * attn;
            sn[0] = -sn[second];
        }
    }
}

static size_t count_one(const struct lm_tensor *t)
{
    (void)t;
    return 1;
}

static void rope(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t, *x = t->src[0], *table = t->src[1];
    size_t n = table->ne[0];
    void (*turn)(float *, const float *, const float *, const float *, size_t) =
        t->arg.rope.halves ? e->cpu->vec->rope_halves : e->cpu->vec->rope;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++) {
        const float *c = (const float *)row(table, 2 * (r / t->ne[1] % t->ne[2]));
        const float *src = (const float *)row(x, r);
        float *dst = (float *)row(t, r);
        turn(dst, src, c, c + n, n);
        if (dst != src)
            memcpy(dst + n, src + n, (t->ne[0] - n) * sizeof *dst);
    }
}

static void pos_scale(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    const int32_t *pos = t->src[1]->data;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++) {
        const float at = (float)pos[r / t->ne[1] % t->ne[2]] + (float)t->arg.grow.off;
        const float by = 1.0f + t->arg.grow.by * logf(1.0f + floorf(at / t->arg.grow.length));
        e->cpu->vec->scale((float *)row(t, r), (const float *)row(t->src[0], r), by, t->ne[0]);
    }
}

static size_t one_per_job(const struct lm_tensor *t)
{
    (void)t;
    return 1;
}

/* Activation rows of a product into the form its weights want. */
void lm_cpu_activate(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *x = s->t->src[1];
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(x)); r++)
        s->mm->act((const float *)row(x, r), x->ne[0], (char *)lm_exec_act(e) + r * s->act_bytes);
}

/* A tile of activations times some panels of one of the weights. */
void lm_cpu_products(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    size_t tile = job / s->chunks, chunk = job % s->chunks;
    const struct lm_product *p = s->products;
    (void)thread;
    for (size_t i = 1; i < s->n_products && chunk >= s->products[i].first_job; i++)
        p = &s->products[i];
    const struct lm_tensor *w = p->t->src[0];
    size_t n = lm_tensor_rows(p->t), first = tile * s->per_job;
    n = n - first < s->per_job ? n - first : s->per_job;
    const char *act = (const char *)lm_exec_act(e) + first * s->act_bytes;
    float *y = (float *)p->t->data + first * p->t->ne[0];
    size_t panel = (chunk - p->first_job) * p->panels_per_job, end = panel + p->panels_per_job;
    for (; panel < end && panel < p->n_panels; panel++) {
        size_t r = panel * p->mm->rows;
        size_t n_rows = w->ne[1] - r < p->mm->rows ? w->ne[1] - r : p->mm->rows;
        p->mm->mul(w->type, (const char *)w->data + panel * p->panel_bytes, n_rows, w->ne[0],
                   act, n, y + r, p->t->ne[0]);
    }
}

static const struct lm_cpu_op ops[LM_N_OPS] = {
    [LM_OP_CONT]       = { cont, count_rows, NULL, rows_per_job },
    [LM_OP_GET_ROWS]   = { get_rows, count_rows, NULL, rows_per_job },
    [LM_OP_ADD]        = { binary, count_rows, NULL, rows_per_job },
    [LM_OP_SUB]        = { binary, count_rows, NULL, rows_per_job },
    [LM_OP_MUL]        = { binary, count_rows, NULL, rows_per_job },
    [LM_OP_DIV]        = { binary, count_rows, NULL, rows_per_job },
    [LM_OP_SCALE]      = { scale, count_rows, NULL, rows_per_job },
    [LM_OP_FILL]       = { fill, count_rows, NULL, rows_per_job },
    [LM_OP_CLAMP]      = { clamp, count_rows, NULL, rows_per_job },
    [LM_OP_NEG]        = { simple, count_rows, NULL, rows_per_job },
    [LM_OP_SQR]        = { simple, count_rows, NULL, rows_per_job },
    [LM_OP_SQRT]       = { simple, count_rows, NULL, rows_per_job },
    [LM_OP_LOG]        = { simple, count_rows, NULL, rows_per_job },
    [LM_OP_SILU]       = { unary, count_rows, NULL, rows_per_job },
    [LM_OP_SWIGLU]     = { binary, count_rows, NULL, rows_per_job },
    [LM_OP_REGLU]      = { binary, count_rows, NULL, rows_per_job },
    [LM_OP_GEGLU]      = { binary, count_rows, NULL, rows_per_job },
    [LM_OP_GEGLU_ERF]  = { binary, count_rows, NULL, rows_per_job },
    [LM_OP_GELU]       = { unary, count_rows, NULL, rows_per_job },
    [LM_OP_GELU_ERF]   = { unary, count_rows, NULL, rows_per_job },
    [LM_OP_SWIGLU_CLAMP] = { swiglu_clamp, count_rows, NULL, rows_per_job },
    [LM_OP_GELU_QUICK] = { unary, count_rows, NULL, rows_per_job },
    [LM_OP_SOFT_MAX]   = { unary, count_rows, NULL, rows_per_job },
    [LM_OP_RELU]       = { simple, count_rows, NULL, rows_per_job },
    [LM_OP_RELU2]      = { unary, count_rows, NULL, rows_per_job },
    [LM_OP_XIELU]      = { xielu, count_rows, NULL, rows_per_job },
    [LM_OP_SOFTCAP]    = { softcap, count_rows, NULL, rows_per_job },
    [LM_OP_CONCAT]     = { concat, count_rows, NULL, rows_per_job },
    [LM_OP_LAYER_NORM] = { layer_norm, count_rows, NULL, rows_per_job },
    [LM_OP_SIGMOID]    = { sigmoid, count_rows, NULL, rows_per_job },
    [LM_OP_EXP]        = { simple, count_rows, NULL, rows_per_job },
    [LM_OP_SOFTPLUS]   = { softplus, count_rows, NULL, rows_per_job },
    [LM_OP_L2_NORM]    = { l2_norm, count_rows, NULL, rows_per_job },
    [LM_OP_ABOVE]      = { above, count_rows, NULL, rows_per_job },
    [LM_OP_AS_LONG]    = { as_long, count_rows, NULL, rows_per_job },
    [LM_OP_CONV_WHOLE] = { lm_cpu_conv_whole, lm_cpu_conv_count, lm_cpu_conv_whole_scratch,
                           one_per_job },
    [LM_OP_STATE_CONV] = { lm_cpu_state_conv, lm_cpu_conv_count, lm_cpu_conv_scratch,
                           one_per_job },
    [LM_OP_STATE_SCAN] = { lm_cpu_state_scan, lm_cpu_scan_count, NULL, one_per_job },
    [LM_OP_STATE_DELTA] = { lm_cpu_state_delta, lm_cpu_delta_count, NULL, one_per_job },
    [LM_OP_STATE_SHIFT] = { lm_cpu_state_shift, lm_cpu_conv_count, lm_cpu_shift_scratch,
                            one_per_job },
    [LM_OP_STATE_WKV6] = { lm_cpu_state_wkv, lm_cpu_delta_count, NULL, one_per_job },
    [LM_OP_STATE_WKV7] = { lm_cpu_state_wkv, lm_cpu_delta_count, NULL, one_per_job },
    [LM_OP_STATE_GLA]  = { lm_cpu_state_wkv, lm_cpu_delta_count, NULL, one_per_job },
    [LM_OP_SELECT]     = { lm_cpu_select, count_rows, lm_cpu_select_scratch, rows_per_job },
    [LM_OP_GATE]       = { lm_cpu_gate, count_rows, NULL, rows_per_job },
    [LM_OP_WEIGHTED_SUM] = { lm_cpu_weighted_sum, count_rows, NULL, rows_per_job },
    [LM_OP_ADD_ID]     = { lm_cpu_add_id, count_rows, NULL, rows_per_job },
    [LM_OP_RMS_NORM]   = { rms_norm, count_rows, NULL, rows_per_job },
    [LM_OP_ROPE_TABLE] = { rope_table, count_one, NULL, one_per_job },
    [LM_OP_ROPE]       = { rope, count_rows, NULL, rows_per_job },
    [LM_OP_POS_SCALE]  = { pos_scale, count_rows, NULL, rows_per_job },
    [LM_OP_KV_STORE]   = { lm_cpu_kv_store, lm_cpu_kv_count, lm_cpu_kv_scratch,
                           lm_cpu_kv_per_job },
    [LM_OP_ATTN]       = { lm_cpu_attn, lm_cpu_attn_count, lm_cpu_attn_scratch, one_per_job },
    [LM_OP_CHOOSE]     = { lm_cpu_choose, count_rows, lm_cpu_choose_scratch, one_per_job },
    [LM_OP_ATTN_WHOLE] = { lm_cpu_attn_whole, lm_cpu_attn_count, lm_cpu_attn_scratch,
                           one_per_job },
    [LM_OP_DISTANCE_BIAS] = { lm_cpu_distance_bias, count_one, lm_cpu_distance_scratch,
                              one_per_job },
};

const struct lm_cpu_op *lm_cpu_op(enum lm_op op)
{
    return ops[op].run ? &ops[op] : NULL;
}

static bool rows_are_dense(const struct lm_tensor *t)
{
    return t->nb[0] == t->type->bytes;
}

bool lm_cpu_supports(const struct lm_tensor *t)
{
    for (size_t i = 0; i < LM_MAX_SRC; i++)
        if (t->src[i] && !rows_are_dense(t->src[i]) && t->op != LM_OP_CONT &&
            t->op != LM_OP_VIEW)
            return false;
    if (t->op == LM_OP_MUL_MAT || t->op == LM_OP_MUL_MAT_ID || t->op == LM_OP_MUL_MAT_HEADS)
        return lm_tensor_contiguous(t->src[0]) || t->src[0]->layout;
    return t->op == LM_OP_NONE || t->op == LM_OP_VIEW || lm_cpu_op(t->op);
}
