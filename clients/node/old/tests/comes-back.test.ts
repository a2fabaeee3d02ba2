/** Owners that come back: those of tasks, those that the user named, and those of adopted grants. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import {
  type Grant, type Lock, LockBusy, type LockEvent, LockLost, LockMisuse, LockNotAlone, LockUnavailable, type Locks,
} from "../src/index.ts";
import { type Place, type Server, eventually, startProxy, startServer } from "./servers.ts";
import { KEY, NAMED, Pending, comers, cut, keptBy, newLocks, newRedis, toldLocks, waitUntilKept } from "./support.ts";

const holdsOf = async (server: Server): Promise<number> => (await server.holders(KEY))[0]?.["holds"] as number;

/** That nobody else gets the lock within a second and a half, and the holder is right to trust it. */
async function staysAlone(server: Server, grant: { token: number; check(): Promise<void>; held: boolean }): Promise<void> {
  const other = newLocks(server);
  await assert.rejects(other.lock(KEY, { wait: 1500 }).acquire(), LockBusy);
  await grant.check();
  assert(grant.held);
  assert.equal((await server.info(KEY))?.["token"], grant.token);
}

for (const [who, comer] of Object.entries(comers)) {
  for (const call of ["wait", "try"]) {
    test(`${who}: the undo of a ${call} at a stopped server does not end its next grant`, async () => {
      const server = await startServer();
      const locks = newLocks(server);
      const lock = comer(locks);
      await locks.lock("warm").run(() => {});
      const first = call === "wait" ? await newLocks(server).lock(KEY).acquire() : undefined;
      const abort = new AbortController();
      if (!first) await server.order("pause");
      const off = Pending.of(lock(call === "wait" ? { wait: 60_000 } : {}), abort.signal);
      if (first) {
        await server.waitForWaiters(KEY, 1);
        await server.order("pause");
      }
      abort.abort();
      await assert.rejects(off.over, { name: "AbortError" });
      const next = Pending.of(lock({ wait: 60_000 }));
      await pause(100);
      await server.order("resume");
      await first?.release();
      await staysAlone(server, await next.granted());
      await (await next.granted()).release();
      await server.waitUntilFree(KEY, 3000);
    });

    test(`${who}: the undo of a ${call} whose reply was lost does not end its next grant`, async () => {
      const server = await startServer();
      const proxy = await startProxy(server);
      const locks = newLocks(proxy);
      const lock = comer(locks);
      await locks.lock("warm").run(() => {});
      const first = call === "wait" ? await newLocks(server).lock(KEY).acquire() : undefined;
      const abort = new AbortController();
      // The replies to the undo are lost, so that it would be sent again and again.
      if (!first) await proxy.inject("keep", "LOCK.ACQUIRE");
      const off = Pending.of(lock(call === "wait" ? { wait: 60_000 } : {}), abort.signal);
      if (first) await server.waitForWaiters(KEY, 1);
      else await eventually(() => server.info(KEY), "the grant");
      await proxy.order("inject", { fault: "cut", words: "ALL", times: 3 });
      abort.abort();
      await assert.rejects(off.over, { name: "AbortError" });
      await first?.release();
      const grant = await lock({ wait: 20_000 }).acquire();
      await staysAlone(server, grant);
      await grant.release();
    });
  }

  test(`${who}: a call that was given up at a silent server keeps nothing, and the next one is right`, async () => {
    const server = await startServer();
    const proxy = await startProxy(server);
    const locks = newLocks(proxy);
    const lock = comer(locks);
    await locks.lock("warm").run(() => {});
    await proxy.order("silence");
    await assert.rejects(lock({}).acquire(), LockUnavailable);
    await proxy.order("speak");
    const grant = await lock({ wait: 20_000 }).acquire();
    await staysAlone(server, grant);
    await grant.release();
    await server.waitUntilFree(KEY, 3000);
  });

  test(`${who}: a release that is sent again does not end its next grant`, async () => {
    const server = await startServer();
    const proxy = await startProxy(server);
    const lock = comer(newLocks(proxy));
    let grant = await lock({}).acquire();
    for (let round = 0; round < 10; round += 1) {
      await proxy.order("inject", { fault: "reset-request", words: "LOCK.RELEASE", times: 2 });
      const abort = new AbortController();
      const releasing = Promise.allSettled([grant.release(round % 2 ? { signal: abort.signal } : {})]);
      setTimeout(() => abort.abort(), 5);
      if (round % 2) await releasing;
      grant = await lock({ wait: 20_000 }).acquire();
      await releasing;
      // One that was called off is not sent again in a name that may come back elsewhere.
      const isOnce = who === "a named owner" && round % 2;
      if (!isOnce) await eventually(async () => (await proxy.order("lost"))["pending"] === 0, "the releases");
      await pause(200);
      await grant.check();
      assert.equal((await server.info(KEY))?.["token"], grant.token);
    }
    await grant.release();
    assert.equal(await server.info(KEY), undefined);
  });

  test(`${who}: an acquire that is called off takes away its own hold only`, async () => {
    const server = await startServer();
    const proxy = await startProxy(server);
    const lock = comer(newLocks(proxy));
    const outer = await lock({}).acquire();
    await proxy.inject({ delay: 300 }, "LOCK.ACQUIRE");
    await assert.rejects(lock({}).acquire({ signal: AbortSignal.timeout(100) }), { name: "TimeoutError" });
    const again = await lock({}).acquire();
    assert.equal(again.token, outer.token);
    await eventually(async () => (await holdsOf(server)) === 2, "two holds");
    await outer.release();
    await staysAlone(server, again);
    await again.release();
    assert.equal(await server.info(KEY), undefined);
  });
}

