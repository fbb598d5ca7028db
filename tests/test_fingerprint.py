"""Fingerprints: shared beginnings become shared ids, and no text leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from servescope.errors import BadRowError, FormatError, ServescopeError, UsageError
from servescope.fingerprint import blocks, fingerprint, key_digits, read_key
from servescope.fingerprint.keys import pseudonym
from servescope.fingerprint.template import load_template
from servescope.formats.format import ReadOptions
from servescope.formats.prompts import Prompt
from servescope.formats.text_tokens import load_tokenizer
from tests.formats.reading import column, read
from tests.reference import fingerprint as reference

if TYPE_CHECKING:
    from servescope.trace import Trace

KEY = b"an invented key of 32 bytes only"
OTHER_KEY = b"another invented key of 32 bytes"
PAYLOADS = Path(__file__).parent / "data" / "litellm_payloads.jsonl"
TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SECRET = "zebra-in-the-cellar"
START = 1_772_445_600.5
tokens_lists = st.lists(st.integers(0, 2**32 - 1), max_size=80)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tokenizer with one token for each byte."""
    alphabet = {char: index for index, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    made = Tokenizer(models.BPE(alphabet, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    made.save(str(path))
    return str(path)


@pytest.fixture(scope="module")
def encoder(tokenizer: str) -> blocks.Encoder:
    """Blocks of four tokens."""
    return blocks.Encoder(load_tokenizer(tokenizer), lambda prompt: "", KEY, 4)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A chat template."""
    path = tmp_path_factory.mktemp("template") / "chat.jinja"
    path.write_text(TEMPLATE)
    return str(path)


def _log(path: Path, *requests: dict[str, Any]) -> Path:
    rows = []
    for index, request in enumerate(requests):
        usage = {"prompt_tokens": 3, "completion_tokens": 1}
        body = {"model": "m", **request}
        rows.append({"start_time": START + index, "user": "ann", "request": body, "usage": usage})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _chat(*texts: str) -> dict[str, Any]:
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]}


def _run(tmp_path: Path, log: Path, tokenizer: str, template: str, **changes: Any) -> Trace:
    settings: dict[str, Any] = {"tokenizer": tokenizer, "key": KEY, "chat_template": template, **changes}
    return fingerprint(str(log), tmp_path / "out.parquet", **settings)


# ---- ids


@given(tokens_lists, st.integers(1, 20), st.binary(min_size=16, max_size=64))
def test_ids_equal_those_of_the_slow_twin(tokens: list[int], size: int, key: bytes) -> None:
    ids = blocks.chained_ids(key, np.array(tokens, np.uint32), size)
    assert ids.dtype == np.uint64
    assert ids.tolist() == reference.chained_ids(key, tokens, size)


@given(tokens_lists, tokens_lists, tokens_lists, st.integers(1, 20))
def test_leading_ids_are_shared_exactly_as_far_as_whole_blocks_are(
    shared: list[int], first: list[int], second: list[int], size: int
) -> None:
    one, two = shared + first, shared + second
    ids = [blocks.chained_ids(KEY, np.array(tokens, np.uint32), size).tolist() for tokens in (one, two)]
    cut = [[tuple(t[i : i + size]) for i in range(0, len(t), size)] for t in (one, two)]
    same_blocks = next((i for i, (a, b) in enumerate(zip(*cut, strict=False)) if a != b), min(map(len, cut)))
    same_ids = next((i for i, (a, b) in enumerate(zip(*ids, strict=False)) if a != b), min(map(len, ids)))
    assert same_ids == same_blocks
    assert not set(ids[0][same_ids:]) & set(ids[1][same_ids:])


@given(tokens_lists.filter(bool))
def test_ids_under_two_keys_share_nothing(tokens: list[int]) -> None:
    array = np.array(tokens, np.uint32)
    one, two = (set(blocks.chained_ids(key, array, 4).tolist()) for key in (KEY, OTHER_KEY))
    assert not one & two


@given(st.lists(st.one_of(st.none(), st.text(max_size=60)), max_size=12), st.integers(1, 5))
def test_batches_change_no_id(encoder: blocks.Encoder, texts: list[str | None], batch: int) -> None:
    prompts = [None if text is None else Prompt(text=text) for text in texts]
    whole = encoder.encode(prompts)
    parts = [encoder.encode(prompts[i : i + batch]) for i in range(0, len(prompts), batch)]
    assert whole.blocks.tolist() == [i for part in parts for i in part.blocks.tolist()]
    assert whole.lengths.tolist() == [n for part in parts for n in part.lengths.tolist()]
    for text, length in zip(texts, whole.lengths, strict=True):
        size = len(text.encode()) if text else 0
        assert length == (-(-size // 4) if size else -1)


@given(st.text(max_size=60), st.text(max_size=30), st.text(max_size=30))
def test_texts_share_ids_exactly_as_far_as_they_share_whole_blocks(
    encoder: blocks.Encoder, shared: str, first: str, second: str
) -> None:
    texts = [shared + first, shared + second]
    made = encoder.encode([Prompt(text=text) for text in texts])
    ends = np.maximum(made.lengths, 0).cumsum()
    ids = [made.blocks[: ends[0]].tolist(), made.blocks[ends[0] :].tolist()]
    cut = [[text.encode()[i : i + 4] for i in range(0, len(text.encode()), 4)] for text in texts]
    for depth, (one, two) in enumerate(zip(*ids, strict=False)):
        assert (one == two) == (cut[0][: depth + 1] == cut[1][: depth + 1])
    assert [len(row) for row in ids] == [len(row) for row in cut]


def test_threads_change_no_id(encoder: blocks.Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = [Prompt(text=f"prompt {n} " * (n % 7 + 1)) for n in range(600)]
    made = []
    for setting in ("false", "true"):
        monkeypatch.setenv("TOKENIZERS_PARALLELISM", setting)
        made.append(encoder.encode(prompts))
    assert made[0].blocks.tolist() == made[1].blocks.tolist()
    assert made[0].lengths.tolist() == made[1].lengths.tolist()


# ---- whole runs


def test_a_conversation_that_grows_shares_its_leading_blocks(
    tmp_path: Path, tokenizer: str, template: str
) -> None:
    log = _log(tmp_path / "log.jsonl", _chat("x" * 40), _chat("x" * 40, "y" * 30, "z"), _chat("w" * 40))
    trace = _run(tmp_path, log, tokenizer, template)
    first, second, third = column(trace, "block_ids")
    text = "<|user|>" + "x" * 40 + "\n"
    assert first[: len(text) // 16] == second[: len(text) // 16]
    assert first[0] != third[0]
    assert (trace.meta.block_tokens, trace.meta.chained) == (16, True)
    assert column(trace, "cache_scope") == ["m", "m", "m"]
    counted = column(trace, "input_tokens")
    assert counted[0] == len(text + "<|assistant|>")
    assert [len(ids) for ids in (first, second, third)] == [-(-n // 16) for n in counted]


def test_the_file_reads_back_as_the_trace_returned(tmp_path: Path, tokenizer: str, template: str) -> None:
    log = _log(tmp_path / "log.jsonl", _chat("a question"), _chat("another question"))
    trace = _run(tmp_path, log, tokenizer, template)
    back = read(tmp_path / "out.parquet", format="canonical")
    assert column(back, "block_ids") == column(trace, "block_ids")
    assert back.meta.block_tokens == 16


def test_logged_and_counted_tokens_that_differ_are_noted(
    tmp_path: Path, tokenizer: str, template: str
) -> None:
    trace = _run(tmp_path, _log(tmp_path / "log.jsonl", _chat("a"), _chat("b")), tokenizer, template)
    note = trace.meta.ledger.notes["token_count_differs"]
    assert (note.count, note.lines) == (2, [1, 2])


def test_no_text_reaches_the_output(tmp_path: Path, tokenizer: str, template: str) -> None:
    log = _log(tmp_path / "log.jsonl", _chat(SECRET), {"prompt": SECRET}, {"messages": SECRET})
    trace = _run(tmp_path, log, tokenizer, template)
    assert trace.rows == 3
    written = (tmp_path / "out.parquet").read_bytes()
    everything = repr([table.to_pydict() for table in trace.arrow()]) + repr(trace.meta)
    assert SECRET.encode() not in written
    assert SECRET not in everything
    assert KEY.decode() not in everything


def test_users_get_keyed_pseudonyms_unless_kept(tmp_path: Path, tokenizer: str, template: str) -> None:
    log = _log(tmp_path / "log.jsonl", _chat("a"))
    assert column(_run(tmp_path, log, tokenizer, template), "user") == [pseudonym(KEY, "ann")]
    assert column(_run(tmp_path, log, tokenizer, template, keep_ids=True), "user") == ["ann"]


def test_plain_prompts_and_token_ids(tmp_path: Path, tokenizer: str, template: str) -> None:
    log = _log(tmp_path / "log.jsonl", {"prompt": "ab" * 10}, {"prompt": [5, 6, 7]})
    trace = _run(tmp_path, log, tokenizer, template)
    assert column(trace, "input_tokens") == [20, 3]
    assert column(trace, "block_ids")[1] == reference.chained_ids(KEY, [5, 6, 7], 16)


def test_images_and_missing_text_give_no_blocks(tmp_path: Path, tokenizer: str, template: str) -> None:
    image = {"role": "user", "content": [{"type": "text", "text": "what"}, {"type": "image_url"}]}
    log = _log(tmp_path / "log.jsonl", {"messages": [image]}, {}, _chat("c"))
    trace = _run(tmp_path, log, tokenizer, template)
    assert [ids is None for ids in column(trace, "block_ids")] == [True, True, False]
    assert trace.meta.ledger.notes["not_text"].lines == [1]
    assert trace.meta.ledger.notes["no_text"].lines == [2]
    assert column(trace, "input_tokens")[:2] == [3, 3]


def test_litellm_payloads(tmp_path: Path, tokenizer: str, template: str) -> None:
    trace = _run(tmp_path, PAYLOADS, tokenizer, template)
    first, second, third = column(trace, "block_ids")
    assert first[:2] == second[:2]
    assert third is None  # answered from the response cache: no prompt reached a model
    assert trace.meta.format == "litellm"


def test_sharegpt_turns_share_their_history(tmp_path: Path, tokenizer: str, template: str) -> None:
    said = [("human", "a" * 30), ("gpt", "b"), ("human", "c"), ("gpt", "d")]
    items = [
        {"id": "t", "conversations": [{"from": role, "value": text} for role, text in said]},
        {"id": "u"},
    ]
    path = tmp_path / "talks.json"
    path.write_text(json.dumps(items))
    trace = _run(tmp_path, path, tokenizer, template, options=ReadOptions(on_bad_row="skip"))
    first, second = column(trace, "block_ids")
    assert first[:2] == second[:2]
    assert (trace.meta.ledger.read, trace.meta.ledger.kept, trace.rows) == (2, 1, 2)


# ---- refusals


def _refused(run: Any) -> str:
    with pytest.raises(ServescopeError) as caught:
        run()
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    return str(caught.value)


def test_the_template_must_be_named_or_waived(tmp_path: Path, tokenizer: str, template: str) -> None:
    log = _log(tmp_path / "log.jsonl", _chat(SECRET))
    assert "--no-chat-template" in _refused(lambda: _run(tmp_path, log, tokenizer, ""))
    both = _refused(lambda: _run(tmp_path, log, tokenizer, template, no_chat_template=True))
    assert "one of the two" in both
    trace = _run(tmp_path, log, tokenizer, "", no_chat_template=True)
    assert column(trace, "input_tokens") == [len(f"user: {SECRET}\n")]
    assert not list(tmp_path.glob(".out*"))


def test_a_source_without_text_says_what_falls_away(tmp_path: Path, tokenizer: str, template: str) -> None:
    path = tmp_path / "mooncake.jsonl"
    path.write_text('{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [1]}\n')
    assert "block and prefix reuse" in _refused(lambda: _run(tmp_path, path, tokenizer, template))
    log = _log(tmp_path / "log.jsonl", {}, {})
    assert "2 requests hold no text" in _refused(lambda: _run(tmp_path, log, tokenizer, template))
    assert not (tmp_path / "out.parquet").exists()


def test_a_bad_row_shows_no_value(tmp_path: Path, tokenizer: str, template: str) -> None:
    log = _log(tmp_path / "log.jsonl", _chat("a"))
    row = json.loads(log.read_text())
    row["usage"]["prompt_tokens"] = SECRET
    log.write_text(log.read_text() + json.dumps(row) + "\n")
    with pytest.raises(BadRowError) as caught:
        _run(tmp_path, log, tokenizer, template)
    assert (caught.value.fault.line, caught.value.fault.value) == (2, "")
    trace = _run(tmp_path, log, tokenizer, template, options=ReadOptions(on_bad_row="skip"))
    assert SECRET not in repr(trace.rejects.faults)
    row["usage"]["prompt_tokens"], row["start_time"] = 3, f"5 {SECRET}"
    log.write_text(log.read_text() + json.dumps(row) + "\n")
    trace = _run(tmp_path, log, tokenizer, template, options=ReadOptions(on_bad_row="skip"))
    assert trace.rejects.total == 2
    assert SECRET not in repr(trace.rejects.faults)


def test_an_unknown_source_shows_no_text(tmp_path: Path, tokenizer: str, template: str) -> None:
    path = tmp_path / "text.txt"
    path.write_text(f"{SECRET}, and more\nof it\n")
    with pytest.raises(FormatError):
        _run(tmp_path, path, tokenizer, template)
    _refused(lambda: _run(tmp_path, path, tokenizer, template))


def test_a_template_that_refuses_a_prompt_is_noted_without_its_words(tmp_path: Path, tokenizer: str) -> None:
    path = tmp_path / "chat.jinja"
    path.write_text(
        "{% for m in messages %}{% if m.content[0] == 'z' %}{{ raise_exception('no ' + m.content) }}"
        "{% endif %}{{ m.content }}{% endfor %}"
    )
    log = _log(tmp_path / "log.jsonl", _chat(SECRET), _chat("fine"))
    trace = _run(tmp_path, log, tokenizer, str(path))
    assert [ids is None for ids in column(trace, "block_ids")] == [True, False]
    assert SECRET not in repr(trace.meta)
    assert trace.meta.ledger.notes["template_TemplateError"].lines == [1]


def test_keys(tmp_path: Path) -> None:
    path = tmp_path / "key.txt"
    path.write_bytes(KEY + b"\r\n")
    assert read_key(path) == KEY
    assert key_digits(KEY) != key_digits(OTHER_KEY)
    assert len(key_digits(KEY)) == 8
    path.write_bytes(b"k" * 500)
    assert len(read_key(path)) == 64
    path.write_bytes(b"short")
    with pytest.raises(UsageError, match="5 bytes, at least 16"):
        read_key(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_key(tmp_path / "none")


# ---- templates


def test_a_tokenizer_config_gives_template_and_special_tokens(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer_config.json"
    text = "{{ bos_token }}{% generation %}{{ messages[0].content }}{% endgeneration %}{{ eos_token }}"
    named = [{"name": "default", "template": text}]
    for held in (text, named):
        config = {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": held}
        path.write_text(json.dumps(config))
        assert load_template(str(path))(Prompt(messages=[{"role": "user", "content": "hi"}])) == "<s>hi</s>"
    path.write_text("{}")
    with pytest.raises(UsageError, match="no chat_template"):
        load_template(str(path))


def test_tools_and_arguments_reach_the_template_as_objects(tmp_path: Path) -> None:
    path = tmp_path / "chat.jinja"
    path.write_text("{{ tools[0] | tojson }}{{ messages[0].tool_calls[0].function.arguments.city }}")
    call = {"function": {"name": "f", "arguments": '{"city": "Lima"}'}}
    prompt = Prompt(
        messages=[{"role": "assistant", "content": None, "tool_calls": [call]}], tools=[{"a": "ü"}]
    )
    assert load_template(str(path))(prompt) == '{"a": "ü"}Lima'


def test_a_template_cannot_leave_its_sandbox(tmp_path: Path, tokenizer: str) -> None:
    path = tmp_path / "chat.jinja"
    path.write_text("{{ messages.__class__.__base__.__subclasses__() }}")
    log = _log(tmp_path / "log.jsonl", _chat("a"))
    with pytest.raises(UsageError, match="SecurityError"):
        _run(tmp_path, log, tokenizer, str(path))


def test_a_broken_template_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "chat.jinja"
    path.write_text("ok\n{% for %}")
    with pytest.raises(UsageError, match=r"chat\.jinja:2: no valid chat template"):
        load_template(str(path))
