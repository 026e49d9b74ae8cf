/* msgstore completion, msgstore manual: the files for shells and man(1), made from the
 * rows of the commands. */

#define _GNU_SOURCE
#include "cmd_sessions.h"
#include "help.h"
#include "usual.h"
#include "write.h"

#include <stdio.h>
#include <string.h>

/* Calls visit for each option of a command that its help shows. */
static void each_option(const command *c, output *out,
                        void (*visit)(output *out, const command *c, int id,
                                      const char *text))
{
    for (const option_row *row = c->rows; row->id != OPT_END; row++) {
        if (row->id >= 0 && row->text != NULL) visit(out, c, row->id, row->text);
    }
    visit(out, c, OPT_HELP, "print the help of the command");
}

/* Returns the words that an option of a command accepts, or with NULL that of most
 * commands. NULL: it accepts a file, or any text. */
static const char *choices_of(const command *c, int id, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    if (id == OPT_TO && c == &ship_command) return NULL;
    for (size_t i = 0; id == OPT_TO && c == &hand_over_command && writer_at(i); i++) {
        if (!writer_at(i)->resumed) continue;
        len += (size_t)snprintf(out + len, size - len, "%s%s", len > 0 ? " " : "",
                                writer_at(i)->name);
    }
    if (len > 0) return out;
    if (id == OPT_BY) return "day week month session project model agent tool";
    if (id == OPT_SCOPE) return "orchestrator manager worker";
    if (id == OPT_SYNC) return "none each end";
    if (id == OPT_ALSO) return "times ids numbers rest";
    bool formats = id == OPT_FROM || id == OPT_TO || id == OPT_FORMAT;
    for (size_t i = 0; formats && ms_format_at(i) != NULL; i++) {
        len += (size_t)snprintf(out + len, size - len, "%s%s", len > 0 ? " " : "",
                                ms_format_at(i)->name);
    }
    for (size_t i = 0; id == OPT_FROM && format_at(i) != NULL; i++) {
        bool first = format_find(ms_str_of(format_at(i)->name)) == format_at(i);
        if (!first) continue;
        len += (size_t)snprintf(out + len, size - len, " %s", format_at(i)->name);
    }
    for (size_t i = 0; id == OPT_AS && ms_profile_at(i) != NULL; i++) {
        len += (size_t)snprintf(out + len, size - len, "%s%s", len > 0 ? " " : "",
                                ms_profile_at(i)->name);
    }
    return len > 0 ? out : NULL;
}


/* ---- Sessions: what the scripts ask for while somebody types ----------------------- */

enum { TITLE_COLUMNS = 60 };

/* The commands whose last argument may be a session: of the usual log, or only of a log
 * that was typed before it. */
enum { USUAL_TAKERS = 5 };
static const char *const session_takers[] = {"usage", "view", "history", "export",
                                             "report", "hand-over",
                                             "compact-context"};

static void put_takers(output *out, size_t from, size_t to, const char *between)
{
    for (size_t i = from; i < to; i++) {
        emit_format(out, "%s%s", i > from ? between : "", session_takers[i]);
    }
}

static bool takes_session(const command *c)
{
    for (size_t i = 0; i < COUNT_OF(session_takers); i++) {
        if (strcmp(c->name, session_takers[i]) == 0) return true;
    }
    return false;
}

/* Returns whether a terminal shows a name as it is: a shell is given no other one. */
static bool shows_as_it_is(ms_str name)
{
    if (name.len == 0 || memchr(name.ptr, '\t', name.len) != NULL) return false;
    while (name.len > 0) {
        uint32_t point = next_point(&name);
        if (point == 0xfffd || visible(point) != point) return false;
    }
    return true;
}

/* Prints a line a session, newest first: its name, a tab, its title. Without a log there
 * are none. */