test("a task keeps its owner where a call was called off and answered", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const first = await locks.lock(KEY).acquire();
  const task = locks.task();
  const { owner } = task;
  const abort = new AbortController();
  const off = Pending.of(task.lock(KEY, { wait: 60_000 }), abort.signal);
  await server.waitForWaiters(KEY, 1);
  abort.abort();
  await assert.rejects(off.over, { name: "AbortError" });
  assert.equal(task.owner, owner);
  await first.release();
});

test("a task that goes on with another owner takes again what it has", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const task = locks.task();
  const { owner } = task;
  const outer = await task.lock("other").acquire();
  await server.order("pause");
  await assert.rejects(task.lock(KEY).acquire(), LockUnavailable);
  await server.order("resume");
  assert.notEqual(task.owner, owner);
  const inner = await task.lock("other").acquire();
  assert.equal(inner.owner, owner);
  assert.equal(inner.token, outer.token);
  await outer.release();
  assert(inner.held);
  await inner.release();
  assert.equal(await server.info("other"), undefined);
});

test("two grants of a named owner count their holds", async () => {
  const server = await startServer();
  const { locks, told } = toldLocks(server);
  const one = await locks.lock(KEY, { owner: NAMED }).acquire();
  const two = await locks.task().lock(KEY, { owner: NAMED }).acquire();
  assert.equal(two.token, one.token);
  assert.equal(await holdsOf(server), 2);
  await one.release();
  assert(!one.held && two.held);
  await staysAlone(server, two);
  const three = await locks.lock(KEY, { owner: NAMED }).acquire();
  const adopted = await locks.adopt(KEY, NAMED, three.token);
  assert.equal(await holdsOf(server), 3);
  await assert.rejects(adopted.detach(), LockMisuse);
  await two.release();
  await three.release();
  await staysAlone(server, adopted);
  const last = await locks.lock(KEY, { owner: NAMED }).acquire();
  await server.redis.del(KEY);
  await eventually(() => !adopted.held && !last.held, "both to be told");
  await assert.rejects(adopted.release(), LockLost);
  await assert.rejects(last.release(), LockLost);
  assert.equal(told.filter(({ type }) => type === "lost").length, 1);
});

