/** The calls of a process: each one on the right connection, within its time, and with nothing left behind. */

import type { Driver, Words } from "./driver.ts";
import { LockBusy, LockError, LockLost, LockUnavailable, NoReply, ServerReply, errorOf, meaning } from "./errors.ts";
import { changeGrant } from "./change.ts";
import type { Change, GrantCalls } from "./grant.ts";
import { type Common, Holding, type Mode, type Request, modeWords } from "./holding.ts";
import type { LocksOptions, Wish } from "./options.ts";
import { NamedOwners } from "./owner.ts";
import { type GrantReply, grantOf } from "./replies.ts";
import { Scope } from "./scope.ts";
import { Ask, Servers } from "./servers.ts";
import { Stop, TimeUp } from "./stop.ts";
import { Pace, now } from "./time.ts";
import { isOpen, mayHaveBeen, say, sendOnce, takeBack } from "./undo.ts";
import { type Waited, acknowledgedAgain, waitInLine } from "./wait.ts";

export class Calls extends Scope implements GrantCalls {
  readonly servers: Servers;
  /** Those that users have named. */
  readonly owners = new NamedOwners(this);
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
  acquire(request: Request, stop: Stop): Promise<Holding> {
    const past = { mayBeLeft: false };
    return this.#acquire(request, stop, past).catch(async (error: unknown) => {
      if (past.mayBeLeft) await this.#undo(request, undefined, new Ask(), error);
      throw error;
    });
  }

  /** `past` is told of a wait that was not answered: it may be granted yet. */
  async #acquire(request: Request, stop: Stop, past: { mayBeLeft: boolean }): Promise<Holding> {
    const { name, owner, isNamed, onLate, wish, limit } = request;
    const key = this.keyOf(name);
    const until = now() + wish.wait;
    const words: Words = ["LOCK.ACQUIRE", key, owner, ...modeWords(request.mode), "PX", wish.lease, "HOLDS", 1];
    const busy = (): never => {
      throw new LockBusy(`${name}: others hold it, or are in line`, { key: name });
    };
    const onUnanswered = (): void => { past.mayBeLeft = true; };
    const end = wish.wait > 0 ? Math.max(limit, until + this.servers.reply) : limit;
    const place = { key, name, owner, isNamed, onLate, onUnanswered, words, until, end, replicas: wish.replicas };
    const pace = new Pace();
    for (;;) {
      // An owner with a name asks behind what it has left: see takeBack.
      if (wish.replicas === 0 && (wish.wait === 0 || isNamed || !this.#waiting.has(key))) {
        const holding = await this.#try(request, words, limit, stop);
        if (holding) return holding;
      }
      if (wish.replicas === 0 && now() >= until) busy();
      try {
        if (wish.replicas > 0 && isNamed) await stop.race((await this.servers.of(key)).keeper.ping(), limit);
        const waited = await this.#inLine(key, () => waitInLine(this.servers, place, stop, (task) => this.#behind(request, task)));
        if (!waited) return busy();
        const holding = await this.#afterWait(request, waited, end, stop);
        if (holding) return holding;
        if (now() >= until) busy();
      } catch (error) {
        const mayPass = error instanceof ServerReply ? meaning(error.message, "acquire") === "passing"
          : error instanceof NoReply || error instanceof TimeUp;
        if (!mayPass) {
          throw error instanceof ServerReply ? errorOf(error, "acquire", name) : error;
        }
        if (now() >= limit) throw new LockUnavailable(`${name}: the server gave no answer in time`, { key: name, cause: error });
        await this.servers.passed(key, error);
        await stop.pause(pace.next(limit), limit);
      }
    }
  }

  /** One more hold of a grant, in its turn; the call has claimed it before. */
  async reenter(holding: Holding, mode: Mode, wish: Wish, until: number, stop: Stop): Promise<void> {
    const { key, name, owner, token, keep, count } = holding;
    const least = keep ? 1000 : 1;
    const longer = keep && Math.max(keep, wish.keep);
    const lease = Math.max(least, Math.min(wish.lease, Math.floor(holding.last - now())));
    const words: Words = ["LOCK.ACQUIRE", key, owner, ...modeWords(mode), "PX", lease, "HOLDS", count + 1, "TOKEN", token];
    const kept: Words = keep ? [...words, "KEEP", longer] : words;
    const ask = new Ask();
    let isEntered = false;
    const { wasKept } = holding;
    if (keep) holding.wasKept = false; // this call has it kept here, whoever keeps it by then
    try {
      const { reply, sent, line, keeper } = await this.servers.ask(key, kept, { kind: "acquire", name, until, stop }, ask);
      isEntered = true;
      if (holding.loss) throw holding.loss;
      holding.keep = longer;
      holding.proved(sent, grantOf(reply)?.lease ?? holding.lease);
      if (keep) keeper.take(holding, line);
      this.#giveEnd(holding);
      if (wish.replicas > 0) {
        await acknowledgedAgain(this.servers, { key, name, words, replicas: wish.replicas, end: until }, stop).catch((error: unknown) => {
          if (error instanceof ServerReply) throw errorOf(error, "acquire", name);
          if (error instanceof LockError || stop.stopped) throw error;
          throw new LockUnavailable(`${name}: the replicas were not heard in time`, { key: name, cause: error });
        });
        if (holding.loss) throw holding.loss;
      }
      holding.count = count + 1;
    } catch (error) {
      holding.wasKept ||= wasKept;
      if (error instanceof LockLost) holding.lose(error.message, error);
      else if (isEntered || mayHaveBeen(ask, error)) this.#clear(holding, count, ask);
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
      if (holding.count > 0) {
        await this.#less(holding, until, stop);
        return this.#giveEnd(holding);
      }
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
      await stop.race(released, until + 100); // else it is behind another call, which has more time
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
    // In the name of an owner that others use it may have been released, of which no connection tells.
    const isCurrent = !holding.keep || holding.isNamed
      ? this.servers.ask(key, ["LOCK.FENCE", key, token], { kind: "renew", name, until, stop }) : undefined;
    isCurrent?.catch(() => {});
    try {
      let cause: unknown;
      for (const pace = new Pace(); holding.isLive && holding.keep; await stop.pause(pace.next(until), until)) {
        const { keeper } = holding;
        const asking = keeper?.forget(holding) ? keeper.adopt(holding) : keeper?.ping();
        await stop.race(asking ?? Promise.resolve(), until).catch((error: unknown) => { cause = error; });
        if (!holding.isLive || holding.knownUntil >= asked + holding.lease) break;
        if (now() >= until) throw new LockUnavailable(`${name}: the server gave no answer in time`, { key: name, cause });
      }
      await isCurrent;
    } catch (error) {
      if (error instanceof LockLost) holding.lose(error.message, error);
      throw error;
    }
  }

  /** Renews the grant in its turn, with another lease, mode or keeping. */
  renew(holding: Holding, change: Change): Promise<void> {
    return this.#inTurn(holding, (until) => this.renewInTurn(holding, change, until));
  }

  /** The same for who has the turn. */
  async renewInTurn(holding: Holding, change: Change, until = now() + this.servers.reply): Promise<void> {
    await changeGrant(this.servers, holding, change, until);
    if (holding.keep) this.#giveEnd(holding);
  }

  /** Takes a grant over that is known by its owner and token. */
  async adopt(request: Request, token: number, hasLease: boolean, stop: Stop): Promise<Holding> {
    const { name, owner, wish, limit } = request;
    const key = this.keyOf(name);
    const ask = new Ask();
    try {
      return await this.#renewed(request, token, limit, stop, hasLease ? ["PX", wish.lease] : [], ask);
    } catch (error) {
      // It may be kept here for nobody. It is another's still: it is not released.
      if (wish.keep && mayHaveBeen(ask, error)) {
        const common = { key, owner, token, keptOn: undefined };
        const ended = this.servers.ask(key, ["LOCK.RENEW", key, owner, "TOKEN", token, "KEEP", 0],
          { kind: "renew", name, until: now() + this.releaseLimit, stop: new Stop(), common }).catch(() => {});
        this.#behind(request, ended); // an adoption that comes next is kept
      }
      throw error;
    }
  }

  /** Frees a lock, whoever has it: sent once, for the next one may be of whoever has it by then, and so not by the user's client. */
  delete(name: string): Promise<unknown> {
    return this.servers.sendAlone(["DEL", this.keyOf(name)]);
  }

  /** A command that only looks at a lock. */
  look(command: string, name: string): Promise<unknown> {
    return this.#driver.look(command, name, this.servers.reply);
  }

  /** Lets go of a grant without a release: it stays for a lease, for whoever adopts it. */
  async detach(holding: Holding): Promise<void> {
    await this.#inTurn(holding, async (until) => {
      holding.mustBeTheLast();
      if (holding.keep) await this.renewInTurn(holding, { keep: 0 }, until);
      holding.released();
      holding.onLate?.(); // in this name a task would enter again what another has by then
    });
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
      if (mayHaveBeen(ask, error)) await this.#undo(request, undefined, ask, error);
      throw error;
    }
  }

  /** A change of a grant, after the calls of its owner that were before it, in all within the time of a reply. */
  #inTurn({ name, turn }: Holding, change: (until: number) => Promise<void>): Promise<void> {
    const until = now() + this.servers.reply;
    return turn.takeBy(until, () => change(until), (cause) =>
      new LockUnavailable(`${name}: another call of its owner was not answered in time`, { key: name, cause }));
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
    const ask = new Ask();
    try {
      stop.throwIfStopped();
      if (isKnown) return this.#held(request, grant, sent, (holding) => keeper.expect(holding));
      // Who has asked for it later, in this name, has it. With replicas, or a fixed lease, this may be what asks.
      const isLater = request.isNamed && keep > 0 && replicas === 0;
      const { name, owner } = request;
      const common = isLater ? { key: this.keyOf(name), owner, token: grant.token, keptOn: undefined } : undefined;
      return await this.#renewed(request, grant.token, until, stop, [], ask, common);
    } catch (error) {
      if (!(error instanceof LockLost)) await this.#undo(request, grant.token, ask, error);
      else if (error.cause !== undefined) return undefined; // the server's word
      throw error;
    }
  }

  async #renewed(request: Request, token: number, until: number, stop: Stop, lease: (string | number)[] = [],
    ask = new Ask(), common?: Common): Promise<Holding> {
    const { name, owner, wish } = request;
    const key = this.keyOf(name);
    const keep = wish.keep ? ["KEEP", wish.keep] : [];
    const { reply, sent, line, keeper } = await this.servers.ask(key, ["LOCK.RENEW", key, owner, ...lease, "TOKEN", token, ...keep],
      { kind: "renew", name, until, stop, common }, ask);
    const grant = grantOf(reply) ?? { token, holds: 1, lease: wish.lease };
    return this.#held(request, grant, sent, (holding) => keeper.take(holding, line));
  }

  /** A grant that is known from then on, and how it is kept. */
  #held(request: Request, grant: GrantReply, sent: number, keepOn: (holding: Holding) => void): Holding {
    const { name, owner, isNamed, wish } = request;
    const terms = { key: this.keyOf(name), name, owner, isNamed, token: grant.token, lease: grant.lease, keep: wish.keep,
      reply: this.servers.reply };
    const holding = new Holding(terms, sent, request.turn);
    // In the name of an owner that others use nothing is released, for it may be theirs by then. It ends with its lease.
    holding.onUnheard = (keptBy) => {
      const asked = new Ask();
      if (keptBy?.present) asked.sentOn = { line: keptBy.present, keeper: keptBy };
      if (holding.isNamed) asked.endKeeping();
      else this.#clear(holding, 0, asked);
    };
    holding.onLate = request.onLate;
    this.hold(holding);
    if (wish.keep) keepOn(holding);
    else holding.watch();
    if (wish.atMost < Infinity) holding.endAt(holding.since + wish.atMost);
    this.#giveEnd(holding);
    return holding;
  }

  /** When no more than a lease is left of what is held at most so long, what is left is the lease, and nobody renews it. */
  #giveEnd(holding: Holding): void {
    if (!holding.keep && holding.knownUntil < holding.last) return;
    holding.atLastLease(() => {
      this.inBackground(this.renew(holding, { keep: 0 }).catch(() => holding.loseUnheard("it could not be given an end")));
    });
  }

  /** An acquire that was ended early has left nothing: what is not answered soon is carried on in the background. */
  async #undo(request: Request, token: number | undefined, asked: Ask, why: unknown): Promise<void> {
    const { name, owner, isNamed, onLate } = request;
    let isDone = false;
    const undone = takeBack(this.servers, { key: this.keyOf(name), name, owner, isNamed }, token, now() + this.releaseLimit, asked)
      .then((it) => { isDone = it; });
    this.#behind(request, undone);
    if (asked.sentOn?.line.open !== false && !(why instanceof LockError)) await new Stop().race(undone, now() + this.servers.reply).catch(() => {});
    if (!isDone) onLate?.();
  }

  /** Has this done in the background. The next call of an owner with a name comes behind it. */
  #behind({ isNamed, turn }: Request, task: Promise<unknown>): void {
    this.inBackground(task);
    if (isNamed) void turn?.clear(task);
  }

  /** Releases down to the holds that are left. */
  async #less(holding: Holding, until: number, stop: Stop): Promise<void> {
    const { key, name, owner, token, count } = holding;
    const ask = new Ask();
    try {
      await this.servers.ask(key, ["LOCK.RELEASE", key, owner, "HOLDS", count, "TOKEN", token],
        { kind: "release", name, until, stop, common: holding.common }, ask);
    } catch (error) {
      if (error instanceof LockLost) {
        if (count === 0 && ask.repeated) return; // the first call had been carried out
        if (count === 0) throw error;
        holding.lose(error.message, error);
        throw holding.loss ?? error;
      }
      // What may be held still must not be kept on, nor hold up who asks for the lock next.
      if (isOpen(error)) this.#mustEnd(holding, ask, stop);
      else if (count === 0) ask.endKeeping();
      throw error;
    }
  }

  /**
   * Releases down to so many holds, told to nobody; in the name of an owner that comes back elsewhere, once. Never rejects:
   * resolves to the error, where there is one.
   */
  async #giveBack(holding: Holding, holds: number, asked = new Ask()): Promise<unknown> {
    const { name, key, owner, token, isNamed } = holding;
    const words: Words = ["LOCK.RELEASE", key, owner, "HOLDS", holds, "TOKEN", token];
    if (isNamed && !this.isClosing) return void (await sendOnce(this.servers, holding, words, asked));
    const error = await say(this.servers, name, words, now() + this.releaseLimit, asked, new Ask(), holding.common);
    if (error && isOpen(error)) holding.onLate?.();
    return error;
  }

  /** The same, in the background, and before the owner's next call. */
  #clear(holding: Holding, holds: number, asked: Ask): void {
    this.inBackground(holding.turn.clear(this.#giveBack(holding, holds, asked)));
  }

  /** A release that was not answered. */
  #mustEnd(holding: Holding, ask: Ask, stop: Stop): void {
    if (stop.stopped) return this.#clear(holding, holding.count, ask);
    ask.endKeeping();
    holding.onLate?.();
  }
}
