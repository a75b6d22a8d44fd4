-- Every statement runs as recall_memory in a transaction that has set recall.subject; row-level security is the second
-- wall, the condition on subject is the first and lets the primary key be used.

-- name: act_as
-- Bound to this transaction alone, so a pooled connection never carries a subject over.
select set_config('recall.subject', $1, true)

-- name: lock_subject
-- Writes of one subject follow one another, so that the count of entries holds.
select pg_advisory_xact_lock(hashtextextended($1, 0))

-- name: count
select count(*) from memory.entries where subject = $1

-- name: insert
-- Nothing is inserted when the subject has an entry with the same folded text.
insert into memory.entries (subject, id, kind, text, folded_sha256, source, language)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (subject, folded_sha256) do nothing
returning id, kind, text, source, language, created_at, updated_at, expires_at

-- name: find_folded
select id, kind, text, source, language, created_at, updated_at, expires_at
from memory.entries where subject = $1 and folded_sha256 = $2

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

-- name: correct
-- The version moves on, so that work begun on the old text does not bring it back.
update memory.entries
set text = $3, folded_sha256 = $4, kind = coalesce($5, kind), version = version + 1, updated_at = now()
where subject = $1 and id = $2 and (expires_at is null or expires_at > now())
returning id, kind, text, source, language, created_at, updated_at, expires_at

-- name: drop_vectors
delete from memory.entry_vectors where subject = $1 and entry = $2

-- name: forget
-- Vectors go with the entry by their foreign key.
delete from memory.entries where subject = $1 and id = $2 returning id

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

-- name: stored_dimension
-- Asked only when a comparison failed.
select max(vector_dims(vector)) from memory.entry_vectors where subject = $1 and model = $2
