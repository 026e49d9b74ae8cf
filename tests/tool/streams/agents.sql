BEGIN TRANSACTION;
CREATE TABLE agent_messages (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                session_id TEXT NOT NULL,
                message_data TEXT NOT NULL,
                created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
                FOREIGN KEY (session_id) REFERENCES agent_sessions (session_id)
                    ON DELETE CASCADE
            );
INSERT INTO "agent_messages" VALUES(1,'chat-1','{"content": "say hi with the tool", "role": "user"}','2026-11-29 05:07:11');
INSERT INTO "agent_messages" VALUES(2,'chat-1','{"id": "rs1", "summary": [{"text": "thinking of it", "type": "summary_text"}], "type": "reasoning"}','2026-11-29 05:07:11');
INSERT INTO "agent_messages" VALUES(3,'chat-1','{"arguments": "{\"word\":\"hi\"}", "call_id": "call_1", "name": "say", "type": "function_call", "id": "fc1"}','2026-11-29 05:07:11');
INSERT INTO "agent_messages" VALUES(4,'chat-1','{"call_id": "call_1", "output": "hi there", "type": "function_call_output"}','2026-11-29 05:07:11');
INSERT INTO "agent_messages" VALUES(5,'chat-1','{"id": "m2", "content": [{"annotations": [], "text": "all done", "type": "output_text"}], "role": "assistant", "status": "completed", "type": "message"}','2026-11-29 05:07:11');
INSERT INTO "agent_messages" VALUES(6,'chat-1','{"content": "and again", "role": "user"}','2026-11-29 05:07:11');
INSERT INTO "agent_messages" VALUES(7,'chat-1','{"id": "m3", "content": [{"annotations": [], "text": "all done", "type": "output_text"}], "role": "assistant", "status": "completed", "type": "message"}','2026-11-29 05:07:11');
INSERT INTO "agent_messages" VALUES(8,'chat-2','{"content": "hello two", "role": "user"}','2026-11-29 05:07:11');
INSERT INTO "agent_messages" VALUES(9,'chat-2','{"id": "rs1", "summary": [{"text": "thinking of it", "type": "summary_text"}], "type": "reasoning"}','2026-11-29 05:07:11');
INSERT INTO "agent_messages" VALUES(10,'chat-2','{"arguments": "{\"word\":\"hi\"}", "call_id": "call_1", "name": "say", "type": "function_call", "id": "fc1"}','2026-11-29 05:07:11');
INSERT INTO "agent_messages" VALUES(11,'chat-2','{"call_id": "call_1", "output": "hi there", "type": "function_call_output"}','2026-11-29 05:07:11');
CREATE TABLE agent_sessions (
                session_id TEXT PRIMARY KEY,
                created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
                updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP
            );
INSERT INTO "agent_sessions" VALUES('chat-1','2026-11-29 05:07:11','2026-11-29 05:07:11');
INSERT INTO "agent_sessions" VALUES('chat-2','2026-11-29 05:07:11','2026-11-29 05:07:11');
CREATE INDEX idx_agent_messages_session_id
            ON agent_messages (session_id, id)
        ;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('agent_messages',12);
COMMIT;
