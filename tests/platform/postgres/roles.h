/* Roles that see the locations of one prefix: backends/tenant.sql. Part of faults.c. */

#ifndef POSTGRES_ROLES_H
#define POSTGRES_ROLES_H

static void make_tenant(const char *name, const char *prefix)
{
    char text[900];
    snprintf(text, sizeof text, "create role %s login; grant usage on schema public to %s",
             name, name);
    ask_sql("one", text);
    snprintf(text, sizeof text, "psql -q '%s' -v tenant=%s -v prefix=%s -f"
             " backends/tenant.sql >&2", url_of("one", ""), name, prefix);
    if (system(text) != 0) fail_msg("tenant.sql: %s", name);
}

/* Tenant A has what it may: it appends, reads, changes, ships. Of B it gets no row, name
 * or number, and its appends there are refused. Totals are of what it sees. */
static void a_tenant_has_its_prefix_alone(void **state)
{
    ms_store *all = store_of_old();
    ms_error err;
    ms_listing listing;
    ms_list_query every;
    ms_query q;
    ms_arena arena;
    ms_stat stat;
    ms_pg_position zero, at, now;
    ms_envelope m = ms_user_message(ms_text("of tenant A"));
    uint64_t seq = 0, under = 0;
    (void)state;
    test_arena_init(&arena, NULL);
    memset(&every, 0, sizeof every);
    memset(&q, 0, sizeof q);
    make_tenant("tenant_a", "a/");
    make_tenant("tenant_b", "b/");
    uint64_t other = append_old(all, "b/1", 1);
    for (int i = 0; i < 4; i++) (void)append_old(all, "b/2", 1);
    must_ok(ms_hide(all, other, &err), &err, "hide");
    must_ok(ms_pg_ship_begin(all, MS_STR("of b"), &zero, &err), &err, "begin");
    at = zero;
    at.message = 5;
    must_ok(ms_pg_ship_end(all, MS_STR("of b"), &zero, &at, &err), &err, "end");

    ms_store *a = open_url(url_as("tenant_a", ""));
    must_ok(ms_append(a, MS_STR("a/1"), &m, &seq, &err), &err, "append");
    must_ok(ms_append(a, MS_STR("a/1"), &m, NULL, &err), &err, "append");
    must_ok(ms_amend(a, seq, &m, &err), &err, "amend");
    must_ok(ms_note(a, seq, MS_STR("k"), ms_text("noted"), &err), &err, "note");
    must_ok(ms_location_set(a, MS_STR("a/1"), MS_STR("{\"a\":1}"), &err), &err, "set");
    must_ok(ms_hide(a, seq, &err), &err, "hide");
    m.location = MS_STR("a/2");
    m.seq = 1;
    must_ok(ms_pg_ship(a, MS_STR("of a"), NULL, &m, 1, &under, &err), &err, "ship");
    must_ok(ms_pg_ship_begin(a, MS_STR("of b"), &now, &err), &err, "begin");
    assert_memory_equal(&now, &zero, sizeof now);
    /* not MS_E_CONFLICT, after which a shipper begins again */
    assert_int_equal(ms_pg_ship_end(a, MS_STR("of b"), &zero, &at, &err), MS_E_READ_ONLY);
    assert_non_null(strstr(err.message, "another role"));
    must_ok(ms_pg_ship_end(a, MS_STR("of a"), &zero, &at, &err), &err, "end");
    must_ok(ms_pg_ship_begin(a, MS_STR("of a"), &now, &err), &err, "begin");
    assert_int_equal(now.message, 5);
    assert_int_equal(ms_pg_ship_end(a, MS_STR("of a"), &zero, &at, &err), MS_E_CONFLICT);

    assert_int_equal(append_x(a, "b/1"), MS_E_READ_ONLY);
    assert_int_equal(append_x(a, "b/new"), MS_E_READ_ONLY);
    m.location = MS_STR("b/2");
    m.seq = 2;
    assert_int_equal(ms_pg_ship(a, MS_STR("of a"), NULL, &m, 1, &under, &err), MS_E_READ_ONLY);
    assert_non_null(strstr(err.message, "row-level security"));
    assert_int_equal(ms_location_set(a, MS_STR("b/1"), MS_STR("{\"a\":1}"), &err),
                     MS_E_READ_ONLY);
    assert_int_equal(ms_amend(a, other, &m, &err), MS_E_NOT_FOUND);
    const ms_msg *msg;
    assert_int_equal(ms_get_by_seq(a, other, &arena, &msg, &err), MS_E_NOT_FOUND);
    must_ok(ms_list(a, &every, &arena, &listing, &err), &err, "list");
    assert_int_equal(listing.count, 2);
    assert_int_equal(count_of(a, &q), 2);
    q.location = MS_STR("b/2");
    assert_int_equal(count_of(a, &q), 0);
    stat = stat_of(a);
    assert_int_equal(stat.messages, 2);
    assert_int_equal(stat.hidden, 1);
    assert_int_equal(stat.changes, 4);
    ms_close(a);

    a = open_url(url_as("tenant_b", ""));
    assert_int_equal(stat_of(a).messages, 4);
    ms_close(a);
    stat = stat_of(all);
    assert_int_equal(stat.messages, 6);
    assert_int_equal(stat.hidden, 2);
    ms_close(all);
    must_amount();
    ms_arena_deinit(&arena);
    ask_sql("one", "drop owned by tenant_a, tenant_b; drop role tenant_a, tenant_b;"
                   " alter table msgstore_record disable row level security; alter table"
                   " msgstore_location disable row level security; alter table"
                   " msgstore_source disable row level security; alter table"
                   " msgstore_retired disable row level security; alter table"
                   " msgstore_source drop column tenant; delete from msgstore_source");
}

