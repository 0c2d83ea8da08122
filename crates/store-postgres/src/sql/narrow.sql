o.seq, o.event_id, o.route, o.type, o.key, o.tenant, o.status, o.due_at, o.last_error, o.group_id,
            {lane_of_o} as lane, {plain} as plain