static int put_sessions(job *j, output *out)
{
    char path[1024], *usual = path, title[512];
    options o = *j->options;
    session_list l;
    o.files++;
    if (--o.n_files == 0) {
        if (!usual_log(path, sizeof path) || !is_there(path)) return FINE;
        o.files = &usual;
        o.n_files = 1;
    }
    const options *given = j->options;
    j->options = &o;
    int code = open_stores(j, 1);
    if (code == FINE) {
        code = sessions_find(&l, j, 0, false);
        for (size_t i = 0; is_read(code) && i < arrlenu(l.items); i++) {
            ms_str name = l.items[i].info->location;
            if (!shows_as_it_is(name)) continue;
            cell c = cell_over(title, sizeof title, TITLE_COLUMNS);
            cell_put(&c, l.items[i].title);
            emit(out, name.ptr, name.len);
            emit_text(out, "\t");
            emit(out, c.buf, c.len);
            emit_text(out, "\n");
        }
        sessions_free(&l);
    }
    j->options = given;
    return code;
}


/* ---- bash -------------------------------------------------------------------------- */

static void bash_option(output *out, const command *c, int id, const char *text)
{
    (void)c, (void)text;
    emit_format(out, " --%s", option_word(id));
    if (option_letter(id) != '\0') emit_format(out, " -%c", option_letter(id));
}

static void put_bash(output *out)
{
    char names[1024];
    emit_text(out, "# bash completion of msgstore; msgstore completion bash prints it\n"
                   "_msgstore_sessions()\n{\n"
                   "    local name rest i log=()\n"
                   "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
                   "        if [[ ${COMP_WORDS[i]} == *.log ]]; then "
                   "log=(\"${COMP_WORDS[i]}\"); fi\n"
                   "    done\n"
                   "    case ${COMP_WORDS[1]} in\n    ");
    put_takers(out, USUAL_TAKERS, COUNT_OF(session_takers), "|");
    emit_text(out, ") [ ${#log[@]} -gt 0 ] || return ;;\n    esac\n"
                   "    while IFS=$'\\t' read -r name rest; do\n"
                   "        if [[ $name == \"$1\"* ]]; then COMPREPLY+=(\"$name\"); fi\n"
                   "    done < <(msgstore completion sessions "
                   "${log[@]+\"${log[@]}\"} 2>/dev/null)\n"
                   "}\n"
                   "_msgstore()\n{\n"
                   "    local word=${COMP_WORDS[COMP_CWORD]}\n"
                   "    local before=${COMP_WORDS[COMP_CWORD-1]}\n"
                   "    local options='' words=''\n"
                   "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        words='");
    for (size_t i = 0; commands[i] != NULL; i++) {
        if (commands[i]->name != NULL) emit_format(out, "%s ", commands[i]->name);
    }
    emit_text(out, "help --help --version'\n"
                   "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
                   "        return\n    fi\n    case "
                   "\"${COMP_WORDS[1]} $before\" in\n"
                   "    'ship --to') ;;\n    'hand-over --to') words='");
    emit_text(out, choices_of(&hand_over_command, OPT_TO, names, sizeof names));
    emit_text(out, "' ;;\n");
    for (int id = 0; id < OPTION_COUNT; id++) {
        const char *choices = choices_of(NULL, id, names, sizeof names);
        if (choices == NULL) continue;
        emit_format(out, "    *' --%s') words='", option_word(id));
        emit_text(out, choices);
        emit_text(out, "' ;;\n");
    }
    emit_text(out, "    esac\n    case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        if (commands[i]->name == NULL) continue;
        emit_format(out, "    %s) options='", commands[i]->name);
        each_option(commands[i], out, bash_option);
        emit_text(out, "' ;;\n");
    }
    emit_text(out, "    esac\n    if [ -n \"$words\" ]; then\n"
                   "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
                   "    elif [[ $word == -* ]]; then\n"
                   "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
                   "    else\n"
                   "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
                   "        case ${COMP_WORDS[1]} in\n        ");
    put_takers(out, 0, COUNT_OF(session_takers), "|");
    emit_text(out, ") _msgstore_sessions \"$word\" ;;\n"
                   "        esac\n"
                   "    fi\n}\n"
                   "complete -o filenames -F _msgstore msgstore\n");
}


/* ---- zsh, fish --------------------------------------------------------------------- */

/* Prints a text in single quotes, with zsh's special characters escaped. */
static void put_quoted(output *out, const char *text, bool zsh)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') emit_text(out, zsh ? "'\\''" : "\\'");
        else if (zsh && strchr("[]:\\", *text) != NULL) emit_format(out, "\\%c", *text);
        else emit(out, text, 1);
    }
}

