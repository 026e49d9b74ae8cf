/* The Model Context Protocol over lines: JSON-RPC 2.0, one message a line, for servers
 * that have tools and nothing else. Tools are rows of a table, from which their input
 * schemas and the checks of their arguments are made.
 *
 * (MC1) A line is answered before the next one is read. Memory is bounded by the longest
 * line and the largest answer. A line that is too long or no JSON is an error to the
 * client, and the server goes on.
 * (MC2) All texts of an answer are masked; they leave the process as JSON strings. */

#ifndef MCP_H
#define MCP_H

#include "json.h"

typedef enum mcp_kind { MCP_TEXT, MCP_INTEGER, MCP_WORD } mcp_kind;

typedef struct mcp_arg {
    const char *name, *text;  /* text: its description */
    mcp_kind kind;
    bool needed;
    uint64_t least, most;     /* of an integer; characters of a text */
    uint64_t usual;           /* of an integer that is left out; with least 1, 0: none */
    const char *words;        /* of a word: "model day"; the first is the usual one */
} mcp_arg;

/* An argument of a call. */
typedef struct mcp_value {
    bool given;
    const char *text;         /* NULL: none was given; without zero bytes */
    uint64_t number;          /* the usual one, if none was given */
} mcp_value;

enum { MCP_ARGS = 8 };

typedef struct mcp_tool {
    const char *name, *title, *text;
    const mcp_arg *args;      /* at most MCP_ARGS */
    size_t n_args;
    /* Writes one object. A code that is not is_read() is an error of the call, whose text
     * is what complain() got; with others that text is a warning. */
    int (*run)(void *ctx, const mcp_value *args, ms_buf *answer);
} mcp_tool;

typedef struct mcp_server {
    const char *instructions; /* for the model */
    const mcp_tool *tools;
    size_t n_tools;
    unsigned masked;          /* SECRETS_* */
    void *ctx;                /* of run() */
} mcp_server;

/* The longest line that is read, in bytes. */
enum { MCP_LINE = 1 << 20 };

/* Takes an argument from a text; NULL: it is absent. */
int mcp_take(const mcp_arg *arg, const char *text, ms_arena *arena, mcp_value *value);

/* Answers requests until the input ends. Returns an exit code. */
int mcp_serve(const mcp_server *s, int input, output *out);

#endif /* MCP_H */
