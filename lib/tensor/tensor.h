/* SPDX-License-Identifier: MIT */
#ifndef LM_TENSOR_H
#define LM_TENSOR_H

/*
 * Tensors and lazy graphs.
 *
 * A tensor is a shape, a type and, for all but leaves, the operation and the
 * tensors it comes from; making one computes nothing.  A graph owns the tensors
 * made in it; lm_graph_expand puts those that a result needs in an order in which
 * they can be computed; lm_graph_plan gives each an address in a common buffer.
 *
 * Shapes are innermost first: ne[0] elements lie side by side, nb[i] is the
 * distance in bytes between neighbours along axis i (nb[0]: bytes of a block of
 * the type, but in views with other axes).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "quant/quant.h"

#define LM_MAX_DIMS 4
#define LM_MAX_SRC  7

struct lm_buffer;                 /* backend.h */
struct lm_buft;

enum lm_op {                      /* rows in ops.c, in this order                         */
    LM_OP_NONE,                   /* a leaf: weight or input                              */
    LM_OP_VIEW,                   /* other shape or part of the same bytes                */
    LM_OP_COPY,                   /* the same in another memory                           */
    LM_OP_CONT,                   /* the same without gaps, axes in order                 */
    LM_OP_GET_ROWS,
    LM_OP_ADD,
    LM_OP_SUB,
    LM_OP_MUL,
    LM_OP_DIV,
    LM_OP_SCALE,
    LM_OP_FILL,
    LM_OP_CLAMP,
    LM_OP_NEG,
    LM_OP_SQR,
    LM_OP_SQRT,
    LM_OP_LOG,
    LM_OP_SILU,
    LM_OP_SWIGLU,
    LM_OP_SWIGLU_CLAMP,
    LM_OP_REGLU,
    LM_OP_GEGLU,
    LM_OP_GEGLU_ERF,
    LM_OP_GELU,
    LM_OP_GELU_ERF,
    LM_OP_GELU_QUICK,
    LM_OP_RELU,
    LM_OP_RELU2,
    LM_OP_XIELU,
    LM_OP_SOFTCAP,
    LM_OP_CONCAT,
    LM_OP_SIGMOID,
    LM_OP_EXP,
    LM_OP_SOFTPLUS,
    LM_OP_SOFT_MAX,
    LM_OP_SELECT,
    LM_OP_GATE,
    LM_OP_WEIGHTED_SUM,
    LM_OP_ADD_ID,
    LM_OP_RMS_NORM,
    LM_OP_LAYER_NORM,
    LM_OP_L2_NORM,
    LM_OP_ABOVE,
    LM_OP_AS_LONG,
    LM_OP_MUL_MAT,
    LM_OP_MUL_MAT_ID,
    LM_OP_MUL_MAT_HEADS,
    LM_OP_ROPE_TABLE,
    LM_OP_ROPE,
    LM_OP_POS_SCALE,
    LM_OP_KV_STORE,
    LM_OP_ATTN,
    LM_OP_CHOOSE,
    LM_OP_ATTN_WHOLE,
    LM_OP_DISTANCE_BIAS,
    LM_OP_STATE_CONV,
    LM_OP_CONV_WHOLE,
    LM_OP_STATE_SCAN,
    LM_OP_STATE_DELTA,
    LM_OP_STATE_SHIFT,
    LM_OP_STATE_WKV6,
    LM_OP_STATE_WKV7,
    LM_OP_STATE_GLA,
    LM_N_OPS
};

enum {
    LM_TENSOR_INPUT  = 1,         /* filled by the caller before each evaluation          */
    LM_TENSOR_OUTPUT = 2,         /* read afterwards: never overwritten, never reused     */
    LM_TENSOR_PARAM  = 4,         /* a weight that training changes                       */
    LM_TENSOR_LOSS   = 8,         /* what training makes small: kept like an output       */
    LM_TENSOR_KEEP   = 16         /* kept like an output, for a later evaluation          */
};

/* Inputs that a convolution over time may look at. */
#define LM_MAX_CONV 64

/* Memories that the tensors of one graph may be spread over. */
#define LM_MAX_PLACES 16

