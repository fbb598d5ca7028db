"""Figures of the year study as SQL over a Chutes-format file: one query a figure, as its own scripts do.

`f` is the file, `cohorts` its side table. `highlight` (three models) and `balanced` (one) are small tables
of ids, and `percents` a macro of 101 quantiles; making them is not part of any figure. C3 is a legend, D8,
D9 and E9 are drawn from simulations: these have no query. Each computes what its figure is drawn from, with
DuckDB's own sketches where the study used sketches; it need not be equal to ours in every detail.
"""

from __future__ import annotations

DAY = "86400000000"
AT = "epoch_us(started_at)"
DURATION = "epoch_us(completed_at - started_at) / 1e6"
LATENCY = f"ttft > 0 and completed_at > started_at and ttft <= {DURATION}"
DECILES = "[0.1, 0.25, 0.5, 0.75, 0.9]::float[]"
KEY = "user_id, rehash_round"
WINDOW = f"{AT} >= (366 - 59) * {DAY}"  # of the balance views: the last 59 days

SETUP = (
    """create table highlight as select chute_id from f where chute_id is not null
        group by chute_id order by count(*) desc limit 3""",
    "create table balanced as select chute_id from highlight limit 1",
    "create macro percents() as [i / 100.0 for i in range(101)]::float[]",
)


def by_model(value: str, rows: str) -> str:
    """101 quantiles of all rows and of every highlighted model."""
    return f"""select h, approx_quantile({value}, percents()) from (
        select *, case when chute_id in (select chute_id from highlight) then chute_id end h
        from f where {rows})
        group by grouping sets ((), (h))"""


def by_shape(value: str, x: str, y: str, rows: str, least: int) -> str:
    """Medians in cells of two measures."""
    return f"""select {x} x, {y} y, count(*) n, approx_quantile({value}, 0.5) from f
        where {rows} group by x, y having n >= {least}"""


def gaps(key: str, rows: str, *, period: str = "") -> str:
    """Gaps above 0 between consecutive requests of a key (inside one period), as a subquery."""
    parts = f"{key}, {period}" if period else key
    named = f", {period} p" if period else ""
    return f"""(select * from (select {key}{named}, epoch_us(started_at - lag(started_at) over (
        partition by {parts} order by started_at, invocation_id)) / 1e6 gap
        from f where {rows}) where gap > 0)"""


def raster(one: str, other: str, days: str, rank: int, kept: int) -> str:
    """Requests of the user (or model) of a rank in a window, over its models (or users)."""
    return f"""with w as (select {one}, {other}, started_at from f where {AT} >= 166 * {DAY}
            and {AT} < {days} * {DAY} and user_id is not null and chute_id is not null),
        chosen as (select {one} from w group by {one} order by count(*) desc, {one}
            limit 1 offset {rank - 1}),
        own as (select w.* from w join chosen using ({one})),
        firsts as (select {other}, min(started_at) first from own group by {other}),
        lines as (select {other}, row_number() over (order by first, {other}) line from firsts)
        select {AT}, line from own join lines using ({other}) where line <= {kept}
            and started_at < (select min(started_at) from own) + interval 31 day"""


def hour_cv() -> str:
    """Requests and variation of gaps of every model in its hours, as a subquery."""
    hour = f"{AT} // 3600000000"
    return f"""(select chute_id, h, count(*) n, stddev_samp(gap) / avg(gap) cv from (
        select chute_id, {hour} h, epoch_us(started_at - lag(started_at) over (
            partition by chute_id, {hour} order by started_at, invocation_id)) / 1e6 g,
            case when g > 0 then g end gap from f where chute_id is not null)
        group by chute_id, h having n >= 10 and count(gap) >= 5)"""


def shares(measure: str) -> str:
    """Monthly share of the ten models with most requests."""
    return f"""with m as (select chute_id, year(started_at) * 12 + month(started_at) m, count(*) n,
            sum({measure}) v from f where chute_id is not null group by all),
        top as (select chute_id from m group by chute_id order by sum(n) desc limit 10)
        select m, model, v / sum(v) over (partition by m) from (
            select m, case when chute_id in (select chute_id from top) then chute_id end model, sum(v) v
            from m group by 1, 2)"""


def months(column: str) -> str:
    """Quantiles of a column by month."""
    return f"""select year(started_at) * 12 + month(started_at) m, approx_quantile({column}, {DECILES})
        from f where it > 0 and ot > 0 group by m"""


