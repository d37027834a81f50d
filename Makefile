# make              build the library and every program into $(BUILD)
# make SAN=1        the same with address and undefined-behaviour sanitizers, into build-san
# make check        every test on what is built
# make install      honours DESTDIR, PREFIX and PROGRAM_PREFIX
# Settings you keep go in config.mk: CC = clang, CFLAGS = -O3, ...
-include config.mk

VERSION = 0.1

SAN      ?= 0
ifeq ($(SAN),1)
BUILD    ?= build-san
CFLAGS   ?= -O1 -g
SANFLAGS  = -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
else
BUILD    ?= build
CFLAGS   ?= -O2 -g
endif
PREFIX     ?= /usr/local
BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib
LIBEXECDIR ?= $(PREFIX)/libexec/lmpipe
INCLUDEDIR ?= $(PREFIX)/include
MANDIR     ?= $(PREFIX)/share/man
COMPDIR    ?= $(PREFIX)/share/bash-completion/completions
INSTALL    ?= install
PROVE      ?= prove
PKG_CONFIG ?= pkg-config
AR         ?= ar
NVCC       ?= nvcc
PROGRAM_PREFIX ?=

# Libraries: found by pkg-config.  Without one the build goes on, and a program
# that is asked for what it lacks says so.
comma := ,
have = $(shell $(PKG_CONFIG) --exists $(1) 2>/dev/null && echo 1)
ifeq ($(call have,libzstd),1)
LM_CPPFLAGS += -DLM_HAVE_ZSTD $(shell $(PKG_CONFIG) --cflags libzstd)
LM_LDLIBS   += $(shell $(PKG_CONFIG) --libs libzstd)
else
$(info libzstd not found: built without reading and writing zstd)
endif
ifeq ($(call have,libarchive zlib),1)
LM_CPPFLAGS += -DLM_HAVE_ARCHIVE $(shell $(PKG_CONFIG) --cflags libarchive zlib)
LM_LDLIBS   += $(shell $(PKG_CONFIG) --libs libarchive zlib)
else
$(info libarchive or zlib not found: built without reading archives)
endif
ifeq ($(call have,libutf8proc),1)
LM_CPPFLAGS += -DLM_HAVE_UTF8PROC $(shell $(PKG_CONFIG) --cflags libutf8proc)
LM_LDLIBS   += $(shell $(PKG_CONFIG) --libs libutf8proc)
else
$(info libutf8proc not found: built without byte-level BPE vocabularies)
endif
ifeq ($(call have,libpcre2-8),1)
LM_CPPFLAGS += -DLM_HAVE_PCRE2 $(shell $(PKG_CONFIG) --cflags libpcre2-8)
LM_LDLIBS   += $(shell $(PKG_CONFIG) --libs libpcre2-8)
else
$(info libpcre2-8 not found: built without tokenizers that have patterns of their own)
endif