/* Rotary positions. */
struct lm_rope {
    uint32_t n_rot;               /* leading values of a head that turn, even             */
    float    base;                /* pair i turns by pos * base^(-2i / n_rot)             */
    float    factor;              /* that angle divided by this; 1: unchanged             */
    bool     yarn;                /* ... for low frequencies only (Peng et al., 2023)     */
    uint32_t orig_ctx;            /* yarn: the training length                            */
    float    ext, beta_fast, beta_slow;          /* yarn                                  */
    float    attn;                /* scales cosine and sine; 0: unchanged                 */
    bool     between;             /* yarn: the mix may begin and end between two pairs    */
    bool     halves;              /* pair i is i and i + n_rot / 2, else neighbours       */
};

/* What an expert scores, x being its logit. */
enum lm_score {
    LM_SCORE_SOFTMAX,             /* its share of the softmax over all                     */
    LM_SCORE_SIGMOID,             /* 1 / (1 + exp(-x))                                     */
    LM_SCORE_CHOSEN,              /* x; shares are the softmax over those that are chosen  */
    LM_SCORE_SQRT_SOFTPLUS        /* sqrt(log(1 + exp(x)))                                 */
};

/* How a mixture of experts chooses, and what the chosen weigh. */
struct lm_routing {
    uint32_t k;                   /* experts a token has                                   */
    enum lm_score score;
    bool     normalize;           /* shares are divided by their sum                       */
    float    scale;               /* then multiplied by this; 0: not                       */
    uint32_t n_group;             /* experts come in so many groups, of which only the     */
    uint32_t n_group_used;        /* best n_group_used are chosen from; 0: no groups       */
    uint32_t group_best;          /* a group is as good as the sum of its best 1 or 2      */
    float    near;                /* above 0: the share of the k-th is its softmax among those
                                     that come after it and are no farther below it than this
                                     times the larger of it and their own size (Liu et al.,
                                     "GRIN", 2024); no normalize, softmax only             */
};

/* Positions in one page of a key/value cache. */
#define LM_KV_PAGE 64

/* How a page holds the keys and values of a layer.  Position p of head h:
 * key at k_off + (h * LM_KV_PAGE + p) * k_row bytes, value likewise. */
struct lm_kv_layout {
    const struct lm_type *k_type, *v_type;       /* see memory.h                          */
    uint32_t n_head_kv, head_k, head_v;
    bool     v_in_k;                             /* a value is the beginning of its key   */
    size_t   k_off, v_off, k_row, v_row;
    size_t   k_block, v_block;                   /* stored as lm_hadamard makes rows; 0: not */
};

/* An activation whose two sides are trained (Huang and Schlag, "Deriving Activation Functions Using
 * Integration", 2024). */
struct lm_xielu {
    float alpha_n, alpha_p, beta, eps;
};

/* What an operation needs beside its sources. */
union lm_op_arg {
    float          eps;                                       /* *_NORM                 */
    float          scale;                                     /* SCALE, FILL, SOFTCAP, ABOVE,
                                                                 the least of SOFTPLUS  */
    struct lm_routing route;                                  /* SELECT, GATE           */
    struct lm_xielu xielu;                                    /* XIELU                  */
    struct {
        float lo, hi;
    } range;                                                  /* CLAMP                  */
    struct {
        float limit, slope, plus;
    } clamp;                                                  /* SWIGLU_CLAMP           */
    struct {
        float    by, length;
        uint32_t off;
    } grow;                                                   /* POS_SCALE              */
    struct {
        uint32_t reach;
        bool     both;
    } distance;                                               /* DISTANCE_BIAS          */
    struct lm_rope rope;                                      /* ROPE_TABLE, ROPE       */
    struct {
        size_t                off;                            /* bytes into a state     */
        bool                  tiled;                          /* DELTA: see there       */
    } state;                                                  /* STATE_*                */
    struct {
        struct lm_kv_layout kv;
        float               scale;
        uint32_t            window;                           /* 0: all positions       */
        uint32_t            chunk;                            /* 0: none                */
        float               softcap;                          /* 0: none                */
        uint32_t            best, n_ctx;                      /* CHOOSE                 */
    } attn;                           /* ATTN, ATTN_WHOLE (no kv); kv: KV_STORE, CHOOSE */
};

