
/* ==== [emit] groups become provider messages =========================================
 * Steps 5 to 8 of [project]. Made-up texts are inserted into the list as groups, and
 * made-up results at their calls, so the writer needs no special case. The spelling of
 * each item for a provider is a text in ms__wires, which ms__out_form fills.
 * These templates are not those of [template].
 * ================================================================================== */

/* ---- Step 5: the window. */

/* Returns whether an assistant's group has nothing to send. Thinking alone is not
 * sent. */
static bool ms__is_silent(const ms__group *g)
{
    const ms__item *item = g->first;
    while (item && item->kind == MS__ITEM_THOUGHT) item = item->next;
    return !item;
}

/* Drops groups at the end that have nothing to send: none of them is the newest turn. */
static void ms__end_trim(ms__projector *p)
{
    while (p->last != p->pinned && ms__is_silent(p->last)) {
        p->report.dropped += p->last->count;
        p->count -= p->last->count;
        p->cost -= p->last->cost;
        p->last = p->last->before;
        if (p->last) p->last->next = NULL;
        else p->first = NULL;
    }
}

/* Finds the turns of the user, and the sizes before each group. A turn begins with a
 * user's text. Where that goes into the message of the results before it, it is a part of
 * the running turn. */
static void ms__turns_find(ms__projector *p)
{
    ms__group *g = p->pinned ? p->pinned->next : p->first, *begin = g;
    uint64_t before[2] = {0, 0};
    for (bool inside = false; g; g = g->next) {
        bool user = g->kind == MS__ITEM_USER;
        if (user && !g->first->aside && !(inside && p->wire->after)) begin = g;
        inside = g->has_calls || (user && inside);
        g->begin = begin;
        begin->turn_calls = begin->turn_calls || g->has_calls;
        memcpy(g->sizes, before, sizeof before);
        before[0] += g->count;
        before[1] += g->cost;
    }
}

/* Returns the size of the groups from `start` to `end`. */
static uint64_t ms__groups_size(const ms__group *start, const ms__group *end, bool cost)
{
    return end->sizes[cost] - start->sizes[cost] + (cost ? end->cost : end->count);
}

/* Returns how much of `most` a window to `end` may have: its start moves by opts.step. */
static uint64_t ms__window_most(const ms__projector *p, const ms__group *end,
                                uint64_t most, bool cost)
{
    uint64_t step = p->opts.step && (cost || !p->opts.budget) ? p->opts.step : 1;
    uint64_t all = end->sizes[cost] + (cost ? end->cost : end->count);
    uint64_t rest = (all > most ? all - most : 0) % step;
    return rest > 0 && step - rest < most ? most - (step - rest) : most;
}

/* Returns the first of the groups up to `end` that together have at most `most`; NULL:
 * none. */
static ms__group *ms__newest_groups(const ms__projector *p, ms__group *end, uint64_t most,
                                    bool cost)
{
    ms__group *start = NULL;
    for (ms__group *g = end; g != p->pinned; g = g->before) {
        if (ms__groups_size(g, end, cost) > most) break;
        start = g;
    }
    return start;
}

/* Returns the first group of a window of at most `most`; `end` is always in it. */
static ms__group *ms__window(const ms__projector *p, ms__group *end, uint64_t most,
                             bool cost)
{
    ms__group *start = ms__newest_groups(p, end, ms__window_most(p, end, most, cost),
                                         cost);
    if (!start) start = ms__newest_groups(p, end, most, cost); /* without a step */
    return start ? start : end;
}

/* Returns whether a window to `end` begins at `start`. */
static bool ms__window_begins(const ms__projector *p, const ms__group *start,
                              const ms__group *end)
{
    const ms__group *before = start->before;
    bool fits = true, full = before == p->pinned;
    for (int cost = 0; cost < 2; cost++) {
        uint64_t most = cost ? p->opts.budget : p->opts.newest;
        if (most == 0) continue;
        if (cost) most = most > p->system_cost ? most - p->system_cost : 0;
        most = ms__window_most(p, end, most, cost != 0);
        fits = fits && ms__groups_size(start, end, cost != 0) <= most;
        full = full || ms__groups_size(before, end, cost != 0) > most;
    }
    return fits && full;
}

/* Finds the group where the window begins; NULL: only pinned groups are there. Where
 * thinking is bound to all before it, the start stays while a turn runs. */
static ms_result ms__window_start(ms__projector *p, ms__group **start, ms_error *err)
{
    ms_project_report *r = &p->report;
    bool some = p->last != p->pinned;
    ms__group *g = p->pinned ? p->pinned->next : p->first, *end = p->last;
    ms__turns_find(p);
    r->newest_turn = p->system_cost + (some ? p->last->cost : 0);
    if (p->opts.budget && r->newest_turn > p->opts.budget)
        return ms__fail(err, MS_E_TOO_LARGE, "the newest turn takes %u, the budget is %u",
                        r->newest_turn, (uint64_t)p->opts.budget);
    *start = g;
    if (some && p->opts.thinking && ms__has_rule(p->wire, MS__THOUGHT_BOUND))
        end = end->begin;
    if (some && p->opts.newest) *start = ms__window(p, end, p->opts.newest, false);
    if (some && p->opts.budget) {
        ms__group *by_cost = ms__window(p, end, p->opts.budget - p->system_cost, true);
        if (by_cost->number > (*start)->number) *start = by_cost;
    }
    r->cost = p->system_cost + p->cost;
    for (; g != *start; g = g->next) {
        r->left_out += g->count;
        r->cost -= g->cost;
    }
    if (p->opts.budget && r->cost > p->opts.budget) r->over = r->cost - p->opts.budget;
    r->compaction_due = p->opts.compact_at > 0 &&
                        p->system_cost + p->cost > p->opts.compact_at;
    if (some) r->first_seq = (*start)->first->seq;
    return MS_OK;
}

/* ---- Thinking. */

/* Returns the number of the first group whose results are not shortened, when `n` groups
 * are there. */
