#!/usr/bin/env bash
# The store on a microcontroller: tests/platform/board/board.c for a Cortex-M4 with 64 KiB
# of RAM, run under qemu (machine mps2-an386), weighed in code and RAM: `make test-board`.
# Without compiler or emulator it says so and passes nothing.
#
# Prints "ok NAME", "skip NAME: reason" or "FAIL NAME: reason" a line; the last line
# counts.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=build/board
mkdir -p "$out"
passed=0 failed=0 skipped=0

result()
{
    echo "$1"
    case $1 in
    ok*) passed=$((passed + 1)) ;;
    FAIL*) failed=$((failed + 1)) ;;
    skip*) skipped=$((skipped + 1)) ;;
    esac
}

finish()
{
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
    exit
}

for tool in arm-none-eabi-gcc qemu-system-arm; do
    command -v "$tool" >/dev/null || { result "skip board: no $tool"; finish; }
done

# build NAME OPTION...
build()
{
    local name=$1
    shift
    # shellcheck disable=SC2046
    arm-none-eabi-gcc -std=c99 -I. -mcpu=cortex-m4 -mthumb -Os -Wall -Wextra -Werror \
        -Wno-misleading-indentation -Wno-unused-function -ffunction-sections -fdata-sections -Wl,--gc-sections \
        -Wl,-Map="$out/$name.map" --specs=nano.specs -nostartfiles \
        -T tests/platform/board/board.ld $(sh tools/setup.sh stb) "$@" \
        -o "$out/$name.elf" tests/platform/board/board.c
}

# Bytes of text and of RAM, and what of the C library is in it.
weigh()
{
    local name=$1 most=$2 text data bss heap
    read -r text data bss _ < <(arm-none-eabi-size "$out/$name.elf" | tail -n 1)
    echo "figure $name: $text bytes of code, $((data + bss)) of RAM (32768 are the store's)"
    if [ "$text" -le "$most" ]; then result "ok ${name}_code_is_small"
    else result "FAIL ${name}_code_is_small: $text bytes, at most $most"; fi
    heap=$(arm-none-eabi-nm "$out/$name.elf" |
        grep -wE 'malloc|_malloc_r|calloc|realloc|_sbrk|printf|fprintf|__aeabi_d[a-z]+|fopen' |
        awk '{ printf "%s ", $3 }')
    if [ -z "$heap" ]; then result "ok ${name}_has_no_heap_no_stdio_no_doubles"
    else result "FAIL ${name}_has_no_heap_no_stdio_no_doubles: $heap"; fi
}

# Runs the board; its own lines are results.
run()
{
    local status=0
    timeout 25 qemu-system-arm -M mps2-an386 -icount shift=0 -display none -monitor none \
        -serial none \
        -semihosting-config enable=on,target=native -kernel "$out/$1.elf" \
        >"$out/$1.txt" 2>&1 || status=$?
    while read -r line; do
        case $line in
        ok* | FAIL*) result "$line" ;;
        *) echo "$line" ;;
        esac
    done <"$out/$1.txt"
    if [ "$status" -ne 0 ]; then result "FAIL $1_ends: qemu ended with status $status"
    else result "ok $1_ends"; fi
}

# What each switch of the header costs in this program is a table in docs/board.md. A figure
# there may be off by 256 bytes.
table()
{
    local told text
    told=$(sed -nE "s/^\\| \`$1\` .*\\| ([0-9,]+) \\|\$/\\1/p" docs/board.md | tr -d ,)
    read -r text _ < <(arm-none-eabi-size "$out/$1.elf" | tail -n 1)
    if [ -n "$told" ] && [ $((text - told)) -le 256 ] && [ $((told - text)) -le 256 ]; then
        result "ok $1_is_as_the_guide_says"
    else result "FAIL $1_is_as_the_guide_says: $text bytes, the guide says ${told:-nothing}"; fi
}

# A count there may be off by an eighth: compilers differ.
costs()
{
    local name mean longest told_mean told_longest all=ok
    while read -r _ name mean longest; do
        name=${name%:}
        read -r told_mean told_longest < <(sed -nE \
            "s/^\\| \`$name\`.* \\| ([0-9,]+) \\| ([0-9,]+) \\|\$/\\1 \\2/p" docs/board.md | tr -d ,)
        for pair in "$mean ${told_mean:-0}" "$longest ${told_longest:-0}"; do
            set -- $pair
            [ $((($1 > $2 ? $1 - $2 : $2 - $1) * 8)) -le "$2" ] ||
                all="$name takes $1 instructions, the guide says $2"
        done
    done < <(grep -h '^cost ' "$out/store.txt" "$out/flash.txt")
    if [ "$all" = ok ]; then result "ok instructions_are_as_the_guide_says"
    else result "FAIL instructions_are_as_the_guide_says: $all"; fi
}

if build store && build ring -DBOARD_RING && build flash -DBOARD_FLASH &&
    build text -DBOARD_TEXT && build changes -DBOARD_CHANGES; then
    weigh store 32768
    weigh ring 34816
    weigh flash 36864
    weigh text 40960
    weigh changes 45056
    for name in store ring flash text changes; do table "$name"; done
    run store
    run ring
    run flash
    run changes
    costs
else result "FAIL board_builds: the compiler refuses it"; fi
finish