struct lm_tensor {
    const struct lm_type *type;
    enum lm_op            op;
    unsigned              flags;
    size_t                ne[LM_MAX_DIMS], nb[LM_MAX_DIMS];
    struct lm_tensor     *src[LM_MAX_SRC];
    struct lm_tensor     *root;         /* a view: whose bytes it shows; else NULL         */
    size_t                view_offset;  /* from the root's first byte                      */
    union lm_op_arg       arg;
    const char           *name;         /* NULL, or the caller's                           */
    const struct lm_tensor *scale;      /* a weight: F32 [1], or [matrices] of a stack, by which
                                           products with it are still to be multiplied; or NULL */
    void                 *data;         /* NULL until placed                               */
    struct lm_buffer     *buffer;       /* where data lies, if a backend placed it         */
    const void           *layout;       /* the backend's: form of packed weights           */
    const struct lm_buft *state;        /* an input of addresses: the memory that they are in */
    uint32_t              place;        /* which of the planned buffers                    */
    size_t                offset;       /* in it                                           */
    size_t                room;         /* bytes to plan for it; 0: lm_tensor_bytes        */
    uint32_t              n_uses;       /* reads by the nodes of the graph                 */
    bool                  seen;         /* in nodes or leaves already                      */
    uint32_t              left;         /* the planner's: reads still to come              */
};

struct lm_graph {
    struct lm_arena    arena;
    struct lm_tensor **nodes;           /* in the order of evaluation, views included      */
    size_t             n_nodes, cap_nodes;
    struct lm_tensor **leaves;          /* inputs and weights that the nodes read          */
    size_t             n_leaves, cap_leaves;
    size_t             planned[LM_MAX_PLACES];      /* bytes of each buffer, after the plan */
    struct lm_err      err;             /* the first failure, code 0 if none               */
    /* If not NULL, what lm_mul_mat, lm_mul_mat_id and lm_get_rows return goes through it: `value`,
     * which is the node times the weight's scale, or another in its place. */
    struct lm_tensor *(*adapt)(void *arg, struct lm_graph *g, struct lm_tensor *node,
                               struct lm_tensor *value);
    void              *adapt_arg;
};

/* Zero-initialise a graph before use; release gives everything back and leaves it empty. */
void lm_graph_release(struct lm_graph *g);

/*
 * Makers.  They check shapes and types, link, and return NULL after a failure, which
 * the graph keeps (a NULL source gives NULL without a further message), so that a
 * builder checks once at the end.
 */

/* A leaf of n_dims sizes. */
struct lm_tensor *lm_new_tensor(struct lm_graph *g, const struct lm_type *type,
                                uint32_t n_dims, const size_t *ne);

/* A leaf for a tensor that several graphs read, such as a weight: type, shape, data and
 * layout of w, which must outlive the graph. */
struct lm_tensor *lm_import(struct lm_graph *g, const struct lm_tensor *w);

/* The same bytes in another shape; a must be contiguous. */
struct lm_tensor *lm_reshape(struct lm_graph *g, struct lm_tensor *a,
                             uint32_t n_dims, const size_t *ne);

/* Part of the same bytes: offset in bytes, ne[0] elements side by side, nb[i] for i >= 1.
 * What it shows must lie inside a. */
struct lm_tensor *lm_view(struct lm_graph *g, struct lm_tensor *a, uint32_t n_dims,
                          const size_t *ne, const size_t *nb, size_t offset);

/*
 * The same bytes with other axes: axis i of the result is axis order[i] of a, each once;
 * transposed: axes 0 and 1 change places.  Where axis 0 is another one, types with blocks are
 * refused, and only lm_cont reads the result.
 * lm_cont: a tensor of its own with the elements of a, of any such type, in order.
 */
struct lm_tensor *lm_permute(struct lm_graph *g, struct lm_tensor *a,
                             const uint32_t order[LM_MAX_DIMS]);
struct lm_tensor *lm_transpose(struct lm_graph *g, struct lm_tensor *a);
struct lm_tensor *lm_cont(struct lm_graph *g, struct lm_tensor *a);

/* Rows rows[j] (I32 [n]) of a [cols][...] of any type that decodes: F32 [cols, n]. */
struct lm_tensor *lm_get_rows(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *rows);