static size_t ms__old_results(const ms__projector *p, size_t n)
{
    size_t fresh = p->opts.fresh, step = p->opts.fresh_step ? p->opts.fresh_step : fresh;
    return fresh > 0 && n > fresh ? (n - fresh) / step * step : 0;
}

/* Marks thinking that was made after the compaction in use, but before the result of a
 * call came that stands before it: it is bound to a list without that. */
static void ms__late_results(const ms__projector *p, const ms__group *g)
{
    uint64_t newest = 0; /* result, as read */
    for (; g; g = g->next)
        for (const ms__item *item = g->first; item; item = item->next) {
            bool old = g->number < p->since;
            if (!old && item->thinking_check && item->read < newest)
                item->thinking_check->late = true;
            if (old && item->result && item->result->read > newest)
                newest = item->result->read;
        }
}

/* Finds the turns whose thinking is sent with the running one. Thinking is bound to all
 * that stood before it: it is sent if the window began at the same group when its turn
 * began, with the same results shortened, and nothing before it was edited. */
static void ms__bound_turns(ms__projector *p, const ms__group *start)
{
    const ms__group *turn = p->last->begin;
    size_t old = ms__old_results(p, turn->number + 1);
    bool bound = p->opts.thinking && ms__has_rule(p->wire, MS__THOUGHT_BOUND);
    p->old_results = ms__old_results(p, bound ? turn->number + 1 : p->n_groups);
    p->bound = p->turn = turn->number;
    p->edited = SIZE_MAX;
    while (turn != start && turn->number > start->number) {
        const ms__group *before = turn->before->begin;
        if (before->number < p->since) break;
        size_t then = ms__old_results(p, before->number + 1);
        if (before->number < start->number || !ms__window_begins(p, start, before) ||
            (then != old && (then > start->number || old > start->number)))
            break;
        turn = before;
        p->bound = turn->number;
    }
    for (const ms__group *g = start; g && p->edited == SIZE_MAX; g = g->next) {
        bool edited = g->edited;
        for (const ms__item *item = g->first; item && !edited; item = item->next)
            edited = item->kind == MS__ITEM_THOUGHT && !ms__thought_holds(item);
        if (edited) p->edited = g->number;
    }
    if (bound) ms__late_results(p, start);
}

/* Returns whether the thinking of a group is asked for. */
static bool ms__group_asked(const ms__projector *p, const ms__group *g)
{
    bool all = p->thinking == MS_THINKING_ALL;
    if (ms__has_rule(p->wire, MS__THOUGHT_BOUND) && p->thinking) {
        bool after = g->number > p->edited; /* of its turn, or of an older one */
        if (after && (g->number < p->turn || p->edited >= p->turn)) return false;
        if (g->number < p->since) return false; /* the summary was not there then */
        all = all && g->number >= p->bound;
    }
    return all || g->number >= p->running ||
           (p->thinking == MS_THINKING_CALLS && g->begin->turn_calls);
}

/* Returns whether a text, a call or a raw item of its group follows thinking; one of the
 * response `held` does not count. */
static bool ms__thought_leads(const ms__item *item, unsigned held)
{
    for (int i = 0; item && i < MS__LOOK_AT; i++, item = item->next)
        if (item->kind != MS__ITEM_THOUGHT && (held == 0 || item->response != held))
            return true;
    return item != NULL;
}

/* Returns whether thinking is sent: it is asked for, and unaltered since its signing,
 * and the item that it belongs to follows it where it must. */
static bool ms__thought_goes(const ms__projector *p, const ms__item *item)
{
    return item->kind == MS__ITEM_THOUGHT && ms__group_asked(p, item->group) &&
           ms__thought_holds(item) &&
           (!ms__has_rule(p->wire, MS__THOUGHT_LEADS) || ms__thought_leads(item, 0));
}

/* Counts thinking that the options ask for, but that would be refused. */
static void ms__thinking_count(ms__projector *p, const ms__group *g)
{
    if (p->thinking != MS_THINKING_ALL) return;
    for (; g; g = g->next)
        for (const ms__item *item = g->first; item; item = item->next)
            p->report.thinking_left_out += item->kind == MS__ITEM_THOUGHT &&
                                           !ms__thought_goes(p, item);
}

/* Returns whether a group has the thinking that the provider requires in the running
 * turn. For Gemini that is the signature of its first call. */
static bool ms__group_thinks(const ms__projector *p, const ms__group *g)
{
    for (const ms__item *item = g->first; item; item = item->next) {
        if (ms__has_rule(p->wire, MS__CALL_SIGNED) && item->kind == MS__ITEM_CALL)
            return item->beside.ptr != NULL;
        if (ms__thought_goes(p, item)) return true;
        if (ms__has_rule(p->wire, MS__THOUGHT_FIRST) && item->kind != MS__ITEM_THOUGHT)
            return false; /* it must be first */
    }
    return false;
}

/* Returns whether a group before an answer is of the same turn. System text ends a turn
 * only where a turn is a list of blocks; words of other agents end none. */
static bool ms__same_turn(const ms__projector *p, const ms__group *g)
{
    return g->kind == MS__ITEM_ASSISTANT ||
           (g->kind == MS__ITEM_USER && g->first->aside) ||
           (g->kind == MS__ITEM_SYSTEM && !p->wire->turn_end);
}

/* Finds the start of the running turn: after the last text of another role before the
 * newest results. Where a turn is a list of blocks, assistant text after these ends it.
 * Counts missing thinking in it. Anthropic demands it where the turn begins, or after
 * the last words of other agents in it. */
