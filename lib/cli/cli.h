/* SPDX-License-Identifier: MIT */
#ifndef LM_CLI_H
#define LM_CLI_H

/*
 * What every program shares.  Only this folder prints to standard error, keeps
 * state for the process or ends it.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/env.h"
#include "base/err.h"
#include "io/output.h"

/* Exit statuses: done; the data said no; could not be done. */
enum { CLI_OK = 0, CLI_NO = 1, CLI_TROUBLE = 2 };

/* First call of main: remembers the program's name, without its folder, which argv[0] then is,
 * for getopt's messages; restores SIGPIPE; opens descriptors 0 to 2, to something that fails, if
 * the caller closed them. */
void cli_start(char *argv[]);

/* The name the program was called by. */
const char *cli_name(void);

/* One line "prog: message" on standard error, control characters made visible,
 * standard output flushed first.  Name the file first when there is one. */
void cli_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* cli_warn, then exit with status (removing unfinished outputs). */
_Noreturn void cli_die(int status, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* cli_warn, a line saying where help is, exit CLI_TROUBLE. */
_Noreturn void cli_bad_usage(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));

/* What getopt's '?' and ':' end in: getopt has printed its line already. */
_Noreturn void cli_try_help(void);

/* The exit status that belongs to an error code. */
int cli_status(int code);

/* "prog: file: err->text"; file may be NULL.  Returns the exit status. */
int cli_report(const char *file, const struct lm_err *err);

/* cli_report and exit. */
_Noreturn void cli_die_err(const char *file, const struct lm_err *err);

/* --help: usage, then help, on standard output. */
int cli_help(const char *usage, const char *help);

/* --version: "prog (lmpipe) X.Y" and what the build contains. */
int cli_version(void);

/* The key that programs which write GGUF put --provenance under. */
#define CLI_PROVENANCE_KEY "lmpipe.provenance"

/* What --provenance writes: "prog (lmpipe) X.Y: arguments", the caller's to free; exits
 * when memory is short. */
char *cli_provenance(char *const argv[]);

/*
 * cli_out_open - lm_out_open for programs: refuses binary output to a terminal
 * unless force, and registers the unfinished file so that a signal that ends the program,
 * and cli_die, remove it.  Exits on failure.
 */
struct lm_out *cli_out_open(const char *path, bool binary, bool force);

/* Commit or abort an output opened with cli_out_open.  cli_out_commit returns
 * the exit status. */
int cli_out_commit(struct lm_out *out);
void cli_out_abort(struct lm_out *out);

/*
 * Commit n outputs that belong together: each is complete on the disk before the first
 * takes its name, and if one cannot be completed none does.  Returns the exit status.
 */
int cli_out_commit_all(struct lm_out **outs, size_t n);

/* Exit with a message when IN and OUT are the same file; links are seen through.
 * "-" for either is checked by descriptor. */
void cli_refuse_same(const char *in, const char *out);

/* Exit with a message when two outputs, of which option opt names the first, are the same file,
 * be it one that does not exist yet; links are seen through, "-" is standard output.  Devices
 * such as /dev/null may take both. */
void cli_refuse_one(const char *opt, const char *path, const char *out);

/* fwrite to and fflush of standard output; what fails ends the program with the reason, which
 * at the end would be forgotten. */
void cli_write(const void *p, size_t n);
void cli_flush(void);

/* Last call of main: flush and check standard output, erase progress; returns
 * the exit status, which a late write error turns into CLI_TROUBLE. */
int cli_finish(int status);

/* Numbers of threads: 0: as many as CPUs may be used. */
struct cli_env_options { bool quiet, verbose, progress; int n_threads, n_threads_batch; };

/* Environment for library calls: notes to standard error (LM_FAULT always, LM_WARN unless quiet,
 * LM_INFO if verbose); progress there if it is a terminal and not quiet, or if asked for. */
struct lm_env cli_env(struct cli_env_options o);

/* Numbers: optional K M G T (powers of 1000) or Ki Mi Gi Ti (1024); bad usage
 * when it is no number or outside min..max.  opt is the long option's name. */
uint64_t cli_u64(const char *opt, const char *s, uint64_t min, uint64_t max);
int64_t cli_i64(const char *opt, const char *s, int64_t min, int64_t max);
double cli_f64(const char *opt, const char *s, double min, double max);

/* -t: 1 .. 1024. */
int cli_threads(const char *name, const char *s);

/* The index of s in names (NULL-terminated, case does not matter), or bad usage
 * listing them all. */
int cli_choice(const char *opt, const char *s, const char *const names[]);

#endif
