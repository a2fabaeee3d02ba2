"""Celery with two workers and two beats, and celery-redbeat with two beats: as processes."""

import time
from contextlib import ExitStack

import pytest
from celery import Celery

from programs import at, blocks, running
from servers import eventually

APP = """
import os, signal, time
import redis
from celery import Celery
from redis_lock_client import Locks
from redis_lock_client.celery import alone, grant

app = Celery("shop", broker="redis://localhost:6379/1")
app.conf.beat_max_loop_interval = 0.1
app.conf.beat_schedule = {
    "once": {"task": "shop.once", "schedule": 0.3, "args": ["today"]},
    "one by one": {"task": "shop.one_by_one", "schedule": 0.1},
}
client = redis.Redis()
locks = Locks(client, name="shop")


@app.task
@alone(locks, "lock:once:{day}", at_least=600)
def once(day):
    client.rpush("once", grant().token)


@app.task
@alone(locks, "lock:one-by-one")
def one_by_one():
    client.rpush("at a time", client.incr("here"))
    time.sleep(0.15)
    client.decr("here")


@app.task(acks_late=True, reject_on_worker_lost=True)
@alone(locks, "lock:die")
def die():
    if client.incr("runs of die") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    client.rpush("done", "die")


@app.task(autoretry_for=(ZeroDivisionError,), retry_kwargs={"countdown": 0.1}, retry_backoff=False)
@alone(locks, "lock:fail", at_least=600)
def fail():
    1 / (client.incr("runs of fail") - 1)
    client.rpush("done", "fail")


@app.task(default_retry_delay=0.1, max_retries=1)
@alone(locks, "lock:busy", if_busy="retry")
def retry(number):
    time.sleep(0.4)
    client.rpush("done", number)


@app.task
@alone(locks, "lock:busy", if_busy="wait")
def wait(number):
    time.sleep(0.4)
    client.rpush("done", number)
"""
WORKER = ("worker", "--pool=prefork", "--concurrency=4", "--without-gossip", "--without-mingle", "-l", "info")


def celery(folder, name, *words):
    return running(folder, "celery", "-A", "shop", *words, log=name)


def beat(folder, name, *words):
    return celery(folder, name, "beat", "--pidfile=", "-s", f"{name}.db", *words)


@pytest.fixture
def shop(tmp_path, server):
    (tmp_path / "shop.py").write_text(at(server.port, APP))
    return tmp_path


@pytest.fixture
def send(shop, server):
    """Sends tasks to a worker, and waits until these are done."""
    app = Celery("shop", broker=at(server.port, "redis://localhost:6379/1"), set_as_current=False)

    def send(name, *tasks, done):
        for words in tasks:
            app.send_task(f"shop.{name}", words)
        eventually(lambda: sorted(server.redis.lrange("done", 0, -1)) == done, f"{done} to be done", 60)

    with celery(shop, "worker", *WORKER):
        yield send


def test_a_beat_task_runs_once_on_two_workers_with_two_beats(shop, server):
    with ExitStack() as stack:
        workers = [stack.enter_context(celery(shop, f"worker{n}", *WORKER, "-n", f"{n}@here")) for n in (1, 2)]
        for n in (1, 2):
            stack.enter_context(beat(shop, f"beat{n}"))

        def lines(name, what):
            return sum(sum(f"shop.{name}[" in line and what in line for line in it.log.read_text().splitlines())
                       for it in workers)

        eventually(lambda: lines("once", "ignored") > 9, "messages that find it running", 60)
        assert server.redis.llen("once") == lines("once", "succeeded") == 1
        eventually(lambda: server.redis.llen("at a time") > 10, "runs, one by one", 60)
        assert set(server.redis.lrange("at a time", 0, -1)) == {"1"}
    assert server.info("lock:one-by-one") is None


def test_a_message_whose_worker_was_killed_is_done_in_the_end(send, server):
    send("die", (), done=["die"])
    assert server.redis.get("runs of die") == "2"


def test_a_run_that_failed_leaves_no_mark(send, server):
    send("fail", (), done=["fail"])
    assert server.redis.get("runs of fail") == "2"


@pytest.mark.parametrize("if_busy", ["retry", "wait"])
def test_a_busy_message_is_not_lost(send, if_busy):
    send(if_busy, [1], [2], [3], done=["1", "2", "3"])


def test_redbeat_s_second_beat_takes_over_from_one_that_is_killed(shop, server):
    with (shop / "shop.py").open("a") as file:
        file.write(at(server.port, blocks("celery-redbeat")[0].split("\n\n", 1)[1].split("\n", 1)[1]))

    def info():
        return server.info("redbeat::lock")

    def another(than):
        return eventually(lambda: (now := info()) and now["token"] != than["token"] and now, "another grant", 30)

    with beat(shop, "beat1") as first, beat(shop, "beat2") as second:
        active = eventually(info, "an active beat", 60)
        server.wait_for_waiters("redbeat::lock", 1, 60)
        [killed, other] = [first, second] if f":{first.pid}:" in active["owner"] else [second, first]
        killed.kill()
        then = another(active)
        assert f":{other.pid}:" in then["owner"]
        server.redis.delete("redbeat::lock")  # by force: it gets in line again, maybe with the same owner's name
        another(then)
        assert other.poll() is None
        other.terminate()
        other.wait(15)
        assert info() is None


@pytest.fixture
def scheduler(server):
    from redis_lock_client.lock_class import close
    from redis_lock_client.redbeat import Scheduler

    app = Celery("shop", broker=at(server.port, "redis://localhost:6379/1"), set_as_current=False)
    app.conf.redbeat_redis_url = at(server.port, "redis://localhost:6379/0")
    app.conf.beat_max_loop_interval, app.conf.redbeat_lock_timeout = 0.1, 300
    app.conf.result_expires = None  # else beat sends a task of its own
    yield Scheduler(app=app)
    close()


def test_redbeat_sends_nothing_while_the_server_hangs_and_goes_on_behind_it(server, scheduler):
    assert scheduler.tick() == 0.1
    token = server.info("redbeat::lock")["token"]
    server.order("pause")
    began = time.monotonic()
    assert scheduler.tick() == 0.1
    assert time.monotonic() - began < 3
    server.order("resume")
    eventually(lambda: scheduler.tick() and scheduler._is_active(), "the lock to be known")
    assert server.info("redbeat::lock")["token"] == token
    scheduler.close()
    assert server.info("redbeat::lock") is None


def test_redbeat_ends_also_where_the_exception_of_its_signal_gets_lost(server, scheduler):
    scheduler.tick()
    server.order("pause")
    scheduler.close()  # raises nothing in the place of that exception
    server.order("resume")
    with pytest.raises(SystemExit):
        scheduler.tick()
    eventually(lambda: server.info("redbeat::lock") is None, "the lock to be free")


def test_the_program_of_the_guide(server, tmp_path):
    (tmp_path / "reports.py").write_text(at(server.port, blocks("Celery")[0]))
    ask = "import reports; print(reports.report.delay('today').get(timeout=40))"
    (tmp_path / "ask.py").write_text(ask)
    with running(tmp_path, "celery", "-A", "reports", "worker", "--pool=solo", log="worker"), \
            running(tmp_path, "ask", log="asked") as asked:
        assert asked.wait(60) == 0, asked.log.read_text()
    assert "today: fence writes with " in asked.log.read_text()
    assert server.info("lock:reports:today") is None
    assert 0 < server.redis.ttl("lock:reports:today:ran") <= 60