test("an adoption that was given up does not end the keeping of the next one", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  const [token] = (await server.redis.call("LOCK.ACQUIRE", KEY, NAMED, "EX", 60)) as [number];
  await locks.lock("warm").run(() => {});
  await proxy.inject({ delay: 300 }, "LOCK.RENEW");
  await assert.rejects(locks.adopt(KEY, NAMED, token, { signal: AbortSignal.timeout(100) }), { name: "TimeoutError" });
  const grant = await locks.adopt(KEY, NAMED, token, { lease: 1500 });
  await pause(2500);
  assert.notEqual(await keptBy(server), 0);
  await staysAlone(server, grant);
  await grant.release();
});

for (const how of ["named", "adopted"]) {
  test(`a check finds that somebody else has released what is ${how}`, async () => {
    const server = await startServer();
    const { locks, told } = toldLocks(server);
    const take = async (): Promise<Awaited<ReturnType<Lock["acquire"]>>> => {
      if (how === "named") return locks.lock(KEY, { owner: NAMED }).acquire();
      const [token] = (await server.redis.call("LOCK.ACQUIRE", KEY, NAMED, "EX", 60)) as [number];
      return locks.adopt(KEY, NAMED, token);
    };
    const grant = await take();
    await grant.check();
    assert.equal(await server.redis.call("LOCK.RELEASE", KEY, NAMED, "ALL"), 0);
    const other = await newLocks(server).lock(KEY).acquire();
    await assert.rejects(grant.check(), LockLost);
    assert(!grant.held && grant.signal.aborted);
    assert.equal(told.filter(({ type }) => type === "lost").length, 1);
    await other.release();
  });
}

test("a check of a fresh owner's lock costs no more than a PING", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const grant = await locks.lock(KEY).acquire();
  await grant.check();
  assert.equal(await server.calls("lock.fence"), 0);
  assert.equal(await server.calls("lock.holders"), 0);
  await grant.release();
});

test("what another connection keeps is not taken back", async () => {
  const server = await startServer();
  const { locks, told } = toldLocks(server);
  const other = toldLocks(server);
  const task = await locks.task().lock("task").acquire();
  const grant = await locks.lock(KEY, { owner: NAMED }).acquire();
  const adopted = await other.locks.adopt(KEY, NAMED, grant.token);
  await eventually(() => !grant.held, "the loss", 3000);
  await assert.rejects(grant.release(), (error) => error instanceof LockLost && error.message.includes("another connection keeps it"));
  await task.check();
  await adopted.check();
  const calls = await server.calls("lock.renew");
  await pause(1000);
  assert.equal(await server.calls("lock.renew"), calls);
  assert(adopted.held);
  assert.equal(told.filter(({ type }) => type === "lost").length, 1);
  assert.equal(told.filter(({ type }) => type === "keeper-lost").length, 1);
  assert(!other.told.some(({ type }) => type === "lost" || type === "keeper-lost"));
  await adopted.release();
  await task.release();
});

/** What ends a grant or its keeping, or changes it. */
const changes: Record<string, (grant: Grant, locks: Locks) => Promise<unknown>> = {
  release: (grant) => grant.release(),
  detach: (grant) => grant.detach(),
  "fixed lease": (grant) => grant.extend(5000, { fixed: true }),
  renewal: (grant) => grant.extend(2000),
  downgrade: (grant) => grant.downgrade(),
  "close of the locks": (_, locks) => locks.close(),
};

/** That the lock is what somebody else has made of it. */
async function staysTheirs(server: Server, theirs: Grant, keeper: number): Promise<void> {
  await theirs.check();
  const [holder] = await server.holders(KEY);
  assert.equal(holder?.["token"], theirs.token);
  assert.equal(holder?.["kept-by"], keeper);
  assert.equal(holder?.["lease-ms"], 10_000);
  assert.equal(holder?.["limit"], 1);
}

