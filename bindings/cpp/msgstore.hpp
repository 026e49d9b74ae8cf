/* msgstore.hpp - msgstore.h for C++17 - MIT or public domain
 *
 *     #define MSGSTORE_IMPLEMENTATION          in exactly one C or C++ source file,
 *     #include "msgstore.h"
 *     #include "msgstore.hpp"                  everywhere else only this line.
 *
 *     auto store = msgstore::store::log("agent.msl");
 *     if (!store) return puts(store.error().message.c_str()), 1;
 *     auto seq = store->append("job_1", msgstore::user("hello"));
 *     auto read = store->read("job_1");
 *     if (!seq || !read) ...
 *     for (msgstore::message m : *read) use(m.seq(), m.text());
 *     if (auto end = read->close(); !end) ...        // damage is reported here
 *
 * - A call that can fail returns a result<T>: a value, or a failure with code and text.
 *   Strings and vectors throw std::bad_alloc, and *result without a value throws
 *   std::bad_variant_access (with -fno-exceptions both abort); nothing else throws.
 * - A string_view is copied before the call returns, except into an ms_envelope: what
 *   user(), action() and the like are passed must live until the append.
 * - A store must outlive its cursors, memories and agents, but may be moved meanwhile.
 *   Any thread may call it; moving, closing and destroying need it alone. Other objects
 *   are for one thread at a time. Only messages can be copied.
 * - A message from a cursor, and its views, are valid until the cursor moves on; in an
 *   arena store until close or reset. A message of get() is valid until close.
 * - handle() and settings() lead to what msgstore.h has besides. */
#ifndef MSGSTORE_HPP
#define MSGSTORE_HPP

