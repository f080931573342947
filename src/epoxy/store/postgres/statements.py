"""The statements of the PostgreSQL store, and why each is right under READ COMMITTED.

A statement reads what was committed when it began (its snapshot). Where it is about to lock or change a row that
another transaction changed since, it waits for that one's end and looks at the row's newest version: the conditions on
this row are judged anew, other rows stay as in the snapshot. So every condition that must hold at the commit stands on
a row that the statement locks or changes, and stays locked until the commit:

- COMMIT locks the session's row, if it is not fenced and expects this batch. A fencing that committed before is seen,
  one under way is waited for, and one that comes later waits for the commit. The same lock orders two attempts of one
  batch: the later one waits, and finds that the number is used.
- Then it changes the replica's row, if the configuration is not newer than the session's. The row stays locked until
  the commit, and other sessions' batches wait for it, so stamps become visible in their order, with no gap that a batch
  under way could fill later. All else is done only if this change was; the number of the batch too, so that a batch
  refused for its configuration leaves no trace.
- Rows are read by no condition. Those that it sets or deletes were written last by this session, or by an earlier owner
  whose last batch was committed before this session was told that it owns the shard: the snapshot has them. Changelog
  rows are new, because their stamps are.

A batch is committed with `synchronous_commit` off, and made durable by FLUSH, a transaction of its own that is
committed as the server is set up. PostgreSQL releases a transaction's locks only when its commit is on the disk, and at
the synchronous standby: batches of all sessions would wait for each other's syncs at the replica's row. The log is
written in one order, so what is durable is always a prefix of it:

- FLUSH writes a record that no reader sees and no lock guards; its commit comes later in the log than every batch that
  its snapshot shows. Where it is answered, they are durable, at the standby too. It is a fence query as well.
- After a crash all batches from some point on are gone, those of other sessions that came later among them, and each
  session's number says which of its own. Stamps of lost batches are given anew; rows with them were shown by none of
  the statements below without a FLUSH after it.
- Only COMMIT is so. What names owners of shards (TAKE, GIVE, CLOSE_SESSION) is durable before others see it. FENCE_DEAD
  waits for the lock that a batch of the dead session holds, so TAKE's commit comes later in the log than all of them:
  the next owner reads nothing that a crash can undo. GIVE comes after the owner's last flush.

What a commit that was not answered left behind is asked with FLUSH. Its own commit waits for the synchronous standby:
an old primary that has lost it says nothing of batches that the new one does not have.
"""

COMMIT = """
WITH held AS MATERIALIZED (
    SELECT FROM session WHERE id = $1::bigint AND NOT fenced AND batch = $2::bigint - 1 FOR UPDATE
), reached AS (
    UPDATE replica
    SET sequence = sequence + $4::bigint, position = position + $5::bigint,
        config_epoch = greatest(config_epoch, $6::bigint),
        stamped_bytes = stamped_bytes + (
            SELECT coalesce(sum(octet_length(prefix) + 10 + octet_length(suffix) + octet_length(value)), 0)
            FROM unnest($14::bytea[], $15::bytea[], $16::bytea[]) AS stamped (prefix, suffix, value)
        )
    WHERE id = $7::bigint AND config_epoch <= $3::bigint AND EXISTS (SELECT FROM held)
    RETURNING sequence, position, stamped_bytes
), counted AS (
    UPDATE session SET batch = $2::bigint, sequence = (SELECT sequence FROM reached)
    WHERE id = $1::bigint AND EXISTS (SELECT FROM reached)
), deletions AS (
    DELETE FROM "row" WHERE key = ANY ($8::bytea[]) AND EXISTS (SELECT FROM reached)
), changes AS (
    INSERT INTO "row" (key, value, shard)
    SELECT changed.key, changed.value, changed.shard
    FROM reached, unnest($9::bytea[], $10::bytea[], $11::smallint[]) AS changed (key, value, shard)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, shard = excluded.shard
), stamps AS (
    INSERT INTO "row" (key, value, shard)
    SELECT prefix || int8send(reached.sequence - $4::bigint + number) || substr(int4send(index), 3) || suffix, value, -1
    FROM reached, unnest($12::bigint[], $13::integer[], $14::bytea[], $15::bytea[], $16::bytea[])
        AS stamped (number, index, prefix, suffix, value)
)
SELECT sequence, set_config('synchronous_commit', 'off', true) FROM reached
"""
"""A stamp is eight bytes of the commit's number and two of the row's within it, as `buffer.stamp` has it. The setting
is read at the commit, and ends with the transaction; a batch that is refused does not change it."""

FLUSH = """
SELECT session.fenced, session.batch, session.sequence, replica.config_epoch, replica.sequence AS newest_stamp,
       replica.position, replica.stamped_bytes, pg_logical_emit_message(true, 'epoxy', '')
FROM session LEFT JOIN replica ON replica.id = $2 WHERE session.id = $1
"""
"""Without a row of the session nothing is flushed, and nothing may be told. The message is a part of the transaction,
and costs a few bytes of the log."""

