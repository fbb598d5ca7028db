"""Figures of the year study as SQL over a Chutes-format file: one query a figure, as its own scripts do.

`f` is the file. Sessions need not be equal to ours in detail; each computes what its figure is drawn from.
"""

from __future__ import annotations

DURATION = "epoch_us(completed_at - started_at) / 1e6"
LATENCY = f"ttft > 0 and completed_at > started_at and ttft <= {DURATION}"
GAP = (
    "epoch_us(started_at - lag(started_at) over (partition by {0} order by started_at, invocation_id)) / 1e6"
)
DECILES = "[0.1, 0.25, 0.5, 0.75, 0.9]::float[]"

QUERIES: dict[str, str] = {
    "A1 requests a day": "select epoch_us(started_at) // 86400000000 d, count(*) from f group by d",
    "A2 tokens a day": """select epoch_us(started_at) // 86400000000 d, sum(coalesce(it, 0) + coalesce(ot, 0))
        from f where completed_at is not null group by d""",
    "A3 models a day": """select epoch_us(started_at) // 86400000000 d, count(distinct chute_id)
        from f group by d""",
    "A4 endpoints a day": """select epoch_us(started_at) // 86400000000 d, function_name, count(*)
        from f group by d, function_name""",
    "A6 input lengths": """select approx_quantile(it, [i / 100.0 for i in range(101)]::float[]) from f
        where it > 0 and completed_at is not null""",
    "A9 latency": f"""select approx_quantile({DURATION}, [i / 100.0 for i in range(101)]::float[]) from f
        where {LATENCY}""",
    "A11 duration by shape": f"""select it // 2000 x, ot // 200 y, count(*), approx_quantile({DURATION}, 0.5)
        from f where it > 0 and ot > 0 and {DURATION} > 0 and {DURATION} < 300 group by x, y""",
    "B1 users of a model": """select chute_id, count(*), count(distinct user_id) from f
        where user_id is not null group by chute_id""",
    "B2 models of a user": """select user_id, rehash_round, count(*), approx_count_distinct(chute_id) from f
        where user_id is not null group by user_id, rehash_round""",
    "B3 shape of a user": """select user_id, rehash_round, count(*), approx_quantile(it, 0.5),
        approx_quantile(ot, 0.5) from f where it > 0 and ot > 0 and user_id is not null
        group by user_id, rehash_round""",
    "B9 gaps by model and hour": f"""select chute_id, h, count(*), avg(gap), stddev_samp(gap) from (
        select chute_id, epoch_us(started_at) // 3600000000 h,
        {GAP.format("chute_id, epoch_us(started_at) // 3600000000")} gap from f where chute_id is not null)
        where gap > 0 group by chute_id, h""",
    "C1 models a month": """select chute_id, month(started_at) m, year(started_at) y, count(*)
        from f group by chute_id, m, y""",
    "C4 lengths by month": f"""select month(started_at) m, year(started_at) y, approx_quantile(it, {DECILES})
        from f where it > 0 and ot > 0 group by m, y""",
    "D3 hits of a model": """select chute_id, count(*), avg(least(greatest(ct / it, 0), 1)) from f
        where it > 0 and ct is not null group by chute_id""",
    "D5 gaps of a user in a month": f"""select user_id, m, count(*), approx_quantile(gap, {DECILES}) from (
        select user_id, month(started_at) m, {GAP.format("user_id, month(started_at)")} gap
        from f where user_id is not null) where gap > 0 group by user_id, m having count(*) >= 10""",
    "D6 gaps of a pair": f"""select user_id, chute_id, count(*), approx_quantile(gap, 0.5) from (
        select user_id, chute_id, {GAP.format("user_id, chute_id")} gap from f
        where user_id is not null and chute_id is not null) where gap > 0 group by user_id, chute_id""",
    "E1 instances by minute": """select chute_id, instance_id, epoch_us(started_at) // 60000000 m, count(*),
        sum(it + ot), sum(coalesce(ct, 0)) from f where instance_id is not null
        and epoch_us(started_at) >= (366 - 59) * 86400000000 group by all""",
}
