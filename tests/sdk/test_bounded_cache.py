"""The cache behind grammars, automata and schemas."""

import threading

import pytest

from deepinfer_sdk import schema as schemas
from deepinfer_sdk.bounded_cache import BoundedCache


def test_it_makes_a_value_once():
    cache = BoundedCache(limit=2)
    made = [cache.get_or_make("a", object) for _ in range(3)]
    assert made[0] is made[1] is made[2]


def test_it_forgets_what_was_not_used_for_longest():
    cache = BoundedCache(limit=2)
    first = cache.get_or_make("a", object)
    second = cache.get_or_make("b", object)
    cache.get_or_make("a", object)
    cache.get_or_make("c", object)
    assert len(cache) == 2
    assert cache.get_or_make("a", object) is first
    assert cache.get_or_make("b", object) is not second


def test_a_failure_is_not_kept():
    cache = BoundedCache(limit=2)
    with pytest.raises(ZeroDivisionError):
        cache.get_or_make("a", lambda: 1 // 0)
    assert cache.get_or_make("a", lambda: 5) == 5


def test_threads_that_miss_at_once_get_the_same_value():
    cache = BoundedCache(limit=2)
    barrier = threading.Barrier(4)
    got = []

    def make():
        barrier.wait(timeout=10)
        return object()

    threads = [
        threading.Thread(target=lambda: got.append(cache.get_or_make("a", make))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, got))) == 1


def test_a_type_becomes_a_schema_once_and_the_cache_can_be_cleared():
    first = schemas.schema_of(list[int])
    assert schemas.schema_of(list[int]) is first
    schemas.clear()
    assert schemas.schema_of(list[int]) is not first
