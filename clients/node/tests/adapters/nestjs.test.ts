/** The NestJS module, in testing modules and in applications that run. */

import "reflect-metadata";
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { Controller, Get, type INestApplication, Inject, Injectable, Module, Param, type Provider, Scope, SetMetadata } from "@nestjs/common";
import { Test, type TestingModule } from "@nestjs/testing";
import { Redis } from "ioredis";
import { of } from "rxjs";
import { LockBusy, LockLost, LockMisuse, LockUnavailable, Locks } from "redis-lock-client";
import { InjectLocks, LockErrorFilter, LocksModule, type LocksModuleExtras, type LocksModuleOptions, WithLock, currentGrant,
  getLocksToken } from "redis-lock-client/nestjs";
import { type Server, ends, eventually, startServer } from "../servers.ts";
import { newRedis } from "./five.ts";

/** Something that the tests open and close. */
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
    const grant = currentGrant();
    assert(grant?.held);
    return `${id} ${grant.key} ${grant.token > 1e15}`;
  }

  @WithLock("report", { ifBusy: "skip" })
  async report(): Promise<string> {
    await this.gate.pass();
    return "reported";
  }

  @WithLock((...ids: string[]) => ids.map((id) => `account:${id}`))
  async transfer(...ids: string[]): Promise<(string | undefined)[]> {
    await this.gate.pass();
    return ids.map((id) => currentGrant(`account:${id}`)?.key);
  }

  @WithLock("import", { of: 2 })
  async import(): Promise<void> { await this.gate.pass(); }

  @WithLock("page", { shared: true })
  async read(): Promise<void> { await this.gate.pass(); }

  @WithLock(["page", "other"], { shared: true })
  async readAll(): Promise<void> {}

  @WithLock("stream")
  async stream(): Promise<unknown> { return of(1); }

  @WithLock("lost")
  async lose(): Promise<void> {
    await this.locks.forceUnlock("lost");
    await eventually(() => currentGrant()?.signal.aborted, "the loss");
  }

  @WithLock("failed")
  async fail(error: Error): Promise<void> {
    await this.gate.pass();
    throw error;
  }

  @WithLock("outer", { ifBusy: "skip" })
  async outer(): Promise<void> {
    await this.locks.lock("outer").acquire();
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
  const testing = await modules(server, undefined, [PerRequest]);
  const orders = testing.get(Orders);
  assert.equal(await (await testing.resolve(PerRequest)).work(), "per request");
  assert(orders.locks instanceof Locks);
  assert.equal(orders.locks, testing.get(Locks));
  const all = await Promise.all(Array.from({ length: 10 }, () => orders.pay(42)));
  assert(all.every((it) => it === "42 orders:42 true"), all[0]);
  assert.equal(orders.most, 1);
  assert.equal(currentGrant(), undefined);
  assert.equal(orders.pay.name, "pay");
  await server.waitUntilFree("orders:42");
});

test("what is busy is skipped where that is said, and rejects else; modes are those of the client", async () => {
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
  const [report, keys] = await Promise.all(reports);
  assert.equal(report, "reported");
  assert.deepEqual(keys, ["account:b", "account:a"]);
  await assert.rejects(orders.lose(), LockLost);
  await assert.rejects(orders.stream(), LockMisuse);
  await assert.rejects(orders.readAll(), LockMisuse, "several are taken exclusively");
  await assert.rejects(orders.outer(), LockBusy, "what the work itself wanted is not skipped");
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
  assert(mine.cause instanceof LockUnavailable, String(mine.cause));
  await server.order("resume");
});

test("forRootAsync, by a factory, a class or what there is, and several by name", async () => {
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
  const orders = new Orders(new Gate(), undefined as unknown as Locks);
  await assert.rejects(orders.pay(1), LockMisuse);
});

@Controller("seats")
class Seats {
  readonly gate: Gate;

  constructor(@Inject(Gate) gate: Gate) {
    this.gate = gate;
  }

  @Get(":id")
  @WithLock((id: string) => `seats:${id}`)
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

test("a running application answers 409 while others have the lock", async () => {
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
  assert.equal((await fetch(`${url}/seats/1`)).status, 200);
});

test("503 where the server is gone", async () => {
  const server = await startServer();
  const { url, gate } = await application(server);
  gate.open();
  assert.equal((await fetch(`${url}/seats/1`)).status, 200);
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
  await eventually(async () => (await server.named("lock-keeper")).length === 0, "no connection");
});

test("work that is no request may end, too, for as long as is set; then it is told of its loss", async () => {
  const server = await startServer();
  for (const drainTimeout of [20_000, 200]) {
    const { app, gate } = await application(server, { drainTimeout });
    const report = app.get(Orders).report().then((it) => it, (error: unknown) => error);
    await eventually(() => gate.entered === 1, "the work");
    const closed = app.close();
    await pause(400);
    assert.equal((await server.info("report")) !== undefined, drainTimeout === 20_000);
    if (drainTimeout === 20_000) gate.open();
    await closed;
    const told = await report;
    assert(drainTimeout === 20_000 ? told === "reported" : told instanceof LockLost, String(told));
    assert.equal(await server.info("report"), undefined);
  }
});