/* a + b, a - b, a * b, a / b; b has a's shape, or [a->ne[0]], which then goes to every row, or is
 * one number. */
struct lm_tensor *lm_add(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b);
struct lm_tensor *lm_sub(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b);
struct lm_tensor *lm_mul(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b);
struct lm_tensor *lm_div(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b);

/* s a;   s, whatever a is;   a but at least lo and at most hi, lo <= hi, a NaN being left;   -a;
 * a^2;   the root of a;   ln a. */
struct lm_tensor *lm_scale(struct lm_graph *g, struct lm_tensor *a, float s);
struct lm_tensor *lm_fill(struct lm_graph *g, struct lm_tensor *a, float s);
struct lm_tensor *lm_clamp(struct lm_graph *g, struct lm_tensor *a, float lo, float hi);
struct lm_tensor *lm_neg(struct lm_graph *g, struct lm_tensor *a);
struct lm_tensor *lm_sqr(struct lm_graph *g, struct lm_tensor *a);
struct lm_tensor *lm_sqrt(struct lm_graph *g, struct lm_tensor *a);
struct lm_tensor *lm_log(struct lm_graph *g, struct lm_tensor *a);

/*
 * Gated linear units (Shazeer, "GLU Variants Improve Transformer", 2020): an activation of a, times
 * b.  Halves of the rows of one tensor, in either order, are two views of it.
 *
 *   swiglu         a / (1 + exp(-a)) b
 *   reglu          max(a, 0) b
 *   geglu          gelu(a) b, geglu_erf gelu_erf(a) b, geglu_quick gelu_quick(a) b
 *   swiglu_clamp   a / (1 + exp(-slope a)) (b + plus), a being clipped to at most `limit` >= 0, b
 *                  to -limit .. limit, infinity for neither; slope 1.702 and plus 1: OpenAI,
 *                  "gpt-oss model card", 2025
 */
struct lm_tensor *lm_swiglu(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b);
struct lm_tensor *lm_reglu(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b);
struct lm_tensor *lm_geglu(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b);
struct lm_tensor *lm_geglu_erf(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b);
struct lm_tensor *lm_geglu_quick(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b);
struct lm_tensor *lm_swiglu_clamp(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b,
                                  float limit, float slope, float plus);

/* a / (1 + exp(-a));   a (1 + tanh(sqrt(2/pi) (a + 0.044715 a^3))) / 2, a (1 + erf(a / sqrt(2))) /
 * 2, a / (1 + exp(-1.702 a)) (Hendrycks and Gimpel, 2016);   max(a, 0);   max(a, 0)^2 (So et al.,
 * 2021);   1 / (1 + exp(-a));   exp(a);   log(1 + exp(a)), but at least `least`;
 * cap tanh(a / cap), with a cap of 1 tanh(a). */
struct lm_tensor *lm_silu(struct lm_graph *g, struct lm_tensor *a);
struct lm_tensor *lm_gelu(struct lm_graph *g, struct lm_tensor *a);
struct lm_tensor *lm_gelu_erf(struct lm_graph *g, struct lm_tensor *a);
struct lm_tensor *lm_gelu_quick(struct lm_graph *g, struct lm_tensor *a);
struct lm_tensor *lm_relu(struct lm_graph *g, struct lm_tensor *a);
struct lm_tensor *lm_relu2(struct lm_graph *g, struct lm_tensor *a);
/* alpha_p a^2 + beta a above 0, else alpha_n (exp(min(a, eps)) - 1 - a) + beta a. */
struct lm_tensor *lm_xielu(struct lm_graph *g, struct lm_tensor *a, const struct lm_xielu *x);
struct lm_tensor *lm_sigmoid(struct lm_graph *g, struct lm_tensor *a);
struct lm_tensor *lm_exponential(struct lm_graph *g, struct lm_tensor *a);
struct lm_tensor *lm_softplus(struct lm_graph *g, struct lm_tensor *a, float least);
struct lm_tensor *lm_softcap(struct lm_graph *g, struct lm_tensor *a, float cap);

/* Rows of a as shares: exp(a) divided by the row's sum of them. */
struct lm_tensor *lm_soft_max(struct lm_graph *g, struct lm_tensor *a);