static void zsh_option(output *out, const command *c, int id, const char *text)
{
    char names[1024];
    const char *argument = option_argument(c, id);
    const char *choices = choices_of(c, id, names, sizeof names);
    emit_format(out, " \\\n            '--%s[", option_word(id));
    put_quoted(out, text, true);
    emit_text(out, "]");
    if (argument != NULL) {
        emit_format(out, ":%s:", argument);
        if (choices != NULL) emit_text(out, "(");
        if (choices != NULL) emit_text(out, choices);
        emit_text(out, choices != NULL ? ")" : "_files");
    }
    emit_text(out, "'");
    if (option_letter(id) == '\0') return;
    emit_format(out, " '-%c[", option_letter(id));
    put_quoted(out, text, true);
    emit_text(out, "]");
    if (argument != NULL) emit_format(out, ":%s:", argument);
    emit_text(out, "'");
}

static void put_zsh(output *out)
{
    emit_text(out, "#compdef msgstore\n"
                   "# zsh completion of msgstore; msgstore completion zsh prints it\n"
                   "_msgstore_sessions()\n{\n"
                   "    local line\n    local -a log found\n"
                   "    log=(${(M)words[2,CURRENT-1]:#*.log})\n"
                   "    if [[ -z $log && $words[1] == (");
    put_takers(out, USUAL_TAKERS, COUNT_OF(session_takers), "|");
    emit_text(out, ") ]]; then _files; return; fi\n"
                   "    for line in ${(f)\"$(msgstore completion sessions "
                   "${log[-1]} 2>/dev/null)\"}; do\n"
                   "        found+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\")\n"
                   "    done\n"
                   "    _describe -V session found\n    _files\n}\n"
                   "_msgstore()\n{\n    local -a commands\n    commands=(\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        if (commands[i]->name == NULL) continue;
        emit_format(out, "        '%s:", commands[i]->name);
        put_quoted(out, commands[i]->summary, true);
        emit_text(out, "'\n");
    }
    emit_text(out, "    )\n    if (( CURRENT == 2 )); then\n"
                   "        _describe command commands\n        return\n    fi\n"
                   "    case ${words[2]} in\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        if (commands[i]->name == NULL) continue;
        emit_format(out, "    %s) shift words; (( CURRENT-- ))\n        _arguments",
                    commands[i]->name);
        each_option(commands[i], out, zsh_option);
        emit_format(out, " \\\n            '*:%s' ;;\n",
                    takes_session(commands[i]) ? "session:_msgstore_sessions"
                                               : "file:_files");
    }
    emit_text(out, "    esac\n}\n"
                   "if [ \"$funcstack[1]\" = _msgstore ]; then _msgstore \"$@\"\n"
                   "else compdef _msgstore msgstore\nfi\n");
}

static void fish_option(output *out, const command *c, int id, const char *text)
{
    char names[1024];
    const char *argument = option_argument(c, id);
    const char *choices = choices_of(c, id, names, sizeof names);
    emit_format(out, "complete -c msgstore -n '__fish_seen_subcommand_from %s' -l %s",
                c->name, option_word(id));
    if (option_letter(id) != '\0') emit_format(out, " -s %c", option_letter(id));
    if (argument != NULL) emit_text(out, choices != NULL ? " -x -a '" : " -r");
    if (argument != NULL && choices != NULL) emit_text(out, choices);
    if (argument != NULL && choices != NULL) emit_text(out, "'");
    emit_text(out, " -d '");
    put_quoted(out, text, false);
    emit_text(out, "'\n");
}

