from __future__ import annotations

import gzip
import io
import random
import shutil
import subprocess
import tracemalloc
import zlib
from pathlib import Path

import cramjam
import lz4.frame
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkeep.errors import DamagedError, TransientError
from kafkeep.objects.formats.compress import (
    BLOCK_BYTES,
    BlockCompressor,
    compress_block,
    open_decompressed,
)
from kafkeep.options.sink.formats import Compression

COMPRESSED = [kind for kind in Compression if kind is not Compression.NONE]
LINES = b"".join(b'{"id":%d,"name":"customer %d"}\n' % (i, i * 7919 % 1000) for i in range(90_000))
"""Three blocks, about."""
TOOLS = {
    Compression.GZIP: ("gzip", ".gz"),
    Compression.ZSTD: ("zstd", ".zst"),
    Compression.LZ4: ("lz4", ".lz4"),
}


def written(data: bytes, kind: Compression, level: int = -1) -> bytes:
    blocks = BlockCompressor(kind, level)
    return blocks.add(data) + blocks.finish()


def read(data: bytes, kind: Compression) -> bytes:
    return open_decompressed(io.BytesIO(data), kind).read()


@pytest.mark.parametrize("kind", TOOLS)
@pytest.mark.parametrize("data", [LINES, b"x", b""], ids=["blocks", "byte", "nothing"])
def test_the_usual_tools_accept_what_is_written(
    kind: Compression, data: bytes, tmp_path: Path
) -> None:
    tool, suffix = TOOLS[kind]
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    path = tmp_path / f"object{suffix}"
    path.write_bytes(written(data, kind))
    subprocess.run([tool, "-t", str(path)], check=True, capture_output=True)
    unpacked = subprocess.run([tool, "-dc", str(path)], check=True, capture_output=True)
    assert unpacked.stdout == data


def test_snappy_is_read_by_another_reader_of_the_framing_format() -> None:
    packed = written(LINES, Compression.SNAPPY)
    assert bytes(cramjam.snappy.decompress(packed)) == LINES
    assert packed.startswith(b"\xff\x06\x00\x00sNaPpY")


@pytest.mark.parametrize("kind", Compression)
@settings(max_examples=30, deadline=None)
@given(parts=st.lists(st.tuples(st.binary(max_size=200), st.integers(1, 9000), st.booleans())))
def test_what_is_read_is_what_was_written_however_it_was_cut(
    kind: Compression, parts: list[tuple[bytes, int, bool]]
) -> None:
    blocks, out, raw = BlockCompressor(kind), b"", b""
    for piece, times, flush in parts:
        out += blocks.add(piece * times)
        raw += piece * times
        assert blocks.buffered_bytes < BLOCK_BYTES
        if flush:
            out += blocks.flush()
            assert blocks.buffered_bytes == 0
    out += blocks.finish()
    assert read(out, kind) == raw


@pytest.mark.parametrize("kind", COMPRESSED)
@settings(max_examples=20, deadline=None)
@given(sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=5))
def test_reading_does_not_depend_on_how_the_source_gives_its_bytes(
    kind: Compression, sizes: list[int]
) -> None:
    class Slow(io.BytesIO):
        turn = 0

        def read(self, size: int | None = -1) -> bytes:
            self.turn += 1
            return super().read(min(size or 0, sizes[self.turn % len(sizes)]))

    raw = LINES[:50_000]
    packed = compress_block(raw[:20_000], kind) + compress_block(raw[20_000:], kind)
    assert open_decompressed(Slow(packed), kind).read() == raw


@pytest.mark.parametrize("kind", COMPRESSED)
def test_full_blocks_are_given_out_and_each_stands_alone(kind: Compression) -> None:
    blocks = BlockCompressor(kind)
    assert blocks.add(LINES[: BLOCK_BYTES - 1]) == b""
    assert blocks.buffered_bytes == BLOCK_BYTES - 1
    first = blocks.add(LINES[BLOCK_BYTES - 1 : BLOCK_BYTES + 5])
    assert blocks.buffered_bytes == 5
    assert read(first, kind) == LINES[:BLOCK_BYTES]
    assert read(blocks.flush(), kind) == LINES[BLOCK_BYTES : BLOCK_BYTES + 5]
    assert blocks.finish() == b""


def test_without_compression_nothing_waits() -> None:
    blocks = BlockCompressor(Compression.NONE)
    assert blocks.add(b"abc") == b"abc"
    assert (blocks.buffered_bytes, blocks.flush(), blocks.finish()) == (0, b"", b"")