#ifndef MSGSTORE_H
#include "msgstore.h"
#endif
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace msgstore {
using std::string_view;
using number = std::uint64_t;

/* ---- Strings. An absent ms_str is a view without data(); given() makes "" absent. */
inline ms_str str(string_view v) { return ms_str_n(v.data() ? v.data() : "", v.size()); }
inline ms_str given(string_view v) { return v.empty() ? ms_str() : str(v); }
inline ms_value text(string_view v) { return ms_text_n(str(v)); }
inline ms_value json(string_view v) { return ms_json(str(v)); }
inline string_view view(ms_str s) { return {s.ptr, s.ptr ? s.len : 0}; }

/* ---- Results. */
struct failure {
    ms_result code;
    std::string message, path;       /* a sentence; the field that it is about, or "" */
    number offset = MS_NO_OFFSET;    /* in bytes, of what was parsed */
};

template <class T> class [[nodiscard]] result {
    std::variant<T, failure> v_;
public:
    result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
    result(failure f) : v_(std::in_place_index<1>, std::move(f)) {}
    explicit operator bool() const { return v_.index() == 0; }
    ms_result code() const { return *this ? MS_OK : error().code; }
    const failure &error() const { return std::get<1>(v_); }
    T &operator*() & { return std::get<0>(v_); }
    T &&operator*() && { return std::get<0>(std::move(v_)); }
    T *operator->() { return &std::get<0>(v_); }
};

struct done {};
using status = result<done>;         /* of a call that returns no value */

/* Calls f(value, &error), and returns the value or the failure. */
template <class T, class F> result<T> call(T value, F f)
{
    ms_error e;
    ms_result code = f(value, &e);
    if (code != MS_OK) return failure{code, e.message, e.path, e.offset};
    return result<T>(std::move(value));
}
template <class F> status call(F f)
{ return call(done(), [&](done &, ms_error *e) { return f(e); }); }

/* ---- Messages to append: views of the arguments. Set further members as needed. */
inline ms_envelope user(string_view t) { return ms_user_message(text(t)); }
inline ms_envelope assistant(string_view t) { return ms_assistant_message(text(t)); }
inline ms_envelope action(string_view tool, string_view args, string_view call_id)
{ return ms_action(str(tool), json(args), given(call_id)); }
inline ms_envelope observation(string_view t, string_view call_id)
{ return ms_observation(text(t), given(call_id)); }

/* A stored message. */
struct message {
    const ms_msg *handle = nullptr;
    number seq() const { return ms_seq(handle); }
    ms_type type() const { return ms_type_of(handle); }
    string_view word() const { return view(ms_type_name(handle)); }
    string_view text() const { return view(ms_content(handle).text); }
    string_view get(ms_field field) const { return view(ms_get(handle, field).text); }
    bool is_json(ms_field field) const { return ms_get(handle, field).json; }
};

namespace detail {
/* Copies of strings, at places that stay when their owner moves. */
struct strings {
    std::list<std::string> all;
    std::vector<ms_str> team;
    strings() = default;
    strings(strings &&) = default;
    strings &operator=(strings &&) = default;
    ms_str keep(ms_str s) { return s.ptr ? str(all.emplace_back(view(s))) : s; }
    const ms_str *keep(const ms_str *from, std::size_t n)
    {
        for (std::size_t i = 0; from && i < n; i++) team.push_back(keep(from[i]));
        return from ? team.data() : nullptr;
    }
};
struct arena : ms_arena {
    arena() : ms_arena() {}
    arena(const arena &) = delete;
    ~arena() { ms_arena_deinit(this); }
};
struct reading { /* what a cursor and its query point to */
    detail::arena arena;
    strings own;
    ms_memory memory;
    ms_cursor it;
    reading() { it.store = nullptr; }
    ~reading() { (void)ms_cursor_close(&it, nullptr); }
};
} // namespace detail

/* `for (message m : cursor)`, once. The loop also ends at a failure: close() returns it,
 * and MS_E_DAMAGED where records were skipped. */
class cursor {
    std::unique_ptr<detail::reading> r_ = std::make_unique<detail::reading>();
public:
    class iterator {
        ms_cursor *it_;
        message m_;
    public:
        explicit iterator(ms_cursor *it) : it_(it) { if (it_) ++*this; }
        message operator*() const { return m_; }
        void operator++() { m_ = {ms_next(it_)}; }
        bool operator!=(std::nullptr_t) const { return m_.handle != nullptr; }
    };
    static result<cursor> open(ms_store *store, ms_query q)
    {
        return call(cursor(), [&](cursor &c, ms_error *e) {
            detail::strings &own = c.r_->own;
            q.location = own.keep(q.location);
            q.agent_key = own.keep(q.agent_key);
            q.turn_id = own.keep(q.turn_id);
            q.agent_keys = own.keep(q.agent_keys, q.n_agent_keys);
            if (!q.arena) q.arena = &c.r_->arena;
            return ms_query_open(store, &q, &c.r_->it, e);
        });
    }
    static result<cursor> open(const ms_memory &memory)
    {
        return call(cursor(), [&](cursor &c, ms_error *e) {
            detail::strings &own = c.r_->own;
            ms_memory &m = c.r_->memory = memory;
            m.location = own.keep(m.location);
            m.agent_key = own.keep(m.agent_key);
            m.subordinates = own.keep(m.subordinates, m.n_subordinates);
            if (!m.arena) m.arena = &c.r_->arena;
            return ms_get_history(&m, &c.r_->it, e);
        });
    }
    iterator begin() { return iterator(r_ ? &r_->it : nullptr); }
    std::nullptr_t end() const { return nullptr; }
    status close()
    {
        auto r = std::move(r_);
        if (!r) return failure{MS_E_CLOSED, ms_result_text(MS_E_CLOSED), ""};
        return call([&](ms_error *e) { return ms_cursor_close(&r->it, e); });
    }
};

/* A log, or an arena store. Moved from, it is closed: its calls are MS_E_CLOSED. */
class store {
    struct closer {
        std::unique_ptr<std::string> path; /* the log reads it until it is closed */
        void operator()(ms_store *s) const { ms_close(s); }
    };
    std::unique_ptr<ms_store, closer> s_;
    template <class F> static result<store> opened(string_view path, F f)
    {
        return call(store(), [&](store &s, ms_error *e) {
            auto own = std::make_unique<std::string>(path);
            ms_store *made = nullptr;
            if (path.find('\0') != path.npos) return ms_error_set(e, MS_E_ARGUMENT, "NUL in path");
            ms_result code = f(own->c_str(), &made, e);
            return s.s_ = {made, closer{std::move(own)}}, code;
        });
    }
public:
    static result<store> in_memory(const ms_mem_desc &desc = {})
    { return opened("", [&](auto, auto s, auto e) { return ms_mem_open(s, &desc, e); }); }
#ifndef MSGSTORE_NO_LOG
    static result<store> log(string_view path, ms_log_desc desc = {})
    { return opened(path, [&](auto own, auto s, auto e)
        { return desc.path = own, ms_log_open(s, &desc, e); }); }
#endif
    ms_store *handle() const { return s_.get(); }
    /* Syncs, and closes also if that fails. The destructor closes, too. */
    status close()
    {
        auto s = std::move(s_);
        auto r = call([&](ms_error *e) { return ms_sync(s.get(), nullptr, e); });
        return r.code() == MS_E_READ_ONLY ? status(done()) : r;
    }
    result<number> append(string_view location, const ms_envelope &m)
    { return call(number(), [&](auto &seq, auto e)
        { return ms_append(handle(), given(location), &m, &seq, e); }); }
    /* All or none. expect: MS_E_CONFLICT unless the last message has that number. */
    result<std::vector<number>> append(string_view location,
        const std::vector<ms_envelope> &list, std::optional<number> expect = {})
    {
        return call(std::vector<number>(list.size()), [&](auto &to, ms_error *e) {
            ms_append_opts o = {given(location), bool(expect), expect.value_or(0), false,
                                to.data()};
            return ms_append_batch(handle(), list.data(), list.size(), &o, e);
        });
    }
    result<cursor> read(const ms_query &q) const { return cursor::open(handle(), q); }
    /* Of a location (""; all), oldest first; newest: the last n, 0: all. */
    result<cursor> read(string_view location, std::size_t newest = 0) const
    {
        ms_query q = {};
        q.location = given(location);
        q.limit = newest;
        return read(q);
    }
    result<message> get(number seq) const
    {
        return call(message(), [&](auto &m, auto e)
            { return ms_get_by_seq(handle(), seq, nullptr, &m.handle, e); });
    }
};

/* What one agent reads and writes of a location: ms_memory, which settings() returns. */
class memory {
    detail::strings own_;
    ms_memory m_;
public:
    memory(const store &s, string_view location, string_view agent_key,
           const std::vector<string_view> &subordinates = {})
    {
        ms_memory_init(&m_, s.handle(), keep(location), keep(agent_key));
        for (string_view name : subordinates) own_.team.push_back(keep(name));
        m_.subordinates = own_.team.data();
        m_.n_subordinates = subordinates.size();
    }
    ms_memory &settings() { return m_; }
    ms_str keep(string_view v) { return own_.keep(str(v)); } /* a copy, for settings */
    result<cursor> history() const { return cursor::open(m_); }
    result<number> add(const ms_envelope &m) const
    { return call(number(), [&](auto &seq, auto e)
        { return ms_memory_add(&m_, &m, &seq, e); }); }
};

#ifndef MSGSTORE_NO_FORMATS
/* The calls without a result: `for (const ms_call &c : calls)`. It owns their texts. */
struct calls : ms_calls {
    std::unique_ptr<detail::arena> arena = std::make_unique<detail::arena>();
    calls() : ms_calls() {}
    const ms_call *begin() const { return items; }
    const ms_call *end() const { return items + count; }
};

/* A memory and the provider that it asks. settings() leads to system text, tools, limits;
 * their strings must outlive the agent: keep() copies them. */
class agent : public memory {
    ms_request_desc d_ = {};
    ms_request_desc *desc() { return d_.memory = &memory::settings(), &d_; }
public:
    agent(memory m, string_view provider, string_view model) : memory(std::move(m))
    {
        d_.profile = ms_profile_find(str(provider)); /* NULL: its calls fail */
        d_.opts.model = keep(model);
    }
    ms_request_desc &settings() { return d_; }
    result<std::string> request(ms_project_report *report = nullptr)
    {
        auto write = [](void *to, const char *bytes, std::size_t len)
            { return static_cast<std::string *>(to)->append(bytes, len), MS_OK; };
        return call(std::string(), [&](auto &body, auto e)
            { return ms_request(desc(), write, &body, report, e); });
    }
    result<ms_answered> answer(string_view body)
    { return call(ms_answered(), [&](auto &a, auto e)
        { return ms_answer(desc(), str(body), &a, e); }); }
    result<calls> pending()
    { return call(calls(), [&](auto &c, auto e)
        { return ms_pending(desc(), c.arena.get(), &c, e); }); }
};
#endif
} // namespace msgstore

#endif /* MSGSTORE_HPP */
