/** A connection to one server, which all calls share. */

import type { Address, Connection, Library } from "./library.ts";
import type { Words } from "./state/claim.ts";
import { Fault, understood } from "./state/fault.ts";
import { later } from "./time.ts";

export class Line {
  /** It takes no more calls. */
  isOver = false;
  readonly #connection: Connection;
  readonly #ready: Promise<unknown>;
  /** Ends the opening. */
  #abandon: (why: Error) => void = () => {};
  #isOpen = false;
  #isCorked = false;
  /** A call had no reply in time. */
  #isLate = false;
  /** How many calls have no reply yet. */
  #open = 0;

  constructor(library: Library, at: Address | undefined, limit: number) {
    this.#connection = library.open(at, limit, () => { this.isOver = true; });
    const abandoned = new Promise((_, reject) => { this.#abandon = reject; });
    this.#ready = Promise.race([this.#connection.ready, abandoned]);
    this.#ready.then(() => { this.#isOpen = true; }, () => { this.isOver = true; });
  }

  /**
   * Sends a command once. Resolves with the reply, or a Fault. A call that has no reply in time ends the connection, with
   * the other calls.
   */
  async call(limit: number, words: Words): Promise<unknown> {
    let isAnswered = false;
    const timer = later(limit, () => {
      this.#isLate ||= !isAnswered;
      if (!isAnswered) this.close();
    });
    this.#open += 1;
    try {
      if (!this.#isOpen) await this.#ready;
      return await this.#send(words);
    } catch (error) {
      const fault = this.#isLate ? Fault.none(`no ${this.#isOpen ? "reply" : "connection"} in time`, this.#isOpen, error)
        : understood(error, this.#isOpen);
      // The address may lead to a new primary.
      if (fault.word === "READONLY" || fault.word === "UNBLOCKED" || fault.word === "MASTERDOWN") this.isOver = true;
      return fault;
    } finally {
      isAnswered = true;
      clearTimeout(timer);
      this.#open -= 1;
      if (this.isOver && this.#open === 0) this.close();
    }
  }

  #send(words: Words): Promise<unknown> {
    if (this.#open > 1 && !this.#isCorked) { // what comes together is sent together
      this.cork();
      process.nextTick(() => this.uncork());
    }
    return this.#connection.send(words);
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
    this.#abandon(new Error("the connection was closed"));
    this.#connection.close();
  }
}
