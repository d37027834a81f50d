/* SPDX-License-Identifier: MIT */
#ifndef LM_MODEL_H
#define LM_MODEL_H

/*
 * Running a model: load a GGUF file, make a context, evaluate batches of tokens.
 *
 *   struct lm_model *m = lm_model_load(path, &mo, env, &err);
 *   struct lm_ctx *c = lm_ctx_new(m, &co, env, &err);
 *   lm_ctx_decode(c, tokens, n, &err);       each with sequence and position
 *   lm_ctx_logits(c, i)                      of the i-th token, if wanted
 *
 * A model is read-only once loaded and may serve several contexts; a context is
 * used by one thread at a time and owns its threads.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "base/env.h"
#include "base/err.h"
#include "gguf/gguf.h"
#include "io/input.h"
#include "io/output.h"
#include "quant/quant.h"
#include "stream/logits.h"

struct lm_tensor;
struct lm_model;
struct lm_ctx;

/* Tables of which a token needs a row of each layer, such as Gemma 3n's, where everything else is
 * read or kept in memory: their rows stay in the file, and are read when they are wanted. */
enum lm_lazy {
    LM_LAZY_AUTO,                /* tables above LM_LAZY_ABOVE bytes                */
    LM_LAZY_ON,
    LM_LAZY_OFF
};
#define LM_LAZY_ABOVE (UINT64_C(4) << 30)

enum lm_load {
    LM_LOAD_MMAP,
    LM_LOAD_READ,
    LM_LOAD_MLOCK                /* map, and keep everything in memory              */
};

/* Which devices compute, and what.  The CPU computes what is left. */
struct lm_placement {
    const char *devices;         /* names, joined by commas, best first; NULL: all there are */
    bool        some_layers;     /* only the last n_layers of them on other devices than the
                                    CPU; the output counts as a layer behind the last      */
    uint32_t    n_layers;
    /* The name of one of them for a tensor's weights, NULL: as above; or NULL. */
    const char *(*choose)(void *arg, const char *tensor);
    void       *choose_arg;
    bool        exact;           /* only devices on which, to the bit, what a token gives does
                                    not depend on its neighbours in a batch               */
};

struct lm_model_options {
    enum lm_load             load;
    enum lm_lazy             lazy;
    bool                     check;         /* every value of the weights must be a number */
    /* [n_shards] the model's other files in order, if they are not called as shards are */
    const char *const       *shards;
    size_t                   n_shards;
    bool                     no_repack;     /* multiply weights as they lie in the file    */
    bool                     draft_head;    /* load the layer that predicts further tokens, of
                                               several the first                           */
    struct lm_placement      placement;
    /* [n_overrides] metadata to read instead; a key that begins with a dot has the name of the
     * architecture before it. */
    const struct lm_gguf_kv *overrides;
    size_t                   n_overrides;
};

/*
 * lm_model_load - load a model, of one file or of several of which path is the first;
 * options may be NULL (map, repack, all devices).
 *
 * Layers are spread over the devices in order, each in one piece, as evenly as it goes.
 * Tensors that the architecture does not know are noted.
 * An architecture or tensor type that cannot run is LM_ENOSUP, as is a draft head that is asked
 * for and not there; an unknown device, or one that is named twice, LM_EUSE, and so is a file
 * that is no model, but something that goes with one; a file at odds with its metadata is LM_EDATA,
 * or LM_EUSE where an override is the cause.
 */
struct lm_model *lm_model_load(const char *path, const struct lm_model_options *o,
                               const struct lm_env *env, struct lm_err *err);
void lm_model_free(struct lm_model *m);

/* The file's metadata, the model's until lm_model_free. */
const struct lm_gguf *lm_model_gguf(const struct lm_model *m);
/* The same of file i of several, NULL beyond the last; the first has the metadata. */
const struct lm_gguf *lm_model_file(const struct lm_model *m, size_t i);
/* GGUF name of the architecture; number of vocabulary entries (rows of the output matrix);
 * context length of training. */
