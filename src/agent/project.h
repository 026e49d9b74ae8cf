
/* ==== [project] a history that no provider refuses ===================================
 * A stored history may have a call without its result: a window began between them, a run
 * was interrupted, or another provider had other rules. A provider refuses a request with
 * such a list, in this turn and every later one. ms_project writes a list that the
 * provider accepts. It reads messages from a cursor or a next-function, so it works with
 * any store, or none.
 *
 *   messages -> items -> groups -> window -> runs -> provider messages
 *
 * Reading, message by message:
 *   1  A message becomes an item: user text, assistant text, system text, a call, a
 *      result, signed thinking, or nothing. The table below has the item of each type. A
 *      list of text parts becomes one text. A picture, a document or a sound stays if the
 *      provider takes it; any other part becomes its name in brackets. Text of only white
 *      space is not sent.
 *   2  A result with an id answers the nearest call before it that has the same agent
 *      and id and no result; of several such calls in one turn, the oldest. If there is
 *      none and the result has no agent, it answers such a call of any agent. A result
 *      without an id answers the oldest open call of its agent's newest turn, of its
 *      tool if it has one. A map of ids would not be enough, because real traces repeat
 *      ids. A second result and a result without its call are dropped. A result with
 *      neither id nor call becomes user text, and so does a retry prompt of no tool. For
 *      a result with arguments of its own (a session row) a call is made.
 *   3  Items form groups. A group is one assistant turn: consecutive texts and calls of
 *      one agent. The result of a call is linked to the call, however late it comes. A
 *      text of the user or the system is a group of its own. A JOINED item joins the
 *      group of its answer, the newest of its agent and turn_id, across words of other
 *      agents. Across a text of the user, or a result, it joins if `answer` in its extra
 *      is the number of the answer's first message. A stream writes that member where
 *      others wrote between its messages.
 *   4  A call gets its final id: its own if the profile allows it and no earlier call has
 *      it, else one derived from it. The result has the same id.
 *
 * Then, over the list of groups:
 *   5  Groups of thinking alone are dropped at the end: the newest turn has something to
 *      send. The window begins at a group, so that no turn is split.
 *   6  A call without a result gets one that is made up. A text after it that begins
 *      an answer of its own follows that result. Old results are shortened; error_text
 *      begins the result of a failed call. Anthropic refuses is_error beside a
 *      picture: the result has its picture, and its text is of the failure.
 *   7  start_text becomes a group where the user must be first, bridge_text one between
 *      results and a user's text, and end_text one after assistant text that is last.
 *
 * Writing:
 *   8  Groups of one role form a run, which becomes one message, with a blank line
 *      between texts. The run of an assistant ends with a group that has calls; their
 *      results follow, in the order of the calls. [emit] writes each message by the
 *      templates of [wire].
 *
 * Items of each type, for the reader agent_key (absent: all are its own):
 *   user_message, task, script_instruction      user text
 *   assistant_message, final, plans, data       assistant text (a user's data: user text;
 *                                               a refusal: text); of a final and an equal
 *                                               text of one agent one is sent
 *   text of a role, multimodal_part, other      text of that role
 *   director_context, injected_context          system text; where that must be first,
 *                                               later ones are user text in <context>
 *   action, function_call of openai             its text, then a call
 *   observation, error                          result, see 2
 *   delegation                                  call of a tool named delegate
 *   synthesis                                   assistant text of its author, else user
 *                                               text with its source
 *   global_observation                          user text with its source
 *   words and work of another agent (all but    user text that begins with the agent's
 *     the user's, contexts, global ones)        name; before a call its text
 *   input_required                              assistant text if answered at once
 *   reasoning                                   signed thinking, see below, else nothing
 *   approval_required, delta                    nothing
 *   compaction                                  in the place of all that it covers: its
 *                                               items, or its text as the user's. A call
 *                                               that it covers stays with a late result
 *
 * Thinking. A provider refuses signed thinking that was altered, or that another provider
 * or model signed. Of which turns it goes back is a policy, of opts.thinking or the
 * profile. With thinking switched on, Anthropic demands that of the running turn,
 * DeepSeek that of all turns with calls. Words of other agents are not the user's: the
 * turn goes on until its agent answers. Anthropic may see a new turn after them, so
 * thinking that is missing there counts.
 * Newer Claude models bind each block to all before it. For these wires
 * (MS__THOUGHT_BOUND) the start of the window, and what is shortened, are those of the
 * history as it was when the user's turn began. A turn that is over keeps its thinking
 * while these stay; what follows an edit of its own or an earlier turn loses it.
 * end_text is sent again where it followed an interrupted text.
 * ms_answer stores it as REASONING with the member `signed` in extra: {"provider": name,
 * "model": name, "of": hash, "signature": text}; redacted thinking has "data", a call of
 * Gemini its signature. `of` is the hash of all messages of the answer: if it differs
 * now, the answer was edited, and its thinking is not sent.
 * Thinking that a format's reader has read counts as edited when a message of its answer
 * was amended. The thoughtSignature of a Gemini call is sent with the switch off, too:
 * Gemini 3 demands it. If it is missing, each first call has a documented placeholder, so
 * that the beginning of the list stays the same when a turn ends.
 *
 * What else only its maker takes has `signed`, too: a message of blocks that have no
 * other form (type MULTIMODAL_PART, a list), and members of a text or a call,
 * {"members": {"citations": ...}}, which hold while the message has the hash `of`. They
 * are sent as they came, in their place; elsewhere they are left out, and blocks are
 * counted. So is a call, or a result, that stands among blocks. Of the tools of
 * Anthropic's servers a result without its call before it becomes its name, as in
 * "[web_search left out]", and a call without its result, once a prompt follows: see
 * ms__uses_end, which looks at the list from the window's start. Ids of Responses are
 * left out where the thinking of their answer is.
 *
 * Memory, all in the caller's arena: 256 bytes an item, 112 a group, 112 a name (two for
 * a call, one for a turn_id), 96 a text that is written, a copy of the message if the
 * caller's does not stay valid. Items and groups never move. A failed allocation sets
 * p->no_memory, tested after each message and at the end; then no item joins a group.
 * (PJ1) Each call that is written has one result after it, and each result has its call
 *      before it.
 * (PJ2) Equal input makes equal bytes.
 * (PJ3) Reading the list and projecting it again makes the same bytes.
 * (PJ4) With the same start, one message more changes nothing before the group that it
 *      joins; with thinking, nothing before the running turn.
 * ================================================================================== */

/* ---- Step 1: a message becomes an item. */

/* Returns whether a message is the words or the work of another agent than the reader.
 * The user's messages, contexts and global messages belong to no agent. */
static bool ms__is_anothers(const ms__projector *p, const ms_envelope *m)
{
    ms__class c = (ms__class)ms__type_row_of(m->type)->view_class;
    if (!p->opts.agent_key.ptr || !m->agent_key.ptr || c == MS__CLASS_GLOBAL ||
        ms_str_equal(p->opts.agent_key, m->agent_key))
        return false;
    if (c == MS__CLASS_CONVERSATION || m->type == MS_T_DIRECTOR_CONTEXT ||
        m->type == MS_T_INJECTED_CONTEXT || m->type == MS_T_TEXT)
        return ms__chat_role(m) == MS_ROLE_ASSISTANT;
    return true;
}

/* ---- What only its maker takes back. */

/* Adds message m to the hash `of` an answer, which begins at its first thinking. */
static uint64_t ms__answer_sum(uint64_t sum, const ms_envelope *m)
{
    static const uint64_t key[2] = {0x6d73677374, 0x616e7377};
    sum = ms__hash(key, sum, m->content.text.ptr, m->content.text.len);
    sum = ms__hash(key, sum, m->tool.ptr, m->tool.len);
    sum = ms__hash(key, sum, m->call_id.ptr, m->call_id.len);
    return ms__hash(key, sum, m->args.text.ptr, m->args.text.len);
}

