/* Arrays and tables of stb_ds as a program of its own uses them. */

struct use_stb_entry {
    char *key;
    int value;
};

static int use_stb(void)
{
    char one[] = "one", two[] = "two";
    int *numbers = NULL;
    struct use_stb_entry *table = NULL;
    for (int i = 0; i < 100; i++) arrput(numbers, i);
    shput(table, one, 1);
    shput(table, two, 2);
    int failed = arrlen(numbers) == 100 && numbers[99] == 99 && shlen(table) == 2 &&
                         shget(table, one) == 1 && shget(table, two) == 2
                     ? 0
                     : 10;
    arrfree(numbers);
    shfree(table);
    return failed;
}

/* Both, in turns. */
static int use_both(const char *path)
{
    for (int i = 0; i < 3; i++) {
        int failed = use_stb();
        if (failed == 0) failed = use_msgstore(path);
        if (failed != 0) return failed;
    }
    return use_stb();
}
