/* The table of locations beside the records: what it must have. */

#ifndef POSTGRES_LOCATIONS_H
#define POSTGRES_LOCATIONS_H

#define PG_SHOWN "kind in (1, 3) and until is null"

/* Counts the locations whose row is not what the records amount to. */
#define PG_WRONG_LOCATIONS                                                               \
    "select count(*) from (select g.*, a.time as first_time, z.time as last_time from"   \
    " (select bucket, location, count(*) filter (where " PG_SHOWN ") as n,"              \
    " coalesce(min(seq) filter (where " PG_SHOWN "), 0) as first,"                       \
    " coalesce(max(seq) filter (where " PG_SHOWN "), 0) as newest,"                      \
    " coalesce(min(seq) filter (where kind = 1), 0) as least,"                           \
    " coalesce(max(seq) filter (where kind = 1), 0) as most, max(place) as place"        \
    " from msgstore_record group by bucket, location) as g"                              \
    " left join msgstore_record a on a.bucket = g.bucket and a.seq = g.first and"        \
    " a.kind in (1, 3) and a.until is null left join msgstore_record z on z.bucket ="    \
    " g.bucket and z.seq = g.newest and z.kind in (1, 3) and z.until is null) as w"      \
    " full join msgstore_location l on l.bucket = w.bucket and l.location = w.location"  \
    " where (l.n, l.first, l.newest, l.least, l.most, l.place, l.era, l.first_time,"     \
    " l.last_time) is distinct from (w.n, w.first, w.newest, w.least, w.most, w.place,"  \
    " w.newest >> 26, w.first_time, w.last_time)"

/* 1 if the counters of the buckets do not have the number of messages, or the newest. */
#define PG_WRONG_BUCKETS                                                              \
    "select ((select coalesce(sum(stored), 0) from msgstore_bucket) <> (select"       \
    " count(*) from msgstore_record where kind = 1) or (select max(newest) from"      \
    " msgstore_bucket) <> (select coalesce(max(seq), 0) from msgstore_record"         \
    " where kind = 1))::int"

#endif /* POSTGRES_LOCATIONS_H */
