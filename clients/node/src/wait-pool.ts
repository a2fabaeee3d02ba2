/** The connections on which calls wait in the server: as many as calls, and reused. */

import type { Address, Driver } from "./driver.ts";
import { Line } from "./line.ts";
import { type Timer, later } from "./time.ts";

const MOST_IDLE = 16;
const IDLE_MS = 60_000;

export class WaitPool {
  readonly #driver: Driver;
  readonly #at: Address | undefined;
  readonly #reply: number;
  /** The last used is the last. */
  #idle: { readonly line: Line; readonly end: Timer }[] = [];
  #all = new Set<Line>();
  #isClosed = false;

  constructor(driver: Driver, at: Address | undefined, reply: number) {
    this.#driver = driver;
    this.#at = at;
    this.#reply = reply;
  }

  /** How many connections there are, idle or waiting. */
  get size(): number {
    return this.#all.size;
  }

  /** Rejects with ServerReply or NoReply. */
  async take(): Promise<Line> {
    const idle = this.#idle.pop();
    if (idle) {
      idle.end.cancel();
      return idle.line;
    }
    const line = await Line.open(this.#driver, { name: "lock-wait", ms: this.#reply, at: this.#at });
    this.#all.add(line);
    line.onClose = () => {
      this.#all.delete(line);
      this.#idle = this.#idle.filter((it) => it.line !== line || (it.end.cancel(), false));
    };
    if (this.#isClosed) line.close();
    return line;
  }

  /** Gives back a line on which nothing is under way. */
  give(line: Line): void {
    if (!line.open) return;
    if (this.#isClosed || this.#idle.length >= MOST_IDLE) return line.close("not needed");
    this.#idle.push({ line, end: later(IDLE_MS, () => line.close("idle")) });
  }

  close(): void {
    this.#isClosed = true;
    for (const line of [...this.#all]) line.close();
  }
}