/* Rows of a [n, heads, tokens] with those of b [m, heads or 1, tokens] behind them:
 * F32 [n + m, heads, tokens]; a b of one head goes to all. */
struct lm_tensor *lm_concat(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b);

/* Rows of x divided by sqrt(mean of squares + eps), times w [ne0], or [ne0, ne1] with a row for
 * each of the x's ne1 rows (Zhang and Sennrich, 2019). */
struct lm_tensor *lm_rms_norm(struct lm_graph *g, struct lm_tensor *x, struct lm_tensor *w,
                              float eps);

/* Rows of x less their mean, divided by sqrt(variance + eps), times w [ne0] plus b [ne0]
 * (Ba et al., 2016); w, b: or NULL. */
struct lm_tensor *lm_layer_norm(struct lm_graph *g, struct lm_tensor *x, struct lm_tensor *w,
                                struct lm_tensor *b, float eps);

/* Rows of x divided by sqrt(sum of squares + eps). */
struct lm_tensor *lm_l2_norm(struct lm_graph *g, struct lm_tensor *x, float eps);

/* What of rows of x is above their mean by more than `by` standard deviations, else 0:
 * max(x - mean - by sqrt(variance), 0) (Gemma Team, "Gemma 3n", 2025). */
struct lm_tensor *lm_above(struct lm_graph *g, struct lm_tensor *x, float by);

/* Rows of y made as long as those of x, which has y's shape: y |x| / |y|, a mean square of y below
 * 1e-5 counting as that. */
struct lm_tensor *lm_as_long(struct lm_graph *g, struct lm_tensor *y, struct lm_tensor *x);

/*
 * Mixtures of experts (Shazeer et al., 2017).  For each column of logits [experts, n]:
 * lm_select: the indices of the k best, best first, the lower of equal ones: I32 [k, n]; best by
 * score, plus bias [experts] if not NULL.  With groups (DeepSeek-AI, "DeepSeek-V2", 2024), which
 * are neighbours of equal number, they are of the best groups.
 * lm_gate: the scores of ids [k, n] (without bias) as shares: F32 [k, n].
 * lm_mul_mat_id: w [cols, rows, experts] of any type, x F32 [cols, k or 1, n]: with the expert
 * that ids [k, n] names, F32 [rows, k, n]; an x of one row a token goes to all of its experts.
 * lm_add_id: x [len, k, n] plus, for each row, that row of b [len, experts] which ids names.
 * lm_weighted_sum: x [len, k, n], w [k, n]: F32 [len, n].
 */
struct lm_tensor *lm_select(struct lm_graph *g, struct lm_tensor *logits, struct lm_tensor *bias,
                            const struct lm_routing *r);
struct lm_tensor *lm_gate(struct lm_graph *g, struct lm_tensor *logits, struct lm_tensor *ids,
                          const struct lm_routing *r);
struct lm_tensor *lm_add_id(struct lm_graph *g, struct lm_tensor *x, struct lm_tensor *b,
                            struct lm_tensor *ids);
struct lm_tensor *lm_mul_mat_id(struct lm_graph *g, struct lm_tensor *w, struct lm_tensor *x,
                                struct lm_tensor *ids);
struct lm_tensor *lm_weighted_sum(struct lm_graph *g, struct lm_tensor *x, struct lm_tensor *w);

/* w [cols, rows] of any type, x F32 [cols, n]: F32 [rows, n]. */
struct lm_tensor *lm_mul_mat(struct lm_graph *g, struct lm_tensor *w, struct lm_tensor *x);

/* A matrix for each head: w [cols, rows, heads] of any type, x F32 [cols, heads, n]: F32
 * [rows, heads, n]. */
struct lm_tensor *lm_mul_mat_heads(struct lm_graph *g, struct lm_tensor *w, struct lm_tensor *x);

/* Cosines and sines of positions pos (I32 [n]): F32 [n_rot, 2, n], for each pair
 * i (c, c) in the first row and (-s, s) in the second, where the pair's values stand.
 * factors: F32 [n_rot / 2] that divide the frequencies, or NULL.  far: factors instead of
 * these for tokens whose lengths (I32 [n]) exceed r->orig_ctx, or NULL. */
