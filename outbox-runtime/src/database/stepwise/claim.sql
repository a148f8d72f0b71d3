-- Acknowledges and claims, or acknowledges and gives the lease back, if the cursor is still as it was
-- read.
--
-- $partition, $consumer: whose cursor.              $owner: this process.
-- $processed, $claimed: what is done and what is claimed from now on.
-- $read_epoch, $read_processed: as they were read. A process that had the lease may have moved on
-- without raising the epoch; without this comparison the cursor would go back.
UPDATE outbox_cursor SET
    processed_seq = $processed,
    claimed_seq = $claimed,
    {lease}
WHERE partition_id = $partition AND consumer = $consumer
    AND lease_epoch = $read_epoch AND processed_seq = $read_processed
    AND {lease_is_free}
