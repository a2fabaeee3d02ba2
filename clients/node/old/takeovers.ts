/** Grants that came from a wait and that the keeper is to take over soon: most are given back before that is worth a call. */

import type { Holding } from "./holding.ts";
import { type Timer, later, now } from "./time.ts";

/** How long a lock is held that is not held for a moment only. */
const MOMENT = 100;

/** They share one timer, which is set while there are any. */
export class Takeovers {
  /** When each is due. */
  readonly #due = new Map<Holding, number>();
  readonly #takeOver: (holding: Holding) => void;
  #timer: Timer | undefined;
  #next = Infinity;

  constructor(takeOver: (holding: Holding) => void) {
    this.#takeOver = takeOver;
  }

  /** Takes the grant over after a moment, but no later than this. */
  add(holding: Holding, latest: number): void {
    const due = Math.min(now() + MOMENT, latest);
    this.#due.set(holding, due);
    if (due < this.#next) this.#wakeAt(due);
  }

  /** Whether it was still to be taken over. */
  delete(holding: Holding): boolean {
    return this.#due.delete(holding);
  }

  #wakeAt(time: number): void {
    this.#timer?.cancel();
    this.#next = time;
    this.#timer = later(time - now(), this.#look);
  }

  #look = (): void => {
    const time = now() + 1; // a timer comes up to a millisecond early
    let next = Infinity;
    for (const [holding, due] of this.#due) {
      if (due <= time) this.#takeOver(holding);
      else if (due < next) next = due;
    }
    this.#next = Infinity;
    if (next < Infinity) this.#wakeAt(next);
  };
}