for (const [what, change] of Object.entries(changes)) {
  test(`a ${what} at the end of its keeper leaves what somebody else keeps`, async () => {
    const server = await startServer();
    const others = newLocks(server);
    await others.lock("warm").run(() => {});
    for (let round = 0; round < 10; round += 1) {
      let atTheEnd = (): void => {};
      const told: LockEvent[] = [];
      const locks = newLocks(server, { onEvent: (event) => {
        told.push(event);
        if (event.type === "keeper-lost") atTheEnd();
      } });
      const grant = await locks.lock(KEY, { owner: NAMED }).acquire();
      const changing = new Promise<unknown>((resolve) => {
        atTheEnd = () => { change(grant, locks).then(() => resolve(undefined), resolve); };
      });
      const theirs = await (round % 2 ? others.adopt(KEY, NAMED, grant.token) : others.lock(KEY, { owner: NAMED }).acquire());
      const keeper = await keptBy(server);
      const error = await changing;
      if (what !== "close of the locks") assert(error instanceof LockLost, String(error));
      await staysTheirs(server, theirs, keeper);
      assert(told.some(({ type }) => type === "lost" || type === "released"));
      await theirs.release();
      await locks.close();
    }
  });

  test(`a ${what} while the keeper closes leaves what somebody else keeps`, async () => {
    const server = await startServer();
    const others = newLocks(server);
    await others.lock("warm").run(() => {});
    for (let round = 0; round < (process.env["LONG"] ? 200 : 20); round += 1) {
      const locks = newLocks(server);
      const grant = await locks.lock(KEY, { owner: NAMED }).acquire();
      const theirs = await others.adopt(KEY, NAMED, grant.token);
      if (round % 4) await pause(Math.random() * (round % 4));
      const error = await change(grant, locks).then(() => undefined, (it: unknown) => it);
      if (what !== "close of the locks") assert(error instanceof LockLost, String(error));
      await staysTheirs(server, theirs, await keptBy(server));
      await theirs.release();
      await locks.close();
    }
  });

  test(`a ${what} that was lost on its way is not sent again where somebody else keeps it by then`, async () => {
    const server = await startServer();
    const proxy = await startProxy(server);
    const others = newLocks(server);
    const locks = newLocks(proxy, { replyTimeout: 300 });
    const grant = await locks.lock(KEY, { owner: NAMED }).acquire();
    await proxy.order("swallow");
    const changing = change(grant, locks).then(() => undefined, (it: unknown) => it);
    const theirs = await others.adopt(KEY, NAMED, grant.token);
    const keeper = await keptBy(server);
    await pause(100);
    await proxy.order("speak");
    const error = await changing;
    await pause(500);
    if (what === "release") assert(error instanceof LockLost, String(error));
    await staysTheirs(server, theirs, keeper);
    await theirs.release();
  });
}

test("what came from a wait is not released where somebody else keeps it by then", async () => {
  const server = await startServer();
  const locks = newLocks(server), others = newLocks(server);
  for (let round = 0; round < 20; round += 1) {
    const first = await others.lock(KEY).acquire();
    const waiting = Pending.of(locks.lock(KEY, { owner: NAMED, wait: 60_000 }));
    await server.waitForWaiters(KEY, 1);
    await first.release();
    const grant = await waiting.granted();
    const theirs = await others.lock(KEY, { owner: NAMED }).acquire();
    await assert.rejects(round % 2 ? grant.release() : grant.detach(), LockLost);
    await staysTheirs(server, theirs, await keptBy(server));
    await theirs.release();
  }
});

/** Locks with a grant of their own, that do this whenever their keeper has closed, or is there again. */
async function atEvents(where: Place, events: Partial<Record<LockEvent["type"], () => void>>): Promise<Locks> {
  const locks = newLocks(where, { onEvent: ({ type }) => events[type]?.() });
  await locks.lock("warm").acquire();
  return locks;
}

test("a release that is called off on the next keeper leaves what somebody else keeps by then", async () => {
  const server = await startServer();
  const others = newLocks(server);
  for (let round = 0; round < 10; round += 1) {
    const abort = new AbortController();
    let release = (): void => {};
    const locks = await atEvents(server, { "keeper-lost": () => release(), "keeper-back": () => abort.abort() });
    const grant = await locks.lock(KEY, { owner: NAMED }).acquire();
    const released = new Promise<void>((resolve, reject) => {
      release = () => { grant.release({ signal: abort.signal }).then(resolve, reject); };
    });
    const theirs = await others.adopt(KEY, NAMED, grant.token);
    await assert.rejects(released, { name: "AbortError" });
    await locks.close();
    await staysTheirs(server, theirs, await keptBy(server));
    await theirs.release();
  }
});