const char *lm_model_arch(const struct lm_model *m);
uint32_t lm_model_n_vocab(const struct lm_model *m);
/* Does a model of its kind read the metadata ARCH.name?  Are its positions stretched by YaRN?  Does
 * the length before a stretching, of whatever method, change its results? */
bool lm_model_reads(const struct lm_model *m, const char *name);
bool lm_model_has_yarn(const struct lm_model *m);
bool lm_model_has_first_length(const struct lm_model *m);
/* Layers, without those that predict further tokens, and the length of a hidden state. */
uint32_t lm_model_n_layer(const struct lm_model *m);
uint32_t lm_model_n_embd(const struct lm_model *m);
uint32_t lm_model_n_ctx_train(const struct lm_model *m);
/* Is it an encoder, or are its tokens to see later ones as if it were: no logits, sequences
 * evaluated whole; and how its file says that their vectors become one. */
bool lm_model_is_encoder(const struct lm_model *m);
/* Has it an encoder beside its decoder, see lm_ctx_encode? */
bool lm_model_has_encoder(const struct lm_model *m);
/* The id that its decoder begins with, if the file says one (else *id stays): LM_EDATA when it
 * is no number, or none of the vocabulary. */
int lm_model_decoder_start(const struct lm_model *m, int64_t *id, struct lm_err *err);
enum lm_pooling lm_model_pooling(const struct lm_model *m);
/* The same, or if the file does not say it: mean of an encoder, else last. */
enum lm_pooling lm_model_pooling_default(const struct lm_model *m);

/*
 * lm_model_head - what the header of a logits stream says of the model, and what lm_chain_new
 * wants to know of it.
 *
 * name: what to call a model whose file does not say it.  env is for notes about its vocabulary;
 * one that this version cannot use is no fault.  *h is to be released in any case
 * (lm_logits_head_release).  n_ctx and loop are left to the caller.
 */
int lm_model_head(const struct lm_model *m, const char *name, const struct lm_env *env,
                  struct lm_logits_head *h, struct lm_err *err);

/*
 * Classifiers, rerankers among them: what lm_ctx_classify says of a sequence.
 *
 * lm_model_n_labels - how many numbers that is, 0 without a classifier; lm_model_label: what the
 * file calls number i, the model's, empty if it does not.
 * lm_model_class_pooling - how a sequence's vectors become the one that is judged: mean, cls
 * or last.
 */
uint32_t lm_model_n_labels(const struct lm_model *m);
struct lm_str lm_model_label(const struct lm_model *m, uint32_t i);
enum lm_pooling lm_model_class_pooling(const struct lm_model *m);

struct lm_ctx_options {
    uint32_t              n_ctx;        /* most tokens a sequence may have; 0: training length */
    uint32_t              n_batch;      /* most tokens of one lm_ctx_decode; 0: 2048     */
    uint32_t              n_ubatch;     /* most tokens evaluated at once; 0: 512         */
    /* F32 F16 BF16 Q8_0 Q5_0 Q5_1 Q4_0 Q4_1 IQ4_NL; NULL: F16                              */
    const struct lm_type *cache_k, *cache_v;
    bool                  embed;        /* the last hidden states instead of logits: rows of
                                           lm_ctx_row_len floats                         */
    bool                  keep_all;     /* layers with windows remember all positions too, so
                                           that sequences can be cut back to any length  */
    bool                  draft_head;   /* of a model loaded with it: see lm_ctx_draft    */
    bool                  no_hadamard;  /* round keys and values of types that round in blocks
                                           as they are, not spread by tensor/hadamard.h  */
    bool                  pairs;        /* an encoder's tokens after a separator are of a second
                                           text, as classifiers of pairs have learned it */
};

/* A context with an empty memory.  Memory for cached tokens is touched as used and
 * grows with the number of cached tokens of all sequences. */
struct lm_ctx *lm_ctx_new(struct lm_model *m, const struct lm_ctx_options *o,
                          const struct lm_env *env, struct lm_err *err);
void lm_ctx_free(struct lm_ctx *c);

