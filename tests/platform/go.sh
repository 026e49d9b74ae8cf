#!/usr/bin/env bash
# The Go module: gofmt and vet, its tests with -race, in the checkout; then with
# AddressSanitizer, where a store is closed beside calls of 40 goroutines GO_CLOSES times
# (1000); copies without a defence, which the tests must notice; and README.md's agent, in an
# empty folder outside of the repository, with the module that `make go-module` writes:
# `make test-go`. Prints versions. Nothing is downloaded; all is in build/go.
#
# What cannot be had is named and skipped. The last line counts.
set -u
cd "$(dirname "$0")/../.." || exit 1
PATH=$PATH:/usr/local/go/bin
export PATH
skip()
{
    echo "make test-go: $1; skipped"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
sh tools/setup.sh go || skip "its packages cannot be installed"
minor=$(go env GOVERSION | sed -nE 's/^go1\.([0-9]+).*/\1/p')
[ "${minor:-0}" -ge 23 ] || skip "$(go version) has no iterators: 1.23 is needed"
[ "$(go env CGO_ENABLED)" = 1 ] || skip "cgo is off"
top=$PWD
out=$top/build/go
log=$out/log
passed=0 failed=0 skipped=0
mkdir -p "$out"
export GOCACHE=$out/cache GOFLAGS=-buildvcs=false GOTOOLCHAIN=local
stb=$(sh tools/setup.sh stb)
# The cache does not see headers outside of the module: their sum is a part of its key.
sum=$(cat msgstore.h bindings/*.h | cksum)
export CGO_CFLAGS="-O1 -g -DHEADERS=${sum%% *} ${stb/-isystem /-I}"
echo "$(go version), $(cc --version | head -n 1)"

# result NAME STATUS: of the command whose output is in the log.
result()
{
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok $1"
    else
        failed=$((failed + 1))
        echo "FAIL $1"
        tail -n 40 "$log"
    fi
}

# tests NAME FLAGS...: counts each test.
tests()
{
    local status p f
    go test -count=1 -timeout 30m -v "${@:2}" ./... >"$log" 2>&1
    status=$?
    p=$(grep -c '^--- PASS' "$log") f=$(grep -c '^--- FAIL' "$log")
    passed=$((passed + p)) failed=$((failed + f))
    echo "$1: $p tests passed, $f failed"
    if [ "$status" -ne 0 ]; then
        [ "$f" -gt 0 ] || failed=$((failed + 1))
        tail -n 60 "$log"
    fi
    return $status
}

cd "$top/bindings/go" || exit 1
gofmt -l . >"$log" 2>&1 && [ ! -s "$log" ]
result gofmt $?
go vet ./... >"$log" 2>&1
result vet $?
tests 'with -race' -race
bash "$top/bindings/vendor.sh" go "$out/msgstore" || exit 1
cd "$out/msgstore" || exit 1

# control NAME OLD NEW TEST [FLAGS]: the test must fail where NEW stands for OLD.
control()
{
    local status
    OLD=$2 NEW=$3 awk '(at = index($0, ENVIRON["OLD"])) > 0 {
            $0 = substr($0, 1, at - 1) ENVIRON["NEW"] substr($0, at + length(ENVIRON["OLD"]))
            n++
        }
        { print }
        END { exit n != 1 }' "$top/bindings/go/store.go" >store.go
    status=$?
    if [ $status -eq 0 ] && go vet . >"$log" 2>&1; then
        ! go test -count=1 -run "^$4\$" "${@:5}" . >"$log" 2>&1
        status=$?
    else
        status=1
    fi
    cp "$top/bindings/go/store.go" store.go
    result "control $1" $status
}

echo 'int main(void) { return 0; }' >"$out/try.c"
if cc -fsanitize=address "$out/try.c" -o "$out/try" 2>/dev/null; then
    MSGSTORE_CLOSES=${GO_CLOSES:-1000} tests "under AddressSanitizer, ${GO_CLOSES:-1000} closes" -asan &&
        control close_does_not_wait 'for s.calls > 0 {' 'for s.calls > 1<<20 {' \
            TestCloseWaitsForACall -asan &&
        control union_keeps_no_store 's.free = s.unions > 0' 's.free = s.unions > 1<<20' \
            TestUnionKeepsItsStoresOpen -asan
else
    echo "skip sanitizer: cc has no AddressSanitizer here"
    skipped=$((skipped + 1))
fi
control damage_is_not_reported 'ok && damaged > 0 {' 'ok && damaged > 1<<40 {' \
    TestDamageEndsAnIteration
control an_empty_list_is_left_out 'text, err := marshal(args)' \
    'text, err := marshal(args); text = bytes.ReplaceAll(text, []byte("[]"), []byte("null"))' \
    TestIterationReadsEveryPageOnce

# Outside of the repository, with nothing but the folder.
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT
rm -rf "$out/module"
bash "$top/bindings/vendor.sh" go "$out/module" && cp -R "$out/module" "$away/msgstore" || exit 1
cd "$away" || exit 1
readme=$top/bindings/go/README.md
awk '/^```go/ { on = 1; next } /^```/ { if (on) exit } on' "$readme" >main.go
awk '/^It prints/ { found = 1 } /^```text/ && found { on = 1; next } /^```/ { if (on) exit } on' \
    "$readme" >wanted
{
    for file in msgstore.h msgstore_ffi.h stb_ds.h; do test -s "msgstore/csrc/$file"; done &&
        go mod init agent &&
        go mod edit -replace msgstore=./msgstore && go get msgstore &&
        CGO_CFLAGS=-O1 go build -o agent . && ./agent >got && [ -s wanted ] && cmp got wanted &&
        gofmt -l main.go | diff - /dev/null
} >"$log" 2>&1
result "README.md's agent prints what the page says, in an empty folder" $?
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