def by_cohort(column: str) -> str:
    """Quantiles of users' medians by cohort."""
    return f"""select release_cohort, quantile_cont(median, {DECILES.replace("float", "double")}) from (
        select {KEY}, count(*) n, approx_quantile(it, 0.5) i, approx_quantile(ot, 0.5) o,
            approx_quantile({column}, 0.5) median from f
        where it > 0 and ot > 0 and user_id is not null group by all having n > 10 and i > 1 and o > 1)
        join cohorts using ({KEY}) group by release_cohort"""


def hits(key: str, least: int) -> str:
    """Requests and mean share of cached input by key."""
    return f"""select {key}, count(*) n, avg(least(greatest(ct / it, 0), 1)) from f
        where it > 0 and ct is not null and {key.split(",")[0]} is not null group by all having n > {least}"""


def instance_minutes() -> str:
    """Requests and tokens by instance and minute, as a subquery."""
    return f"""(select instance_id, {AT} // 60000000 m, count(*) n, sum(it + ot) tokens, sum(ct) cached from f
        where chute_id in (select chute_id from balanced) and instance_id is not null and {WINDOW}
        group by all)"""


def by_load(value: str, length: str) -> str:
    """P90 by load of the second and by length."""
    return f"""with r as (select instance_id, {AT} // 1000000 s, it, ot, ttft, {DURATION} d from f
            where chute_id in (select chute_id from balanced) and instance_id is not null and {WINDOW}),
        l as (select instance_id, s, sum(it + ot) load from r group by all)
        select floor(10 * log10(load)) x, floor(10 * log10({length})) y, count(*) n,
            quantile_cont({value}, 0.9)
        from r join l using (instance_id, s) where load > 0 and {length} > 0 group by x, y having n >= 30"""


def user_zoom(order: str) -> str:
    """One user's busiest hour over instances."""
    rows = f"chute_id in (select chute_id from balanced) and {WINDOW}"
    return f"""with h as (select {KEY}, {AT} // 3600000000 h, count(*) n, sum(it) i, sum(ct) c from f
            where {rows} and user_id is not null group by all),
        busiest as (select {KEY}, arg_max(h, n) h, max(n) n, arg_max(i, n) i, arg_max(c, n) c
            from h group by {KEY}),
        chosen as (select * from busiest where n >= 200 and c / i >= 0.4 order by n {order} limit 1)
        select instance_id, count(*), count(*) filter (f.user_id = chosen.user_id), sum(f.it) filter (
            f.user_id = chosen.user_id), sum(f.ct) filter (f.user_id = chosen.user_id), min(started_at)
        from f join chosen on {AT} // 3600000000 = chosen.h where {rows} group by instance_id"""


