/** A lock that a caller holds or acquires: its claim, and the calls about it. */

import type { Core } from "./core.ts";
import type { LockLost } from "./errors.ts";
import type { Held } from "./grant.ts";
import { type Terms, guard, time } from "./options.ts";
import type { Server } from "./server.ts";
import { Claim, LEAST_LEASE, type TaskOwner, type Words } from "./state/claim.ts";
import type { Answer } from "./state/claims.ts";
import { Fault } from "./state/fault.ts";
import { misuse } from "./state/ledger.ts";
import type { State } from "./state/state.ts";
import { Pauses, Sleeper, later, now } from "./time.ts";

export class Holding extends Claim implements Held {
  declare readonly terms: Terms;
  declare server: Server;
  readonly #core: Core;
  #sleeper: Sleeper | undefined;
  /** When the user got it. */
  #taken = 0;
  #timer: NodeJS.Timeout | undefined;
  /** The call about the grant that is under way. */
  #busy: Promise<unknown> | undefined;
  /** A search for it in the cluster is under way. */
  #isSought = false;
  #listeners: Set<(loss: LockLost) => void> | undefined;
  /** The loss that was reported. */
  loss: LockLost | undefined;

  /** Registers a wait at the server of the key. */
  constructor(core: Core, server: Server, key: string, owner: string, terms: Terms, task: TaskOwner | undefined,
    adopted: number) {
    super(key, owner, terms, server, core.settings.replyTimeout, now(), task, adopted);
    this.#core = core;
    if (terms.onLost) this.onLost(terms.onLost);
  }

  /** For how long nobody else has the lock, by the clock alone. */
  get remaining(): number {
    return this.phase === "held" ? Math.max(0, this.sure - now()) : 0;
  }

  /** Calls back when the grant is lost. Returns a function that takes the listener away. */
  onLost(listener: (loss: LockLost) => void): () => void {
    (this.#listeners ??= new Set()).add(listener);
    return () => this.#listeners?.delete(listener);
  }

  override changed(): void {
    this.#sleeper?.wake();
    if (this.doubt) void this.#seek();
    if (this.phase !== "lost" || !this.isHandedOver || this.loss) return;
    const loss = (this.loss = this.failure as LockLost);
    const { observer } = this.#core.settings;
    clearTimeout(this.#timer);
    queueMicrotask(() => { // the loop runs no code of the user
      for (const listener of this.#listeners ?? []) guard(() => listener(loss));
      guard(() => observer?.lost?.(this.key, loss));
    });
  }

  /** Acquires the lock, or rejects having neither a hold nor a place in line. */
  async acquire(): Promise<this> {
    const { signal, isFixed, lease, maxHold } = this.terms;
    const core = this.#core;
    const { state } = core;
    state.ask(this);
    const wake = signal && ((): void => this.#sleeper?.wake());
    if (wake) signal.addEventListener("abort", wake);
    try {
      let isAsking = false;
      for (let pauses: Pauses | undefined; ;) {
        if (signal?.aborted) throw signal.reason;
        const step = core.state.step(this);
        if (step === "done") break;
        const { server, server: { session } } = this;
        if (!server.isRunning || (step !== "send" && this.phase === "asked")) server.run();
        if (step !== "send") {
          await this.#sleep(step);
          continue;
        }
        const sent = now();
        const call = state.beginCall(this);
        const reply = await server.call(Math.min(this.limit, this.last - sent), this.acquireCommand(session, sent), isAsking);
        core.state.answered(this, server, session, sent, reply);
        state.endCall(call);
        if (!(reply instanceof Fault && reply.passing)) continue;
        const target = await core.route(this.key, server, reply);
        ({ isAsking } = target);
        if (this.phase !== "asked") continue;
        this.server = target.server ?? server;
        await this.#sleep(Math.min((pauses ??= new Pauses()).next(), this.askedEnd - now()));
      }
      if (isFixed) await this.#renew(lease);
    } catch (error) {
      await this.giveUp();
      throw error;
    } finally {
      if (wake) signal.removeEventListener("abort", wake);
    }
    this.#taken = now();
    if (isFixed || maxHold < Infinity) this.#end();
    return this;
  }

  /** A change of the claim ends the pause. */
  #sleep(ms: number): Promise<void> {
    return (this.#sleeper ??= new Sleeper()).sleep(ms);
  }

  /** Makes sure that the owner neither holds the lock nor waits for it. Not for a grant that the user has. */
  async giveUp(): Promise<void> {
    const core = this.#core;
    const call = core.state.beginCall(this);
    if (core.state.giveUp(this)) {
      const limit = Math.min(core.settings.replyTimeout, this.last - now());
      const reply = await this.server.call(limit, ["LOCK.RELEASE", this.key, this.owner, "ALL"]);
      core.state.finished(this, 0, reply);
    }
    core.state.endCall(call);
  }

  /** Makes a call about the grant, when the earlier ones are done. `before` returns its command, `after` applies the answer. */
  async #call(before: (state: State) => Words, after: (state: State, answer: Answer) => void): Promise<void> {
    while (this.#busy) await this.#busy;
    const { state } = this.#core;
    const words = before(state);
    const call = state.beginCall(this);
    const answer = await (this.#busy = this.#core.repeat(this.key, () => words));
    this.#busy = undefined;
    try {
      after(this.#core.state, answer);
    } finally {
      state.endCall(call);
    }
  }

  /** Makes a call that leaves the grant what it is. */
  #confirm(words: () => Words, confirmed?: () => void): Promise<void> {
    return this.#call((state) => {
      state.requireHeld(this);
      return words();
    }, (state, answer) => {
      state.confirmed(this, answer);
      confirmed?.();
    });
  }

  check(): Promise<void> {
    return this.#confirm(() => ["LOCK.FENCE", this.key, this.token]);
  }

  /** Adds a hold. */
  enter(mode: Words): Promise<void> {
    return this.#confirm(() => ["LOCK.ACQUIRE", this.key, this.owner, ...mode, "PX", Math.ceil(this.lease),
      "HOLDS", this.holds + 1, "TOKEN", this.token], () => { this.holds += 1; });
  }

  /** Lifts the token, for a quorum. */
  raise(token: number): Promise<void> {
    return this.#confirm(() => this.renewCommand("RAISE", token));
  }

  /** Gives the grant this lease. `leaves`: it also takes the grant out of its session. */
  #renew(lease: number, leaves = this.terms.isFixed): Promise<void> {
    return this.#call((state) => state.renew(this, lease, leaves), (state, answer) => state.confirmed(this, answer));
  }

