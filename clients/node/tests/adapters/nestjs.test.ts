/** The NestJS module, in testing modules and in applications that run. */

import "reflect-metadata";
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { Controller, Get, type INestApplication, Inject, Injectable, Module, Param, type Provider, Scope, SetMetadata } from "@nestjs/common";
import { Test, type TestingModule } from "@nestjs/testing";
import type { Redis } from "ioredis";
import { of } from "rxjs";
import { LockBusy, LockMisuse, LockUnavailable, Locks } from "redis-lock-client";
import { InjectLocks, LockErrorFilter, LocksModule, type LocksModuleExtras, type LocksModuleOptions, WithLock, currentGrant,
  getLocksToken } from "redis-lock-client/nestjs";
import { type Server, ends, eventually, startServer } from "../servers.ts";
import { newRedis } from "./support.ts";

/** Where methods wait until the test opens it. */
class Gate {
  #open: () => void = () => {};
  readonly opened = new Promise<void>((resolve) => { this.#open = resolve; });
  entered = 0;

  open(): void { this.#open(); }

  async pass(): Promise<void> {
    this.entered += 1;
    await this.opened;
  }
}

/** As decorators of database libraries: the method is a transaction. */
function Transactional(log: string[]) {
  return (_: object, __: string, descriptor: TypedPropertyDescriptor<any>): void => {
    const method = descriptor.value;
    descriptor.value = async function (this: unknown, ...given: unknown[]): Promise<unknown> {
      const result = await method.apply(this, given);
      await pause(50);
      log.push(`commit held=${currentGrant()?.held}`);
      return result;
    };
  };
}
const commits: string[] = [];

@Injectable()
class Orders {
  inside = 0;
  most = 0;
  readonly gate: Gate;
  readonly locks: Locks;

  constructor(@Inject(Gate) gate: Gate, locks: Locks) {
    this.gate = gate;
    this.locks = locks;
  }

  @WithLock((id: number) => `orders:${id}`, { wait: 20_000 })
  async pay(id: number): Promise<string> {
    this.inside += 1;
    this.most = Math.max(this.most, this.inside);
    await pause(20);
    this.inside -= 1;
    return `${id} ${currentGrant()?.key} ${(currentGrant()?.token ?? 0) > 1e15}`;
  }

  @WithLock((id: number) => `orders:${id}`, { wait: Infinity })
  async payTwice(id: number): Promise<string> { return this.pay(id); }

  @WithLock("audit")
  async audit(id: number): Promise<string> { return this.pay(id); }

  @WithLock("started")
  async start(isLater = false): Promise<{ later?: Promise<unknown> }> {
    return isLater ? {} : { later: this.gate.pass().then(() => this.start(true)) };
  }

  @WithLock((id: number) => `seats:${id}`)
  @Transactional(commits)
  async sell(_id: number, _buyer: string): Promise<void> {}

  @WithLock("report", { ifBusy: "skip" })
  async report(): Promise<string> {
    await this.gate.pass();
    return "reported";
  }

  @WithLock((job: string) => `tick:${job}`, { ifBusy: "skip", atLeast: 3000 })
  async tick(_job: string, error?: Error): Promise<string> {
    if (error) throw error;
    return "ticked";
  }

  @WithLock((...ids: string[]) => ids.map((id) => `account:${id}`), { wait: 0 })
  async transfer(...ids: string[]): Promise<(string | undefined)[]> {
    await this.gate.pass();
    return ids.map((id) => currentGrant(`account:${id}`)?.key);
  }

  @WithLock("import", { of: 2, wait: 0 })
  async import(): Promise<void> { await this.gate.pass(); }

  @WithLock("page", { shared: true })
  async read(): Promise<void> { await this.gate.pass(); }

  @WithLock(["page", "other"], { shared: true })
  async readAll(): Promise<void> {}

  @WithLock("stream")
  async stream(): Promise<unknown> { return of(1); }

  // @ts-expect-error: the key is made of the method's arguments
  @WithLock((id: string) => id)
  async mistyped(_id: number): Promise<void> {}

  @WithLock("failed")
  async fail(error: Error): Promise<void> {
    await this.gate.pass();
    throw error;
  }

  @WithLock("outer", { ifBusy: "skip" })
  async outer(): Promise<void> {
    await this.locks.lock("outer", { wait: 0 }).acquire();
  }
}

@Injectable({ scope: Scope.REQUEST })
class PerRequest {
  @WithLock("per request")
  async work(): Promise<string | undefined> { return currentGrant()?.key; }
}

async function modules(server: Server, imports = [LocksModule.forRoot({ client: newRedis(server), service: "nest" })],
  providers: Provider[] = []): Promise<TestingModule> {
  const testing = await Test.createTestingModule({ imports, providers: [Gate, Orders, ...providers] }).compile();
  await testing.init();
  ends.push(() => testing.close());
  return testing;
}

test("Locks are injected, and methods work under a lock", async () => {
  const server = await startServer();
  const testing = await modules(server, [LocksModule.forRoot({ client: newRedis(server, { keyPrefix: "shop:" }) })], [PerRequest]);
  const orders = testing.get(Orders);
  assert.equal(await (await testing.resolve(PerRequest)).work(), "shop:per request");
  assert.equal(orders.locks, testing.get(Locks));
  const all = await Promise.all(Array.from({ length: 10 }, () => orders.pay(42)));
  assert(all.every((it) => it === "42 shop:orders:42 true"), all[0]);
  assert.equal(orders.most, 1);
  assert.equal(currentGrant(), undefined);
  assert.equal(orders.pay.name, "pay");
  await server.waitUntilFree("shop:orders:42");
});

test("a busy lock is skipped where that is said, else it rejects; modes are those of the client", async () => {
  const server = await startServer();
  const testing = await modules(server);
  const orders = testing.get(Orders), gate = testing.get(Gate);
  const reports = [orders.report(), orders.transfer("b", "a"), orders.import(), orders.import(), orders.read(), orders.read()];
  await eventually(() => gate.entered === 6, "all to be inside");
  assert.equal((await server.holders("import")).length, 2);
  assert.equal((await server.holders("page")).length, 2);
  assert.equal(await orders.report(), undefined);
  await assert.rejects(orders.transfer("0", "a"), LockBusy);
  await assert.rejects(orders.import(), LockBusy);
  gate.open();
  assert.deepEqual((await Promise.all(reports)).slice(0, 2), ["reported", ["account:b", "account:a"]]);
  await assert.rejects(orders.stream(), LockMisuse);
  await assert.rejects(orders.readAll(), LockMisuse, "several are acquired exclusively");
  await assert.rejects(orders.outer(), LockBusy, "only the method's own lock is skipped");
});

test("a method that is called under its own lock rejects at once, however long it may wait", async () => {
  const server = await startServer();
  const testing = await modules(server);
  const orders = testing.get(Orders), gate = testing.get(Gate);
  await assert.rejects(orders.payTwice(1), (error: Error) => error instanceof LockMisuse && /pay is called by a method that holds/.test(error.message));
  assert.equal(await orders.payTwice(1).catch(() => orders.pay(1)), "1 orders:1 true", "nothing is left");
  assert.equal(await orders.audit(1), "1 orders:1 true", "another lock");
  const { later } = await orders.start();
  gate.open();
  await later; // it runs when its caller has returned
});

test("a tick on two instances runs once, though the work is short and their clocks differ", async () => {
  const server = await startServer();
  const one = (await modules(server)).get(Orders), two = (await modules(server)).get(Orders);
  assert.equal(await one.tick("short"), "ticked"); // its caller does not wait for the end of the lock
  await pause(30);
  assert.equal(await two.tick("short"), undefined);
  const failure = new Error("mine");
  await assert.rejects(one.tick("failing", failure), failure);
  assert.equal(await two.tick("failing"), "ticked", "a run that failed may be repeated at once");
  const begun = performance.now();
  two.gate.open();
  assert.equal(await two.report(), "reported");
  await server.waitUntilFree("report");
  assert(performance.now() - begun >= 500, "the default");
});

test("above a transaction the lock is released after the commit", async () => {
  const server = await startServer();
  await (await modules(server)).get(Orders).sell(42, "ann");
  assert.deepEqual(commits.splice(0), ["commit held=true"]);
});

test("an error of the method is not hidden by one of the release", async () => {
  const server = await startServer();
  const testing = await modules(server);
  const orders = testing.get(Orders), gate = testing.get(Gate);
  const mine = new Error("mine");
  const failing = assert.rejects(orders.fail(mine), (error) => error === mine);
  await eventually(() => gate.entered === 1, "it to be inside");
  await server.order("pause");
  gate.open();
  await failing;
  await server.order("resume");
  assert(mine.cause instanceof LockUnavailable, String(mine.cause));
});

test("forRootAsync, by a factory, a class or an existing one, and several by name", async () => {
  const server = await startServer();
  class Factory {
    createLocksOptions(): LocksModuleOptions { return { client: newRedis(server), service: "by-class" }; }
  }
  @Injectable()
  class Users {
    readonly all: Locks[];

    constructor(@InjectLocks() one: Locks, @InjectLocks("two") two: Locks, @InjectLocks("three") three: Locks) {
      this.all = [one, two, three];
    }

    @WithLock("named", { locks: "two" })
    async named(): Promise<string | undefined> { return currentGrant()?.owner.split(":")[0]; }
  }
  @Module({ providers: [Factory], exports: [Factory] })
  class Configured {}
  const testing = await modules(server, [
    LocksModule.forRootAsync({ imports: [Configured], inject: [Factory], useFactory: (it: Factory) => it.createLocksOptions() }),
    LocksModule.forRootAsync({ name: "two", useClass: Factory }),
    LocksModule.forRootAsync({ name: "three", imports: [Configured], useExisting: Factory }),
  ], [Users]);
  const users = testing.get(Users);
  assert.equal(new Set(users.all).size, 3);
  assert.equal(users.all[1], testing.get(getLocksToken("two")));
  assert.equal(await users.named(), "by-class");
  assert.throws(() => LocksModule.forRootAsync({}), TypeError);
});

test("without the module Nest says what is missing, and without Nest the decorator does", async () => {
  await assert.rejects(Test.createTestingModule({ providers: [Gate, Orders] }).compile(), /Nest can't resolve dependencies|UnknownDependencies/);
  await assert.rejects(new Orders(new Gate(), undefined as unknown as Locks).pay(1), LockMisuse);
});

@Controller("seats")
class Seats {
  readonly gate: Gate;

  constructor(@Inject(Gate) gate: Gate) {
    this.gate = gate;
  }

  @Get(":id")
  @WithLock((id: string) => `seats:${id}`, { wait: 0 })
  @SetMetadata("note", "kept")
  async sell(@Param("id") id: string): Promise<{ id: string; held: boolean }> {
    await this.gate.pass();
    return { id, held: currentGrant()?.held === true };
  }
}

async function application(server: Server, options: Partial<LocksModuleOptions & LocksModuleExtras> = {}):
Promise<{ app: INestApplication; gate: Gate; url: string; redis: Redis }> {
  const redis = newRedis(server);
  const testing = await Test.createTestingModule({
    imports: [LocksModule.forRoot({ client: redis, service: "nest", closeClient: true, ...options })],
    controllers: [Seats],
    providers: [Gate, Orders],
  }).compile();
  const app = testing.createNestApplication({ logger: false });
  app.useGlobalFilters(new LockErrorFilter());
  await app.listen(0, "127.0.0.1");
  ends.push(() => app.close());
  return { app, gate: app.get(Gate), url: await app.getUrl(), redis };
}

test("a running application answers 409 while others hold the lock, and 503 while the server is down", async () => {
  const server = await startServer();
  const { gate, url } = await application(server);
  const first = fetch(`${url}/seats/1`);
  await eventually(() => gate.entered === 1, "the request");
  const second = await fetch(`${url}/seats/1`);
  assert.equal(second.status, 409);
  assert.deepEqual(await second.json(), { statusCode: 409, message: "Conflict", error: "LockBusy" });
  gate.open();
  assert.deepEqual(await (await first).json(), { id: "1", held: true });
  assert.equal(Reflect.getMetadata("note", Seats.prototype.sell), "kept");
  await server.order("kill");
  assert.equal((await fetch(`${url}/seats/1`)).status, 503);
});

test("at the application's end a request in flight keeps its lock, then the locks end, then the client", async () => {
  const server = await startServer();
  const { app, gate, url, redis } = await application(server);
  const order: string[] = [];
  redis.once("end", () => order.push("client"));
  const request = fetch(`${url}/seats/1`, { headers: { connection: "close" } }).then(async (response) => {
    order.push("request");
    return response.json();
  });
  await eventually(() => gate.entered === 1, "the request");
  const closed = app.close().then(() => order.push("closed"));
  await pause(300);
  assert((await server.info("seats:1"))?.["owner"].startsWith("nest:"), "the lock was taken from a request in flight");
  gate.open();
  assert.deepEqual(await request, { id: "1", held: true });
  await closed;
  await eventually(() => order.includes("client"), "the client's end");
  assert.equal(order[0], "request");
  assert.equal(await server.info("seats:1"), undefined);
});

test("the application's end waits for other work, for `drainTimeout`, and never takes its lock away", async () => {
  const server = await startServer();
  for (const drainTimeout of [20_000, 200]) {
    const { app, gate } = await application(server, { drainTimeout });
    const report = app.get(Orders).report();
    await eventually(() => gate.entered === 1, "the work");
    const closed = app.close();
    await pause(400);
    if (drainTimeout === 200) await closed;
    assert(await server.info("report"));
    gate.open();
    await closed;
    assert.equal(await report, "reported");
    await server.waitUntilFree("report");
    const sessions = async (): Promise<unknown[]> => (await server.redis.call("LOCK.SESSION", "LIST")) as unknown[];
    await eventually(async () => (await sessions()).length === 0, "the end of the locks");
  }
});
