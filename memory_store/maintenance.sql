-- Every statement runs as recall_maintenance, which sees the rows of all subjects and serves no request.

-- name: expire
-- What a write is deleting this moment is left to it, so that neither waits for the other.
delete from memory.entries where (subject, id) in (
    select subject, id from memory.entries where expires_at <= now() for update skip locked
)

-- name: scrub_is_due
-- Something was deleted on an earlier day, and it is late enough on this one.
select exists (select 1 from memory.scrub_due where day < (now() at time zone 'utc')::date)
    and extract(hour from now() at time zone 'utc') >= $1::int

-- name: begin_scrub
-- What is deleted from now on makes the next scrub due; what was before keeps this one due until it has ended. The answer
-- is today.
with kept as (
    insert into memory.scrub_due (day) select (now() at time zone 'utc')::date - 1 where exists (select 1 from memory.scrub_due)
    on conflict do nothing
)
delete from memory.scrub_due where day = (now() at time zone 'utc')::date

-- name: today
select (now() at time zone 'utc')::date

-- name: scrub_ended
delete from memory.scrub_due where day < $1

-- name: try_scrub_lock
select pg_try_advisory_lock(7255103)

-- name: scrub_unlock
select pg_advisory_unlock(7255103)

-- name: mark
select pg_current_xact_id()::xid

-- name: older_work
-- Transactions, snapshots and replication slots from before the mark, for which deleted rows must still be kept.
select (select count(*) from pg_stat_activity
        where pid <> pg_backend_pid()
          and (datname is null or datname = current_database())
          and greatest(age(backend_xid), age(backend_xmin)) > age($1::xid))
    + (select count(*) from pg_prepared_xacts where age(transaction) > age($1::xid))
    + (select count(*) from pg_replication_slots where greatest(age(xmin), age(catalog_xmin)) > age($1::xid))

-- name: table_bytes
select pg_total_relation_size('memory.entries') + pg_total_relation_size('memory.entry_vectors')

-- name: count_pending
select count(*) from memory.entries e
where (expires_at is null or expires_at > now())
  and not exists (select 1 from memory.entry_vectors v where v.subject = e.subject and v.model = $1 and v.entry = e.id)

-- name: pending
-- In the order of the primary key, after the last one seen.
select subject, id, text, version from memory.entries e
where (subject, id) > ($2, $3) and (expires_at is null or expires_at > now())
  and not exists (select 1 from memory.entry_vectors v where v.subject = e.subject and v.model = $1 and v.entry = e.id)
order by subject, id
limit $4

-- name: put_vector
-- Only for the text that was embedded: what was corrected or forgotten meanwhile takes no vector of its old text.
insert into memory.entry_vectors (subject, model, entry, ordinal, vector)
select $1, $2, id, 0, $4 from memory.entries where subject = $1 and id = $3 and version = $5 for share
on conflict (subject, model, entry, ordinal) do nothing

-- name: drop_other_models
delete from memory.entry_vectors where model <> $1

-- name: forget_other_models
delete from memory.models where model <> $1
