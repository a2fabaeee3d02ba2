/** What a caller holds, or acquires: one claim, and the calls about it. */

import type { Core, Target } from "./core.ts";
import type { LockLost } from "./errors.ts";
import type { Held } from "./grant.ts";
import { type Terms, guard, time } from "./options.ts";
import type { Server } from "./server.ts";
import { type Caller, Claim, LEAST_LEASE, type TaskOwner, type Words } from "./state/claim.ts";
import { Fault } from "./state/fault.ts";
import type { Answer } from "./state/grants.ts";
import { misuse } from "./state/grants.ts";
import type { State } from "./state/state.ts";
import { Pauses, Sleeper, later, now } from "./time.ts";

export class Holding implements Caller, Held {
  readonly core: Core;
  readonly claim: Claim;
  readonly #terms: Terms;
  /** ASK led to where the next ACQUIRE goes. */
  #isAsking = false;
  #sleeper: Sleeper | undefined;
  /** When the user got it. */
  #taken = 0;
  #most = Infinity;
  #timer: NodeJS.Timeout | undefined;
  /** Callers whose turn comes after the call about the grant that is under way. */
  #turns: (() => void)[] | undefined;
  #listeners: Set<(loss: LockLost) => void> | undefined;
  /** The loss that was reported. */
  loss: LockLost | undefined;

  /** Registers a wait at the server of the key. `adopted`: the token of a grant to adopt, or 0. */
  constructor(core: Core, server: Server, key: string, owner: string, terms: Terms, task: TaskOwner | undefined,
    adopted: number) {
    this.core = core;
    this.#terms = terms;
    if (terms.onLost) this.onLost(terms.onLost);
    this.claim = core.use((state) => {
      const claim = new Claim(key, owner, terms, this, server, core.settings.reply, state.at);
      claim.task = task;
      claim.adopted = adopted;
      state.ask(claim);
      if (task) task.name = owner;
      return claim;
    });
  }

  get key(): string {
    return this.claim.key;
  }

  get owner(): string {
    return this.claim.owner;
  }

  get token(): number {
    return this.claim.token;
  }

  get remaining(): number {
    return this.core.use((state) => state.remaining(this.claim));
  }

