/** A lock that a caller holds or acquires: its claim, and the calls about it. */

import type { Core } from "./core.ts";
import type { LockLost } from "./errors.ts";
import { run } from "./loop.ts";
import { guard, time } from "./options.ts";
import type { Server } from "./server.ts";
import { type Call, Claim, LEAST_LEASE, type Terms, type Words } from "./state/claim.ts";
import { misuse } from "./state/claims.ts";
import { Fault } from "./state/fault.ts";
import type { State } from "./state/state.ts";
import { Sleeper, later, now, pauseAfter } from "./time.ts";

export class Holding extends Claim {
  declare server: Server;
  #sleeper: Sleeper | undefined;
  /** When the user got it. */
  #taken = 0;
  #timer: NodeJS.Timeout | undefined;
  /** The call about the grant that is under way. */
  #busy: Promise<unknown> | undefined;
  #listeners: Set<(loss: LockLost) => void> | undefined;
  /** The loss that was reported. */
  loss: LockLost | undefined;

  /** `server` has the key. */
  constructor(private readonly core: Core, server: Server, key: string, terms: Terms) {
    super(key, core.ownerFor(terms), terms, server, core.settings.replyTimeout, core.state.at);
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
    if (this.phase !== "lost" || !this.isHandedOver || this.loss) return;
    const loss = (this.loss = this.failure as LockLost);
    const { observer } = this.core.settings;
    clearTimeout(this.#timer);
    queueMicrotask(() => { // the loop runs no code of the user
      for (const listener of this.#listeners ?? []) guard(() => listener(loss));
      guard(() => observer?.lost?.(this.key, loss));
    });
  }

  /** Acquires the lock, or rejects having neither a hold nor a place in line. */
  async acquire(): Promise<this> {
    const { core, terms: { signal, isFixed, lease, maxHold } } = this;
    core.state.ask(this);
    try {
      let last: unknown; // the reply that led to the server
      for (let tries = 0; ;) {
        if (signal?.aborted) throw signal.reason;
        const step = core.state.step(this);
        if (step === "done") break;
        const { server } = this;
        if (!server.loop || (typeof step === "number" && this.phase === "asked")) run(core, server);
        if (typeof step === "number") {
          await (this.#sleeper ??= new Sleeper()).sleep(step, signal);
          continue;
        }
        const { session, sent } = step;
        last = await server.call(Math.min(sent + this.limit, this.last), this.acquireCommand(session, sent), last);
        step.reply = last;
        core.state.answered(step);
        if (!(last instanceof Fault && last.passing)) continue;
        const to = await core.route(this.key, server, last);
        if (this.phase !== "asked") continue;
        if (!(to instanceof Fault)) this.server = to;
        tries += 1;
        await (this.#sleeper ??= new Sleeper()).sleep(Math.min(pauseAfter(tries), this.askedEnd - now()), signal);
      }
      if (isFixed) await this.#renew(lease);
    } catch (error) {
      await this.giveUp();
      throw error;
    }
    if (isFixed || maxHold < Infinity) {
      this.#taken = now();
      this.#end();
    }
    return this;
  }

  /** Makes sure that the owner neither holds the lock nor waits for it. Not for a grant that the user has. */
  async giveUp(): Promise<void> {
    const { state, settings: { replyTimeout } } = this.core;
    const cancel = state.giveUp(this);
    if (cancel) await this.core.finish(cancel, Math.min(now() + replyTimeout, this.last));
  }

  /** Makes a call about the grant, when the earlier ones are done. `before` returns its command, `after` applies the reply. */
  async #call(before: (state: State) => Words, after = (state: State, call: Call): void => state.confirmed(call)): Promise<void> {
    while (this.#busy) await this.#busy;
    const { core } = this;
    const { state } = core;
    state.requireHeld(this);
    const call = state.beginCall(this);
    const words = before(state);
    const { sent } = call;
    call.reply = await (this.#busy = this.server.call(sent + state.reply, words));
    if (call.reply instanceof Fault) await (this.#busy = core.repeat(this.key, () => words, call, sent + 2 * state.reply));
    this.#busy = undefined;
    after(core.state, call);
  }

  check(): Promise<void> {
    return this.#call(() => ["LOCK.FENCE", this.key, this.token]);
  }

  /** Adds a hold. */
  async enter(mode: Words): Promise<this> {
    await this.#call(() => ["LOCK.ACQUIRE", this.key, this.owner, ...mode, "PX", Math.ceil(this.lease),
      "HOLDS", this.holds + 1, "TOKEN", this.token], (state, call) => {
      state.confirmed(call);
      this.holds += 1;
    });
    return this;
  }

  /** Lifts the token, for a quorum. */
  raise(token: number): Promise<void> {
    return this.#call(() => this.renewCommand("RAISE", token));
  }

  /** Gives the grant this lease. `leaves`: it also takes the grant out of its session. */
  #renew(lease: number, leaves = this.terms.isFixed): Promise<void> {
    return this.#call((state) => state.renew(this, lease, leaves), (state, call) => state.confirmed(call, leaves));
  }

  async extend(lease: number): Promise<void> {
    await this.#renew(time("a lease", lease, this.terms.isFixed ? 1 : LEAST_LEASE));
    if (this.#timer) this.#end();
  }

  async detach(lease: number): Promise<void> {
    if (this.holds > 1) throw misuse(this.key, "its owner holds it more than once");
    await this.#renew(time("a lease", lease, 1), true);
    this.core.state.end(this, "released");
    this.renounceOwner();
    clearTimeout(this.#timer);
  }

  release(): Promise<void> {
    return this.#call((state) => state.release(this), (state, call) => {
      if (this.phase !== "held") clearTimeout(this.#timer);
      state.released(call);
    });
  }

  /** Ends the grant at its maximum time, and at the end of a fixed lease. */
  #end(): void {
    clearTimeout(this.#timer);
    const next = this.core.state.endByTime(this, this.#taken + this.terms.maxHold);
    if (typeof next !== "number") void this.core.finish(next);
    else if (next < Infinity) this.#timer = later(next, () => this.#end()).unref();
  }

  /** Asks for the grant where its key is now: a node of the cluster has deleted or redirected it. */
  async seek(): Promise<void> {
    const call = this.core.state.beginCall(this);
    await this.core.repeat(this.key, (server) => {
      if (server.session) return this.renewCommand("SESSION", server.session);
      run(this.core, server);
      return undefined;
    }, call);
    this.core.state.moved(call);
  }
}

/** Acquires a lock, or adds a hold to the one that the task has. */
export function hold(core: Core, key: string, terms: Terms): Promise<Holding> {
  const held = terms.task?.held.get(key);
  if (held) return (held as Holding).enter(terms.mode);
  const ask = (server: Server | Fault): Promise<Holding> => {
    if (server instanceof Fault) throw server.error(key, core.library.address);
    return new Holding(core, server, key, terms).acquire();
  };
  return core.only ? ask(core.only) : core.route(key).then(ask);
}