# CUDA is probed; CUDA=0 or CUDA=1 overrides.
CUDA ?= $(if $(shell command -v $(NVCC) 2>/dev/null),1,0)
ifeq ($(CUDA),1)
NVCC_RELEASE = $(shell $(NVCC) --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')
CUDA_NOTE = CUDA toolkit $(NVCC_RELEASE) present, no CUDA backend yet
else
CUDA_NOTE = no CUDA
endif

# What the code needs, kept apart from what the builder likes.
LM_CFLAGS    = -std=c11 -Wall -Wextra -Wshadow -Wvla -ffp-contract=off -fno-math-errno \
               -MMD -MP -pthread $(SANFLAGS)
LM_CPPFLAGS += -Ilib -D_XOPEN_SOURCE=700 -D_FILE_OFFSET_BITS=64 -DLM_VERSION='"$(VERSION)"'
# Only the libraries that a program calls are loaded with it: libarchive brings a dozen more.
AS_NEEDED    = $(if $(filter Linux,$(shell uname -s)),-Wl$(comma)--as-needed)
LM_LDFLAGS   = $(AS_NEEDED) -pthread $(SANFLAGS)
COMPILE      = $(CC) $(LM_CPPFLAGS) $(CPPFLAGS) $(LM_CFLAGS) $(CFLAGS)

PROGS := $(sort $(notdir $(basename $(wildcard cmd/*.c))))
LIB   := $(BUILD)/liblmpipe.a
SRCS  := $(filter-out lib/backend/cuda/% lib/backend/vulkan/%,$(wildcard lib/*/*.c lib/*/*/*.c))
OBJS  := $(SRCS:%.c=$(BUILD)/%.o)
UNIT  := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(wildcard tests/unit/*.c))
FUZZ  := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/*.c))
MODULES := $(patsubst tests/module/%.c,$(BUILD)/module/liblmpipe-%.so,$(wildcard tests/module/*.c))
TEST_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/unit/*.c tests/fuzz/*.c))

## all: the library and every program
all: $(PROGS:%=$(BUILD)/bin/%)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(COMPILE) -c -o $@ $<

# Wider instructions live in files of their own, NAME_avx2.c and NAME_avx512.c, chosen at
# run time; nothing else is built for more than the baseline.
ifneq ($(filter x86_64%,$(shell $(CC) -dumpmachine)),)
AVX2   = -mavx2 -mfma -mf16c
AVX512 = $(AVX2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vbmi -mavx512vnni
endif
$(BUILD)/%_avx2.o: LM_CFLAGS += $(AVX2)
$(BUILD)/%_avx512.o: LM_CFLAGS += $(AVX512)

# A whole kernel is one function after inlining: with the undefined-behaviour sanitizer or
# coverage for fuzzing too, each of these files compiles for minutes.
$(BUILD)/lib/backend/cpu/mulmat_avx%.o $(BUILD)/lib/quant/iq_search_avx%.o: \
    SANFLAGS := $(SANFLAGS:-fsanitize=address,undefined=-fsanitize=address)
$(BUILD)/lib/backend/cpu/mulmat_avx%.o $(BUILD)/lib/quant/iq_search_avx%.o: FUZZFLAGS :=

$(BUILD)/lib/cli/cli.o: LM_CPPFLAGS += -DLM_CUDA_NOTE='"$(CUDA_NOTE)"'
$(BUILD)/cmd/lmpipe.o: LM_CPPFLAGS += -DLM_LIBEXECDIR='"$(LIBEXECDIR)"'
$(BUILD)/lib/backend/modules.o: LM_CPPFLAGS += -DLM_LIBDIR='"$(LIBDIR)"'
$(BUILD)/lib/cli/cli.o $(BUILD)/cmd/lmpipe.o $(BUILD)/lib/backend/modules.o: Makefile

$(LIB): $(OBJS)
	@rm -f $@
	$(AR) rcs $@ $^

$(PROGS:%=$(BUILD)/bin/%): $(BUILD)/bin/%: $(BUILD)/cmd/%.o $(LIB)
	@mkdir -p $(@D)
	$(CC) $(LM_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LM_LDLIBS) $(LDLIBS) -lm

$(UNIT): $(BUILD)/unit/%: $(BUILD)/tests/unit/%.o $(LIB)
	@mkdir -p $(@D)
	$(CC) $(LM_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ -lcmocka $(LM_LDLIBS) $(LDLIBS) -lm

# Devices for tests, as modules: nothing of the library is linked to them.
$(BUILD)/module/liblmpipe-%.so: tests/module/%.c
	@mkdir -p $(@D)
	$(COMPILE) -fPIC -fvisibility=hidden -shared $(LM_LDFLAGS) $(LDFLAGS) -o $@ $<

## fuzz: the fuzz targets, replaying files; with CC=clang FUZZER=1 for libFuzzer
# tests/fuzz/replay.c is the main that feeds files to a target where libFuzzer does not.
ifeq ($(FUZZER),1)
FUZZ_MAIN :=
$(FUZZ): SANFLAGS += -fsanitize=fuzzer
FUZZFLAGS := -fsanitize=fuzzer-no-link
LM_CFLAGS += $(FUZZFLAGS)
else
FUZZ_MAIN := $(BUILD)/tests/fuzz/replay.o
endif
FUZZ := $(filter-out %/replay,$(FUZZ))
fuzz: $(FUZZ)
$(FUZZ): $(BUILD)/fuzz/%: $(BUILD)/tests/fuzz/%.o $(FUZZ_MAIN) $(LIB)
	@mkdir -p $(@D)
	$(CC) $(LM_LDFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LM_LDLIBS) $(LDLIBS) -lm

## check: every test on what is built
check: check-unit check-cli check-man check-fuzz check-style

## unit: the unit tests
unit: $(UNIT) $(MODULES)

## check-unit: the library's functions
check-unit: all $(UNIT) $(MODULES)
	@LMPIPE_BUILD=$(BUILD) CMOCKA_MESSAGE_OUTPUT=TAP $(PROVE) -e '' $(UNIT)

## check-cli: pipelines through the built programs, and what holds for every program
check-cli: all $(MODULES)
	@PATH="$(CURDIR)/$(BUILD)/bin:$$PATH" $(PROVE) -e sh tests/all/*.t tests/cli/*.t

## check-man: every EXAMPLES section, and the pages' form
check-man: all
	@PATH="$(CURDIR)/$(BUILD)/bin:$$PATH" $(PROVE) -e sh tests/man/*.t

## check-fuzz: the fuzz targets on their corpora
check-fuzz: fuzz
	@PATH="$(CURDIR)/$(BUILD)/fuzz:$$PATH" $(PROVE) -e sh tests/fuzz/replay.t

## check-style: layers, symbols, lines
check-style: $(LIB)
	@BUILD=$(BUILD) $(PROVE) -e sh scripts/check-layers scripts/check-lines scripts/check-symbols

# The public header and what it includes.
PUBLIC = $(sort $(patsubst lib/%,%,$(filter lib/%,$(shell $(CC) -Ilib -MM lib/lmpipe.h))))
## install: programs, library, header and pages; PROGRAM_PREFIX= renames programs
install: all
	$(INSTALL) -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBEXECDIR) $(DESTDIR)$(LIBDIR) \
	    $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(MANDIR)/man3 \
	    $(DESTDIR)$(MANDIR)/man5 $(DESTDIR)$(MANDIR)/man7 $(DESTDIR)$(COMPDIR)
	for p in $(filter-out lmpipe,$(PROGS)); do \
	    $(INSTALL) -m 755 $(BUILD)/bin/$$p $(DESTDIR)$(LIBEXECDIR)/$$p && \
	    ln -sf $(LIBEXECDIR)/$$p $(DESTDIR)$(BINDIR)/$(PROGRAM_PREFIX)$$p && \
	    $(INSTALL) -m 644 man/$$p.1 $(DESTDIR)$(MANDIR)/man1/$(PROGRAM_PREFIX)$$p.1 && \
	    ln -sf lmpipe $(DESTDIR)$(COMPDIR)/$(PROGRAM_PREFIX)$$p || exit 1; \
	done
	$(INSTALL) -m 644 scripts/completion $(DESTDIR)$(COMPDIR)/lmpipe
	$(INSTALL) -m 755 $(BUILD)/bin/lmpipe $(DESTDIR)$(BINDIR)/lmpipe
	$(INSTALL) -m 644 man/lmpipe.1 $(DESTDIR)$(MANDIR)/man1
	$(INSTALL) -m 644 man/*.5 $(DESTDIR)$(MANDIR)/man5
	$(INSTALL) -m 644 man/*.7 $(DESTDIR)$(MANDIR)/man7
	$(INSTALL) -m 644 man/*.3 $(DESTDIR)$(MANDIR)/man3
	$(INSTALL) -m 644 $(LIB) $(DESTDIR)$(LIBDIR)
	for h in $(PUBLIC); do \
	    $(INSTALL) -D -m 644 lib/$$h $(DESTDIR)$(INCLUDEDIR)/lmpipe/$$h || exit 1; \
	done
	printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' 'includedir=$(INCLUDEDIR)' '' \
	    'Name: lmpipe' 'Description: run language models' 'Version: $(VERSION)' \
	    'Cflags: -I$${includedir}/lmpipe' \
	    'Libs: -L$${libdir} -llmpipe -pthread $(LM_LDLIBS) -lm' \
	    > $(DESTDIR)$(LIBDIR)/pkgconfig/lmpipe.pc

## uninstall: what install put there
uninstall:
	for p in $(filter-out lmpipe,$(PROGS)); do \
	    rm -f $(DESTDIR)$(BINDIR)/$(PROGRAM_PREFIX)$$p \
	        $(DESTDIR)$(COMPDIR)/$(PROGRAM_PREFIX)$$p \
	        $(DESTDIR)$(MANDIR)/man1/$(PROGRAM_PREFIX)$$p.1; \
	done
	rm -rf $(DESTDIR)$(LIBEXECDIR) $(DESTDIR)$(INCLUDEDIR)/lmpipe
	rm -f $(DESTDIR)$(BINDIR)/lmpipe $(DESTDIR)$(COMPDIR)/lmpipe \
	    $(DESTDIR)$(MANDIR)/man1/lmpipe.1 \
	    $(DESTDIR)$(LIBDIR)/liblmpipe.a $(DESTDIR)$(LIBDIR)/pkgconfig/lmpipe.pc
	for f in man/*.[357]; do rm -f $(DESTDIR)$(MANDIR)/man$${f##*.}/$${f##*/}; done

## clean: remove what was built
clean:
	rm -rf $(BUILD)

## list: these targets
list:
	@sed -n 's/^## //p' Makefile

.PHONY: all unit fuzz check check-unit check-cli check-man check-fuzz check-style install \
    uninstall clean list
.SECONDARY:
-include $(OBJS:.o=.d) $(MODULES:.so=.d) $(PROGS:%=$(BUILD)/cmd/%.d) $(TEST_OBJS:.o=.d)