QUERIES: dict[str, str] = {
    "A1 requests a day": f"select {AT} // {DAY} d, count(*) from f group by d",
    "A2 tokens a day": f"""select {AT} // {DAY} d, sum(coalesce(it, 0) + coalesce(ot, 0)) from f
        where completed_at is not null group by d""",
    "A3 models a day": f"select {AT} // {DAY} d, count(distinct chute_id) from f group by d",
    "A4 endpoints a day": f"select {AT} // {DAY} d, function_name, count(*) from f group by all",
    "A5 hours of the week": f"""select ({AT} // {DAY}) % 7 w, hour(started_at) h,
        count(*) / count(distinct {AT} // {DAY}) from f group by all""",
    "A6 inputs": by_model("it", "it > 0 and completed_at is not null"),
    "A7 outputs": by_model("ot", "it > 0 and completed_at is not null"),
    "A8 output over input": by_model("ot / it", "it > 0 and ot > 0 and completed_at is not null"),
    "A9 latency": by_model(DURATION, LATENCY),
    "A10 prefill fraction": by_model(f"ttft / ({DURATION})", f"{LATENCY} and {DURATION} < 300"),
    "A11 duration by shape": by_shape(
        DURATION, "it // 2000", "ot // 200", f"it > 0 and ot > 0 and {DURATION} > 0 and {DURATION} < 300", 50
    ),
    "A12 first token by shape": by_shape(
        "ttft", "it // 2000", "ot // 200", "it > 0 and ot > 0 and ttft > 0 and ttft < 300", 50
    ),
    "A13 first token by cached": by_shape(
        "ttft",
        "it // 2000",
        "floor(10 * least(ct / it, 1))",
        "it > 0 and ct >= 0 and ttft > 0 and ttft < 300",
        200,
    ),
    "B1 users of a model": f"""with u as (select chute_id, count(*) n, count(distinct ({KEY})) users from f
            where user_id is not null group by chute_id),
        g as (select chute_id, count(*) gaps, avg(gap), stddev_samp(gap) from
            {gaps("chute_id", "chute_id is not null")} group by chute_id)
        select * from u join g using (chute_id) where gaps >= 100""",
    "B2 models of a user": f"""select {KEY}, count(*) n, approx_count_distinct(chute_id) models from f
        where user_id is not null and chute_id is not null group by all having n > 10 and models > 1""",
    "B3 shape of a user": f"""select {KEY}, count(*) n, approx_quantile(it, 0.5), approx_quantile(ot, 0.5)
        from f where it > 0 and ot > 0 and user_id is not null group by all having n > 10""",
    "B4 shape of a model": """select chute_id, approx_quantile(it, 0.5), approx_quantile(ot, 0.5) from f
        where it > 0 and ot > 0 and chute_id is not null group by chute_id""",
    "B5 a user's rhythm": raster(KEY, "chute_id", "203", 190, 10_000),
    "B6 another user's rhythm": raster(KEY, "chute_id", "203", 134, 10_000),
    "B7 a model's rhythm": raster("chute_id", KEY, "227", 41, 800),
    "B8 another model's rhythm": raster("chute_id", KEY, "227", 36, 800),
    "B9 evenness of a model": f"""select chute_id, avg(n), avg(cv), count(*) hour_count from {hour_cv()}
        where cv > 0 group by chute_id having hour_count >= 5""",
    "B10 gap after gap": f"""with g as (select chute_id, gap, lag(gap) over (partition by chute_id
            order by started_at, invocation_id) before from (select chute_id, started_at, invocation_id,
            epoch_us(started_at - lag(started_at) over (partition by chute_id
            order by started_at, invocation_id)) / 1e6 gap from f where chute_id is not null) where gap > 0),
        r as (select chute_id, rank() over (partition by chute_id order by gap) x,
            rank() over (partition by chute_id order by before) y from g where before is not null),
        s as (select chute_id, corr(x, y) rho from r group by chute_id)
        select chute_id, avg(n), avg(cv), any_value(rho) from {hour_cv()} join s using (chute_id)
        group by chute_id having count(*) >= 5""",
    "C1 requests of models by month": shares("1"),
    "C2 tokens of models by month": shares("coalesce(it, 0) + coalesce(ot, 0)"),
    "C4 inputs by month": months("it"),
    "C5 outputs by month": months("ot"),
    "C6 inputs by cohort": by_cohort("it"),
    "C7 outputs by cohort": by_cohort("ot"),
    "D1 hits by input": """select case when it < 1000 then 'short' when it >= 8000 then 'long' end l,
        approx_quantile(least(greatest(ct / it, 0), 1), percents()) from f where it > 0 and ct is not null
        group by grouping sets ((), (l))""",
    "D2 hits by model": by_model("least(ct / it, 1)", "it > 0 and ct >= 0"),
    "D3 hits of a model": hits("chute_id", 100),
    "D4 hits of a user": hits(KEY, 10),
    "D5 gaps of a user in a month": f"""select p, median(q[1]), median(q[2]), median(q[3]), median(q[4]),
        median(q[5]) from (
        select {KEY}, p, approx_quantile(gap, {DECILES}) q from
        {gaps(KEY, "user_id is not null", period="month(started_at)")}
        group by all having count(*) >= 10) group by p""",
    "D6 gaps of a pair": f"""select chute_id, quantile_cont(half, [0.25, 0.5, 0.75]) from (
        select {KEY}, chute_id, median(gap) half from
        {gaps(f"{KEY}, chute_id", "user_id is not null and chute_id in (select chute_id from highlight)")}
        group by all having count(*) >= 10) group by chute_id""",
    "D7 share of returns": f"""select {KEY}, chute_id, count(*) n, approx_quantile(gap, percents()) from
        {gaps(f"{KEY}, chute_id", "user_id is not null and chute_id is not null")}
        group by all having n >= 10""",
    "E1 requests of a model by hour": f"select m // 60 h, sum(n) from {instance_minutes()} group by h",
    "E2 active instances": f"""select m // 60 h, median(i) from (select m, count(*) i from
        {instance_minutes()} group by m) group by h""",
    "E3 imbalance of tokens": f"""select m // 60 h, avg(r) from (select m, max(tokens) / avg(tokens) r from
        {instance_minutes()} group by m having count(*) >= 2 and sum(n) >= 10) group by h""",
    "E4 the busiest day": f"""with i as (from {instance_minutes()}),
        a as (select m, count(*) n from i group by m),
        b as (select m, sum(n) over (order by m range between 1439 preceding and current row) s from a)
        select instance_id, i.m, n from i, (select arg_max(m, s) // 60 * 60 last from b)
        where i.m between last - 1440 and last""",
    "E5 first token by load": by_load("ttft", "it"),
    "E6 decoding by load": by_load("greatest(d - ttft, 0)", "ot"),
    "E7 the heaviest user": user_zoom("desc"),
    "E8 a lighter user": user_zoom("asc"),
}