struct lm_tensor *lm_rope_table(struct lm_graph *g, struct lm_tensor *pos,
                                struct lm_tensor *factors, struct lm_tensor *far,
                                struct lm_tensor *lengths, const struct lm_rope *r);

/* Turn the pairs of x [head, heads, n] by a table for n positions (Su et al., 2021). */
struct lm_tensor *lm_rope(struct lm_graph *g, struct lm_tensor *x, struct lm_tensor *table);

/* x [len, heads, n] times 1 + by ln(1 + floor((pos + off) / length)), pos I32 [n] (Meta AI, "The
 * Llama 4 herd", 2025): queries far behind the training length look more closely. */
struct lm_tensor *lm_pos_scale(struct lm_graph *g, struct lm_tensor *x, struct lm_tensor *pos,
                               float by, float length, uint32_t off);

/*
 * Key/value caches.  pages: I64 [n], for each token the address of its sequence's
 * list of page addresses; pos: I32 [n].
 *
 * lm_kv_store writes k [head_k, n_head_kv, n] and v [head_v, n_head_kv, n] of each token
 * at its position; the result is empty and stands for "has been stored".  v is NULL where a
 * value is the first head_v elements of its key.
 * lm_attn: q [head_k, n_head, n] against positions 0 .. pos, after `stored`:
 * F32 [head_v * n_head, n].  Of `window` positions only the last are seen; scores s become
 * softcap tanh(s / softcap); 0: neither.
 */
struct lm_tensor *lm_kv_store(struct lm_graph *g, struct lm_tensor *k, struct lm_tensor *v,
                              struct lm_tensor *pages, struct lm_tensor *pos,
                              const struct lm_kv_layout *kv);
struct lm_tensor *lm_attn(struct lm_graph *g, struct lm_tensor *q, struct lm_tensor *pages,
                          struct lm_tensor *pos, struct lm_tensor *stored,
                          const struct lm_kv_layout *kv, float scale, uint32_t window,
                          float softcap);

/*
 * lm_choose - the positions that each token is to look at (DeepSeek-AI, "DeepSeek-V3.2", 2025).
 *
 *   q       [len, heads, n], against the keys of one head that kv lays out, after `stored`:
 *           position p, of 0 .. pos, scores sum_h shares[h] max(q_h . key_p, 0)
 *   shares  F32 [heads, n]
 *   best    how many are chosen, those of the highest scores, of equal ones the first
 *   n_ctx   no position is as high, above 0
 *
 * I32 [best, n]: positions in ascending order; where there are no more than `best`, all of them,
 * and -1 behind them.
 */
struct lm_tensor *lm_choose(struct lm_graph *g, struct lm_tensor *q, struct lm_tensor *shares,
                            struct lm_tensor *pages, struct lm_tensor *pos,
                            struct lm_tensor *stored, const struct lm_kv_layout *kv,
                            uint32_t best, uint32_t n_ctx);

/* The same bytes in another of the graph's memories: what a scheduler puts between nodes.
 * a must not be a view. */
struct lm_tensor *lm_copy(struct lm_graph *g, struct lm_tensor *a, uint32_t place);

/*
 * lm_conv_whole - a convolution over the tokens of one evaluation, to both sides.
 *
 *   x     [channels, n];  w [k, channels], k odd and at most LM_MAX_CONV;  bias [channels] or NULL
 *   runs  I32 [2, n]: see lm_attn_whole
 *
 * F32 [channels, n]: token t of a channel is the sum over j of w[j] x[t + j - (k - 1) / 2], where
 * tokens of other sequences are 0, plus the bias.
 */
struct lm_tensor *lm_conv_whole(struct lm_graph *g, struct lm_tensor *x, struct lm_tensor *w,
                                struct lm_tensor *bias, struct lm_tensor *runs);

/*
 * lm_attn_whole - attention among the tokens of one evaluation, without a cache.
 *
 *   q     [head_k, n_head, n];  k [head_k, n_head_kv, n];  v [head_v, n_head_kv, n]
 *   runs  I32 [2, n]: for each token the index of the first token of its sequence and one past
 *         its last: it sees all of them, with a window those at most that far away
 *
 * F32 [head_v * n_head, n].
 */
