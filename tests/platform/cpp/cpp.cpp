/* A user of bindings/cpp/msgstore.hpp: every class and call. test_cpp.sh runs it with the
 * sanitizers, which see what is used after its life, leaked or copied. */
#include "msgstore.hpp"
#include "other.hpp"

#include <cstdio>
#include <cstring>
#include <thread>
#include <type_traits>

#define EXPECT(condition)                                                              \
    do {                                                                               \
        if (!(condition)) {                                                            \
            std::printf("FAIL line %d: %s\n", __LINE__, #condition);                   \
            failed = true;                                                             \
        }                                                                              \
    } while (0)

using namespace msgstore;
static bool failed;

static std::string texts(cursor &c)
{
    std::string all;
    for (message m : c) all.append(m.text()).append("|");
    EXPECT(c.close());
    return all;
}

/* Strings that are gone when the cursor is read. */
static result<cursor> of_short_lived_names(const store &s)
{
    std::string location = "a location longer than any small string", agent = "worker";
    ms_str team = str(agent);
    ms_query q = {};
    q.location = str(location);
    q.views = MS_VIEW_TEAM;
    q.agent_keys = &team;
    q.n_agent_keys = 1;
    return s.read(q);
}

static memory short_lived_memory(const store &s)
{
    std::string location = "a location longer than any small string";
    std::string manager = "the manager of all of the workers here", agent = "worker";
    return memory(s, location, manager, {agent});
}

static void store_reads_and_appends(store s)
{
    const char *place = "a location longer than any small string";
    auto first = s.append(place, user("hello"));
    EXPECT(first && *first == 1);
    ms_envelope call = action("list", "{\"n\":1}", "c1"), got = observation("users", "c1");
    call.agent_key = got.agent_key = MS_STR("worker");
    auto seqs = s.append(place, {call, got}, 1);
    EXPECT(seqs && seqs->size() == 2 && (*seqs)[1] == 3);
    auto late = s.append(place, {user("late")}, 1);
    EXPECT(!late && late.code() == MS_E_CONFLICT && !late.error().message.empty());
    auto wrong = s.append(place, {user("x"), action("f", "{", "")});
    EXPECT(wrong.code() == MS_E_SYNTAX && wrong.error().path == "messages[1].args");
    EXPECT(wrong.error().offset != MS_NO_OFFSET);

    auto all = s.read(place);
    EXPECT(all && texts(*all) == "hello||users|");
    EXPECT(all->close().code() == MS_E_CLOSED);
    auto newest = s.read(place, 1);
    EXPECT(newest && texts(*newest) == "users|");
    auto team = of_short_lived_names(s);
    EXPECT(team && texts(*team) == "|users|");
    ms_query bad = {};
    bad.views = 1u << 20;
    EXPECT(s.read(bad).code() == MS_E_ARGUMENT);

    auto one = s.get(2);
    EXPECT(one && one->type() == MS_T_ACTION && one->word() == "action" && one->seq() == 2);
    EXPECT(one->get(MS_F_TOOL) == "list" && one->is_json(MS_F_ARGS));
    EXPECT(one->text().data() == nullptr);
    EXPECT(s.get(9).code() == MS_E_NOT_FOUND);

    memory m = short_lived_memory(s);
    memory moved = std::move(m);
    auto added = moved.add(assistant("done"));
    EXPECT(added && *added == 4);
    auto history = moved.history();
    EXPECT(history && texts(*history) == "hello|done||users|");
    moved.settings().no_conversation = true;
    auto steps = moved.history();
    store elsewhere = std::move(s); /* a cursor goes on although its store moves */
    EXPECT(steps && texts(*steps) == "|users|");
    EXPECT(s.append(place, user("x")).code() == MS_E_CLOSED);
    EXPECT(s.close().code() == MS_E_CLOSED);
    EXPECT(elsewhere.append("", user("x")).code() == MS_E_ARGUMENT);
    auto unread = elsewhere.read(place); /* the destructor closes it half read */
    EXPECT((*unread->begin()).text() == "hello");
}

static void agent_asks_and_answers(store s)
{
    const char *called =
        "{\"choices\":[{\"message\":{\"tool_calls\":[{\"id\":\"c1\",\"function\":"
        "{\"name\":\"weather\",\"arguments\":\"{}\"}}]}}]}";
    const char *said = "{\"choices\":[{\"message\":{\"content\":\"It will rain.\"}}]}";
    std::string model = "a model with a name longer than a small string";
    agent a(memory(s, "chat_1", "forecaster"), "openai", model);
    std::memset(model.data(), 'x', model.size());
    a.settings().opts.system = a.keep("Be brief.");
    EXPECT(s.append("chat_1", user("Will it rain?")));
    ms_project_report report;
    auto body = a.request(&report);
    EXPECT(body && body->find("a model with a name") != std::string::npos);
    EXPECT(body && body->find("Be brief.") != std::string::npos && report.read == 1);
    EXPECT(a.answer(said).code() == MS_OK);
    EXPECT(s.append("chat_1", user("And tomorrow?")));
    auto answered = a.answer(called);
    EXPECT(answered && answered->calls == 1);
    auto open = a.pending();
    EXPECT(open && open->count == 1 && !open->answered);
    for (const ms_call &c : *open) {
        EXPECT(view(c.tool) == "weather");
        EXPECT(a.add(observation("rain", view(c.id))));
    }
    EXPECT(a.answer(said));
    open = a.pending();
    EXPECT(open && open->count == 0 && open->answered);
    EXPECT(a.answer("{}").code() == MS_E_MISSING);
    auto refused = a.answer("{\"error\":{\"message\":\"quota\"}}");
    EXPECT(refused.code() == MS_E_REFUSED);
    EXPECT(refused.error().message.find("quota") != std::string::npos);
    agent nobody(memory(s, "chat_1", "x"), "no such provider", "m");
    EXPECT(nobody.request().code() == MS_E_ARGUMENT);
}

static void log_is_closed_and_opened(string_view path)
{
    ms_log_desc read = {};
    read.mode = MS_LOG_READ;
    EXPECT(store::log(path, read).code() == MS_E_NOT_FOUND);
    {
        auto s = store::log(std::string(path) + "");
        EXPECT(s && s->append("l", user("kept")));
        *s = *store::in_memory(); /* closes the log, which still has its path */
        auto again = store::log(path);
        EXPECT(again && again->append("l", user("two")));
        EXPECT(again->close() && again->close().code() == MS_E_CLOSED);
    }
    auto s = store::log(path, read);
    EXPECT(s && s->append("l", user("x")).code() == MS_E_READ_ONLY);
    auto all = s->read("");
    EXPECT(all && texts(*all) == "kept|two|");
    EXPECT(s->close());
}

static void threads_append_and_read()
{
    auto s = store::in_memory();
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&s] {
            for (int k = 0; k < 50; k++) {
                EXPECT(s->append("l", user("x")));
                auto c = s->read("l", 3);
                EXPECT(c && !texts(*c).empty());
            }
        });
    for (auto &t : threads) t.join();
    EXPECT(ms_seq((*s->get(200)).handle) == 200 && s->get(201).code() == MS_E_NOT_FOUND);
}

static_assert(!std::is_copy_constructible<store>::value, "");
static_assert(!std::is_copy_constructible<cursor>::value, "");
static_assert(!std::is_copy_constructible<memory>::value, "");
static_assert(!std::is_copy_constructible<agent>::value, "");
static_assert(!std::is_copy_constructible<calls>::value, "");

int main(int argc, char **argv)
{
    store_reads_and_appends(*store::in_memory());
    agent_asks_and_answers(*store::in_memory());
    if (argc > 1) log_is_closed_and_opened(argv[1]);
    threads_append_and_read();
    EXPECT(other() == 1);
    std::puts(failed ? "FAILED" : "all is well");
    return failed;
}
