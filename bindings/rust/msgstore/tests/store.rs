use msgstore::*;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// A path that is free, and is again when the test ends.
struct Log(PathBuf);

impl Log {
    fn new(name: &str) -> Log {
        let path = std::env::temp_dir().join(format!("msgstore-rs-{}-{name}.msl", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Log(path)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn numbered(n: usize) -> Vec<Message> {
    (1..=n).map(|i| Message::user(format!("message {i}"))).collect()
}

#[test]
fn store_is_send_and_sync() {
    fn both<T: Send + Sync>() {}
    both::<Store>();
    both::<Union>();
    both::<Error>();
}

#[test]
fn log_keeps_messages() {
    let log = Log::new("keeps");
    let options = Options { mode: Some(Mode::Read), ..Options::default() };
    assert!(matches!(options.open(&log.0), Err(Error::NotFound(_))));
    let store = Options { sync: Some(SyncMode::Each), ..Options::default() }.open(&log.0).unwrap();
    assert_eq!(store.append("l", &numbered(2)).unwrap(), [1, 2]);
    assert_eq!(store.sync().unwrap(), 2);
    store.close().unwrap();
    let store = options.open(&log.0).unwrap();
    assert_eq!(store.query(&Query::location("l")).unwrap().messages[1].text(), "message 2");
    let refused = store.append("l", &numbered(1)).unwrap_err();
    assert!(matches!(refused, Error::ReadOnly(_)), "{refused}");
    store.close().unwrap();
    assert!(!verify(&log.0).unwrap().damaged);
}

#[test]
fn iterator_reads_every_page_once() {
    let store = Store::memory().unwrap();
    for n in [499, 1, 500, 501] {
        store.append("l", &numbered(n)).unwrap();
        store.append("other", &numbered(1)).unwrap();
        let seqs: Vec<u64> =
            store.messages(Query::location("l")).map(|m| m.unwrap().seq).collect();
        assert_eq!(seqs, store.query(&Query::location("l")).unwrap().seqs);
    }
    let all: Vec<_> = store.messages(Query::default()).collect();
    assert_eq!(all.len(), 1505);
    let mut newest = store.messages(Query { limit: Some(2), reverse: true, ..Query::default() });
    assert_eq!(newest.next().unwrap().unwrap().seq, 1505);
    assert_eq!(newest.next().unwrap().unwrap().seq, 1504);
    assert!(newest.next().is_none() && newest.next().is_none());
    let mut wrong = store.messages(Query { agent_key: Some("a"), views: Some(&[View::Team]),
                                           ..Query::default() });
    assert!(matches!(wrong.next(), Some(Err(Error::Argument(_)))));
    assert!(wrong.next().is_none());
}

#[test]
fn time_that_is_no_number_is_no_missing_bound() {
    let store = Store::memory().unwrap();
    store.append("l", &numbered(2)).unwrap();
    for time in [f64::NAN, f64::INFINITY] {
        let since = Query { since: Some(time), ..Query::location("l") };
        let until = Query { until: Some(time), ..Query::location("l") };
        assert!(matches!(store.query(&since), Err(Error::Json(_))));
        assert!(matches!(store.query(&until), Err(Error::Json(_))));
        assert!(matches!(store.messages(since).next(), Some(Err(Error::Json(_)))));
        let keep = Keep { since: Some(time), dry_run: true, ..Keep::default() };
        assert!(matches!(store.backup("none.msl", &keep), Err(Error::Json(_))));
    }
    let query = Query { since: Some(0.0), until: Some(1e18), ..Query::location("l") };
    assert_eq!(store.query(&query).unwrap().seqs, [1, 2]);
}

#[test]
fn damage_ends_an_iteration() {
    let log = Log::new("damaged");
    let store = Store::open(&log.0).unwrap();
    store.append("l", &numbered(20)).unwrap();
    store.close().unwrap();
    let mut bytes = std::fs::read(&log.0).unwrap();
    let at = bytes.windows(9).position(|w| w == b"message 7").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&log.0, bytes).unwrap();
    let verified = verify(&log.0).unwrap();
    assert!(verified.damaged && verified.counts["damaged"] == 1);
    let store = Store::open(&log.0).unwrap();
    let all: Vec<Result<Message>> = store.messages(Query::location("l")).collect();
    assert_eq!(all.iter().filter(|m| m.is_ok()).count(), 19);
    assert!(matches!(all.last(), Some(Err(Error::Damaged(_)))));
    assert!(store.query(&Query::location("l")).unwrap().damaged > 0);
    assert!(matches!(verify(log.0.with_extension("none")), Err(Error::NotFound(_))));
    drop(store);
    let mut bytes = std::fs::read(&log.0).unwrap();
    bytes[20] ^= 1; // in the first page
    bytes[4096 + 20] ^= 1; // in its copy
    std::fs::write(&log.0, bytes).unwrap();
    let error = verify(&log.0).unwrap_err();
    assert!(matches!(error, Error::Damaged(_)));
    let said = format!("'{}': bytes 0 to 51 do not match their checksum", log.0.display());
    assert_eq!(error.to_string(), said);
}

#[test]
fn copies_have_what_is_kept() {
    let (log, other) = (Log::new("kept"), Log::new("copy"));
    let store = Store::open(&log.0).unwrap();
    store.append("l", &numbered(20)).unwrap();
    store.hide(3).unwrap();
    assert!(matches!(rewrite(&log.0, &Keep::default()), Err(Error::Busy(_))));
    let keep = Keep { newest: Some(4), locations: Some(&["l"]), ..Keep::default() };
    assert_eq!(store.backup(&other.0, &keep).unwrap().counts["copied"], 4);
    store.append("l", &numbered(1)).unwrap();
    store.close().unwrap();
    let done = rewrite(&log.0, &Keep::default()).unwrap();
    assert!(!done.damaged && done.counts["copied"] == 20);
    let store = Store::memory().unwrap();
    assert_eq!(store.copy(&other.0, &Keep::default()).unwrap().counts["copied"], 4);
    assert_eq!(store.query(&Query::default()).unwrap().seqs, [17, 18, 19, 20]);
    let none = log.0.with_extension("none");
    assert!(matches!(store.copy(none, &Keep::default()), Err(Error::NotFound(_))));
}

#[test]
fn union_reads_stores_as_one() {
    let log = Log::new("union");
    let (a, b) = (Store::open(&log.0).unwrap(), Store::memory().unwrap());
    a.append("l", &numbered(2)).unwrap();
    b.append("l", &numbered(501)).unwrap();
    let union = Union::open(&[&a, &b]).unwrap();
    let seqs: Vec<_> = union.messages(Query::location("l")).map(|m| m.unwrap().seq).collect();
    assert_eq!(seqs.len(), 503);
    assert_eq!(Union::member(seqs[1]), (0, 2));
    assert_eq!(Union::member(seqs[502]), (1, 501));
    a.append("l", &numbered(1)).unwrap();
    assert_eq!(union.stat().unwrap().messages, 504);
    assert!(matches!(union.append("l", &numbered(1)), Err(Error::ReadOnly(_))));
    assert!(matches!(Union::open(&[&a, &union]), Err(Error::Unsupported(_))));
    let twice = Union::open(&[&a, &a]).unwrap_err();
    assert_eq!(twice.detail().unwrap().path.as_deref(), Some("stores[1]"));
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| (0..50).for_each(|_| {
                assert!(union.query(&Query::default()).unwrap().seqs.len() >= 504);
                a.append("m", &numbered(1)).unwrap();
            }));
        }
    });
    drop(union);
    assert_eq!(Union::open(&[]).unwrap().stat().unwrap().messages, 0);
    a.close().unwrap();
}