static void ms__running_turn(ms__projector *p, const ms__group *start)
{
    const ms__group *last = p->last, *first, *reply;
    bool begins = false, first_only = ms__has_rule(p->wire, MS__THOUGHT_FIRST);
    p->running = SIZE_MAX;
    if (!start) return;
    ms__bound_turns(p, start);
    if (!p->thinking) return;
    while (last != start && (last->kind != MS__ITEM_ASSISTANT || ms__is_silent(last)))
        last = last->before;
    if (!last->has_calls && (p->wire->turn_end || last != p->last)) return;
    for (reply = last; reply != start && reply->before->kind != MS__ITEM_USER;)
        reply = reply->before;
    for (first = last; first != start && ms__same_turn(p, first->before);)
        first = first->before;
    p->running = first->number;
    if (ms__has_rule(p->wire, MS__THOUGHT_BOUND) && last->begin->number < p->running)
        p->running = last->begin->number;
    for (const ms__group *g = first; g != last->next; g = g->next) {
        begins = begins || g == first || g == reply;
        if (g->kind != MS__ITEM_ASSISTANT || ms__is_silent(g)) continue;
        if (g->has_calls || first_only)
            p->report.thinking_missing +=
                (begins || !first_only) && !ms__group_thinks(p, g);
        begins = false;
    }
}

/* ---- Steps 6 and 7: what the history lacks. */

/* Returns whether a call was interrupted: it has no result, and the item after it begins
 * another answer. */
static bool ms__call_given_up(const ms__item *call)
{
    return call->kind == MS__ITEM_CALL && !call->result && call->next &&
           !call->next->joined && call->next->kind != MS__ITEM_CALL;
}

/* Divides turns after interrupted calls, so that the made-up result of a call precedes
 * the text that was written without it. All parts keep the number of the turn. One walk
 * passes each item once: a part ends at its call, and its rest is the next group. */
static void ms__turns_divide(ms__projector *p, ms__group *g)
{
    for (; g; g = g->next) {
        ms__item *item = g->first;
        g->has_calls = false;
        for (; item; item = item->next) {
            item->group = g;
            g->has_calls = g->has_calls || item->kind == MS__ITEM_CALL;
            if (ms__call_given_up(item)) break;
        }
        if (!item) continue;
        ms__group *rest = (ms__group *)ms__project_alloc(p, sizeof *rest);
        if (!rest) return;
        *rest = *g;
        rest->before = g;
        rest->first = item->next;
        if (g->next) g->next->before = rest;
        else p->last = rest;
        g->next = rest;
        g->last = item;
        item->next = NULL;
    }
}

/* Begins the result of a call that failed with error_text. Anthropic takes is_error only
 * beside texts that are not empty: with pictures the text names the failure. */
static void ms__reply_failed(ms__projector *p, ms__item *r)
{
    const char *mark = p->profile->error_text;
    bool texts = ms__has_rule(p->wire, MS__ERROR_TEXTS);
    if (r->parts && !texts) return;
    if (r->parts && !r->parts->text.ptr) {
        ms__element *x = (ms__element *)ms__project_alloc(p, sizeof *x);
        if (!x) return;
        x->text = MS_STR("");
        x->next = r->parts;
        r->parts = x;
    }
    ms_str *text = r->parts ? &r->parts->text : &r->text.text;
    if (r->parts) r->failed = false;
    if (texts && !mark && (r->parts || ms__is_blank(*text))) mark = MS__FAILED;
    if (!mark || ms__starts_with(*text, ms_str_of(mark))) return;
    p->report.wrapped++;
    *text = ms__concat3(p, ms_str_of(mark), *text, ms__absent());
}

/* Returns the JSON of that kind that a result is, or an absent view. */
static ms_str ms__reply_json(const ms__item *r, ms_json_kind kind)
{
    ms_str json;
    bool is = !r->parts && ms_json_check(r->text.text, NULL, &json, NULL) == MS_OK &&
              ms_json_kind_of(json) == kind;
    return is ? json : ms__absent();
}

/* Returns the picture of a result, or NULL. */
static const ms__element *ms__reply_picture(const ms__item *r)
{
    const ms__element *x = r->parts;
    while (x && (x->text.ptr || x->kind != MS__FILE_PICTURE ||
                 (x->by != 'd' && x->by != 'u')))
        x = x->next;
    return x;
}

/* Returns whether JSON is what a command wrote that the Responses API's shell ran. */
static bool ms__is_printed(ms_str json)
{
    static const char *const names[] = {"stdout", "stderr"};
    ms_str outcome, value;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!ms_json_member(json, ms_str_of(names[i]), &value) ||
            ms_json_kind_of(value) != MS_JSON_STRING)
            return false;
    if (!ms_json_member(json, MS_STR("outcome"), &outcome) ||
        !ms_json_member(outcome, MS_STR("type"), &value))
        return false;
    return ms_json_string_is(value, MS_STR("timeout")) ||
           (ms_json_string_is(value, MS_STR("exit")) &&
            ms_json_member(outcome, MS_STR("exit_code"), &value) &&
            ms_json_kind_of(value) == MS_JSON_NUMBER);
}

/* Returns the list of objects that a result is, or an absent view: of what commands
 * wrote, or of tools, of which there may be none. */
static ms_str ms__reply_list(const ms__item *r, bool printed)
{
    ms_str list = ms__reply_json(r, MS_JSON_ARRAY);
    size_t n = 0;
    if (!printed && !r->parts && r->text.text.len == 0) return MS_STR("[]");
    for (ms_json_iter it = ms_json_iterate(list); ms_json_next(&it); n++)
        if (ms_json_kind_of(it.value) != MS_JSON_OBJECT ||
            (printed && !ms__is_printed(it.value)))
            return ms__absent();
    return printed && n == 0 ? ms__absent() : list;
}

/* Returns the object that a computer's screen is in the Responses API, if the result is
 * one, or an absent view. */
static ms_str ms__reply_screen(const ms__item *r)
{
    ms_str json = ms__reply_json(r, MS_JSON_OBJECT), type;
    bool is = json.ptr && ms_json_member(json, MS_STR("type"), &type) &&
              ms_json_string_is(type, MS_STR("computer_screenshot"));
    return is ? json : ms__absent();
}

/* Returns whether the form of a type of item can hold a result. Outputs of shells and
 * patches are text alone. */