  async extend(lease: number): Promise<void> {
    await this.#renew(time("a lease", lease, this.terms.isFixed ? 1 : LEAST_LEASE));
    if (this.#timer) this.#end();
  }

  async detach(lease: number): Promise<void> {
    if (this.holds > 1) throw misuse(this.key, "its owner has other holds of it");
    await this.#renew(time("a lease", lease, 1), true);
    this.#core.state.letGo(this);
    this.renounceOwner();
    clearTimeout(this.#timer);
  }

  release(): Promise<void> {
    const { observer } = this.#core.settings;
    const released = this.#call((state) => state.release(this), (state, answer) => state.released(this, answer));
    if (!this.#timer && !observer?.released) return released;
    const end = (error?: unknown): void => {
      if (this.phase !== "held") clearTimeout(this.#timer);
      guard(() => observer?.released?.(this.key, now() - this.#taken, error));
    };
    released.then(() => end(), end);
    return released;
  }

  /** Ends the grant at its maximum time, and at the end of a fixed lease. */
  #end(): void {
    clearTimeout(this.#timer);
    const next = this.#core.state.endByTime(this, this.#taken + this.terms.maxHold);
    if (typeof next === "number") {
      if (next < Infinity) this.#timer = later(next, () => this.#end()).unref();
    } else {
      void this.#core.repeat(this.key, () => next).then(({ reply }) => this.#core.state.finished(this, this.token, reply));
    }
  }

  /** Asks for the grant where its key is now: a node of the cluster has deleted or redirected it. */
  async #seek(): Promise<void> {
    if (this.#isSought) return;
    this.#isSought = true;
    const call = this.#core.state.beginCall(this);
    let session = 0;
    const outcome = await this.#core.repeat(this.key, (server) => {
      ({ session } = server);
      if (!session) server.run();
      return session ? this.renewCommand("SESSION", session) : undefined;
    });
    this.#isSought = false;
    this.#core.state.found(this, outcome.server ?? this.server, session, outcome);
    this.#core.state.endCall(call);
  }
}

/** Acquires a lock for an owner; by default for a fresh one. `adopted`: the token of a grant to adopt, or 0. */
export function hold(core: Core, key: string, terms: Terms, owner = "", adopted = 0, task?: TaskOwner): Promise<Holding> {
  const at = (server: Server | Fault): Promise<Holding> => {
    if (server instanceof Fault) return Promise.reject(server.error(key, core.library.address));
    return new Holding(core, server, key, owner || core.freshOwner(), terms, task, adopted).acquire();
  };
  return core.servers.only ? at(core.servers.only) : core.servers.find(key).then(at);
}
