-- Waits for whoever stages this key in order, and makes the next one wait for this transaction's end. A statement of
-- its own: the number of an entry is drawn before any trigger of its INSERT, so a lock in one would come too late.
select {serialize}($1::text, $2::text)
