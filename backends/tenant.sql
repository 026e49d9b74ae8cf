-- Lets a role read and write the locations with one prefix, and no others. By the owner of
-- the tables, after a store was opened once:
--
--     psql URL -v tenant=team_a -v prefix=a/ -f tenant.sql
--
-- The role must exist. Each tenant needs one call; a second one with another prefix adds
-- to it. Roles that are no tenants and do not own the tables cannot open the store
-- afterwards: give them the prefix '' (all locations), or BYPASSRLS.
\set ON_ERROR_STOP on
begin;
alter table msgstore_record enable row level security;
alter table msgstore_location enable row level security;
alter table msgstore_source enable row level security;
alter table msgstore_retired enable row level security;
alter table msgstore_source add column if not exists tenant name default current_user;

grant select on msgstore_schema, msgstore_bucket, msgstore_record, msgstore_location,
    msgstore_source, msgstore_retired to :"tenant";
grant insert on msgstore_record, msgstore_location, msgstore_source to :"tenant";
grant update on msgstore_bucket, msgstore_record, msgstore_location, msgstore_source
    to :"tenant";

select 'msgstore ' || :'tenant' || ' ' || :'prefix' as policy \gset
create policy :"policy" on msgstore_record to :"tenant"
    using (starts_with(location, :'prefix'));
create policy :"policy" on msgstore_location to :"tenant"
    using (starts_with(location, :'prefix'));
create policy :"policy" on msgstore_source to :"tenant"
    using (tenant = current_user);
create policy :"policy" on msgstore_retired for select to :"tenant"
    using (starts_with(prefix, :'prefix') or starts_with(:'prefix', prefix));
commit;
