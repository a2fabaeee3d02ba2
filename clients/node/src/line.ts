/** A connection to one server, which all calls share. */

import type { Address, Connection, Library } from "./library.ts";
import type { Words } from "./state/claim.ts";
import { Fault } from "./state/fault.ts";
import { later, now } from "./time.ts";

export class Line {
  /** It takes no more calls. */
  isOver = false;
  readonly #library: Library;
  readonly #connection: Connection;
  readonly #ready: Promise<unknown>;
  /** Ends the opening. */
  #abandon: (why: Error) => void = () => {};
  #isOpen = false;
  #isCorked = false;
  /** A call had no reply in time. */
  #isLate = false;
  /** When the calls under way are to be answered, in the order of the replies. */
  readonly #ends: number[] = [];
  /** One timer for all calls, at the earliest end. */
  #timer: NodeJS.Timeout | undefined;
  #due = Infinity;

  constructor(library: Library, at: Address | undefined, limit: number) {
    this.#library = library;
    this.#connection = library.open(at, limit, () => { this.isOver = true; });
    this.#ready = new Promise((resolve, reject) => {
      this.#abandon = reject;
      this.#connection.ready.then(resolve, reject);
    });
    this.#ready.then(() => { this.#isOpen = true; }, () => { this.isOver = true; });
  }

  /**
   * Sends a command once. Resolves with the reply, or a Fault. A call that has no reply in time ends the connection, with
   * the calls behind it.
   */
  call(limit: number, words: Words): Promise<unknown> {
    const end = now() + limit;
    this.#ends.push(end);
    if (end < this.#due) this.#watch(end);
    const reply = this.#isOpen ? this.#send(words) : this.#ready.then(() => this.#send(words));
    return reply.then(this.#answered, this.#failed);
  }

  #send(words: Words): Promise<unknown> {
    if (this.#ends.length > 1 && !this.#isCorked) { // what comes together is sent together
      this.cork();
      process.nextTick(() => this.uncork());
    }
    return this.#connection.send(words);
  }

  readonly #answered = (reply: unknown): unknown => {
    this.#ends.shift();
    if (this.isOver && this.#ends.length === 0) this.close();
    return reply;
  };

  readonly #failed = (error: unknown): unknown => {
    const fault = this.#isLate ? Fault.none(`no ${this.#isOpen ? "reply" : "connection"} in time`, this.#isOpen, error)
      : this.#library.fault(error, this.#isOpen);
    // The address may lead to a new primary.
    if (fault.word === "READONLY" || fault.word === "UNBLOCKED" || fault.word === "MASTERDOWN") this.isOver = true;
    return this.#answered(fault);
  };

  #watch(end: number): void {
    clearTimeout(this.#timer);
    this.#due = end;
    this.#timer = later(end - now(), () => this.#expire());
  }

  /** Ends the connection if the time of a call is over. */
  #expire(): void {
    const next = this.#ends.reduce((one, other) => Math.min(one, other), Infinity);
    this.#due = Infinity;
    if (next > now()) {
      if (next < Infinity) this.#watch(next);
      return;
    }
    this.#isLate = true;
    this.close();
  }

  /** What is sent from now on is sent together, at `uncork`. */
  cork(): void {
    this.#isCorked = this.#isOpen;
    if (this.#isOpen) this.#connection.cork?.();
  }

  uncork(): void {
    if (this.#isCorked) this.#connection.uncork?.();
    this.#isCorked = false;
  }

  close(): void {
    this.isOver = true;
    clearTimeout(this.#timer);
    this.#abandon(new Error("the connection was closed"));
    this.#connection.close();
  }
}