static void must_refuse_role(const char *name, const char *table)
{
    ms_pg_desc desc = desc_of(url_as(name, ""));
    ms_store *store;
    ms_error err;
    desc.read_only = true;
    assert_int_equal(ms_pg_open(&store, &desc, &err), MS_E_READ_ONLY);
    if (!strstr(err.message, name) || !strstr(err.message, table))
        fail_msg("%s", err.message);
}

/* A role without a policy would see an empty store: it is refused, and the error names it
 * and the table. A policy of all roles, or of one that it is a member of, is one. */
static void a_role_without_a_policy_is_refused(void **state)
{
    ms_store *all = store_of_old();
    ms_pg_desc desc = desc_of(url_as("untenanted", ""));
    (void)state;
    (void)append_old(all, "c/1", 1);
    make_tenant("tenant_c", "c/");
    ask_sql("one", "create role untenanted login; grant select on all tables in schema"
                   " public to untenanted");
    must_refuse_role("untenanted", "msgstore_record");
    ask_sql("one", "create policy partly on msgstore_record to untenanted using (true)");
    must_refuse_role("untenanted", "msgstore_location");
    ask_sql("one", "drop policy partly on msgstore_record; create policy partly on"
                   " msgstore_record for update to untenanted using (true)");
    must_refuse_role("untenanted", "msgstore_record");
    ask_sql("one", "drop policy partly on msgstore_record; grant tenant_c to untenanted");
    desc.read_only = true;
    ms_store *store = open_desc(&desc); /* as a member */
    assert_int_equal(stat_of(store).messages, 1);
    ms_close(store);
    ask_sql("one", "revoke tenant_c from untenanted; create policy partly on"
                   " msgstore_record using (true); create policy partly on"
                   " msgstore_location using (true)");
    store = open_desc(&desc); /* of all roles */
    assert_int_equal(stat_of(store).messages, 1);
    ms_close(store);
    ms_close(all);
    ask_sql("one", "drop policy partly on msgstore_record; drop policy partly on"
                   " msgstore_location; drop owned by tenant_c, untenanted; drop role"
                   " tenant_c, untenanted; alter table msgstore_record disable row level"
                   " security; alter table msgstore_location disable row level security;"
                   " alter table msgstore_source disable row level security; alter table"
                   " msgstore_retired disable row level security; alter table"
                   " msgstore_source drop column tenant");
}

#endif /* POSTGRES_ROLES_H */