/* Most tokens that a sequence, and one lm_ctx_decode, may have here. */
uint32_t lm_ctx_n_ctx(const struct lm_ctx *c);
uint32_t lm_ctx_n_batch(const struct lm_ctx *c);

/* Floats of a row of lm_ctx_logits: the vocabulary's size, or that of a hidden state. */
uint32_t lm_ctx_row_len(const struct lm_ctx *c);

struct lm_batch_token {
    int32_t  id;        /* 0 .. n_vocab-1, checked                                    */
    uint32_t seq;       /* any number                                                 */
    uint32_t pos;       /* must be the sequence's length so far, in order             */
    bool     want;      /* keep its logits                                            */
};

/*
 * lm_ctx_decode - evaluate n tokens (1 .. n_batch) and remember them.
 *
 * On failure the memory is as before the call: LM_EDATA for an id outside the
 * vocabulary, LM_EUSE for a position that does not follow or lies beyond the context,
 * LM_ENOMEM, LM_ESTOP when the context's env asked to stop.  Bit for bit, what a token gives
 * depends only on the tokens before it in its sequence: not on the number of threads, nor on
 * how a batch is cut or on its neighbours in it.
 *
 * An encoder's tokens see their whole sequence, which must come in one batch (LM_EUSE), its
 * tokens side by side; it is forgotten afterwards.
 */
int lm_ctx_decode(struct lm_ctx *c, const struct lm_batch_token *t, size_t n, struct lm_err *err);

/*
 * lm_decode - lm_ctx_decode for callers that mend what they can: 1 when there is no room for
 * the tokens, in memory or in the context: drop or shorten sequences, or use a larger context,
 * and try again.  Otherwise what lm_ctx_decode returns.
 */
int lm_decode(struct lm_ctx *c, const struct lm_batch_token *t, size_t n, struct lm_err *err);

/* Logits [lm_ctx_row_len] of the i-th token of the last batch; NULL if it was not wanted, there
 * is no such token, or the last batch failed.  Valid until the next batch. */
const float *lm_ctx_logits(const struct lm_ctx *c, size_t i);

/*
 * lm_ctx_pool - the hidden states of a sequence of the last batch made into one vector: out
 * [lm_ctx_row_len].
 *
 * how: LM_POOLING_MEAN of its tokens, CLS or LAST, that of the first or the last of them, or RANK,
 * as lm_model_class_pooling says.  Those tokens must have been wanted, and for mean and cls the
 * batch must have the whole sequence; else, and without options.embed, LM_EUSE.
 * What comes next is lm_ctx_project or lm_ctx_classify; all three leave the last batch's results
 * as they are.
 */
int lm_ctx_pool(const struct lm_ctx *c, uint32_t seq, enum lm_pooling how, float *out,
                struct lm_err *err);

/*
 * Embeddings behind the pooling: what the model's further products, if it has some, make of a
 * pooled vector [lm_ctx_row_len] of a context of hidden states: out [lm_model_embd_len].
 * LM_EDATA where the products do not fit each other.
 */
uint32_t lm_model_embd_len(const struct lm_model *m);
int lm_ctx_project(struct lm_ctx *c, const float *vector, float *out, struct lm_err *err);

/*
 * lm_ctx_classify - what the model's classifier says of a pooled vector [lm_ctx_row_len] of a
 * context of hidden states: out [lm_model_n_labels], as the classifier computes it; of a model
 * that is no encoder, whose labels are words that may come next, their shares, which sum to 1.
 * LM_ENOSUP without a classifier.
 */
int lm_ctx_classify(struct lm_ctx *c, const float *vector, float *out, struct lm_err *err);

struct lm_counts {
    uint64_t tokens[2];          /* evaluated: one alone, as generating does; with others    */
    double   seconds[2];         /* that took                                                */
    uint64_t built, reused;      /* graphs made for a piece of a batch; kept from before     */
};

/* What a context has done so far. */
void lm_ctx_counts(const struct lm_ctx *c, struct lm_counts *out);

