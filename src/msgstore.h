#include "api/manual.h"
#include "api/ten.h"
#include "api/options.h"

#ifndef MSGSTORE_H
#define MSGSTORE_H
#include "api/config.h"

#ifdef __cplusplus
extern "C" {
#endif
#include "api/types.h"
#include "api/error.h"
#include "api/arena.h"
#include "api/message.h"
#include "api/store.h"
#ifndef MSGSTORE_NO_LOG
#include "api/log.h"
#endif
#include "api/mem.h"
#include "api/memory.h"
#include "api/stream.h"
#ifndef MSGSTORE_NO_FORMATS
#include "api/request.h"
#endif

#include "api/change.h"
#include "api/find.h"
#include "api/union.h"
#include "api/copy.h"
#ifndef MSGSTORE_NO_LOG
#include "api/rewrite.h"
#include "api/verify.h"
#endif
#ifndef MSGSTORE_NO_FORMATS
#include "api/format.h"
#include "api/shorten.h"
#include "api/project.h"
#include "api/compact.h"
#include "api/task.h"
#include "api/session.h"
#endif

#include "api/json.h"
#include "api/record.h"
#include "api/image.h"
#include "api/ring.h"
#ifdef MSGSTORE_FLASH
#include "api/flash.h"
#endif
#ifndef MSGSTORE_NO_LOG
#include "api/os.h"
#endif
#include "api/backend.h"
#ifndef MSGSTORE_NO_FORMATS
#include "api/profile.h"
#endif /* MSGSTORE_NO_FORMATS */
#include "api/structs.h"
#include "api/debug.h"

#ifdef __cplusplus
}
#endif
#endif /* MSGSTORE_H */

#ifdef MSGSTORE_IMPLEMENTATION
#ifndef MSGSTORE_IMPLEMENTED
#define MSGSTORE_IMPLEMENTED

#include "foundation/platform.h"
#include "foundation/bits.h"
#include "foundation/arena.h"
#include "foundation/str.h"
#include "foundation/dates.h"
#include "foundation/fail.h"
#include "foundation/json.h"
#include "foundation/message.h"
#include "foundation/record.h"
#include "foundation/query.h"

#include "store/store.h"
#include "store/change.h"
#include "store/copy.h"

#include "index/names.h"
#include "index/plan.h"
#include "index/core.h"
#include "index/merge.h"
#include "index/related.h"
#include "index/append.h"
#include "index/list.h"

#include "mem/mem.h"
#ifdef MSGSTORE_RING
#include "mem/ring.h"
#endif
#ifdef MSGSTORE_FLASH
#include "mem/flash.h"
#endif
#include "mem/open.h"

#ifndef MSGSTORE_NO_LOG
#include "log/file-format.h"
#include "log/os.h"
#include "log/map.h"
#include "log/index.h"
#include "log/find.h"
#include "log/sync.h"
#include "log/append.h"
#include "log/recover.h"
#include "log/cursor.h"
#include "log/list.h"
#include "log/open.h"
#endif /* MSGSTORE_NO_LOG */

#include "views/union.h"
#include "views/memory.h"
#include "views/find.h"
#include "views/selfcheck.h"

#ifndef MSGSTORE_NO_FORMATS
#include "formats/arrays.h"
#include "formats/calls.h"
#include "formats/format.h"
#include "formats/template.h"
#include "formats/engine.h"
#include "formats/framework.h"
#include "formats/openai.h"
#include "formats/envelope.h"
#include "formats/task.h"
#include "formats/session.h"
#include "formats/blocks.h"
#include "formats/anthropic.h"
#include "formats/gemini.h"
#include "formats/bedrock.h"
#include "formats/interactions.h"
#include "formats/pydantic.h"
#include "formats/responses.h"
#include "formats/format-table.h"
#include "formats/shorten.h"

#include "agent/wire.h"
#include "agent/items.h"
#include "agent/parts.h"
#include "agent/project.h"
#include "agent/emit.h"
#include "agent/previous.h"
#include "agent/request.h"
#include "agent/answer-parts.h"
#include "agent/answer-events.h"
#include "agent/answer.h"
#include "agent/compact.h"
#include "agent/task.h"
#include "agent/session.h"
#include "agent/arrays-end.h"
#endif /* MSGSTORE_NO_FORMATS */

#endif /* MSGSTORE_IMPLEMENTED */
#endif /* MSGSTORE_IMPLEMENTATION */