FLUSH_LOG = "SELECT pg_logical_emit_message(true, 'epoxy', '')"
"""For a connection that has read what others may not have flushed."""

FENCE = """
SELECT replica.config_epoch <= $2,
       CASE WHEN current_setting('synchronous_standby_names') <> '' THEN pg_logical_emit_message(true, 'epoxy', '') END
FROM session, replica WHERE session.id = $1 AND NOT session.fenced AND replica.id = $3
"""
"""Where commits wait for a standby the answer does, too: of two servers that both believe they are the primary, the old
one has no standby any more, and must not say that a session is in force which was fenced at the other. Without one the
statement only reads."""

LOAD = 'SELECT key, value FROM "row" WHERE key = ANY ($1::bytea[])'
LOAD_SHARD = 'SELECT key, value FROM "row" WHERE shard = {shard:d} AND key > $1 ORDER BY key LIMIT $2'
"""The shard's number is written out: only so can the index of the system shard serve it."""

RANGE = 'SELECT key, value FROM "row" WHERE key >= $1 AND key < $2 ORDER BY key LIMIT $3'
REVERSE_RANGE = 'SELECT key, value FROM "row" WHERE key >= $1 AND key < $2 ORDER BY key DESC LIMIT $3'
POSITION = "SELECT sequence, position FROM replica WHERE id = $1"

OPEN_SESSION = """
INSERT INTO session (id, url, version, started, lease_end, fenced, batch, sequence, format)
SELECT coalesce(max(id), 0) + 1, $1, $2, clock_timestamp(), clock_timestamp() + $3 * interval '1 ms', false, 0, 0, $4
FROM session
ON CONFLICT DO NOTHING
RETURNING id
"""
"""No row: another process opened one in the same moment, and this is asked again. Tables of format 1 have no such
column: a session that is in force knows the format in which its batches are read."""

FORGET_SESSIONS = "DELETE FROM session WHERE lease_end < clock_timestamp() - interval '1 day' AND id < $1"
"""A session that is not there is a fenced one. The newest stays, so that no id is used twice."""

RENEW = "UPDATE session SET lease_end = clock_timestamp() + $2 * interval '1 ms' WHERE id = $1 AND NOT fenced"

TABLE = """
SELECT ARRAY(SELECT id FROM session WHERE NOT fenced ORDER BY id) AS ids,
       ARRAY(SELECT url FROM session WHERE NOT fenced ORDER BY id) AS urls,
       ARRAY(SELECT version FROM session WHERE NOT fenced ORDER BY id) AS versions,
       ARRAY(SELECT (extract(epoch FROM lease_end - statement_timestamp()) * 1000)::float8
             FROM session WHERE NOT fenced ORDER BY id) AS left_ms,
       ARRAY(SELECT coalesce(session.id, 0)
             FROM shard LEFT JOIN session ON session.id = shard.owner AND NOT session.fenced
             ORDER BY shard.id) AS owners,
       ARRAY(SELECT epoch FROM shard ORDER BY id) AS epochs
"""
"""One statement, so that it is one state."""

TAKER = "SELECT FROM session WHERE id = $1 AND NOT fenced FOR SHARE"
FENCE_DEAD = """
UPDATE session SET fenced = true
WHERE id = ANY ($1::bigint[]) AND id <> $2 AND NOT fenced AND lease_end < clock_timestamp()
"""
LOCK_SHARDS = "SELECT FROM shard WHERE id = ANY ($1::smallint[]) ORDER BY id FOR UPDATE"
TAKE = """
UPDATE shard SET owner = $1, epoch = epoch + 1
WHERE id = ANY ($2::smallint[])
  AND NOT EXISTS (SELECT FROM session WHERE session.id = shard.owner AND NOT session.fenced)
RETURNING id
"""
"""The four are one transaction. TAKE judges rows of owners, which it does not change: its snapshot must be newer than
the locks of the shards, or it could miss that a session took one which it has not seen yet."""

GIVE = """
UPDATE shard SET owner = nullif($4::bigint, 0), epoch = epoch + 1
WHERE id = $2 AND owner = $1 AND epoch = $3
  AND EXISTS (SELECT FROM session WHERE id = $1 AND NOT fenced)
  AND ($4 = 0 OR EXISTS (SELECT FROM session WHERE id = $4 AND NOT fenced))
RETURNING id
"""
"""If one of the two is fenced in the same moment, the shard goes to it or away from it all the same: then it is free,
or goes from a session that says nothing any more to one that reads the shard anew."""

CLOSE_SESSION = "UPDATE session SET fenced = true WHERE id = $1"
