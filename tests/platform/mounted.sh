# For scripts that write logs on a file system of their own. Read by them with the name of
# the script, and what it counts: `. mounted.sh ext4 'copies of a file system'`.
cd "$(dirname "$0")/../.." || exit 1
name=$1
counted=$2
out=build/$name
rm -rf "$out" && mkdir -p "$out/live" || exit 1

skip()
{
    echo "skip $name: $1"
    echo "tally: $counted 0"
    exit 0
}

# The program of tests/platform/ext4 is the writer, and the reader.
# shellcheck disable=SC2046
build()
{
    ${CC:-cc} -std=c99 -O1 -Wall -Wextra -Werror $(STB_INC="${STB_INC:-}" sh tools/setup.sh stb) \
        -I. -pthread -o "$out/$name" tests/platform/ext4/ext4.c
}