/* Returns a model's name without the prefix of a router. */
static ms_str ms__model_name(ms_str s)
{
    size_t i = s.len;
    while (i > 0 && s.ptr[i - 1] != '/') i--;
    return i > 0 ? ms_str_n(s.ptr + i, s.len - i) : s;
}

/* Returns whether two models are of one family: their names differ at most by a date, a
 * build number, a tag, or "latest". An absent name matches any. */
static bool ms__same_model(ms_str a, ms_str b)
{
    a = ms__model_name(a);
    b = ms__model_name(b);
    ms_str shorter = a.len < b.len ? a : b, longer = a.len < b.len ? b : a, rest;
    if (shorter.len == 0) return true;
    if (!ms__starts_with(longer, shorter)) return false;
    rest = ms_str_n(longer.ptr + shorter.len, longer.len - shorter.len);
    if (rest.len == 0 || ms_str_equal(rest, MS_STR("-latest"))) return true;
    size_t digits = 1, n;
    while (digits < rest.len && ms__is_digit(rest.ptr[digits])) digits++;
    for (n = digits; n < rest.len && (ms__is_digit(rest.ptr[n]) || rest.ptr[n] == '-');)
        n++;
    if ((rest.ptr[0] != '-' && rest.ptr[0] != '@') || digits <= 3) return false;
    if (n < rest.len && rest.ptr[n] == 'v' && rest.ptr[n - 1] == '-')
        while (++n < rest.len && ms__is_digit(rest.ptr[n])) {}
    return n == rest.len || rest.ptr[n] == ':'; /* a version, and a router's tag */
}

/* Returns the member `signed`, if this provider and model signed it, or an absent
 * view. */
static ms_str ms__signed(const ms__projector *p, const ms_envelope *m)
{
    ms_str all, name, model;
    if (!ms_member(m, MS_STR("signed"), &all) ||
        !ms_json_member(all, MS_STR("provider"), &name) || !p->profile->name ||
        !ms_json_string_is(name, ms_str_of(p->profile->name)))
        return ms__absent();
    if (ms_json_member(all, MS_STR("model"), &name) && ms__string_between(name, &model) &&
        !ms__same_model(model, p->opts.model))
        return ms__absent();
    return all;
}

/* Returns whether only the reader's provider takes the blocks of a message: it made them,
 * or its own format's reader has read them. */
static bool ms__is_own(const ms__projector *p, const ms_envelope *m)
{
    if (m->source.len > 0 && p->wire->letter && m->source.ptr[0] == p->wire->letter)
        return true;
    return ms__signed(p, m).ptr != NULL;
}

/* Notes of which response of the server a message is. The first message of a response has
 * what its request had, see [previous]. */
static void ms__response_note(ms__projector *p, const ms_envelope *m)
{
    ms_str all, kept, id;
    ms__response *r = &p->previous;
    p->response = 0;
    if (!p->opts.previous || ms__is_anothers(p, m)) return;
    all = ms__signed(p, m);
    if (!all.ptr || !ms_json_member(all, MS_STR("response"), &kept) ||
        !ms_json_member(kept, MS_STR("id"), &id))
        return;
    uint64_t of = 0;
    if (ms__member_u64(kept, MS_STR("of"), &of)) {
        r->number++;
        r->id = id;
        r->seq = m->seq;
        r->sent.of = of;
        r->sent.read = r->messages = r->sum = r->found = r->sum_found = 0;
        (void)ms__member_u64(kept, MS_STR("read"), &r->sent.read);
        (void)ms__member_u64(kept, MS_STR("messages"), &r->messages);
        (void)ms__member_u64(kept, MS_STR("sum"), &r->sum);
    }
    if (r->number == 0 || !ms_str_equal(id, r->id)) return;
    r->found++;
    r->sum_found = ms__answer_sum(r->sum_found, m);
    p->response = r->number;
}

/* Returns whether a block is left out: it is no object, which no provider takes, or a
 * call of a function, or a result. Those are items, so that each has the other one
 * (PJ1). One with a type in it is the server's. */
static bool ms__block_stays(ms_str block)
{
    static const char *const types[] = {"tool_use", "tool_result", "function_call",
                                        "function_call_output", "function_result"};
    static const char *const members[] = {"functionCall", "functionResponse", "toolUse",
                                          "toolResult"};
    ms_str type, value;
    if (ms_json_kind_of(block) != MS_JSON_OBJECT) return true;
    bool typed = ms_json_member(block, MS_STR("type"), &type);
    for (size_t i = 0; typed && i < sizeof types / sizeof types[0]; i++)
        if (ms_json_string_is(type, ms_str_of(types[i]))) return true;
    for (size_t i = 0; !typed && i < sizeof members / sizeof members[0]; i++)
        if (ms_json_member(block, ms_str_of(members[i]), &value))
            return !ms_json_member(value, MS_STR("type"), &type);
    return false;
}

/* Makes an item of blocks with commas between them; without any it is a blank text. */
static void ms__item_as_blocks(ms__projector *p, ms_str blocks, ms__item *item)
{
    ms_json_iter it;
    ms_buf rest;
    ms_result code = MS_OK;
    uint64_t stay = 0;
    memset(&it, 0, sizeof it);
    memset(&rest, 0, sizeof rest);
    rest.arena = p->arena;
    for (it.rest = blocks; ms_json_next(&it);) stay += ms__block_stays(it.value);
    p->report.raw_left_out += stay;
    for (it.rest = blocks; stay > 0 && ms_json_next(&it);) {
        if (ms__block_stays(it.value)) continue;
        if (rest.len > 0) ms__buf_add(&rest, &code, MS_STR(","));
        ms__buf_add(&rest, &code, it.value);
    }
    if (code != MS_OK) p->no_memory = rest.len + 1;
    item->text = ms_json(stay > 0 ? ms_buf_text(&rest) : blocks);
    if (item->text.text.len > 0) item->kind = MS__ITEM_RAW;
    else item->text = ms_text("");
}

/* Makes an item of a provider's blocks as they are, without calls. For another provider,
 * or model, only the texts among them remain. */
static void ms__item_as_raw(ms__projector *p, const ms_envelope *m, ms__item *item)
{
    ms_str list = m->content.text, member;
    ms_buf texts;
    ms_result code = MS_OK;
    memset(&texts, 0, sizeof texts);
    texts.arena = p->arena;
    bool one = ms_json_kind_of(list) == MS_JSON_OBJECT; /* an item of the Responses API */
    if (ms__has_rule(p->wire, MS__RAW_BLOCKS) && ms__is_own(p, m) &&
        !ms__is_anothers(p, m)) {
        ms__item_as_blocks(p, one ? list : ms__trim(ms_str_n(list.ptr + 1, list.len - 2)),
                           item);
        return;
    }
    p->report.raw_left_out += one;
    if (one) item->text = ms_text("");
    if (one) return;
    for (ms_json_iter it = ms_json_iterate(list); ms_json_next(&it);) {
        const ms__part_form *f = ms__part_form_of(it.value, &member);
        if (f && f->kind == MS__PART_TEXT) {
            if (texts.len > 0) ms__buf_add(&texts, &code, MS_STR("\n\n"));
            ms__buf_add(&texts, &code, ms__decoded(p, member));
        } else {
            p->report.raw_left_out++;
        }
    }
    if (code != MS_OK) p->no_memory = texts.len + 1;
    item->text = ms_text_n(ms_buf_text(&texts));
}

/* Adds a member to those that go back to the maker of an item. */
static void ms__members_add(ms__projector *p, ms__item *item, ms_str name, ms_str value)
{
    ms_str head = ms__concat3(p, item->members, item->members.len ? MS_STR(",\"")
                                                                 : MS_STR("\""), name);
    item->members = ms__concat3(p, head, MS_STR("\":"), value);
}

