from __future__ import annotations

import gzip
import random

import cramjam
import lz4.frame
import pytest
import zstandard

from kafkeep.errors import DamagedError
from kafkeep.kafka.batch.compression import Codec, compress, decompress

PACKING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"".join(b'{"id": %d, "name": "abc"}' % i for i in range(20_000))


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("data", [b"", b"a", TEXT, random.Random(1).randbytes(100_000)])
def test_what_is_compressed_comes_back(codec: Codec, data: bytes) -> None:
    assert bytes(decompress(codec, bytes(compress(codec, data)))) == data


@pytest.mark.parametrize("codec", PACKING)
def test_limit_is_exact(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    assert len(decompress(codec, packed, limit_bytes=len(TEXT))) == len(TEXT)
    with pytest.raises(DamagedError, match="more than"):
        decompress(codec, packed, limit_bytes=len(TEXT) - 1)


@pytest.mark.parametrize("codec", PACKING)
def test_truncated_or_unrelated_bytes_are_damage_or_shorter(codec: Codec) -> None:
    packed = bytes(compress(codec, TEXT))
    for bad in (packed[: len(packed) // 2], b"not compressed at all", b"\xff" * 50):
        try:
            assert len(decompress(codec, bad)) < len(TEXT)
        except DamagedError:
            continue


def test_zstd_streams_without_their_size_are_read_within_the_limit() -> None:
    stream = zstandard.ZstdCompressor().compressobj()
    packed = stream.compress(TEXT) + stream.flush()
    assert zstandard.frame_content_size(packed) == -1
    assert bytes(decompress(Codec.ZSTD, packed)) == TEXT
    assert bytes(decompress(Codec.ZSTD, packed, limit_bytes=len(TEXT))) == TEXT
    with pytest.raises(DamagedError, match="more than"):
        decompress(Codec.ZSTD, packed, limit_bytes=len(TEXT) - 1)


def test_a_zstd_bomb_of_unknown_size_is_stopped_early() -> None:
    stream = zstandard.ZstdCompressor().compressobj()
    packed = b"".join(stream.compress(bytes(1 << 20)) for _ in range(200)) + stream.flush()
    with pytest.raises(DamagedError, match="more than 1000000 bytes"):
        decompress(Codec.ZSTD, packed, limit_bytes=1_000_000)


def test_several_frames_are_read_as_one() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"
    frames = zstandard.compress(b"one") + zstandard.compress(b"two")
    assert bytes(decompress(Codec.ZSTD, frames)) == b"onetwo"


def test_raw_snappy_is_read_too() -> None:
    assert bytes(decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)))) == TEXT


def test_lz4_frames_have_independent_blocks() -> None:
    assert not lz4.frame.get_frame_info(compress(Codec.LZ4, TEXT))["block_linked"]


def test_linked_lz4_frames_are_read() -> None:
    assert decompress(Codec.LZ4, lz4.frame.compress(TEXT, block_linked=True)) == TEXT


def test_an_lz4_frame_that_claims_too_much_is_refused() -> None:
    packed = bytearray(lz4.frame.compress(b"abc", store_size=True))
    packed[6:14] = (1 << 60).to_bytes(8, "little")
    with pytest.raises(DamagedError, match="more than"):
        decompress(Codec.LZ4, packed)
