/** The calls of a process: each one on the right connection, within its time, and with nothing left behind. */

import type { Driver, Words } from "./driver.ts";
import { LockBusy, LockError, LockLost, LockUnavailable, NoReply, ServerReply, errorOf, meaning } from "./errors.ts";
import type { Change, GrantCalls } from "./grant.ts";
import { Holding, type Mode, type Request, modeWords } from "./holding.ts";
import type { LocksOptions, Wish } from "./options.ts";
import { type GrantReply, grantOf } from "./replies.ts";
import { Scope } from "./scope.ts";
import { Ask, Servers } from "./servers.ts";
import { Stop, TimeUp } from "./stop.ts";
import { Pace, type Timer, later, now } from "./time.ts";
import { type Waited, waitInLine } from "./wait.ts";

export class Calls extends Scope implements GrantCalls {
  readonly servers: Servers;
  readonly #driver: Driver;
  /** How many calls wait for a key. */
  readonly #waiting = new Map<string, number>();

  constructor(driver: Driver, options: LocksOptions) {
    super(options);
    this.#driver = driver;
    this.servers = new Servers(driver, options.replyTimeout ?? 1000, (type, server, error) => {
      this.tell({ type, ...(server && { server }), ...(error && { error }) });
    });
  }

  /** The key as the server knows it. */
  keyOf(name: string): string {
    return this.#driver.prefix + name;
  }