/* Counts the contents of an item that is not sent as it is: all but texts are lost. */
static void ms__item_leaves(ms__projector *p, ms_str whole)
{
    ms_str contents, member;
    if (!ms_json_member(whole, MS_STR("content"), &contents)) return;
    for (ms_json_iter it = ms_json_iterate(contents); ms_json_next(&it);) {
        const ms__part_form *f = ms__part_form_of(it.value, &member);
        p->report.raw_left_out += !f || f->kind != MS__PART_TEXT;
    }
}

/* Finds the item of a text, a call or thinking as its maker wrote it, if the message is
 * as it was. */
static void ms__item_whole(ms__projector *p, const ms_envelope *m, ms__item *item)
{
    ms_str all = ms__signed(p, m), of, whole = ms__absent();
    uint64_t sum = 0;
    if (!all.ptr) whole = p->whole;
    else if (!ms_json_member(all, MS_STR("item"), &whole)) return;
    if (!whole.ptr) return;
    if (all.ptr && m->type != MS_T_REASONING && ms_json_member(all, MS_STR("of"), &of) &&
        ms_json_u64(of, &sum) == MS_OK && sum != ms__answer_sum(0, m))
        return;
    item->raw = whole;
    item->id_needed = m->type == MS_T_REASONING;
    for (size_t i = 0; i < sizeof ms__item_types / sizeof ms__item_types[0]; i++) {
        const struct ms__item_type *t = &ms__item_types[i];
        if (ms_json_member(whole, MS_STR("type"), &of) &&
            ms_json_string_is(of, ms_str_of(t->call)))
            item->reply = t->reply, item->id_needed = strstr(t->reply, "\"id\"") != NULL;
    }
}

/* Finds the members of a text or a call that only its maker takes, if the message is as
 * it was. */
static void ms__item_members(ms__projector *p, const ms_envelope *m, ms__item *item)
{
    ms_str all, of, members, value;
    uint64_t sum = 0;
    bool made = ms_member(m, MS_STR("signed"), &all);
    bool has = made && ms_json_member(all, MS_STR("members"), &members) &&
               ms_json_kind_of(members) == MS_JSON_OBJECT;
    if (made && m->type != MS_T_REASONING && !ms__signed(p, m).ptr &&
        ms_json_member(all, MS_STR("item"), &value))
        ms__item_leaves(p, value);
    item->cited = (has && ms_json_member(members, MS_STR("citations"), &value)) ||
                  ms_member(m, MS_STR("citations"), &value);
    const char *kept = p->wire->kept;
    if (ms__has_rule(p->wire, MS__ITEMS)) {
        ms__item_whole(p, m, item);
        return;
    }
    if (has) {
        bool checked = m->type != MS_T_REASONING &&
                       ms_json_member(all, MS_STR("of"), &of) &&
                       ms_json_u64(of, &sum) == MS_OK;
        if (ms__signed(p, m).ptr && (!checked || sum == ms__answer_sum(0, m)))
            item->members = ms__trim(ms_str_n(members.ptr + 1, members.len - 2));
        return;
    }
    if (!kept || !m->source.len || m->source.ptr[0] != p->wire->letter) return;
    for (size_t len; *kept; kept += len + (kept[len] == ' ')) {
        len = strcspn(kept, " ");
        ms_str name = ms_str_n(kept, len);
        if (ms_member(m, name, &value) && ms_json_kind_of(value) != MS_JSON_NULL)
            ms__members_add(p, item, name, value);
    }
}

/* Returns whether a block is a call of a tool of Anthropic's servers. */
static bool ms__is_use(ms_str block)
{
    ms_str type;
    return ms_json_member(block, MS_STR("type"), &type) &&
           (ms_json_string_is(type, MS_STR("server_tool_use")) ||
            ms_json_string_is(type, MS_STR("mcp_tool_use")));
}

/* Returns whether a message has blocks that are no parts of a text. In a text of the
 * assistant a list is data, unless a tool of Anthropic's servers is called in it. */
static bool ms__is_raw(const ms_envelope *m)
{
    ms_str member;
    if (m->type != MS_T_MULTIMODAL_PART) {
        bool text = ms__chat_role(m) == MS_ROLE_ASSISTANT && m->type != MS_T_ACTION &&
                    ms__value_is(m->content, MS_JSON_ARRAY);
        ms_json_iter it = ms_json_iterate(text ? m->content.text : ms__absent());
        while (ms_json_next(&it))
            if (ms__is_use(it.value)) return true;
        return false;
    }
    if (m->role != MS_ROLE_ASSISTANT) return false;
    if (ms__value_is(m->content, MS_JSON_OBJECT))
        return !ms__part_form_of(m->content.text, &member);
    if (!ms__value_is(m->content, MS_JSON_ARRAY)) return false;
    if (ms_member(m, MS_STR("signed"), &member)) return true;
    for (ms_json_iter it = ms_json_iterate(m->content.text); ms_json_next(&it);)
        if (ms_json_kind_of(it.value) != MS_JSON_STRING &&
            !ms__part_form_of(it.value, &member))
            return true;
    return false;
}

/* ---- Items of each type. */

/* Sets the text of an item whose content is JSON, and its parts if it has files. */
static void ms__item_as_json(ms__projector *p, const ms_envelope *m, ms__item *item)
{
    ms_str json = m->content.text, first;
    bool result = ms__is_answer(m);
    ms_role role = ms__chat_role(m);
    ms_json_kind kind = ms_json_kind_of(json);
    if (ms__parts_read(p, json, !result, &item->parts)) {
        bool anothers = ms__is_anothers(p, m);
        bool taken = result ? ms__has_rule(p->wire, MS__RESULT_PICTURES)
                            : role == MS_ROLE_USER || role == MS_ROLE_OTHER;
        if (!item->parts) item->text.text = MS_STR("");
        bool files = ms__has_files(item->parts);
        if (files && (anothers || result)) ms__item_divide(p, item, anothers);
        else if (!taken || !files) ms__item_flatten(p, item);
    } else if (kind == MS_JSON_STRING) {
        item->text.text = ms__decoded(p, json);
    } else if (kind == MS_JSON_NULL ||
               (m->type == MS_T_MULTIMODAL_PART && m->role == MS_ROLE_ASSISTANT) ||
               (kind == MS_JSON_ARRAY && !ms_json_element(json, 0, &first))) {
        item->text.text = MS_STR("");
    } else {
        item->text.json = result && ms__has_rule(p->wire, MS__RESULT_JSON);
    }
}

/* Makes user text of another agent's work: "[worker] search {"q": 1}". The text beside a
 * call or a delegation precedes it, as a text of its own. */
static void ms__item_as_anothers(ms__projector *p, const ms_envelope *m, ms__item *item)
{
    bool call = m->type == MS_T_ACTION, delegation = m->type == MS_T_DELEGATION;
    ms_str who = ms__concat3(p, MS_STR("["), m->agent_key, MS_STR("] ")), begin = who;
    ms_str beside = ms__absent(), *text = &item->text.text;
    if (call && m->content.json) ms__item_as_json(p, m, item);
    ms__item_flatten(p, item);
    if ((call || delegation) && !ms__is_blank(*text)) beside = *text;
    if (call || delegation) *text = call ? m->args.text : m->task;
    if (!call && !beside.ptr && ms__is_blank(*text)) return;
    item->kind = MS__ITEM_USER;
    item->aside = true;
    p->report.wrapped++;
    if (call) begin = ms__concat3(p, who, m->tool, MS_STR(" "));
    if (delegation) begin = ms__concat3(p, who, m->worker, MS_STR(": "));
    if (m->type == MS_T_ERROR)
        begin = ms__concat3(p, who, MS_STR("Error: "), ms__absent());
    *text = ms__concat3(p, begin, *text, ms__absent());
    if (beside.ptr) begin = ms__concat3(p, who, beside, MS_STR("\n\n"));
    if (beside.ptr) *text = ms__concat3(p, begin, *text, ms__absent());
    ms__item_show(p, item);
}

/* Returns the name of a tool, truncated to the profile's limit. Each character other than
 * A-Z a-z 0-9 _ - becomes one '_'. */
