/* SPDX-License-Identifier: MIT */
#ifndef LM_TEST_NOT_HERE_H
#define LM_TEST_NOT_HERE_H

/* End a test whose data or build is not here.  cmocka's own skip() is written "not ok" in
 * TAP, which prove takes for a failure. */
#define NOT_HERE(what)                                                      \
    do {                                                                    \
        print_message("# not tried: %s\n", what);                           \
        return;                                                             \
    } while (0)

/* Defined in builds with sanitizers, which keep what was freed and allocate for themselves. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif

#endif