/*
 * lm_ctx_by_length - do results depend on what a sequence is at the end of its batch: on its length
 * (longrope), or on where adapters begin (see below)?  Then what it had before is evaluated again
 * where that makes a difference.
 * lm_ctx_expect - a sequence will go on with these n ids: as long as it does, tokens of batches
 * with a part of them give what they give in one batch with all.  Without by_length nothing is
 * to do.  LM_OK; LM_EUSE beyond the context; LM_ENOMEM.
 */
bool lm_ctx_by_length(const struct lm_ctx *c);
int lm_ctx_expect(struct lm_ctx *c, uint32_t seq, const int32_t *ids, size_t n,
                  struct lm_err *err);

/* Cached length of a sequence (0: unknown sequence). */
uint32_t lm_ctx_seq_len(const struct lm_ctx *c, uint32_t seq);
/* Forget positions >= pos of a sequence; pos 0 drops it.  LM_ENOSUP where the memory cannot. */
int lm_ctx_seq_remove(struct lm_ctx *c, uint32_t seq, uint32_t pos, struct lm_err *err);
/* See to it that a sequence can be cut back to its present length, however many tokens follow,
 * until it is let go.  One that is cut below that or dropped is let go. */
void lm_ctx_seq_hold(struct lm_ctx *c, uint32_t seq, bool hold);

/* dst becomes a copy of src, whatever it was; they share memory until one of them goes on.
 * A copy of an unknown sequence is one. */
int lm_ctx_seq_copy(struct lm_ctx *c, uint32_t dst, uint32_t src, struct lm_err *err);
/* Drop all sequences but one. */
void lm_ctx_seq_keep(struct lm_ctx *c, uint32_t seq);
/* Up to `most` ids of the sequences there are; returns how many there are. */
size_t lm_ctx_seqs(const struct lm_ctx *c, uint32_t *ids, size_t most);

/*
 * lm_ctx_seq_shift - forget positions from .. to - 1 of a sequence; what follows moves down.
 *
 * Keys are turned to their new positions and rounded again to their type.  LM_EUSE beyond the
 * sequence's length; LM_ENOSUP where positions are part of what is remembered (recurrent
 * states, learned positions) or gone behind a window; then nothing has changed.
 * lm_ctx_can_shift tells whether the model can at all.
 */
int lm_ctx_seq_shift(struct lm_ctx *c, uint32_t seq, uint32_t from, uint32_t to,
                     struct lm_err *err);
int lm_ctx_can_shift(struct lm_ctx *c, struct lm_err *err);

/*
 * lm_ctx_seq_divide - bring tokens from .. to - 1 of a sequence by times as close together (Jin et
 * al., "LLM Maybe LongLM", 2024).
 *
 * It is the positions that they are rotated by which change: that of `from` stays, the distances
 * of the others from it become the whole part of a by-th, and what follows comes as much closer
 * as the last of them.  In batches, and for every other function, positions are what they were;
 * so are windows.  Tokens that follow a sequence are rotated by one position more each, also
 * where it was cut back.
 * LM_EUSE beyond the sequence's length, or by 0; LM_ENOSUP as lm_ctx_seq_shift, and where keys are
 * not rotated; then nothing has changed.
 *
 * lm_ctx_can_divide tells whether the model can at all.
 *
 * lm_ctx_seq_angle - the position that a token is rotated by; of the length of a sequence, that
 * of its next one.
 * lm_ctx_seq_divided - the end of what was divided: behind it positions go on one by one.
 */
int lm_ctx_seq_divide(struct lm_ctx *c, uint32_t seq, uint32_t from, uint32_t to, uint32_t by,
                      struct lm_err *err);
int lm_ctx_can_divide(struct lm_ctx *c, struct lm_err *err);
uint32_t lm_ctx_seq_angle(const struct lm_ctx *c, uint32_t seq, uint32_t pos);
uint32_t lm_ctx_seq_divided(const struct lm_ctx *c, uint32_t seq);

