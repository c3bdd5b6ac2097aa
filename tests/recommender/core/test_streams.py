"""Streams between instances and rows."""

from __future__ import annotations

from app.recommender.core.moments import DAY, UNSET
from app.recommender.core.samples import MANY, NO_STREAM, SampleRoutes


def pointed(streams: SampleRoutes, instance: int) -> int:
    """Return what the table of instances says of an instance."""
    return int(streams.instances.stream[instance])


def test_one_stream_in_a_life() -> None:
    """An instance that feeds one row has one stream, and goes without a trace."""
    streams = SampleRoutes()
    instance = streams.instances.take()
    stream = streams.join(instance, 7, 0)

    assert pointed(streams, instance) == stream
    assert streams.all_of(instance) == streams.active_of(instance) == {7: stream}

    streams.drop(instance)

    assert (len(streams.instances), len(streams.table)) == (0, 0)


def test_several_rows_at_once() -> None:
    """An instance may feed several rows, each by a stream of its own."""
    streams = SampleRoutes()
    instance = streams.instances.take()
    one, other = streams.join(instance, 7, 0), streams.join(instance, 9, 0)

    assert pointed(streams, instance) == MANY
    assert streams.active_of(instance) == {7: one, 9: other}

    streams.leave(instance, 7)

    assert pointed(streams, instance) == other
    assert streams.active_of(instance) == {9: other}
    assert streams.all_of(instance) == {7: one, 9: other}


def test_coming_back_goes_on_with_the_old_stream() -> None:
    """While its interval runs, a stream of the past waits for its instance."""
    streams = SampleRoutes()
    instance = streams.instances.take()
    first = streams.join(instance, 7, 0)
    streams.windows.resume(first, DAY, 100, 0)
    streams.leave(instance, 7)
    streams.tidy(DAY - 1)
    again = streams.join(instance, 7, DAY - 1)
    resumed = int(streams.windows.ends[again])
    streams.leave(instance, 7)
    late = streams.join(instance, 7, DAY)
    ended = int(streams.windows.ends[late])
    streams.leave(instance, 7)
    streams.tidy(DAY)

    assert (again, late) == (first, first)
    assert (resumed, ended) == (DAY, UNSET)
    assert streams.all_of(instance) == {}
    assert pointed(streams, instance) == NO_STREAM
    assert streams.windows.ends[first] == UNSET


def test_rows_that_go_cut_their_streams() -> None:
    """Streams to a row that is gone are gone, also active ones."""
    streams = SampleRoutes()
    instances = [streams.instances.take() for _ in range(2)]
    for instance in instances:
        streams.join(instance, 7, 0)
    kept = streams.join(instances[1], 8, 0)
    streams.cut([7], row_capacity=16)

    assert [pointed(streams, instance) for instance in instances] == [NO_STREAM, kept]
    assert streams.of_rows([7, 8], row_capacity=16).tolist() == [kept]


def test_a_stream_of_the_past_can_be_made() -> None:
    """A late observation may need a stream that is not active."""
    streams = SampleRoutes()
    instance = streams.instances.take()
    active = streams.join(instance, 7, 0)
    past = streams.between(instance, 9)

    assert streams.between(instance, 9) == past
    assert streams.active_of(instance) == {7: active}
    assert pointed(streams, instance) == active
