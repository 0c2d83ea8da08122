//! The statements of the measurements, one set a database. All names are constants; all values are bound.

/// One database's statements.
pub(crate) struct Sql {
    /// Creates the tables of an application.
    pub(crate) create: &'static str,
    /// Drops them, and the outbox that grows.
    pub(crate) drop: &'static str,
    /// One business row. `$1` text.
    pub(crate) business: &'static str,
    /// The statements of an order, in their order: a product's price read, its stock lowered (`$1` the product), the
    /// order and its one line inserted (`$1` the order, `$2` the product).
    pub(crate) order: [&'static str; 4],
    /// Products that orders are made of.
    pub(crate) load_products: &'static str,
    /// Empties the outbox.
    pub(crate) clear_outbox: &'static str,
    /// Empties the table of sagas.
    pub(crate) clear_sagas: &'static str,
    /// Pending entries. `$1` payload, `$2` how many, `$3` keys.
    pub(crate) load_outbox: &'static str,
    /// Empties the table that grows.
    pub(crate) clear_big: &'static str,
    /// Settled entries of the table that grows. `$1` payload, `$2` how many, `$3` keys.
    pub(crate) load_big_settled: &'static str,
    /// Pending entries of the table that grows. `$1` payload, `$2` how many, `$3` keys.
    pub(crate) load_big_pending: &'static str,
    /// Makes a part of the pending entries of the table that grows dead or retrying, and gives a part a tenant; none: it
    /// is not written.
    pub(crate) spread_big: Option<&'static str>,
    /// What a database does by itself after a while: statistics, and the log folded in.
    pub(crate) settle_down: &'static str,
    /// Writes down what was loaded. Until it is, the next minutes pay for it, and from then on the first change of a page
    /// costs more: what is compared begins alike. Where one may not, it is left to the weather.
    pub(crate) write_down: &'static str,
    /// What makes a transaction that is left open hurt: dead rows and the log must be kept for it.
    pub(crate) hold: &'static str,
    /// Bytes that were written ahead so far, as text; none where the database does not tell. `$1` is not looked at.
    pub(crate) wal_bytes: Option<&'static str>,
    /// The server's processes that work for us, as text; none where there is no server. `$1` is not looked at.
    pub(crate) processes: Option<&'static str>,
}

pub(crate) const SQLITE: Sql = Sql {
    create: "
        create table pillarbox_bench_business (id integer primary key, note text not null);
        create table pillarbox_bench_product (
            id integer primary key, name text not null, price integer not null, stock integer not null);
        create table pillarbox_bench_order (
            id text primary key, customer text not null, status text not null default 'placed',
            total integer not null, placed_at integer not null default (unixepoch()));
        create table pillarbox_bench_line (
            order_id text not null, product integer not null, quantity integer not null, price integer not null,
            primary key (order_id, product));",
    drop: "
        drop table if exists pillarbox_bench_business;
        drop table if exists pillarbox_bench_product;
        drop table if exists pillarbox_bench_order;
        drop table if exists pillarbox_bench_line;
        drop table if exists pillarbox_bench_big_outbox;
        drop table if exists pillarbox_bench_big_audit;
        drop table if exists pillarbox_bench_big_inbox;
        drop table if exists pillarbox_bench_big_inbox_fence;
        drop table if exists pillarbox_bench_big_lane;
        drop table if exists pillarbox_bench_big_lane_session;
        drop table if exists pillarbox_bench_big_relay;
        drop table if exists pillarbox_bench_big_route_state;
        drop table if exists pillarbox_bench_big_saga;
        drop table if exists pillarbox_bench_big_serial;
        drop table if exists pillarbox_bench_big_schema;",
    business: "insert into pillarbox_bench_business (note) values ($1)",
    order: [
        "select price from pillarbox_bench_product where id = cast($1 as integer)",
        "update pillarbox_bench_product set stock = stock - 1 where id = cast($1 as integer)",
        "insert into pillarbox_bench_order (id, customer, total) values ($1, 'a customer of product ' || $2, 1999)",
        "insert into pillarbox_bench_line (order_id, product, quantity, price) values ($1, cast($2 as integer), 1, 1999)",
    ],
    load_products: "
        with recursive n (i) as (select 1 union all select i + 1 from n where i < 1000)
        insert into pillarbox_bench_product select i, 'product ' || i, 1999, 1000000 from n",
    clear_outbox: "delete from pillarbox_bench_outbox",
    clear_sagas: "delete from pillarbox_bench_saga",
    load_outbox: "
        with recursive n (i) as (select 1 union all select i + 1 from n where i < $2)
        insert into pillarbox_bench_outbox (route, type, payload_bytes, key)
        select 'bench', 'bench.event', $1, case when $3 > 0 then 'k-' || (i % $3) end from n",
    clear_big: "delete from pillarbox_bench_big_outbox",
    load_big_settled: "
        with recursive n (i) as (select 1 union all select i + 1 from n where i < $2)
        insert into pillarbox_bench_big_outbox (route, type, payload_bytes, key, status, attempts, settled_at)
        select 'bench', 'bench.event', $1, case when $3 > 0 then 'k-' || (i % $3) end, 'delivered', 1, unixepoch() * 1000000 from n",
    load_big_pending: "
        with recursive n (i) as (select 1 union all select i + 1 from n where i < $2)
        insert into pillarbox_bench_big_outbox (route, type, payload_bytes, key)
        select 'bench', 'bench.event', $1, case when $3 > 0 then 'k-' || (i % $3) end from n",
    spread_big: Some(
        "update pillarbox_bench_big_outbox set status = 'dead', attempts = 5,
            last_error = 'rejected/no: the bench refuses it', settled_at = unixepoch() * 1000000
        where settled_at is null and seq % 20 = 0;
        update pillarbox_bench_big_outbox set status = 'retrying', attempts = 1,
            last_error = 'failed/busy: the bench is busy', due_at = (unixepoch() + 86400) * 1000000
        where settled_at is null and seq % 20 = 1;
        update pillarbox_bench_big_outbox set tenant = 't-' || (seq / 20 % 50)
        where settled_at is null and seq % 20 = 2",
    ),
    settle_down: "pragma wal_checkpoint(truncate)",
    write_down: "pragma wal_checkpoint(truncate)",
    hold: "select count(*) from pillarbox_bench_outbox",
    wal_bytes: None,
    processes: None,
};

pub(crate) const POSTGRES: Sql = Sql {
    // Ids begin with the time, as those that an application gives: an index of these is written at its end.
    create: "
        create function pillarbox_bench.event_id() returns uuid language sql volatile as $function$
            select overlay(replace(gen_random_uuid()::text, '-', '')
                placing lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
                from 1 for 13)::uuid
        $function$;
        create table pillarbox_bench.business (id bigserial primary key, note text not null);
        create table pillarbox_bench.product (
            id bigint primary key, name text not null, price bigint not null, stock bigint not null);
        create table pillarbox_bench.orders (
            id text primary key, customer text not null, status text not null default 'placed',
            total bigint not null, placed_at timestamptz not null default now());
        create table pillarbox_bench.line (
            order_id text not null, product bigint not null, quantity bigint not null, price bigint not null,
            primary key (order_id, product));",
    drop: "drop schema if exists pillarbox_bench cascade",
    business: "insert into pillarbox_bench.business (note) values ($1)",
    order: [
        "select price from pillarbox_bench.product where id = $1::text::bigint",
        "update pillarbox_bench.product set stock = stock - 1 where id = $1::text::bigint",
        "insert into pillarbox_bench.orders (id, customer, total) values ($1, 'a customer of product ' || $2::text, 1999)",
        "insert into pillarbox_bench.line (order_id, product, quantity, price) values ($1, $2::text::bigint, 1, 1999)",
    ],
    load_products: "
        insert into pillarbox_bench.product
        select i, 'product ' || i, 1999, 1000000 from generate_series(1, 1000) as i",
    clear_outbox: "truncate pillarbox_bench.pillarbox_outbox",
    clear_sagas: "truncate pillarbox_bench.pillarbox_saga",
    load_outbox: "
        insert into pillarbox_bench.pillarbox_outbox (event_id, route, type, payload_bytes, key)
        select pillarbox_bench.event_id(), 'bench', 'bench.event', $1, case when $3 > 0 then 'k-' || (i % $3) end from generate_series(1, $2) as i",
    clear_big: "truncate pillarbox_bench.big_outbox",
    load_big_settled: "
        insert into pillarbox_bench.big_outbox (event_id, route, type, payload_bytes, key, status, attempts, settled_at)
        select pillarbox_bench.event_id(), 'bench', 'bench.event', $1, case when $3 > 0 then 'k-' || (i % $3) end, 'delivered', 1, now() from generate_series(1, $2) as i",
    load_big_pending: "
        insert into pillarbox_bench.big_outbox (event_id, route, type, payload_bytes, key)
        select pillarbox_bench.event_id(), 'bench', 'bench.event', $1, case when $3 > 0 then 'k-' || (i % $3) end from generate_series(1, $2) as i",
    spread_big: Some(
        "update pillarbox_bench.big_outbox set status = 'dead', attempts = 5,
            last_error = 'rejected/no: the bench refuses it', settled_at = now()
        where settled_at is null and seq % 20 = 0;
        update pillarbox_bench.big_outbox set status = 'retrying', attempts = 1,
            last_error = 'failed/busy: the bench is busy', due_at = now() + interval '1 day'
        where settled_at is null and seq % 20 = 1;
        update pillarbox_bench.big_outbox set tenant = 't-' || (seq / 20 % 50)
        where settled_at is null and seq % 20 = 2",
    ),
    settle_down: "analyze",
    write_down: "do $$ begin checkpoint; exception when insufficient_privilege then null; end $$",
    hold: "select pg_current_xact_id()",
    wal_bytes: Some("select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::text where $1::text is not null"),
    processes: Some(
        "select pid::text from pg_stat_activity
        where $1::text is not null and (backend_type = 'walwriter' or datname = current_database()
            and application_name = current_setting('application_name'))",
    ),
};

/// Parameters are in their order, each once: there are no numbers for them.
pub(crate) const MYSQL: Sql = Sql {
    create: "
        create table pillarbox_bench_number (i int primary key);
        insert into pillarbox_bench_number
            with recursive n (i) as (select 1 union all select i + 1 from n where i < 1000)
            select (a.i - 1) * 1000 + b.i from n a, n b where a.i <= 50;
        create table pillarbox_bench_business (id bigint auto_increment primary key, note text not null);
        create table pillarbox_bench_product (
            id bigint primary key, name text not null, price bigint not null, stock bigint not null);
        create table pillarbox_bench_order (
            id varchar(100) primary key, customer text not null, status varchar(20) not null default 'placed',
            total bigint not null, placed_at datetime(6) not null default now(6));
        create table pillarbox_bench_line (
            order_id varchar(100) not null, product bigint not null, quantity bigint not null, price bigint not null,
            primary key (order_id, product));",
    drop: "
        drop table if exists pillarbox_bench_number;
        drop table if exists pillarbox_bench_business;
        drop table if exists pillarbox_bench_product;
        drop table if exists pillarbox_bench_order;
        drop table if exists pillarbox_bench_line;
        drop table if exists pillarbox_bench_big_outbox;
        drop table if exists pillarbox_bench_big_audit;
        drop table if exists pillarbox_bench_big_inbox;
        drop table if exists pillarbox_bench_big_inbox_fence;
        drop table if exists pillarbox_bench_big_lane;
        drop table if exists pillarbox_bench_big_lane_session;
        drop table if exists pillarbox_bench_big_relay;
        drop table if exists pillarbox_bench_big_route_state;
        drop table if exists pillarbox_bench_big_saga;
        drop table if exists pillarbox_bench_big_serial;
        drop table if exists pillarbox_bench_big_schema;",
    business: "insert into pillarbox_bench_business (note) values (?)",
    order: [
        "select price from pillarbox_bench_product where id = cast(? as signed)",
        "update pillarbox_bench_product set stock = stock - 1 where id = cast(? as signed)",
        "insert into pillarbox_bench_order (id, customer, total) values (?, concat('a customer of product ', ?), 1999)",
        "insert into pillarbox_bench_line (order_id, product, quantity, price) values (?, cast(? as signed), 1, 1999)",
    ],
    load_products: "
        insert into pillarbox_bench_product
        select i, concat('product ', i), 1999, 1000000 from pillarbox_bench_number where i <= 1000",
    clear_outbox: "truncate pillarbox_bench_outbox",
    clear_sagas: "truncate pillarbox_bench_saga",
    load_outbox: "
        insert into pillarbox_bench_outbox (route, type, payload_bytes, `key`)
        select 'bench', 'bench.event', payload, case when many > 0 then concat('k-', i % many) end
        from pillarbox_bench_number, (select ? as payload, ? as wanted, ? as many) given where i <= wanted",
    clear_big: "truncate pillarbox_bench_big_outbox",
    load_big_settled: "
        insert into pillarbox_bench_big_outbox (route, type, payload_bytes, `key`, status, attempts, settled_at)
        select 'bench', 'bench.event', payload, case when many > 0 then concat('k-', i % many) end, 'delivered', 1,
            unix_timestamp() * 1000000
        from pillarbox_bench_number, (select ? as payload, ? as wanted, ? as many) given where i <= wanted",
    load_big_pending: "
        insert into pillarbox_bench_big_outbox (route, type, payload_bytes, `key`)
        select 'bench', 'bench.event', payload, case when many > 0 then concat('k-', i % many) end
        from pillarbox_bench_number, (select ? as payload, ? as wanted, ? as many) given where i <= wanted",
    spread_big: None,
    settle_down: "analyze table pillarbox_bench_outbox, pillarbox_bench_classic",
    write_down: "do 0",
    hold: "select count(*) from pillarbox_bench_outbox",
    wal_bytes: None,
    processes: None,
};

/// MongoDB knows no SQL: what is measured there is filled and emptied by commands, and does without the rest.
pub(crate) const NO_SQL: Sql = Sql {
    create: "",
    drop: "",
    business: "",
    order: [""; 4],
    load_products: "",
    clear_outbox: "",
    clear_sagas: "",
    load_outbox: "",
    clear_big: "",
    load_big_settled: "",
    load_big_pending: "",
    spread_big: None,
    settle_down: "",
    write_down: "",
    hold: "",
    wal_bytes: None,
    processes: None,
};
