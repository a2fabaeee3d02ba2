/** One server: the loop that polls its session, and calls to it. */

import { Line } from "./line.ts";
import { type Address, type Library, textOf } from "./library.ts";
import { type Settings, guard } from "./options.ts";
import { SessionState, type Words } from "./state/claim.ts";
import { Fault } from "./state/fault.ts";
import type { State } from "./state/state.ts";
import { Pauses, Sleeper, now } from "./time.ts";

/** What the servers of one client have in common. */
export interface Common {
  readonly library: Library;
  readonly settings: Settings;
  readonly state: State;
  /** Uses the state, and then wakes the callers of changed claims. */
  use<T>(change: (state: State) => T): T;
  /** A server may have lost claims to other nodes of the cluster. */
  relocate(server: Server): Promise<void>;
}

export class Server extends SessionState {
  readonly #common: Common;
  readonly #at: Address | undefined;
  #calls: Line | undefined;
  #poller: Line | undefined;
  #loop: Promise<void> | undefined;
  readonly #rest = new Sleeper();
  /** The last POLL has woken callers. */
  #hasWoken = false;
  /** Calls share the pipeline of the next POLL; so many do. */
  #collected: number | undefined;
  isDown = false;

  constructor(common: Common, at?: Address) {
    super(at ? textOf(at) : common.library.address);
    this.#common = common;
    this.#at = at;
  }

  get host(): string {
    return this.#at?.host ?? "";
  }

  /** Sends a command once. Resolves with the reply, or a Fault. `isAsking`: ASK led here. */
  call(limit: number, words: Words, isAsking = false): Promise<unknown> {
    if (!(limit > 0)) return Promise.resolve(Fault.none("no time was left", false));
    if (this.#collected !== undefined && !isAsking) {
      this.#collected += 1;
      return this.#session().call(limit, words);
    }
    const line = this.#line();
    if (isAsking) void line.call(limit, ["ASKING"]);
    return line.call(limit, words);
  }

  #open(): Line {
    const { library, settings } = this.#common;
    return new Line(library, this.#at, settings.reply);
  }

  #line(): Line {
    if (!this.#calls || this.#calls.isOver) this.#calls = this.#open();
    return this.#calls;
  }

  /** The connection of the session. */
  #session(): Line {
    if (!this.#poller || this.#poller.isOver) this.#poller = this.#open();
    return this.#poller;
  }

  /** Starts the loop, if it does not run, or ends its pause. */
  run(): void {
    this.#rest.wake();
    if (this.#loop || this.#common.state.isClosed) return;
    this.#line();
    this.#loop = this.#run().finally(() => { this.#loop = undefined; });
  }

  get isRunning(): boolean {
    return this.#loop !== undefined;
  }

  /** Polls the session. It alone uses the session's connection, and runs no code of the user. */
  async #run(): Promise<void> {
    const { state, settings, library } = this.#common;
    let pauses = new Pauses();
    for (let wasUnknown = false; !state.isClosed;) {
      const began = now();
      const fault = await this.#round();
      const isUnknown = fault?.word === "NOSESSION";
      const isBroken = fault !== undefined && !isUnknown;
      if (isBroken) {
        this.#poller?.close();
        this.#hasWoken = false;
      }
      this.#common.use(() => {
        if (isUnknown) state.sessionEnded(this);
        else if (fault) state.failed(this, began, fault);
      });
      const isOver = state.isClosed || (isBroken && state.isIdle(this)); // until it is needed
      this.#observe(isBroken && !isOver ? fault : undefined);
      if (isOver) break;
      if (!fault || (isUnknown && !wasUnknown)) {
        pauses = new Pauses();
        wasUnknown = isUnknown;
        continue;
      }
      if (isBroken && library.cluster) void this.#common.relocate(this);
      const pause = Math.min(pauses.next(), state.isUnsure(this) ? settings.reply / 10 : Infinity);
      const least = Math.min(pause, 50); // a call that needs a session ends the rest
      if (least > 0) await new Promise((resolve) => { setTimeout(resolve, least); });
      if (!state.isClosed) await this.#rest.sleep(pause - least);
    }
    this.#poller?.close();
  }

  #observe(fault: Fault | undefined): void {
    if (this.isDown === (fault !== undefined)) return;
    this.isDown = fault !== undefined;
    const { observer } = this.#common.settings;
    if (!observer?.connection) return;
    const error = fault && (fault.cause ?? new Error(fault.text));
    queueMicrotask(() => guard(() => observer.connection?.(this.address, error))); // the loop runs no code of the user
  }

  /** Opens a session if there is none, sends what is due, and polls once. */
  async #round(): Promise<Fault | undefined> {
    const { state, settings } = this.#common;
    const { reply, silence, service } = settings;
    this.#common.use(() => state.leaveSession(this));
    if (!this.session) {
      const open = ["LOCK.SESSION", "OPEN", "TIMEOUT", Math.ceil(silence), "NAME", service.slice(0, 80)];
      const opened = await this.#session().call(reply, open);
      if (typeof opened !== "number") return opened instanceof Fault ? opened : Fault.none("OPEN answered no session", false);
      this.#common.use(() => state.opened(this, opened));
      if (state.isClosed) {
        await this.#session().call(reply, ["LOCK.SESSION", "CLOSE", opened]);
        return undefined;
      }
    }
    const { session } = this;
    const due = this.#common.use(() => state.due(this));
    if (due.length > 0) {
      const sent = state.at;
      const limit = reply * (1 + Math.floor(due.length / 500)); // so that each reply has its time
      const replies = await Promise.all(due.map(({ words }) => this.#session().call(limit, words)));
      this.#common.use(() => due.forEach(({ apply }, i) => apply(replies[i], sent)));
      const broken = replies.find((it): it is Fault => it instanceof Fault && it.word === "");
      if (broken || this.session !== session) return broken;
    }
    const collected = this.#hasWoken ? await this.#collect() : 0;
    const block = collected > 0 || this.isDown ? 0 : this.#common.use(() => state.block(this));
    const sent = this.#common.use(() => state.at);
    const poll = ["LOCK.SESSION", "POLL", session, ...(block ? ["BLOCK", block] : [])];
    const polling = this.#session().call(reply + block, poll);
    this.#session().uncork();
    const polled = await polling;
    if (polled instanceof Fault) return polled;
    if (this.session === session) {
      this.#common.use(() => {
        state.polled(this, sent, polled);
        this.#hasWoken = state.changed.length > 0;
      });
    }
    return undefined;
  }

  /** What callers that were woken call at once is sent along with the next POLL. Resolves with the number of calls. */
  async #collect(): Promise<number> {
    this.#collected = 0;
    this.#session().cork();
    await new Promise(setImmediate);
    const collected = this.#collected;
    this.#collected = undefined;
    return collected;
  }

  /** Ends the loop and closes the connections. */
  async close(): Promise<void> {
    this.#rest.wake();
    this.#poller?.close();
    await this.#loop;
    this.#calls?.close();
  }
}
