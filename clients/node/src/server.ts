/** One server: the loop that polls its session, and calls to it. */

import { setTimeout as pause } from "node:timers/promises";
import { Line } from "./line.ts";
import { type Address, type Library, textOf } from "./library.ts";
import { type Settings, guard } from "./options.ts";
import { SessionState, type Words } from "./state/claim.ts";
import type { Release } from "./state/claims.ts";
import { Fault } from "./state/fault.ts";
import type { State } from "./state/state.ts";
import { Sleeper, now, pauseAfter } from "./time.ts";

/** What the servers of one client have in common. */
export interface Common {
  readonly library: Library;
  readonly settings: Settings;
  /** At the time of this call. */
  readonly state: State;
  /** Sends a release that is unfinished to where its key is. */
  finish(release: Release): Promise<void>;
  /** A server may have lost claims to other nodes of the cluster. */
  relocate(server: Server): Promise<void>;
}

export class Server extends SessionState {
  /** The connection of its session has broken. */
  isDown = false;
  isRunning = false;
  #calls: Line | undefined;
  /** The connection of the session. */
  #poller: Line | undefined;
  #loop: Promise<void> | undefined;
  readonly #rest = new Sleeper();

  constructor(private readonly common: Common, readonly at?: Address) {
    super(at ? textOf(at) : common.library.address);
  }

  /** Sends a command once. Resolves with the reply, or a Fault. `last`: the reply that led here. */
  call(limit: number, words: Words, last?: unknown): Promise<unknown> {
    if (!(limit > 0)) return Promise.resolve(Fault.none("no time was left", false));
    const isAsking = last instanceof Fault && last.word === "ASK";
    if (this.#poller?.isShared && !isAsking) return this.#poller.call(limit, words);
    const line = (this.#calls = this.#usable(this.#calls));
    if (isAsking) void line.call(limit, ["ASKING"]);
    return line.call(limit, words);
  }

  get #session(): Line {
    return (this.#poller = this.#usable(this.#poller));
  }

  #usable(line: Line | undefined): Line {
    const { library, settings } = this.common;
    return line && !line.isOver ? line : new Line(library, this.at, settings.replyTimeout);
  }

  /** Starts the loop, if it does not run, or ends its pause. */
  run(): void {
    this.#rest.wake();
    if (this.isRunning || this.common.state.isClosed) return;
    this.#calls = this.#usable(this.#calls); // both connections open at the same time
    this.isRunning = true;
    this.#loop = this.#run();
  }

  /** Polls the session. It alone uses the session's connection, and runs no code of the user. */
  async #run(): Promise<void> {
    const { settings, library } = this.common;
    let wasUnknown = false;
    for (let tries = 0; !this.common.state.isClosed;) {
      const began = now();
      const fault = await this.#round();
      const isUnknown = fault?.word === "NOSESSION";
      if (isUnknown) {
        this.session = 0;
      } else if (fault) {
        const { state } = this.common;
        this.#poller?.close();
        state.failed(this, began, fault);
        if (state.isClosed || state.isIdle(this)) break; // until it is needed
        if (library.cluster) void this.common.relocate(this);
      }
      this.#observe(isUnknown ? undefined : fault);
      tries = fault && !(isUnknown && !wasUnknown) ? tries + 1 : 0;
      wasUnknown = isUnknown || (wasUnknown && fault !== undefined);
      if (tries === 0 || this.common.state.isClosed) continue;
      const rest = Math.min(pauseAfter(tries), this.isUnsure ? settings.replyTimeout / 10 : Infinity);
      const least = rest > 0 ? pause(Math.min(rest, 50)) : undefined; // a call that needs a session ends the rest
      await Promise.all([least, this.#rest.sleep(rest)]);
    }
    this.#observe(undefined);
    this.#poller?.close();
    this.isRunning = false;
  }

  #observe(fault: Fault | undefined): void {
    if (this.isDown === (fault !== undefined)) return;
    this.isDown = fault !== undefined;
    const { observer } = this.common.settings;
    const error = fault && (fault.cause ?? new Error(fault.text));
    queueMicrotask(() => guard(() => observer?.connection?.(this.address, error))); // the loop runs no code of the user
  }

  /** Opens a session if there is none, sends what is due, and polls once. */
  async #round(): Promise<Fault | undefined> {
    const { settings: { replyTimeout } } = this.common;
    this.common.state.leaveSession(this);
    if (!this.session) {
      const fault = await this.#open();
      if (fault || this.common.state.isClosed) return fault;
    }
    const { session } = this;
    const due = this.common.state.due(this);
    if (due.length > 0) {
      const limit = replyTimeout * (1 + Math.floor(due.length / 500)); // so that each reply has its time
      const replies = await Promise.all(due.map(({ words }) => this.#session.call(limit, words)));
      const { state } = this.common;
      due.forEach(({ apply, release }, i) => {
        const reply = replies[i];
        apply(reply);
        if (release && state.isCluster && reply instanceof Fault && reply.redirects) void this.common.finish(release);
      });
      const broken = replies.find((it): it is Fault => it instanceof Fault && it.word === "");
      if (broken || this.session !== session) return broken;
    }
    const line = this.#session;
    line.isShared = true;
    let sent = 0;
    const polled = await new Promise((resolve) => {
      process.nextTick(() => { // callers that were woken have sent their calls: the POLL goes along with them
        line.isShared = false;
        const { state } = this.common;
        const block = this.isDown || line.isBusy ? 0 : state.block(this); // calls in the pipeline often bring the next event
        sent = state.at;
        resolve(line.call(replyTimeout + block, ["LOCK.SESSION", "POLL", session, ...(block ? ["BLOCK", block] : [])]));
      });
    });
    if (polled instanceof Fault) return polled;
    if (this.session === session) this.common.state.polled(this, sent, polled);
    return undefined;
  }

  async #open(): Promise<Fault | undefined> {
    const { replyTimeout, silence, service } = this.common.settings;
    const words = ["LOCK.SESSION", "OPEN", "TIMEOUT", Math.ceil(silence), "NAME", service.slice(0, 80)];
    const session = await this.#session.call(replyTimeout, words);
    if (typeof session !== "number") return session instanceof Fault ? session : Fault.none("OPEN returned no session id", false);
    const { state } = this.common;
    state.opened(this, session);
    if (state.isClosed) await this.#session.call(replyTimeout, ["LOCK.SESSION", "CLOSE", session]);
    return undefined;
  }

  /** Ends the loop and closes the connections. */
  async close(): Promise<void> {
    this.#rest.wake();
    this.#poller?.close();
    await this.#loop;
    this.#calls?.close();
  }
}
