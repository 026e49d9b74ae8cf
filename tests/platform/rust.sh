#!/usr/bin/env bash
# The Rust crates: their tests and doc tests, with the C library under AddressSanitizer and
# with what must not compile; copies without a defence, which the tests must notice; the
# packages, and README.md's agent, built from them in an empty folder outside of the
# repository: `make test-rust`. Prints versions. All is in build/rust; cargo keeps what it
# downloads where it always does.
#
# What cannot be had is named and skipped. The last line counts.
set -u
cd "$(dirname "$0")/../.." || exit 1
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
export PATH
skip()
{
    echo "make test-rust: $1; skipped"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
sh tools/setup.sh rust || skip "its packages cannot be installed"
top=$PWD
out=$top/build/rust
log=$out/log
passed=0 failed=0 skipped=0
mkdir -p "$out"
bash bindings/vendor.sh rust "$out/src" || exit 1
host=$(rustc -vV | sed -n 's/^host: //p')
echo "$(cargo --version), $(cc --version | head -n 1), stb_ds.h in the crate"

# result NAME STATUS LOG
result()
{
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok $1"
    else
        failed=$((failed + 1))
        echo "FAIL $1"
        tail -n 40 "$3"
    fi
}

cd "$out/src" || exit 1
cargo fetch >"$log" 2>&1 || skip "cargo reaches no registry ($(tail -n 1 "$log"))"

# With a target of its own, what runs while building has none of these flags.
export CARGO_TARGET_DIR=$out/target
export CFLAGS='-O1 -g1 -fsanitize=address -fno-omit-frame-pointer'
asan='-Cdefault-linker-libraries=yes -Clink-arg=-fsanitize=address'
export RUSTFLAGS=$asan RUSTDOCFLAGS=$asan
echo 'int main(void) { return 0; }' | cc -fsanitize=address -x c - -o "$out/try" 2>/dev/null || {
    echo "skip sanitizer: cc has no AddressSanitizer here; the tests run without"
    skipped=$((skipped + 1))
    unset CFLAGS RUSTFLAGS RUSTDOCFLAGS
}
cargo test --target "$host" >"$log" 2>&1
status=$?
grep -E '^test .* (ok|FAILED|compile fail)|^test result' "$log" | grep -v ' 0 passed; 0 failed'
n() { sed -nE "s/^test result: .* ([0-9]+) $1;.*/\1/p" "$log" | awk '{ n += $1 } END { print n + 0 }'; }
passed=$((passed + $(n passed))) failed=$((failed + $(n failed)))
if [ "$status" -ne 0 ]; then
    [ "$(n failed)" -gt 0 ] || failed=$((failed + 1))
    tail -n 60 "$log"
fi
fails=$(grep -cE '^test .*compile fail.* ok$' "$log")
[ "$fails" -eq 4 ]
result "what outlives its store does not compile" $? "$log"

# control NAME FILE OLD NEW TEST: the test must fail where NEW stands for OLD.
control()
{
    local file=msgstore/src/$2 status
    cp "$file" "$out/kept"
    OLD=$3 NEW=$4 awk '(at = index($0, ENVIRON["OLD"])) > 0 {
            $0 = substr($0, 1, at - 1) ENVIRON["NEW"] substr($0, at + length(ENVIRON["OLD"]))
            n++
        }
        { print }
        END { exit n != 1 }' "$out/kept" >"$file"
    status=$?
    if [ $status -eq 0 ] && cargo test --target "$host" --test store --no-run >"$log" 2>&1; then
        ! cargo test --target "$host" --test store "$5" >"$log" 2>&1
        status=$?
    else
        status=1
    fi
    cp "$out/kept" "$file"
    result "control $1" $status "$log"
}
if [ "$status" -eq 0 ]; then
    [ -z "${CFLAGS:-}" ] || control results_are_not_freed store.rs \
        'unsafe { sys::ms_ffi_free(self.text) }' '{}' changes_are_seen
    control damage_is_not_reported store.rs '(n > 0).then(' '(n > u64::MAX - 1).then(' \
        damage_ends_an_iteration
fi
unset CFLAGS RUSTFLAGS RUSTDOCFLAGS

# The packages have the headers, and are enough for README.md's agent.
cargo package --workspace --allow-dirty --no-verify >"$log" 2>&1
result "cargo package" $? "$log"
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT
mkdir -p "$away/crates" "$away/src"
for crate in "$CARGO_TARGET_DIR"/package/*.crate; do tar xzf "$crate" -C "$away/crates"; done
cd "$away" || exit 1
for file in msgstore.h msgstore_ffi.h stb_ds.h; do test -s crates/msgstore-sys-*/csrc/$file; done &&
    test -s crates/msgstore-sys-*/LICENSE && test -s crates/msgstore-0*/LICENSE
result "the packages have the headers and the licence" $? "$log"
cat >Cargo.toml <<'END'
[package]
name = "agent"
version = "0.1.0"
edition = "2021"
END
{
    echo '[dependencies]'
    echo "msgstore = { path = \"$(echo crates/msgstore-[0-9]*)\" }"
    echo '[patch.crates-io]'
    echo "msgstore-sys = { path = \"$(echo crates/msgstore-sys-*)\" }"
} >>Cargo.toml
readme=$top/bindings/rust/msgstore/README.md
awk '/^```rust,no_run/ { on = 1; next } /^```/ { if (on) exit } on' "$readme" >src/main.rs
awk '/^It prints/ { found = 1 } /^```text/ && found { on = 1; next } /^```/ { if (on) exit } on' \
    "$readme" >wanted
{ [ -s wanted ] && CARGO_TARGET_DIR=$out/agent cargo run --quiet >got 2>"$log" && cmp got wanted >>"$log" 2>&1; }
result "README.md's agent prints what the page says, from the packages" $? "$log"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