#[test]
fn errors_have_code_text_field_and_byte() {
    let store = Store::memory().unwrap();
    let wrong = [Message::user("x"), Message::default().with("type", "action")];
    let error = store.append("l", &wrong).unwrap_err();
    assert_eq!(error.code(), "E_MISSING");
    let detail = error.detail().unwrap();
    assert_eq!(detail.path.as_deref(), Some("messages[1].tool"));
    assert!(error.to_string().contains("messages[1].tool") && !detail.text.is_empty());
    let body: Result<serde_json::Value> =
        store.call(c"append", &json!({"location": "l"}), Some(b"[{]"));
    assert_eq!(body.unwrap_err().detail().unwrap().offset, Some(2));
    let unknown: Result<serde_json::Value> = store.call(c"nothing", &json!({}), None);
    assert!(matches!(unknown, Err(Error::Argument(_))));
    assert_eq!(store.stat().unwrap().messages, 0);
    #[derive(Deserialize, Debug)]
    struct Other {
        #[allow(dead_code)]
        absent: u64,
    }
    store.append("l", &numbered(1)).unwrap();
    let message = &store.query(&Query::default()).unwrap().messages[0];
    assert_eq!(message.parse::<Other>().unwrap_err().code(), "JSON");
}

#[test]
fn messages_are_any_json() {
    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Mine<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        content: String,
        timestamp: f64,
        score: Option<u64>,
        nested: Vec<(f64, String)>,
    }
    let mine = Mine { kind: "user_message", content: "π \u{0} \u{1F600} \"".into(),
                      timestamp: 1720000000.123456, score: None,
                      nested: vec![(0.1, "x".into()), (1e300, String::new())] };
    let store = Store::memory().unwrap();
    store.append("l", &[&mine]).unwrap();
    let page = store.query(&Query::location("l")).unwrap();
    let text = serde_json::to_string(&page.messages[0]).unwrap();
    let back: Mine = serde_json::from_str(&text).unwrap();
    assert_eq!(back, mine);
    assert!(page.messages[0].members.contains_key("score"), "null is no absence");
    let chat = store.query(&Query { format: Some(Format::OpenAi), ..Query::location("l") }).unwrap();
    assert_eq!(chat.messages[0].str("role"), "user");
    let other = Append { location: Some("l"), format: Some(Format::OpenAi), ..Append::default() };
    store.append_with(&other, &[json!({"role": "assistant", "content": "yes"})]).unwrap();
    assert_eq!(store.query(&Query::default()).unwrap().messages[1].kind(), "assistant_message");
}

