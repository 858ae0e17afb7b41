"""What is remembered is bounded: what is forgotten when one more comes."""

from gpuloom.engine.bounded import FifoDict, LruCache


def test_of_a_dictionary_that_is_full_what_was_set_longest_ago_is_forgotten() -> None:
    kept: FifoDict[str, int] = FifoDict(2)
    kept["a"], kept["b"] = 1, 2
    assert kept.get("a") == 1
    kept["c"] = 3
    assert list(kept.items()) == [("b", 2), ("c", 3)]


def test_what_is_set_again_is_new() -> None:
    kept: FifoDict[str, int] = FifoDict(2)
    kept["a"], kept["b"], kept["a"], kept["c"] = 1, 2, 3, 4
    assert list(kept.items()) == [("a", 3), ("c", 4)]


def test_of_a_cache_that_is_full_what_was_asked_for_longest_ago_is_forgotten() -> None:
    kept: LruCache[str, int] = LruCache(2)
    kept.keep("a", 1)
    kept.keep("b", 2)
    assert kept.find("a") == 1
    kept.keep("c", 3)
    assert (kept.find("a"), kept.find("b"), kept.find("c")) == (1, None, 3)
