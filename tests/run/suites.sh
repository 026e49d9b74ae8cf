# Where the suites are. A script in the top folder takes this in with
# `. tests/run/suites.sh`.
# shellcheck shell=bash

# suite_files: prints the file of each suite, one a line: tests/FOLDER/test_NAME.c or .sh,
# or tests/unit/FOLDER/test_NAME.c.
suite_files()
{
    printf '%s\n' tests/unit/*/test_*.c tests/*/test_*.c tests/*/test_*.sh
}

# suite_file NAME: prints the file of the suite NAME, or nothing if there is none.
suite_file()
{
    local file
    for file in tests/unit/*/"$1".c tests/*/"$1".c tests/*/"$1".sh; do
        [ ! -f "$file" ] || echo "$file"
    done
}

# takes_in FILE: does the program take in the implementation itself?
takes_in()
{
    grep -q '^ *# *define  *MSGSTORE_IMPLEMENTATION' "$1"
}

# steps_flag FILE: prints the flag with which a program that counts its steps is compiled.
steps_flag()
{
    ! grep -q '^void __sanitizer_cov_trace_pc' "$1" || echo -fsanitize-coverage=trace-pc
}
