/* See timer.h. */

#define _GNU_SOURCE
#include "timer.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

static const char *const unit_names[] = {"msgstore-sync.service", "msgstore-sync.timer"};

/* A service has not the variables of a shell: those that name places of transcripts. */
static const char *const variables[] = {"CLAUDE_CONFIG_DIR", "CODEX_HOME",
                                        "PI_CODING_AGENT_DIR", "XDG_CONFIG_HOME",
                                        "XDG_DATA_HOME"};

/* Returns an absolute path in a fresh string, also of a file that is not there yet; NULL:
 * its folder is not there. */
static char *absolute(const char *path)
{
    char *real = realpath(path, NULL);
    if (real != NULL) return real;
    const char *name = path_name(path);
    char *folder = copy_chars(path, (size_t)(name - path));
    if (folder == NULL) exit(no_memory());
    char *base = realpath(folder[0] != '\0' ? folder : ".", NULL);
    real = base != NULL ? path_join(base, name) : NULL;
    free(folder);
    free(base);
    return real;
}

/* Returns the path of this program in a fresh string. */
static char *program_path(void)
{
    char path[PATH_MAX];
    ssize_t n = -1;
#ifdef __linux__
    n = readlink("/proc/self/exe", path, sizeof path);
#endif
    bool whole = n > 0 && (size_t)n < sizeof path;
    char *copy = whole ? copy_chars(path, (size_t)n) : copy_chars("msgstore", 8);
    if (copy == NULL) exit(no_memory());
    return copy;
}

/* Writes a word of ExecStart or Environment: in quotes, where % and $ are doubled.
 * `name`: "NAME=" before it, or NULL. */
static void put_unit_word(output *out, const char *name, const char *text)
{
    emit_text(out, "\"");
    if (name != NULL) emit_format(out, "%s=", name);
    for (; *text != '\0'; text++) {
        bool doubled = *text == '%' || (*text == '$' && name == NULL);
        if (*text == '"' || *text == '\\') emit_text(out, "\\");
        if (doubled) emit(out, text, 1);
        emit(out, text, 1);
    }
    emit_text(out, "\"");
}

/* Writes a word of a crontab: in quotes of the shell. A % ends the command without \. */
static void put_cron_word(output *out, const char *text)
{
    emit_text(out, "'");
    for (; *text != '\0'; text++) {
        if (*text == '\'') emit_text(out, "'\\''");
        else if (*text == '%') emit_text(out, "'\\%'");
        else emit(out, text, 1);
    }
    emit_text(out, "'");
}

typedef struct timed_sync {
    const options *o;
    char *program;
    char **paths;             /* the log, the folders: an stb_ds array */
} timed_sync;

static void put_plain_unit_word(output *out, const char *text)
{
    put_unit_word(out, NULL, text);
}

/* Writes the command after the program, with the options that were given. */
static void put_command(output *out, const timed_sync *k,
                        void (*put_word)(output *out, const char *text))
{
    const options *o = k->o;
    emit_text(out, " sync --quiet");
    if (GIVEN(o, REFUSE)) emit_text(out, " --strict");
    if (o->full) emit_text(out, " --full");
    if (GIVEN(o, SHARED)) emit_text(out, " --shared");
    if (GIVEN(o, JSON)) emit_text(out, " --json");
    emit_format(out, " --wait %" PRIu32, GIVEN(o, WAIT) ? o->wait_ms : 60000);
    if (o->sync == SYNC_NONE) emit_text(out, " --sync none");
    if (o->max_input > 0) emit_format(out, " --max-input %" PRIu64, o->max_input);
    if (o->agent != NULL) {
        emit_text(out, " --agent ");
        put_word(out, o->agent);
    }
    emit_text(out, " --");
    for (size_t i = 0; i < arrlenu(k->paths); i++) {
        emit_text(out, " ");
        put_word(out, k->paths[i]);
    }
    emit_text(out, "\n");
}

static void put_service(output *out, const timed_sync *k)
{
    emit_text(out, "[Unit]\nDescription=Transcripts of agent programs into a log\n\n"
                   "[Service]\nType=oneshot\nNice=10\n");
    for (size_t i = 0; i < COUNT_OF(variables); i++) {
        const char *value = getenv(variables[i]);
        if (value == NULL || value[0] == '\0') continue;
        emit_text(out, "Environment=");
        put_unit_word(out, variables[i], value);
        emit_text(out, "\n");
    }
    emit_text(out, "ExecStart=");
    put_unit_word(out, NULL, k->program);
    put_command(out, k, put_plain_unit_word);
}

static void put_timer(output *out)
{
    emit_text(out, "[Unit]\nDescription=Transcripts of agent programs into a log\n\n"
                   "[Timer]\nOnCalendar=hourly\nRandomizedDelaySec=300\n"
                   "Persistent=true\n\n[Install]\nWantedBy=timers.target\n");
}