@pytest.mark.parametrize("level", range(-1, 10))
def test_gzip_members_have_no_time_in_them_at_any_level(level: int) -> None:
    packed = compress_block(LINES[:1000], Compression.GZIP, level)
    assert packed[:3] == b"\x1f\x8b\x08"
    assert packed[4:8] == bytes(4)
    assert packed == compress_block(LINES[:1000], Compression.GZIP, level)
    assert gzip.decompress(packed) == LINES[:1000]


def test_gzip_levels_are_honoured() -> None:
    sizes = {n: len(compress_block(LINES[:BLOCK_BYTES], Compression.GZIP, n)) for n in range(-1, 7)}
    assert sizes[0] > BLOCK_BYTES
    assert sizes[6] == len(zlib.compress(LINES[:BLOCK_BYTES], 6, 31))
    assert sizes[6] < sizes[4] < sizes[1] < BLOCK_BYTES / 2
    assert sizes[-1] == sizes[1]


@pytest.mark.parametrize("kind", [Compression.ZSTD, Compression.LZ4])
def test_levels_of_zstd_and_lz4_make_smaller_objects(kind: Compression) -> None:
    # Regular lines are as small at any level: so words in no order.
    chosen = random.Random(4)
    words = [b"%x" % chosen.getrandbits(chosen.randrange(4, 40)) for _ in range(3000)]
    data = b" ".join(chosen.choices(words, k=60_000))
    fast, small = (len(written(data, kind, level)) for level in (1, 9))
    assert small < fast


@pytest.mark.parametrize("kind", COMPRESSED)
def test_an_object_cut_short_is_damaged_wherever_it_was_cut(kind: Compression) -> None:
    packed = written(LINES[:3000], kind)
    # A snappy stream is whole behind its name, and behind each of its chunks.
    whole = {len(packed), 10} if kind is Compression.SNAPPY else {len(packed)}
    for size in set(range(len(packed))) - whole:
        with pytest.raises(DamagedError, match=f"unpack as {kind}"):
            read(packed[:size], kind)


@pytest.mark.parametrize("kind", COMPRESSED)
def test_a_changed_byte_never_gives_other_records(kind: Compression) -> None:
    packed, found = written(LINES[:3000], kind), 0
    for at in range(len(packed)):
        changed = bytearray(packed)
        changed[at] ^= 0x24
        try:
            assert read(bytes(changed), kind) == LINES[:3000]
        except DamagedError:
            found += 1
    assert found > 0.9 * len(packed)


@pytest.mark.parametrize("kind", COMPRESSED)
def test_bytes_of_another_kind_are_damaged(kind: Compression) -> None:
    for data in (LINES, written(LINES, kind) + b"no such block, and long enough to be looked at"):
        with pytest.raises(DamagedError):
            read(data, kind)


def test_frames_of_other_writers_are_read() -> None:
    frame = zstandard.ZstdCompressor().compressobj()  # no content size, no checksum
    assert read(frame.compress(LINES) + frame.flush(), Compression.ZSTD) == LINES
    assert read(gzip.compress(LINES) * 2, Compression.GZIP) == LINES * 2
    assert read(lz4.frame.compress(LINES), Compression.LZ4) == LINES
    padding = b"\xfe\x03\x00\x00abc"
    snappy = bytes(cramjam.snappy.compress(LINES))
    assert read(snappy + padding + snappy, Compression.SNAPPY) == LINES * 2


@pytest.mark.parametrize("kind", COMPRESSED)
def test_memory_stays_small_when_little_unpacks_to_much(kind: Compression) -> None:
    packed = compress_block(bytes(96 * BLOCK_BYTES), kind)
    stream, total, most = open_decompressed(io.BytesIO(packed), kind), 0, 0
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        while piece := stream.read(BLOCK_BYTES):
            total += len(piece)
            most = max(most, pa.total_allocated_bytes() - before)
        most += tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == 96 * BLOCK_BYTES
    assert most < 8 * BLOCK_BYTES


@pytest.mark.parametrize("kind", COMPRESSED)
@pytest.mark.parametrize("failure", [TransientError("the store is away"), OSError("reset")])
def test_trouble_of_the_source_is_not_taken_for_damage(
    kind: Compression, failure: Exception
) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell():
                raise failure
            return super().read(1)

    with pytest.raises(type(failure)) as caught:
        open_decompressed(Broken(written(LINES, kind)), kind).read()
    assert caught.value is failure
