-- Whoever changes hands of a route's lanes does so one after the other. No key: nobody waits for it who only settles.
select lane from {lane} where route = $1 and lane = 0 for no key update