static void put_cron_line(output *out, const timed_sync *k)
{
    emit_text(out, "17 * * * * ");
    for (size_t i = 0; i < COUNT_OF(variables); i++) {
        const char *value = getenv(variables[i]);
        if (value == NULL || value[0] == '\0') continue;
        emit_format(out, "%s=", variables[i]);
        put_cron_word(out, value);
        emit_text(out, " ");
    }
    put_cron_word(out, k->program);
    put_command(out, k, put_cron_word);
}

/* Returns the folder of the user's units in a fresh string; NULL: there is no home. */
static char *unit_folder(void)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (config != NULL && config[0] == '/') return path_join(config, "systemd/user");
    return home != NULL ? path_join(home, ".config/systemd/user") : NULL;
}

static int make_folders(const char *path)
{
    char *copy = copy_chars(path, strlen(path));
    if (copy == NULL) return no_memory();
    int code = FINE;
    for (char *at = copy + 1; code == FINE; at++) {
        char c = *at;
        if (c != '/' && c != '\0') continue;
        *at = '\0';
        if (mkdir(copy, 0755) != 0 && errno != EEXIST) {
            complain("%s: %s", copy, strerror(errno));
            code = FAILED;
        }
        *at = c;
        if (c == '\0') break;
    }
    free(copy);
    return code;
}

static int write_units(const timed_sync *k, output *out)
{
    char *folder = unit_folder();
    if (folder == NULL) {
        complain("sync: HOME is not set");
        return FAILED;
    }
    int code = make_folders(folder);
    for (size_t i = 0; i < COUNT_OF(unit_names) && code == FINE; i++) {
        new_file file;
        char *path = path_join(folder, unit_names[i]);
        code = new_file_begin(&file, path, 0644);
        if (code == FINE) {
            if (i == 0) put_service(&file.out, k);
            else put_timer(&file.out);
            code = new_file_end(&file, FINE);
        }
        if (code == FINE) {
            emit_text(out, "wrote      ");
            emit_visible(out, path);
            emit_text(out, "\n");
        }
        free(path);
    }
    free(folder);
    return code;
}

/* Returns whether no text has a control character, which no unit and no crontab has. */
static bool are_plain(const timed_sync *k)
{
    bool plain = true;
    size_t n = arrlenu(k->paths), all = n + COUNT_OF(variables);
    for (size_t i = 0; i <= all; i++) {
        const char *text = i < n   ? k->paths[i]
                           : i < all ? getenv(variables[i - n])
                                     : k->o->agent;
        for (; text != NULL && *text != '\0'; text++) {
            plain = plain && (unsigned char)*text >= ' ' && *text != 127;
        }
    }
    return plain;
}

int timer_install(const options *o, output *out)
{
    timed_sync k = {o, program_path(), NULL};
    int code = FINE;
    for (size_t i = 0; i < o->n_files && code == FINE; i++) {
        char *path = absolute(o->files[i]);
        bool there = path != NULL && (i == 0 || is_there(path)); /* the log comes */
        if (path != NULL) arrput(k.paths, path);
        if (!there) code = NOT_FOUND;
        const char *kind = i > 0 ? "file or " : "";
        if (!there) complain("%s: no such %sfolder", o->files[i], kind);
    }
    if (code == FINE && !are_plain(&k)) {
        complain("sync: a control character in a path or an option");
        code = FAILED;
    }
#ifdef __linux__
    if (code == FINE) code = write_units(&k, out);
    if (code == FINE) {
        emit_text(out, "start it   systemctl --user daemon-reload && "
                       "systemctl --user enable --now msgstore-sync.timer\n");
    }
#endif
    if (code == FINE) {
        emit_text(out, "or crontab ");
        put_cron_line(out, &k);
    }
    free(k.program);
    paths_free(k.paths);
    return code;
}

int timer_remove(output *out)
{
    char *folder = unit_folder();
    int code = NOT_FOUND;
    for (size_t i = 0; folder != NULL && i < COUNT_OF(unit_names); i++) {
        char *path = path_join(folder, unit_names[i]);
        if (unlink(path) == 0) {
            if (code == NOT_FOUND) code = FINE;
            emit_text(out, "removed    ");
            emit_visible(out, path);
            emit_text(out, "\n");
        } else if (errno != ENOENT) {
            complain("%s: %s", path, strerror(errno));
            code = FAILED;
        }
        free(path);
    }
    free(folder);
    if (code == FINE) {
        emit_text(out, "stop it    systemctl --user disable --now msgstore-sync.timer; "
                       "systemctl --user daemon-reload\n");
    }
    if (code == NOT_FOUND) complain("sync: no timer is installed");
    return code;
}
