"""The recommender: reads usage, keeps histories, publishes what each container should ask for.

Theory of operation
===================

Decisions are made in `core`, without clock, thread or door; the files beside it gather what the
core is told and carry out what it answers. `upstream` holds another model with the same face.

There are these threads; each kind of state belongs to one of them:

1. The rounds (`leader_loop`, `recommender`) own the model, the cluster feed, and the write queue.
   The loop calls `LeaderLoop.tick`, which calls `Recommender.tick` while the process leads.
2. The watches own the watch cache. They swap whole snapshots, and append to `RecentChanges` which
   pods and evictions changed; the rounds drain it.
3. The election owns leadership. The rounds ask for it, before each write and after each page.
4. `past_reader` reads the past from Prometheus and lays it ready; the rounds take it once.
5. Threads of the write queue make calls, and put their outcome into a queue of the rounds' own.
   Threads of `paging` read one page each. Writes end by the client's time-out; only page
   threads are abandoned.
6. The API answers from the newest snapshot and from what `RecommenderReport` shows, both of which
   are swapped as a whole. It never touches the model.

A term of leadership is the life of one `Recommender`, hence of one model:

    standby --lease won, cluster known--> begun --targets known, checkpoints read--> restored
    restored --lease lost or told to end--> flushed --> standby

Nothing is carried over from term to term but the snapshot and `RecentChanges`: another process
may have led in between, and what it stored is newer. If the term changed without a moment of not
leading, the model is dropped without being stored.

A round goes through these steps, always in this order:

    look (VPAs, pods that went, pods, checkpoints of new VPAs, what was heard of)
    -> usage -> statuses -> show -> checkpoints -> deleted checkpoints -> count

Between rounds, and before each write of a round, what was heard of is told to the model, and the
statuses that this makes urgent are written first. A step whose calls fail costs itself alone: the
next round begins with it again, because the model counts as done only what is not taken back by
`not_published`, `not_stored` or `not_dropped`.

Must never happen:

- A write is begun while another process may lead.
- Two writes of one object are under way at a time, or an older one follows a newer one.
- Checkpoints are stored or deleted before all of them were read; or deleted as orphans by a list
  that is not complete, or by a list of VPAs that was read before that of checkpoints.
- The model is told the same state of a VPA or pod twice, or is called from two threads.
- An object at which our code fails keeps another one from being handled; it is counted as skipped.
- Anything here waits longer for a call than until the process has to end.

`replay` drives the same `Recommender` without threads. Its clock is set; feed, usage, checkpoints,
writer and report, which every `Recommender` is given, are its own and work on recorded objects.
"""
