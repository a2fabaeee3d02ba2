/** A connection to one server, which all calls share. */

import type { Address, Connection, Library } from "./library.ts";
import type { Words } from "./state/claim.ts";
import { Fault, understood } from "./state/fault.ts";
import { later, now } from "./time.ts";

export class Line {
  /** It takes no more calls. */
  isOver = false;
  /** Calls share the pipeline of the next POLL. */
  isShared = false;
  readonly #connection: Connection;
  readonly #ready: Promise<unknown>;
  /** Ends the opening. */
  #abandon: (why: Error) => void = () => {};
  #isOpen = false;
  /** A call had no reply in time. */
  #isLate = false;
  /** When the calls under way are to be answered, in the order of the replies. */
  readonly #ends: number[] = [];
  /** One timer for all calls, at the earliest end. */
  #timer: NodeJS.Timeout | undefined;
  #due = Infinity;

  constructor(library: Library, at: Address | undefined, limit: number) {
    this.#connection = library.open(at, limit, () => { this.isOver = true; });
    const abandoned = new Promise((_, reject) => { this.#abandon = reject; });
    this.#ready = Promise.race([this.#connection.ready, abandoned]);
    this.#ready.then(() => { this.#isOpen = true; }, () => { this.isOver = true; });
  }

  /** Calls are under way. */
  get isBusy(): boolean {
    return this.#ends.length > 0;
  }

  /**
   * Sends a command once. Resolves with the reply, or a Fault. A call that has no reply by its end ends the connection, with
   * the other calls.
   */
  call(end: number, words: Words): Promise<unknown> {
    this.#ends.push(end);
    if (end < this.#due) this.#watch();
    const send = (): Promise<unknown> => this.#connection.send(words, this.isShared || this.#ends.length > 1);
    const reply = this.#isOpen ? send() : this.#ready.then(send);
    return reply.then(this.#answered, this.#failed);
  }

  readonly #answered = (reply: unknown): unknown => {
    this.#ends.shift();
    if (this.isOver && this.#ends.length === 0) this.close();
    return reply;
  };

  readonly #failed = (error: unknown): unknown => {
    const fault = this.#isLate ? Fault.none(`no ${this.#isOpen ? "reply" : "connection"} in time`, this.#isOpen, error)
      : understood(error, this.#isOpen);
    // The address may lead to a new primary.
    if (fault.word === "READONLY" || fault.word === "UNBLOCKED" || fault.word === "MASTERDOWN") this.isOver = true;
    return this.#answered(fault);
  };

  /** Ends the connection if the time of a call is over, or looks again at the next end. */
  #watch(): void {
    clearTimeout(this.#timer);
    this.#due = this.#ends.reduce((one, other) => Math.min(one, other), Infinity);
    this.#isLate ||= this.#due <= now();
    if (this.#isLate) this.close();
    else if (this.#due < Infinity) this.#timer = later(this.#due - now(), () => this.#watch());
  }

  close(): void {
    this.isOver = true;
    clearTimeout(this.#timer);
    this.#abandon(new Error("the connection was closed"));
    this.#connection.close();
  }
}