static bool ms__reply_fits(const char *form, const ms__item *r)
{
    if (strstr(form, "%G")) return ms__reply_picture(r) || ms__reply_screen(r).ptr;
    if (strstr(form, "%k")) return ms__reply_list(r, false).ptr != NULL;
    return !r->parts || form == ms__item_types[0].reply;
}

/* Completes the result of a call: shortens an old text, marks a failure, or makes up a
 * missing result. */
static void ms__reply(ms__projector *p, ms__item *call)
{
    ms__item *r = call->result;
    if (!r) {
        r = call->result = (ms__item *)ms__project_alloc(p, sizeof *r);
        if (!r) return;
        p->report.synthesised++;
        r->failed = !call->delegation;
        if (r->failed) r->beside = MS_STR("\"interrupted\"");
        r->text = ms_text(call->delegation        ? "Delegated."
                          : p->profile->no_result ? p->profile->no_result
                                                  : MS__NO_RESULT);
    } else {
        ms_str *text = &r->text.text;
        if (call->group->number < p->old_results && !r->parts && !r->text.json)
            *text = ms__shorter(p, *text, ms__absent());
        if (r->failed) ms__reply_failed(p, r);
    }
    if (!call->reply || ms__reply_fits(call->reply, r)) return;
    call->raw = ms__absent(); /* a call of a function */
    call->reply = NULL;
    p->report.wrapped++;
}

/* Inserts a group of one text into the list. */
static void ms__text_insert(ms__projector *p, ms__group **at, ms__item_kind kind,
                            const char *text)
{
    ms__item *item = (ms__item *)ms__project_alloc(p, sizeof *item);
    ms__group *g = (ms__group *)ms__project_alloc(p, sizeof *g);
    if (!item || !g) return;
    item->kind = g->kind = kind;
    item->text = ms_text(text);
    item->group = g;
    g->first = g->last = item;
    g->next = *at;
    *at = g;
}

/* Inserts the files of a result as the user's. Returns where the next ones go. */
static ms__group **ms__files_insert(ms__projector *p, ms__group **at,
                                    const ms__item *call)
{
    ms__element *files = call->result->files;
    const char *word = ms__file_words[files->kind];
    for (const ms__element *x = files->next; x; x = x->next)
        if (x->kind != files->kind) word = "files";
    ms_str name = ms__concat3(p, MS_STR("["), ms_str_of(word), MS_STR(" of "));
    name = ms__concat3(p, name, call->tool, MS_STR("]"));
    ms__group *after = *at;
    ms__text_insert(p, at, MS__ITEM_USER, "");
    if (*at == after) return at;
    (*at)->first->text.text = name;
    (*at)->first->parts = ms__files_of(p, name, files);
    return &(*at)->next;
}

/* Returns whether the user's end_text follows a group of assistant text: it would be
 * last, or was last when it was interrupted. What was sent then is sent again. */
static bool ms__text_ends(const ms__projector *p, const ms__group *g,
                          const ms__group *next)
{
    if (!p->profile->end_text || g->kind != MS__ITEM_ASSISTANT || g->has_calls ||
        g->last->kind == MS__ITEM_RAW) /* it pauses: its maker goes on by itself */
        return false;
    return !next || (g->last->unfinished && next->kind == MS__ITEM_ASSISTANT);
}

/* Makes user text of system text that stands after neither a user's message nor
 * results. */
static void ms__system_settle(ms__projector *p)
{
    const ms__group *before = NULL;
    for (ms__group *g = p->first; g; before = g, g = g->next) {
        bool after = before && (before->has_calls || before->kind != MS__ITEM_ASSISTANT);
        if (g->kind != MS__ITEM_SYSTEM || after) continue;
        g->kind = MS__ITEM_USER;
        for (ms__item *item = g->first; item; item = item->next)
            ms__system_wrap(p, item);
    }
}

/* Takes groups that have nothing to send out of the list. at: the link to the first. */
static void ms__silent_drop(ms__projector *p, ms__group **at)
{
    for (; *at && ms__is_silent(*at); *at = (*at)->next)
        p->report.dropped += (*at)->count;
}

/* Makes the list to write: the pinned groups, unless system text is a member of the
 * request, and those of the window, without silent ones. Then each call has its
 * result. */
static void ms__list_make(ms__projector *p, ms__group *start)
{
    const ms_profile *profile = p->profile;
    if (p->summary) p->summary->next = start;
    if (p->summary) start = p->summary;
    bool apart = ms__system_apart(profile);
    if (p->pinned && !apart) p->pinned->next = start;
    else p->first = start;
    ms__group **at = &p->first;
    while (!apart && *at && (*at)->kind == MS__ITEM_SYSTEM) at = &(*at)->next;
    ms__silent_drop(p, at);
    bool summed = p->summary && p->summary->kind == MS__ITEM_ASSISTANT;
    if (profile->start_user && !summed && !(*at && (*at)->kind == MS__ITEM_USER)) {
        p->report.started = 1;
        ms__text_insert(p, at, MS__ITEM_USER,
                        profile->start_text ? profile->start_text : MS__START);
    }
    for (; *at; at = &(*at)->next) {
        ms__group **next = &(*at)->next;
        ms__silent_drop(p, next);
        if (ms__text_ends(p, *at, *next)) {
            p->report.ended++;
            ms__text_insert(p, next, MS__ITEM_USER, profile->end_text);
            if (p->no_memory) return;
            at = next;
            continue;
        }
        if (!(*at)->has_calls) continue;
        ms__group **files = next;
        for (ms__item *item = (*at)->first; item; item = item->next) {
            if (item->kind == MS__ITEM_CALL) ms__reply(p, item);
            if (item->kind == MS__ITEM_CALL && item->result && item->result->files)
                files = ms__files_insert(p, files, item);
        }
        if (!profile->bridge_text || !*next || (*next)->kind != MS__ITEM_USER) continue;
        p->report.bridged++;
        ms__text_insert(p, next, MS__ITEM_ASSISTANT, profile->bridge_text);
    }
    if (apart && ms__has_rule(p->wire, MS__SYSTEM_AFTER)) ms__system_settle(p);
}