static ms_str ms__tool_named(ms__projector *p, ms_str name)
{
    size_t most = p->profile->name_max ? p->profile->name_max : SIZE_MAX, i = 0, n = 0;
    if (!name.len) return MS_STR("unknown_tool");
    while (i < name.len && ms__is_word_char(name.ptr[i])) i++;
    if (i == name.len && i <= most) return name;
    char *text = (char *)ms__project_alloc(p, name.len);
    p->report.renamed++;
    if (!text) return name;
    for (i = 0; i < name.len && n < most; n++) {
        char c = name.ptr[i];
        (void)ms__code_point(name, &i);
        text[n] = ms__is_word_char(c) ? c : '_';
    }
    return ms_str_n(text, n);
}

/* Sets the arguments of a call, always an object: vLLM, SGLang, LiteLLM and LangChain
 * parse those of old calls, and one truncated call would end the conversation. */
static void ms__item_as_call(ms__projector *p, const ms_envelope *m, ms__item *item)
{
    item->kind = MS__ITEM_CALL;
    item->tool = ms__tool_named(p, m->tool);
    item->named = m->tool;
    item->turn = m->turn_id;
    item->text = m->args;
    ms__item_members(p, m, item);
    ms_str kind;
    item->custom = p->wire->custom &&
                   ms_json_member(ms__signed(p, m), MS_STR("kind"), &kind) &&
                   ms_json_string_is(kind, MS_STR("custom"));
    if (!item->custom && (ms__is_blank(m->args.text) ||
                          ms_str_equal(ms__trim(m->args.text), MS_STR("null"))))
        item->text = ms_json(MS_STR("{}"));
    if (ms__value_is(item->text, MS_JSON_OBJECT) || item->custom) return;
    p->report.wrapped++;
    if (ms__has_rule(p->wire, MS__ARGS_ANY)) return; /* its reader does it */
    ms_json_writer w;
    ms_buf buf;
    ms__json_to(&w, &buf, p->arena);
    ms__args_object(&w, item->text);
    if (ms_json_finish(&w) != MS_OK) p->no_memory = item->text.text.len + 1;
    item->text = ms_json(ms_buf_text(&buf));
}

static void ms__item_as_delegation(ms__projector *p, const ms_envelope *m, ms__item *item)
{
    ms_json_writer w;
    ms_buf buf;
    ms__json_to(&w, &buf, p->arena);
    ms_json_begin(&w, MS_JSON_OBJECT);
    ms_json_key(&w, MS_STR("worker"));
    ms_json_put_string(&w, m->worker);
    ms_json_key(&w, MS_STR("task"));
    ms_json_put_string(&w, m->task);
    ms_json_end(&w);
    if (ms_json_finish(&w) != MS_OK) p->no_memory = m->task.len + 1;
    item->kind = MS__ITEM_CALL;
    item->delegation = true;
    item->parts = NULL;
    item->tool = item->named = MS_STR("delegate");
    item->text = ms_json(ms_buf_text(&buf));
    item->turn = m->turn_id;
}

static void ms__item_as_sourced(ms__projector *p, const ms_envelope *m, ms__item *item)
{
    ms_str source = m->from_manager.ptr ? m->from_manager : m->from_worker;
    ms_str *text = &item->text.text;
    bool own = m->type == MS_T_SYNTHESIS && p->opts.agent_key.ptr &&
               (ms_str_equal(p->opts.agent_key, m->agent_key) ||
                ms_str_equal(p->opts.agent_key, source));
    item->kind = own ? MS__ITEM_ASSISTANT : MS__ITEM_USER;
    item->aside = !own;
    ms__item_flatten(p, item);
    if (m->type == MS_T_GLOBAL_OBSERVATION && m->summary.ptr) *text = m->summary;
    if (own && p->profile->trim) *text = ms__trim_end(*text);
    if (own || !source.len || ms__is_blank(*text)) return;
    source = ms__concat3(p, MS_STR("["), source, MS_STR("] "));
    *text = ms__concat3(p, source, *text, ms__absent());
}

/* Makes user text of system text. */
static void ms__system_wrap(ms__projector *p, ms__item *item)
{
    ms_str *text = &item->text.text;
    item->kind = MS__ITEM_USER;
    p->report.wrapped++;
    *text = ms__concat3(p, MS_STR("<context>\n"), *text, MS_STR("\n</context>"));
}

/* Makes system text, or user text where the profile allows no system text. */
static void ms__item_as_system(ms__projector *p, ms__item *item)
{
    ms_str text = item->text.text;
    item->kind = MS__ITEM_SYSTEM;
    if (p->pinned == p->last || p->profile->system == MS_SYSTEM_ANYWHERE ||
        p->profile->system == MS_SYSTEM_INSIDE || ms__is_blank(text))
        return;
    ms__system_wrap(p, item);
}

/* Makes text of the assistant, shortened on request. */
static void ms__item_as_assistant(ms__projector *p, const ms_envelope *m, ms__item *item)
{
    item->kind = MS__ITEM_ASSISTANT;
    item->final = m->type == MS_T_FINAL;
    ms__item_members(p, m, item);
    if (p->opts.shorten) {
        size_t len = p->key ? p->opts.key(p->opts.key_ctx, m, p->key) : 0;
        item->text.text = ms__shorter(p, item->text.text, ms_str_n(p->key, len));
    }
    size_t len = item->text.text.len;
    if (len != m->content.text.len && !m->content.json)
        item->members = item->raw = ms__absent(); /* they are of the text as it was */
    if (p->profile->trim) item->text.text = ms__trim_end(item->text.text);
    item->trimmed = len - item->text.text.len;
}

static void ms__item_as_result(ms__projector *p, const ms_envelope *m, ms__item *item)
{
    item->kind = MS__ITEM_RESULT;
    item->failed = m->type == MS_T_ERROR;
    if (!ms__has_rule(p->wire, MS__RESULT_OUTCOME)) return;
    ms_str outcome = ms__string_of(m, ms__absent(), "outcome");
    if (item->failed) item->beside = MS_STR("\"failed\"");
    else if (ms_json_string_is(outcome, MS_STR("success")) ||
             ms_json_string_is(outcome, MS_STR("denied")) ||
             ms_json_string_is(outcome, MS_STR("interrupted")))
        item->beside = outcome;
}

static ms__item *ms__item_new(ms__projector *p, const ms_envelope *m, ms__item_kind kind)
{
    ms__item *item = (ms__item *)ms__project_alloc(p, sizeof *item);
    if (!item) return NULL;
    item->kind = kind;
    item->seq = m->seq;
    item->read = p->report.read;
    item->response = p->response;
    item->runtime = p->runtime;
    item->joined = (m->flags & MS_FLAG_JOINED) != 0;
    item->unfinished = (m->flags & MS_FLAG_UNFINISHED) != 0;
    return item;
}

/* Returns the item of a message; NULL: no memory. */
static ms__item *ms__item_of(ms__projector *p, const ms_envelope *m)
{
    ms_role role = ms__chat_role(m);
    ms__item *item = ms__item_new(p, m, MS__ITEM_NONE);
    if (!item || m->type == MS_T_DELTA || m->type == MS_T_APPROVAL_REQUIRED ||
        m->type == MS_T_REASONING)
        return item;
    if (m->type == MS_T_MULTIMODAL_PART && role == MS_ROLE_ASSISTANT &&
        !m->content.json && (m->flags & MS_FLAG_UNFINISHED)) {
        p->report.raw_left_out++; /* a block whose answer was cut off is no text */
        return item;
    }
    item->text.text = m->content.text;
    if (ms__is_raw(m)) ms__item_as_raw(p, m, item);
    else if (m->content.json && m->type != MS_T_ACTION) ms__item_as_json(p, m, item);
    if (item->kind == MS__ITEM_RAW) return item;
    if (ms__is_anothers(p, m)) ms__item_as_anothers(p, m, item);
    else if (m->type == MS_T_ACTION) ms__item_as_call(p, m, item);
    else if (m->type == MS_T_DELEGATION) ms__item_as_delegation(p, m, item);
    else if (ms__is_answer(m)) ms__item_as_result(p, m, item);
    else if (m->type == MS_T_SYNTHESIS || m->type == MS_T_GLOBAL_OBSERVATION)
        ms__item_as_sourced(p, m, item);
    else if (role == MS_ROLE_SYSTEM || role == MS_ROLE_DEVELOPER)
        ms__item_as_system(p, item);
    else if (role == MS_ROLE_ASSISTANT) ms__item_as_assistant(p, m, item);
    else item->kind = MS__ITEM_USER;
    if (item->kind < MS__ITEM_THOUGHT && ms__is_blank(item->text.text) && !item->raw.ptr)
        item->kind = MS__ITEM_NONE;
    return item;
}