test("a wait that is called off leaves what somebody else keeps by then", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const others = newLocks(server);
  for (let round = 0; round < 5; round += 1) {
    const locks = newLocks(proxy);
    const first = await others.lock(KEY).acquire();
    await proxy.inject({ delay: 300 }, "BLOCK");
    const abort = new AbortController();
    const off = Pending.of(locks.lock(KEY, { owner: NAMED, wait: 60_000 }), abort.signal);
    await server.waitForWaiters(KEY, 1);
    await first.release();
    const theirs = await others.lock(KEY, { owner: NAMED }).acquire();
    abort.abort();
    await assert.rejects(off.over, { name: "AbortError" });
    await staysTheirs(server, theirs, await keptBy(server));
    await theirs.release();
    await locks.close();
  }
});

test("a late answer to a wait takes nothing from who asked later", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const [locks, others] = [newLocks(proxy), newLocks(server)];
  const first = await others.lock(KEY).acquire();
  await proxy.inject({ delay: 900 }, "BLOCK");
  const late = locks.lock(KEY, { owner: NAMED, wait: 60_000, lease: 1000 }).acquire();
  await server.waitForWaiters(KEY, 1);
  await first.release();
  const theirs = await others.lock(KEY, { owner: NAMED }).acquire();
  const keeper = await keptBy(server);
  await assert.rejects(late, LockLost);
  await staysTheirs(server, theirs, keeper);
});

for (const call of ["acquire", "adoption"]) {
  test(`an ${call} that is called off on the next keeper leaves what somebody else keeps by then`, async () => {
    const server = await startServer();
    const proxy = await startProxy(server);
    const others = newLocks(server);
    for (let round = 0; round < 10; round += 1) {
      const [token] = (await server.redis.call("LOCK.ACQUIRE", KEY, NAMED, "EX", 10)) as [number];
      const abort = new AbortController();
      const { signal } = abort;
      const locks = await atEvents(proxy, { "keeper-back": () => abort.abort() });
      await proxy.inject("keep", NAMED);
      const off = new Pending(call === "acquire" ? locks.lock(KEY, { owner: NAMED }).acquire({ signal })
        : locks.adopt(KEY, NAMED, token, { signal }));
      await waitUntilKept(server, 0);
      const theirs = await others.adopt(KEY, NAMED, token);
      await assert.rejects(off.over, { name: "AbortError" });
      await locks.close();
      await staysTheirs(server, theirs, await keptBy(server));
      await theirs.release();
    }
  });
}

test("a taking again that is refused does not have the keeping taken back meanwhile", async () => {
  const server = await startServer();
  const others = newLocks(server);
  for (let round = 0; round < 10; round += 1) {
    let enter = (): void => {};
    const locks = await atEvents(server, { "keeper-lost": () => enter() });
    const grant = await locks.shared(KEY, { owner: NAMED }).acquire();
    const reader = await others.shared(KEY).acquire();
    const refused = new Promise<void>((resolve, reject) => {
      enter = () => { assert.rejects(locks.lock(KEY, { owner: NAMED }).acquire(), LockNotAlone).then(resolve, reject); };
    });
    const theirs = await others.adopt(KEY, NAMED, grant.token);
    await refused;
    await eventually(() => !grant.held, "the loss", 3000);
    await theirs.check();
    assert(theirs.held);
    await theirs.release();
    await reader.release();
    await locks.close();
  }
});