/* ---- Texts and files. */

static void ms__out(ms__projector *p, const char *literal)
{
    ms__json_bytes(&p->json, literal, strlen(literal));
}

static MS__ONCE void ms__out_text(ms__projector *p, ms_str text)
{
    ms__json_byte(&p->json, '"');
    ms__json_escaped(&p->json, text);
    ms__json_byte(&p->json, '"');
}

/* Writes text as a string, or JSON without the white space around its tokens. */
static void ms__out_value(ms__projector *p, ms_str text, bool json)
{
    p->json.has_item = false;
    if (json) ms_json_put_raw(&p->json, text);
    else ms__out_text(p, text);
}

/* Adds the text or the parts of an item to the message that is being written. */
static void ms__gather_item(ms__projector *p, const ms__item *item)
{
    const ms__element *part = item->parts;
    if (p->parts) p->report.merged++;
    else p->parts_end = &p->parts;
    do { /* copies: a list may be written more than once */
        ms__element *x = (ms__element *)ms__project_alloc(p, sizeof *x);
        if (!x) return;
        if (part) *x = *part;
        else x->text = item->text.text, x->glued = item->glued;
        if (part) part = part->next;
        x->next = NULL;
        *p->parts_end = x;
        p->parts_end = &x->next;
    } while (part);
}

/* Returns the item after one of a run whose last group is `last`, or NULL. */
static const ms__item *ms__item_after(const ms__item *item, const ms__group *last)
{
    if (item->next) return item->next;
    return item->group != last ? item->group->next->first : NULL;
}

/* Adds a text to parts that have a document and no text, where the provider refuses
 * them. */
static void ms__gather_text(ms__projector *p)
{
    bool document = false;
    for (const ms__element *x = p->parts; x; x = x->next) {
        if (x->text.ptr) return;
        document = document || x->kind == MS__FILE_DOCUMENT;
    }
    ms__element *x = document ? (ms__element *)ms__project_alloc(p, sizeof *x) : NULL;
    if (!x) return;
    p->report.wrapped++;
    x->text = MS_STR("[document]");
    *p->parts_end = x;
}

/* Gathers the texts and files of a run. */
static void ms__gather(ms__projector *p, const ms__group *from, const ms__group *last)
{
    p->parts = NULL;
    for (const ms__item *item = from->first; item; item = ms__item_after(item, last))
        if (item->kind <= MS__ITEM_ASSISTANT) ms__gather_item(p, item);
    if (ms__has_rule(p->wire, MS__DOCUMENT_TEXT)) ms__gather_text(p);
}

/* Writes texts from a part on, up to the next file or all, as one JSON string. Returns
 * the part after them. */
static const ms__element *ms__out_texts(ms__projector *p, const ms__element *x, bool all)
{
    bool some = false;
    ms__out(p, "\"");
    for (; x && (all || x->text.ptr); x = x->next) {
        if (!x->text.ptr) continue;
        if (some && !x->glued) ms__out(p, "\\n\\n");
        some = true;
        ms__json_escaped(&p->json, x->text);
    }
    ms__out(p, "\"");
    return x;
}

#define MS__FILE_NAME 120 /* most bytes of a file's name */

/* Returns a name of at most `most` bytes, which ends with a whole character. */
static ms_str ms__name_cut(ms_str name, size_t most)
{
    if (name.len <= most) return name;
    while (most > 0 && ((unsigned char)name.ptr[most] & 0xC0) == 0x80) most--;
    return ms_str_n(name.ptr, most);
}

/* Returns the name of a file, or "document" or "audio", with the ending of its type. */
static ms_str ms__file_name(ms__projector *p, const ms__element *x, ms_str format)
{
    ms_str name = x->name.len > 0 ? x->name : ms_str_of(ms__file_words[x->kind]);
    name = ms__name_cut(name, MS__FILE_NAME);
    if (format.len == 0 || ms__name_end(name).len > 0) return name;
    name = ms__name_cut(name, MS__FILE_NAME - 1 - format.len);
    return ms__concat3(p, name, MS_STR("."), format);
}

/* Returns the name of a document as Converse takes it, which no other document of the
 * list has: ASCII letters, digits, single spaces, '-', and round and square brackets. */
static ms_str ms__file_only_name(ms__projector *p, const ms__element *x)
{
    ms_str own = ms__file_name(p, x, ms__absent()), name;
    char number[24], *text = (char *)ms__project_alloc(p, own.len);
    size_t len = 0;
    for (size_t i = 0; text && i < own.len; i++) {
        char c = own.ptr[i];
        bool plain = (ms__is_word_char(c) && c != '_') || (c && strchr("()[] ", c));
        if (c == ' ' && (len == 0 || text[len - 1] == ' ')) continue;
        text[len++] = plain ? c : '-';
    }
    own = name = ms_str_n(text, len);
    ms__name *from = ms__name_of(p, MS__NAME_FILE, own, ms__absent(), true), *made = from;
    while (made->taken && !p->no_memory) {
        from->tries += from->tries ? 1 : 2;
        len = ms__u64_write(from->tries, number);
        name = ms__name_cut(own, MS__FILE_NAME - 1 - len);
        name = ms__concat3(p, name, MS_STR("-"), ms_str_n(number, len));
        made = ms__name_of(p, MS__NAME_FILE, name, ms__absent(), true);
    }
    made->taken = true;
    return name;
}