/* ---- Thinking. */

/* Returns the thinking of a message that this provider accepts, with its signature or the
 * data of redacted thinking, which has no text. In chat completions it may be in the
 * message with the text. NULL: no such thinking. */
static ms__item *ms__thought_of(ms__projector *p, const ms_envelope *m)
{
    if (ms__is_anothers(p, m)) return NULL;
    const ms__wire *wire = p->wire;
    ms_str all = ms__signed(p, m), beside = ms__absent();
    if (wire->thinking && ms__chat_role(m) == MS_ROLE_ASSISTANT)
        beside = ms__string_of(m, beside, wire->thinking);
    if (!beside.ptr && (m->type != MS_T_REASONING || !ms__is_own(p, m) ||
                        !wire->thought || (m->flags & MS_FLAG_UNFINISHED)))
        return NULL;
    ms__item *item = ms__item_new(p, m, MS__ITEM_THOUGHT);
    if (!item) return NULL;
    if (beside.ptr) {
        item->text.text = ms__decoded(p, beside);
        return item;
    }
    item->text = m->content;
    ms__item_members(p, m, item);
    item->beside = item->raw.ptr ? item->raw : ms__string_of(m, all, "data");
    item->redacted = item->beside.ptr && !item->raw.ptr;
    if (item->redacted && !wire->redacted) return NULL;
    if (!item->beside.ptr)
        item->beside = ms__string_of(m, all, all.ptr ? "signature" : wire->signature);
    return !ms__has_rule(wire, MS__THOUGHT_SIGNED) || item->beside.ptr ? item : NULL;
}

/* Returns whether a message was edited after the model had read it. The end of a stream
 * amends it, too: an answer's own messages are checked by their hash. */
static bool ms__is_edited(const ms_envelope *m)
{
    if (m->flags & MS_FLAG_REDACTED) return true;
    return (m->flags & MS_FLAG_AMENDED) && ms__chat_role(m) != MS_ROLE_ASSISTANT;
}

/* Adds message m to the hash of its answer, if that has thinking. */
static void ms__thinking_check_add(ms__projector *p, const ms_envelope *m,
                                   ms__item *thought)
{
    ms_str of;
    if (!p->answer) return;
    ms__thinking_check *check = p->answer->thinking_check;
    if (thought && !check) {
        check = (ms__thinking_check *)ms__project_alloc(p, sizeof *check);
        if (!check) return;
        check->has_of = ms_json_member(ms__signed(p, m), MS_STR("of"), &of) &&
                        ms_json_u64(of, &check->of) == MS_OK;
        p->answer->thinking_check = check;
    }
    if (thought) thought->thinking_check = check;
    if (!check) return;
    check->sum = ms__answer_sum(check->sum, m);
    if (m->flags & (MS_FLAG_AMENDED | MS_FLAG_REDACTED)) check->edited = true;
}

/* Returns whether the answer of thinking is unaltered, and what it is bound to. */
static bool ms__thought_holds(const ms__item *thought)
{
    const ms__thinking_check *s = thought->thinking_check;
    return s && !s->late && (s->has_of ? s->of == s->sum : !s->edited);
}

/* ---- Step 4: ids. */

static bool ms__id_char(const ms_profile *profile, char c)
{
    if (profile->ids == MS_IDS_ANY) return true;
    if (c == '.' || c == ':') return profile->ids == MS_IDS_DOTTED;
    return ms__is_word_char(c) &&
           (profile->ids != MS_IDS_ALNUM || (c != '_' && c != '-'));
}

static bool ms__id_fits(const ms_profile *profile, ms_str id)
{
    if (id.len == 0 || id.len < profile->id_min) return false;
    if (profile->id_max != 0 && id.len > profile->id_max) return false;
    for (size_t i = 0; i < id.len; i++)
        if (!ms__id_char(profile, id.ptr[i])) return false;
    return ms_utf8_check(id, NULL);
}

#define MS__ID_TAIL 32 /* most bytes by which a derived id is longer than its origin */

/* Writes to text the n-th id derived from one that does not fit or is used (n 0: the
 * first): as much of it as fits, then a part that makes it different. */
static ms_str ms__id_derive(const ms__projector *p, ms_str id, uint32_t n, char *text)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    static const uint64_t key[2] = {0x6d73677374, 0x6f72652e68};
    bool alnum = p->profile->ids == MS_IDS_ALNUM, fits = ms__id_fits(p->profile, id);
    char tail[MS__ID_TAIL];
    size_t tail_len = 0, len = 0, least = p->profile->id_min;
    size_t max = p->profile->id_max ? p->profile->id_max : SIZE_MAX;
    if (!alnum) tail[tail_len++] = '_';
    if (fits && n > 0 && !alnum && id.len < max - 11) { /* append a number */
        tail_len += ms__u64_write((uint64_t)n + 1, tail + tail_len);
    } else {
        uint64_t hash = ms__hash(key, n, id.ptr, id.len);
        size_t want = ms__min(ms__min(least > 9 ? least : 9, 24), max);
        while (tail_len < want) {
            uint64_t digit = hash % 36;
            tail[tail_len++] = digits[digit];
            /* a used digit goes back in at the top: 64 bits have only 12 of them */
            hash = hash / 36 + (digit << 57);
        }
    }
    size_t room = max == SIZE_MAX ? id.len : max - tail_len;
    for (size_t i = 0; i < id.len && len < room; i++) {
        bool stays = ms__id_char(p->profile, id.ptr[i]) &&
                     (unsigned char)id.ptr[i] < 0x80;
        text[len++] = stays ? id.ptr[i] : alnum ? 'x' : '_';
    }
    memcpy(text + len, tail, tail_len);
    return ms_str_n(text, len + tail_len);
}

/* Returns the id of a call in the request: its own, or the first derived one that is
 * free. */
static ms_str ms__id_give(ms__projector *p, ms_str own)
{
    bool fits = ms__id_fits(p->profile, own);
    ms__name *from = ms__name_of(p, MS__NAME_ID, own, ms__absent(), true), *made = from;
    ms_str id = own;
    if (fits && !from->taken) {
        from->taken = true;
        return own;
    }
    char *text = (char *)ms__project_alloc(p, own.len + MS__ID_TAIL);
    if (!text) return own;
    p->report.renamed++;
    if (fits && from->tries == 0) from->tries = 1;
    do {
        id = ms__id_derive(p, own, from->tries++, text);
        made = ms__name_of(p, MS__NAME_ID, id, ms__absent(), true);
    } while (made->taken);
    made->taken = true;
    return id;
}

/* Returns the id of a call; if absent, one made from its sequence number, in a union that
 * of its store, or from its place. */
static ms_str ms__id_own(ms__projector *p, const ms_envelope *m)
{
    char id[MS__OWN_ID];
    if (m->call_id.len > 0) return m->call_id;
    return ms__concat3(p, ms__own_id(m->seq ? MS_UNION_SEQ(m->seq) : p->report.read, id),
                       ms__absent(), ms__absent());
}

/* ---- Step 3: groups. */

static uint64_t ms__text_cost(const ms__projector *p, ms_value text)
{
    if (p->opts.count) return p->opts.count(p->opts.count_ctx, text);
    return 4 + ms_count_tokens(NULL, text);
}

