/* Must not compile with MSGSTORE_NO_LOG: then there is no log to open. */
#include "msgstore.h"

int main(void)
{
    ms_store *store;
    ms_log_desc desc;
    desc.path = "use.msl";
    return ms_log_open(&store, &desc, NULL) == MS_OK;
}
