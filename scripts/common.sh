# common.sh - what the scripts share; sourced, never run.

root=$(cd "$(dirname "$0")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lmpipe
self=$(basename "$0")

say() { printf '%s: %s\n' "$self" "$*" >&2; }
die() { say "$*"; exit 2; }

# Debian packages, and a command that succeeds when they are there.
packages() {
    cat <<LIST
gcc libc6-dev: command -v cc
make: command -v make
pkg-config: command -v pkg-config
libarchive-dev: pkg-config --exists libarchive
zlib1g-dev: pkg-config --exists zlib
libzstd-dev: pkg-config --exists libzstd
libutf8proc-dev: pkg-config --exists libutf8proc
libpcre2-dev: pkg-config --exists libpcre2-8
LIST
    for group; do
        case $group in
        tests) cat <<LIST
libcmocka-dev: pkg-config --exists cmocka
mandoc: command -v mandoc
perl: command -v prove
binutils: command -v nm
zstd: command -v zstd
zip: command -v zip
bsdextrautils: command -v col
git: command -v git
LIST
            ;;
        clang) cat <<LIST
clang: command -v clang
libclang-rt-dev: ls /usr/lib/llvm-*/lib/clang/*/lib/linux
LIST
            ;;
        model) cat <<LIST
python3-pip: python3 -m pip --version
LIST
            ;;
        esac
    done
}

# need GROUP... - install the Debian packages that are missing (as root), or say the line
# that does it and exit 2.
need() {
    missing=$(packages "$@" | while IFS=: read -r package probe; do
        sh -c "$probe" >/dev/null 2>&1 || printf '%s ' "$package"
    done)
    [ "$missing" ] || return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing Debian packages: $missing"
        export DEBIAN_FRONTEND=noninteractive
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; } >&2 ||
            die "the packages could not be installed"
    else
        die "packages are missing; this installs them: sudo apt-get install $missing"
    fi
}