static void put_fish(output *out)
{
    emit_text(out, "# fish completion of msgstore; msgstore completion fish prints it\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        if (commands[i]->name == NULL) continue;
        emit_format(out, "complete -c msgstore -f -n __fish_use_subcommand -a %s -d '",
                    commands[i]->name);
        put_quoted(out, commands[i]->summary, false);
        emit_text(out, "'\n");
    }
    for (size_t i = 0; commands[i] != NULL; i++) {
        if (commands[i]->name != NULL) each_option(commands[i], out, fish_option);
    }
    emit_text(out, "complete -c msgstore -k -n '__fish_seen_subcommand_from ");
    put_takers(out, 0, USUAL_TAKERS, " ");
    emit_text(out, "' -a '(msgstore completion sessions (string match -e -r "
                   "\"\\\\.log\\$\" -- (commandline -opc))[-1] 2>/dev/null)'\n"
                   "complete -c msgstore -k -n '__fish_seen_subcommand_from ");
    put_takers(out, USUAL_TAKERS, COUNT_OF(session_takers), " ");
    emit_text(out, "; and string match -q -r \"\\\\.log\\$\" -- (commandline -opc)'"
                   " -a '(msgstore completion sessions (string match -e -r "
                   "\"\\\\.log\\$\" -- (commandline -opc))[-1] 2>/dev/null)'\n");
}

static int run_completion(job *j)
{
    output out = {stdout, 0};
    const char *shell = j->options->files[0];
    if (strcmp(shell, "sessions") != 0 && j->options->n_files > 1) {
        complain("completion %s takes no %s", shell, j->options->files[1]);
        return USAGE;
    }
    if (strcmp(shell, "bash") == 0) put_bash(&out);
    else if (strcmp(shell, "zsh") == 0) put_zsh(&out);
    else if (strcmp(shell, "fish") == 0) put_fish(&out);
    else if (strcmp(shell, "sessions") == 0)
        return output_end(&out, put_sessions(j, &out));
    else {
        complain("completion expects bash, zsh or fish, or sessions, not %s", shell);
        return USAGE;
    }
    return output_end(&out, FINE);
}


/* ---- The manual page, in mdoc(7) --------------------------------------------------- */

enum { MANUAL_WIDTH = 72 };

static void put_escaped(output *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\\') emit_text(out, "\\e");
        else if (text[i] == '-') emit_text(out, "\\-");
        else emit(out, text + i, 1);
    }
}

/* Prints words in lines of at most MANUAL_WIDTH. Each sentence begins a line, and no
 * line can be taken for a request of mdoc. */
static void put_prose(output *out, const char *text)
{
    size_t used = 0;
    for (;;) {
        text += strspn(text, " \n");
        size_t len = strcspn(text, " \n");
        if (len == 0) break;
        if (used > 0 && used + 1 + len > MANUAL_WIDTH) {
            emit_text(out, "\n");
            used = 0;
        }
        if (used == 0 && (*text == '.' || *text == '\'')) emit_text(out, "\\&");
        if (used > 0) emit_text(out, " ");
        put_escaped(out, text, len);
        used += len + 1;
        bool dots = len >= 3 && strcmp(text + len - 3, "...") == 0;
        bool end = text[len - 1] == '.' && !dots;
        text += len;
        if (!end) continue;
        emit_text(out, "\n");
        used = 0;
    }
    if (used > 0) emit_text(out, "\n");
}

static void manual_option(output *out, const command *c, int id, const char *text)
{
    const char *argument = option_argument(c, id);
    emit_text(out, ".It ");
    if (option_letter(id) != '\0') emit_format(out, "Fl %c , ", option_letter(id));
    emit_format(out, "Fl \\-%s", option_word(id));
    if (argument != NULL) emit_format(out, " Ar %s", argument);
    emit_text(out, "\n");
    put_prose(out, text);
}

/* Returns the start of the paragraph of a help text that begins with `word`. */
static const char *paragraph(const char *help, const char *word)
{
    const char *at = strstr(help, word);
    return at != NULL ? at : help + strlen(help);
}

/* Returns the end of a paragraph's lines that begin with spaces, or with its word. */
static const char *end_of_usage(const char *at)
{
    while (*at != '\0') {
        const char *next = strchr(at, '\n');
        if (next == NULL) return at + strlen(at);
        at = next + 1;
        if (*at != ' ') return at;
    }
    return at;
}

static void put_literal(output *out, const char *text, const char *end)
{
    emit_text(out, ".Bd -literal -offset indent\n");
    put_escaped(out, text, (size_t)(end - text));
    emit_text(out, ".Ed\n");
}

static void put_command(output *out, const command *c)
{
    const char *usage = paragraph(c->help, "usage: "), *end = end_of_usage(usage);
    emit_format(out, ".Ss msgstore %s\n", c->name);
    put_literal(out, usage, end);
    emit_text(out, ".Pp\n");
    put_prose(out, end);
    emit_text(out, ".Bl -tag -width Ds\n");
    each_option(c, out, manual_option);
    emit_text(out, ".El\n");
}

