/** A connection to one server, which all calls share. */

import type { Address, Connection, Library } from "./library.ts";
import type { Words } from "./state/claim.ts";
import { Fault } from "./state/fault.ts";
import { later } from "./time.ts";

export class Line {
  /** It takes no more calls. */
  isOver = false;
  readonly #library: Library;
  readonly #connection: Connection;
  #opening: Promise<unknown> | undefined;
  #isOpen = false;
  #isCorked = false;
  #calls = 0;

  constructor(library: Library, at: Address | undefined, limit: number) {
    this.#library = library;
    this.#connection = library.open(at, limit, () => { this.isOver = true; });
    this.#opening = this.#connection.ready.then(
      () => { this.#isOpen = !this.isOver; },
      (error: unknown) => {
        this.isOver = true;
        return library.fault(error, false);
      },
    );
  }

  /** Sends a command once. Resolves with the reply, or a Fault. */
  call(limit: number, words: Words): Promise<unknown> {
    this.#calls += 1;
    return new Promise((resolve) => {
      let isSent = false;
      let isDone = false;
      const done = (reply: unknown): void => {
        if (isDone) return;
        isDone = true;
        clearTimeout(timer);
        this.#calls -= 1;
        if (this.isOver && this.#calls === 0) this.close();
        resolve(reply);
      };
      const timer = later(limit, () => {
        if (isDone) return;
        this.isOver = true;
        done(Fault.none(isSent ? `no reply in ${Math.round(limit)} ms` : "no connection in time", isSent));
      });
      const send = (): void => {
        if (isDone) return;
        isSent = true;
        this.#join();
        this.#connection.send(words).then(done, (error: unknown) => {
          const fault = this.#library.fault(error, true);
          // The address may lead to a new primary.
          if (fault.word === "READONLY" || fault.word === "UNBLOCKED" || fault.word === "MASTERDOWN") this.isOver = true;
          done(fault);
        });
      };
      if (this.#isOpen) send();
      else void this.#opening?.then((fault) => (this.#isOpen ? send() : done(fault ?? Fault.none("the connection was closed", false))));
    });
  }

  /** What is sent from now on is sent together, at `uncork`. */
  cork(): void {
    if (!this.#isOpen || this.#isCorked) return;
    this.#isCorked = true;
    this.#connection.cork?.();
  }

  uncork(): void {
    if (!this.#isCorked) return;
    this.#isCorked = false;
    this.#connection.uncork?.();
  }

  /** What comes together is sent together. */
  #join(): void {
    if (this.#isCorked || this.#calls === 1 || !this.#connection.cork) return;
    this.cork();
    process.nextTick(() => this.uncork());
  }

  close(): void {
    this.isOver = true;
    this.#isOpen = false;
    this.#connection.close();
  }
}