struct lm_tensor *lm_attn_whole(struct lm_graph *g, struct lm_tensor *q, struct lm_tensor *k,
                                struct lm_tensor *v, struct lm_tensor *runs, float scale,
                                uint32_t window);

/*
 * More for either attention, t being one, NULL included: sinks F32 [n_head], a score of each head
 * that takes part in the softmax and has no value; bias F32 [2 reach + 1, n_head], from
 * lm_distance_bias, or slopes [1, n_head], each of which takes itself times the distance from a
 * score (Press et al., "ALiBi", 2022).  Each may be NULL.
 */
struct lm_tensor *lm_attn_adjust(struct lm_tensor *t, struct lm_tensor *sinks,
                                 struct lm_tensor *bias);

/* lm_attn, NULL included, in chunks instead of a window: positions see those of their own `chunk`
 * neighbours, the first of which is a multiple of it, and none after them. */
struct lm_tensor *lm_attn_chunk(struct lm_tensor *t, uint32_t chunk);

/* lm_attn, NULL included, without a window: its tokens see those positions alone that lm_choose has
 * chosen for them. */
struct lm_tensor *lm_attn_chosen(struct lm_tensor *t, struct lm_tensor *chosen);

/*
 * lm_distance_bias - what each head adds to the score of a position at a distance
 * (Raffel et al., "Exploring the Limits of Transfer Learning", 2020, section 2.1).
 *
 *   w  [n_head, n_buckets] of any type that decodes.  Distances share buckets: near ones have one
 *      each, further ones share logarithmically, those from `reach` on all.  both: the second
 *      half of the buckets is for later positions, else those count as distance 0.
 *
 * F32 [2 reach + 1, n_head], distances -reach .. reach.
 */
struct lm_tensor *lm_distance_bias(struct lm_graph *g, struct lm_tensor *w, uint32_t reach,
                                   bool both);

/*
 * Recurrent layers.  states: I64 [2, n], for each token the address of the state that it
 * continues, 0 for zeros, and of the one that it makes; tokens of a sequence stand in order.
 * What a layer keeps begins at byte `off` of both.  What a token gives depends, to the bit, on
 * the tokens before it in its sequence alone.
 *
 * lm_state_conv: a convolution over time for each channel, x [channels, n] with w [k, channels]
 * and bias [channels] or NULL:
 *   y[c, t] = bias[c] + sum_j w[j, c] x[c, t - k + 1 + j]: F32 [channels, n].
 *   Kept: the last k - 1 inputs, F32 [channels, k - 1].
 *
 * lm_state_scan: selective state spaces (Gu and Dao, "Mamba", 2023; Dao and Gu, "Transformers
 * are SSMs", 2024).  x [len, heads, n], dt [heads, n], a [size, heads] or [1, heads], b and c
 * [size, groups, n], neighbouring heads sharing a group, d [heads] or NULL:
 *   s[h, i] = exp(dt[h] a[h]) s[h, i] + dt[h] x[i, h] b;   y[i, h] = c . s[h, i] + d[h] x[i, h]
 *   F32 [len, heads, n].  Kept: s, F32 [size, len, heads].
 *
 * lm_state_delta: the gated delta rule (Yang et al., "Gated Delta Networks", 2024).  q, k
 * [size, key heads, n], v [len, heads, n], decay and beta [heads, n]; head h has key head
 * h / (heads / key heads), or if tiled h % key heads:
 *   s = exp(decay) s;   s[i] = s[i] + beta (v[i] - k . s[i]) k;   y[i] = q . s[i]
 *   F32 [len, heads, n].  Kept: s, F32 [size, len, heads].
 *
 * lm_state_delta_each: the same where each channel of a key decays by itself (Kimi Team, "Kimi
 * Linear", 2025): decay [size, heads, n] times rate, [heads] in any shape; as many key heads.
 *   s[i, j] = exp(rate decay[j]) s[i, j], then as above
 *
 * lm_state_shift: how the token before differs, x [channels, n]: y[c, t] = x[c, t - 1] - x[c, t],
 * F32 [channels, n].  Kept: the last input, F32 [channels].
 *
 * lm_state_wkv6, lm_state_wkv7: RWKV's memory (Peng et al., "Eagle and Finch", 2024; "RWKV-7
 * Goose", 2025).  r, k, decay (a factor), a and b [size, heads, n], v [len, heads, n], bonus
 * [size, heads] in any shape:
 *   6:  y[i] = r . (s[i] + bonus k v[i]);   s[i, j] = decay[j] s[i, j] + k[j] v[i]
 *   7:  s[i, j] = decay[j] s[i, j] + (a . s[i]) b[j] + k[j] v[i];   y[i] = r . s[i]
 *   F32 [len, heads, n].  Kept: s, F32 [size, len, heads].
 *
 * lm_state_gla: gated linear attention (Yang et al., 2024), the same as 7 without a and b.
 */