static void manual_examples(output *out)
{
    emit_text(out, ".Bd -literal\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        if (commands[i]->name == NULL) continue;
        const char *help = commands[i]->help, *end = strstr(help, "\n\nusage: ");
        if (end == NULL || strncmp(help, "examples:\n", 10) != 0) continue;
        put_escaped(out, help + 10, (size_t)(end - help - 10));
        emit_text(out, "\n");
    }
    emit_text(out, ".Ed\n");
}

static int run_manual(job *j)
{
    output out = {stdout, 0};
    (void)j;
    emit_text(&out, ".\\\" Made by msgstore manual from the help of its commands.\n"
                    ".Dd November 24, 2026\n.Dt MSGSTORE 1\n.Os\n.Sh NAME\n.Nm msgstore\n"
                    ".Nd keep, search, count and convert messages of agent programs\n"
                    ".Sh SYNOPSIS\n.Nm msgstore\n.Ar command\n.Op Ar option ...\n"
                    ".Op Ar file ...\n.Sh DESCRIPTION\n.Nm\n"
                    "keeps messages of agent programs in logs, reads the transcripts\n"
                    "that these programs write, searches and counts them, and makes\n"
                    "requests of them that model providers take.\n"
                    "A store is a log; most commands that read also take a file or a\n"
                    "folder of transcripts or messages, and a dash for standard input.\n"
                    "A session is the location of its messages; any piece of its name\n"
                    "that no other session has is enough.\n.Pp\nThe commands are:\n");
    for (size_t i = 0; commands[i] != NULL; i++) {
        if (commands[i]->name != NULL) put_command(&out, commands[i]);
    }
    emit_text(&out, ".Sh ENVIRONMENT\n.Bl -tag -width Ds\n.It Ev NO_COLOR\n"
                    "Not empty: no colours.\n.It Ev MSGSTORE_PAGER , Ev PAGER\n"
                    "The pager of long output on a terminal; empty or cat: none.\n"
                    ".It Ev MSGSTORE_LOG\n"
                    "The log of commands that are given none.\nElse it is\n"
                    ".Pa msgstore/messages.log\nin\n.Ev XDG_STATE_HOME ,\n"
                    "without which it is in\n.Pa ~/.local/state .\n"
                    ".It Ev TZ\nThe zone of the times that are printed and given.\n"
                    ".It Ev LESS\nOptions of less; FRX when it is not set.\n.El\n"
                    ".Sh EXIT STATUS\n.Bl -tag -width Ds\n");
    for (size_t i = 0; i < EXIT_CODES; i++) {
        emit_format(&out, ".It %zu\n", i);
        put_prose(&out, exit_texts[i]);
    }
    emit_text(&out, ".El\n.Sh EXAMPLES\n");
    manual_examples(&out);
    return output_end(&out, FINE);
}

static const option_row no_rows[] = {{OPT_END, NULL}};

const command completion_command = {
    "completion", "completions for bash, zsh and fish",
    run_completion, false, 1, 2, "a shell", 0, no_rows,
    "examples:\n"
    "  source <(msgstore completion bash)\n"
    "  msgstore completion fish >~/.config/fish/completions/msgstore.fish\n"
    "\n"
    "usage: msgstore completion bash|zsh|fish\n"
    "       msgstore completion sessions [STORE]\n"
    "Prints what the shell reads to complete commands, options, their words, and the\n"
    "sessions of the usual log, or of a *.log that was typed (hand-over and\n"
    "compact-context: of that alone). For these the shell calls\n"
    "`completion sessions`, which prints name, tab and title of each, newest first.\n",
    false,
};

const command manual_command = {
    "manual", "the manual page, for man(1)",
    run_manual, false, 0, 0, "", 0, no_rows,
    "examples:\n"
    "  msgstore manual | man -l -\n"
    "  msgstore manual >/usr/local/share/man/man1/msgstore.1\n"
    "\n"
    "usage: msgstore manual\n"
    "Prints the manual page in mdoc(7).\n",
    false,
};
