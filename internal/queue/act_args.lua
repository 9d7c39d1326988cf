-- act: what a person does with jobs, some at a call; of a longer operation, one step with its progress.
-- KEYS: the lane's fixed list (redisdb/keys.go), and for an operation its hash behind it.
-- ARGV[1] lane
-- ARGV[2] wake     channel that wakes workers
-- ARGV[3] verb     cancel, redrive, deliver or erase
-- ARGV[4] fill     redrive: percent of capacity and bytes up to which it fills the queue
-- ARGV[5] step     1: of an operation
-- ARGV[6] from     cursor of the operation as the caller read it
-- ARGV[7] to       cursor behind all jobs of this call
-- ARGV[8] seen     jobs that were looked at for this call
-- ARGV[9] matched  of them; more than are given when they are only counted
-- ARGV[10] state   of the operation afterwards
-- ARGV[11] jobs    six arguments each: id, mark of the job as the caller read it, requests sent so far, what is
--                  kept of it, cursor behind it, jobs looked at up to it
-- Reply: {'no_lane' | 'faulty'}, {'moved' | 'cancelled' | 'deleted'} when the operation is elsewhere, was cancelled or is of an
-- earlier destination of this name, or
-- {'ok', verdicts, wait µs until a place is free}. A verdict: ok; again (it was so before); in_flight; live; finished;
-- not_unknown; changed (since the caller read it); expired; unreadable; too_large; full, bytes_full (and all behind it); gone.
A = {lane = ARGV[1], wake = ARGV[2], verb = ARGV[3], fill = tonumber(ARGV[4]), step = ARGV[5] == '1', from = ARGV[6], to = ARGV[7],
  seen = tonumber(ARGV[8]), matched = tonumber(ARGV[9]), state = ARGV[10], jobs = 11,
  expect = 0, width = 0, lead = 1000, horizon = 100000, confirmed = '', move = 0}