#define MS__PICTURE 1000 /* tokens; providers count 85 to 1,600 */

/* Returns an estimate of a file's tokens. Of a document and a sound only the size of the
 * data is known: a page may have 100 KB and 2,000 tokens, a second 16 KB and 32. */
static uint64_t ms__file_cost(const ms__element *x)
{
    uint64_t len = x->by == 'd' ? x->value.len : 0;
    if (x->by == 't') return ms_count_tokens(NULL, ms_text_n(x->value));
    if (x->kind == MS__FILE_PICTURE) return MS__PICTURE;
    return MS__PICTURE + len / (x->kind == MS__FILE_SOUND ? 512 : 64);
}

static uint64_t ms__item_cost(const ms__projector *p, const ms__item *item)
{
    uint64_t cost = 4;
    if (item->parts && !p->opts.count) {
        for (const ms__element *x = item->parts; x; x = x->next)
            cost += x->text.ptr ? ms_count_tokens(NULL, ms_text_n(x->text))
                                : ms__file_cost(x);
    } else {
        cost = ms__text_cost(p, item->text);
    }
    for (const ms__element *x = item->files; x && !p->opts.count; x = x->next)
        cost += ms__file_cost(x);
    if (!item->tool.len) return cost;
    return cost + ms__text_cost(p, ms_text_n(item->tool)) - (p->opts.count ? 0 : 4);
}

/* Adds the counts of an item to its group. */
static void ms__item_count(ms__projector *p, ms__group *g, ms__item *item)
{
    uint64_t cost = ms__item_cost(p, item), n = !item->part;
    item->group = g;
    g->count += n;
    g->cost += cost;
    if (p->pinned == p->last) {
        p->system_cost += cost;
        return;
    }
    p->cost += cost;
    p->count += n;
}

/* Begins a group of that kind after the last; NULL: no memory. */
static ms__group *ms__group_new(ms__projector *p, ms__item_kind kind, ms_str agent)
{
    ms__group *g = (ms__group *)ms__project_alloc(p, sizeof *g);
    if (!g) return NULL;
    if (kind == MS__ITEM_ASSISTANT)
        ms__name_of(p, MS__NAME_AGENT, agent, ms__absent(), true)->turn = g;
    g->kind = kind;
    g->agent = agent;
    g->number = p->n_groups++;
    g->before = p->last;
    if (kind == MS__ITEM_SYSTEM && p->pinned == p->last) p->pinned = g;
    if (p->last) p->last->next = g;
    else p->first = g;
    return p->last = g;
}

/* Returns whether a message has the number of an answer's first message. */
static bool ms__names_answer(const ms_envelope *m, const ms__name *answer)
{
    ms_str member;
    uint64_t seq;
    return m->extra.ptr && ms_json_member(m->extra, MS_STR("answer"), &member) &&
           ms_json_u64(member, &seq) == MS_OK && seq == answer->seq;
}

/* Finds the answer to which message m belongs, or begins one. Messages of a user, the
 * system or a tool belong to none. The answer of a JOINED message may be one whose first
 * message the history does not have. */
static void ms__answer_find(ms__projector *p, const ms_envelope *m)
{
    ms__name *before = p->answer; /* of the message before */
    bool tells = m->type == MS_T_SYNTHESIS && m->agent_key.ptr; /* no broadcast */
    p->answer = NULL;
    if (ms__chat_role(m) != MS_ROLE_ASSISTANT && !tells) return;
    ms__name *answer = ms__name_of(p, MS__NAME_ANSWER, m->agent_key, m->turn_id, true);
    p->answer = answer;
    bool joined = (m->flags & MS_FLAG_JOINED) != 0;
    if (joined && ms__names_answer(m, answer)) return;
    if (joined && before && before != answer &&
        (!before->first.ptr || !m->agent_key.ptr)) { /* in transcripts texts have none */
        answer->turn = NULL;
        answer->thinking_check = before->thinking_check;
        return;
    }
    if (joined && (!answer->turn || (!answer->turn->has_results &&
                                     answer->turn->number >= p->asked)))
        return;
    answer->turn = NULL;
    answer->thinking_check = NULL;
    answer->unthought = false;
    answer->seq = m->seq;
}

/* Leaves a block of a server's tool out: its name stands there. */
static void ms__use_name(ms__projector *p, ms__item *item, ms_str block)
{
    ms_str name;
    if (!ms_json_member(block, MS_STR("name"), &name) &&
        !ms_json_member(block, MS_STR("type"), &name))
        name = MS_STR("\"tool\"");
    item->kind = MS__ITEM_ASSISTANT;
    item->text = ms_text_n(ms__concat3(p, MS_STR("["), ms__decoded(p, name),
                                       MS_STR(" left out]")));
    p->report.raw_left_out++;
}

/* Notes the calls of Anthropic's server tools in an item, and which of them have results.
 * A result whose call is not in the list before it is left out: it would be refused. */
static void ms__use_note(ms__projector *p, ms__item *item)
{
    ms_json_iter it;
    ms_str id, lone = ms__absent();
    size_t n = 0;
    bool some = false;
    memset(&it, 0, sizeof it);
    for (it.rest = item->text.text; ms_json_next(&it); n++) {
        bool use = ms__is_use(it.value);
        if (!ms_json_member(it.value, use ? MS_STR("id") : MS_STR("tool_use_id"), &id))
            continue;
        ms__name *name = ms__name_of(p, MS__NAME_USE, id, ms__absent(), use);
        if (use) name->call = item, some = true;
        else if (name && name->call) name->call->answered = true;
        else lone = it.value;
    }
    if (n == 1 && lone.ptr) ms__use_name(p, item, lone);
    if (!some || n > 1) return;
    item->before[0] = p->uses;
    p->uses = item;
}

/* Of the list from `start` on, names the calls of a server's tool whose result is not
 * there, if a prompt follows them, and the results whose call is not there. */
static void ms__uses_end(ms__projector *p, ms__group *start)
{
    const ms__group *prompt = p->last;
    for (ms__group *g = start; g; g = g->next)
        for (ms__item *item = g->first; item; item = item->next)
            if (item->kind == MS__ITEM_RAW) ms__use_note(p, item);
    while (prompt && prompt->kind != MS__ITEM_USER) prompt = prompt->before;
    for (ms__item *item = p->uses; prompt && item; item = item->before[0])
        if (!item->answered && item->group->number <= prompt->number)
            ms__use_name(p, item, item->text.text);
}

/* Adds an item to its turn, or to a group of its own. */
static void ms__item_put(ms__projector *p, ms__item *item, ms_str agent)
{
    bool turn = item->kind >= MS__ITEM_ASSISTANT;
    ms__group *g = p->last;
    item->lacks = turn && p->answer && p->answer->unthought;
    if (turn && p->answer && p->answer->turn) g = p->answer->turn;
    else if (!turn || !g || g->kind != MS__ITEM_ASSISTANT || g->has_results ||
             (g->last->unfinished && g->last->kind == MS__ITEM_ASSISTANT &&
              !item->joined) || g->number < p->apart ||
             !ms_str_equal(g->agent, agent))
        g = ms__group_new(p, turn ? MS__ITEM_ASSISTANT : item->kind,
                          turn ? agent : ms__absent());
    if (turn && p->answer) p->answer->turn = g;
    if (!turn && !item->aside) p->asked = p->n_groups;
    if (p->no_memory) return;
    ms__item *before = g->last;
    item->glued = before && item->joined && before->kind == MS__ITEM_ASSISTANT &&
                  item->kind == MS__ITEM_ASSISTANT && (before->cited || item->cited);
    if (item->glued) before->text.text.len += before->trimmed;
    if (before) before->next = item;
    else g->first = item;
    g->last = item;
    ms__item_count(p, g, item);
    if (item->kind != MS__ITEM_CALL) return;
    g->has_calls = true;
    if (!g->oldest) g->oldest = item;
}

