/** One server: the two connections to it, and its session. */

import { type Address, type Library, textOf } from "./library.ts";
import { Line } from "./line.ts";
import { SessionState, type Words } from "./state/claim.ts";
import { Fault } from "./state/fault.ts";
import { Sleeper } from "./time.ts";

export class Server extends SessionState {
  /** The connection of its session has broken. */
  isDown = false;
  /** Polls the session, while it runs. */
  loop: Promise<void> | undefined;
  /** Of the loop, after a try that failed. */
  readonly rest = new Sleeper();
  #calls: Line | undefined;
  #poller: Line | undefined;

  /** `limit`: how long connecting may take. */
  constructor(private readonly library: Library, private readonly limit: number, readonly at?: Address) {
    super(at ? textOf(at) : library.address);
  }

  /** The connection of the session. */
  get poller(): Line {
    return (this.#poller = this.#usable(this.#poller));
  }

  /** The connection of all other calls. */
  get calls(): Line {
    return (this.#calls = this.#usable(this.#calls));
  }

  #usable(line: Line | undefined): Line {
    return line && !line.isOver ? line : new Line(this.library, this.at, this.limit);
  }

  /** Sends a command once. Resolves with the reply by this time, or a Fault. `last`: the reply that led here. */
  call(end: number, words: Words, last?: unknown): Promise<unknown> {
    const isAsking = last instanceof Fault && last.word === "ASK";
    if (this.#poller?.isShared && !isAsking) return this.#poller.call(end, words);
    const { calls } = this;
    if (isAsking) void calls.call(end, ["ASKING"]);
    return calls.call(end, words);
  }

  /** Closes the connection of the session. */
  hangUp(): void {
    this.#poller?.close();
  }

  /** Ends the loop and closes the connections. */
  async close(): Promise<void> {
    this.rest.wake();
    this.hangUp();
    await this.loop;
    this.#calls?.close();
  }
}
