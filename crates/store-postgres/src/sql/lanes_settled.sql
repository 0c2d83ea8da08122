-- Waits until every claim that began before the caller joined has ended: see may_claim.
select pg_advisory_xact_lock(7458911, '{outbox}'::regclass::oid::integer)::text