/* Ends a pending question: it is sent if the next message is the user's text, else
 * never. */
static void ms__question_end(ms__projector *p, const ms_envelope *m)
{
    ms__item *question = p->question;
    if (!question) return;
    p->question = NULL;
    if (ms__chat_role(m) == MS_ROLE_USER && !ms__is_anothers(p, m))
        ms__item_put(p, question, p->question_agent);
    else p->report.dropped++;
}

/* Puts an item of message m, which ends a question. */
static void ms__item_join(ms__projector *p, const ms_envelope *m, ms__item *item)
{
    ms__question_end(p, m);
    ms__item_put(p, item, m->agent_key);
    p->added = item;
}

/* ---- Step 2: pairs. */

/* Returns the nearest call of a name without a result, of several in one turn the oldest
 * that was not interrupted, since none of those was run; or NULL. any: calls of any
 * agent. */
static ms__item *ms__call_open(ms__name *name, bool any)
{
    ms__item *call = name->call;
    while (call->result && call->before[any]) call = call->before[any];
    name->call = call; /* later ones have their final result */
    if (call->result) return NULL;
    ms__item *at = call->before[any];
    for (unsigned n = 0; at && n < MS__LOOK_AT; n++, at = at->before[any]) {
        if (at->result || at->group != call->group) break;
        if (!at->unfinished || call->unfinished) call = at;
    }
    return call;
}

/* Returns the open call that a result answers by its id, or NULL. *known: there is such a
 * call, with or without a result. */
static ms__item *ms__call_by_id(ms__projector *p, const ms_envelope *m, bool *known)
{
    ms__name *name = ms__name_of(p, MS__NAME_CALL, m->call_id, m->agent_key, false);
    ms__item *call = name ? ms__call_open(name, false) : NULL;
    *known = name != NULL;
    if (call || m->agent_key.ptr) return call;
    name = ms__name_of(p, MS__NAME_ID, m->call_id, ms__absent(), false);
    if (!name || !name->call) return NULL;
    *known = true;
    return ms__call_open(name, true);
}

/* Returns whether a result can answer a call: the call is open, and of the result's tool
 * and turn if the result has them. */
static bool ms__call_fits(const ms_envelope *m, const ms__item *call)
{
    if (call->kind != MS__ITEM_CALL || call->result) return false;
    if (m->tool.len > 0 && !ms_str_equal(m->tool, call->named)) return false;
    return !m->turn_id.ptr || !call->turn.ptr || ms_str_equal(m->turn_id, call->turn);
}

/* Returns the oldest call without a result in the agent's newest turn that fits, or
 * NULL. */
static ms__item *ms__call_by_place(ms__projector *p, const ms_envelope *m)
{
    ms__name *agent = ms__name_of(p, MS__NAME_AGENT, m->agent_key, ms__absent(), false);
    if (!agent) return NULL;
    ms__item **oldest = &agent->turn->oldest, *call;
    while (*oldest && ((*oldest)->kind != MS__ITEM_CALL || (*oldest)->result))
        *oldest = (*oldest)->next; /* it has its final result */
    call = *oldest;
    for (unsigned looked = 0; call && looked < MS__LOOK_AT; looked++, call = call->next)
        if (ms__call_fits(m, call)) return call;
    return NULL;
}

/* Adds a call, and links it under its own id after earlier calls. */
static void ms__call_add(ms__projector *p, const ms_envelope *m, ms__item *call)
{
    ms_str own = ms__id_own(p, m), from = ms__signed(p, m);
    if (ms__has_rule(p->wire, MS__CALL_SIGNED))
        call->beside =
            ms__string_of(m, from, from.ptr ? "signature" : p->wire->signature);
    call->id = ms__id_give(p, own);
    if (call->raw.ptr && !ms_str_equal(call->id, m->call_id)) {
        call->raw = ms__absent(); /* it has its own id */
        call->reply = NULL;
    }
    ms_str id;
    if (call->raw.ptr && ms_json_member(call->raw, MS_STR("id"), &id) &&
        ms_json_string_is(id, call->id))
        call->id_needed = true; /* its result names that */
    if (call->custom && ms__has_rule(p->wire, MS__ITEMS)) /* also one that is renamed */
        call->reply = ms__item_types[0].reply;
    ms__name *name = ms__name_of(p, MS__NAME_CALL, own, m->agent_key, true);
    call->before[0] = name->call;
    name->call = call;
    name = ms__name_of(p, MS__NAME_ID, own, ms__absent(), true);
    call->before[1] = name->call;
    name->call = call;
    ms__item_join(p, m, call);
}

/* Adds an observation without a call, as user text. */
static void ms__observed_add(ms__projector *p, const ms_envelope *m, ms__item *item)
{
    if (ms__has_files(item->parts)) ms__item_divide(p, item, true);
    ms__item_flatten(p, item);
    if (ms__is_blank(item->text.text)) {
        p->report.dropped++;
        return;
    }
    item->kind = MS__ITEM_USER;
    p->report.wrapped++;
    item->text.text = ms__concat3(p, ms__answer_prefix(m), item->text.text, ms__absent());
    ms__item_show(p, item);
    ms__item_join(p, m, item);
}

/* Adds a result to its call. */
static void ms__result_add(ms__projector *p, const ms_envelope *m, ms__item *item)
{
    bool known = false;
    ms__item *call = m->call_id.len > 0 ? ms__call_by_id(p, m, &known)
                                        : ms__call_by_place(p, m);
    bool object = item->text.json && ms_json_kind_of(item->text.text) == MS_JSON_OBJECT;
    bool brings = !call && !known && m->args.text.ptr;
    if (ms__has_rule(p->wire, MS__RESULT_OBJECT) && !object) p->report.wrapped++;
    if (!call && !brings && m->call_id.len == 0) {
        ms__observed_add(p, m, item);
        return;
    }
    if (!call && !brings) {
        p->report.dropped++;
        p->report.duplicates += known;
        p->report.orphans += !known;
        return;
    }
    ms__question_end(p, m);
    if (brings) call = ms__item_new(p, m, MS__ITEM_CALL);
    if (brings && call) {
        ms__item_as_call(p, m, call);
        ms__call_add(p, m, call);
    }
    if (p->no_memory) return;
    call->result = item;
    call->group->has_results = true;
    item->part = brings;
    ms__item_count(p, call->group, item);
}

/* ---- Adding a message. */

/* Returns whether a final only repeats the text before it, or a text the final before it.
 * Two agents may say the same. */
static bool ms__repeats(const ms__projector *p, const ms_envelope *m,
                        const ms__item *item)
{
    if (item->kind != MS__ITEM_ASSISTANT || !p->last || p->last->has_results)
        return false;
    ms_str before = p->last->agent;
    if (before.ptr && m->agent_key.ptr && !ms_str_equal(before, m->agent_key))
        return false;
    const ms__item *last = p->last->last;
    return last->kind == MS__ITEM_ASSISTANT && (item->final || last->final) &&
           ms_str_equal(last->text.text, item->text.text);
}

/* Adds the text beside a call to its turn. */
static void ms__beside_add(ms__projector *p, const ms_envelope *m, ms__item *call)
{
    ms_envelope text = ms_assistant_message(m->content);
    if (m->content.text.len == 0) return;
    text.seq = m->seq;
    text.flags = m->flags & MS_FLAG_JOINED;
    ms__item *item = ms__item_of(p, &text);
    if (!item || item->kind == MS__ITEM_NONE) return;
    item->part = call->part;
    call->part = true;
    ms__item_join(p, m, item);
}

/* Reads two members of the openai format: a refusal becomes the text, the deprecated
 * function_call a call. */