/*
 * lm_ctx_save - write what sequences remember, as lmpipe-state(5) says: all of them, or `only`
 * one (of none if it does not exist).
 * lm_ctx_save_part - of one sequence only what it cannot be cut back without: windows and recurrent
 * states.  Loaded again, the sequence, which must still have those tokens and may have gone on, is
 * as it was.
 * lm_ctx_load - make the sequences of such a file, in the place of those of the same number;
 * a cache of another type gets its values rounded again.  LM_EDATA for a file that is damaged or
 * another model's, LM_EUSE for a sequence longer than the context, or a part of one that has
 * fewer tokens; then nothing has changed.
 */
int lm_ctx_save(const struct lm_ctx *c, const uint32_t *only, struct lm_out *out,
                struct lm_err *err);
int lm_ctx_save_part(const struct lm_ctx *c, uint32_t seq, struct lm_out *out,
                     struct lm_err *err);
int lm_ctx_load(struct lm_ctx *c, struct lm_in *in, struct lm_err *err);

/*
 * Adapters: of low rank, as gguf-convert --lora writes them, and control vectors.
 *
 * lm_adapter_load: for a model, which must outlive it; LM_EDATA where it does not suit the
 * model.  Several contexts may use it.
 * lm_ctx_adapt: evaluate with these [n] from now on, instead of others before and of scales that
 * sequences had of their own; what is remembered stays as it is.  They must stay until the context
 * is freed or adapted anew.
 * LM_ENOSUP where the model's graph has no place for one; then none is left.
 *
 * An activated adapter of low rank (Greenewald et al., "Activated LoRA", 2025), which names the
 * tokens of its invocation, is only for a sequence's tokens from where these begin for the last
 * time, as far as the sequence goes at the end of a batch, or is expected to (lm_ctx_expect); what
 * was before is the model's own.  It needs a decoder that sees what came before.
 */
struct lm_adapter;
struct lm_adapted {
    const struct lm_adapter *adapter;
    float                    scale;
    uint32_t                 first, end;    /* of a control vector: layers first .. end - 1;
                                               end 0: all that it has                      */
};
struct lm_adapter *lm_adapter_load(struct lm_model *m, const char *path, struct lm_err *err);
void lm_adapter_free(struct lm_adapter *a);
bool lm_adapter_is_vector(const struct lm_adapter *a);
int lm_ctx_adapt(struct lm_ctx *c, const struct lm_adapted *list, size_t n, struct lm_err *err);

/*
 * Scales that a sequence has of its own.
 *
 * lm_ctx_n_scales - how many: adapters of low rank of lm_ctx_adapt's list, in whose order they are.
 * Control vectors count for all sequences.
 * lm_ctx_seq_set_scales - evaluate a sequence's tokens with these from its present length on, n
 * being lm_ctx_n_scales, or 0: with those of lm_ctx_adapt again.  What is remembered stays as it
 * is, and what of it is ever evaluated again keeps the scales that it was made with.  Sequences
 * with different scales may be in one batch, and each gives what it gives alone.
 * lm_ctx_seq_scales - those that count now, the context's until one of its functions is called;
 * NULL: those of lm_ctx_adapt.
 *
 * They go with a copy and are saved with a state; they stay when a sequence is cut, also at 0, and
 * go with n 0, lm_ctx_seq_keep of another or lm_ctx_adapt.  The first that are set have graphs made
 * anew; later ones do not.  LM_EUSE for another number of them, or one that is not finite;
 * LM_ENOSUP without adapters of low rank; LM_ENOMEM.  Then nothing has changed; with n 0 and a
 * sequence without tokens nothing can fail.
 */
size_t lm_ctx_n_scales(const struct lm_ctx *c);
int lm_ctx_seq_set_scales(struct lm_ctx *c, uint32_t seq, const float *scales, size_t n,
                          struct lm_err *err);
const float *lm_ctx_seq_scales(const struct lm_ctx *c, uint32_t seq);

/*
 * lm_ctx_room - see to it that tokens t [n] will find memory once seq is cut at pos.
 *
 * For callers that must not cut a sequence in vain: ask, cut, then evaluate t, in batches
 * or at once, before anything else.  LM_OK, or LM_ENOMEM and nothing has changed.
 */