#[test]
fn every_word_is_known_to_the_library() {
    let store = Store::memory().unwrap();
    store.append("l", &numbered(1)).unwrap();
    store.query(&Query { types: Some(Type::ALL), ..Query::default() }).unwrap();
    let team: Option<&[&str]> = Some(&["a"]);
    store.query(&Query { views: Some(View::ALL), agent_key: Some("a"), agent_keys: team,
                         ..Query::default() }).unwrap();
    for format in Format::ALL {
        store.query(&Query { format: Some(*format), ..Query::default() }).unwrap();
        assert_eq!(format.word().parse::<Format>().unwrap(), *format);
    }
    for provider in Provider::ALL {
        for cache in [None, Some(Cache::FiveMinutes), Some(Cache::OneHour)] {
            let ask = Ask { model: Some("m"), cache, ..Ask::new(*provider, "l") };
            let request = store.request(&ask).unwrap();
            assert!(request.body.get().contains("message 1"), "{provider}");
        }
    }
    for thinking in Thinking::ALL {
        let ask = Ask { model: Some("m"), thinking: Some(*thinking),
                        ..Ask::new(Provider::Anthropic, "l") };
        store.request(&ask).unwrap();
    }
    for scope in Scope::ALL {
        let history = History { location: "l", agent_key: "a", scope: Some(*scope),
                                ..History::default() };
        store.history(&history).unwrap();
    }
    for sync in SyncMode::ALL {
        for mode in Mode::ALL {
            let log = Log::new("words");
            let options = Options { mode: Some(*mode), sync: Some(*sync), ..Options::default() };
            match options.open(&log.0) {
                Ok(_) => assert!(matches!(mode, Mode::Create | Mode::New)),
                Err(error) => assert_eq!(error.code(), "E_NOT_FOUND", "{mode} {error}"),
            }
        }
    }
    assert!("nothing".parse::<View>().is_err());
}

#[test]
fn agent_reads_asks_and_answers() {
    let store = Store::memory().unwrap();
    store.append("j", &[Message::user("count"),
                        Message::new(Type::Reasoning, "hm").with("agent_key", "other")]).unwrap();
    let called = json!({"choices": [{"message": {"tool_calls": [{"id": "c1",
        "function": {"name": "count", "arguments": "{\"of\": [1, 2]}"}}],
        "annotations": [{}]}}]}).to_string();
    let to = Answer { agent_key: Some("w"), ..Answer::new(Provider::OpenAi, "j") };
    let answered = store.answer(&to, &called).unwrap();
    assert_eq!((answered.first_seq, answered.calls, answered.left_out), (3, 1, 1));
    let pending = store.pending("j", Some("w")).unwrap();
    assert_eq!(pending.calls[0].args, json!({"of": [1, 2]}));
    assert_eq!((pending.calls[0].tool.as_str(), pending.answered), ("count", false));
    store.append("j", &[pending.calls[0].result("2")]).unwrap();
    let ask = Ask { model: Some("m"), agent_key: Some("w"), tools: Some(json!([])),
                    extra: Some(json!({"seed": 7})), compact_at: Some(1),
                    ..Ask::new(Provider::OpenAi, "j") };
    let request = store.request(&ask).unwrap();
    assert!(request.report.compaction_due && request.report.counts["read"] > 0);
    assert!(request.body.get().contains("\"seed\":7") && request.body.get().contains("\"2\""));
    let history = History { location: "j", agent_key: "w", ..History::default() };
    let kinds: Vec<String> =
        store.history(&history).unwrap().messages.iter().map(|m| m.kind().into()).collect();
    assert_eq!(kinds, ["user_message", "action", "observation"]);
    let refused = store.answer(&to, "{\"error\":{\"message\":\"quota\"}}").unwrap_err();
    assert!(matches!(&refused, Error::Refused(d) if d.text.contains("quota")));
    let plan = store.compact_plan(&ask, 0).unwrap();
    assert!(plan.cost > 0);
}

