/** One connection, with a limit to its silence. */

import type { Driver, OpenOptions, Opening, Socket, Words } from "./driver.ts";
import { NoReply } from "./errors.ts";
import { type Timer, later, now } from "./time.ts";

/** A connection on which each reply, or another one before it, has to come within `reply` ms. */
export class Line {
  /** Called once, when the connection has closed for whatever reason. */
  onClose: ((why: Error) => void) | undefined;
  readonly #reply: number;
  readonly #opening: Opening;
  #socket: Socket | undefined;
  #why: Error | undefined;
  /** Whether it was closed here because an answer did not come. */
  wasSilent = false;
  #unanswered = 0;
  #heard = 0;
  #watch: Timer | undefined;
  /** Rejects the calls that are under way when the connection is closed here. */
  #calls = new Set<(error: Error) => void>();

  private constructor(driver: Driver, options: Omit<OpenOptions, "closed">) {
    this.#reply = options.ms;
    this.#opening = driver.open({ ...options, closed: (why) => this.#closed(why) });
  }

  /** Rejects with ServerReply or NoReply, within `ms`. */
  static async open(driver: Driver, options: Omit<OpenOptions, "closed">): Promise<Line> {
    const line = new Line(driver, options);
    const ready = line.#opening.ready;
    try {
      line.#socket = await new Promise<Socket>((resolve, reject) => {
        const silent = (): void => reject(new NoReply(`no connection within ${options.ms} ms`));
        const timer = later(options.ms, silent, { patience: options.ms, ref: true });
        ready.finally(() => timer.cancel()).then(resolve, reject);
      });
    } catch (error) {
      line.#opening.destroy();
      throw error;
    }
    line.#heard = now();
    if (driver.unref) line.#socket.unref();
    return line;
  }

  get open(): boolean {
    return this.#socket !== undefined && this.#why === undefined;
  }

  /** Whether it has answered, or was opened, in the last `reply` ms. */
  get wasHeard(): boolean {
    return now() - this.#heard < this.#reply;
  }

  /** Sends a command that is to be answered soon. Rejects with ServerReply or NoReply. */
  send(words: Words): Promise<unknown> {
    if (this.#unanswered === 0) this.#heard = now();
    this.#watch ??= later(this.#reply, this.#look, { patience: this.#reply });
    return this.#send(words, 1);
  }

  /** Sends a command that may take any time. Rejects with ServerReply or NoReply. */
  sendPatiently(words: Words): Promise<unknown> {
    return this.#send(words, 0);
  }

  #send(words: Words, watched: number): Promise<unknown> {
    if (!this.#socket || this.#why) return Promise.reject(this.#why ?? new NoReply("not connected"));
    const reply = this.#socket.send(words);
    this.#unanswered += watched;
    return new Promise((resolve, reject) => {
      this.#calls.add(reject);
      const done = (): void => {
        this.#calls.delete(reject);
        this.#unanswered -= watched;
        this.#heard = now();
      };
      reply.then(
        (value) => { done(); resolve(value); },
        (error: unknown) => { done(); reject(error as Error); },
      );
    });
  }

  /** Closes at once. What is not answered is rejected with NoReply. */
  close(why = "closed here"): void {
    this.#closed(new NoReply(why));
  }

  #look = (): void => {
    this.#watch = undefined;
    if (this.#why || this.#unanswered === 0) return;
    const silent = now() - this.#heard;
    if (silent >= this.#reply) {
      this.wasSilent = true;
      this.close(`no answer within ${this.#reply} ms`);
    } else {
      this.#watch = later(this.#reply - silent, this.#look, { patience: this.#reply });
    }
  };

  #closed(why: Error): void {
    if (this.#why) return;
    this.#why = why instanceof NoReply ? why : new NoReply("the connection has closed", { cause: why });
    this.#watch?.cancel();
    this.#watch = undefined;
    this.#opening.destroy();
    for (const reject of this.#calls) reject(this.#why);
    this.#calls.clear();
    this.onClose?.(this.#why);
  }
}
