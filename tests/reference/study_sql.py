"""The cell, key and balance tables as DuckDB queries over the Chutes-format file itself."""

from __future__ import annotations

from typing import Any

import duckdb

NAMES = """
  create view t as select *, it::bigint as i, ot::bigint as o, ct::bigint as c,
    user_id || '@' || rehash_round as u, epoch_us(started_at) as s, epoch_us(completed_at) as e,
    (epoch_us(completed_at) - epoch_us(started_at)) / 1e6 as d
  from read_parquet('{trace}')"""
SHAPES = """
  select i // 2000 * 2000, o // 200 * 200, 'duration', count(*) from t
    where d > 0 and d < 300 and i > 0 and o > 0 group by all
  union all select i // 2000 * 2000, o // 200 * 200, 'ttft', count(*) from t
    where ttft > 0 and ttft < 300 and i > 0 and o > 0 group by all"""
SHAPE_MEDIANS = """
  select i // 2000 * 2000, o // 200 * 200, median(d), count(*) from t
    where d > 0 and d < 300 and i > 0 and o > 0 group by all"""
HITS = """
  select i // 2000 * 2000, least(10 * c // i, 10) / 10, count(*) from t
    where ttft > 0 and ttft < 300 and i > 0 and c >= 0 group by all"""
KEYS = """
  select {key}, count(*) filter (i > 0 and o > 0), median(i) filter (i > 0 and o > 0),
    median(o) filter (i > 0 and o > 0), count(*) filter (i > 0 and c is not null),
    sum(greatest(0, least(1, c / i))) filter (i > 0 and c is not null), min(s)
  from t where {key} is not null group by 1"""
HEAVIEST = "select chute_id from t where chute_id is not null group by 1 order by count(*) desc limit 3"
BALANCE = """
  create table b as select * from t
    where chute_id in ({models}) and s > (select max(s) from t) - 59 * 86400000000"""
MINUTES = """
  select chute_id, instance_id, s // 60000000, count(*), coalesce(sum(i + o), 0), coalesce(sum(c), 0) from b
    where instance_id is not null group by all"""
HOURS = """
  select chute_id, u, s // 3600000000, count(*), coalesce(sum(i), 0), coalesce(sum(c), 0) from b
    where u is not null group by all"""
LOADS = """
  with l as (select *, sum(i + o) over (partition by chute_id, instance_id, s // 1000000) as load from b
    where instance_id is not null)
  select chute_id, 'ttft', floor(log10(load) * 10 + 1e-9)::int, floor(log10(i) * 10 + 1e-9)::int, count(*),
    quantile_cont(ttft, 0.9) from l
    where load > 0 and i > 0 and ttft is not null group by all
  union all
  select chute_id, 'decode', floor(log10(load) * 10 + 1e-9)::int, floor(log10(o) * 10 + 1e-9)::int, count(*),
    quantile_cont(greatest(d - ttft, 0), 0.9) from l
    where load > 0 and o > 0 and ttft is not null and e is not null group by all"""
RANKS = """
  select {key}, count(*), count(distinct {other}) from t
    where u is not null and chute_id is not null and s > (select max(s) from t) - {days} * 86400000000
    group by 1"""


class Study:
    """One trace file, in a database of its own."""

    def __init__(self, trace: str) -> None:
        self.database = duckdb.connect()
        self.database.execute("set threads = 1")
        self.database.execute(NAMES.format(trace=trace))
        models = ", ".join(f"'{name}'" for (name,) in self.rows(HEAVIEST))
        self.database.execute(BALANCE.format(models=models))

    def rows(self, query: str, **names: Any) -> list[tuple[Any, ...]]:
        """What a query gives."""
        return self.database.execute(query.format(**names)).fetchall()