/* Writes a file by its template, see ms__file_form. */
static void ms__out_file(ms__projector *p, const ms__element *x)
{
    const struct ms__media *media = ms__media_of(x->mime, ms__absent());
    ms_str format = media ? ms_str_of(media->format) : MS_STR("");
    for (const char *form = ms__file_template(p, x); *form; form++) {
        ms_str part = x->value, mime = x->mime;
        if (*form != '%') {
            ms__json_byte(&p->json, *form);
            continue;
        }
        switch (*++form) {
        case 'm': part = x->mime; break;
        case 'f':
            part = format; /* "png" */
            if (x->kind == MS__FILE_PICTURE) part = ms_str_n(mime.ptr + 6, mime.len - 6);
            break;
        case 'n': part = ms__file_name(p, x, format); break;
        case 'u': part = ms__file_only_name(p, x); break;
        case 't':
            part = ms__absent();
            if (x->name.len == 0) break;
            ms__out(p, ",\"title\":");
            ms__out_text(p, ms__file_name(p, x, part));
            break;
        case 'M':
            part = ms__absent();
            if (mime.len == 0 && x->kind == MS__FILE_DOCUMENT) mime = MS_STR(MS__PDF);
            if (mime.len == 0) break;
            ms__out(p, "\"mimeType\":");
            ms__out_text(p, mime);
            ms__out(p, ",");
            break;
        case '+':
            ms__json_bytes(&p->json, x->members.ptr, x->members.len);
            part = ms__absent();
            break;
        default: break; /* d */
        }
        ms__json_escaped(&p->json, part);
    }
}

/* Writes the parts as elements of a list. */
static void ms__out_blocks(ms__projector *p, const ms__element *x)
{
    for (bool some = false; x; some = true) {
        if (some) ms__out(p, ",");
        if (x->text.ptr) {
            ms__out(p, p->wire->text);
            x = ms__out_texts(p, x, false);
            ms__out(p, *p->wire->text ? "}" : "");
        } else {
            ms__out_file(p, x);
            x = x->next;
        }
    }
}

/* Writes pictures as a member of their own, for Ollama. */
static void ms__out_images(ms__projector *p, const ms__element *x)
{
    bool some = false;
    for (; x; x = x->next) {
        if (x->text.ptr) continue;
        ms__out(p, some ? "," : ",\"images\":[");
        some = true;
        ms__out_text(p, x->value);
    }
    if (some) ms__out(p, "]");
}

/* ---- Templates. */

static void ms__out_reply(ms__projector *p, const ms__item *r)
{
    bool object = r->text.json && ms__is_response(r->text.text);
    bool wraps = ms__has_rule(p->wire, MS__RESULT_OBJECT) && (r->failed || !object);
    if (wraps) ms__out(p, r->failed ? "{\"error\":" : "{\"result\":");
    if (!r->parts) ms__out_value(p, r->text.text, r->text.json);
    else {
        ms__out(p, "[");
        ms__out_blocks(p, r->parts);
        ms__out(p, "]");
    }
    if (wraps) ms__out(p, "}");
}

/* Returns the parts of a result, made up of its text if it has none. */
static const ms__element *ms__reply_parts(ms__projector *p, const ms__item *r)
{
    if (r->parts) return r->parts;
    ms__element *x = (ms__element *)ms__project_alloc(p, sizeof *x);
    if (x) x->text = ms__is_blank(r->text.text) ? MS_STR("(empty)") : r->text.text;
    return x;
}

/* Writes the result of a shell's call: a list as the Responses API has it, or one of its
 * text. */
static void ms__out_shell(ms__projector *p, const ms__item *r)
{
    ms_str list = ms__reply_list(r, true);
    if (list.ptr) {
        ms__out_value(p, list, true);
        return;
    }
    ms__out(p, "[{\"stdout\":");
    ms__out_text(p, r->text.text);
    ms__out(p, ",\"stderr\":\"\",\"outcome\":{\"type\":\"exit\",\"exit_code\":");
    ms__out(p, r->failed ? "1}}]" : "0}}]");
}

/* Writes the result of a computer's call: an object as the Responses API has it, or one
 * of its picture. */
static void ms__out_screen(ms__projector *p, const ms__item *r)
{
    ms_str json = ms__reply_screen(r);
    const ms__element *x = ms__reply_picture(r);
    if (json.ptr) ms__out_value(p, json, true);
    if (json.ptr || !x) return;
    ms__out(p, "{\"type\":\"computer_screenshot\",\"image_url\":\"");
    if (x->by == 'd') ms__out(p, "data:");
    if (x->by == 'd') ms__json_escaped(&p->json, x->mime);
    if (x->by == 'd') ms__out(p, ";base64,");
    ms__json_escaped(&p->json, x->value);
    ms__out(p, "\"}");
}

/* Writes a template. A letter after % is a placeholder. Of the texts that were gathered:
 *   %t all as one string            %T the same; null without texts
 *   %c the same, or a list where files are among them, or breakpoints are written
 *   %b texts and files in a list    %m pictures in a member
 * and of a call, its result, or another item:
 *   %i id  %n tool  %x text, or arguments as text  %o arguments as object
 *   %p arguments as object if they are one         %s signature  %g the same, a member
 *   %+ its maker's own members, after a comma
 *   %r content of the result  %e is_error          %f outcome
 *   %l the result as blocks   %E status error
 *   %v the result as a list of what a shell wrote  %w whether it failed, in a word
 *   %G the result as what a computer's screen has  %k the result as a list of tools */
