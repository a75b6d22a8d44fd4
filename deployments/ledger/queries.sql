-- Run as recall_ledger, except the sweep_ blocks, which run as recall_maintenance. The day is UTC by the database's clock.

-- name: issue_key
insert into ledger.keys (id, name, subject, secret_sha256, rights, limits, expires_at)
values ($1, $2, $3, $4, $5, $6, now() + $7::interval)
returning id, name, subject, rights, limits, created_at, expires_at, revoked_at

-- name: find_key
-- Whole digest, unique index: what a wrong key shares with a right one makes no difference.
select subject, rights, limits from ledger.keys
where secret_sha256 = $1 and revoked_at is null and (expires_at is null or expires_at > now())

-- name: list_keys
select id, name, subject, rights, limits, created_at, expires_at, revoked_at from ledger.keys order by created_at, id

-- name: count_keys
select count(*) from ledger.keys

-- name: revoke_key
update ledger.keys set revoked_at = now() where id = $1 and revoked_at is null returning id

-- name: reserve
-- One statement: the day's row is made or grown only where the sum stays within the limit, and only then is there a
-- reservation. A subject's first requests race on the primary key and are counted like all others.
with day as (
    insert into ledger.days as d (subject, resource, day, reserved)
    select $2, $3, (now() at time zone 'utc')::date, $4::bigint where $4::bigint <= $5::bigint
    on conflict (subject, resource, day) do update set reserved = d.reserved + excluded.reserved
        where d.used + d.reserved + excluded.reserved <= $5::bigint
    returning subject, resource, day
)
insert into ledger.reservations (id, subject, resource, day, amount, expires_at)
select $1, subject, resource, day, $4::bigint, now() + $6::interval from day
returning id

-- name: settle
-- Charged to the day of the reservation. A second settlement finds no reservation and changes nothing.
with gone as (
    delete from ledger.reservations where id = $1 returning subject, resource, day, amount
)
update ledger.days d set used = d.used + $2, reserved = d.reserved - gone.amount
from gone where d.subject = gone.subject and d.resource = gone.resource and d.day = gone.day
returning d.used

-- name: today
select coalesce(d.used, 0) as used, coalesce(d.reserved, 0) as reserved,
    date_trunc('day', now() at time zone 'utc') + interval '1 day' as resets_at,
    ceil(extract(epoch from date_trunc('day', now() at time zone 'utc') + interval '1 day'
        - (now() at time zone 'utc')))::int as resets_in_seconds
from (select 1) one
left join ledger.days d on d.subject = $1 and d.resource = $2 and d.day = (now() at time zone 'utc')::date

-- name: count_request
insert into ledger.minutes as m (subject, minute, requests)
select $1, date_trunc('minute', now()), 1 where $2 > 0
on conflict (subject, minute) do update set requests = m.requests + 1 where m.requests < $2
returning requests

-- name: minute_ends
select ceil(60 - extract(second from now()))::int

-- name: lock_turns
select pg_advisory_xact_lock(hashtextextended('turns ' || $1, 0))

-- name: open_turn
insert into ledger.turns (id, subject, expires_at)
select $1, $2, now() + $4::interval
where (select count(*) from ledger.turns where subject = $2 and expires_at > now()) < $3
returning id

-- name: close_turn
delete from ledger.turns where id = $1

-- name: add_generation
insert into ledger.generations (id, subject, agent, tier, model, started_at, ended_at, prompt_tokens, completion_tokens,
    cached_tokens, embedding_tokens, steps, tools, stop_reason, outcome, answer_hmac, tainted)
values ($1, $2, $3, $4, $5, $6, now(), $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
on conflict (id) do nothing

-- name: list_generations
select id, agent, tier, model, started_at, ended_at, prompt_tokens, completion_tokens, cached_tokens, embedding_tokens,
    steps, tools, stop_reason, outcome, tainted
from ledger.generations
where subject = $1 and ($2::text is null or id < $2)
order by id desc
limit $3

-- name: clean_answers
-- Which of these answers this subject was given in turns that read nothing from outside.
select distinct answer_hmac from ledger.generations
where subject = $1 and not tainted and answer_hmac = any($2::bytea[])

-- name: add_tool_call
insert into ledger.tool_calls (id, subject, generation, door, tool, status, started_at, elapsed_ms, bytes_in, bytes_out,
    host, page_bytes)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)

-- name: sweep_reservations
-- What a crash left behind is charged in full, each once.
with gone as (
    delete from ledger.reservations where expires_at <= now() returning subject, resource, day, amount
), sums as (
    select subject, resource, day, sum(amount) as amount from gone group by subject, resource, day
)
update ledger.days d set used = d.used + sums.amount, reserved = d.reserved - sums.amount
from sums where d.subject = sums.subject and d.resource = sums.resource and d.day = sums.day

-- name: sweep_turns
delete from ledger.turns where expires_at <= now()

-- name: sweep_minutes
delete from ledger.minutes where minute < now() - interval '5 minutes'

-- name: sweep_records
with old_calls as (delete from ledger.tool_calls where started_at < now() - $1::interval)
delete from ledger.generations where started_at < now() - $1::interval
