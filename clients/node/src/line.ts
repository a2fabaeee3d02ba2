/** A connection to one server, which all calls share. */

import type { Address, Connection, Library } from "./library.ts";
import type { Words } from "./state/claim.ts";
import { Fault } from "./state/fault.ts";
import { later, now } from "./time.ts";

/** A call under way. */
interface Flight {
  readonly words: Words;
  readonly limit: number;
  readonly end: number;
  readonly resolve: (reply: unknown) => void;
}

export class Line {
  /** It takes no more calls. */
  isOver = false;
  readonly #library: Library;
  readonly #connection: Connection;
  #isOpen = false;
  #isCorked = false;
  readonly #flights = new Set<Flight>();
  /** One timer for all calls, at the earliest end. */
  #timer: NodeJS.Timeout | undefined;
  #due = Infinity;

  constructor(library: Library, at: Address | undefined, limit: number) {
    this.#library = library;
    this.#connection = library.open(at, limit, () => { this.isOver = true; });
    this.#connection.ready.then(() => {
      this.#isOpen = !this.isOver;
      for (const flight of this.#flights) this.#send(flight);
    }, (error: unknown) => {
      this.isOver = true;
      for (const flight of this.#flights) this.#done(flight, library.fault(error, false));
    });
  }

  /** Sends a command once. Resolves with the reply, or a Fault. */
  call(limit: number, words: Words): Promise<unknown> {
    return new Promise((resolve) => {
      const flight: Flight = { words, limit, end: now() + limit, resolve };
      this.#flights.add(flight);
      if (flight.end < this.#due) this.#watch(flight.end);
      if (this.#isOpen) this.#send(flight);
    });
  }

  #send(flight: Flight): void {
    if (this.#flights.size > 1 && !this.#isCorked) { // what comes together is sent together
      this.cork();
      process.nextTick(() => this.uncork());
    }
    this.#connection.send(flight.words).then((reply) => this.#done(flight, reply), (error: unknown) => {
      const fault = this.#library.fault(error, true);
      // The address may lead to a new primary.
      if (fault.word === "READONLY" || fault.word === "UNBLOCKED" || fault.word === "MASTERDOWN") this.isOver = true;
      this.#done(flight, fault);
    });
  }

  #done(flight: Flight, reply: unknown): void {
    if (!this.#flights.delete(flight)) return;
    if (this.isOver && this.#flights.size === 0) this.close();
    flight.resolve(reply);
  }

  #watch(end: number): void {
    clearTimeout(this.#timer);
    this.#due = end;
    this.#timer = later(end - now(), () => this.#expire());
  }

  /** Ends the calls whose time is over. */
  #expire(): void {
    const at = now();
    let next = Infinity;
    for (const flight of this.#flights) {
      if (flight.end > at) {
        next = Math.min(next, flight.end);
        continue;
      }
      this.isOver = true;
      const text = this.#isOpen ? `no reply in ${Math.round(flight.limit)} ms` : "no connection in time";
      this.#done(flight, Fault.none(text, this.#isOpen));
    }
    this.#due = Infinity;
    if (next < Infinity) this.#watch(next);
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
    if (this.#flights.size === 0) clearTimeout(this.#timer);
    this.#connection.close();
  }
}