static void ms__out_form(ms__projector *p, const char *form, const ms__item *item)
{
    const ms__element *parts = p->parts;
    for (const char *placeholder; *form; form = placeholder + 2) {
        placeholder = strchr(form, '%');
        if (!placeholder) {
            ms__out(p, form);
            return;
        }
        ms__json_bytes(&p->json, form, (size_t)(placeholder - form));
        bool list = placeholder[1] == 'c' && (ms__has_files(parts) || p->mark);
        switch (placeholder[1]) {
        case 'i': ms__out_text(p, item->id); break;
        case 'n': ms__out_text(p, item->tool); break;
        case 'x': ms__out_text(p, item->text.text); break;
        case 'o': ms__out_value(p, item->text.text, true); break;
        case 'p':
            ms__out_value(p, item->text.text,
                          item->text.json &&
                              ms_json_kind_of(item->text.text) == MS_JSON_OBJECT);
            break;
        case 's':
            if (item->beside.ptr) ms__out_value(p, item->beside, true);
            else ms__out(p, "\"skip_thought_signature_validator\"");
            break;
        case 'g':
            if (!item->beside.ptr) break;
            ms__out(p, ",\"signature\":");
            ms__out_value(p, item->beside, true);
            break;
        case '+':
            if (item->members.len > 0) ms__out(p, ",");
            ms__json_bytes(&p->json, item->members.ptr, item->members.len);
            break;
        case 'r': ms__out_reply(p, item->result); break;
        case 'l': ms__out_blocks(p, ms__reply_parts(p, item->result)); break;
        case 'E':
            if (item->result->failed) ms__out(p, ",\"status\":\"error\"");
            break;
        case 'v': ms__out_shell(p, item->result); break;
        case 'G': ms__out_screen(p, item->result); break;
        case 'k': ms__out_value(p, ms__reply_list(item->result, false), true); break;
        case 'w':
            ms__out(p, item->result->failed ? "\"failed\"" : "\"completed\"");
            break;
        case 'e':
            if (item->result->failed) ms__out(p, ",\"is_error\":true");
            break;
        case 'f':
            if (!item->result->beside.ptr) break;
            ms__out(p, ",\"outcome\":");
            ms__out_value(p, item->result->beside, true);
            break;
        case 'm': ms__out_images(p, parts); break;
        case 'b': ms__out_blocks(p, parts); break;
        default: /* t, T, c */
            if (list) ms__out(p, "[");
            if (list) ms__out_blocks(p, parts);
            else if (placeholder[1] == 'T' && !parts) ms__out(p, "null");
            else (void)ms__out_texts(p, parts, true);
            if (list) ms__out(p, "]");
        }
    }
}

/* ---- Cache breakpoints. */

/* Begins a text that will have a breakpoint before its end; false: it will have none. */
static bool ms__mark_begin(ms__projector *p)
{
    if (!p->mark || p->mark_room == 0) return false;
    size_t size = sizeof *p->marked;
    if (!p->marked) p->marked = (ms__breakpoint_text *)ms__project_alloc(p, size);
    if (!p->marked) return false;
    p->mark_room--;
    p->report.breakpoints++;
    p->marked->buf.arena = p->arena;
    p->marked->buf.len = 0;
    p->marked->json = p->json;
    ms_json_init(&p->json, ms_buf_write, &p->marked->buf, false);
    return true;
}

/* Ends it: the breakpoint stands before its last `tail` bytes. */
static void ms__mark_end(ms__projector *p, size_t tail)
{
    ms_result code = ms_json_finish(&p->json);
    ms_str text = ms_buf_text(&p->marked->buf);
    p->json = p->marked->json;
    if (code != MS_OK) p->no_memory = text.len + 1;
    if (p->no_memory) return;
    ms__json_bytes(&p->json, text.ptr, text.len - tail);
    ms__out(p, p->opts.cache == MS_CACHE_1H ? p->mark->hour : p->mark->mark);
    ms__json_bytes(&p->json, text.ptr + text.len - tail, tail);
}

static void ms__message_begin(ms__projector *p)
{
    if (p->comma) ms__out(p, ",");
    p->comma = true;
}

/* ---- Step 8: runs become messages. */

/* Returns whether the server has an item, with the response that the request names. */
static bool ms__is_held(const ms__projector *p, const ms__item *item)
{
    return p->held != 0 && item->response == p->held;
}

/* Returns whether a run of the assistant has something to write, of what is not a
 * result. */
static bool ms__run_says(const ms__projector *p, const ms__group *from,
                         const ms__group *last)
{
    for (const ms__item *item = from->first; item; item = ms__item_after(item, last))
        if (!ms__is_held(p, item) &&
            (item->kind != MS__ITEM_THOUGHT || ms__thought_goes(p, item)))
            return true;
    return false;
}

/* Writes an item as its maker wrote it. Its id names an item of an answer whose thinking
 * has to be there: where that is left out, so is the id. */
static void ms__out_item(ms__projector *p, const ms__item *item, bool lacks)
{
    static const char *const names[] = {"id"};
    ms_str none = ms__absent(), raw = item->raw;
    if ((lacks || item->lacks) && !item->id_needed &&
        ms__members_set(raw, names, &none, 1, p->arena, &raw, NULL) != MS_OK)
        p->no_memory = raw.len + 1;
    ms__out_value(p, raw, true);
}

/* Writes values with commas between them: a list without its brackets. */
static void ms__out_values(ms__projector *p, ms_str list)
{
    const char *end = list.ptr + list.len, *at = ms__skip_space(list.ptr, end);
    while (at < end) {
        const char *stop = ms__pass_value(at, end);
        if (stop == at) break;
        ms__out_value(p, ms_str_n(at, (size_t)(stop - at)), true);
        at = ms__skip_space(stop, end);
        if (at == end || *at != ',') break;
        ms__out(p, ",");
        at = ms__skip_space(at + 1, end);
    }
}

/* Writes calls as elements of a list; ordered: texts and thinking, too. */
static void ms__out_turns(ms__projector *p, const ms__group *from, const ms__group *last,
                          bool ordered, bool some)
{
    const ms__wire *wire = p->wire;
    bool first = true, lacks = false;
    for (const ms__item *x = from->first; x && !lacks; x = ms__item_after(x, last))
        lacks = x->kind == MS__ITEM_THOUGHT && !ms__thought_goes(p, x);
    for (const ms__item *item = from->first; item; item = ms__item_after(item, last)) {
        const char *form = wire->call;
        if (ms__is_held(p, item)) continue;
        if (item->kind == MS__ITEM_CALL) {
            if (ms__has_rule(wire, MS__CALL_SIGNED) && !first && !item->beside.ptr)
                form = wire->sibling;
            if (item->custom) form = wire->custom;
            first = false;
        } else if (!ordered) continue;
        else if (item->kind == MS__ITEM_RAW) form = NULL;
        else if (item->kind == MS__ITEM_ASSISTANT) form = wire->block;
        else if (!ms__thought_goes(p, item)) continue;
        else form = item->redacted ? wire->redacted : wire->thought;
        if (some) ms__out(p, ",");
        some = true;
        if (item->raw.ptr) ms__out_item(p, item, lacks);
        else if (!form) ms__out_values(p, item->text.text);
        else ms__out_form(p, form, item);
    }
}

