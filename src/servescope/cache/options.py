"""What a sweep of caches is asked for, checked before a trace is read."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from servescope.cache.capacity import HOST_OPTION, LIMIT, parse_capacities
from servescope.cache.compare import RESAMPLES
from servescope.cache.warmup import warm_requests
from servescope.errors import UsageError, unknown_name
from servescope.kv.catalogue import capacity_rate, model_named
from servescope.sessions.links import SessionOptions
from servescope.units import LONGEST_S

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

CREDITS = ("prefix", "prompt")
SHARES = ("0.1%", "0.2%", "0.5%", "1%", "2%", "5%", "10%", "20%", "50%", "100%")
SEED = 10
MOST_RESAMPLES = 100_000
MOST_TOKEN_BYTES = 2**32  # a thousand times what the largest models take
LISTS = {
    "policy": "policies",
    "capacity": "capacities",
    "host_capacity": "host_capacities",
    "model": "models",
}  # how they are given, and held


@dataclass(frozen=True)
class CacheOptions:
    """One sweep.

    unit             name in `units.UNITS`; None: blocks where the trace has them, else whole sessions
    policies         texts as in `choice`; empty: the unit's own set
    capacities       texts as in `capacity`; empty: `SHARES`, or those of the preset
    credit           what a hit saves (`CREDITS`); None: "prefix", or that of the preset
    pin              seconds that a request holds its blocks where the trace states no end; None: none does
    host_capacities  sizes of a second tier of memory behind each capacity, texts as in `capacity` (blocks)
    reuse_rates      file with rates and probabilities of the policy workload_aware; None: they are fitted
    sample           follow this part of the prefix tree and give LRU's curve alone; None: sweep all (blocks)
    warmup           part of the requests that only fills the cache, 0 to below 1
    ttl_s            seconds after which the policy ttl lets go; None: its own default
    seed             of policies that draw, and of the resampling
    resamples        draws behind an interval; 0: no table of differences
    curve            whether to add LRU's whole curve
    preset           a study whose choices stand for those left out
    models           sweep each of these models apart; empty: all requests through one cache
    sessions         how sessions are found, and the window of the trace
    bytes_per_token, kv_model, kv_dtype
                     what a token takes: a number, or a model of the catalogue; None: not known
    """

    unit: str | None = None
    policies: tuple[str, ...] = ()
    capacities: tuple[str, ...] = ()
    credit: str | None = None
    warmup: float = 0.0
    pin: float | None = None
    host_capacities: tuple[str, ...] = ()
    reuse_rates: str | None = None
    sample: float | None = None
    ttl_s: float | None = None
    seed: int = SEED
    resamples: int = RESAMPLES
    curve: bool = False
    preset: str | None = None
    models: tuple[str, ...] = ()
    sessions: SessionOptions = field(default_factory=SessionOptions)
    bytes_per_token: int | None = None
    kv_model: str | None = None
    kv_dtype: str | None = None

    def __post_init__(self) -> None:
        """Raises UsageError for everything that is wrong whatever the trace."""
        parse_capacities(self.capacities)
        parse_capacities(self.host_capacities, HOST_OPTION)
        if self.sample is not None and not 0 < self.sample <= 1:
            raise UsageError(f"--sample is {self.sample}; give a part of the prefix tree, above 0 to 1.")
        warm_requests(self.warmup, 0)
        if self.credit is not None and self.credit not in CREDITS:
            raise unknown_name("credit", self.credit, CREDITS)
        if self.ttl_s is not None and not 0 < self.ttl_s <= LONGEST_S:
            raise UsageError(f"--ttl is {self.ttl_s}; give seconds above 0, up to {LONGEST_S:,}.")
        if self.pin is not None and not 0 <= self.pin <= LONGEST_S:
            raise UsageError(f"--pin is {self.pin}; give seconds of at least 0, up to {LONGEST_S:,}.")
        if not 0 <= self.seed < LIMIT:
            raise UsageError(f"--seed is {self.seed}; give 0 or more, below 2^63.")
        if not 0 <= self.resamples <= MOST_RESAMPLES:
            raise UsageError(f"--resamples is {self.resamples}; give draws from 1 to {MOST_RESAMPLES:,}.")
        if self.bytes_per_token is not None and not 0 < self.bytes_per_token <= MOST_TOKEN_BYTES:
            raise UsageError(
                f"--bytes-per-token is {self.bytes_per_token}; give bytes from 1 to {MOST_TOKEN_BYTES:,}."
            )
        if self.bytes_per_token is not None and self.kv_model is not None:
            raise UsageError("--bytes-per-token and --kv-model both say what a token takes; keep one.")
        if self.kv_dtype is not None and self.kv_model is None:
            raise UsageError(
                "--kv-dtype is the precision of a model's cache; name the model with --kv-model."
            )
        self.token_bytes()

    def token_bytes(self) -> tuple[int | Fraction | None, list[str]]:
        """Bytes of a token, None where they are not known, and notes. Raises UsageError for a wrong name."""
        if self.kv_model is None:
            return self.bytes_per_token, []
        return capacity_rate(model_named(self.kv_model), kv_dtype=self.kv_dtype)

    def stated(self) -> dict[str, Any]:
        """What shaped the numbers, for the result's inputs; what was left open is not in it."""
        held = asdict(self)
        held |= {name: value for name, value in held.pop("sessions").items() if name != "model"}
        return {name: value for name, value in held.items() if value not in (None, ())}


def options_of(given: dict[str, Any]) -> CacheOptions:
    """Options from keyword arguments: the fields of `CacheOptions` and of `SessionOptions`.

    policy, capacity and model are a text, or several. Raises UsageError for a value out of range, TypeError
    for an unknown name.
    """
    own = {LISTS.get(name, name): value for name, value in given.items()}
    for name in LISTS.values():
        if name in own:
            own[name] = _texts(own[name])
    inner = {item.name for item in fields(SessionOptions)} - {"model"}
    sessions = {name: own.pop(name) for name in list(own) if name in inner}
    return CacheOptions(**own, sessions=SessionOptions(**sessions))


def _texts(value: str | Sequence[str] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)
