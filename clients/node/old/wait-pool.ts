/** The connections on which calls wait in the server: as many as calls, and reused. */

import type { Address, Driver } from "./driver.ts";
import { Line } from "./line.ts";
import { type Timer, later, now } from "./time.ts";

const MOST_IDLE = 16;
const IDLE_MS = 60_000;

export class WaitPool {
  readonly #driver: Driver;
  readonly #at: Address | undefined;
  readonly #reply: number;
  /** The last used is the last. */
  #idle: { readonly line: Line; readonly since: number }[] = [];
  /** Set while any is idle: one timer for all. */
  #end: Timer | undefined;
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

  /** One that is idle, if there is any. */
  takeIdle(): Line | undefined {
    return this.#idle.pop()?.line;
  }

  /** A new one. Rejects with ServerReply or NoReply. */
  async open(): Promise<Line> {
    const line = await Line.open(this.#driver, { name: "lock-wait", ms: this.#reply, at: this.#at });
    this.#all.add(line);
    line.onClose = () => {
      this.#all.delete(line);
      this.#idle = this.#idle.filter((it) => it.line !== line);
    };
    if (this.#isClosed) line.close();
    return line;
  }

  /** Gives back a line on which nothing is under way. */
  give(line: Line): void {
    if (!line.open) return;
    if (this.#isClosed || this.#idle.length >= MOST_IDLE) return line.close("not needed");
    this.#idle.push({ line, since: now() });
    this.#end ??= later(IDLE_MS, this.#endIdle);
  }

  #endIdle = (): void => {
    for (const { line, since } of [...this.#idle]) {
      if (now() - since >= IDLE_MS - 1) line.close("idle");
    }
    const [oldest] = this.#idle;
    this.#end = oldest && later(oldest.since + IDLE_MS - now(), this.#endIdle);
  };

  /** Closes what is idle. */
  dropIdle(why: string): void {
    for (const { line } of [...this.#idle]) line.close(why);
  }

  /** Closes all connections: what waits on them lines up again. */
  drop(why: string): void {
    for (const line of [...this.#all]) line.close(why);
  }

  close(): void {
    this.#isClosed = true;
    this.drop("closed here");
    this.#end?.cancel();
    this.#end = undefined;
  }
}