/* Writes all thinking of the turns as one text, as DeepSeek and Ollama accept it, or the
 * member of OpenRouter in which it came. */
static void ms__out_reasoning(ms__projector *p, const ms__group *from,
                              const ms__group *last)
{
    for (const ms__item *item = from->first; item; item = ms__item_after(item, last)) {
        if (!ms__thought_goes(p, item) || item->members.len == 0) continue;
        ms__out_form(p, "%+", item);
        return;
    }
    ms__out(p, p->wire->thought);
    for (const ms__item *item = from->first; item; item = ms__item_after(item, last))
        if (ms__thought_goes(p, item)) ms__json_escaped(&p->json, item->text.text);
    ms__out(p, "\"");
}

/* Writes the assistant's message of a run. */
static void ms__emit_turns(ms__projector *p, const ms__group *from, const ms__group *last)
{
    const ms__wire *wire = p->wire;
    bool calls = last->has_calls;
    bool thinks = p->profile->thinking_always && p->thinking && calls &&
                  ms__group_asked(p, last);
    bool ordered = false;
    for (const ms__item *item = from->first; item; item = ms__item_after(item, last)) {
        thinks = thinks || ms__thought_goes(p, item);
        ordered = ordered || item->kind == MS__ITEM_RAW ||
                  (item->kind == MS__ITEM_ASSISTANT && item->members.len > 0);
    }
    ordered = wire->block && (ordered || thinks || ms__has_rule(wire, MS__ITEMS));
    if (wire->plain && !calls && !ordered) {
        ms__out_form(p, wire->plain, NULL);
        return;
    }
    ms__out_form(p, wire->turn, NULL);
    if (wire->turn_end) { /* a list of blocks */
        bool texts = !ordered && p->parts;
        if (texts) ms__out_form(p, wire->texts, NULL);
        ms__out_turns(p, from, last, ordered, texts);
        ms__out(p, wire->turn_end);
        return;
    }
    if (thinks) ms__out_reasoning(p, from, last);
    if (calls) ms__out(p, ",\"tool_calls\":[");
    if (calls) ms__out_turns(p, from, last, false, false);
    ms__out(p, calls ? "]}" : "}");
}

/* Returns the last group of a run. A run has groups of one kind; an assistant's run ends
 * with a group that has calls. */
static const ms__group *ms__run_last(const ms__group *g)
{
    while (!g->has_calls && g->next && g->next->kind == g->kind) g = g->next;
    return g;
}

/* Writes all results of a turn, in the order of its calls. If the format has them in one
 * message, the user's text after them goes there, too. Returns the group after those
 * written. */
static const ms__group *ms__emit_results(ms__projector *p, const ms__group *g)
{
    const ms__wire *wire = p->wire;
    bool user = g->next && g->next->kind == MS__ITEM_USER, some = false;
    for (const ms__item *call = g->first; call; call = call->next) {
        if (call->kind != MS__ITEM_CALL) continue;
        if (some && wire->results) ms__out(p, ",");
        else ms__message_begin(p);
        if (!some && wire->results) ms__out(p, wire->results);
        some = true;
        ms__out_form(p, call->reply ? call->reply : wire->reply, call);
    }
    const ms__group *last = user && wire->after ? ms__run_last(g->next) : g;
    if (last != g) {
        ms__gather(p, g->next, last);
        ms__out_form(p, wire->after, NULL);
    }
    if (wire->results) ms__out(p, "]}");
    return last->next;
}

/* Writes one run from a group on: one message, and its results. Returns the group after
 * it. */
static const ms__group *ms__emit_run(ms__projector *p, const ms__group *from)
{
    const ms__group *last = ms__run_last(from);
    ms__gather(p, from, last);
    if (!p->held || from->kind != MS__ITEM_ASSISTANT || ms__run_says(p, from, last))
        ms__message_begin(p);
    if (from->kind == MS__ITEM_ASSISTANT) {
        ms__emit_turns(p, from, last);
        return last->has_calls ? ms__emit_results(p, last) : last->next;
    }
    ms__out_form(p, from->kind == MS__ITEM_SYSTEM ? p->wire->system
                                                  : p->wire->user,
                 NULL);
    return last->next;
}

/* Returns the group after those that ms__emit_run writes; *user: they end with a user's
 * message, as results are for these wires. */
static const ms__group *ms__run_next(const ms__projector *p, const ms__group *from,
                                     bool *user)
{
    const ms__group *last = ms__run_last(from), *next = last->next;
    *user = from->kind == MS__ITEM_USER || last->has_calls;
    if (!last->has_calls || !next || next->kind != MS__ITEM_USER || !p->wire->after)
        return next;
    return ms__run_last(next)->next;
}

/* Writes the list of messages. Breakpoints stand after the newest message, and where the
 * request before this one ended: providers look for what is cached at breakpoints, and
 * only a few blocks before them. */
static void ms__emit_list(ms__projector *p)
{
    const ms__group *ends[2] = {NULL, NULL}; /* the newest first */
    bool user;
    for (const ms__group *g = p->mark ? p->first : NULL, *next; g; g = next) {
        next = ms__run_next(p, g, &user);
        if (user) ends[1] = ends[0];
        if (user) ends[0] = g;
    }
    if (p->mark_room < 2) ends[1] = NULL;
    ms__out(p, "[");
    for (const ms__group *g = p->first; g && !p->no_memory;) {
        bool marked = (g == ends[0] || g == ends[1]) && ms__mark_begin(p);
        g = ms__emit_run(p, g);
        if (marked) ms__mark_end(p, p->mark->message_tail);
    }
    ms__out(p, "]");
}