  /** Rejects with a LockError, or with what stopped it: then neither a hold nor a wait is left. */
  async acquire(request: Request, stop: Stop): Promise<Holding> {
    const { name, wish } = request;
    const key = this.keyOf(name);
    const start = now();
    const until = start + wish.wait;
    const limit = start + Math.max(wish.wait, this.tryLimit);
    const words: Words = ["LOCK.ACQUIRE", key, request.owner, ...modeWords(request.mode), "PX", wish.lease, "HOLDS", 1];
    const busy = (): never => {
      throw new LockBusy(`${name}: others hold it, or are in line`, { key: name });
    };
    const pace = new Pace();
    for (;;) {
      if (wish.replicas === 0 && (wish.wait === 0 || !this.#waiting.has(key))) {
        const holding = await this.#try(request, words, limit, stop);
        if (holding) return holding;
      }
      if (wish.replicas === 0 && now() >= until) busy();
      try {
        const waited = await this.#inLine(key, () => waitInLine(this.servers,
          { key, name, owner: request.owner, words, until, limit, replicas: wish.replicas }, stop, (task) => this.inBackground(task)));
        if (!waited) return busy();
        const holding = await this.#afterWait(request, waited, Math.max(limit, now() + this.servers.reply), stop);
        if (holding) return holding;
        if (now() >= until) busy();
      } catch (error) {
        if (error instanceof ServerReply ? meaning(error.message, "acquire") !== "passing" : !(error instanceof NoReply)) {
          throw error instanceof ServerReply ? errorOf(error, "acquire", name) : error;
        }
        if (now() >= limit) throw new LockUnavailable(`${name}: the server gave no answer in time`, { key: name, cause: error });
        await this.servers.passed(key, error);
        await stop.pause(pace.next(), limit);
      }
    }
  }

  /** One more hold of a grant, in its turn; the call has claimed it before. */
  async reenter(holding: Holding, mode: Mode, wish: Wish, stop: Stop): Promise<void> {
    const { key, name, owner, token, keep, count } = holding;
    const words: Words = ["LOCK.ACQUIRE", key, owner, ...modeWords(mode), "PX", Math.max(wish.lease, keep ? 1000 : 1),
      ...(keep ? ["KEEP", wish.keep || keep] : []), "HOLDS", count + 1, "TOKEN", token];
    const ask = new Ask();
    const until = now() + Math.max(wish.wait, this.tryLimit);
    try {
      const { reply, sent, line, keeper } = await this.servers.ask(key, words, { kind: "acquire", name, until, stop }, ask);
      holding.count = count + 1;
      if (holding.loss) throw holding.loss;
      holding.proved(sent, grantOf(reply)?.lease ?? holding.lease);
      if (keep) keeper.take(holding, line);
    } catch (error) {
      if (error instanceof LockLost) holding.lose(error.message, error);
      else if (ask.sentOn && isOpen(error)) void holding.turn.take(() => this.#giveBack(holding, count, ask));
      throw error;
    }
  }

  /** Gives one hold back, whatever comes: from now on it is not held. */
  async release(holding: Holding, signal?: AbortSignal): Promise<void> {
    if (holding.loss) throw holding.loss;
    const { name } = holding;
    holding.unclaim();
    const stop = new Stop(signal);
    const until = now() + this.releaseLimit;
    const released = holding.turn.take(async () => {
      if (holding.loss) throw holding.loss;
      holding.count -= 1;
      if (holding.count > 0) return this.#less(holding, until, stop);
      try {
        await this.#less(holding, until, stop);
      } catch (error) {
        this.tellRelease(holding, error);
        throw error;
      } finally {
        holding.released();
      }
      this.tellRelease(holding);
    });
    this.inBackground(released);
    try {
      await stop.race(released, until + this.servers.reply);
    } catch (error) {
      throw error instanceof TimeUp ? new LockUnavailable(`${name}: the release was not answered in time`, { key: name }) : error;
    } finally {
      stop.end();
    }
  }

  /** Rejects with LockLost when the grant does not stand, and with LockUnavailable when that is not known. */
  async check(holding: Holding): Promise<void> {
    const { key, name, token } = holding;
    const until = now() + this.servers.reply;
    const stop = new Stop();
    const asked = now();
    try {
      if (!holding.keep) {
        await this.servers.ask(key, ["LOCK.FENCE", key, token], { kind: "renew", name, until, stop });
        return;
      }
      let cause: unknown;
      for (const pace = new Pace(); holding.isLive && holding.keep; await stop.pause(pace.next(), until)) {
        const { keeper } = holding;
        const asking = keeper?.forget(holding) ? keeper.adopt(holding) : keeper?.ping();
        await stop.race(asking ?? Promise.resolve(), until).catch((error: unknown) => { cause = error; });
        if (!holding.isLive || holding.knownUntil >= asked + holding.lease) return;
        if (now() >= until) throw new LockUnavailable(`${name}: the server gave no answer in time`, { key: name, cause });
      }
    } catch (error) {
      if (error instanceof LockLost) holding.lose(error.message, error);
      throw error;
    }
  }

  /** Renews the grant, with another lease or mode. */
  async renew(holding: Holding, change: Change): Promise<void> {
    const { key, name, owner, token, keeper } = holding;
    const { lease, mode } = change;
    // What the keeper would take over soon it need not, or this does it.
    const wasExpected = keeper?.forget(holding) ?? false;
    if (wasExpected) holding.watch();
    const keep = change.keep ?? (wasExpected ? holding.keep : undefined);
    const words: Words = ["LOCK.RENEW", key, owner, ...modeWords(mode ?? "exclusive"), ...(lease === undefined ? [] : ["PX", lease]),
      ...(keep === undefined ? [] : ["KEEP", keep]), "TOKEN", token];
    try {
      const { reply, sent, ...on } = await this.servers.ask(key, words,
        { kind: "renew", name, until: now() + this.servers.reply, stop: new Stop() });
      const set = grantOf(reply)?.lease ?? holding.lease;
      if (mode) holding.mode = mode;
      if (keep === 0) holding.keeper?.leave(holding);
      if (holding.keep && keep !== 0) {
        holding.proved(sent, set);
        if (wasExpected) on.keeper.take(holding, on.line);
      } else {
        holding.setFixed(sent, set);
      }
    } catch (error) {
      if (error instanceof LockLost) holding.lose(error.message, error);
      if (wasExpected && holding.isLive) void keeper?.adopt(holding);
      throw error;
    }
  }

  /** Takes a grant over that is known by its owner and token. */
  async adopt(name: string, owner: string, token: number, wish: Wish, hasLease: boolean, stop: Stop): Promise<Holding> {
    const request: Request = { name, mode: "exclusive", owner, isFresh: false, wish };
    const until = now() + Math.max(wish.wait, this.tryLimit);
    const ask = new Ask();
    try {
      return await this.#renewed(request, token, until, stop, hasLease ? ["PX", wish.lease] : [], ask);
    } catch (error) {
      if (wish.keep && ask.sentOn && isOpen(error)) this.inBackground(this.#keepNoMore(request, token));
      throw error;
    }
  }

  /** A grant that may be kept here for nobody. It is another's still: it is not released. */
  async #keepNoMore({ name, owner }: Request, token: number): Promise<void> {
    const key = this.keyOf(name);
    await this.servers.ask(key, ["LOCK.RENEW", key, owner, "TOKEN", token, "KEEP", 0],
      { kind: "renew", name, until: now() + this.releaseLimit, stop: new Stop() }).catch(() => {});
  }

  /** A command that only looks at a lock, or an administrator's. */
  look(command: string, name: string): Promise<unknown> {
    return this.#driver.look(command, name);
  }

  /** Lets go of a grant without a release: it stays for a lease, for whoever adopts it. */
  async detach(holding: Holding): Promise<void> {
    if (holding.keep) await this.renew(holding, { keep: 0 });
    holding.released();
  }

  protected override abandon(holding: Holding): Promise<unknown> {
    return holding.turn.take(() => this.#giveBack(holding, 0));
  }

  protected override closeConnections(): void {
    this.servers.close();
  }

  /** An acquire that does not wait. Nothing when others hold the lock. */
  async #try(request: Request, words: Words, until: number, stop: Stop): Promise<Holding | undefined> {
    const { name, wish } = request;
    const key = this.keyOf(name);
    const ask = new Ask();
    const given = wish.keep ? [...words, "KEEP", wish.keep] as unknown as Words : words;
    try {
      const { reply, sent, line, keeper } = await this.servers.ask(key, given, { kind: "acquire", name, until, stop }, ask);
      const grant = grantOf(reply);
      return grant && this.#held(request, grant, sent, (holding) => keeper.take(holding, line));
    } catch (error) {
      if (ask.sentOn && isOpen(error)) await this.#undo(request, ask, error);
      throw error;
    }
  }

  /** A call that waits in the server is counted: others of this process need not try before they wait. */
  async #inLine<T>(key: string, wait: () => Promise<T>): Promise<T> {
    this.#waiting.set(key, (this.#waiting.get(key) ?? 0) + 1);
    try {
      return await wait();
    } finally {
      const others = (this.#waiting.get(key) ?? 1) - 1;
      if (others > 0) this.#waiting.set(key, others);
      else this.#waiting.delete(key);
    }
  }

  /** What a wait was granted: known from its sending where it came soon, or else from a renewal. Nothing when it has ended unseen. */
  async #afterWait(request: Request, { grant, sent, keeper }: Waited, until: number, stop: Stop): Promise<Holding | undefined> {
    const { keep, replicas } = request.wish;
    const isKnown = keep > 0 && replicas === 0 && now() - sent < grant.lease / 3;
    try {
      stop.throwIfStopped();
      if (isKnown) return this.#held(request, grant, sent, (holding) => keeper.expect(holding));
      return await this.#renewed(request, grant.token, until, stop);
    } catch (error) {
      if (error instanceof LockLost) return undefined;
      await this.#undo(request, new Ask(), error);
      throw error;
    }
  }

  async #renewed(request: Request, token: number, until: number, stop: Stop, lease: (string | number)[] = [],
    ask = new Ask()): Promise<Holding> {
    const { name, owner, wish } = request;
    const key = this.keyOf(name);
    const keep = wish.keep ? ["KEEP", wish.keep] : [];
    const { reply, sent, line, keeper } = await this.servers.ask(key, ["LOCK.RENEW", key, owner, ...lease, "TOKEN", token, ...keep],
      { kind: "renew", name, until, stop }, ask);
    const grant = grantOf(reply) ?? { token, holds: 1, lease: wish.lease };
    return this.#held(request, grant, sent, (holding) => keeper.take(holding, line));
  }

  /** A grant that is known from then on, and how it is kept. */
  #held(request: Request, grant: GrantReply, sent: number, keepOn: (holding: Holding) => void): Holding {
    const { name, mode, owner, wish } = request;
    const terms = { key: this.keyOf(name), name, owner, token: grant.token, mode, lease: grant.lease, keep: wish.keep,
      reply: this.servers.reply };
    const holding = new Holding(terms, sent, request.turn);
    holding.onUnheard = () => this.inBackground(this.#giveBack(holding, 0));
    this.hold(holding);
    if (wish.keep) keepOn(holding);
    else holding.watch();
    const tail = wish.atMost < Infinity ? this.#endAt(holding, holding.since + wish.atMost) : undefined;
    if (tail) holding.whenEnded(() => tail.cancel());
    return holding;
  }

  /** When no more than a lease is left, what is left is the lease, and nobody renews it. */
  #endAt(holding: Holding, last: number): Timer {
    holding.endAt(last);
    return later(last - holding.lease - now(), () => {
      if (!holding.isLive) return;
      const rest = Math.max(1, Math.floor(last - now()));
      this.inBackground(this.renew(holding, { lease: rest, keep: 0 }).catch(() => {
        if (holding.isLive) holding.lose("it could not be given an end");
        return this.#giveBack(holding, 0);
      }));
    });
  }

  /** An acquire that was ended early has left nothing: what is not answered soon is carried on in the background. */
  async #undo(request: Request, ask: Ask, why: unknown): Promise<void> {
    const { name, owner, isFresh } = request;
    const key = this.keyOf(name);
    if (!isFresh) {
      // All that the owner has may be more than this call got: it is only not kept on.
      if (ask.sentOn) ask.sentOn.keeper.replace(ask.sentOn.line);
      return;
    }
    const released = this.#sayRelease(name, ["LOCK.RELEASE", key, owner, "ALL"], ask);
    this.inBackground(released);
    if (ask.sentOn?.line.open !== false && !(why instanceof LockError)) await new Stop().race(released, now() + this.servers.reply).catch(() => {});
  }

  /** Releases down to the holds that are left. */
  async #less(holding: Holding, until: number, stop: Stop): Promise<void> {
    const { key, name, owner, token, count } = holding;
    const ask = new Ask();
    try {
      await this.servers.ask(key, ["LOCK.RELEASE", key, owner, "HOLDS", count, "TOKEN", token],
        { kind: "release", name, until, stop }, ask);
    } catch (error) {
      if (error instanceof LockLost) {
        if (ask.repeated) return; // the first call had been carried out
        if (count === 0) throw error;
        holding.lose(error.message, error);
        throw holding.loss ?? error;
      }
      // What may be held still must not be kept on, nor hold up who asks for the lock next.
      if (isOpen(error)) this.#mustEnd(holding, ask, stop);
      throw error;
    }
  }

  /** Releases down to so many holds, told to nobody. */
  #giveBack({ name, key, owner, token }: Holding, holds: number, ask = new Ask()): Promise<unknown> {
    return this.#sayRelease(name, ["LOCK.RELEASE", key, owner, "HOLDS", holds, "TOKEN", token], ask);
  }

  /** What `ask` may have left is not kept on. Never rejects: resolves to the error, where there is one. */
  async #sayRelease(name: string, words: Words, ask: Ask): Promise<unknown> {
    const until = now() + this.releaseLimit;
    const release = new Ask();
    try {
      await this.servers.ask(words[1] as string, words, { kind: "release", name, until, stop: new Stop() }, release);
      return undefined;
    } catch (error) {
      if (isOpen(error)) ask.sentOn?.keeper.replace(ask.sentOn.line);
      return error instanceof LockLost && release.repeated ? undefined : error;
    }
  }

  /** A release that was not answered. */
  #mustEnd(holding: Holding, ask: Ask, stop: Stop): void {
    if (stop.stopped) this.inBackground(this.#giveBack(holding, holding.count, ask));
    else ask.sentOn?.keeper.replace(ask.sentOn.line);
  }
}

/** Whether it is open what a call that ended so has done. */
function isOpen(error: unknown): boolean {
  return !(error instanceof LockError) || error instanceof LockUnavailable;
}