  /** Calls back when the grant is lost. Returns a function that takes the listener away. */
  onLost(listener: (loss: LockLost) => void): () => void {
    (this.#listeners ??= new Set()).add(listener);
    return () => this.#listeners?.delete(listener);
  }

  changed(): void {
    this.#sleeper?.wake();
    const { claim, core } = this;
    if (claim.phase !== "lost" || !claim.isHandedOver || this.loss) return;
    const loss = (this.loss = core.state.lost(claim) as LockLost);
    const { observer } = core.settings;
    clearTimeout(this.#timer);
    queueMicrotask(() => { // the loop runs no code of the user
      for (const listener of this.#listeners ?? []) guard(() => listener(loss));
      if (observer?.lost) guard(() => observer.lost?.(claim.key, loss));
    });
  }

  /** Acquires the lock, or rejects having neither a hold nor a place in line. */
  async acquire(): Promise<this> {
    const { signal, isFixed, lease, maxHold } = this.#terms;
    const wake = signal && ((): void => this.#sleeper?.wake());
    if (wake) signal.addEventListener("abort", wake);
    try {
      for (let pauses: Pauses | undefined; ;) {
        if (signal?.aborted) throw signal.reason;
        const step = this.core.use((state) => state.step(this.claim));
        if (step === "done") break;
        const server = this.claim.server as Server;
        if (!server.isRunning || (step !== "send" && this.claim.phase === "asked")) server.run();
        const fault = step === "send" ? await this.#ask(server) : await this.#sleep(step);
        if (fault) await this.#again(server, fault, (pauses ??= new Pauses()).next());
      }
      if (isFixed) await this.renew(lease, true);
    } catch (error) {
      await this.giveUp();
      throw error;
    } finally {
      if (wake) signal.removeEventListener("abort", wake);
    }
    this.#taken = now();
    if (isFixed || maxHold < Infinity) {
      this.#most = this.#taken + maxHold;
      this.#end();
    }
    return this;
  }

  /** Sends the ACQUIRE. Resolves with the error, if it passes. */
  async #ask(server: Server): Promise<Fault | undefined> {
    const { core, claim } = this;
    const { session } = server;
    const sent = core.state.at;
    const call = core.state.beginCall(claim);
    const limit = Math.min(claim.limit, claim.last - sent);
    const reply = await server.call(limit, claim.acquireCommand(session, sent), this.#isAsking);
    core.use((state) => {
      state.answered(claim, server, session, sent, reply);
      state.endCall(call);
    });
    return reply instanceof Fault && reply.passing ? reply : undefined;
  }

  /** The loop brings the events of a place in line, which end the pause. */
  #sleep(ms: number): Promise<undefined> {
    return (this.#sleeper ??= new Sleeper()).sleep(ms);
  }

  /** After a passing error: finds where to ask next, and pauses. */
  async #again(server: Server, reply: Fault, pause: number): Promise<void> {
    const { core, claim } = this;
    if (!core.servers.only) {
      const target: Target = { server, isAsking: false };
      await core.route(claim.key, target, reply);
      this.#isAsking = target.isAsking;
      if (target.server && claim.phase === "asked") claim.server = target.server;
    }
    if (claim.phase === "asked") await this.#sleep(Math.min(pause, claim.askedEnd - now()));
  }

  /** Makes sure that the owner neither holds the lock nor waits for it. Not for a grant that the user has. */
  async giveUp(): Promise<void> {
    const { core, claim } = this;
    const server = claim.server as Server;
    const call = core.state.beginCall(claim);
    let reply: unknown;
    const isKnown = core.use((state) => state.giveUp(claim));
    if (isKnown) {
      const limit = Math.min(core.settings.reply, claim.last - core.state.at);
      reply = await server.call(limit, claim.cancelCommand(), this.#isAsking);
    }
    core.use((state) => {
      if (isKnown) state.cancelAnswered(claim, reply);
      state.endCall(call);
    });
  }

  /** Makes a call about the grant, when the earlier ones are done. `before` returns its command, `after` applies the answer. */
  async #call(before: (state: State) => Words, after: (state: State, answer: Answer) => void): Promise<void> {
    const { core, claim } = this;
    if (this.#turns) await new Promise<void>((turn) => { this.#turns?.push(turn); });
    else this.#turns = [];
    try {
      const words = core.use(before);
      const call = core.state.beginCall(claim);
      const answer = await core.repeat(claim.key, () => words);
      core.use((state) => {
        try {
          after(state, answer);
        } finally {
          state.endCall(call);
        }
      });
    } finally {
      const next = this.#turns.shift();
      if (next) next();
      else this.#turns = undefined;
    }
  }

  check(): Promise<void> {
    return this.#call((state) => state.check(this.claim), (state, answer) => state.confirmed(this.claim, answer));
  }

  /** Adds a hold. */
  enter(mode: Words): Promise<void> {
    return this.#call((state) => state.enter(this.claim, mode), (state, answer) => {
      state.confirmed(this.claim, answer);
      this.claim.holds += 1;
    });
  }

  /** Gives the grant this lease. `leaves`: it also takes the grant out of its session. */
  renew(lease: number, leaves: boolean): Promise<void> {
    return this.#call((state) => state.renew(this.claim, lease, leaves), (state, answer) => state.confirmed(this.claim, answer));
  }

  async extend(lease: number): Promise<void> {
    const { isFixed } = this.#terms;
    await this.renew(time("a lease", lease, isFixed ? 1 : LEAST_LEASE), isFixed);
    if (this.#timer) this.#end();
  }

  /** Lifts the token, for a quorum. False: the token is too far ahead of the server's clock. */
  async raise(token: number): Promise<boolean> {
    let isAhead = false;
    await this.#call((state) => state.raise(this.claim, token), (state, answer) => {
      isAhead = answer.reply instanceof Fault && answer.reply.word === "AHEAD";
      if (!isAhead) state.confirmed(this.claim, answer);
    });
    return !isAhead;
  }

  async detach(lease: number): Promise<void> {
    time("a lease", lease, 1);
    if (this.claim.holds > 1) throw misuse(this.claim.key, "its owner has other holds of it");
    await this.renew(lease, true);
    this.core.use((state) => state.letGo(this.claim));
    clearTimeout(this.#timer);
  }

  release(): Promise<void> {
    const { observer } = this.core.settings;
    const released = this.#call((state) => state.release(this.claim), (state, answer) => state.released(this.claim, answer));
    if (!this.#timer && !observer?.released) return released;
    const end = (error?: unknown): void => {
      if (this.claim.phase !== "held") clearTimeout(this.#timer);
      if (observer?.released) guard(() => observer.released?.(this.claim.key, now() - this.#taken, error));
    };
    return released.then(end, (error: unknown) => {
      end(error);
      throw error;
    });
  }

  /** Ends the grant at its maximum time, and at the end of a fixed lease. */
  #end(): void {
    const { core, claim } = this;
    clearTimeout(this.#timer);
    const next = core.use((state) => state.endByTime(claim, this.#most));
    if (typeof next === "number") {
      if (next < Infinity) this.#timer = later(next, () => this.#end()).unref();
    } else {
      void core.repeat(claim.key, () => next).then(({ reply }) => core.use((state) => state.ended(claim, reply)));
    }
  }

  /** Asks for the grant where its key is now: a node of the cluster has deleted or redirected it. */
  find(): void {
    void this.#find();
  }

  async #find(): Promise<void> {
    const { core, claim } = this;
    const call = core.state.beginCall(claim);
    let session = 0;
    const outcome = await core.repeat(claim.key, (server) => {
      ({ session } = server);
      if (!session) server.run();
      return session ? claim.renewCommand("SESSION", session) : undefined;
    });
    core.use((state) => {
      state.found(claim, outcome.server ?? claim.server, session, outcome);
      state.endCall(call);
    });
  }
}
