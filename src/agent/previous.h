
/* ==== [previous] the request names the response before it ==========================
 * Some servers keep their responses. A request that names one sends only what is new: the
 * server has the list of that response's own request, and the response. With
 * opts.previous ms_request reports how many messages it has read, and a hash of the
 * whole list, also if it sends only a part of it. The caller passes both to ms_answer,
 * which stores them with the id of the response, in `signed` of each message:
 *     "response": {"id": "resp_1"}, of the first one also
 *     {"read": 7, "of": hash of the list, "messages": 3, "sum": hash of the messages}
 *
 *   messages read   1 2 3 4 | 5       6 7       8
 *   of the list     request | other   response  result
 *   sent next                 other             result
 *
 * The request of a response had the first `read` messages of the history. What others
 * append before the response arrives stands between the two, and is sent with the next
 * request. A request names the newest response of its provider and model, or none.
 * (PV1) A response is named only if the first `read` messages make the same bytes as
 *       they did, and all messages of the response are as they came. So an edit, a
 *       rewind, a compaction, a late result or another window start sends all. So does
 *       thinking of another answer that belongs to an item of the response.
 * (PV2) Of all messages that are read, those are left out that the whole list leaves out,
 *       the first `read` ones, and those of the response. No other is.
 * Cost: with opts.previous the list is made three times.
 * ================================================================================== */

/* Returns whether the request asks its server to keep responses. */
static bool ms__keeps_responses(const ms__projector *p)
{
    return p->opts.previous && p->wire->previous;
}

/* Adds bytes to a hash, which does not depend on how they are divided: FNV-1a. */
static ms_result ms__sum_write(void *ctx, const char *bytes, size_t len)
{
    uint64_t *sum = (uint64_t *)ctx;
    for (size_t i = 0; i < len; i++)
        *sum = (*sum ^ (unsigned char)bytes[i]) * 0x100000001B3u;
    return MS_OK;
}

/* Returns the hash of the list up to a group, never 0; `last` NULL: of all. It leaves the
 * count of merged texts as it was, and no comma is due. */
static uint64_t ms__list_sum(ms__projector *p, ms__group *last)
{
    uint64_t sum = 0xCBF29CE484222325u, merged = p->report.merged;
    ms__group *rest = last ? last->next : NULL;
    if (last) last->next = NULL;
    ms_json_init(&p->json, ms__sum_write, &sum, false);
    ms__emit_list(p);
    (void)ms_json_finish(&p->json);
    if (last) last->next = rest;
    p->comma = false;
    p->report.merged = merged;
    return sum ? sum : 1;
}

/* Returns the last group that the request of the response had; NULL: none. */
static ms__group *ms__previous_last(const ms__projector *p)
{
    ms__group *last = NULL;
    for (ms__group *g = p->first; g; last = g, g = g->next)
        if (g->first->read > p->previous.sent.read) break;
    return last;
}

/* Returns whether a request can go on from the response: the groups after `last` have
 * something to send; every call of it goes back as it came, since a result with another
 * call id has no call there; no thinking goes without the item that it belongs to. */
static bool ms__previous_fits(const ms__projector *p, const ms__group *last)
{
    bool some = false, leads = ms__has_rule(p->wire, MS__THOUGHT_LEADS);
    unsigned number = p->previous.number;
    for (const ms__group *g = last->next; g; g = g->next)
        for (const ms__item *item = g->first; item; item = item->next) {
            bool its = item->response == number, thought = item->kind == MS__ITEM_THOUGHT;
            if (its && item->kind == MS__ITEM_CALL && !item->raw.ptr) return false;
            bool silent = thought && !ms__thought_goes(p, item);
            if (leads && thought && !its && !silent && !ms__thought_leads(item, number))
                return false;
            some = some || item->result || (!its && !silent);
        }
    return some;
}

/* Counts the messages that the server has: those up to `last`, and the response. */
static void ms__previous_count(ms__projector *p, const ms__group *last)
{
    const ms__group *g = p->first;
    for (; g != last->next; g = g->next) p->report.held += g->count;
    p->report.held += p->previous.found;
}

/* Reports what the whole list is, and leaves out of the request what the server has. */
static MS__NOINLINE void ms__previous_use(ms__projector *p)
{
    const ms__response *r = &p->previous;
    p->report.sent.read = p->report.read;
    p->report.sent.of = ms__list_sum(p, NULL);
    if (r->number == 0) return;
    ms__group *last = ms__previous_last(p);
    p->report.previous_unusable = 1;
    if (!last || r->found != r->messages || r->sum_found != r->sum ||
        ms__list_sum(p, last) != r->sent.of || !ms__previous_fits(p, last))
        return;
    ms__previous_count(p, last);
    p->report.previous_unusable = 0;
    p->report.previous_seq = r->seq;
    p->held = r->number;
    p->first = last->next;
}
