/* msgstore export --format otlp: sessions as traces of OpenTelemetry. */

#ifndef OTLP_H
#define OTLP_H

#include "store.h"

/* Writes the job's store, or its chosen locations: a line of OTLP JSON for each, which is
 * one ExportTraceServiceRequest. */
int export_otlp(job *j);

#endif /* OTLP_H */
