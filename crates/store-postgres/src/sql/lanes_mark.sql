-- Nobody takes the lanes of these rows ($1) until this transaction ends. In this order, so that who buries the session of a lane
-- and then changes its entries never waits for one that waits for it.
select l.lane from {lane} as l
where (l.route, l.lane) in (select o.route, {lane_of_o} from {outbox} as o where o.seq = any ($1::bigint[]))
order by l.route, l.lane
for no key update
