-- The same as `lanes_read.sql` where next to nothing is new: the few numbers above $7 and up to $8 are gone through, which
-- costs a third of looking into every lane. It is an answer if all lanes are held and have the revision that the reader
-- knows ($5), and if no number above $8 was drawn. Floors ($3) and cursors ($4) are as there; of each lane there may be more
-- entries than the reader wants.
select null, {unread},
    (select count(*) from {lane} where route = $1 and session = $2 and revision = ($5::bigint[])[lane + 1]
        and exists (select from {lane_session} where route = $1 and session = $2)) as same,
    array(select seq from {outbox}
        where seq > $7 and seq <= $8 and route = $1 and status > 'in_flight'
            and seq > ($3::bigint[])[{lane_of} + 1] and seq <= ($4::bigint[])[{lane_of} + 1] and {plain}
        order by seq) as present,
    {writers} as writers,
    {drawn} as drawn,
    (extract(epoch from statement_timestamp()) * 1000000)::bigint as now
union all
(select {read}, {lane_of}::smallint, null, null, null, null, null
    from {outbox}
    where seq > $7 and seq <= $8 and route = $1 and status > 'in_flight' and seq > ($4::bigint[])[{lane_of} + 1]
        and {plain}
    order by seq)
