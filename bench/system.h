/* What all programs of the benchmark ask: the clock, the machine and its disk, the middle
 * of several figures. Define _GNU_SOURCE before any include. */

#ifndef BENCH_SYSTEM_H
#define BENCH_SYSTEM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t bench_now(void) /* nanoseconds, only goes forward */
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline double bench_since(uint64_t begin)
{
    return (double)(bench_now() - begin);
}

static inline int bench_compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of n values, which it sorts; n is at least 1. */
static inline double bench_median(double *values, size_t n)
{
    qsort(values, n, sizeof values[0], bench_compare_doubles);
    return n % 2 != 0 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Processor, system and compiler, in one line. */
static inline void bench_machine(char *out, size_t size)
{
    struct utsname name;
    char line[256], *model = line;
    FILE *in = fopen("/proc/cpuinfo", "r");
    snprintf(line, sizeof line, "unknown processor");
    while (in != NULL && fgets(line, sizeof line, in) != NULL)
        if (strncmp(line, "model name", 10) == 0) break;
    if (in != NULL) fclose(in);
    line[strcspn(line, "\n")] = '\0';
    if (strchr(line, ':') != NULL) model = strchr(line, ':') + 2;
    uname(&name);
    snprintf(out, size, "%s, %ld processors, %s %s, compiler %s", model,
             sysconf(_SC_NPROCESSORS_ONLN), name.sysname, name.release, __VERSION__);
}

/* The number behind `name` in a file of lines "name: number ..."; -1: not there. */
static inline double bench_number_in(const char *file, const char *name)
{
    char line[256];
    double number = -1;
    FILE *in = fopen(file, "r");
    while (in != NULL && fgets(line, sizeof line, in) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            number = strtod(line + strlen(name), NULL);
    if (in != NULL) fclose(in);
    return number;
}

/* Bytes that the disk of a folder was asked to write so far, by anybody; -1: there is no
 * disk that tells. */
static inline double bench_disk_bytes(const char *folder)
{
    struct stat st;
    char file[64];
    unsigned long long sectors[7];
    int got = 0;
    if (stat(folder, &st) != 0) return -1;
    snprintf(file, sizeof file, "/sys/dev/block/%u:%u/stat", major(st.st_dev),
             minor(st.st_dev));
    FILE *in = fopen(file, "r");
    while (in != NULL && got < 7 && fscanf(in, "%llu", &sectors[got]) == 1) got++;
    if (in != NULL) fclose(in);
    return got == 7 ? 512 * (double)sectors[6] : -1;
}

/* The same; without such a disk, those that this process made dirty; -1: nobody tells. */
static inline double bench_written_bytes(const char *folder)
{
    double bytes = bench_disk_bytes(folder);
    return bytes >= 0 ? bytes : bench_number_in("/proc/self/io", "write_bytes:");
}

#endif /* BENCH_SYSTEM_H */