test("a release of one of two holds that is sent again tells of a loss", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const task = newLocks(proxy).task();
  const outer = await task.lock(KEY).acquire(), inner = await task.lock(KEY).acquire();
  await proxy.order("inject", { fault: "cut", words: "LOCK.RELEASE", times: 3 });
  const released = assert.rejects(inner.release(), LockLost);
  await eventually(async () => (await proxy.order("lost"))["pending"] < 3, "the release");
  await server.redis.del(KEY);
  await released;
  assert(!outer.held);
});

test("a loss that no server told ends nothing that somebody else has in the owner's name by then", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const grant = await newLocks(proxy).lock(KEY, { owner: NAMED, lease: 1000 }).acquire();
  await proxy.order("silence");
  const adopted = await newLocks(server).adopt(KEY, NAMED, grant.token, { lease: 10_000 });
  const calls = await server.calls("lock.release");
  await eventually(() => !grant.held, "the loss");
  await proxy.order("speak");
  await staysAlone(server, adopted);
  assert.equal(await server.calls("lock.release"), calls);
  await adopted.release();
});

test("a named owner's loss that no server told is kept for nobody", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy, { replyTimeout: 4000 });
  const grant = await locks.lock(KEY, { owner: NAMED, lease: 1000 }).acquire();
  const other = await locks.lock("other").acquire();
  await proxy.inject({ delay: 3000 }, "LOCK.RENEW");
  await cut(server);
  await eventually(() => !grant.held, "a loss");
  await server.waitUntilFree(KEY, 3000);
  await other.check();
  await other.release();
});

test("a taking again that failed does not have the keeping taken back", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const grant = await locks.shared(KEY, { owner: NAMED }).acquire();
  const reader = await newLocks(server).shared(KEY).acquire();
  await assert.rejects(locks.lock(KEY, { owner: NAMED }).acquire(), LockNotAlone);
  const adopted = await newLocks(server).adopt(KEY, NAMED, grant.token);
  await eventually(() => !grant.held, "the loss", 3000);
  await adopted.check();
  await adopted.release();
  await reader.release();
});

test("the ids of a server mean nothing on the next", async () => {
  const server = await startServer({ appendonly: "yes", appendfsync: "always" });
  const proxy = await startProxy(server);
  while (await newRedis(server).client("ID") < 30) {} // so that others get as far after the restart
  const grant = await newLocks(proxy).lock(KEY, { owner: NAMED, lease: 60_000 }).acquire();
  const own = new Set<number>();
  for (let round = 0; round < 10; round += 1) {
    const former = await keptBy(server);
    own.add(former);
    await server.redis.call("CLIENT", "KILL", "ID", former);
    await waitUntilKept(server, former);
  }
  await proxy.order("swallow");
  await server.order("kill");
  await server.order("restart");
  let adopted = grant;
  while (!own.has(await keptBy(server))) {
    adopted = await newLocks(server).adopt(KEY, NAMED, grant.token);
  }
  await proxy.order("speak");
  await eventually(() => !grant.held, "the loss");
  await adopted.check();
  await adopted.release();
});

test("a named owner's grant is kept on when its keeper closes", async () => {
  const server = await startServer();
  const { locks, told } = toldLocks(server);
  const grant = await locks.lock(KEY, { owner: NAMED, lease: 3000 }).acquire();
  for (let round = 0; round < 3; round += 1) {
    const before = await keptBy(server);
    await server.redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await waitUntilKept(server, before);
  }
  await grant.check();
  assert(!told.some(({ type }) => type === "lost"));
  await grant.release();
});

for (const refused of ["-lock.holders", "-client|id"]) {
  test(`a user with ${refused} keeps on without a look`, async () => {
    const server = await startServer();
    await server.redis.call("ACL", "SETUSER", "app", "on", ">x", "~*", "+@all", refused);
    const { locks, told } = toldLocks(server, { redis: { username: "app", password: "x" } } as object);
    const grant = await locks.lock(KEY, { owner: NAMED }).acquire();
    const before = await keptBy(server);
    await server.redis.call("CLIENT", "KILL", "USER", "app");
    await waitUntilKept(server, before);
    await grant.check();
    assert(!told.some(({ type }) => type === "lost"));
    await grant.release();
  });
}
