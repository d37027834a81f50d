#!/bin/sh
# library.t - the program in lmpipe(3) compiles against what make install puts there, and
# does what the programs do; speaks TAP.
. "$(dirname "$0")/../tap.sh"
built=$(cd "$(dirname "$(command -v decode)")/.." && pwd)
command -v pkg-config >which && command -v cc >which || skip_all "no compiler or no pkg-config here"
out=$(make -s -C "$root" BUILD="$built" PREFIX="$dir/usr" install 2>&1)
ok $? 0 "make install${out:+: $out}"
export PKG_CONFIG_PATH="$dir/usr/lib/pkgconfig"
ok "$(pkg-config --modversion lmpipe)" "$(decode --version | sed -n '1s/.* //p')" "lmpipe.pc"
awk '/^\.Sh EXAMPLES/ { on = 1 } on && /^\.Bd/ { lit = 1; next } /^\.Ed/ { lit = 0 }
    lit { gsub(/\\e/, "\\"); gsub(/\\-/, "-"); sub(/^\\&/, ""); print }' \
        "$root/man/lmpipe.3" >next.c
ok "$(awk 'END { print (NR >= 50 && NR <= 75) }' next.c)" 1 "a program of about 60 lines"
san=
nm "$built/liblmpipe.a" 2>/dev/null | grep -q __asan && san=-fsanitize=address,undefined
# shellcheck disable=SC2046,SC2086
out=$(cc -std=c11 -Wall -Wextra -Werror $san $(pkg-config --cflags lmpipe) next.c \
    $(pkg-config --libs lmpipe) -o next 2>&1); ok $? 0 "it compiles without a warning${out:+: $out}"
./next "$m" 'Once upon a time' 20 >got; ok $? 0 "it runs"
{ tokenize -m "$m" 'Once upon a time' | tr -d '\n'; printf ' '
  tokenize -m "$m" 'Once upon a time' | sample --greedy -n 20 -- decode -i -m "$m"; } |
    tokenize -m "$m" -d >want
echo >>want
cmp want got; ok $? 0 "and says what the programs say"
./next "$m.none" x >got 2>err; ok "$? $(wc -l <err | tr -d ' ')" "1 1" "a model that is not there"
# C++ takes the same header, and finds the functions by their names in C.
cat >facts.cc <<'EOF'
#include <lmpipe.h>
#include <cstdio>
int main(int, char **argv)
{
    lm_err err;
    lm_model *m = lm_model_load(argv[1], nullptr, nullptr, &err);
    if (!m)
        return 1;
    std::printf("%s %u %s\n", lm_model_arch(m), lm_model_n_vocab(m), lm_version());
    lm_model_free(m);
    return 0;
}
EOF
if command -v c++ >which; then
    # shellcheck disable=SC2046,SC2086
    out=$(c++ -Wall -Wextra -pedantic -Werror $san $(pkg-config --cflags lmpipe) facts.cc \
        $(pkg-config --libs lmpipe) -o facts 2>&1); ok $? 0 "it compiles as C++${out:+: $out}"
    ok "$(./facts "$m")" "llama 368 $(pkg-config --modversion lmpipe)" "and runs"
fi
ok "$(cd usr/include/lmpipe && find . -name '*_impl.h' -o -name '*_parts.h' -o -name 'sched*')" "" \
   "headers that are nobody's business are not installed"
echo "1..$n"
