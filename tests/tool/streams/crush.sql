BEGIN TRANSACTION;
CREATE TABLE goose_db_version (id INTEGER PRIMARY KEY AUTOINCREMENT, version_id INTEGER NOT NULL, is_applied INTEGER NOT NULL, tstamp TIMESTAMP DEFAULT (datetime('now')));
CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    parent_session_id TEXT,
    title TEXT NOT NULL,
    message_count INTEGER NOT NULL DEFAULT 0 CHECK (message_count >= 0),
    prompt_tokens  INTEGER NOT NULL DEFAULT 0 CHECK (prompt_tokens >= 0),
    completion_tokens  INTEGER NOT NULL DEFAULT 0 CHECK (completion_tokens>= 0),
    cost REAL NOT NULL DEFAULT 0.0 CHECK (cost >= 0.0),
    updated_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL, summary_message_id TEXT, todos TEXT);
CREATE TABLE messages (
    id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL,
    role TEXT NOT NULL,
    parts TEXT NOT NULL default '[]',
    model TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    finished_at INTEGER, provider TEXT, is_summary_message INTEGER DEFAULT 0 NOT NULL);
INSERT INTO sessions VALUES('5eb7-main',NULL,'A title',5,12551,22,0.25,1761246860,1761246835,NULL,NULL);
INSERT INTO sessions VALUES('call_7','5eb7-main','Its agent',1,5,5,0.125,1761246860,1761246835,NULL,NULL);
INSERT INTO messages VALUES('m-1','5eb7-main','user','[{"type":"text","data":{"text":"say hi with the tool"}},{"type":"binary","data":{"Path":"a.png","MIMEType":"image/png","Data":"iVBORw0KGgo="}},{"type":"finish","data":{"reason":"stop","time":0}}]','',1761246835,1761246835,NULL,NULL,0);
INSERT INTO messages VALUES('m-2','5eb7-main','assistant','[{"type":"reasoning","data":{"thinking":"thinking of it","signature":"c2ln","started_at":1761246836}},{"type":"text","data":{"text":"I say \u003chi\u003e"}},{"type":"tool_call","data":{"id":"call_1","name":"say","input":"{\"word\":\"hi\"}","type":"","finished":true}},{"type":"tool_call","data":{"id":"call_7","name":"agent","input":"{\"prompt\":\"look\"}","type":"","finished":true}},{"type":"finish","data":{"reason":"tool_use","time":1761246840}}]','gpt-4.1',1761246835,1761246840,1761246840,'openai',0);
INSERT INTO messages VALUES('m-3','5eb7-main','tool','[{"type":"tool_result","data":{"tool_call_id":"call_1","name":"","content":"hi there","metadata":"{\"n\":1}","is_error":false}},{"type":"tool_result","data":{"tool_call_id":"call_7","name":"","content":"no agent","metadata":"","is_error":true}},{"type":"finish","data":{"reason":"stop","time":0}}]','',1761246841,1761246841,NULL,NULL,0);
INSERT INTO messages VALUES('m-4','5eb7-main','assistant','[{"type":"text","data":{"text":"all done"}},{"type":"finish","data":{"reason":"end_turn","time":1761246842}}]','gpt-4.1',1761246841,1761246842,1761246842,'openai',0);
INSERT INTO messages VALUES('m-5','5eb7-main','assistant','[{"type":"finish","data":{"reason":"canceled","time":1761246850,"message":"Request cancelled","details":""}}]','gpt-4.1',1761246850,1761246850,1761246850,'openai',0);
INSERT INTO messages VALUES('a-1','call_7','user','[{"type":"text","data":{"text":"look"}},{"type":"finish","data":{"reason":"stop","time":0}}]','',1761246841,1761246841,NULL,NULL,0);
COMMIT;