struct lm_tensor *lm_state_conv(struct lm_graph *g, struct lm_tensor *x, struct lm_tensor *w,
                                struct lm_tensor *bias, struct lm_tensor *states, size_t off);
struct lm_tensor *lm_state_scan(struct lm_graph *g, struct lm_tensor *x, struct lm_tensor *dt,
                                struct lm_tensor *a, struct lm_tensor *b, struct lm_tensor *c,
                                struct lm_tensor *d, struct lm_tensor *states, size_t off);
struct lm_tensor *lm_state_delta(struct lm_graph *g, struct lm_tensor *q, struct lm_tensor *k,
                                 struct lm_tensor *v, struct lm_tensor *decay,
                                 struct lm_tensor *beta, struct lm_tensor *states, size_t off,
                                 bool tiled);
struct lm_tensor *lm_state_delta_each(struct lm_graph *g, struct lm_tensor *q,
                                      struct lm_tensor *k, struct lm_tensor *v,
                                      struct lm_tensor *decay, struct lm_tensor *rate,
                                      struct lm_tensor *beta, struct lm_tensor *states,
                                      size_t off);
struct lm_tensor *lm_state_shift(struct lm_graph *g, struct lm_tensor *x,
                                 struct lm_tensor *states, size_t off);
struct lm_tensor *lm_state_wkv6(struct lm_graph *g, struct lm_tensor *r, struct lm_tensor *k,
                                struct lm_tensor *v, struct lm_tensor *decay,
                                struct lm_tensor *bonus, struct lm_tensor *states, size_t off);
struct lm_tensor *lm_state_wkv7(struct lm_graph *g, struct lm_tensor *r, struct lm_tensor *k,
                                struct lm_tensor *v, struct lm_tensor *decay,
                                struct lm_tensor *a, struct lm_tensor *b,
                                struct lm_tensor *states, size_t off);
struct lm_tensor *lm_state_gla(struct lm_graph *g, struct lm_tensor *r, struct lm_tensor *k,
                               struct lm_tensor *v, struct lm_tensor *decay,
                               struct lm_tensor *states, size_t off);

/* Elements; bytes from the first to the last, padding between rows included; is it without
 * gaps; number of rows (all axes but the first). */
size_t lm_tensor_len(const struct lm_tensor *t);
size_t lm_tensor_bytes(const struct lm_tensor *t);
bool lm_tensor_contiguous(const struct lm_tensor *t);
size_t lm_tensor_rows(const struct lm_tensor *t);

/*
 * lm_graph_expand - append t and what it needs to the nodes and leaves, sources before
 * users, each once, and count its uses.  May be called for several results; what was
 * appended earlier stays in front.  Returns LM_OK or the graph's failure.
 */
int lm_graph_expand(struct lm_graph *g, struct lm_tensor *t);

/*
 * lm_graph_plan - give every node and input without data an offset in the buffer of its
 * place, a number below LM_MAX_PLACES that is 0 unless a scheduler set it.
 *
 * Memory of a tensor is used again once its last reader is done, and a node whose
 * operation allows it takes over the bytes of its first source when it is their
 * last reader and in the same place; tensors flagged OUTPUT, LOSS or KEEP keep theirs.
 * Offsets are multiples of align, a power of two.  g->planned are the sizes needed.
 */
int lm_graph_plan(struct lm_graph *g, size_t align);

/* Put the planned tensors of a place at base, a buffer of g->planned[place] bytes, and
 * views at their roots' bytes. */
void lm_graph_place(struct lm_graph *g, uint32_t place, void *base, struct lm_buffer *buffer);

#endif