int lm_ctx_room(struct lm_ctx *c, uint32_t seq, uint32_t pos, const struct lm_batch_token *t,
                size_t n, struct lm_err *err);

/*
 * Draft heads: layers that a model may have behind the last, to predict more than one token.
 *
 * lm_ctx_has_draft - is this a context with one?
 * lm_ctx_draft - what the head guesses to follow when id comes at position pos of a sequence, of
 * which it knows the tokens in front of pos: n ids, each the best one after those before it.
 *
 *   pos  1 .. the sequence's length; pos + n must not be beyond the context
 *   out  [n]
 *
 * The sequence stays as it is.  LM_EUSE for a position that is not its; LM_EDATA for an id outside
 * the vocabulary; LM_ENOSUP without a head, or where the sequence was loaded from a state that was
 * saved without it; LM_ENOMEM.
 */
bool lm_ctx_has_draft(const struct lm_ctx *c);
int lm_ctx_draft(struct lm_ctx *c, uint32_t seq, uint32_t pos, int32_t id, size_t n,
                 struct lm_guessed *out, struct lm_err *err);

/* A product of a weight: a matrix with rows x, or a stack of matrices (experts, or one a head)
 * with rows that each go to one of them. */
struct lm_observed {
    const char            *weight;      /* name of the weight tensor                     */
    size_t                 n_mat;       /* matrices; 1: a single one                     */
    size_t                 n, cols;     /* rows, and their length                        */
    const struct lm_tensor *node;       /* for lm_observed_row                           */
};

/* Row i, cols floats; *mat becomes the matrix that it goes to. */
const float *lm_observed_row(const struct lm_observed *o, size_t i, size_t *mat);

/*
 * lm_ctx_plan - show the graph of n tokens (at most n_ubatch), n_out of them wanted, planned as
 * it would be evaluated; graph and plan are fn's until it returns.
 */
struct lm_graph;
struct lm_plan;
int lm_ctx_plan(struct lm_ctx *c, size_t n, size_t n_out,
                void (*fn)(void *arg, const struct lm_graph *g, const struct lm_plan *p),
                void *arg, struct lm_err *err);

/* Name of the i-th place of a plan's tensors ("cpu"), NULL beyond the last. */
const char *lm_ctx_device(const struct lm_ctx *c, size_t i);
uint32_t lm_ctx_n_ubatch(const struct lm_ctx *c);

/*
 * lm_ctx_watch - see every node: fn(arg, NULL) when an evaluation begins, then fn(arg, node)
 * after each node, when it and what it read are there (lm_tensor_read).  fn NULL stops it.
 */
struct lm_tensor;
void lm_ctx_watch(struct lm_ctx *c, void (*fn)(void *arg, const struct lm_tensor *node),
                  void *arg);

/*
 * Models with an encoder beside the decoder (T5).
 *
 * lm_ctx_encoder_len - tokens that a sequence has of the encoder.
 * lm_ctx_encode - what a sequence's decoder looks at: n tokens (at most the context's) for the
 * encoder, instead of those it had; the sequence is dropped.  They stay when it is cut or dropped
 * otherwise, and go with n 0.  LM_ENOSUP for other models; LM_EDATA for an id outside the
 * vocabulary; LM_ENOMEM.  Tokens of a sequence without them cannot be evaluated (LM_EUSE).
 */
bool lm_ctx_has_encoder(const struct lm_ctx *c);
uint32_t lm_ctx_encoder_len(const struct lm_ctx *c, uint32_t seq);
int lm_ctx_encode(struct lm_ctx *c, uint32_t seq, const int32_t *ids, size_t n,
                  struct lm_err *err);

/*
 * lm_ctx_observe - see what every matrix is multiplied with (imatrix).
 *
 * fn is called on the context's thread after each evaluation step that multiplies a
 * weight; fn NULL stops it.  It sees all tokens, as long as one is wanted, but for the output
 * matrix, which is only for those that are.  Set it before the first evaluation.
 */
void lm_ctx_observe(struct lm_ctx *c, void (*fn)(void *arg, const struct lm_observed *o),
                    void *arg);

#endif
