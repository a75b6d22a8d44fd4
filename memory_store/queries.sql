-- Every statement runs as recall_memory in a transaction that has set recall.subject; row-level security is the second
-- wall, the condition on subject is the first and lets the primary key be used. What has expired is never read, and is
-- deleted before a write could meet it. `subjects.py` and `models.py` run some as recall_maintenance, which sees all rows.

-- name: act_as
-- Bound to this transaction alone, so a pooled connection never carries a subject over.
select set_config('recall.subject', $1, true)

-- name: lock_subject
-- Writes of one subject follow one another, so that the count of entries holds.
select pg_advisory_xact_lock(hashtextextended($1, 0))

-- name: drop_expired
delete from memory.entries where subject = $1 and expires_at <= now()

-- name: count
select count(*) from memory.entries where subject = $1 and (expires_at is null or expires_at > now())

-- name: insert
-- Nothing is inserted when the subject has an entry with the same folded text.
insert into memory.entries (subject, id, kind, text, folded_sha256, source, language, expires_at)
values ($1, $2, $3, $4, $5, $6, $7, $8)
on conflict (subject, folded_sha256) do nothing
returning id, kind, text, source, language, created_at, updated_at, expires_at

-- name: find_folded
select id, kind, text, source, language, created_at, updated_at, expires_at
from memory.entries where subject = $1 and folded_sha256 = $2 and (expires_at is null or expires_at > now())

-- name: put_vector
insert into memory.entry_vectors (subject, model, entry, ordinal, vector) values ($1, $2, $3, 0, $4)
on conflict (subject, model, entry, ordinal) do update set vector = excluded.vector

-- name: get
select id, kind, text, source, language, created_at, updated_at, expires_at
from memory.entries where subject = $1 and id = $2 and (expires_at is null or expires_at > now())

-- name: page
-- Newest first; an id sorts by time, so the last id seen is a stable cursor.
select id, kind, text, source, language, created_at, updated_at, expires_at
from memory.entries
where subject = $1 and ($2::text is null or kind = $2) and ($3::text is null or id < $3)
  and (expires_at is null or expires_at > now())
order by id desc
limit $4

-- name: search
-- Every word of $5 stands in the text, in any case and with or without diacritics. Words are compared as they are: no
-- character of theirs is an operator.
with wanted as (select array(select memory.plain(word) from unnest($5::text[]) word) as words)
select id, kind, text, source, language, created_at, updated_at, expires_at
from memory.entries e
cross join lateral (select memory.plain(e.text) as plain offset 0) p
where e.subject = $1 and ($2::text is null or e.kind = $2) and ($3::text is null or e.id < $3)
  and (e.expires_at is null or e.expires_at > now())
  and (select bool_and(position(word in p.plain) > 0) from wanted, unnest(wanted.words) word)
order by e.id desc
limit $4

-- name: correct
-- The version moves on, so that work begun on the old text does not bring it back. An episode whose text a person
-- replaces is a fact they told.
update memory.entries
set text = coalesce($3, text), folded_sha256 = coalesce($4, folded_sha256),
    language = case when $3::text is null then language else $5 end,
    kind = case when $6::text is not null then $6 when $3::text is not null and kind = 'episode' then 'fact' else kind end,
    expires_at = case when $7::boolean then $8::timestamptz else expires_at end,
    source = case when $3::text is null then source else $9::jsonb end,
    version = version + 1, updated_at = now()
where subject = $1 and id = $2 and (expires_at is null or expires_at > now())
returning id, kind, text, source, language, created_at, updated_at, expires_at

-- name: drop_vectors
delete from memory.entry_vectors where subject = $1 and entry = $2

-- name: forget
-- Vectors go with the entry by their foreign key.
delete from memory.entries where subject = $1 and id = $2 returning id

-- name: forget_all
with gone as (delete from memory.entries where subject = $1 returning 1) select count(*) from gone

-- name: known
-- Which of these folded texts the subject has.
select folded_sha256 from memory.entries
where subject = $1 and folded_sha256 = any($2::bytea[]) and (expires_at is null or expires_at > now())

-- name: ids_taken
select id from memory.entries where subject = $1 and id = any($2::text[])

-- name: import
-- All of a file's entries in one statement. The subject is locked, and none of the texts is there.
insert into memory.entries
    (subject, id, kind, text, folded_sha256, source, language, created_at, updated_at, expires_at)
select $1, id, kind, text, folded, source, language, created_at, updated_at, expires_at
from unnest($2::text[], $3::text[], $4::text[], $5::bytea[], $6::jsonb[], $7::text[], $8::timestamptz[],
    $9::timestamptz[], $10::timestamptz[])
    as line (id, kind, text, folded, source, language, created_at, updated_at, expires_at)

-- name: nearest
-- Exact within the subject. An entry with several vectors counts by its nearest. `<=>` is cosine distance, so the score
-- is 1 minus it: higher is nearer. Ties go to the newer entry.
select e.id, e.kind, e.text, e.source, e.language, e.created_at, e.updated_at, e.expires_at, n.score
from (
    select entry, 1 - min(vector <=> $3) as score
    from memory.entry_vectors where subject = $1 and model = $2
    group by entry
) n
join memory.entries e on e.subject = $1 and e.id = n.entry
where e.expires_at is null or e.expires_at > now()
order by n.score desc, e.id desc
limit $4

-- name: similar
-- Other entries that nearly say the same, the nearest first.
select entry from memory.entry_vectors
where subject = $1 and model = $2 and entry <> $4
group by entry
having 1 - min(vector <=> $3) >= $5
order by min(vector <=> $3), entry desc
limit $6

-- name: not_embedded
-- Entries that recall cannot find yet, since the model in use made no vector of them.
select (select count(*) from memory.entries where subject = $1)
    - (select count(*) from memory.entry_vectors where subject = $1 and model = $2 and ordinal = 0)

-- name: stored_dimension
-- Asked only when a comparison failed.
select max(vector_dims(vector)) from memory.entry_vectors where subject = $1 and model = $2

-- name: register_model
insert into memory.models (model, dimension) values ($1, $2) on conflict (model) do nothing

-- name: dimension_of
select dimension from memory.models where model = $1