static void ms__members_read(ms__projector *p, ms_envelope *m)
{
    ms_str call;
    if (m->type != MS_T_ASSISTANT_MESSAGE || (!m->extra.ptr && !m->source.ptr)) return;
    if (m->content.json && ms_json_kind_of(m->content.text) == MS_JSON_NULL) {
        ms_str refusal = ms__string_of(m, ms__absent(), "refusal");
        if (refusal.ptr) m->content = ms_text_n(ms__decoded(p, refusal));
    }
    if (!ms_member(m, MS_STR("function_call"), &call)) return;
    ms_str name = ms__string_of(m, call, "name");
    ms_str args = ms__string_of(m, call, "arguments");
    if (!name.ptr || !args.ptr) return;
    m->type = MS_T_ACTION;
    m->tool = ms__decoded(p, name);
    m->args = ms_text_n(ms__decoded(p, args));
}

/* Adds a message whose item is known: to a call, or to a group. */
static void ms__message_put(ms__projector *p, ms_envelope *m, ms__item *item)
{
    if (item->kind == MS__ITEM_NONE || ms__repeats(p, m, item)) {
        p->report.dropped++;
    } else if (item->kind == MS__ITEM_RESULT) {
        ms__result_add(p, m, item);
    } else if (item->kind == MS__ITEM_CALL) {
        ms__beside_add(p, m, item);
        ms__call_add(p, m, item);
    } else if (item->kind == MS__ITEM_ASSISTANT && m->type == MS_T_INPUT_REQUIRED) {
        if (p->question) p->report.dropped++;
        p->question = item;
        p->question_agent = m->agent_key;
    } else {
        ms__item_join(p, m, item);
    }
}

/* Returns whether a block of Anthropic is a compaction that failed: it has no summary,
 * and its maker passes it over. An item of Responses has its data alone. */
static bool ms__compaction_failed(ms_str block)
{
    ms_str value;
    if (!ms_json_member(block, MS_STR("type"), &value) ||
        !ms_json_string_is(value, MS_STR("compaction")))
        return false;
    return !ms_json_member(block, MS_STR("content"), &value)
           ? !ms_json_member(block, MS_STR("encrypted_content"), &value)
           : ms_json_kind_of(value) == MS_JSON_NULL;
}

/* Adds a compaction of the reader. After one that keeps nothing, an answer that goes on
 * is a group of its own. One in a runtime store cannot tell what it covers of the store:
 * it is passed over. */
static void ms__compaction_add(ms__projector *p, const ms_envelope *m)
{
    ms_str all, list = ms__absent(), reader = p->opts.agent_key, plain;
    p->report.dropped++;
    if (p->opts.full || (m->agent_key.ptr && !ms_str_equal(m->agent_key, reader))) return;
    ms__compaction *c = (ms__compaction *)ms__project_alloc(p, sizeof *c);
    ms__item *item = ms__item_new(p, m, MS__ITEM_RAW);
    if (!c || !item) return;
    if (!ms_member(m, MS_STR("compaction"), &all)) all = ms__absent();
    bool counts = all.ptr && ms__member_u64(all, MS_STR("keep"), &c->keep);
    if (counts) (void)ms__member_u64(all, MS_STR("covered"), &c->covered);
    if (all.ptr && ms_json_member(all, MS_STR("items"), &list) &&
        ms_json_kind_of(list) == MS_JSON_ARRAY)
        for (ms_json_iter it = ms_json_iterate(list); ms_json_next(&it);)
            c->left_out += !ms__compaction_failed(it.value);
    c->before = p->compactions;
    c->location = m->location;
    c->seq = m->seq;
    c->read = p->report.read;
    c->n_groups = p->n_groups;
    p->compactions = c;
    if (!counts || (m->flags & (MS_FLAG_UNFINISHED | MS_FLAG_REDACTED))) return;
    if (p->runtime) return;
    if (c->left_out > 0 && ms__has_rule(p->wire, MS__RAW_BLOCKS) &&
        ms__signed(p, m).ptr) {
        item->text = ms_json(ms__trim(ms_str_n(list.ptr + 1, list.len - 2)));
        c->left_out = 0;
        c->item = item;
    } else if (!ms__is_blank(m->content.text)) {
        item->kind = MS__ITEM_USER;
        item->text = ms_text_n(m->content.text);
        if (!ms_json_member(all, MS_STR("plain"), &plain) ||
            ms_json_kind_of(plain) != MS_JSON_TRUE)
            item->text.text = ms__concat3(p, MS_STR(MS__SUMMARY), m->content.text,
                                          MS_STR(MS__SUMMARY_END));
        c->item = item;
    }
    if (c->keep == 0 && c->item) p->apart = p->asked = p->n_groups;
}

static void ms__message_add(ms__projector *p, ms_envelope *m)
{
    p->report.read++;
    if (p->report.read == 1) p->where = m->location;
    p->several = p->several || !ms_str_equal(p->where, m->location);
    ms__response_note(p, m);
    if (m->type == MS_T_COMPACTION) {
        p->answer = NULL;
        ms__compaction_add(p, m);
        return;
    }
    ms__item *item, *thought = p->opts.thinking ? ms__thought_of(p, m) : NULL;
    ms__answer_find(p, m);
    if (m->type == MS_T_REASONING && !p->opts.thinking && p->answer)
        p->answer->unthought = true; /* items of it go without their ids */
    ms__members_read(p, m);
    if (p->opts.thinking) ms__thinking_check_add(p, m, thought);
    if (thought) ms__item_join(p, m, thought);
    if (thought && thought->group && ms__is_edited(m)) thought->group->edited = true;
    item = thought && m->type == MS_T_REASONING ? NULL : ms__item_of(p, m);
    if (!item || p->no_memory) return;
    item->part = thought != NULL;
    ms__message_put(p, m, item);
    if (ms__is_edited(m) && item->group) item->group->edited = true;
}

/* Adds a message, or a copy of it if the caller's does not stay valid. */
static ms_result ms__project_add(ms__projector *p, const ms_msg *msg, ms_error *err)
{
    if (!p->opts.stable) {
        void *copy = ms_arena_alloc(p->arena, ms_size(msg));
        if (!copy) return ms__no_arena(err, p->arena, ms_size(msg));
        memcpy(copy, msg, ms_size(msg));
        msg = (const ms_msg *)copy;
    }
    ms_envelope m = ms_envelope_of(msg);
    ms__message_add(p, &m);
    return p->no_memory ? ms__no_arena(err, p->arena, p->no_memory) : MS_OK;
}

/* Sets *m to a view of a message without what is not of its item. */
static MS__NOINLINE void ms__item_view(ms_envelope *m, const ms_msg *msg)
{
    *m = ms_envelope_of(msg);
    m->extra = m->location = m->agent_key = ms__absent();
}

/* Sets p->whole to the item of a message that the wire's own format has read, as it was
 * there; absent: it was edited, or is of another format. */
static MS__NOINLINE void ms__item_read(ms__projector *p, const ms_msg *msg)
{
    char letter = ms__has_rule(p->wire, MS__ITEMS) ? p->wire->letter : 0;
    ms_str source = ms_get(msg, MS_F_SOURCE).text;
    size_t i = 0;
    p->whole = ms__absent();
    if (!letter || source.len == 0 || source.ptr[0] != letter ||
        (ms_flags(msg) & (MS_FLAG_AMENDED | MS_FLAG_REDACTED)))
        return;
    ms_writer *w = (ms_writer *)ms__project_alloc(p, sizeof *w);
    ms_buf *buf = (ms_buf *)ms__project_alloc(p, sizeof *buf);
    ms_envelope *m = (ms_envelope *)ms__project_alloc(p, sizeof *m);
    if (!w || !buf || !m) return;
    ms__item_view(m, msg);
    if (ms__chat_role(m) != MS_ROLE_ASSISTANT) return;
    buf->arena = p->arena;
    while (!ms__formats[i].tables || ms__formats[i].tables->letter != letter) i++;
    ms_writer_init(w, &ms__formats[i].shown, NULL, p->arena, ms_buf_write, buf);
    if (ms_writer_put(w, m, NULL) == MS_OK && ms_writer_finish(w, NULL) == MS_OK)
        p->whole = ms__trim(ms_buf_text(buf));
}
