/* See zone.h. */

#define _GNU_SOURCE
#include "zone.h"
#include "files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Returns whether the system has a zone of that name. */
static bool is_zone(const char *zone)
{
    char path[300];
    const char *folder = getenv("TZDIR");
    if (folder == NULL) folder = "/usr/share/zoneinfo";
    if (zone[0] == '/' || zone[0] == '\0' || strstr(zone, "..") != NULL) return false;
    snprintf(path, sizeof path, "%.90s/%.200s", folder, zone);
    FILE *file = is_there(path) && !is_folder(path) ? fopen(path, "rb") : NULL;
    char mark[4] = {0}; /* zone.tab and others are beside the zones */
    if (file == NULL) return false;
    size_t n = fread(mark, 1, sizeof mark, file);
    fclose(file);
    return n == sizeof mark && memcmp(mark, "TZif", sizeof mark) == 0;
}

/* Returns the minutes of "+02:00", "-0330" or "+2"; false: the text is no offset. */
static bool offset_of(const char *zone, int *minutes)
{
    unsigned hour = 0, minute = 0;
    int end = 0;
    if (zone[0] != '+' && zone[0] != '-') return false;
    if (strspn(zone + 1, "0123456789:") != strlen(zone + 1)) return false;
    bool read = (sscanf(zone + 1, "%2u:%2u%n", &hour, &minute, &end) == 2 ||
                 sscanf(zone + 1, "%2u%2u%n", &hour, &minute, &end) == 2) &&
                zone[1 + end] == '\0';
    if (!read) {
        minute = 0;
        read = sscanf(zone + 1, "%2u%n", &hour, &end) == 1 && zone[1 + end] == '\0';
    }
    *minutes = (int)(hour * 60 + minute) * (zone[0] == '-' ? -1 : 1);
    return read && hour <= 14 && minute < 60;
}

bool set_time_zone(const char *zone)
{
    char text[64];
    int minutes = 0;
    if (strcmp(zone, "UTC") == 0) zone = "+0";
    if (offset_of(zone, &minutes)) { /* TZ has the opposite sign */
        int size = minutes < 0 ? -minutes : minutes;
        snprintf(text, sizeof text, "<UTC>%c%02d:%02d", minutes < 0 ? '+' : '-',
                 size / 60, size % 60);
    } else if (is_zone(zone) && strlen(zone) < sizeof text) {
        snprintf(text, sizeof text, "%s", zone);
    } else {
        return false;
    }
    setenv("TZ", text, 1);
    tzset();
    return true;
}

int64_t local_time(const char *text, int64_t ns)
{
    struct tm t;
    time_t now = time(NULL), at = (time_t)(ns / 1000000000);
    size_t len = strlen(text);
    bool today = strcmp(text, "today") == 0, yesterday = strcmp(text, "yesterday") == 0;
    bool date = len >= 10 && text[4] == '-' && text[7] == '-' && text[len - 1] != 'Z';
    if (today || yesterday) {
        if (localtime_r(&now, &t) == NULL) return ns;
        t.tm_hour = t.tm_min = t.tm_sec = 0;
        t.tm_mday -= yesterday;
    } else if (!date || gmtime_r(&at, &t) == NULL) {
        return ns;
    }
    t.tm_isdst = -1;
    t.tm_wday = -1; /* stays, if the time has no number: -1 is one, too */
    time_t there = mktime(&t);
    return t.tm_wday < 0 ? ns : (int64_t)there * 1000000000 + ns % 1000000000;
}

ms_str local_day(int64_t seconds, cost_by by, char out[TIME_MAX])
{
    struct tm t;
    time_t at = (time_t)seconds;
    const char *form = by == BY_WEEK ? "%G-W%V" : by == BY_MONTH ? "%Y-%m" : "%Y-%m-%d";
    if (localtime_r(&at, &t) == NULL) return ms_str_n(out, 0);
    return ms_str_n(out, strftime(out, TIME_MAX, form, &t));
}
