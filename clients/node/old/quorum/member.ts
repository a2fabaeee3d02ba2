/** One server of a quorum: whether it answers, and what it has yet to be told. */

import type { Driver, Words } from "../driver.ts";
import { type Kind, LockError, LockLost, LockUnavailable, ServerReply, errorOf } from "../errors.ts";
import type { Line } from "../line.ts";
import { type Answer, Ask, Servers } from "../servers.ts";
import { Stop } from "../stop.ts";
import { Pace, later, now } from "../time.ts";

/** How many releases are kept for a server that is down. Those that it is not told of end with their leases. */
const MOST_OWED = 10_000;

/** How a call is made. */
export interface CallOptions {
  readonly kind: Kind;
  /** The key as the user knows it, for the errors. */
  readonly name: string;
  /** How long it may take. */
  readonly ms: number;
  readonly stop?: Stop;
}

/** A server. Where it does not answer, it is left alone by all calls but one that looks for it. */
export class Member {
  /** Its place in the order in which the servers were given. */
  readonly place: number;
  readonly address: string;
  readonly prefix: string;
  readonly servers: Servers;
  readonly #tell: (event: "server-down" | "server-back", member: Member, error?: unknown) => void;
  #down: LockUnavailable | undefined;
  /** A release of an owner that is never used again is right at any time. */
  #owed: Words[] = [];
  readonly #closed = new Stop();

  constructor(driver: Driver, place: number, reply: number,
    tell: (event: "server-down" | "server-back", member: Member, error?: unknown) => void) {
    this.place = place;
    this.address = driver.server || `server ${place + 1}`;
    this.prefix = driver.prefix;
    this.#tell = tell;
    this.servers = new Servers(driver, reply, () => {});
  }

  /** Why it is left alone, where it is. */
  get down(): LockUnavailable | undefined {
    return this.#down;
  }

  /** Sends a call, again where the connection fails, and only while there is time. Rejects with a LockError, or what stopped it. */
  async ask(words: Words, { kind, name, ms, stop = new Stop() }: CallOptions, ask = new Ask()): Promise<Answer> {
    if (this.#down) throw this.#down;
    const key = words[1] as string;
    try {
      return await this.servers.ask(key, words, { kind, name, until: now() + ms, stop }, ask);
    } catch (error) {
      this.learn(key, error);
      throw error;
    }
  }

  /**
   * Sees to it that the owner holds nothing here, now or when the server is back. On the connection on which it has
   * asked for the lock that is also true of what the server has not read yet. Rejects with a LockError.
   */
  async release(key: string, owner: string, { name, ms }: Omit<CallOptions, "kind">, asked = new Ask()): Promise<void> {
    const words: Words = ["LOCK.RELEASE", key, owner, "ALL"];
    const line = asked.sentOn?.line;
    const ask = new Ask();
    try {
      if (line?.open) await behind(line, words, name, ms);
      else await this.ask(words, { kind: "release", name, ms }, ask);
    } catch (error) {
      if (error instanceof LockLost && ask.repeated) return; // the first of two calls has done it
      if (error instanceof LockUnavailable) this.#owe(words);
      throw error;
    }
  }

  /** Takes note of a failure. */
  learn(key: string, error: unknown): void {
    if (!(error instanceof LockUnavailable) || this.#down || this.#closed.stopped) return;
    this.#down = error;
    this.#tell("server-down", this, error);
    void this.#lookFor(key);
  }

  close(): void {
    this.#closed.stop("closed");
    this.servers.close();
  }

  #owe(words: Words): void {
    if (this.#owed.length >= MOST_OWED) this.#owed.shift();
    this.#owed.push(words);
    this.learn(words[1] as string, new LockUnavailable("a release was not answered in time"));
  }

  /** Until it answers, and has been told what it had missed. */
  async #lookFor(key: string): Promise<void> {
    const pace = new Pace();
    while (!this.#closed.stopped) {
      try {
        const ping = async (): Promise<void> => (await this.servers.of(key)).keeper.ping();
        await this.#closed.race(ping(), now() + this.servers.reply);
        if (this.#owed.length === 0) {
          this.#down = undefined;
          return this.#tell("server-back", this);
        }
        const owed = this.#owed.splice(0);
        const told = await Promise.allSettled(owed.map((words) => this.servers.ask(words[1] as string, words,
          { kind: "release", name: "", until: now() + this.servers.reply, stop: this.#closed })));
        const missed = owed.filter((_, at) => {
          const it = told[at];
          return it?.status === "rejected" && (!(it.reason instanceof LockError) || it.reason instanceof LockUnavailable);
        });
        this.#owed.unshift(...missed);
        if (missed.length === 0) continue;
      } catch {
        // not yet
      }
      await new Promise<void>((resolve) => { later(pace.next(), resolve); });
    }
  }
}

/** Sends a release on this line, after what was sent on it before. */
async function behind(line: Line, words: Words, name: string, ms: number): Promise<void> {
  try {
    await new Stop().race(line.send(words), now() + ms);
  } catch (error) {
    if (error instanceof ServerReply) throw errorOf(error, "release", name);
    throw new LockUnavailable(`${name}: the release was not answered in time`, { key: name, cause: error });
  }
}