#[test]
fn history_is_compacted() {
    let store = Store::memory().unwrap();
    for i in 0..6 {
        store.append("c", &[Message::user(format!("question {i}")),
                            Message::assistant(format!("answer {i}"))]).unwrap();
    }
    let ask = Ask { model: Some("m"), ..Ask::new(Provider::OpenAi, "c") };
    let plan = store.compact_plan(&ask, 10).unwrap();
    assert!(plan.upto > 0);
    let body = store.compact_request(&ask, plan.upto, Some("Sum it up.")).unwrap();
    assert!(body.get().contains("Sum it up."));
    let compaction = Compaction { summary: Some("all is well"),
                                  ..Compaction::new(Provider::OpenAi, "c", plan.upto) };
    assert_eq!(store.compact(&compaction, None).unwrap(), 13);
    let request = store.request(&ask).unwrap();
    assert!(request.body.get().contains("all is well"));
    assert!(!request.body.get().contains("question 0"));
    let full = Ask { full: true, ..ask };
    assert!(store.request(&full).unwrap().body.get().contains("question 0"));
}

#[test]
fn changes_are_seen() {
    let store = Store::memory().unwrap();
    store.append("l", &numbered(5)).unwrap();
    store.amend(1, &Message::user("new")).unwrap();
    store.hide(2).unwrap();
    store.redact(3).unwrap();
    store.note(1, "rating", 5).unwrap();
    let notes = store.notes(1, None).unwrap();
    assert_eq!((notes.notes[0].kind.as_str(), &notes.notes[0].value), ("rating", &Some(json!(5))));
    assert!(notes.notes.len() == 1 && notes.damaged == 0 && notes.notes[0].time > Some(1e9));
    assert!(store.notes(1, Some("usage")).unwrap().notes.is_empty());
    store.note(1, "usage", json!({"input_tokens": 3, "output_tokens": 4})).unwrap();
    assert_eq!(store.usage(Some("l")).unwrap().output_tokens, 4);
    assert_eq!(store.rewind("l", 4).unwrap(), 1);
    store.fork("l", 4, "m").unwrap();
    store.set_facts("l", &json!({"title": "t"})).unwrap();
    let texts: Vec<String> = store.messages(Query::location("m"))
        .map(|m| m.unwrap().text().to_string()).collect();
    assert_eq!(texts, ["new", "[redacted]", "message 4"]);
    let facts: serde_json::Value = store.facts("l").unwrap();
    assert_eq!(facts, json!({"title": "t"}));
    let items = store.list(&List::default()).unwrap();
    assert_eq!((items.items.len(), items.damaged), (2, 0));
    let found = store.search(&Search { location: Some("l"), ..Search::text("MESSAGE") }).unwrap();
    assert_eq!((found.matches.len(), found.matches[0].seq), (1, 4));
    assert_eq!(store.stat().unwrap().version, env!("CARGO_PKG_VERSION"));
    assert!(matches!(store.hide(99), Err(Error::NotFound(_))));
}

#[test]
fn wait_ends_with_an_append_of_another_thread() {
    let store = Store::memory().unwrap();
    assert_eq!(store.wait(0, Duration::from_millis(1)).unwrap(), 0);
    std::thread::scope(|threads| {
        threads.spawn(|| store.append("l", &numbered(1)).unwrap());
        assert_eq!(store.wait(0, Duration::from_secs(60)).unwrap(), 1);
    });
}

#[test]
fn forty_threads_lose_nothing() {
    let log = Log::new("threads");
    let store = Store::open(&log.0).unwrap();
    std::thread::scope(|threads| {
        for t in 0..40 {
            let store = &store;
            threads.spawn(move || {
                for i in 0..25 {
                    store.append(&format!("l{}", t % 4), &[Message::user(i)]).unwrap();
                    for message in store.messages(Query { limit: Some(3), ..Query::default() }) {
                        message.unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(store.messages(Query::default()).map(|m| m.unwrap()).count(), 1000);
    store.close().unwrap();
}

#[test]
fn paths_that_are_not_utf8_are_refused() {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let path = std::ffi::OsStr::from_bytes(b"/tmp/\xff.msl");
        assert!(matches!(Store::open(path), Err(Error::Argument(_))));
    }
    assert!(matches!(Store::open("a\0b"), Err(Error::Argument(_))));
}
