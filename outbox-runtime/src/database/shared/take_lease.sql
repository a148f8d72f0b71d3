-- Takes the lease, if the cursor is still as it was read.
-- $partition, $consumer: whose cursor.              $owner: this process.
-- $read_epoch, $read_processed: as they were read.  $lease_us, $lease_ms: the length of the lease.
UPDATE outbox_cursor SET
    lease_owner = $owner,
    lease_epoch = lease_epoch + 1,
    lease_until = {after $lease_us},
    lease_ms = $lease_ms
WHERE partition_id = $partition AND consumer = $consumer
    AND lease_epoch = $read_epoch AND processed_seq = $read_processed
    AND {lease_is_free}
